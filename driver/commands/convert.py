"""`convert`: converts safetensors to BF16 GGUF, and back."""

from __future__ import annotations

from pathlib import Path

import click

from driver.errors import BenchError
from driver.run.progress import Display, step_progress
from engines import EngineError
from engines.weights.convert import convert
from engines.weights.unpack import unpack


@click.command(name="convert", short_help="Convert a Hugging Face folder to a BF16 GGUF, or back.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="The GGUF to write (with --unpack: the folder).")
@click.option("--python", type=click.Path(path_type=Path), help="A Python interpreter with torch and transformers.")
@click.option(
    "--source", type=click.Path(path_type=Path), help="A llama.cpp tree or archive instead of the pinned one."
)
@click.option("--unpack", "unpack_it", is_flag=True, help="Convert back: MODEL is a GGUF, --out a safetensors folder.")
def command(model: Path, out: Path | None, python: Path | None, source: Path | None, unpack_it: bool) -> int:
    """Convert MODEL (a Hugging Face folder) to a BF16 GGUF with llama.cpp's converter, check it and record its source.

    A profile with `model = "convert:MODEL"` does the same automatically.
    """
    display = Display()
    try:
        if unpack_it:
            if out is None:
                raise click.UsageError("--unpack needs --out FOLDER")
            unpack(model, out, python=python, say=display.say)
            click.echo(f"safetensors: {out}")
            return 0
        with step_progress(display, "writing") as on_progress:
            result = convert(model, out, python=python, source=source, say=display.say, on_progress=on_progress)
    except EngineError as error:
        raise BenchError(str(error)) from None
    click.echo(f"gguf: {result.path}")
    facts = result.provenance
    click.echo(
        f"{facts['tensors']} tensors ({facts['bf16_tensors']} BF16, {facts['f32_tensors']} F32), "
        f"{facts['parameters']} weights, {facts['tokens']} tokens; source {facts['source_sha256'][:16]}"
    )
    return 0

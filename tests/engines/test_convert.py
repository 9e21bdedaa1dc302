"""Conversion: what is refused, what is checked, and (second command) the whole way for real."""

import json
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driver.run.engine_setup import describe_weights
from engines import EngineError
from engines.weights.check import check_gguf, read_weights, shape_once_converted
from engines.weights.convert import convert
from engines.weights.unpack import unpack

Tensors = dict[str, tuple[int, tuple[int, ...]]]
F32, F16, BF16 = 0, 1, 30
SOURCE = {"model.embed_tokens.weight": (4, 8), "model.layers.0.mlp.up_proj.weight": (16, 8), "model.norm.weight": (8,)}
RESULT: Tensors = {
    "token_embd.weight": (BF16, (8, 4)),
    "blk.0.ffn_up.weight": (BF16, (8, 16)),
    "output_norm.weight": (F32, (8,)),
}


def quiet(line: str) -> None:
    pass


def write_safetensors(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    header, offset = {}, 0
    for name, shape in shapes.items():
        size = 2
        for side in shape:
            size *= side
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"\1" * offset)


def write_gguf(path: Path, tensors: Tensors, *, tokens: int = 4, tokenizer: bool = True) -> None:
    def string(text: str) -> bytes:
        return struct.pack("<Q", len(text)) + text.encode()

    entries = [string("general.architecture") + struct.pack("<I", 8) + string("llama")]
    if tokenizer:
        entries.append(string("tokenizer.ggml.model") + struct.pack("<I", 8) + string("gpt2"))
        words = b"".join(string(f"w{i}") for i in range(tokens))
        entries.append(string("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, tokens) + words)
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries)
    offset, sizes = 0, []
    for name, (kind, shape) in tensors.items():
        size = 4 if kind == F32 else 2
        for side in shape:
            size *= side
        out += string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        out += struct.pack("<IQ", kind, offset)
        sizes.append(-(-size // 32) * 32)
        offset += sizes[-1]
    out += b"\0" * (-len(out) % 32) + b"\0" * sum(sizes)
    path.write_bytes(out)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = tmp_path / "Tiny"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"vocab_size": 4, "tie_word_embeddings": True}))
    (model / "chat_template.jinja").write_text("{{ messages }}")
    write_safetensors(model / "model.safetensors", SOURCE)
    return model


def test_a_faithful_result_passes_and_tells_its_figures(folder: Path, tmp_path: Path) -> None:
    write_gguf(tmp_path / "x.gguf", RESULT)
    found = check_gguf(tmp_path / "x.gguf", read_weights(folder))
    assert (found["tensors"], found["source_tensors"], found["parameters"]) == (3, 3, 32 + 128 + 8)
    assert (found["bf16_tensors"], found["f32_tensors"], found["tokens"]) == (2, 1, 4)


def _without(name: str) -> Tensors:
    return {key: value for key, value in RESULT.items() if key != name}


@pytest.mark.parametrize(
    ("tensors", "extra", "message"),
    [
        (_without("blk.0.ffn_up.weight"), {}, "holds 40 weights, the source 168"),
        (RESULT | {"token_embd.weight": (F16, (8, 4))}, {}, "token_embd.weight is neither BF16 nor F32"),
        (RESULT | {"blk.0.ffn_up.weight": (F32, (8, 16))}, {}, "only 19% of the result's weights are BF16"),
        (RESULT, {"tokenizer": False}, "no tokenizer"),
        (RESULT, {"tokens": 3}, "has 3 tokens, config.json says 4"),
    ],
)
def test_a_result_that_lost_something_is_refused(
    folder: Path, tmp_path: Path, tensors: Tensors, extra: dict[str, Any], message: str
) -> None:
    write_gguf(tmp_path / "x.gguf", tensors, **extra)
    with pytest.raises(EngineError, match=message):
        check_gguf(tmp_path / "x.gguf", read_weights(folder))


def test_a_result_that_was_cut_off_is_refused(folder: Path, tmp_path: Path) -> None:
    write_gguf(tmp_path / "x.gguf", RESULT)
    (tmp_path / "x.gguf").write_bytes((tmp_path / "x.gguf").read_bytes()[:-200])
    with pytest.raises(EngineError, match="cut short"):
        check_gguf(tmp_path / "x.gguf", read_weights(folder))


def test_the_tied_output_layer_is_counted_once(folder: Path) -> None:
    write_safetensors(folder / "model.safetensors", {**SOURCE, "lm_head.weight": (4, 8)})
    assert read_weights(folder).expected_elements == 168


@pytest.mark.parametrize("tied", [True, False])
def test_what_a_folder_will_need_of_the_gpu_is_told_before_it_is_converted(folder: Path, tied: bool) -> None:
    config = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8, "vocab_size": 4}
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": tied}))
    write_safetensors(folder / "model.safetensors", {**SOURCE, "lm_head.weight": (4, 8)})
    shape = shape_once_converted(folder)
    # Untied, the output layer is on the card and the embeddings of the same size are not; tied, there is one for both.
    assert shape is not None and shape.gpu_weight_bytes == 2 * 168
    (folder / "model.safetensors").write_bytes(b"broken")
    assert shape_once_converted(folder) is None


def test_a_fetch_that_was_broken_off_is_named(folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(EngineError, match=r"model-00002\.safetensors: missing"):
        read_weights(folder)
    (folder / "model.safetensors.index.json").unlink()
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(EngineError, match="its header says"):
        read_weights(folder)


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_remove("config.json"), "no config.json"),
        (_remove("model.safetensors"), r"no \.safetensors"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\xff" * 20), "not a safetensors file"),
    ],
)
def test_a_folder_that_is_no_model_is_one_line(folder: Path, spoil: Callable[[Path], None], message: str) -> None:
    spoil(folder)
    with pytest.raises(EngineError, match=message) as error:
        convert(folder, None, python=None, source=None, say=quiet)
    assert "\n" not in str(error.value)


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A source tree whose converter writes a prepared GGUF, and a "Python" to run it."""
    monkeypatch.setenv("ENGINEBENCH_CACHE", str(tmp_path / "cache"))
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "CMakeLists.txt").write_text("x")
    (tree / ".enginebench-source.json").write_text(json.dumps({"build": "pretended", "identity": "cafe"}))
    write_gguf(tree / "ready.gguf", RESULT)
    (tree / "convert_hf_to_gguf.py").write_text(
        "import pathlib, shutil, sys\n"
        "here = pathlib.Path(__file__).parent\n"
        "with (here / 'calls').open('a') as f: f.write('x')\n"
        "sys.stderr.write('Writing:  50%|#####\\rWriting: 100%|##########\\n')\n"
        "if (here / 'fail').exists(): raise ValueError('Model Foo is not supported')\n"
        "shutil.copy(here / 'ready.gguf', sys.argv[sys.argv.index('--outfile') + 1])\n"
    )
    return tree, Path(sys.executable)


def test_the_same_files_are_converted_once_and_others_again(folder: Path, pretended: tuple[Path, Path]) -> None:
    tree, python = pretended
    steps: list[int] = []
    first = convert(
        folder, None, python=python, source=tree, say=quiet, on_progress=lambda done, total: steps.append(done)
    )
    again = convert(folder, None, python=python, source=tree, say=quiet)
    assert first == again
    assert steps == [50, 100]
    assert (tree / "calls").read_text() == "x"
    (folder / "chat_template.jinja").write_text("another")
    other = convert(folder, None, python=python, source=tree, say=quiet)
    assert other.path != first.path


def test_a_gguf_that_was_changed_after_is_made_again(folder: Path, pretended: tuple[Path, Path]) -> None:
    tree, python = pretended
    first = convert(folder, None, python=python, source=tree, say=quiet)
    first.path.write_bytes(b"GGUF rubbish")
    assert convert(folder, None, python=python, source=tree, say=quiet).path.read_bytes() != b"GGUF rubbish"
    assert (tree / "calls").read_text() == "xx"


def test_folder_and_gguf_of_it_count_as_the_same_weights(folder: Path, pretended: tuple[Path, Path]) -> None:
    tree, python = pretended
    gguf = describe_weights(convert(folder, None, python=python, source=tree, say=quiet).path)
    source = describe_weights(folder)
    assert gguf and source and gguf["source_sha256"] == source["sha256"]


def test_a_failed_conversion_names_the_reason_and_leaves_nothing(
    folder: Path, pretended: tuple[Path, Path], tmp_path: Path
) -> None:
    tree, python = pretended
    (tree / "fail").touch()
    with pytest.raises(EngineError, match="ValueError: Model Foo is not supported"):
        convert(folder, tmp_path / "out" / "x.gguf", python=python, source=tree, say=quiet)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_tree_without_the_converter_is_refused(folder: Path, pretended: tuple[Path, Path]) -> None:
    tree, python = pretended
    (tree / "convert_hf_to_gguf.py").unlink()
    with pytest.raises(EngineError, match="no convert_hf_to_gguf"):
        convert(folder, None, python=python, source=tree, say=quiet)


def test_too_little_disk_is_said_before_the_start(
    folder: Path, pretended: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, python = pretended
    usage = shutil.disk_usage(folder)._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    with pytest.raises(EngineError, match="GiB are needed"):
        convert(folder, None, python=python, source=tree, say=quiet)
    assert not (tree / "calls").exists()


def test_unpacking_what_is_no_gguf_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"rubbish")
    with pytest.raises(EngineError, match="not a GGUF file"):
        unpack(tmp_path / "x.gguf", tmp_path / "out", python=None, say=quiet)

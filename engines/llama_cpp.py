"""llama.cpp's `llama-server`, from a binary: by path, from PATH, or built by `enginebench build`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from engines.base import Engine, EngineError, ReadBack, sha256_text
from engines.build.llama_server import find_build
from engines.machine.vram import ModelShape, shape_of_gguf
from engines.weights.check import shape_once_converted
from engines.weights.gguf import GgufError, read_gguf


class LlamaCpp(Engine):
    """`llama-server`. It divides `-c` among the slots, so `-c` is max_seq_len x slots and the result is read back."""

    kind: ClassVar[str] = "llama_cpp"
    # converter_python is for the driver, which converts `model = "convert:..."` before it creates the engine.
    own_options: ClassVar[Mapping[str, type]] = {"build": str, "converter_python": str}

    def check(self) -> None:
        _require_gguf(self.config.name, self.config.model)
        self.binary()

    def binary(self) -> str:
        """The path of the server.

        `binary` is a path, a name on PATH, or "build": the newest of enginebench build, or of the source that
        `options.build` names. Without it, the newest build is used if there is one, else `llama-server` from PATH.

        Raises:
            EngineError: the binary does not exist.
        """
        config = self.config
        if config.binary in (None, "build"):
            wanted_build = config.options.get("build")
            built = find_build(str(wanted_build) if wanted_build else None)
            if built is not None:
                return str(built.server)
            if config.binary == "build" or wanted_build:
                which = f" of {wanted_build}" if wanted_build else ""
                raise EngineError(f"{config.name}: no build{which} in the cache; make it with enginebench build")
        wanted = config.binary or "llama-server"
        path = shutil.which(str(Path(wanted).expanduser()))
        if path is None:
            raise EngineError(
                f"{config.name}: no executable {wanted!r}; make it with enginebench build, or set `binary`"
            )
        return path

    def provenance(self) -> dict[str, Any] | None:
        # Layout of enginebench build: <build>/provenance.json beside <build>/bin/llama-server.
        try:
            values = json.loads((Path(self.binary()).resolve().parent.parent / "provenance.json").read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return values if isinstance(values, dict) else None

    def argv(self) -> list[str]:
        config = self.config
        argv = [self.binary(), "--model", str(config.model), "--host", config.host, "--port", str(config.port)]
        argv += ["--parallel", str(config.slots), "--ctx-size", str(config.max_seq_len * config.slots)]
        # --fit could shrink the context silently; the prompt cache could answer from earlier requests.
        argv += ["--fit", "off", "--cache-ram", "-1" if config.cache else "0", "--metrics", "--jinja"]
        if config.threads:
            argv += ["--threads", str(config.threads), "--threads-batch", str(config.threads)]
        if config.model_name:
            argv += ["--alias", config.model_name]
        return [*argv, *config.args]

    def read_back(self) -> ReadBack:
        props = self.get("/props")
        settings = props.get("default_generation_settings") or {}
        return ReadBack(
            build=self.build_name(props),
            model=Path(props["model_path"]).name if props.get("model_path") else None,
            context_per_slot=settings.get("n_ctx"),
            slots=props.get("total_slots"),
            chat_template_sha256=sha256_text(props.get("chat_template")),
        )

    def build_name(self, props: dict[str, Any]) -> str | None:
        """The build that the server reports, else its source; a build outside of git reports no useful name."""
        reported = props.get("build_info")
        if reported and "unknown" not in str(reported):
            return str(reported)
        made = self.provenance() or {}
        source = (made.get("source") or {}).get("build")
        return str(source) if source else str(reported) if reported else None

    def request_extras(self, *, fixed_length: bool) -> dict[str, Any]:
        return {
            **super().request_extras(fixed_length=fixed_length),
            "cache_prompt": self.config.cache,
            "chat_template_kwargs": {"enable_thinking": self.config.thinking},
            # Samplers that are on by default but not part of greedy decoding.
            "min_p": 0.0,
            "repeat_penalty": 1.0,
        }

    def explain_exit(self, log_tail: str, code: int | None) -> str | None:
        line = next(
            (line for line in log_tail.splitlines() if "error loading model" in line or "invalid magic" in line), ""
        )
        if line and "allocate" not in line and "out of memory" not in log_tail:
            return f"llama.cpp can't load {self.config.model}: {line.strip()[:300]}"
        return None

    def on_gpu(self) -> bool:
        """Whether the build has CUDA and no option restricts it to the CPU."""
        words = " ".join(self.config.args)
        if not super().on_gpu() or re.search(
            r"(-ngl|--gpu-layers|--n-gpu-layers)[ =]0\b|(-dev|--device)[ =]none", words
        ):
            return False
        return "device" in self.config.options or _is_linked_with_cuda(self.binary())

    def model_shape(self) -> ModelShape | None:
        model = self.config.model
        if model is None:
            return None
        # A folder is a model that will be converted; `doctor` checks it before that.
        return shape_once_converted(model) if model.is_dir() else shape_of_gguf(model)


def _is_linked_with_cuda(binary: str) -> bool:
    """Whether the binary loads CUDA; true if that can't be determined."""
    try:
        libraries = subprocess.run(["ldd", binary], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return True
    # Backends can be plug-ins beside the binary, which the loader does not list.
    return "cuda" in libraries or any(Path(binary).resolve().parent.glob("libggml-cuda*"))


def _require_gguf(name: str, model: Path | None) -> None:
    """Check the model file before the start.

    Raises:
        EngineError: no model is given, or the file is missing or not a GGUF.
    """
    if model is None:
        raise EngineError(f"{name}: needs a `model`, the path of a GGUF file")
    try:
        read_gguf(model)
    except IsADirectoryError:
        raise EngineError(f"{name}: model {model}: is a folder; make a GGUF of it with enginebench convert") from None
    except OSError as error:
        raise EngineError(f"{name}: model {model}: {error.strerror}; give the path of a GGUF file") from None
    except GgufError as error:
        raise EngineError(f"{name}: model {error}; make one with enginebench convert") from None

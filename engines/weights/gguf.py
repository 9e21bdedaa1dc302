"""The header of a GGUF file: metadata and tensor sizes, no weights. Format: ggml's docs/gguf.md, versions 2 and 3."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

MAGIC = b"GGUF"
# Formats of the scalar value types by their number; 8 is a string, 9 an array.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
# Above these a length can only be garbage, and reading on would take all memory.
MAX_ENTRIES, MAX_STRING = 1 << 20, 1 << 26


class GgufError(ValueError):
    """Not a GGUF file, or a broken one; the message says where."""


@dataclass(frozen=True, slots=True)
class Gguf:
    """Metadata (arrays only as their length), and of each tensor its size in bytes, with alignment, and its kind."""

    version: int
    metadata: dict[str, Any]
    tensor_bytes: dict[str, int]
    tensor_kinds: dict[str, tuple[int, int]]
    """Name -> ggml's number of the type (0 is F32, 1 F16, 30 BF16) and the number of elements."""

    def of_architecture(self, key: str) -> Any:
        """A value under the model's architecture, such as `block_count`; None where it is not there."""
        return self.metadata.get(f"{self.metadata.get('general.architecture')}.{key}")


def read_gguf(path: Path) -> Gguf:
    """Read the header.

    Raises:
        GgufError: it is no GGUF, of an unknown version, cut short, or broken.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise GgufError(f"{path}: not a GGUF file")
        try:
            return _read(file, path.stat().st_size)
        except (struct.error, UnicodeDecodeError, KeyError, MemoryError) as error:
            raise GgufError(f"{path}: broken GGUF header ({type(error).__name__}: {error})") from None
        except GgufError as error:
            raise GgufError(f"{path}: {error}") from None


def _read(file: BinaryIO, file_bytes: int) -> Gguf:
    (version,) = _unpack(file, "I")
    if version not in (2, 3):
        raise GgufError(f"GGUF version {version} is not known")
    tensors, entries = _unpack(file, "QQ")
    if tensors > MAX_ENTRIES or entries > MAX_ENTRIES:
        raise GgufError("broken header: too many entries")
    metadata = {_string(file): _value(file, _unpack(file, "I")[0]) for _ in range(entries)}
    offsets: list[tuple[int, str]] = []
    kinds: dict[str, tuple[int, int]] = {}
    for _ in range(tensors):
        name = _string(file)
        (dimensions,) = _unpack(file, "I")
        *shape, kind = _unpack(file, f"{dimensions}QI")
        kinds[name] = (kind, math.prod(shape))
        offsets.append((_unpack(file, "Q")[0], name))
    alignment = int(metadata.get("general.alignment", 32)) or 32
    start = -(-file.tell() // alignment) * alignment
    # A tensor reaches to the next one's start: right to within the alignment, without a table of all block formats.
    offsets.sort()
    ends = [offset for offset, _ in offsets[1:]] + [file_bytes - start]
    sizes = {name: end - offset for (offset, name), end in zip(offsets, ends, strict=True)}
    if any(size < 0 for size in sizes.values()):
        raise GgufError("the file is cut short: its tensors reach beyond its end")
    return Gguf(version, metadata, sizes, kinds)


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == STRING:
        return _string(file)
    if kind != ARRAY:
        return _unpack(file, SCALARS[kind])[0]
    item, count = _unpack(file, "IQ")
    if item in SCALARS:
        width = struct.calcsize("<" + SCALARS[item])
        # Short arrays of numbers can be per-layer settings; long ones are vocabulary scores.
        if count <= 4096:
            return [_unpack(file, SCALARS[item])[0] for _ in range(count)]
        file.seek(width * count, 1)
        return count
    for _ in range(count):
        if item == STRING:
            (length,) = _unpack(file, "Q")
            file.seek(length, 1)
        else:
            _value(file, item)
    return count


def _string(file: BinaryIO) -> str:
    (length,) = _unpack(file, "Q")
    if length > MAX_STRING:
        raise GgufError("broken header: a string of impossible length")
    return file.read(length).decode("utf-8", "replace")


def _unpack(file: BinaryIO, form: str) -> tuple[Any, ...]:
    return struct.unpack("<" + form, file.read(struct.calcsize("<" + form)))

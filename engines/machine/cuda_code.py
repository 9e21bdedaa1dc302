"""Reads for which GPU architectures a program has code, from its CUDA fat binaries.

A fat binary starts with a header (magic 0xBA55ED50, version 1, header size 16, body size) and holds entries: kind 1 is
PTX, which the driver translates for any card of the same or a later architecture; kind 2 is machine code, which runs on
cards of the same major architecture only. Layout as `cuobjdump` lists it; the two rules are in NVIDIA's CUDA C++
Programming Guide, "Binary compatibility" and "PTX compatibility".
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ")
_MAGIC = struct.pack("<I", 0xBA55ED50)
_ARCHITECTURE_OFFSET = 28
_PTX, _MACHINE_CODE = 1, 2


@dataclass(frozen=True, slots=True)
class CudaCode:
    """Architectures as compute capability times ten: 80, 90, 120."""

    machine_code: frozenset[int]
    ptx: frozenset[int]

    def runs_on(self, capability: int) -> bool:
        """Whether a card of this compute capability (times ten) can run all of it."""
        same_major = any(a // 10 == capability // 10 and a <= capability for a in self.machine_code)
        return same_major or any(a <= capability for a in self.ptx)

    def __str__(self) -> str:
        code = ", ".join(f"sm_{a}" for a in sorted(self.machine_code)) or "no card"
        ptx = f"PTX for compute_{min(self.ptx)} and later" if self.ptx else "no PTX"
        return f"code for {code}, and {ptx}"


def cuda_code(path: Path) -> CudaCode | None:
    """The GPU code in a program or library; None if it has none or cannot be read."""
    seen: set[tuple[int, int]] = set()
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = 0
            while (at := data.find(_MAGIC, at)) >= 0:
                at = _read_fat_binary(data, at, seen)
    except (OSError, ValueError):
        return None
    if not seen:
        return None
    return CudaCode(
        machine_code=frozenset(a for kind, a in seen if kind == _MACHINE_CODE),
        ptx=frozenset(a for kind, a in seen if kind == _PTX),
    )


def _read_fat_binary(data: mmap.mmap, at: int, seen: set[tuple[int, int]]) -> int:
    """Add the (kind, architecture) of each entry of the fat binary at `at`; returns where to search on."""
    if at + _HEADER.size > len(data):
        return len(data)
    _, version, header, size = _HEADER.unpack_from(data, at)
    end: int = at + header + size
    if version != 1 or header != _HEADER.size or end > len(data):
        return at + len(_MAGIC)
    entry = at + header
    while entry + _ARCHITECTURE_OFFSET + 4 <= end:
        kind, _, entry_header, entry_size = _ENTRY.unpack_from(data, entry)
        if kind not in {_PTX, _MACHINE_CODE} or not entry_header:
            break
        seen.add((kind, struct.unpack_from("<I", data, entry + _ARCHITECTURE_OFFSET)[0]))
        entry += int(entry_header) + int(entry_size)
    return end

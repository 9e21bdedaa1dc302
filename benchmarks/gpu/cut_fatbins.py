"""Cuts the CUDA fat binaries inside a library down to one card's code, so that it compresses to what that card runs.

    python benchmarks/gpu/cut_fatbins.py IN.so OUT.so 90

Each fat binary keeps its place in the file: entries that go are taken out of it, its size is set anew, and the rest is
zero. One without machine code for the card keeps its PTX, else its smallest entry, so that a call of such a kernel
fails as "no kernel image", not as a broken file. The layout is described in `engines.machine.cuda_code`.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from pathlib import Path

_MAGIC = struct.pack("<I", 0xBA55ED50)
_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ")
_ARCHITECTURE_OFFSET = 28
_PTX, _MACHINE_CODE = 1, 2


@dataclass(frozen=True, slots=True)
class Cut:
    """Bytes of the fat binaries' entries, kept and cut, and how many fat binaries hold nothing that the card runs."""

    kept: int
    cut: int
    of_other_cards: int


def cut(data: bytearray, capability: int) -> Cut:
    """Cut all fat binaries in `data` in place; `capability` is the compute capability times ten, such as 90."""
    at = kept = removed = of_others = 0
    while (at := data.find(_MAGIC, at)) >= 0:
        entries = _entries(data, at)
        if entries is None:
            at += len(_MAGIC)
            continue
        start = at + _HEADER.size
        size = sum(len(code) for _, _, code in entries)
        chosen = [code for kind, card, code in entries if kind == _MACHINE_CODE and card == capability]
        chosen = chosen or [code for kind, card, code in entries if kind == _PTX and card <= capability]
        if not chosen:
            of_others += 1
            chosen = [min((code for _, _, code in entries), key=len)]
        body = b"".join(chosen)
        data[start : start + size] = body + bytes(size - len(body))
        magic, version, header, _ = _HEADER.unpack_from(data, at)
        _HEADER.pack_into(data, at, magic, version, header, len(body))
        kept, removed, at = kept + len(body), removed + size - len(body), start + size
    return Cut(kept, removed, of_others)


def _entries(data: bytearray, at: int) -> list[tuple[int, int, bytes]] | None:
    """(kind, architecture, bytes) of each entry of the fat binary at `at`; None where there is none that is whole."""
    if at + _HEADER.size > len(data):
        return None
    _, version, header, size = _HEADER.unpack_from(data, at)
    entry, end = at + header, at + header + size
    if version != 1 or header != _HEADER.size or end > len(data):
        return None
    found = []
    while entry < end:
        if entry + _ARCHITECTURE_OFFSET + 4 > end:
            return None
        kind, _, entry_header, entry_size = _ENTRY.unpack_from(data, entry)
        length = entry_header + entry_size
        if kind not in {_PTX, _MACHINE_CODE} or entry_header < _ARCHITECTURE_OFFSET + 4 or entry + length > end:
            return None
        card = struct.unpack_from("<I", data, entry + _ARCHITECTURE_OFFSET)[0]
        found.append((kind, card, bytes(data[entry : entry + length])))
        entry += length
    return found or None


def cut_file(source: Path, target: Path, capability: int) -> Cut:
    """`cut` of a file, into another or the same one."""
    data = bytearray(source.read_bytes())
    done = cut(data, capability)
    target.write_bytes(data)
    return done


if __name__ == "__main__":
    print(cut_file(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))

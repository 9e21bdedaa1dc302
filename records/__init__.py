"""The contract between the stages: the record of a request, the error kinds, and the files of a run.

Each stage hands over through these files alone, so that it can be run again on an old run. Standard library and orjson
only: the load process imports this package and starts in half a second.
"""

from records.error_kinds import ASKED_AGAIN, FINISH_REASONS, ErrorKind
from records.files import JsonObject, read_json, read_json_lines, set_aside, write_json, write_text
from records.record import SCHEMA_VERSION, Phase, Record, prompt_sha256, read_records
from records.run_folder import (
    NAME,
    CellFolder,
    RoundFolder,
    RunFolder,
    cell_name,
    section_name,
    workload_name,
)

__all__ = [
    "ASKED_AGAIN",
    "FINISH_REASONS",
    "NAME",
    "SCHEMA_VERSION",
    "CellFolder",
    "ErrorKind",
    "JsonObject",
    "Phase",
    "Record",
    "RoundFolder",
    "RunFolder",
    "cell_name",
    "prompt_sha256",
    "read_json",
    "read_json_lines",
    "read_records",
    "section_name",
    "set_aside",
    "workload_name",
    "write_json",
    "write_text",
]

"""Any server, started by its command line: `command = "my-server --port {port} -m {model}"`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, ClassVar

from engines.base import EngineError
from engines.black_box import BlackBox
from engines.files import sha256


class Command(BlackBox):
    """Fills in the words of `command`: {port}, {host}, {model}, {slots}, {max_seq_len} and {threads}.

    It runs in the folder where enginebench was started, so that relative paths work. It runs without a shell.
    """

    kind: ClassVar[str] = "command"

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.cwd = Path.cwd()

    def check(self) -> None:
        config = self.config
        if not config.command:
            raise EngineError(f'{config.name}: needs `command`, such as "my-server --port {{port}}"')
        if not any("{port}" in word or word.endswith(str(config.port)) for word in config.command):
            raise EngineError(f"{config.name}: its command has no {{port}}; write {{port}} where the port number goes")
        if any("{model}" in word for word in config.command) and config.model is None:
            raise EngineError(f"{config.name}: its command has {{model}}, but no `model` is given")
        if config.model is not None and not config.model.exists():
            raise EngineError(f"{config.name}: model {config.model}: no such file or folder")
        if shutil.which(config.command[0], path=self.env().get("PATH")) is None:
            raise EngineError(f"{config.name}: no executable {config.command[0]!r}; give its path, or install it")

    def argv(self) -> list[str]:
        config = self.config
        fields = {
            "{port}": config.port,
            "{host}": config.host,
            "{model}": config.model,
            "{slots}": config.slots,
            "{max_seq_len}": config.max_seq_len,
            "{threads}": config.threads or 1,
        }
        return [_filled(word, fields) for word in (*config.command, *config.args)]

    def provenance(self) -> dict[str, Any] | None:
        """The program's name and SHA-256, which detects another build under the same path."""
        program = shutil.which(self.config.command[0], path=self.env().get("PATH"))
        return {"program": Path(program).name, "sha256": sha256(Path(program))} if program else None

    def explain_exit(self, log_tail: str, code: int | None) -> str | None:
        if code == 0:
            return (
                "its command ended with exit code 0; the server must stay in the foreground"
                " (no daemon option, no & at the end)"
            )
        return None


def _filled(word: str, fields: dict[str, Any]) -> str:
    for field, value in fields.items():
        word = word.replace(field, str(value))
    return word

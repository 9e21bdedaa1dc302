"""A test server as an engine: its known schedule shows the error of a client's measurements."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, ClassVar

from engines.base import Engine, EngineError, ReadBack
from engines.pacing_server.schedule import Schedule
from engines.pacing_server.script import MODEL


class Pacing(Engine):
    """`options` are the fields of `Schedule`, such as ttft_ms and interval_ms."""

    kind: ClassVar[str] = "pacing"
    own_options: ClassVar[Mapping[str, type]] = {field.name: type(field.default) for field in fields(Schedule)}

    def check(self) -> None:
        try:
            Schedule(**self.config.options)
        except (ValueError, TypeError) as error:
            raise EngineError(f"{self.config.name}: options: {error}") from None

    def argv(self) -> list[str]:
        config = self.config
        argv = [sys.executable, "-m", "engines.pacing_server", "--host", config.host, "--port", str(config.port)]
        for name, value in config.options.items():
            flag = f"--{name.replace('_', '-')}"
            argv += [flag] if value is True else [] if value is False else [flag, str(value)]
        return [*argv, *config.args]

    def on_gpu(self) -> bool:
        return False

    def read_back(self) -> ReadBack:
        schedule = asdict(Schedule(**self.config.options))
        return ReadBack(build="pacing", model=MODEL, slots=None, extra=schedule)

    def requests(self) -> dict[str, Any]:
        """The server's log of each request since the last call; see `engines.pacing_server`."""
        return self.get("/requests")

"""The command-line options of every scenario, which are also the form fields of the web UI."""

from __future__ import annotations

import argparse
import json
import math
import os
from pathlib import Path
from typing import Any, NoReturn, Protocol

from load.schedule import levels
from records import headers as http_headers
from records.endpoint import CHAT, ENDPOINTS, MAX_TOKENS_FIELDS, Target

DEFAULT_MAX_TOKENS = 128
"""Largest length of an answer if neither --max-tokens nor the prompt sets it."""

TRACE = "trace"
"""The arrivals that come from the prompts themselves."""


class UsageError(ValueError):
    """Options that cannot be used; one line."""


class Parser(Protocol):
    """Locust's parser, or the driver's parser, which checks options without importing Locust."""

    def add_argument(
        self, *flags: Any, include_in_web_ui: bool = ..., env_var: str | None = ..., **given: Any
    ) -> Any: ...


def add_options(parser: Parser) -> None:
    """Add the options to Locust's parser (not to a group of it: `include_in_web_ui` works on the parser only)."""
    add = parser.add_argument
    add("--model", default="", help="Model name in the request; empty lets the engine choose")
    add(
        "--endpoint",
        default=CHAT,
        choices=list(ENDPOINTS),
        help="chat: /v1/chat/completions; completions: /v1/completions with the prompt's plain text",
    )
    add(
        "--prompts",
        default="perf-short",
        help="Workload (perf-short, perf-medium, perf-long, arithmetic, ...) or FILE.jsonl",
    )
    add(
        "--requests",
        type=int,
        default=0,
        help="Measured requests; 0: until the prompts are used up, or the duration ends",
    )
    add(
        "--conversations",
        type=int,
        default=0,
        help="Measured conversations, where the prompts are such; 0: until they are used up, or the duration ends",
    )
    add(
        "--carry",
        default="fixed",
        choices=["fixed", "real"],
        help="What a conversation goes on with: the answers of its file, or the model's own",
    )
    add(
        "--duration",
        type=float,
        default=0.0,
        help="Seconds in which measured requests (conversations) may begin (sweep: each step)",
    )
    add("--samples", type=int, default=1, help="Number of answers to each prompt, if each prompt is asked once")
    add("--warmup", type=int, default=0, help="Warm-up requests, with prompts that are never measured")
    add(
        "--max-tokens",
        type=int,
        default=0,
        help=f"Largest length of an answer; 0: that of the prompt's row or task, else {DEFAULT_MAX_TOKENS}",
    )
    add(
        "--max-tokens-field",
        default=MAX_TOKENS_FIELDS[0],
        choices=list(MAX_TOKENS_FIELDS),
        help="The server's request field for the largest length of an answer",
    )
    add("--fixed-length", action="store_true", default=False, help="Ask for exactly --max-tokens tokens (ignore_eos)")
    add(
        "--header",
        action="append",
        default=[],
        metavar="NAME=ENV:VAR",
        include_in_web_ui=False,
        help="A further header of each request, its value from a variable; NAME=VALUE if it is no secret. Repeatable",
    )
    add(
        "--request-extras",
        default="{}",
        env_var="ENGINEBENCH_REQUEST_EXTRAS",
        help="JSON object merged into each request last; if it has secrets, use the environment variable",
    )
    add("--request-timeout", type=float, default=600.0, help="Seconds that a request may take")
    add("--silence-timeout", type=float, default=120.0, help="Seconds without a byte after which a request has failed")
    add("--drain-timeout", type=float, default=10.0, help="Seconds that requests in flight may still take after a stop")
    add("--ca", default="", metavar="FILE", help="Certificates (PEM) to trust; empty: the system's, or SSL_CERT_FILE")
    add("--retries", type=int, default=0, help="How often to retry after HTTP 429 or 503, after Retry-After")
    add(
        "--cancel-share",
        type=float,
        default=0.0,
        help="Share of requests (0 to 1) whose client closes the stream early",
    )
    add("--cancel-after-tokens", type=int, default=8, help="Tokens after which such a client closes the stream")
    add("--seed", type=int, default=1, help="Seed of prompts and arrivals")
    add("--rate", type=float, default=1.0, help="open_loop: requests per second")
    add(
        "--arrivals",
        default="poisson",
        choices=["poisson", "constant", "gamma", TRACE],
        help="open_loop: kind of arrivals; trace: at the times of the prompts (their rows' at_s)",
    )
    add("--burstiness", type=float, default=1.0, help="gamma arrivals: shape; 1 is Poisson, below 1 is burstier")
    add("--steps", default="1,2,4,8", help="sweep: users (or, with --step-by rate, requests per second) of each step")
    add("--step-by", default="users", choices=["users", "rate"], help="sweep, capacity: unit of the steps")
    add(
        "--stop-at-saturation",
        action="store_true",
        default=False,
        help="sweep: end after a step without a gain in throughput",
    )
    levels.add_options(add)
    add("--ramp", type=float, default=10.0, help="ramp: seconds until all users have joined")
    add("--capture-dir", default="", include_in_web_ui=True, help="Folder for requests.jsonl and scenario.json")
    add("--append", action="store_true", default=False, include_in_web_ui=False, help="Continue a capture")
    add("--keep-raw", action="store_true", default=False, help="Keep the bytes of failed requests in CAPTURE_DIR/raw")
    add("--engine", default="engine", include_in_web_ui=False, help="Label in the records")
    add("--workload", default="", include_in_web_ui=False, help="Label in the records; empty: the name in --prompts")
    add("--cell", default="", include_in_web_ui=False, help="Label in the records")
    add("--round", type=int, default=1, include_in_web_ui=False, help="Label in the records")


OF_KIND = {
    "rate": ("open",),
    "arrivals": ("open", "sweep", "capacity"),
    "burstiness": ("open", "sweep", "capacity"),
    "steps": ("sweep",),
    "step_by": ("sweep", "capacity"),
    **dict.fromkeys(levels.OPTIONS, ("capacity",)),
    "stop_at_saturation": ("sweep",),
    "ramp": ("ramp",),
}
"""The options that only some kinds of load (`ChatUser.kind`) use."""


def form_groups(kind: str) -> list[list[Any]]:
    """The groups of the web UI's form, as [title, options]; options of this kind of load come first.

    Options that only other kinds use are in no group.
    """
    own = [name for name, kinds in OF_KIND.items() if kind in kinds]
    return [
        ["Load", [*own, "requests", "conversations", "duration", "warmup"]],
        ["What is asked", ["prompts", "carry", "samples", "seed", "max_tokens", "fixed_length"]],
        ["The API", ["endpoint", "model", "max_tokens_field", "request_extras"]],
        ["Cancellation", ["cancel_share", "cancel_after_tokens"]],
        ["Records", ["capture_dir", "keep_raw"]],
        ["Limits", ["request_timeout", "silence_timeout", "drain_timeout", "retries"]],
    ]


class PlainParser(argparse.ArgumentParser):
    """A parser for the options without Locust; a mistake is a `UsageError`."""

    def add_argument(
        self, *flags: Any, include_in_web_ui: bool = True, env_var: str | None = None, **given: Any
    ) -> argparse.Action:
        return super().add_argument(*flags, **given)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def plain_parser() -> PlainParser:
    """A parser that has only these options."""
    parser = PlainParser(add_help=False, allow_abbrev=False)
    add_options(parser)
    return parser


def users_of(options: Any, kind: str) -> int | None:
    """The number of users that the options need: that of the highest step or level. None: any number."""
    if options.step_by != "users" or kind not in ("sweep", "capacity"):
        return None
    try:
        return int(options.end if kind == "capacity" else max(map(float, options.steps.split(","))))
    except (ValueError, OverflowError):
        return None  # `check` reports the mistake


def check_users(scenario: str, exact: int | None, users: int | None, needed: int | None = None) -> None:
    """Check the number of users.

    Args:
        scenario: its name.
        exact: the number in that name; None if any number is allowed.
        users: the given number.
        needed: fewest users that the highest level needs (`users_of`).

    Raises:
        UsageError: the number is 0, or is not the number that the scenario needs.
    """
    if users is not None and users < 1:
        raise UsageError(f"--users {users}: at least 1 was expected")
    if exact and users not in (None, exact):
        raise UsageError(f"--users {users}: {scenario} always has {exact}; closed_loop takes any")
    if needed and users is not None and users < needed:
        raise UsageError(f"--users {users}: the highest level needs {needed}; give as many users, or lower levels")


def check(options: Any, kind: str) -> dict[str, Any]:
    """Check the options beyond argparse's checks; returns the request extras.

    Args:
        options: the parsed options.
        kind: the kind of load, `ChatUser.kind`.

    Raises:
        UsageError: the message names the option and the expected value.
    """
    try:
        extras = json.loads(options.request_extras or "{}")
    except ValueError as error:
        raise UsageError(f"--request-extras: not JSON: {error}") from None
    if not isinstance(extras, dict):
        raise UsageError("--request-extras: a JSON object was expected")
    if extras.get("n") not in (None, 1):
        raise UsageError(
            f"--request-extras: n = {extras['n']!r}: usage counts the tokens of all choices together, which leaves no"
            " latency per token; leave n out and use --samples"
        )
    for name, least in (
        ("requests", 0),
        ("conversations", 0),
        ("warmup", 0),
        ("retries", 0),
        ("max_tokens", 0),
        ("samples", 1),
        ("cancel_share", 0),
        ("cancel_after_tokens", 1),
        ("duration", 0),
    ):
        value = getattr(options, name)
        if not math.isfinite(value) or value < least:
            raise UsageError(f"--{name.replace('_', '-')} {value}: at least {least} was expected")
    if options.cancel_share > 1:
        raise UsageError(f"--cancel-share {options.cancel_share:g}: a share from 0 to 1 was expected")
    for name in ("request_timeout", "silence_timeout", "drain_timeout", "rate", "burstiness"):
        value = getattr(options, name)
        if not math.isfinite(value) or value <= 0:
            raise UsageError(f"--{name.replace('_', '-')} {value}: more than 0 was expected")
    headers_of(options)
    try:
        steps = [float(step) for step in options.steps.split(",")]
    except ValueError:
        steps = []
    if not steps or min(steps) <= 0:
        raise UsageError(f"--steps {options.steps}: numbers above 0 with commas were expected")
    if options.arrivals == TRACE:
        if kind != "open":
            raise UsageError("--arrivals trace: only open_loop can send at the times of a trace")
        if options.samples != 1 or options.retries:
            raise UsageError("--arrivals trace: each request is sent once, at its time; leave samples and retries out")
    if kind == "capacity":
        try:
            levels.check(options)
        except ValueError as error:
            raise UsageError(str(error)) from None
    defaults = plain_parser().parse_args([])
    for name, kinds in OF_KIND.items():
        if kind not in kinds and getattr(options, name) != getattr(defaults, name):
            of = " or ".join({"open": "open_loop"}.get(each, each) for each in kinds)
            raise UsageError(f"--{name.replace('_', '-')}: only {of} uses it")
    return extras


def headers_of(options: Any) -> dict[str, str]:
    """The extra headers of each request, as given; `ENV:VAR` refers to a variable.

    Raises:
        UsageError: a header is invalid, or its variable is not set.
    """
    try:
        headers = http_headers.parse_headers(options.header, os.environ.get(http_headers.HANDED, ""))
        http_headers.resolved(headers)
    except ValueError as error:
        raise UsageError(f"--header {error}") from None
    return headers


def failure_exit_code(options: Any) -> int:
    """The exit code of a test in which a measured request failed: Locust's --exit-code-on-error."""
    return int(options.exit_code_on_error)


def target(host: str | None, endpoint: str = CHAT) -> Target:
    """The target of the requests; `endpoint` is chat or completions.

    Raises:
        UsageError: --host is missing, or is no URL.
    """
    if not host:
        raise UsageError("--host: the engine's base URL is missing, such as http://127.0.0.1:8080")
    try:
        return Target.parse(host, endpoint)
    except ValueError as error:
        raise UsageError(f"--host {error}") from None


def capture_dir(options: Any) -> Path | None:
    """The folder for the capture, created now; None if no capture is asked for.

    Raises:
        UsageError: the folder can't be created.
    """
    if not options.capture_dir:
        return None
    path = Path(options.capture_dir)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--capture-dir {path}: {error.strerror}") from None
    return path

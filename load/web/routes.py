"""Serves the pages, figures and downloads under /enginebench/, and extends Locust's own page and poll."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gevent
from flask import Blueprint, Response, request, send_from_directory

if TYPE_CHECKING:
    from load.web.tab import WebUI

HOLD_S = 1.5
"""Seconds that a poll waits for the end of a drain. Locust's page polls every two seconds."""
STATIC = Path(__file__).with_name("static")
COLUMNS = {
    "name": "Metric",
    "n": "Values",
    "p50": "p50 ms",
    "p90": "p90 ms",
    "p99": "p99 ms",
    "max": "Max ms",
    "recent": "p50 of last 10 s",
    "exact": "Percentiles",
}
CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


def add_routes(ui: WebUI, environment: Any) -> None:
    """Register all routes with the web UI of this environment, behind its login if it has one."""
    web = environment.web_ui
    base = environment.parsed_options.web_base_path or ""
    web.app.register_blueprint(_pages(ui, base, web.auth_required_if_enabled))
    # The first function in the list runs last, after Locust has set its CORS headers.
    web.app.after_request_funcs.setdefault(None, []).insert(0, _hardening(base))
    web.app.before_request(_wait_for_end(ui, base))
    web.app.after_request(_extension(ui, base))
    arguments = web.template_args
    structure = [{"key": key, "title": title} for key, title in COLUMNS.items()]
    arguments.setdefault("extended_tabs", []).append({"title": "Streaming", "key": "streaming"})
    arguments.setdefault("extended_tables", []).append({"key": "streaming", "structure": structure})
    arguments.setdefault("extended_csv_files", []).extend(
        [
            {"href": "./enginebench/requests.jsonl", "title": "Download the records (requests.jsonl)"},
            {"href": "./enginebench/summary.json", "title": "Download a summary (JSON)"},
            {"href": "./enginebench/", "title": "Streaming figures on a separate page"},
        ]
    )


def _pages(ui: WebUI, base: str, guarded: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Blueprint:
    pages = Blueprint("enginebench", __name__, url_prefix=f"{base}/enginebench")

    @pages.route("/")
    @guarded
    def page() -> Any:
        return send_from_directory(STATIC, "live.html")

    @pages.route("/static/<path:name>")
    @guarded
    def static_file(name: str) -> Any:
        return send_from_directory(STATIC, name)

    @pages.route("/live.json")
    @guarded
    def live() -> Any:
        return _answer(ui.snapshot())

    @pages.route("/summary.json")
    @guarded
    def summary() -> Any:
        return _download(_answer(ui.summary()), "summary.json")

    @pages.route("/requests.jsonl")
    @guarded
    def records() -> Any:
        lines = ui.records()
        if lines is None:
            return Response("nothing is captured: give --capture-dir a folder and start a test\n", 404)
        # `itertools.chain`, so that the file is closed even if the reader disconnects.
        return _download(Response(itertools.chain(lines), mimetype="application/x-ndjson"), "requests.jsonl")

    return pages


def _answer(value: Any) -> Response:
    return Response(json.dumps(value, allow_nan=False), mimetype="application/json")


def _download(response: Response, name: str) -> Response:
    response.headers["Content-Disposition"] = f"attachment; filename={name}"
    return response


def _hardening(base: str) -> Callable[[Any], Any]:
    def harden(response: Any) -> Any:
        """Protect responses, which have prompts and completions: other sites must not read or execute them."""
        if request.path.startswith(f"{base}/enginebench/"):
            response.headers.pop("Access-Control-Allow-Origin", None)
            response.headers["Content-Security-Policy"] = CONTENT_SECURITY
            response.headers["X-Content-Type-Options"] = "nosniff"
            response.headers["Cache-Control"] = "no-store"
        return response

    return harden


def shown_state(state: str, *, ended: bool) -> str:
    """The state to report to Locust's page, which stops polling at any unknown state, such as that of a drain.

    Locust reports a test as stopped before its last records are decoded; until then the page gets "running".
    """
    return state if state in ("ready", "spawning", "running") or (state == "stopped" and ended) else "running"


def _wait_for_end(ui: WebUI, base: str) -> Callable[[], None]:
    def wait() -> None:
        """Delay the response to a poll until the drain has ended, so that the page gets the final figures at once."""
        if request.path == f"{base}/stats/requests":
            deadline = time.monotonic() + HOLD_S
            while ui.is_ending and time.monotonic() < deadline:
                gevent.sleep(0.02)
            ui.forget_older_figures()

    return wait


def _extension(ui: WebUI, base: str) -> Callable[[Any], Any]:
    def extend(response: Any) -> Any:
        """Add the tab's rows to Locust's own poll, and the tab's charts to its page."""
        if request.path == f"{base}/stats/requests" and response.is_json and response.status_code == 200:
            body = response.get_json()
            # Locust caches this response for two seconds and returns the same object again.
            others = [table for table in body.get("extended_stats", []) if table["key"] != "streaming"]
            body["extended_stats"] = [*others, {"key": "streaming", "data": ui.table()}]
            body["state"] = shown_state(body["state"], ended=ui.has_ended)
            response.set_data(json.dumps(body))
        elif request.path == f"{base}/" and response.mimetype == "text/html" and response.status_code == 200:
            page = response.get_data(as_text=True)
            script = '<script defer src="./enginebench/static/tab.js"></script>'
            response.set_data(page.replace("</body>", f"{script}</body>"))
        return response

    return extend

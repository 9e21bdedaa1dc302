"""Every way in which a stream goes wrong is an error of its own kind, through the real load process."""

import ssl
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.load.load import Outcome, prompts_file, run
from tests.load.scripted_server import (
    CLOSE,
    END,
    HEAD,
    RESET,
    UNFRAMED,
    Action,
    Asked,
    ScriptedServer,
    chat,
    chunk,
    delta,
    event,
    events,
    usage,
)

GOOD = events(["Hel", "lo"])
SAID = b"".join(GOOD[:3])
ALL = b"".join(GOOD)


def plain(status: bytes, *headers: bytes, body: bytes = b"{}") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % len(body), b"", body])


def in_crumbs(data: bytes) -> list[Action]:
    crumbs: list[Action] = []
    for n in range(0, len(data), 7):
        crumbs += [data[n : n + 7], 0.0005]
    return crumbs


def repeated(data: bytes, gap_s: float, times: int) -> list[Action]:
    actions: list[Action] = [data, gap_s]
    return actions * times


FAULTS: dict[str, tuple[list[Action], str | None]] = {
    # Right answers in unusual clothes.
    "good": ([chat(["Hel", "lo"])], None),
    "crumbs": (in_crumbs(chat(["Hel", "lo"])), None),
    "crlf": ([HEAD + chunk(ALL.replace(b"\n", b"\r\n")), END], None),
    "pings": ([HEAD + b"".join(chunk(b": ping\n\n") + chunk(one) for one in GOOD) + END], None),
    "no usage": ([HEAD + chunk(SAID + event(delta(finish="stop")) + event(b"[DONE]")) + END], None),
    "no done": ([HEAD + chunk(SAID + event(delta(finish="stop"))) + END], None),
    "no last chunk": ([HEAD + chunk(ALL), CLOSE], None),
    "close delimited": ([UNFRAMED + ALL, CLOSE], None),
    "content length": ([plain(b"200 OK", body=ALL)], None),
    "cut at limit": ([chat(["Hel", "lo"], finish="length")], None),
    "interim": ([b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n", chat(["Hel", "lo"])], None),
    # Errors.
    "400": ([plain(b"400 Bad Request", body=b'{"error":{"message":"no such model"}}')], "http_status"),
    "redirect": ([plain(b"302 Found", b"Location: http://127.0.0.1:1/v1")], "http_status"),
    "429": ([plain(b"429 Too Many Requests", b"Retry-After: 1")], "rate_limited"),
    "503": ([plain(b"503 Service Unavailable")], "busy"),
    "in band": ([HEAD + chunk(SAID + event({"error": {"message": "boom"}})) + END], "in_band_error"),
    "reset": ([HEAD + chunk(SAID), 0.05, RESET], "aborted"),
    "close in the middle": ([HEAD + chunk(SAID), CLOSE], "aborted"),
    "cut in an event": ([UNFRAMED + SAID + b'data: {"ch', CLOSE], "aborted"),
    "nothing at all": ([0.4, CLOSE], "aborted"),
    "silence": ([HEAD + chunk(SAID), 2.0, END], "silence_timeout"),
    "no first byte": ([2.0, END], "silence_timeout"),
    "never ending": ([HEAD, *repeated(chunk(event(delta("a"))), 0.1, 60)], "total_timeout"),
    "pings for ever": ([HEAD, *repeated(chunk(b": ping\n\n"), 0.1, 60)], "total_timeout"),
    "no http": ([b"hello there\r\n\r\n", 0.3, CLOSE], "bad_frame"),
    "bad chunk": ([HEAD + b"zz\r\n\r\n", 0.3], "bad_frame"),
    "bad json": ([HEAD + chunk(event(b"{nonsense")) + END], "bad_json"),
    "null finish": ([HEAD + chunk(SAID + event(usage(2)) + event(b"[DONE]")) + END], "no_finish_reason"),
    "empty body": ([plain(b"200 OK", body=b"")], "no_finish_reason"),
    "empty answer": ([chat([])], "empty"),
    "gzip": ([plain(b"200 OK", b"Content-Encoding: gzip", body=b"\x1f\x8b")], "encoding"),
    "no utf-8": ([HEAD + chunk(b'data: {"choices":"\xff"}\n\n') + END], "encoding"),
    "no tokens": ([chat(["Hel", "lo"], tokens=0)], "usage_contradicts"),
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterable[Outcome]:
    """One run over all faults."""
    folder = tmp_path_factory.mktemp("faults")
    prompts = prompts_file(folder / "prompts.jsonl", list(FAULTS))
    with ScriptedServer(lambda asked: FAULTS[asked.content][0]) as server:
        yield run(
            "closed_loop",
            server.url,
            folder / "out",
            *("--prompts", str(prompts), "--requests", str(len(FAULTS)), "--users", "4", "--keep-raw"),
            *("--silence-timeout", "0.8", "--request-timeout", "2"),
        )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_an_error_of_one_kind_and_a_right_answer_is_none(outcome: Outcome, fault: str) -> None:
    number = list(FAULTS).index(fault)
    record = next(record for record in outcome.records if record.prompt_id == f"p{number}")
    assert (record.error or {}).get("kind") == FAULTS[fault][1], record.error
    assert record.ok == (FAULTS[fault][1] is None)
    if record.ok:
        assert (record.text, len(record.chunk_ns)) == ("Hello", 2)
        assert record.sent_ns is not None
        assert record.sent_ns <= record.chunk_ns[0] <= record.chunk_ns[-1] <= record.end_ns


def test_failed_requests_fail_the_run_in_one_line_each_and_without_a_traceback(outcome: Outcome) -> None:
    assert outcome.code == 1
    assert outcome.scenario["complete"] is True
    assert len(outcome.records) == len(FAULTS)
    assert "Traceback" not in outcome.stderr


def test_the_kinds_are_counted(outcome: Outcome) -> None:
    counts = outcome.scenario["counts"]
    assert (
        counts["error"]
        == sum(kind is not None for _, kind in FAULTS.values())
        == sum(counts["errors_by_kind"].values())
    )


def test_the_bytes_of_failed_requests_are_kept_where_asked(outcome: Outcome) -> None:
    failed = {record.id for record in outcome.records if not record.ok and record.http_status is not None}
    kept = {path.stem for path in (outcome.folder / "raw").iterdir()}
    assert failed <= kept
    assert not kept & {record.id for record in outcome.records if record.ok}


def test_what_had_come_before_a_failure_is_kept(outcome: Outcome) -> None:
    number = list(FAULTS).index("reset")
    record = next(record for record in outcome.records if record.prompt_id == f"p{number}")
    assert (record.text, record.http_status) == ("Hello", 200)


def test_a_connection_that_the_server_closes_between_requests_costs_no_request(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: [chat(["a"]), CLOSE]) as server:
        outcome = run("single", server.url, tmp_path / "out", "--requests", "8")
    assert (outcome.code, len(outcome.records), len(server.asked)) == (0, 8, 8)
    assert all(record.connect_ns for record in outcome.records)


def test_a_kept_connection_is_used_again(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: [chat(["a"])]) as server:
        outcome = run("single", server.url, tmp_path / "out", "--requests", "8")
    assert [record.connect_ns is None for record in outcome.records] == [False] + [True] * 7
    assert [asked.on_connection for asked in server.asked] == list(range(8))


def test_a_busy_engine_is_asked_again_where_retries_are_allowed(tmp_path: Path) -> None:
    def busy_first(asked: Asked) -> list[Action]:
        return [plain(b"503 Busy", b"Retry-After: 0.1") if asked.number % 2 == 0 else chat(["a"])]

    with ScriptedServer(busy_first) as server:
        outcome = run("single", server.url, tmp_path / "out", "--requests", "3", "--retries", "1")
    assert outcome.code == 0
    assert [(r.attempt, r.ok) for r in outcome.records] == [(1, False), (2, True)] * 3
    assert outcome.scenario["complete"] is True
    first, second = outcome.records[:2]
    assert first.sent_ns is not None
    assert second.sent_ns is not None
    assert second.sent_ns - first.end_ns >= 0.1e9


def test_an_engine_that_dies_leaves_connect_failures_and_a_readable_capture(tmp_path: Path) -> None:
    def die_at_the_third(asked: Asked) -> list[Action]:
        if asked.number < 2:
            return [chat(["a"])]
        server.__exit__()
        return [CLOSE]

    server = ScriptedServer(die_at_the_third)
    with server:
        outcome = run("single", server.url, tmp_path / "out", "--requests", "5")
    assert outcome.code == 1
    assert outcome.kinds == ["aborted", "connect_failed", "connect_failed"]
    assert [record.sent_ns is None for record in outcome.records] == [False, False, False, True, True]


def test_a_key_from_the_environment_is_sent_and_written_nowhere(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: [plain(b"400 No", body=b"bad") if asked.number else chat(["a"])]) as server:
        env = {"ENGINEBENCH_API_KEY": "sk-hidden-1", "OPENAI_API_KEY": "sk-other"}
        outcome = run("single", server.url, tmp_path / "out", "--requests", "2", env=env)
    assert "Authorization: Bearer sk-hidden-1" in server.asked[0].head
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"sk-hidden" not in written + outcome.stderr.encode()


def test_tls_streams_are_read_as_plain_ones_are(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(cert)]
    make += ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    done = subprocess.run(make, capture_output=True)
    if done.returncode:
        pytest.skip("openssl cannot make a certificate here")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with ScriptedServer(lambda asked: in_crumbs(chat(["Hel", "lo"])), context=context) as server:
        trusting = run("single", server.url, tmp_path / "a", "--requests", "3", env={"SSL_CERT_FILE": str(cert)})
        assert (trusting.code, [r.text for r in trusting.records], server.connections) == (0, ["Hello"] * 3, 2)
        assert trusting.scenario["client"]["arrival_stamps"] == "read"
        doubting = run("single", server.url, tmp_path / "b", "--requests", "1")
    assert doubting.code == 2
    assert "certificate" in doubting.stderr.lower()

"""What came out of a night, as one object that every report is made from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from driver.errors import ExitCode
from records import JsonObject
from reporting.format import count


@dataclass(frozen=True, slots=True)
class Finding:
    """The decision on one figure of one engine and cell (or on its answers).

    `verdict` is ok, improved, regression (confirmed), suspected (no second measurement could be made), unconfirmed (the
    second one did not bear it out) or not judged. `ratio` is the speed ratio against the baseline, below 1 slower; for
    `metric` = accuracy it is the difference.
    """

    engine: str
    cell: str
    metric: str
    verdict: str
    baseline: str | None
    ratio: float | None
    ci: tuple[float, float] | None
    limit: float | None
    before: float | None
    tonight: float | None
    second: float | None
    evidence: str


@dataclass(slots=True)
class NightResult:
    """One night. `failure` is the one line of what stopped it; `breaks` and `builds` are in words."""

    run_id: str
    profile: str
    baseline: str
    status: str = "running"
    exit_code: int = int(ExitCode.DONE)
    findings: list[Finding] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    builds: list[str] = field(default_factory=list)
    trends: list[str] = field(default_factory=list)
    void: list[str] = field(default_factory=list)
    failure: str | None = None
    report: str | None = None

    def by_verdict(self, *verdicts: str) -> list[Finding]:
        """The findings with one of these verdicts."""
        return [finding for finding in self.findings if finding.verdict in verdicts]

    @property
    def headline(self) -> str:
        """The night in one line."""
        if self.failure is not None:
            return f"FAILED: {self.failure}"
        if self.status == "void":
            return f"VOID: {self.void[0] if self.void else 'an audit check failed'}"
        if found := self.by_verdict("regression"):
            return f"REGRESSION: {len(found)} of {len(self.findings)} figures, confirmed by a second measurement"
        if found := self.by_verdict("suspected"):
            return f"REGRESSION SUSPECTED: {len(found)} of {len(self.findings)} figures, not measured again"
        if self.exit_code == ExitCode.REGRESSION:
            return "REQUESTS FAILED: measured requests ended in errors"
        judged = [finding for finding in self.findings if finding.verdict != "not judged"]
        if not judged:
            return "NO BASELINE: measured and kept; nothing to compare with yet"
        seen = len(self.by_verdict("unconfirmed"))
        more = f"; {seen} looked slower, and did not when measured again" if seen else ""
        left = len(self.findings) - len(judged)
        more += f"; {left} not judged" if left else ""
        return f"OK: no regression in {count(len(judged), 'figure')}{more}"

    def to_json(self) -> JsonObject:
        """The result for `--json`, `--notify` and scripts."""
        return {"schema": 1, "headline": self.headline, **asdict(self)}

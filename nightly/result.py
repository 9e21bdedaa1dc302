"""The result of a night, as one object from which every report is made."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from nightly.baseline import FAILING
from records import JsonObject
from records.exit_codes import ExitCode
from reporting.format import count, quantity, share
from reporting.terms import metric_phrase


@dataclass(frozen=True, slots=True)
class Finding:
    """The decision on one figure of one engine and cell (or on its answers, where `metric` is accuracy).

    `verdict` is one of
    - ok, improved, regression (confirmed);
    - missing: earlier nights have this figure and tonight lacks it;
    - suspected: a regression without a valid second measurement;
    - unconfirmed: the second measurement did not show the regression;
    - too young: the series has too few nights to be called ok;
    - not judged: there is nothing to compare it with.

    `ratio` is the speed ratio against the baseline, below 1 slower; for accuracy it is the difference. A single night
    is a regression if its ratio is below `limit`. `since` is the first run on the new level. `standing` is true if an
    earlier night confirmed the regression and it is still open.
    """

    engine: str
    cell: str
    metric: str
    verdict: str
    baseline: str | None = None
    ratio: float | None = None
    ci: tuple[float, float] | None = None
    limit: float | None = None
    before: float | None = None
    tonight: float | None = None
    second: float | None = None
    evidence: str = ""
    since: str | None = None
    unit: str | None = None
    standing: bool = False

    @property
    def wants_confirmation(self) -> bool:
        """Whether a second measurement should look at this figure again."""
        return self.verdict in ("regression", "missing") and not self.standing

    @property
    def change(self) -> str:
        """The change as text: "8.1% slower (135 tok/s -> 124 tok/s)"."""
        levels = f"({self.level(self.before)} -> {self.level(self.tonight)})"
        if self.verdict == "missing":
            return f"is missing tonight (it was {self.level(self.before)})"
        if self.ratio is None:
            return levels
        if self.metric == "accuracy":
            return f"{100 * abs(self.ratio):.1f} points {'worse' if self.ratio < 0 else 'better'} {levels}"
        return f"{100 * abs(1 - self.ratio):.1f}% {'slower' if self.ratio < 1 else 'faster'} {levels}"

    @property
    def against(self) -> str:
        """What it was held against and when it fails, with the second measurement where there was one."""
        parts = [f"held against {self.baseline or 'the earlier nights'}"]
        answers = self.metric == "accuracy"
        if self.ratio is not None:
            figure = f"{self.ratio:+.3f}" if answers else f"{self.ratio:.3f}"
            interval = f", 95% interval [{self.ci[0]:.3f}, {self.ci[1]:.3f}]" if self.ci else ""
            parts.append(f"{'difference' if answers else 'speed ratio'} {figure}{interval}")
        if self.limit is not None:
            # + 0.0: a limit of minus nothing is nothing.
            parts.append(f"one night fails below {round(self.limit, 3) + 0.0:.3f}")
        if self.second is not None:
            parts.append(f"measured again: {self.level(self.second)}")
        return f"{self.engine}, {self.cell}: {metric_phrase(self.metric)} was {'; '.join(parts)}."

    @property
    def sentence(self) -> str:
        """Engine, cell, figure, change, and since when."""
        since = f", since {self.since}" if self.since else ""
        what = "accuracy" if self.metric == "accuracy" else metric_phrase(self.metric)
        return f"{self.engine}, {self.cell}: {what} {self.change}{since}"

    def level(self, value: float | None) -> str:
        """A value of this figure with its unit."""
        return share(value) if self.metric == "accuracy" else quantity(value, self.unit)


@dataclass(slots=True)
class NightResult:
    """One night. `failure` is the one line of what stopped it; `breaks` and `builds` are in words.

    `folder` is the run's folder, `report` the page to read.
    """

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
    folder: str | None = None

    def by_verdict(self, *verdicts: str) -> list[Finding]:
        """The findings with one of these verdicts."""
        return [finding for finding in self.findings if finding.verdict in verdicts]

    @property
    def failing(self) -> list[Finding]:
        """The findings that fail the night, the largest loss first."""
        findings = self.by_verdict(*FAILING)
        return sorted(findings, key=lambda f: (f.verdict == "missing", 1.0 if f.ratio is None else f.ratio))

    @property
    def details(self) -> list[str]:
        """Of each figure that fails the night: against what it was held, by how much it lost, and from where on."""
        return [finding.against for finding in self.failing]

    @property
    def headline(self) -> str:
        """The night in one line; a regression is named with its figure."""
        if self.failure is not None:
            return f"FAILED: {self.failure}"
        if self.status == "void":
            return f"VOID: {self.void[0] if self.void else 'an audit check failed'}"
        if failing := self.failing:
            more = f"; and {count(len(failing) - 1, 'more figure')}" if len(failing) > 1 else ""
            if self.by_verdict("regression"):
                word = "REGRESSION" if any(not f.standing for f in failing) else "REGRESSION STILL OPEN"
            else:
                word = "FIGURE MISSING" if self.by_verdict("missing") else "REGRESSION SUSPECTED, not measured again"
            return f"{word}: {failing[0].sentence}{more}"
        if self.exit_code == ExitCode.REGRESSION:
            return "REQUESTS FAILED: measured requests ended in errors"
        return self._good

    @property
    def _good(self) -> str:
        judged = self.by_verdict("ok", "improved", "unconfirmed")
        young = self.by_verdict("too young")
        if not judged and not young:
            return "NO BASELINE: measured and stored; nothing to compare with yet"
        if not judged:
            lowest = min((f.limit for f in young if f.limit is not None), default=None)
            visible = (
                "" if lowest is None else f"; only a loss of more than {100 * (1 - lowest):.0f}% would be detected"
            )
            return f"TOO YOUNG TO JUDGE: too few nights to know the noise of this series{visible}"
        notes = [f"{count(len(young), 'figure')} too young to judge"] if young else []
        if seen := len(self.by_verdict("unconfirmed")):
            notes.append(f"{seen} looked slower at first, but not when measured again")
        if left := len(self.by_verdict("not judged")):
            notes.append(f"{left} not judged")
        return "; ".join([f"OK: no regression in {count(len(judged), 'figure')}", *notes])

    def to_json(self) -> JsonObject:
        """The result for `--json`, `--notify` and scripts."""
        failing = [finding.sentence for finding in self.failing]
        said = {"headline": self.headline, "details": self.details, "regressions": failing}
        return {"schema": 2, **said, **asdict(self)}

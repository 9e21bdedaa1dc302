"""The charts of the HTML report, each with its figures as a table. Everything is drawn from the comparison JSON."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from records import JsonObject
from reporting._escape import one_line
from reporting._format import UNKNOWN, figure, interval, quantity, ratio, share
from reporting._svg import Plot, Scale, fitting, linear, picture, thin, tick_label
from reporting._view import View, cell_of, concurrency_of, rounds_of

WIDTH, HEIGHT = 400, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 380, 26, 178
ECDF_POINTS = 400
TABLE_ROWS = 24
QUANTILES = (5, 25, 50, 75, 90, 95, 99)


@dataclass(frozen=True)
class Chart:
    """A picture, what it is called, who is in it, and its figures."""

    title: str
    svg: Markup
    header: list[str]
    rows: list[list[str]]
    legend: list[tuple[str, str]] = field(default_factory=list)
    """(style class, name) of each series."""
    note: str = ""


@dataclass(frozen=True)
class Group:
    """Charts under one heading."""

    title: str
    lead: str
    charts: list[Chart]
    pairs: bool = False
    """Two of them belong side by side."""


class Charts:
    """Makes the charts of one comparison; each knows its engine's colour by the engine's place in the comparison."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._css = {engine: f"s{i % 6}" for i, engine in enumerate(view.engines)}
        self._names = {engine: one_line(engine, 40) for engine in view.engines}
        self._keys = 0

    def groups(self) -> list[Group]:
        """All groups that have anything to show."""
        found = [
            Group("Throughput and answers", "With 95% intervals.", [*self.scaling(), *self.accuracy()]),
            Group(
                "Ratio by round",
                "Candidate against baseline in each round; the band is the interval over all rounds.",
                self.ratio_trend(),
            ),
            Group(
                "Latency distributions",
                "Share of requests at or below a latency; a curve further left is faster. All rounds together.",
                self.distributions(),
                pairs=True,
            ),
            Group(
                "Load over time",
                "Tokens a second, and requests in flight below; the steady window is shaded.",
                self.load(),
                pairs=len(self.view.engines) == 2,
            ),
            Group("GPU", "Board power and memory, summed over the devices.", self.gpu()),
        ]
        return [group for group in found if group.charts]

    def _picture(self, title: str, description: str, plots: Sequence[Plot], height: int = HEIGHT) -> Markup:
        self._keys += 1
        return picture(f"c{self._keys}", title, description, WIDTH, height, plots)

    def _legend(self, engines: Sequence[str]) -> list[tuple[str, str]]:
        return [(self._css[engine], self._names[engine]) for engine in engines]

    def samples(self, cell: str, metric: str) -> dict[str, list[float]]:
        """Sorted latencies of the ok measured requests by engine; where `requests` has none, the series' quantiles."""
        found: dict[str, list[float]] = {}
        for engine in self.view.engines:
            values = self._by_cell.get((engine, cell, metric)) or self._quantiles(engine, cell, metric)
            if values:
                found[engine] = sorted(values)
        return found

    @property
    def _by_cell(self) -> dict[tuple[str, str, str], list[float]]:
        if not hasattr(self, "_cache"):
            self._cache: dict[tuple[str, str, str], list[float]] = {}
            for row in self.view.rows("requests"):
                if row.get("status") != "ok" or row.get("phase") == "warmup":
                    continue
                for metric in ("ttft_ms", "tpot_ms"):
                    if (value := row.get(metric)) is not None:
                        self._cache.setdefault((row["engine"], row["cell"], metric), []).append(float(value))
        return self._cache

    def _cell_series(self) -> list[JsonObject]:
        series = self.view.data.get("series")
        return list(series.get("cells") or []) if isinstance(series, dict) else []

    def _quantiles(self, engine: str, cell: str, metric: str) -> list[float]:
        return [
            float(value)
            for row in self._cell_series()
            if row["engine"] == engine and row["cell"] == cell
            for value in (row.get("distributions") or {}).get(metric) or []
        ]

    def distributions(self) -> list[Chart]:
        charts = []
        for cell in self.view.cells:
            for metric, name in (("ttft_ms", "TTFT"), ("tpot_ms", "TPOT")):
                if samples := self.samples(cell, metric):
                    charts.append(self._ecdf(cell, name, samples))
        return charts

    def _ecdf(self, cell: str, name: str, samples: dict[str, list[float]]) -> Chart:
        everything = [value for values in samples.values() for value in (values[0], values[-1])]
        plot = Plot(
            fitting(everything, LEFT, RIGHT), Scale(0, 1, BOTTOM, TOP), x_label="ms", y_label="share of requests",
            y_ticks=[(0, "0"), (0.25, "25%"), (0.5, "50%"), (0.75, "75%"), (1, "100%")],
        )  # fmt: skip
        rows = []
        for engine, values in samples.items():
            n = len(values)
            steps = [(value, (i + 1) / n) for i, value in enumerate(values)]
            plot.line([(values[0], 0.0), *thin(steps, ECDF_POINTS)], self._css[engine], self._names[engine], steps=True)
            quantiles = [_quantile(values, q) if q < 99 or n >= 1000 else None for q in QUANTILES]
            rows.append([self._names[engine], f"{n:,}", *(figure(value) for value in quantiles), figure(values[-1])])
        title = f"{name}, {one_line(cell)}"
        medians = ", ".join(f"{self._names[e]} {figure(_quantile(v, 50))} ms" for e, v in samples.items())
        return Chart(
            title,
            self._picture(title, f"Cumulative distribution of {name}. Medians: {medians}.", [plot]),
            ["engine", "n", *(f"p{q}" for q in QUANTILES), "max"],
            rows,
            self._legend(list(samples)),
        )

    def scaling(self) -> list[Chart]:
        """Throughput against the number in flight, a chart per workload that was run at two concurrencies or more."""
        by_workload: dict[str, list[tuple[int, JsonObject]]] = {}
        for row in self.view.rows("performance"):
            number = concurrency_of(row["scenario"])
            if row["metric"] == "output_tok_s" and number is not None:
                by_workload.setdefault(row["workload"], []).append((number, row["engines"]))
        return [
            self._scaling(workload, sorted(told, key=lambda pair: pair[0]))
            for workload, told in by_workload.items()
            if len({number for number, _ in told}) > 1
        ]

    def _scaling(self, workload: str, told: list[tuple[int, JsonObject]]) -> Chart:
        numbers = [number for number, _ in told]
        known = [e for _, engines in told for e in engines.values() if e.get("value")]
        # An interval from two noisy rounds may be a hundred times as high as its figure; it must not flatten the rest.
        most = 1.6 * max((e["value"] for e in known), default=1.0)
        tops = [min(most, max(e["value"], *(e.get("ci") or [0]))) for e in known]
        plot = Plot(
            linear(numbers, LEFT, RIGHT), linear(tops, BOTTOM, TOP), x_label="requests in flight", y_label="tok/s",
            x_ticks=[(number, str(number)) for number in numbers],
        )  # fmt: skip
        rows, legend = [], []
        for engine in self.view.engines:
            points = [(number, engines[engine]) for number, engines in told if (engines.get(engine) or {}).get("value")]
            if not points:
                continue
            legend.append(engine)
            css, name = self._css[engine], self._names[engine]
            plot.line([(number, e["value"]) for number, e in points], css, name)
            for number, e in points:
                if e.get("ci"):
                    plot.whisker(number, e["ci"][0], e["ci"][1], css)
                plot.point(
                    number, e["value"], css, f"{name}, {number} in flight: {quantity(e['value'], 'tok/s')}", name
                )
                low, high = (figure(e["ci"][0]), figure(e["ci"][1])) if e.get("ci") else (UNKNOWN, UNKNOWN)
                rows.append([name, str(number), figure(e["value"]), low, high])
        title = f"Output throughput, {one_line(workload)}"
        return Chart(
            title,
            self._picture(title, "Output tokens a second by requests in flight; figures in the table below.", [plot]),
            ["engine", "in flight", "tok/s", "low", "high"],
            rows,
            self._legend(legend),
        )

    def ratio_trend(self) -> list[Chart]:
        charts = []
        for row in self.view.rows("performance"):
            if row["metric"] != "output_tok_s":
                continue
            before = rounds_of(row["engines"].get(self.view.baseline) or {})
            curves = {}
            for candidate in self.view.candidates:
                now = rounds_of(row["engines"].get(candidate) or {})
                shared = [k for k in sorted(before) if before[k] and now.get(k)]
                curve = [(float(k), float(now[k]) / float(before[k])) for k in shared]  # type: ignore[arg-type]
                if len(curve) > 1:
                    curves[candidate] = curve
            if curves:
                charts.append(self._ratio(row, curves))
        return charts

    def _ratio(self, row: JsonObject, curves: dict[str, list[tuple[float, float]]]) -> Chart:
        told = {candidate: (row.get("speed_ratio") or {}).get(candidate) or {} for candidate in curves}
        values = [y for curve in curves.values() for _, y in curve]
        ends = [end for t in told.values() for end in t.get("ci") or []]
        rounds = sorted({int(x) for curve in curves.values() for x, _ in curve})
        low, high = min(*values, 1.0) / 1.5, max(*values, 1.0) * 1.5
        scale = fitting([*values, *(min(max(end, low), high) for end in ends), 1.0], BOTTOM, TOP)
        plot = Plot(
            Scale(rounds[0] - 0.4, rounds[-1] + 0.4, LEFT, RIGHT), scale, x_label="round", y_label="speed ratio",
            x_ticks=[(k, str(k)) for k in rounds],
        )  # fmt: skip
        rows = []
        if len(curves) == 1 and (ci := next(iter(told.values())).get("ci")):
            plot.band_y(*ci)
        plot.rule_y(1.0)
        for candidate, curve in curves.items():
            css, name = self._css[candidate], self._names[candidate]
            plot.line(curve, css, name)
            for x, y in curve:
                plot.point(x, y, css, f"{name}, round {x:.0f}: {ratio(y)}", name)
                rows.append([name, f"{x:.0f}", f"{y:.3f}"])
            rows.append([name, "all", f"{ratio(told[candidate].get('value'))} {interval(told[candidate].get('ci'))}"])
        title = f"Throughput ratio, {one_line(cell_of(row))}"
        return Chart(
            title,
            self._picture(title, "Throughput of the candidate over the baseline's, by round; 1 is equal.", [plot]),
            ["candidate", "round", "ratio"],
            rows,
            self._legend(list(curves)),
        )

    def load(self) -> list[Chart]:
        """One picture per cell and engine, of its first round; the pictures of a cell share their scales."""
        first: dict[tuple[str, str], JsonObject] = {}
        for row in self._cell_series():
            key = (row["cell"], row["engine"])
            if key not in first or row["round"] < first[key]["round"]:
                first[key] = row
        charts = []
        for cell in dict.fromkeys(cell for cell, _ in first):
            told = [first[cell, engine] for engine in self.view.engines if (cell, engine) in first]
            ends = [
                t
                for row in told
                for t in (*_tokens_x(row)[-1:], *((row.get("in_flight") or {}).get("t_s") or [0])[-1:])
            ]
            tops = [rate for row in told for rate in (row.get("tokens") or {}).get("tok_s") or []]
            most = [n for row in told for n in (row.get("in_flight") or {}).get("n") or []]
            scales = (linear(ends, LEFT, RIGHT), linear(tops, 150, TOP), linear(most, 226, 184, about=2))
            charts += [self._load(row, *scales) for row in told if row.get("tokens") or row.get("in_flight")]
        return charts

    def _load(self, row: JsonObject, x: Scale, y: Scale, y_flight: Scale) -> Chart:
        engine, css, name = row["engine"], f"{self._css[row['engine']]} alone", self._names[row["engine"]]
        upper = Plot(x, y, y_label="tok/s", x_ticks=[])
        most = max((row.get("in_flight") or {}).get("n") or [1])
        lower = Plot(x, y_flight, x_label="s", y_label="in flight", y_ticks=[(v, tick_label(v)) for v in (0, most)])
        windows = [(float(w[0]), float(w[1])) for w in row.get("steady_s") or []]
        for low, high in windows:
            for plot in (upper, lower):
                plot.shade(low, high, f"steady window, {figure(low)} s to {figure(high)} s")
        edges, rates = _tokens_x(row), (row.get("tokens") or {}).get("tok_s") or []
        if rates:
            upper.line([*zip(edges, rates, strict=False), (edges[-1], rates[-1])], css, name, steps=True)
        flight = row.get("in_flight") or {}
        curve = list(zip(flight.get("t_s") or [], flight.get("n") or [], strict=True))
        if curve:
            lower.line(curve, css, f"{name}, in flight", steps=True)
        rows = [
            [figure(edges[i]), figure(sum(rates[i:j]) / (j - i)), figure(_held(curve, edges[i]))]
            for i, j in _chunks(len(rates), TABLE_ROWS)
        ]
        title = f"{name}, {one_line(row['cell'])}"
        steady = ", ".join(f"{figure(low)} to {figure(high)} s" for low, high in windows) or "none was reached"
        return Chart(
            title,
            self._picture(f"Load over time, {title}", f"Steady window: {steady}.", [upper, lower], height=266),
            ["from s", "tok/s (mean)", "in flight"],
            rows,
            self._legend([engine]),
            f"Round {row['round']}. Steady window: {steady}.",
        )

    def accuracy(self) -> list[Chart]:
        told = [
            (row, engine, row["engines"][engine])
            for row in self.view.rows("quality")
            for engine in self.view.engines
            if (row["engines"].get(engine) or {}).get("accuracy") is not None
        ]
        if not told:
            return []
        height = 40 + 22 * len(told) + 40
        left = 24 + 6.5 * max(len(one_line(row["workload"], 20)) for row, _, _ in told)
        plot = Plot(
            Scale(0, 1, left, RIGHT), Scale(len(told) - 0.5, -0.5, height - 40, 20), grid=False,
            x_ticks=[(v / 100, f"{v}%") for v in (0, 25, 50, 75, 100)],
            y_ticks=[
                (i, one_line(row["workload"], 20)) for i, (row, e, _) in enumerate(told) if e == self.view.engines[0]
            ],
        )  # fmt: skip
        for x in (0.25, 0.5, 0.75, 1.0):
            plot.rule_x(x, "grid")
        rows = []
        for i, (row, engine, e) in enumerate(told):
            css, name, ci = self._css[engine], self._names[engine], e.get("ci")
            if ci:
                plot.bar_h(i, ci[0], ci[1], css)
            plot.point(e["accuracy"], i, css, f"{name}, {one_line(row['workload'])}: {share(e['accuracy'])}", name)
            ends = [share(end) for end in ci] if ci else [UNKNOWN, UNKNOWN]
            rows.append([one_line(row["workload"]), name, f"{e['correct']}/{e['n']}", share(e["accuracy"]), *ends])
        title = "Accuracy by workload"
        svg = self._picture(title, "Share of right answers of each engine; figures in the table below.", [plot], height)
        legend = self._legend([e for e in self.view.engines if any(e == engine for _, engine, _ in told)])
        return [Chart(title, svg, ["workload", "engine", "right", "accuracy", "low", "high"], rows, legend)]

    def gpu(self) -> list[Chart]:
        series = self.view.data.get("series")
        told = list(series.get("gpu") or []) if isinstance(series, dict) else []
        charts = []
        for key, name, unit in (("power_w", "Power", "W"), ("memory_mib", "Memory", "MiB")):
            curves = [(row, _curve(row.get(key))) for row in told]
            curves = [(row, curve) for row, curve in curves if curve and row["engine"] in self._css]
            if not curves:
                continue
            xs = [x for _, curve in curves for x, _ in curve[-1:]]
            ys = [y for _, curve in curves for _, y in curve]
            plot = Plot(
                linear(xs, LEFT, RIGHT), linear(ys, BOTTOM, TOP), x_label="s since the engine's start", y_label=unit
            )
            rows = []
            for row, curve in curves:
                engine = self._names[row["engine"]]
                plot.line(curve, self._css[row["engine"]], f"{engine}, round {row['round']}")
                values = sorted(y for _, y in curve)
                rows.append(
                    [engine, str(row["round"]), figure(values[0]), figure(_quantile(values, 50)), figure(values[-1])]
                )
            title = f"{name} over time"
            svg = self._picture(title, f"{name} in {unit} of each engine's lives.", [plot])
            legend = self._legend(list(dict.fromkeys(row["engine"] for row, _ in curves)))
            charts.append(Chart(title, svg, ["engine", "round", f"least {unit}", "median", "most"], rows, legend))
        return charts


def _curve(told: JsonObject | None) -> list[tuple[float, float]]:
    return list(zip(told["t_s"], told["values"], strict=True)) if told else []


def _tokens_x(row: JsonObject) -> list[float]:
    """The edges of the token bins in s, one more than there are bins."""
    tokens = row.get("tokens") or {}
    return [i * tokens["bin_s"] for i in range(len(tokens["tok_s"]) + 1)] if tokens else []


def _held(curve: Sequence[tuple[float, float]], x: float) -> float | None:
    """The figure that a step curve holds at x."""
    found = None
    for at, value in curve:
        if at > x:
            break
        found = value
    return found


def _chunks(total: int, pieces: int) -> list[tuple[int, int]]:
    edges = sorted({round(i * total / pieces) for i in range(pieces + 1)})
    return list(itertools.pairwise(edges))


def _quantile(ordered: Sequence[float], percent: float) -> float:
    """By linear interpolation, as everywhere in this project."""
    at = (len(ordered) - 1) * percent / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)

// The live page: polls live.json and draws. Text from the server goes into text nodes only, never into markup.
"use strict";
const byId = (id) => document.getElementById(id);
const embedded = new URLSearchParams(location.search).get("embedded");
if (embedded) {
  document.body.classList.add("embedded");
  document.documentElement.dataset.theme = embedded === "dark" ? "dark" : "light";
}
const SVG = "http://www.w3.org/2000/svg";
const W = 480, H = 170, LEFT = 46, BOTTOM = 18, TOP = 8;
// A second has too few requests for a tail percentile.
const percentiles = (name) => ["p50", "max"].map((part) => ({ key: `${name}_${part}`, label: part }));
const CHARTS = [
  { title: "TTFT, ms", lines: percentiles("ttft_ms") },
  { title: "TPOT, ms", lines: percentiles("tpot_ms") },
  { title: "ITL, ms per token", lines: percentiles("itl_ms") },
  { title: "ICL, ms per chunk", lines: percentiles("icl_ms"), gaps: true },
  { title: "Output tokens a second", lines: [{ key: "tokens", label: "tokens/s" }] },
  { title: "In flight", lines: [{ key: "in_flight", label: "requests" }] },
  { title: "Requests ended a second", lines: [{ key: "ended", label: "ended" }, { key: "errors", label: "errors" }] },
  { title: "Loop lag of the load client, ms", lines: [{ key: "lag_ms", label: "p99, last 10 s" }] },
];
const METRICS = { ttft_ms: "TTFT", tpot_ms: "TPOT", itl_ms: "ITL", icl_ms: "ICL", e2e_ms: "E2E" };
const MEANINGS = {
  ttft_ms: "time from the send to the first token",
  tpot_ms: "time per output token after the first, the mean of each request",
  itl_ms: "inter-token latency: each gap between arrivals, spread over the tokens that it brought",
  icl_ms: "inter-chunk latency: each gap between arrivals, however many tokens it brought",
  e2e_ms: "time from the send to the last token",
};

function number(value, digits) {
  if (value === null || value === undefined) return "–";
  const places = digits ?? (Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);
  return value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
}
function make(name, text, attributes = {}) {
  const node = document.createElement(name);
  if (text !== null) node.textContent = text;
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}
function draw(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
function rows(id, table, nothing) {
  const shown = table.length ? table : [[nothing]];
  byId(id).replaceChildren(...shown.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((cell) => {
      if (!(cell instanceof Node)) return make("td", cell);
      const td = document.createElement("td");
      td.append(cell);
      return td;
    }));
    return row;
  }));
}
function niceTop(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 6, 8, 10].map((step) => step * power).find((top) => top >= value * 1.02) ?? 20 * power;
}
const clock = (t) => `${Math.floor(t / 60)}:${String(t % 60).padStart(2, "0")}`;

class Chart {
  constructor(chart) {
    this.chart = chart;
    this.at = null;
    const figure = (this.figure = document.createElement("figure"));
    const caption = document.createElement("figcaption");
    caption.append(make("b", chart.title));
    const keys = make("span", null);
    if (chart.lines.length > 1) chart.lines.forEach((line, n) => keys.append(make("span", line.label, { class: `key c${n}` }), " "));
    caption.append(keys);
    this.svg = draw("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", tabindex: "0", "aria-label": chart.title });
    this.said = make("output", "");
    figure.append(caption, this.svg, this.said);
    byId("charts").append(figure);
    this.svg.addEventListener("pointermove", (event) => {
      const box = this.svg.getBoundingClientRect();
      this.point(Math.round((((event.clientX - box.left) / box.width) * W - LEFT) / (W - LEFT) * (this.count - 1)));
    });
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.svg.addEventListener("blur", () => this.point(null));
    this.svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30, Home: -1e6, End: 1e6 }[event.key];
      if (event.key === "Escape") this.point(null);
      if (!step) return;
      event.preventDefault();
      this.point((this.at ?? this.count) + step);
    });
  }
  point(at) {
    this.at = at === null || !this.count ? null : Math.max(0, Math.min(this.count - 1, at));
    if (this.series) this.update(this.series);
  }
  update(series) {
    this.series = series;
    const { lines } = this.chart;
    const count = (this.count = series.t.length);
    const all = lines.flatMap((line) => series[line.key]).filter((value) => value !== null);
    const top = niceTop(all.reduce((most, value) => Math.max(most, value), 0));
    const x = (n) => LEFT + (count > 1 ? (n / (count - 1)) * (W - LEFT - 4) : 0);
    const y = (value) => TOP + (1 - value / top) * (H - TOP - BOTTOM);
    const nodes = [0, 0.5, 1].flatMap((share) => [
      draw("line", { x1: LEFT, x2: W, y1: y(top * share), y2: y(top * share) }),
      draw("text", { x: LEFT - 5, y: y(top * share) + 4, "text-anchor": "end" }, (top * share).toLocaleString("en")),
    ]);
    if (count) nodes.push(
      draw("text", { x: LEFT, y: H - 3 }, clock(series.t[0])),
      draw("text", { x: W - 2, y: H - 3, "text-anchor": "end" }, clock(series.t[count - 1])),
    );
    lines.forEach((line, n) => {
      // A second without a value is bridged: nothing ended in it, which is no zero. A lone value is a dot.
      let path = "", drawn = 0;
      series[line.key].forEach((value, i) => {
        if (value === null) return;
        path += `${drawn++ ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
      });
      nodes.push(draw("path", { d: drawn === 1 ? `${path}h3` : path, class: `c${n}`, "data-key": line.key }));
    });
    const at = this.at === null ? null : Math.min(this.at, count - 1);
    if (at !== null) nodes.push(draw("line", { class: "at", x1: x(at), x2: x(at), y1: TOP, y2: H - BOTTOM }));
    this.svg.replaceChildren(...nodes);
    const told = at === null ? "" : `${clock(series.t[at])}  ` + lines.map((line) => `${line.label} ${number(series[line.key][at])}`).join(", ");
    if (this.said.textContent !== told) this.said.textContent = told;
  }
}
const charts = CHARTS.map((chart) => new Chart(chart));

const cards = new Map();
function card(name, value) {
  if (!cards.has(name)) {
    const box = document.createElement("div");
    box.append(make("dt", name), make("dd", "", { "data-card": name.toLowerCase() }));
    byId("cards").append(box);
    cards.set(name, box.lastChild);
  }
  if (cards.get(name).textContent !== value) cards.get(name).textContent = value;
}

function show(live) {
  byId("records").hidden = !live.records;
  byId("problem").hidden = !live.problem;
  byId("problem").textContent = live.problem ?? "";
  const state = live.test ? live.state : "";
  if (byId("state").textContent !== state) byId("state").textContent = state;
  const status = live.test ? `test ${live.test}: ${live.scenario}, ${live.prompts}, ${live.host ?? "no host"}` : "no test yet; start one in Locust";
  if (byId("status").textContent !== status) byId("status").textContent = status;
  const counts = live.counts ?? { ok: 0, error: 0, warmup: 0 };
  const recent = live.recent ?? { latency: {} };
  card("Output tokens/s", number(live.tokens_per_s));
  card("Last 10 s", number(recent.tokens_per_s));
  card("In flight", number(live.in_flight, 0));
  for (const name of ["ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"]) card(`${METRICS[name]} p50 ms`, number(live.latency?.[name].p50));
  card("Ok", number(counts.ok, 0));
  card("Errors", number(counts.error, 0));
  if (counts.cancelled) card("Cancelled", number(counts.cancelled, 0));
  if (counts.warmup) card("Warm-up", number(counts.warmup, 0));
  const latencies = Object.entries(live.latency ?? {}).filter(([name]) => name !== "icl_ms" || !live.same_gaps);
  rows("latency", latencies.map(([name, of]) => [
    make("abbr", METRICS[name], { title: MEANINGS[name] }), number(of.requests, 0), number(of.n, 0), ...["p50", "p90", "p99", "mean", "max"].map((key) => number(of[key], 2)),
    number(recent.latency[name]?.p50, 2), of.exact ? "exact" : "within 0.1%",
  ]), "no request has ended yet");
  showCapacity(live.capacity);
  byId("parts-section").hidden = !live.parts?.length;
  rows("parts", (live.parts ?? []).map((part) => [
    part.name, number(part.ok, 0), number(part.errors, 0),
    ...["tokens_per_s", "ttft_ms_p50", "tpot_ms_p50", "e2e_ms_p50"].map((key) => number(part[key])),
  ]), "");
  rows("errors", Object.entries(live.errors_by_kind ?? {}).map(([kind, n]) => [kind, number(n, 0)]), "none");
  rows("clients", Object.entries(live.clients).map(([name, of]) => [
    name, number(of.in_flight, 0), of.cpu_share == null ? "–" : `${number(of.cpu_share * 100, 0)}%`,
    number(of.loop_lag_ms_p99, 2), number(of.loop_lag_ms_max, 2), number(of.late_sends, 0), number(of.rss_mib, 0),
  ]), "no worker has reported yet");
  if (live.series) {
    // The second that is not over yet would look like a fall.
    const over = live.state === "running" ? -1 : undefined;
    const series = Object.fromEntries(Object.entries(live.series).map(([key, values]) => [key, values.slice(0, over)]));
    byId("span").textContent = `${series.t.length} s, shown as minutes:seconds since the start`;
    charts.forEach((chart) => {
      chart.figure.hidden = Boolean(chart.chart.gaps && live.same_gaps);
      chart.update(series);
    });
  }
  document.documentElement.dataset.test = live.test;
}

const percent = (value) => (value == null ? "–" : `${number(value * 100, 1)}%`);

/** The search for a capacity: what is known of it, and every level that was measured. */
function showCapacity(found) {
  byId("capacity-section").hidden = !found;
  if (!found) return;
  const unit = found.by === "rate" ? "requests/s" : "users";
  const known = [
    found.passes == null ? "" : `${number(found.passes)} ${unit} pass`,
    found.fails == null ? "" : `${number(found.fails)} fail`,
  ].filter(Boolean).join(", ");
  const state = found.complete ? "found" : found.reason;
  byId("capacity-result").textContent = `${known || "no level is judged yet"} (${state})`;
  rows("capacity", found.levels.map((level) => [
    `${number(level.level)} ${unit}`, number(level.requests, 0), percent(level.share),
    `${percent(level.ci[0])} to ${percent(level.ci[1])}`, level.verdict ?? "being measured",
  ]), "no request has ended yet");
}

async function poll() {
  try {
    const answer = await fetch("live.json", { credentials: "same-origin", redirect: "error" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
  } catch (error) {
    byId("status").textContent = `no figures from Locust (${error.message}); is it still running, and are you logged in?`;
  }
  setTimeout(poll, document.hidden ? 5000 : 1000);
}
poll();

// Inside Locust's tab the frame takes the height of what is in it.
if (embedded) {
  new ResizeObserver(() => parent.postMessage({ enginebenchHeight: document.documentElement.scrollHeight }, location.origin))
    .observe(document.body);
}

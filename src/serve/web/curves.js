// Draws the curves of the chosen runs with uPlot. serve.js has the state and receives the points.
"use strict";

const MOST_POINTS = 4000, HEIGHT = 208;
const DASHES = [[], [7, 3], [2, 2], [9, 3, 2, 3], [12, 5], [4, 4], [1, 3], [6, 2, 1, 2, 1, 2]];
// Each chart: title, unit, metric of training, metric of evaluations. Losses have different units: that of
// IPO is a square.
const CHARTS = [
  ["loss", "mean per example", "loss/train", "loss/eval"],
  ["reward accuracy", "share", "rewards_train/accuracies", "rewards_eval/accuracies"],
  ["reward margin", "β × nats", "rewards_train/margins", "rewards_eval/margins"],
  ["reward of chosen responses", "β × nats", "rewards_train/chosen", "rewards_eval/chosen"],
  ["reward of rejected responses", "β × nats", "rewards_train/rejected", "rewards_eval/rejected"],
];
const MORE_CHARTS = [
  ["log-probability of chosen responses", "nats", "logps_train/chosen", "logps_eval/chosen"],
  ["log-probability of rejected responses", "nats", "logps_train/rejected", "logps_eval/rejected"],
  ["KL from the reference per token", "nats", "kl_train/per_token", "kl_eval/per_token"],
  ["balance loss of the experts", "", "aux_loss", ""],
  ["gradient norm", "", "grad_norm", ""],
  ["learning rate", "", "learning_rate", ""],
  ["examples per second", "examples/s", "examples_per_second", ""],
  ["tokens per second", "tokens/s", "tokens_per_second", ""],
];

const metrics = new Map();  // id of a run: { metric: [xs, ys] }
let charts = [], dirty = false, heldOut = { text: "", differ: false };  // heldOut: the server's "held-out" event

// Replaces pairs of neighbours by their means, except for the newest points. This bounds the points of a run
// that is watched for weeks.
const thin = ([xs, ys]) => {
  if (xs.length <= MOST_POINTS) return [xs, ys];
  const end = Math.floor(xs.length * 3 / 8) * 2, pairs = (values) => {
    const kept = [];
    for (let i = 0; i < end; i += 2) kept.push((values[i] + values[i + 1]) / 2);
    return kept.concat(values.slice(end));
  };
  return [pairs(xs), pairs(ys)];
};

const addPoints = ({ run, again, metrics: added }) => {
  if (again || !metrics.has(run)) metrics.set(run, {});
  const known = metrics.get(run), isNew = Object.keys(added).some((name) => !known[name]);
  for (const [name, [xs, ys]] of Object.entries(added)) {
    const [oldXs, oldYs] = known[name] || [[], []];
    known[name] = thin([oldXs.concat(xs), oldYs.concat(ys)]);
  }
  if (again || isNew) return buildCharts();
  if (!dirty) requestAnimationFrame(() => { dirty = false; charts.forEach(fill); });
  dirty = true;
};

const fill = (chart) => {
  const tables = chart.curves.map(({ run, metric }) => (metrics.get(run) || {})[metric] || [[], []]);
  chart.plot.setData(uPlot.join(tables), !chart.zoomed);
  if (chart.zoomed) chart.plot.redraw();
  const { left, idx } = chart.plot.cursor;
  say(chart, left >= 0 && idx !== null ? idx : chart.plot.data[0].length - 1);
};

// Shows the values nearest to a place on the x axis.
const say = (chart, index) => {
  const [xs, ...columns] = chart.plot.data;
  if (index < 0 || xs[index] === undefined) return;
  const far = (xs[xs.length - 1] - xs[0]) / 10;
  const values = columns.flatMap((ys, k) => {
    for (let step = 0; step < xs.length; ++step)
      for (const i of [index - step, index + step])
        if (ys[i] !== undefined && ys[i] !== null) return Math.abs(xs[i] - xs[index]) > far ? [] : [`${chart.curves[k].name} ${short(ys[i])}`];
    return [];
  });
  chart.index = index;
  setText(chart.output, `examples ${short(xs[index], 7)}: ${values.join(", ")}`);
};

const curvesOf = (train, evaluation) => state.runs.flatMap((run) => [[train, "training"], [evaluation, "held out"]].filter(
  ([metric]) => metric && (metrics.get(run) || {})[metric]).map(([metric, kind]) => (
  { run, metric, kind, name: state.runs.length > 1 ? `${nameOf(run)} ${kind}` : kind })));

const makeChart = (title, unit, curves) => {
  const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
  const output = element("output"), place = element("div");
  const isAffected = heldOut.differ && curves.filter(({ kind }) => kind === "held out").length > 1;
  const caption = element("figcaption", {}, isAffected ? `${title} (${heldOut.text})` : title,
    ...(unit ? [" ", element("span", { className: "unit", textContent: unit })] : []));
  const figure = element("figure", { className: curves.length > 2 ? "chart many" : "chart" }, caption, place, output);
  const chart = { title, curves, output, figure, place, index: 0, zoomed: false };
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1 }, font: "13px system-ui, sans-serif" };
  chart.plot = new uPlot({
    width: 380, height: HEIGHT, legend: { show: false }, scales: { x: { time: false } }, cursor: { y: false, drag: { x: true, y: false } },
    axes: [{ ...axis, size: 32, label: "training examples", labelSize: 18, labelFont: axis.font, labelGap: 0, values: (_, ticks) => ticks.map((tick) => short(tick, 4)) }, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => short(tick, 4)) }],
    series: [{}, ...curves.map(({ run, kind }) => ({
      stroke: colour("--c" + slots.get(run)), width: kind === "training" ? 1.2 : 2, dash: DASHES[slots.get(run)], spanGaps: true,
      points: { show: kind === "held out", size: 6, fill: colour("--c" + slots.get(run)) } }))],
    hooks: { setSelect: [(plot) => { chart.zoomed = plot.select.width > 0; }], setCursor: [(plot) => { if (plot.cursor.idx !== null && plot.cursor.left >= 0) say(chart, plot.cursor.idx); }] },
  }, [[], ...curves.map(() => [])], place);
  const over = chart.plot.over;
  over.addEventListener("dblclick", () => { chart.zoomed = false; });
  over.tabIndex = 0;
  over.setAttribute("role", "img");
  over.setAttribute("aria-label", title);
  over.addEventListener("keydown", (event) => {
    const last = chart.plot.data[0].length - 1;
    const moves = { ArrowLeft: chart.index - 1, ArrowRight: chart.index + 1, Home: 0, End: last };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const index = Math.min(Math.max(moves[event.key], 0), last);
    chart.plot.setCursor({ left: chart.plot.valToPos(chart.plot.data[0][index], "x"), top: 10 });
    say(chart, index);
  });
  return chart;
};

const resize = () => charts.forEach((chart) => {
  const width = chart.place.clientWidth;
  if (width > 0 && width !== chart.plot.width) chart.plot.setSize({ width, height: HEIGHT });
});

const buildCharts = () => {
  charts.forEach((chart) => chart.plot.destroy());
  charts = [];
  for (const [definitions, parent] of [[CHARTS, at("charts")], [MORE_CHARTS, at("charts-more")]]) {
    const made = definitions.map(([title, unit, ...names]) => [title, unit, curvesOf(...names)]).filter(([, , curves]) => curves.length).map(
      (chart) => makeChart(...chart));
    parent.replaceChildren(...made.map((chart) => chart.figure));
    charts.push(...made);
  }
  at("more-charts").hidden = !at("charts-more").children.length;
  at("curves-hint").hidden = charts.length > 0;
  at("curves-key").hidden = charts.length === 0;
  setText(at("curves-hint"), state.runs.length ? "Nothing was logged yet." : "Choose a run to see its curves.");
  resize();
  charts.forEach(fill);
};

const showHeldOut = (compared) => {
  heldOut = compared;
  at("held-out").hidden = !heldOut.text;
  at("held-out").className = heldOut.differ ? "error" : "";
  setText(at("held-out"), heldOut.text);
  buildCharts();
};

const showLegend = () => at("legend").replaceChildren(...state.runs.map((id) => element("li", {},
  element("span", { className: "swatch s" + slots.get(id) }), nameOf(id))));

#include "report/style.h"

namespace dpo::report {

// Curves differ in lightness and dashes as well as in hue, so they can be told apart with any colour vision.
// The contrast against the background, light and dark, is at least 4.5 for text and 3 for curves.
const std::string_view kStyle = R"(
:root { color-scheme: light dark; --text: #1d2126; --soft: #5a626b; --page: #fff; --box: #f4f5f6; --line: #d5d9dd; --grid: #e6e8ea;
  --good: #17663a; --bad: #a1330f; --link: #0a58a6;
  --c0: #0063b1; --c1: #c24a00; --c2: #007a5a; --c3: #9b4f8e; --c4: #7a6000; --c5: #00789c; --c6: #b02050; --c7: #555; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7ea; --soft: #a3abb3; --page: #15181c; --box: #20252b; --line: #3a4149; --grid: #2b3138;
  --good: #6fd39b; --bad: #ff9d7a; --link: #7cb8f5;
  --c0: #6cb4ff; --c1: #ff9a5c; --c2: #4fd0a5; --c3: #e39bd6; --c4: #e3c84f; --c5: #67d3f2; --c6: #ff8fae; --c7: #bdbdbd; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 62rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: .6rem 0; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
a { color: var(--link); } nav { font-size: .92rem; } nav a { margin-right: 1rem; white-space: nowrap; display: inline-block; padding: .15rem 0; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.lead { font-size: 1.15rem; border-left: .3rem solid var(--line); padding: .2rem 0 .2rem .8rem; }
.lead.good { border-color: var(--good); } .lead.bad { border-color: var(--bad); }
td.good, .quote.good h3 { color: var(--good); } td.bad, .quote.bad h3 { color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .8rem; margin: 1.2rem 0; }
.tiles div { background: var(--box); border-radius: .5rem; padding: .6rem .9rem; } .tiles dt { font-size: .85rem; color: var(--soft); }
.tiles dd { margin: 0; font-size: 1.5rem; font-weight: 600; line-height: 1.3; } .tiles small { font-size: .82rem; font-weight: 400; min-height: 1.3em; }
.scroll { overflow-x: auto; overflow-wrap: break-word; margin: .8rem 0 1.6rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; } .two th:first-child { width: 40%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid var(--line); }
th { border-bottom: 2px solid var(--soft); } small { display: block; color: var(--soft); }
pre, .quote div { background: var(--box); padding: .6rem .8rem; border-radius: .5rem; }
pre { overflow-x: auto; font-size: .82rem; line-height: 1.4; }
details { border-bottom: 1px solid var(--line); padding: .3rem 0; } summary { cursor: pointer; padding: .3rem 0; font-variant-numeric: tabular-nums; }
summary bdi { color: var(--soft); margin-left: .5rem; }
.charts, .quotes { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap: 1rem; margin: .8rem 0; }
.charts { grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); }
.quote h3 { margin: 0 0 .2rem; font-size: .85rem; } .quote div { white-space: pre-wrap; font-size: .9rem; max-height: 24rem; overflow-y: auto; }
.quote p { margin: 0; } .quote p + p { margin-top: .6rem; } .quote b { display: block; color: var(--soft); font-size: .82rem; }
figure { margin: 0; border: 1px solid var(--line); border-radius: .5rem; padding: .7rem .9rem .4rem; min-width: 0; } figcaption { font-weight: 600; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0 1rem; margin: 0 0 .5rem; padding: 0; font-size: .85rem; min-height: 1.5em; }
.legend svg { width: 24px; height: 8px; margin-right: .4rem; vertical-align: middle; }
.plot { display: block; width: 100%; touch-action: pan-y; } .plot:focus-visible { outline-offset: -3px; }
output { display: block; min-height: 1.6em; font-size: .85rem; color: var(--soft); font-variant-numeric: tabular-nums; } .many output { min-height: 3.2em; }
@media (max-width: 34rem) { output { min-height: 3.2em; } .many output { min-height: 4.8em; } }
svg text { font: 13px system-ui, sans-serif; fill: var(--soft); }
.grid { stroke: var(--grid); } .zero { stroke: var(--soft); } .cursor { stroke: var(--soft); visibility: hidden; }
.curve { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .steps { fill-opacity: .15; }
.c0 .curve { stroke: var(--c0); } .c0 circle, .c0 .steps { fill: var(--c0); }
.c1 .curve { stroke: var(--c1); stroke-dasharray: 7 3; } .c1 circle, .c1 .steps { fill: var(--c1); }
.c2 .curve { stroke: var(--c2); stroke-dasharray: 2 2; } .c2 circle, .c2 .steps { fill: var(--c2); }
.c3 .curve { stroke: var(--c3); stroke-dasharray: 9 3 2 3; } .c3 circle, .c3 .steps { fill: var(--c3); }
.c4 .curve { stroke: var(--c4); stroke-dasharray: 12 5; } .c4 circle, .c4 .steps { fill: var(--c4); }
.c5 .curve { stroke: var(--c5); stroke-dasharray: 4 4; } .c5 circle, .c5 .steps { fill: var(--c5); }
.c6 .curve { stroke: var(--c6); stroke-dasharray: 1 3; } .c6 circle, .c6 .steps { fill: var(--c6); }
.c7 .curve { stroke: var(--c7); stroke-dasharray: 6 2 1 2 1 2; } .c7 circle, .c7 .steps { fill: var(--c7); }
@media print { nav { display: none; } }
)";

// Shows the values at the pointer, or at the point chosen with the arrow keys. Texts are set as text, never
// as HTML.
const std::string_view kScript = R"(
"use strict";
for (const figure of document.querySelectorAll("figure.chart")) {
  const plot = figure.querySelector(".plot"), cursor = figure.querySelector(".cursor"), shown = figure.querySelector("output");
  const curves = [...figure.querySelectorAll("[data-points]")].map((group) => ({
    name: group.dataset.name,
    points: group.dataset.points.split(" ").filter(Boolean).map((pair) => pair.split(",").map(Number)),
  })).filter((curve) => curve.points.length > 0);
  const xs = [...new Set(curves.flatMap((curve) => curve.points.map((point) => point[0])))].sort((a, b) => a - b);
  if (xs.length === 0) continue;
  const [low, high, left, right] = plot.dataset.frame.split(" ").map(Number);
  const nearest = (values, x) => {
    let best = 0;
    values.forEach((value, i) => { if (Math.abs(value - x) < Math.abs(values[best] - x)) best = i; });
    return best;
  };
  const text = (value, digits) => value.toLocaleString("en", { maximumSignificantDigits: digits });
  let at = xs.length - 1;
  const say = () => {
    const values = curves.flatMap((curve) => {
      const [x, y] = curve.points[nearest(curve.points.map((point) => point[0]), xs[at])];
      return Math.abs(x - xs[at]) > (high - low) / 10 ? [] : [curve.name + " " + text(y, 5)];  // too far away
    });
    shown.textContent = plot.dataset.x + " " + text(xs[at], 7) + ": " + values.join(", ");
  };
  const show = (index) => {
    at = Math.min(Math.max(index, 0), xs.length - 1);
    const across = left + (xs[at] - low) / (high - low) * (right - left);
    cursor.setAttribute("x1", across);
    cursor.setAttribute("x2", across);
    cursor.style.visibility = "visible";
    say();
  };
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const across = (event.clientX - box.left) / box.width * plot.viewBox.baseVal.width;
    show(nearest(xs, low + (across - left) / (right - left) * (high - low)));
  });
  plot.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: xs.length - 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(moves[event.key]);
  });
  if (!plot.querySelector(".steps")) say();  // the last values, until others are asked for
}
)";

}  // namespace dpo::report

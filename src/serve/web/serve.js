// The script of dpo serve's page. It sets texts of runs with textContent only, never as HTML.
"use strict";

const MOST_RUNS = 8;

const at = (id) => document.getElementById(id);
const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};
const setText = (node, text) => { if (node.textContent !== text) node.textContent = text; };
const short = (value, digits = 5) => value === undefined || value === null ? "" : value.toLocaleString("en", { maximumSignificantDigits: digits });
const signed = (value) => (value >= 0 ? "+" : "") + value.toFixed(3);
const plural = (count, name) => `${count.toLocaleString("en")} ${name}${count === 1 ? "" : "s"}`;

// ---------------------------------------------------------------- state, also kept in the address after '#'

const VIEWS = ["curves", "summary", "examples", "samples", "try"];
const state = { runs: [], run: "", view: "curves", step: "", filter: "", order: "worst", from: 0 };
let list = [], listed = false;  // from the server: all runs, and whether it has sent them
const slots = new Map();  // id of a shown run: index of its colour

const readHash = () => {
  const given = new URLSearchParams(location.hash.slice(1));
  state.runs = (given.get("runs") || "").split(",").filter((id) => /^[0-9a-f]+$/.test(id)).slice(0, MOST_RUNS);
  state.run = /^[0-9a-f]+$/.test(given.get("run") || "") ? given.get("run") : "";
  state.view = VIEWS.includes(given.get("view")) ? given.get("view") : "curves";
  state.step = /^\d+$/.test(given.get("step") || "") ? given.get("step") : "";
  state.filter = given.get("filter") || "";
  state.order = ["worst", "best", "changed", "number"].includes(given.get("order")) ? given.get("order") : "worst";
  state.from = /^\d+$/.test(given.get("from") || "") ? Number(given.get("from")) : 0;
};

const writeHash = (replace) => {
  const shown = new URLSearchParams();
  if (state.runs.length) shown.set("runs", state.runs.join(","));
  if (state.run) shown.set("run", state.run);
  if (state.run && state.view !== "curves") shown.set("view", state.view);
  if (state.step) shown.set("step", state.step);
  if (state.filter) shown.set("filter", state.filter);
  if (state.order !== "worst") shown.set("order", state.order);
  if (state.from) shown.set("from", state.from);
  const text = "#" + shown.toString().replaceAll("%2C", ",");
  if (text !== location.hash) history[replace ? "replaceState" : "pushState"](null, "", text);
};

// With `replace`, the browser's back button does not undo this change.
const change = (changes, replace = false) => {
  Object.assign(state, changes);
  writeHash(replace);
  show();
};

// ---------------------------------------------------------------- list of runs

const VALUES = ["updates", "loss", "held-out loss", "held-out accuracy", "last change"];
const rows = new Map();

const makeRow = (id) => {
  const row = element("tr", { role: "row" }), box = element("input", { type: "checkbox" }), name = element("button", { type: "button" });
  box.addEventListener("change", () => {
    if (box.checked && state.runs.length >= MOST_RUNS) box.checked = false;
    else change({ runs: box.checked ? [...state.runs, id] : state.runs.filter((each) => each !== id) });
  });
  name.addEventListener("click", () => change({
    run: id, step: "", from: 0, runs: state.runs.includes(id) || state.runs.length >= MOST_RUNS ? state.runs : [...state.runs, id] }));
  const status = element("span"), reason = element("small", { className: "reason" });
  const cells = VALUES.map((label) => element("td", { role: "cell" }));
  cells.forEach((cell, i) => { cell.dataset.label = VALUES[i]; });
  row.append(...[[box], [name], [status, reason]].map((parts) => element("td", { role: "cell" }, ...parts)), ...cells);
  return { row, box, name, status, reason, cells };
};

const ago = (seconds) => {
  const passed = Math.max(0, Date.now() / 1000 - seconds);
  if (!seconds) return "";
  if (passed < 60) return "now";
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 48 * 3600) return `${Math.floor(passed / 3600)} h ago`;
  return `${Math.floor(passed / 86400)} days ago`;
};

const showRuns = () => {
  const wanted = at("run-filter").value.toLowerCase();
  const shown = list.filter((run) => run.name.toLowerCase().includes(wanted));
  const body = at("runs");
  at("no-runs").hidden = list.length > 0 || !listed;
  shown.forEach((run, i) => {
    if (!rows.has(run.id)) rows.set(run.id, makeRow(run.id));
    const { row, box, name, status, reason, cells } = rows.get(run.id);
    setText(name, run.name);
    setText(status, run.status);
    status.className = "status " + run.status;
    setText(reason, run.status === "failed" ? run.reason || "" : run.status === "silent" ? "nothing was written for half an hour" : "");
    const values = run.values, updates = values["counters/updates"];
    const texts = [updates === undefined ? "" : short(updates, 9) + (run.planned_updates ? " of " + short(run.planned_updates, 9) : ""),
      short(values["loss/train"], 4), short(values["loss/eval"], 4), run.accuracy, ago(run.changed)];
    texts.forEach((text, k) => setText(cells[k], text));
    box.checked = state.runs.includes(run.id);
    box.setAttribute("aria-label", "show the curves of " + run.name);
    row.setAttribute("aria-current", String(run.id === state.run));
    if (body.children[i] !== row) body.insertBefore(row, body.children[i] || null);
  });
  while (body.children.length > shown.length) body.lastChild.remove();
};

const nameOf = (id) => (list.find((run) => run.id === id) || { name: id }).name;

// Returns the text for a run without `what`.
const none = (what) => ["finished", "stopped", "failed"].includes((list.find((run) => run.id === state.run) || {}).status)
  ? `The run has ended without ${what}.` : `The run has no ${what} yet.`;

// ---------------------------------------------------------------- events

let source = null, followed = null;

const follow = () => {
  const wanted = state.runs.join(",");
  if (source && followed === wanted) return;
  if (source) source.close();
  followed = wanted;
  source = new EventSource("/api/events?runs=" + wanted);
  const opened = source;
  source.onopen = () => setText(at("connection"), "live");
  source.onerror = () => {
    setText(at("connection"), "no connection to dpo serve; trying again");
    if (opened.readyState === EventSource.CLOSED) setTimeout(() => { if (opened === source) { source = null; follow(); } }, 3000);
  };
  source.addEventListener("runs", (event) => {
    list = JSON.parse(event.data);
    listed = true;
    if (!state.runs.length && !state.run && !location.hash && list.length) return change({ runs: [list[0].id], run: list[0].id }, true);
    showRuns();
    showLegend();
    setText(at("run-title"), state.run ? nameOf(state.run) : "");
  });
  source.addEventListener("held-out", (event) => showHeldOut(JSON.parse(event.data)));
  source.addEventListener("points", (event) => {
    const added = JSON.parse(event.data);
    addPoints(added);
    if (added.run === state.run && !added.again && !state.step && Object.keys(added.metrics).some((name) => name.includes("eval"))) showView(true);
  });
};

// A browser opens at most six connections to a server, so pages in the background close theirs.
let leaving = 0;

document.addEventListener("visibilitychange", () => {
  clearTimeout(leaving);
  if (document.hidden) leaving = setTimeout(() => { source.close(); source = null; }, 60000);
  else follow();
});

// ---------------------------------------------------------------- one run: summary, examples, samples

let asking = null;

const ask = async (path, parameters = {}) => {
  const answer = await fetch(`/api/runs/${state.run}${path}?${new URLSearchParams(parameters)}`, { signal: asking.signal });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
};

const showTurns = (parent, turns) => parent.replaceChildren(...turns.map(({ role, text }) =>
  element("p", { dir: "auto" }, ...(role ? [element("b", { dir: "ltr", textContent: role })] : []), text)));

const quote = (title, given, tone, all) => {
  const text = element("div", { tabIndex: 0 });
  showTurns(text, given.turns);
  const section = element("section", { className: "quote " + tone }, element("h3", { textContent: title }), text);
  if (given.more) {
    const button = element("button", { type: "button", textContent: `show ${plural(given.more, "more character")}` });
    button.addEventListener("click", async () => { showTurns(text, (await all()).turns); button.remove(); });
    section.append(button);
  }
  return section;
};

let summarised = "";  // id of the run whose summary is shown

const showSummary = async () => {
  const view = await ask("");
  setText(at("learned"), view.learned ? "Did it learn? " + view.learned : view.problem || none("metrics"));
  at("report-link").href = `/api/runs/${state.run}/report`;
  at("findings").replaceChildren(...view.findings.slice(0, 30).map((finding) => element("li", { textContent: finding })));
  at("settings").replaceChildren(...view.settings.map(([name, value]) => element("tr", {},
    element("td", { textContent: name }), element("td", { textContent: value }))));
  if (summarised !== state.run) at("try-chat").checked = view.chat;
  summarised = state.run;
};

const showSteps = (parent, view) => {
  const button = (text, step) => {
    const made = element("button", { type: "button", textContent: text, disabled: step === undefined || step === view.step });
    made.addEventListener("click", () => change({ step: step === view.last ? "" : String(step), from: 0 }));
    return made;
  };
  parent.replaceChildren(...(view.step === undefined ? [] : [button("first", view.first), button("previous", view.previous),
    element("span", { textContent: `after ${plural(view.step, "example")}` }), button("next", view.next), button("last", view.last)]));
};

const showPages = (parent, view, size) => {
  const button = (text, from) => {
    const made = element("button", { type: "button", textContent: text, disabled: from < 0 || from >= view.found });
    made.addEventListener("click", () => change({ from }));
    return made;
  };
  parent.replaceChildren(...(view.found <= size && view.from === 0 ? [] : [button("back", view.from ? Math.max(0, view.from - size) : -1),
    element("span", { textContent: `${view.from + 1} to ${Math.min(view.found, view.from + size)} of ${view.found.toLocaleString("en")}` }), button("more", view.from + size)]));
};

const question = () => ({ step: state.step, filter: state.filter, order: state.order, from: state.from });

const showExamples = async () => {
  const view = await ask("/examples", question());
  setText(at("examples-count"), view.step === undefined ? none("evaluations") : `${view.found.toLocaleString("en")} of ${plural(view.all, "held-out example")}`);
  at("examples").replaceChildren(...view.examples.map((example) => {
    const whole = async (part) => part((await ask("/examples", { step: view.step, only: example.example })).examples[0]);
    const before = example.before === undefined || view.step === view.first ? "" : signed(example.before) + " → ";
    const names = (count, i) => count === 1 ? (example.desirable ? "response" : "response, labelled bad") : count > 2 ? `response ${i + 1}` : i ? "rejected" : "chosen";
    const responses = example.responses || [];
    return element("article", { className: "example" }, element("h3", { textContent: `example ${example.example}: ${view.score} ${before}${signed(example.now)}` }),
      element("div", { className: "quotes" }, ...(example.prompt ? [quote("prompt", example.prompt, "", () => whole((all) => all.prompt))] : []),
        ...responses.map((response, i) => quote(names(responses.length, i), response, responses.length === 2 ? ["good", "bad"][i] : "", () => whole((all) => all.responses[i])))));
  }));
  showSteps(at("examples-steps"), view);
  showPages(at("examples-pages"), view, 20);
};

const showSamples = async () => {
  const view = await ask("/samples", question());
  setText(at("samples-count"), view.step === undefined ? none("samples") + " sample_during_eval=true draws them at every evaluation." : `${view.found.toLocaleString("en")} of ${plural(view.all, "sample")}`);
  at("samples").replaceChildren(...view.samples.map((sample) => {
    const whole = async (part) => (await ask("/samples", { step: view.step, only: sample.sample })).samples[0][part];
    return element("article", { className: "example" }, element("div", { className: "quotes" },
      ...["prompt", "policy", "reference"].filter((part) => sample[part]).map((part) => quote(part, sample[part], "", () => whole(part)))));
  }));
  showSteps(at("samples-steps"), view);
  showPages(at("samples-pages"), view, 20);
};

// `isNew`: the run has written new data for its summary.
const showView = async (isNew = false) => {
  if (asking) asking.abort();
  asking = new AbortController();
  for (const part of ["run-title", "learned", "tabs"]) at(part).hidden = !state.run;
  const view = state.run ? state.view : "curves";
  for (const tab of at("tabs").children) {
    const selected = tab.dataset.view === view;
    tab.setAttribute("aria-selected", String(selected));
    tab.tabIndex = selected ? 0 : -1;
    at("view-" + tab.dataset.view).hidden = !selected;
  }
  if (!state.run) return;
  setText(at("run-title"), nameOf(state.run));
  for (const id of ["examples-filter", "samples-filter"]) if (document.activeElement !== at(id)) at(id).value = state.filter;
  at("examples-order").value = state.order;
  try {
    if (isNew || summarised !== state.run || view === "summary") await showSummary();
    if (view === "examples") await showExamples();
    if (view === "samples") await showSamples();
    if (source && source.readyState === EventSource.OPEN) setText(at("connection"), "live");
  } catch (error) {
    if (error.name !== "AbortError") setText(at("connection"), error.message);
  }
};

// ---------------------------------------------------------------- prompts to try

let trying = null;

// Reads lines of JSON as they arrive.
const readLines = async (answer, use) => {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    lines.forEach((line) => use(JSON.parse(line)));
  }
};

const tryOne = async (side) => {
  const shown = at("try-" + side);
  setText(at("try-state"), `the ${side} is loaded and answers`);
  const answer = await fetch("/api/try", {
    method: "POST", headers: { "Content-Type": "application/json" }, signal: trying.signal,
    body: JSON.stringify({ run: state.run, side, prompt: at("try-prompt").value, chat: at("try-chat").checked,
      temperature: Number(at("try-temperature").value), max_new_tokens: Number(at("try-tokens").value) }) });
  if (!answer.ok) throw new Error(await answer.text());
  await readLines(answer, (line) => {
    if (line.text) shown.append(line.text);
    if (line.error) throw new Error(line.error);
  });
};

const tryBoth = async () => {
  trying = new AbortController();
  at("try-start").disabled = true;
  at("try-stop").disabled = false;
  at("try-state").className = "";
  ["policy", "reference"].forEach((side) => at("try-" + side).replaceChildren());
  try {
    for (const side of ["policy", "reference"]) await tryOne(side);
    setText(at("try-state"), "done");
  } catch (error) {
    setText(at("try-state"), error.name === "AbortError" ? "stopped" : error.message);
    at("try-state").className = error.name === "AbortError" ? "" : "error";
  }
  at("try-start").disabled = false;
  at("try-stop").disabled = true;
};

// ---------------------------------------------------------------- start

const show = () => {
  const before = [...slots.keys()].join();
  for (const id of slots.keys()) if (!state.runs.includes(id)) { slots.delete(id); metrics.delete(id); }
  for (const id of state.runs)
    if (!slots.has(id)) slots.set(id, [0, 1, 2, 3, 4, 5, 6, 7].find((slot) => ![...slots.values()].includes(slot)));
  showRuns();
  showLegend();
  if ([...slots.keys()].join() !== before) buildCharts();
  follow();
  showView();
};

const later = (action) => {
  let timer = 0;
  return () => { clearTimeout(timer); timer = setTimeout(action, 250); };
};

at("run-filter").addEventListener("input", showRuns);
for (const view of ["examples", "samples"])
  at(view + "-filter").addEventListener("input", later(() => change({ filter: at(view + "-filter").value, from: 0 })));
at("examples-order").addEventListener("change", () => change({ order: at("examples-order").value, from: 0 }));
at("tabs").addEventListener("click", (event) => {
  if (!event.target.dataset.view) return;
  change({ view: event.target.dataset.view, step: "", from: 0 });
  if (at("tabs").getBoundingClientRect().top > innerHeight / 2) at("tabs").scrollIntoView();  // the changed part is below
});
at("tabs").addEventListener("keydown", (event) => {
  const tabs = [...at("tabs").children], step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
  next.focus();
  next.click();
});
at("try-start").addEventListener("click", tryBoth);
at("try-stop").addEventListener("click", () => trying.abort());
at("more-charts").addEventListener("toggle", resize);
new ResizeObserver(resize).observe(at("charts"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", buildCharts);
addEventListener("hashchange", () => { readHash(); show(); });
addEventListener("popstate", () => { readHash(); show(); });
setInterval(showRuns, 10000);
readHash();
show();


"use strict";
// Foreign names reach the page as text alone: textContent, never markup.
const $ = (id) => document.getElementById(id);
const WORDS = { ok: "OK", not_enough_data: "NOT ENOUGH DATA", info: "INFO", warning: "WARNING", critical: "CRITICAL" };
const FEW_WAITS = 12;
const SHOWN_CAUSES = 8;

const state = {
  newest: null,      // the last moment that came
  shown: null,       // the one that is shown
  live: true,        // does it show each one as it comes?
  calm: false,       // does the server only watch, so that none comes?
  points: [],        // all that are kept, in short
  chosen: null,      // id of the cgroup whose story is told
  story: [],         // its points
  sort: "waiting", ascending: false, filter: "", allWaits: false,
  failures: 0, lastCame: 0,
  looking: false,    // is an answer on its way?
};

/* Figures as text. What was not measured is n/a. */
const digits = (value) => value === 0 ? "0" : value < 0.0095 ? "<0.01" : value < 9.95 ? value.toFixed(2) : value < 99.5 ? value.toFixed(1) : value.toFixed(0);
const amount = (value) => value === null || value === undefined ? "n/a" : digits(value);
const share = (value) => value === null || value === undefined ? "n/a" : digits(value * 100) + " %";
const time = (ns) => ns === null || ns === undefined ? "n/a"
  : ns < 1e3 ? ns + " ns" : ns < 1e6 ? digits(ns / 1e3) + " µs" : ns < 1e9 ? digits(ns / 1e6) + " ms" : digits(ns / 1e9) + " s";
const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const span = (seconds) => seconds < 90 ? Math.round(seconds) + " s" : seconds < 5400 ? Math.round(seconds / 60) + " min" : (seconds / 3600).toFixed(1) + " h";

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  if (className) made.className = className;
  return made;
}

/* A name in a direction of its own, that opens its story. */
function nameButton(id, name) {
  const button = element("button", null, "name");
  button.type = "button";
  button.dataset.id = id;
  button.append(element("bdi", name));
  button.title = name;
  return button;
}

function setText(node, text) { if (node.textContent !== text) node.textContent = text; }

/* The columns of the table of cgroups. */
const COLUMNS = [
  { key: "name", title: "Cgroup", value: (c) => c.name.toLowerCase(), className: "name" },
  { key: "waiting", title: "tasks waiting", value: (c) => c.waiting, text: (c) => amount(c.waiting), className: "number" },
  { key: "cpu", title: "CPU, cores", value: (c) => c.cpu, text: (c) => amount(c.cpu), className: "number" },
  { key: "wait_p99_ns", title: "p99 wait", value: (c) => c.wait_p99_ns, text: (c) => c.wait_p99_ns === null ? (c.waiting === null ? "n/a" : "–") : time(c.wait_p99_ns), className: "number narrow" },
  { key: "throttled", title: "throttled", value: (c) => c.throttled, text: (c) => c.throttled === null ? "–" : share(c.throttled), className: "number wide" },
  { key: "switch_cost", title: "switch cost, cores", value: (c) => c.switch_cost, text: (c) => amount(c.switch_cost), className: "number wide" },
  { key: "behind", title: "waits most behind", value: (c) => c.behind ? c.behind.share : null, text: (c) => c.behind ? share(c.behind.share) + " " + c.behind.name : state.shown.waits_missing ? "n/a" : "–", className: "behind wide" },
];

function makeHead() {
  const row = $("cgroups").tHead.rows[0];
  for (const column of COLUMNS) {
    const cell = element("th", null, column.className);
    cell.scope = "col";
    const button = element("button", column.title);
    button.type = "button";
    button.addEventListener("click", () => {
      if (state.sort === column.key) state.ascending = !state.ascending;
      else { state.sort = column.key; state.ascending = column.key === "name"; }
      showCgroups(true);
    });
    cell.append(button);
    row.append(cell);
  }
}

/* ---- What is shown ---- */

function show(moment) {
  state.shown = moment;
  const byId = new Map(moment.cgroups.map((cgroup) => [cgroup.id, cgroup]));
  moment.byId = byId;
  for (const wait of moment.waits) {
    const victim = byId.get(wait.victim), culprit = wait.culprit && byId.get(wait.culprit);
    if (victim && culprit && (!victim.behind || victim.behind.share < wait.share)) victim.behind = { name: culprit.name, share: wait.share };
  }
  showHost(moment);
  showVerdict(moment.verdict);
  showTime();
  showWaits(moment);
  showCgroups(false);
  showStory();
}

function showHost(moment) {
  const host = moment.host;
  document.title = host.name + " – lagstop";
  setText($("host"), host.name);
  setText($("facts"), "Linux " + host.kernel + " · " + host.cpus + (host.cpus === 1 ? " CPU" : " CPUs") + " · interval " + time(moment.duration_ns));
  setText($("version"), "lagstop " + host.lagstop + ".");
  setText($("not-measured"), moment.not_measured ? "Not measured: " + moment.not_measured + " (run `lagstop check` for the reasons)" : "");
  const figures = [
    ["Tasks waiting", amount(host.waiting)], ["CPUs busy", share(host.utilisation)], ["Switch cost", share(host.overhead)],
    ["PSI some", share(host.pressure)], ["Steal", share(host.steal)], ["Active cgroups", String(moment.active)],
  ];
  const list = $("figures");
  if (list.children.length !== figures.length) {
    list.replaceChildren(...figures.map(([label]) => {
      const box = element("div");
      box.append(element("dt", label), element("dd"));
      return box;
    }));
  }
  figures.forEach(([, value], n) => setText(list.children[n].lastChild, value));
}

function mark(severity) { return element("span", WORDS[severity] || severity, "mark " + severity); }

function showVerdict(verdict) {
  const key = JSON.stringify(verdict);
  if ($("verdict").dataset.key === key) return;
  $("verdict").dataset.key = key;
  $("verdict").className = "card " + (verdict ? verdict.severity : "");
  if (!verdict) {
    $("headline").replaceChildren("Too early for a verdict: it needs some more intervals.");
    $("next").replaceChildren();
    $("beneath").replaceChildren();
    return;
  }
  $("headline").replaceChildren(mark(verdict.severity), " ", element("bdi", verdict.headline));
  setText($("next"), verdict.next || "");
  $("beneath").replaceChildren(...verdict.beneath.map((cause) => {
    const item = element("li");
    item.append(mark(cause.severity), " ", element("bdi", cause.says));
    return item;
  }));
}

/* Pairs of cgroups. Rows stay where they are, so that focus does. */
function showWaits(moment) {
  const missing = $("waits-missing");
  missing.hidden = !moment.waits_missing;
  setText(missing, moment.waits_missing ? "n/a: " + moment.waits_missing : "");
  const pairs = moment.waits.filter((wait) => wait.culprit !== null || wait.share >= 0.05);
  const shown = pairs.slice(0, state.allWaits ? pairs.length : FEW_WAITS);
  const body = $("waits").tBodies[0];
  while (body.rows.length > Math.max(shown.length, 1)) body.deleteRow(-1);
  if (shown.length === 0) {
    body.replaceChildren(element("tr"));
    const cell = element("td", moment.waits_missing ? "n/a" : "No cgroup waited.");
    cell.colSpan = 4;
    body.rows[0].append(cell);
  }
  shown.forEach((wait, n) => {
    let row = body.rows[n];
    if (!row || row.cells.length !== 4) {
      if (row) row.remove();
      row = body.insertRow(n);
      for (let cell = 0; cell < 4; cell += 1) row.insertCell().className = cell > 1 ? "number" : "";
    }
    setName(row.cells[0], wait.victim, nameOf(moment, wait.victim));
    if (wait.culprit === null) { if (row.cells[1].textContent !== wait.cause) row.cells[1].replaceChildren(wait.cause); }
    else setName(row.cells[1], wait.culprit, nameOf(moment, wait.culprit));
    setText(row.cells[2], amount(wait.waiting));
    setText(row.cells[3], share(wait.share));
  });
  const more = $("more-waits");
  more.hidden = pairs.length <= FEW_WAITS;
  setText(more, state.allWaits ? "Show fewer" : "Show all " + pairs.length);
}

function nameOf(moment, id) {
  const cgroup = moment.byId.get(id);
  return cgroup ? cgroup.name : "cgroup " + id;
}

function setName(cell, id, name) {
  const button = cell.firstChild;
  if (button && button.dataset && button.dataset.id === id && button.textContent === name) return;
  cell.replaceChildren(nameButton(id, name));
}

/* The table of cgroups. While somebody is in it, rows keep their order. */
function showCgroups(sortNow) {
  const moment = state.shown;
  if (!moment) return;
  const table = $("cgroups"), body = table.tBodies[0];
  const column = COLUMNS.find((one) => one.key === state.sort);
  [...table.tHead.rows[0].cells].forEach((cell, n) => {
    if (COLUMNS[n] === column) cell.setAttribute("aria-sort", state.ascending ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  });
  const wanted = state.filter.toLowerCase();
  const listed = moment.cgroups.filter((c) => !wanted || c.name.toLowerCase().includes(wanted) || c.path.toLowerCase().includes(wanted));
  const sign = state.ascending ? 1 : -1;
  listed.sort((a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    if (x === y) return b.cpu - a.cpu;
    if (x === null) return 1;
    if (y === null) return -1;
    return x < y ? -sign : sign;
  });
  const rows = new Map([...body.rows].map((row) => [row.dataset.id, row]));
  const busy = !sortNow && (body.matches(":hover") || body.contains(document.activeElement));
  for (const cgroup of listed) {
    let row = rows.get(cgroup.id);
    rows.delete(cgroup.id);
    if (!row) {
      row = element("tr");
      row.dataset.id = cgroup.id;
      const head = element("th", null, "name");
      head.scope = "row";
      row.append(head, ...COLUMNS.slice(1).map((one) => element("td", null, one.className)));
      body.append(row);
    }
    setName(row.cells[0], cgroup.id, cgroup.name);
    COLUMNS.slice(1).forEach((one, n) => setText(row.cells[n + 1], one.text(cgroup)));
    row.className = cgroup.id === state.chosen ? "chosen" : "";
    if (!busy) body.append(row);
  }
  for (const row of rows.values()) row.remove();
  const rest = moment.active - moment.cgroups.length;
  setText($("others"), listed.length === 0 ? "No cgroup matches." : rest > 0 ? rest + " more active cgroups used less CPU time and waited less." : "");
}

/* ---- One cgroup ---- */

function choose(id) {
  state.chosen = id;
  state.story = [];
  showCgroups(false);
  showStory();
  loadHistory();
  $("story").hidden = false;
  $("story").focus({ preventScroll: true });
  $("story").scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
}

function showStory() {
  const moment = state.shown, id = state.chosen;
  $("story").hidden = id === null;
  if (id === null || !moment) return;
  const cgroup = moment.byId.get(id);
  if (cgroup) {
    setText($("story-name"), cgroup.name);
    setText($("story-path"), cgroup.path);
    const parts = [amount(cgroup.cpu) + " cores of CPU time", amount(cgroup.waiting) + " tasks waiting"];
    if (cgroup.wait_p99_ns !== null) parts.push("99 % of its waits are at most " + time(cgroup.wait_p99_ns));
    if (cgroup.throttled !== null) parts.push("throttled in " + share(cgroup.throttled) + " of its quota's periods");
    setText($("story-now"), parts.join(", ") + ".");
  } else {
    setText($("story-now"), "Not among the cgroups that are shown at this moment: it was idle, or others used more.");
  }
  const own = moment.waits.filter((wait) => wait.victim === id).slice(0, SHOWN_CAUSES);
  bars($("story-behind"), own.map((wait) => ({ id: wait.culprit, name: wait.culprit === null ? wait.cause : nameOf(moment, wait.culprit), part: wait.share, text: share(wait.share) })), "No wait that is among the longest of the host.");
  const victims = moment.waits.filter((wait) => wait.culprit === id).slice(0, SHOWN_CAUSES);
  const most = Math.max(...victims.map((wait) => wait.waiting), 1e-9);
  bars($("story-victims"), victims.map((wait) => ({ id: wait.victim, name: nameOf(moment, wait.victim), part: wait.waiting / most, text: amount(wait.waiting) })), "No cgroup whose wait is among the longest.");
  chart($("story-wait"), state.story, (point) => point.cgroup && point.cgroup.waiting, $("story-wait-top"));
  chart($("story-cpu"), state.story, (point) => point.cgroup && point.cgroup.cpu, $("story-cpu-top"));
}

function bars(list, items, none) {
  const key = JSON.stringify(items);
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  list.replaceChildren(...(items.length ? items : [null]).map((item) => {
    const row = element("li");
    if (!item) { row.textContent = none; row.className = "dim"; return row; }
    const label = element("span");
    label.append(item.id === null ? item.name : nameButton(item.id, item.name));
    const meter = element("span", null, "meter"), bar = element("span");
    bar.style.width = Math.round(item.part * 100) + "%";
    meter.append(bar);
    row.append(label, meter, element("span", item.text, "figure"));
    return row;
  }));
}

/* ---- Time ---- */

const SVG = "http://www.w3.org/2000/svg";
function drawn(name, attributes, className) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (className) made.setAttribute("class", className);
  return made;
}

/* Gives where a point is on a line of this width: by its time, for moments are not of one length. */
function placing(points, width) {
  const first = points.length ? points[0].ended_at_ms : 0;
  const whole = points.length ? points[points.length - 1].ended_at_ms - first : 0;
  return (point) => whole > 0 ? (point.ended_at_ms - first) / whole * width : width;
}

/* Is there a time between them in which nothing was measured? */
function isGap(point, next) {
  return state.shown !== null && next.ended_at_ms - point.ended_at_ms > 3 * state.shown.interval_ns / 1e6 + 5000;
}

/* A line over all that is kept. Gaps stay gaps. */
function chart(svg, points, valueOf, top) {
  const title = svg.querySelector("title");
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const has = (point) => point !== undefined && valueOf(point) !== null && valueOf(point) !== undefined;
  const known = points.filter(has).map(valueOf);
  const most = Math.max(...known, 0.01);
  if (top) setText(top, known.length ? "at most " + amount(Math.max(...known)) : "");
  const x = placing(points, width);
  const y = (value) => height - 2 - value / most * (height - 8);
  let line = "", area = "", begun = false;
  points.forEach((point, n) => {
    if (!has(point)) return;
    const at = x(point).toFixed(1) + " " + y(valueOf(point)).toFixed(1);
    line += (begun ? "L" : "M") + at;
    area += (begun ? "L" : "M" + x(point).toFixed(1) + " " + height + "L") + at;
    const next = points[n + 1];
    begun = has(next) && !isGap(point, next);
    if (!begun) area += "L" + x(point).toFixed(1) + " " + height + "Z";
  });
  const parts = [drawn("path", { d: area }, "area"), drawn("path", { d: line }, "edge")];
  const shown = points.find((point) => state.shown && point.n === state.shown.n);
  if (shown && !state.live) parts.push(drawn("line", { x1: x(shown), x2: x(shown), y1: 0, y2: height }, "cursor"));
  svg.replaceChildren(...(title ? [title] : []), ...parts);
}

function showTime() {
  const points = state.points, shown = state.shown;
  const slider = $("when");
  if (points.length) {
    slider.min = points[0].n;
    slider.max = points[points.length - 1].n;
  }
  if (shown && document.activeElement !== slider) slider.value = shown.n;
  else if (shown && state.live) slider.value = shown.n;
  const svg = $("waits-chart");
  chart(svg, points, (point) => point.waiting);
  const x = placing(points, 600);
  points.forEach((point, n) => {
    const worse = point.severity === "critical", bad = point.severity === "warning";
    const before = points[n - 1];
    const from = before && !isGap(before, point) ? x(before) : x(point) - 0.5;
    if (worse || bad) svg.append(drawn("rect", { x: from, y: 0, width: x(point) - from + 0.5, height: 3 }, worse ? "worse" : "bad"));
  });
  if (!shown) return;
  const newest = points.length ? points[points.length - 1] : shown;
  const behind = Math.max(0, (newest.ended_at_ms - shown.ended_at_ms) / 1000);
  const text = clock(shown.ended_at_ms) + (state.live ? (state.calm ? " · calm since" : " · live") : " · " + (behind > 0 ? span(behind) + " ago" : "paused"));
  setText($("moment"), text);
  slider.setAttribute("aria-valuetext", text);
  setText($("waits-chart-title"), "Tasks waiting for a CPU, the last " + span(points.length ? (newest.ended_at_ms - points[0].ended_at_ms) / 1000 : 0));
  setText($("reach"), points.length > 1 ? "Tasks waiting for a CPU. The server keeps the last " + span((newest.ended_at_ms - points[0].ended_at_ms) / 1000) + " so far." : "");
  $("pause").setAttribute("aria-pressed", String(!state.live));
  setText($("pause"), state.live ? "Pause" : "Go live");
}

function hold() { state.live = false; }

async function goTo(n) {
  const points = state.points;
  if (!points.length) return;
  n = Math.min(Math.max(n, points[0].n), points[points.length - 1].n);
  hold();
  state.wanted = n;
  const answer = await ask("/api/v1/moment?n=" + n);
  // The slider may have gone on.
  if (answer && answer.status === 200 && state.wanted === n) show(answer.body);
  else if (answer && answer.status === 404 && state.wanted === n) loadHistory();
}

function goLive() {
  state.live = true;
  state.wanted = null;
  if (state.newest) show(state.newest);
}

/* ---- What comes ---- */

/* The whole answer, or null where it does not come, or breaks off, or takes too long. */
async function ask(path) {
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), 10000);
  try {
    const answer = await fetch(path, { cache: "no-store", signal: limit.signal });
    const isCalm = answer.headers.get("lagstop-state") === "calm";
    return { status: answer.status, isCalm, body: answer.status === 200 ? await answer.json() : null };
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
  }
}

function say(text) {
  $("connection").hidden = !text;
  setText($("connection"), text);
}

async function loadHistory() {
  const id = state.chosen;
  const answer = await ask("/api/v1/history" + (id === null ? "" : "?cgroup=" + encodeURIComponent(id)));
  if (!answer || answer.status !== 200) return;
  const points = answer.body.points;
  state.points = points;
  if (id !== null && id === state.chosen) state.story = points;
  if (state.shown) { showTime(); showStory(); }
}

/* A new moment is a new point of each line. */
function append(moment) {
  const before = state.points.length ? state.points[state.points.length - 1] : null;
  // Now and then, for the server forgets the oldest.
  if (!before || before.n + 1 !== moment.n || moment.n % 60 === 0) { loadHistory(); return; }
  const cgroup = state.chosen === null ? null : moment.cgroups.find((one) => one.id === state.chosen);
  const point = { n: moment.n, ended_at_ms: moment.ended_at_ms, severity: moment.verdict && moment.verdict.severity, waiting: moment.host.waiting, cgroup: cgroup || null };
  state.points.push(point);
  if (state.story.length && state.story !== state.points) state.story.push(point);
}

/* Looks for what is new. Gives how many milliseconds later to look again. */
async function look() {
  const known = state.newest === null ? "" : "?after=" + state.newest.n;
  const answer = await ask("/api/v1/moment" + known);
  if (answer && answer.status === 200) {
    const moment = answer.body;
    state.failures = 0;
    state.lastCame = performance.now();
    state.calm = false;
    append(moment);
    if (state.live) show(moment); else showTime();
    // Only now: what could not be shown is asked for again.
    state.newest = moment;
    say("");
    // While somebody looks, moments come each second, however long intervals are.
    return Math.max(200, Math.min(moment.interval_ns, moment.duration_ns, 1e9) / 1e6 - 50);
  }
  if (answer && answer.status === 204) {
    state.failures = 0;
    if (answer.isCalm !== state.calm) { state.calm = answer.isCalm; if (state.shown) showTime(); }
    const interval = state.newest ? state.newest.interval_ns / 1e6 : 8000, silent = performance.now() - state.lastCame;
    say(state.calm ? "All is calm: lagstop only watches files (--sentinel). It measures again when something is wrong." : silent > 3 * interval + 5000 ? "No new interval for " + span(silent / 1000) + ". The host may be overloaded." : "");
    return state.calm ? 1000 : Math.min(250, Math.max(150, interval / 8));
  }
  state.failures += 1;
  const why = answer ? "the server answers HTTP " + answer.status : "no answer";
  const last = state.newest ? " Last data: " + clock(state.newest.ended_at_ms) + "." : "";
  if (state.failures > 1 || answer && answer.status !== 503) say("Disconnected: " + why + "." + last + " Trying again.");
  return Math.min(15000, 500 * 2 ** state.failures) * (0.75 + Math.random() / 2);
}

/* Looks again and again, whatever happens: old data must never pass for live. */
async function poll() {
  if (state.looking) return;
  state.looking = true;
  let pause = 1000;
  try {
    if (!document.hidden) pause = await look();
  } catch (fault) {
    console.error(fault);
    say("This page has a fault and may show old data. Reload it. Please report: " + fault);
  } finally {
    state.looking = false;
    state.timer = setTimeout(poll, Math.min(pause, 10000));
  }
}

/* ---- Keys and clicks ---- */

document.addEventListener("click", (event) => {
  const name = event.target.closest("button.name");
  if (name) choose(name.dataset.id);
});
$("story-close").addEventListener("click", () => { const id = state.chosen; state.chosen = null; showStory(); showCgroups(false); const back = document.querySelector("#cgroups tr[data-id=\"" + CSS.escape(id) + "\"] button"); if (back) back.focus(); });
$("pause").addEventListener("click", () => { if (state.live) { hold(); showTime(); } else goLive(); });
$("when").addEventListener("input", () => goTo(Number($("when").value)));
$("earlier").addEventListener("click", () => state.shown && goTo(state.shown.n - 1));
$("later").addEventListener("click", () => state.shown && goTo(state.shown.n + 1));
$("filter").addEventListener("input", () => { state.filter = $("filter").value; showCgroups(true); });
$("more-waits").addEventListener("click", () => { state.allWaits = !state.allWaits; if (state.shown) showWaits(state.shown); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) { clearTimeout(state.timer); poll(); } });

makeHead();
loadHistory();
poll();

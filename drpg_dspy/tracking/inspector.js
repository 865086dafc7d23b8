"use strict";
const run = JSON.parse(document.getElementById("data").textContent);
const steps = run.steps, texts = run.texts;
const byId = id => document.getElementById(id);
let shown = steps.map((_, i) => i);  // indexes of the steps that pass the filter
let at = 0;                          // index into steps
let needle = "";

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "class") node.className = value;
    else if (key === "onclick") node.onclick = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
}
function lit(text) {  // text with the searched words marked
  const parts = document.createDocumentFragment();
  const low = needle ? text.toLowerCase() : "";
  let from = 0;
  for (let hit; needle && (hit = low.indexOf(needle, from)) >= 0; from = hit + needle.length) {
    parts.append(text.slice(from, hit), el("mark", {}, text.slice(hit, hit + needle.length)));
  }
  parts.append(text.slice(from));
  return parts;
}
function verdict(step) {
  const feedback = step.feedback;
  if (!feedback) return step.out === null ? "failed" : "waiting";
  if (feedback.score === null) return "unjudged";
  return feedback.score >= run.threshold ? "right" : "wrong";
}
const sign = {right: "✓", wrong: "✗", unjudged: "–", waiting: "…", failed: "!"};
const words = {right: "Correct", wrong: "Wrong", unjudged: "Not judged",
  waiting: "No feedback yet", failed: "The program raised"};
const ink = kind => kind === "right" ? "right-ink"
  : kind === "wrong" || kind === "failed" ? "wrong-ink" : "soft";
function section(title, note, ...content) {
  return el("section", {}, el("h2", {}, title, note ? el("small", {}, " " + note) : null),
    ...content);
}
function fields(values) {  // the question before its long context
  const names = Object.keys(values);
  const long = name => texts[values[name]].length > 400;
  names.sort((a, b) => long(a) - long(b));
  return names.map(name => el("div", {}, name === "$value" ? null : el("h3", {}, name),
    el("pre", {class: "value" + (long(name) ? " long" : "")}, lit(texts[values[name]]))));
}
function firstLine(values) {  // the shortest field: the question rather than its long context
  const all = Object.values(values || {}).map(i => texts[i]).filter(text => text.trim());
  all.sort((a, b) => a.length - b.length);
  const best = all.find(text => text.length > 12) || all[0] || "";
  return best.replace(/\s+/g, " ").slice(0, 220);
}

/* -- difference of two policies: by line, then by word ------------------------------------ */
function common(a, b) {  // longest common subsequence, as pairs of indexes
  if (a.length * b.length > 4e6) return [];
  const width = b.length + 1, table = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) {
    table[i * width + j] = a[i] === b[j] ? table[(i + 1) * width + j + 1] + 1
      : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
  }
  const pairs = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) pairs.push([i++, j++]);
    else if (table[(i + 1) * width + j] >= table[i * width + j + 1]) i++; else j++;
  }
  return pairs;
}
function ruleLine(kind, content) {
  const mark = {added: "+", gone: "−", same: "", moved: "↕"}[kind];
  return el("div", {class: "rule " + kind, "data-mark": mark}, el("pre", {}, content));
}
function changedWords(text, other) {
  const mine = text.split(/(\s+)/), pairs = common(mine, other.split(/(\s+)/));
  const kept = new Set(pairs.map(pair => pair[0])), parts = document.createDocumentFragment();
  const alike = pairs.length > mine.length / 2;
  mine.forEach((word, i) => parts.append(alike && !kept.has(i) ? el("em", {}, word) : word));
  return parts;
}
function difference(before, now) {
  const a = before ? before.split("\n") : [], b = now ? now.split("\n") : [], out = [];
  let i = 0, j = 0;
  const pairs = common(a, b);
  const stayA = new Set(pairs.map(pair => a[pair[0]])), setA = new Set(a), setB = new Set(b);
  const moved = line => !stayA.has(line) && setA.has(line) && setB.has(line);
  for (const [p, q] of [...pairs, [a.length, b.length]]) {
    const gone = a.slice(i, p).filter(line => !moved(line));
    const added = b.slice(j, q).filter(line => !moved(line));
    gone.forEach((line, k) => out.push(ruleLine("gone",
      k < added.length ? changedWords(line, added[k]) : line)));
    added.forEach((line, k) => out.push(ruleLine("added",
      k < gone.length ? changedWords(line, gone[k]) : line)));
    b.slice(j, q).filter(moved).forEach(line => out.push(ruleLine("moved", lit(line))));
    if (p < a.length) out.push(ruleLine("same", lit(b[q])));
    i = p + 1; j = q + 1;
  }
  return el("div", {class: "value"}, ...out);
}
function before(index, route) {  // the policy that the route had last
  for (let i = index - 1; i >= 0; i--) {
    const found = steps[i].policies[route];
    if (found) return [steps[i], found];
  }
  return null;
}

/* -- parts of a step ----------------------------------------------------------------------- */
function verdictBox(step) {
  const kind = verdict(step), feedback = step.feedback;
  const box = el("div", {id: "verdict", class: kind === "failed" ? "wrong" : kind},
    el("b", {}, sign[kind] + " " + words[kind]));
  if (feedback && feedback.score !== null && feedback.score % 1) {
    box.append(el("span", {class: "soft"}, "  score " + feedback.score.toFixed(3)));
  }
  if (feedback && !feedback.informative) {
    box.append(el("span", {class: "soft"}, "  proves nothing, so nothing is learned from it"));
  }
  if (feedback) {
    box.append(el("span", {class: "soft"}, "  by " + feedback.author));
    if (texts[feedback.text]) box.append(el("pre", {}, lit(texts[feedback.text])));
    for (const [name, value] of Object.entries(feedback.parts)) {
      box.append(el("div", {class: "soft"}, name + ": " + JSON.stringify(value)));
    }
  }
  if (feedback && texts[feedback.error]) {
    box.append(el("pre", {class: "wrong-ink"}, "! learning failed: " + texts[feedback.error]));
  }
  if (step.error !== undefined) box.append(el("pre", {}, lit(texts[step.error])));
  return box;
}
function policyPart(index) {
  const step = steps[index], routes = Object.entries(step.policies);
  if (!routes.length) {
    return section("Policy", "Pₜ", el("p", {class: "soft"}, "None: the plain program's prompt."));
  }
  return section("Policy", "Pₜ", ...routes.flatMap(([route, [version, text, author]]) => {
    const last = before(index, route);
    const note = !last ? "the first" : last[1][0] === version
      ? `unchanged since step ${last[0].n}`
      : `against version ${last[1][0]} at step ${last[0].n}`;
    const changed = last && last[1][0] !== version;
    const now = texts[text];
    return [el("h3", {}, `${route} · version ${version} · ${author} · ${note}`),
      changed ? difference(texts[last[1][1]], now)
        : el("pre", {class: "value"}, now ? lit(now) : "(no rules)")];
  }));
}
function caseLine(place) {
  if (typeof place === "string") {
    return el("details", {}, el("summary", {}, el("span", {class: "line soft"},
      place + " (not on this page)")));
  }
  const other = steps[place], kind = verdict(other);
  const line = el("details", {}, el("summary", {},
    el("span", {class: ink(kind)}, sign[kind]), el("span", {class: "line"},
      firstLine(other.in)), el("button", {class: "go", onclick: event => {
      event.preventDefault(); go(place); }}, "step " + other.n)));
  line.ontoggle = () => {
    if (line.children.length > 1) return;
    line.append(el("div", {}, ...fields(other.in),
      ...(other.out ? fields(other.out) : []),
      other.feedback && texts[other.feedback.text]
        ? el("div", {}, el("h3", {}, "feedback"),
          el("pre", {class: "value"}, texts[other.feedback.text])) : ""));
  };
  return line;
}
const purposes = {shots: ["Examples shown to the program", "Rₜ"],
  correct: ["Correct cases behind the policy", "R′ₜ"],
  wrong: ["Wrong cases behind the policy", "R′ₜ"]};
function retrievedParts(step) {
  const parts = [];
  const order = name => {
    const place = Object.keys(purposes).indexOf(name); return place < 0 ? 9 : place; };
  const got = Object.entries(step.got).sort((a, b) => order(a[0]) - order(b[0]));
  for (const [purpose, places] of got) {
    if (!places.length) continue;
    const [title, note] = purposes[purpose] || ["Retrieved: " + purpose, ""];
    parts.push(section(title, `${note ? note + " · " : ""}${places.length}, most similar first`,
      ...places.map(caseLine)));
  }
  for (const [route, shots] of Object.entries(step.shots)) {
    parts.push(section("Examples as they stood in the prompt", `${route}, most similar last`,
      ...shots.map(shot => {
        const line = el("details", {}, el("summary", {},
          el("span", {class: "line"}, firstLine(shot))));
        line.ontoggle = () => line.children.length > 1
          || line.append(el("div", {}, ...fields(shot)));
        return line;
      })));
  }
  return parts;
}
function costPart(step) {
  const cost = step.cost, row = (name, [calls, read, wrote]) => el("tr", {},
    ...[name, calls, read, wrote].map(cell => el("td", {}, cell.toLocaleString("en"))));
  const extra = [`${cost.seconds} s`];
  if (cost.cached) extra.push(`${cost.cached.toLocaleString("en")} tokens from a prefix cache`);
  if (cost.dollars) extra.push(`$${cost.dollars.toPrecision(3)}`);
  for (const [name, value] of Object.entries(step.counts || {})) extra.push(`${name} ${value}`);
  return section("Cost", extra.join(" · "), el("table", {},
    el("tr", {}, ...["", "LM calls", "tokens read", "tokens written"].map(name =>
      el("th", {}, name))), row("answering", cost.answer), row("writing the policy", cost.policy),
    cost.learning[0] ? row("learning from the verdict", cost.learning) : null));
}
function tracePart(step) {
  if (!step.trace) return null;
  return section("Predictor calls", "in the order in which they ended", ...step.trace.map(call => {
    const line = el("details", {}, el("summary", {}, el("span", {}, call.route || "(not attached)"),
      el("span", {class: "line " + (call.out ? "soft" : "wrong-ink")},
        call.out ? firstLine(call.out) : "! " + texts[call.error])));
    line.ontoggle = () => line.children.length > 1
      || line.append(el("div", {}, ...fields(call.in), ...(call.out ? fields(call.out) : [])));
    return line;
  }));
}
function showStep() {
  const step = steps[at], main = byId("main");
  main.replaceChildren(verdictBox(step),
    el("div", {class: "columns"},
      el("div", {}, section("Input", "", ...fields(step.in)),
        section("Answer", "", ...(step.out ? fields(step.out)
          : [el("p", {class: "soft"}, "None: the program raised.")]))),
      el("div", {}, policyPart(at), costPart(step))),
    el("div", {class: "columns"}, ...retrievedParts(step).map(part => el("div", {}, part))),
    tracePart(step) || "",
    el("footer", {}, `Rollout ${step.id}`, step.at
      ? ` · ${new Date(step.at * 1000).toISOString().replace("T", " ").slice(0, 19)} UTC` : "",
    " · ", el("kbd", {}, "←"), " ", el("kbd", {}, "→"), " step, ",
    el("kbd", {}, "/"), " search, ", el("kbd", {}, "w"), " wrong only"));
  byId("number").value = step.n;
  const place = shown.indexOf(at);
  byId("slider").value = place < 0 ? 0 : place;
  byId("prev").disabled = !shown.some(i => i < at);
  byId("next").disabled = !shown.some(i => i > at);
  byId("count").textContent = shown.length === steps.length
    ? `of ${steps.length.toLocaleString("en")}`
    : `${(place + 1) || "–"} of ${shown.length.toLocaleString("en")} found`;
  drawMarker();
}

/* -- score curve ---------------------------------------------------------------------------- */
const NS = "http://www.w3.org/2000/svg";
const frame = {left: 34, right: 90, top: 8, bottom: 26};
let marker = null, inside = 1;
function svg(tag, attributes, text) {
  const node = document.createElementNS(NS, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  return node;
}
const x = i => frame.left + (steps.length > 1 ? i / (steps.length - 1) : .5) * inside;
function curve(name, colour, width) {
  let path = "", last = null;
  steps.forEach((step, i) => {
    if (step[name] === undefined) return;
    path += `${path ? "L" : "M"}${x(i).toFixed(1)} ${y(step[name]).toFixed(1)}`;
    last = step[name];
  });
  return [svg("path", {d: path, fill: "none", stroke: colour, "stroke-width": width}), last];
}
let y = value => value;
function drawChart() {
  const chart = byId("chart"), box = chart.getBoundingClientRect();
  const tall = box.height - frame.top - frame.bottom;
  inside = Math.max(10, box.width - frame.left - frame.right);
  y = value => frame.top + (1 - value) * tall;
  chart.replaceChildren();
  for (const level of [0, .5, 1]) {
    chart.append(svg("line", {x1: frame.left, x2: frame.left + inside, y1: y(level), y2: y(level),
      stroke: "var(--line)"}));
    chart.append(svg("text", {x: frame.left - 7, y: y(level) + 4, "text-anchor": "end",
      fill: "var(--soft)", "font-size": 11}, String(level)));
  }
  let ticks = "";  // one tick below the curve for each wrong step
  steps.forEach((step, i) => {
    const kind = verdict(step);
    if (kind === "wrong" || kind === "failed") ticks += `M${x(i).toFixed(1)} ${box.height - 18}v7`;
  });
  chart.append(svg("path", {d: ticks, stroke: "var(--wrong)", "stroke-width":
    Math.min(3, Math.max(.6, inside / steps.length * .6)), opacity: .75}));
  chart.append(svg("text", {x: frame.left + inside + 8, y: box.height - 10, fill: "var(--wrong)",
    "font-size": 11}, "✗ wrong"));
  const labels = [];
  for (const [name, colour, width, label] of
    [["mean", "var(--mean)", 1.5, "so far"], ["rolling", "var(--right)", 1.8, "last 50"]]) {
    const [path, last] = curve(name, colour, width);
    chart.append(path);
    if (last !== null) labels.push({y: y(last) + 4, colour, text: `${last.toFixed(2)} ${label}`});
  }
  labels.sort((a, b) => a.y - b.y);
  if (labels.length === 2 && labels[1].y - labels[0].y < 13) {
    const middle = Math.min(box.height - 30, Math.max(17, (labels[0].y + labels[1].y) / 2));
    labels[0].y = middle - 6.5; labels[1].y = middle + 6.5;
  }
  for (const label of labels) {
    chart.append(svg("text", {x: frame.left + inside + 8, y: label.y, fill: label.colour,
      "font-size": 11}, label.text));
  }
  marker = svg("line", {y1: frame.top - 4, y2: box.height - 8, stroke: "var(--mark)"});
  chart.append(marker);
  drawMarker();
}
function drawMarker() {
  if (!marker || !steps.length) return;
  marker.setAttribute("x1", x(at)); marker.setAttribute("x2", x(at));
}
function nearest(index) {  // the shown step closest to an index
  return shown.length ? shown.reduce((best, i) =>
    Math.abs(i - index) < Math.abs(best - index) ? i : best, shown[0]) : index;
}
function pick(event) {
  const left = event.clientX - byId("chart").getBoundingClientRect().left - frame.left;
  go(nearest(Math.round(left / inside * (steps.length - 1))));
}

/* -- moving and filtering -------------------------------------------------------------------- */
function go(index) {
  at = Math.max(0, Math.min(steps.length - 1, index));
  showStep();
}
function move(by) {
  const next = by > 0 ? shown.find(i => i > at) : shown.findLast(i => i < at);
  if (next !== undefined) go(next);
}
let folded = null;  // by text: lower case, made once
function matches(step) {
  const seen = index => folded[index].includes(needle);
  return Object.values(step.in).some(seen) || Object.values(step.out || {}).some(seen)
    || Object.values(step.policies).some(policy => seen(policy[1]))
    || (step.feedback && seen(step.feedback.text)) || (step.error !== undefined && seen(step.error))
    || step.id.toLowerCase() === needle;
}
function filter() {
  needle = byId("search").value.trim().toLowerCase();
  if (needle && !folded) folded = texts.map(text => text.toLowerCase());
  const wrong = byId("wrong").checked;
  shown = [];
  steps.forEach((step, i) => {
    const kind = verdict(step);
    if ((!wrong || kind === "wrong" || kind === "failed") && (!needle || matches(step))) {
      shown.push(i);
    }
  });
  byId("slider").max = Math.max(0, shown.length - 1);
  go(nearest(at));
}
function summarise() {
  const kinds = {};
  for (const step of steps) kinds[verdict(step)] = (kinds[verdict(step)] || 0) + 1;
  const judged = steps.filter(step => step.feedback && step.feedback.score !== null);
  const mean = judged.reduce((sum, step) => sum + step.feedback.score, 0) / judged.length;
  const spent = steps.reduce((sum, {cost}) => sum + cost.answer[1] + cost.answer[2]
    + cost.policy[1] + cost.policy[2] + cost.learning[1] + cost.learning[2], 0);
  const parts = [`${steps.length.toLocaleString("en")} steps`];
  if (judged.length) parts.push(`mean score ${mean.toFixed(3)} over ${judged.length} judged`);
  for (const kind of ["wrong", "unjudged", "waiting", "failed"]) {
    if (kinds[kind]) parts.push(`${kinds[kind]} ${words[kind].toLowerCase()}`);
  }
  parts.push(`${spent.toLocaleString("en")} tokens`);
  byId("summary").textContent = parts.join(" · ");
}

byId("title").textContent = run.title;
summarise();
if (steps.length) {
  byId("prev").onclick = () => move(-1);
  byId("next").onclick = () => move(1);
  byId("slider").oninput = event => go(shown[Number(event.target.value)]);
  byId("number").onchange = event => {
    const wanted = Number(event.target.value);
    go(steps.reduce((best, step, i) =>
      Math.abs(step.n - wanted) < Math.abs(steps[best].n - wanted) ? i : best, 0));
  };
  byId("wrong").onchange = filter;
  let pause = 0;
  byId("search").oninput = () => { clearTimeout(pause); pause = setTimeout(filter, 150); };
  byId("chart").onpointerdown = event => {
    byId("chart").setPointerCapture(event.pointerId); pick(event); };
  byId("chart").onpointermove = event => { if (event.buttons) pick(event); };
  document.addEventListener("keydown", event => {
    const typing = ["search", "number"].includes(event.target.type);
    if (event.key === "Escape" && typing) event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowLeft") { move(-1); event.preventDefault(); }
    else if (event.key === "ArrowRight") { move(1); event.preventDefault(); }
    else if (event.key === "Home") go(shown[0] ?? 0);
    else if (event.key === "End") go(shown[shown.length - 1] ?? 0);
    else if (event.key === "/") { byId("search").focus(); event.preventDefault(); }
    else if (event.key === "w") { byId("wrong").checked = !byId("wrong").checked; filter(); }
  });
  addEventListener("resize", drawChart);
  const asked = /step=(\d+)/.exec(location.hash);
  byId("slider").max = steps.length - 1;
  drawChart();
  at = asked ? Math.max(0, steps.findIndex(step => step.n === Number(asked[1])))
    : steps.length - 1;
  showStep();
} else {
  byId("main").append(el("p", {class: "soft"}, "This run has no steps yet."));
}

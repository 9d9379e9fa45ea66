// Draws every [data-figure-url]. The server decides what is drawn; this puts the theme's colours in and draws it.
/* global Plotly */
const CONFIG = { responsive: true, displaylogo: false, displayModeBar: false, showSendToCloud: false, plotlyServerURL: "", doubleClick: false };

// Plotly sets some styles as attributes, which the security policy forbids; the same through the style object is allowed.
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name, value) {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

const probe = document.createElement("span");
probe.hidden = true;
document.body.append(probe);

/** The resolved colour of a token in the present theme: "rgb(18, 138, 125)". */
function token(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

function steps(names) {
  return names.flatMap((name, index) => [[index / names.length, token(name)], [(index + 1) / names.length, token(name)]]);
}

function ramp(name) {
  return [[0, token("nothing")], [1, token(name)]];
}

function paint(trace) {
  const meta = trace.meta ?? {};
  // a map's names of states are put in here: sent with every cell they would be most of the answer
  const names = () => trace.z.map((row) => row.map((cell) => (cell === null ? null : meta.labels[cell])));
  if (meta.steps) return { ...trace, colorscale: steps(meta.steps), text: names() };
  if (meta.ramp) return { ...trace, colorscale: ramp(meta.ramp) };
  const colour = token(meta.token ?? "accent");
  const paper = meta.token === "free" ? token("free-paper") : token("unobserved");
  const hatch = meta.token === "unobserved" ? token("line-strong") : colour;
  const dress = (pattern) => (pattern?.shape ? { ...pattern, fgcolor: hatch, bgcolor: paper, fillmode: "replace" } : pattern);
  if (trace.type === "bar") return { ...trace, marker: { ...trace.marker, color: colour, pattern: dress(trace.marker?.pattern) } };
  if (trace.stackgroup) return { ...trace, line: { ...trace.line, color: colour }, fillcolor: colour, fillpattern: dress(trace.fillpattern) };
  if (trace.fill) return { ...trace, line: { ...trace.line, color: colour }, fillcolor: colour.replace("rgb(", "rgba(").replace(")", ", 0.16)") };
  return { ...trace, line: { ...trace.line, color: colour } };
}

// A drag over a chart of the page's period makes what was dragged over the page's period, from step to step. It is an address like
// every other; where one came from is kept in the tab, for Reset and a double click.
const bar = document.querySelector(".range");
const touches = matchMedia("(pointer: coarse)").matches; // there a drag scrolls
const before = sessionStorage.getItem(`zoomed ${location.pathname}${location.search}`);

const isOfThePeriod = (el) => bar && /[?&]from=/.test(el.dataset.figureUrl);

/** Wall clocks are compared as if they were UTC: charts know no zones. */
function at(text) {
  const [day, clock = "00:00"] = text.split(/[ T]/);
  return Date.parse(`${day}T${clock}Z`);
}

/** The steps of the chart's time around these two moments, as wall clocks. */
function stepsAround(el, from, to) {
  const starts = el.figure.data[0].x.map(at);
  const last = starts.at(-1);
  starts.push(last + (last - (starts.at(-2) ?? last - 3_600_000)));
  const start = starts.findLast((step) => step <= from) ?? starts[0];
  const end = starts.find((step) => step >= to && step > start) ?? starts.at(-1);
  return [start, end].map((step) => new Date(step).toISOString().slice(0, 19));
}

function zoom(el, event) {
  if (!event["xaxis.range[0]"]) return;
  const [from, to] = stepsAround(el, at(event["xaxis.range[0]"]), at(event["xaxis.range[1]"]));
  const params = new URLSearchParams(location.search);
  for (const name of ["range", "after"]) params.delete(name);
  params.set("from", from);
  params.set("to", to);
  const address = `${location.pathname}?${params}`;
  sessionStorage.setItem(`zoomed ${address}`, before ?? location.pathname + location.search);
  sessionStorage.setItem("scrolled", scrollY);
  location.assign(address);
}

/** Back to where one came from; a chart of a time of its own, which was zoomed alone, to all of it. */
function unzoom(el) {
  const { range } = el.figure.layout.xaxis;
  if (!isOfThePeriod(el)) Plotly.relayout(el, range ? { "xaxis.range": range } : { "xaxis.autorange": true });
  else if (before) location.assign(before);
}

if (before) {
  const link = bar.querySelector("[data-reset]");
  link.href = before;
  link.hidden = false;
  scrollTo(0, sessionStorage.getItem("scrolled") ?? 0);
  sessionStorage.removeItem("scrolled");
}

/** As many names of rows as fit under each other. */
const names = (axis, height) => (axis.type === "category" ? { ...axis, nticks: Math.max(4, Math.floor((height - 40) / 17)) } : axis);

function dress(layout, width, height) {
  const axis = { gridcolor: token("line"), linecolor: token("line"), tickfont: { size: 11, color: token("ink-3") }, zerolinecolor: token("line") };
  return {
    ...layout,
    dragmode: touches ? false : layout.dragmode,
    uirevision: "kept", // what somebody zoomed to stays when newer figures come
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: token("ink-2") },
    hoverlabel: { bgcolor: token("card"), bordercolor: token("line-strong"), font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: token("ink") } },
    xaxis: { ...axis, tickangle: 0, ...layout.xaxis, nticks: width < 420 ? 4 : layout.xaxis.nticks },
    yaxis: { ...axis, ...names(layout.yaxis, height) },
    shapes: layout.shapes?.map((shape) => ({ ...shape, layer: "below", line: { width: 0 }, fillcolor: token(shape.name), opacity: 0.22 })),
  };
}

async function draw(el) {
  const note = el.querySelector(".chart-note");
  const { data, layout } = el.figure;
  if (data.length === 0) {
    note.textContent = el.dataset.empty ?? "Nothing in this period.";
    return;
  }
  note?.remove();
  await Plotly.react(el, data.map(paint), dress(layout, el.clientWidth, el.clientHeight), CONFIG);
  el.dataset.drawn = "yes";
  if (el.isWired) return;
  el.isWired = true;
  if (isOfThePeriod(el)) el.on("plotly_relayout", (event) => zoom(el, event));
  el.on("plotly_doubleclick", () => unzoom(el));
  el.on("plotly_click", (event) => {
    const point = event.points[0];
    const link = point?.data.meta?.links?.[point.pointIndex?.[0]];
    if (link?.startsWith("/gpus/")) location.assign(link);
  });
}

async function load(el) {
  const response = await fetch(el.dataset.figureUrl, { headers: { Accept: "application/json" } });
  if (!response.ok) {
    el.classList.add("chart-failed");
    const note = el.querySelector(".chart-note");
    if (note) note.textContent = "This chart could not be loaded. Reload the page to try again.";
    return;
  }
  const text = await response.text();
  if (text === el.drawnFrom) return;
  el.drawnFrom = text;
  el.figure = JSON.parse(text);
  await draw(el);
}

function drawn() {
  return [...document.querySelectorAll("[data-figure-url]")].filter((el) => el.figure);
}

const redraw = () => drawn().forEach(draw);
addEventListener("fleetwatch:theme", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
const loadAll = () => document.querySelectorAll("[data-figure-url]").forEach(load);
addEventListener("fleetwatch:fresh", loadAll);
loadAll();

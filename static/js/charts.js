// Draws every [data-figure-url]. The server decides what is drawn; this puts the theme's colours in and draws it.
/* global Plotly */
const CONFIG = { responsive: true, displaylogo: false, displayModeBar: false, showSendToCloud: false, plotlyServerURL: "", doubleClick: false };

// Plotly sets some styles as attributes, which the security policy forbids; the same through the style object is allowed.
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name, value) {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

const HATCHED = { free: { colour: "free", slope: -1 }, unobserved: { colour: "line-strong", slope: 1 } };
const HATCH_PX = 6; // from line to line
const MOST_HATCHED_PX = 2400; // a higher map is hatched at a lower resolution

const probe = document.createElement("span");
probe.hidden = true;
document.body.append(probe);

/** The resolved colour of a token in the present theme: "rgb(18, 138, 125)". */
function token(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

function steps(names) {
  const paper = (name) => token(name === "free" ? "free-paper" : name);
  return names.flatMap((name, index) => [[index / names.length, paper(name)], [(index + 1) / names.length, paper(name)]]);
}

function ramp(name) {
  return [[0, token("nothing")], [1, token(name)]];
}

const UNKNOWN = 255; // drawing/grid.py

/** A map's cells, sent as bytes: rows of numbers, null where nobody knows. */
function unpack({ bdata, shape }) {
  const bytes = Uint8Array.from(atob(bdata), (letter) => letter.charCodeAt(0));
  const columns = Number(shape.split(",")[1]);
  return Array.from({ length: bytes.length / columns }, (_, row) =>
    Array.from(bytes.subarray(row * columns, (row + 1) * columns), (cell) => (cell === UNKNOWN ? null : cell)));
}

function paintMap(trace, meta) {
  trace.cells ??= trace.z.bdata ? unpack(trace.z) : trace.z; // a small map is sent as it is
  const map = { ...trace, z: trace.cells };
  if (meta.ramp) return { ...map, colorscale: ramp(meta.ramp) };
  // names of states are put in here: sent with every cell they would be most of the answer
  const text = map.z.map((row) => row.map((cell) => (cell === null ? null : meta.labels[cell])));
  return { ...map, colorscale: steps(meta.steps), text };
}

/** The lines of the hatched states over a map, as in its legend: an image for Plotly, which hatches bars and areas alone. */
function hatching(el, trace) {
  const { width: whole, height } = el.getBoundingClientRect();
  const canvas = Object.assign(document.createElement("canvas"), { width: Math.max(1, whole - 56), height: Math.max(1, Math.min(height, MOST_HATCHED_PX)) });
  const draw = canvas.getContext("2d");
  const rows = trace.cells ?? unpack(trace.z);
  const [columns, bottom] = [rows[0]?.length ?? 0, trace.y.at(-1)];
  for (const [state, { colour, slope }] of Object.entries(HATCHED)) {
    const place = trace.meta.steps.indexOf(state);
    draw.save();
    draw.beginPath();
    rows.forEach((row, at) => {
      const [top, end] = [trace.y[at], trace.y[at + 1]].map((edge) => (edge / bottom) * canvas.height);
      for (let first = row.indexOf(place); first >= 0; ) {
        let last = first;
        while (row[last] === place) last += 1;
        draw.rect((first / columns) * canvas.width, top, ((last - first) / columns) * canvas.width, end - top);
        first = row.indexOf(place, last);
      }
    });
    draw.clip();
    draw.strokeStyle = token(colour);
    draw.beginPath();
    for (let x = -canvas.height; x < canvas.width + canvas.height; x += HATCH_PX) {
      draw.moveTo(x, 0);
      draw.lineTo(x + slope * canvas.height, canvas.height);
    }
    draw.stroke();
    draw.restore();
  }
  const axis = trace.yaxis ?? "y";
  return { source: canvas.toDataURL(), xref: "x domain", yref: `${axis} domain`, x: 0, y: 1, sizex: 1, sizey: 1, sizing: "stretch", layer: "above" };
}

function paint(trace) {
  const meta = trace.meta ?? {};
  if (trace.type === "heatmap") return paintMap(trace, meta);
  const colour = token(meta.token ?? "accent");
  if (trace.mode === "markers") return { ...trace, marker: { ...trace.marker, color: colour, line: { color: token("card"), width: 1 } } };
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

// where a figure wants one, through all of its panels
const CROSSHAIR = { spikemode: "across", spikesnap: "cursor", spikethickness: 1, spikedash: "solid" };

/** Panels with more room for titles and names above them, where these need more rows: a title's name says how much. */
function movedApart(layout) {
  const margins = layout.margin.t + layout.margin.b;
  const plot = layout.height - margins;
  const more = layout.annotations.reduce((sum, title) => sum + Number(title.name), 0);
  const moved = { ...layout, height: plot + more + margins, annotations: [] };
  let above = 0;
  for (const [at, axis] of Object.keys(layout).filter((name) => name.startsWith("yaxis")).entries()) {
    const title = layout.annotations[at];
    const legend = axis.replace("yaxis", "legend");
    above += Number(title.name);
    const domain = layout[axis].domain.map((share) => (share * plot + more - above) / (plot + more));
    moved[axis] = { ...layout[axis], domain };
    moved[legend] = { ...layout[legend], y: domain[1] };
    const text = title.text.replace(" · ", "<br>");
    moved.annotations.push({ ...title, text, y: domain[1], yshift: title.yshift + Number(title.name) });
  }
  return moved;
}

function dress(el, { data, layout: given }) {
  const isNarrow = el.clientWidth < 420;
  const layout = given.annotations && el.clientWidth < 640 ? movedApart(given) : given;
  const axis = { gridcolor: token("line"), linecolor: token("line"), tickfont: { size: 11, color: token("ink-3") }, zerolinecolor: token("line") };
  return {
    ...layout,
    dragmode: touches ? false : layout.dragmode,
    uirevision: "kept", // what somebody zoomed to stays when newer figures come
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: token("ink-2") },
    hoverlabel: { bgcolor: token("card"), bordercolor: token("line-strong"), font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: token("ink") } },
    ...Object.fromEntries(Object.entries(layout).filter(([name]) => name.startsWith("yaxis")).map(([name, own]) => [name, { ...axis, ...own }])),
    ...Object.fromEntries(Object.entries(layout).filter(([name]) => name.startsWith("legend")).map(([name, own]) => [name, isNarrow ? { ...own, font: { size: 9 } } : own])),
    xaxis: { ...axis, ...(layout.xaxis.showspikes ? { ...CROSSHAIR, spikecolor: token("ink-3") } : {}), tickangle: 0, ...layout.xaxis, nticks: isNarrow ? 4 : layout.xaxis.nticks },
    images: data.filter((trace) => trace.meta?.steps).map((trace) => hatching(el, trace)),
    shapes: layout.shapes?.map((shape) => ({ ...shape, layer: "below", line: { width: 0, ...shape.line, color: token(shape.name) }, fillcolor: token(shape.name), opacity: shape.line ? 1 : 0.22 })),
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
  const dressed = dress(el, el.figure);
  if (layout.height) Object.assign(el.style, { height: `${dressed.height}px`, minHeight: 0 });
  await Plotly.react(el, data.map(paint), dressed, CONFIG);
  const most = data[0].meta?.most; // of a map of dollars, beside its scale
  if (most) document.querySelectorAll("[data-most]").forEach((scale) => { scale.textContent = most; });
  el.dataset.drawn = "yes";
  if (el.isWired) return;
  el.isWired = true;
  if (isOfThePeriod(el)) el.on("plotly_relayout", (event) => zoom(el, event));
  el.on("plotly_doubleclick", () => {
    clearTimeout(drilling);
    el.doubledAt = performance.now();
    unzoom(el);
  });
  el.on("plotly_click", (event) => {
    const cell = cellAt(event);
    if (cell) location.assign(`${cell.link}?${periodOf(cell)}`);
    else drill(el, partAt(el, event));
  });
  el.on("plotly_hover", (event) => {
    point(el, event);
    light(el, lineAt(el, event));
  });
  el.on("plotly_unhover", () => {
    point(el);
    light(el);
  });
  el.addEventListener("mouseover", ({ target }) => {
    const name = target.closest?.(".traces")?.querySelector("text")?.dataset.unformatted;
    if (name) light(el, name);
  });
  el.addEventListener("mouseout", ({ target }) => target.closest?.(".traces") && light(el));
}

const MANY_LINES = 3; // so many in a panel hide each other: what is pointed at is seen alone
const NEAR_PX = 14;
const DIM = 0.12;

/** Shows the lines of that name in all panels, the others faintly; without a name, or of few lines, all as they are. */
function light(el, name = "") {
  if (el.lit === name) return;
  const lines = el.data.flatMap((trace, at) => (trace.type === "scatter" && !trace.fill && trace.line.width ? [at] : []));
  const isLine = new Set(lines.map((at) => el.data[at].name));
  if (name && (!isLine.has(name) || isLine.size < MANY_LINES)) return;
  el.lit = name;
  Plotly.restyle(el, { opacity: lines.map((at) => (name && el.data[at].name !== name ? DIM : 1)) }, lines);
}

/** The name of the line that the pointer is next to, of those of the panel that it is in; "" far from all. */
function lineAt(el, event) {
  const top = event.event.clientY - el.getBoundingClientRect().top;
  const near = event.points
    .filter(({ yaxis, data }) => data.type === "scatter" && top >= yaxis._offset && top <= yaxis._offset + yaxis._length)
    .map(({ yaxis, y, data }) => ({ name: data.name, px: Math.abs(yaxis._offset + yaxis.d2p(y) - top) }));
  const nearest = near.toSorted((one, other) => one.px - other.px)[0];
  return nearest?.px <= NEAR_PX ? nearest.name : "";
}

const DOUBLE_MS = 350; // a second click that comes within it makes a double one, which Plotly tells before that click
let drilling = 0;

/** From a part of a bar to what it is made of, over the bar's time; a double click is no click. */
function drill(el, part) {
  if (!part?.data.meta?.link || performance.now() - el.doubledAt < DOUBLE_MS) return;
  const [from, to] = stepsAround(el, at(part.x), at(part.x) + 1);
  const zone = new URLSearchParams(location.search).get("tz");
  const address = `${part.data.meta.link}&${new URLSearchParams({ from, to, ...(zone ? { tz: zone } : {}) })}`;
  clearTimeout(drilling);
  drilling = setTimeout(() => location.assign(address), DOUBLE_MS);
}

/** The part under the pointer, of those that stand on each other there: Plotly names them all. */
function partAt(el, event) {
  const { yaxis } = event.points[0];
  const height = yaxis.p2d(event.event.clientY - el.getBoundingClientRect().top - yaxis._offset);
  let top = 0;
  return event.points.toSorted((one, other) => one.curveNumber - other.curveNumber).find((point) => (top += point.y) >= height);
}

/** The cell of a map that the pointer is at: its row's link, from when to when; undefined for what leads nowhere. */
function cellAt(event) {
  const at = event?.points[0];
  const meta = at?.data.meta;
  if (!meta?.links) return undefined; // no map: its place is one number
  const [row, column] = at.pointIndex;
  if (!meta.links[row]) return undefined;
  const from = meta.first_ms + column * meta.step_ms;
  return { link: meta.links[row], from, to: from + meta.step_ms };
}

const HOUR_MS = 3_600_000;

/** The clock hours around a cell, in the page's zone. */
function periodOf({ from, to }) {
  const params = new URLSearchParams({ from: Math.floor(from / HOUR_MS) * HOUR_MS, to: Math.ceil(to / HOUR_MS) * HOUR_MS });
  const zone = new URLSearchParams(location.search).get("tz");
  if (zone) params.set("tz", zone);
  return params;
}

// What the pointer rests on is asked of the server, which knows jobs, owners and dollars; what was asked once is kept.
const REST_MS = 120;
const told = new Map();
let resting = 0;

async function point(el, event) {
  clearTimeout(resting);
  const tip = document.querySelector(el.dataset.tip ?? null);
  const cell = tip && cellAt(event);
  if (!cell) {
    if (tip) tip.hidden = true;
    return;
  }
  const address = `${cell.link}/cell?${new URLSearchParams({ from: cell.from, to: cell.to })}`;
  const { clientX, clientY } = event.event;
  resting = setTimeout(async () => {
    if (!told.has(address)) told.set(address, await (await fetch(address)).text());
    tip.replaceChildren(document.createRange().createContextualFragment(told.get(address)));
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.min(clientX + 14, innerWidth - width - 8)}px`;
    tip.style.top = `${clientY + 14 + height > innerHeight ? clientY - height - 10 : clientY + 14}px`;
  }, REST_MS);
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
// Paper has a width of its own, and charts are drawn for the window's.
const PAPER = { width: 1040, height: 220 };
addEventListener("beforeprint", () => {
  const main = document.querySelector("main");
  for (const el of drawn()) {
    const width = (PAPER.width * el.clientWidth) / main.clientWidth;
    Plotly.relayout(el, { width, height: Math.min(el.clientHeight, PAPER.height) });
  }
});
addEventListener("afterprint", redraw);
const loadAll = () => document.querySelectorAll("[data-figure-url]").forEach(load);
addEventListener("fleetwatch:fresh", loadAll);
loadAll();

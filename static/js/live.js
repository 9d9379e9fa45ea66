// A page that somebody looks at stays as it would be if it were opened now. The server says whether it changed; only what differs is
// put in, so that focus, ticks, open details and places scrolled to stay; nothing is while somebody fills in a form. Without this file the
// page is of when it was opened.
const EVERY_MS = 20_000;
const main = document.querySelector("[data-version]");
let version = main.dataset.version;
let isAsking = false;

/** Says whether the hub answers, and how old the newest data is that the page knows of; what that is called says each new page. */
function say(isAnswered) {
  const asOf = document.querySelector("[data-as-of]");
  if (!asOf) return;
  asOf.querySelector("[data-lost]").hidden = isAnswered;
  asOf.querySelector(".dot").className = `dot ${isAnswered ? asOf.dataset.colour : "warn"}`;
  if (!isAnswered) return;
  asOf.querySelector("time").textContent = new Date().toLocaleTimeString("en-GB", { timeZone: asOf.dataset.asOf });
  const age = asOf.querySelector("[data-age]");
  if (age) age.textContent = lasted((Date.now() - asOf.dataset.newest) / 1000);
}

/** Seconds as the hub writes them below an hour. */
function lasted(seconds) {
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return seconds < 60 ? `${Math.max(Math.floor(seconds), 0)} s` : `${Math.floor(seconds / 60)} min`;
}

const FIELDS = "input:not([type=checkbox], [type=radio], [type=hidden]), select, textarea";

const touched = new Set();
main.addEventListener("input", ({ target }) => { if (target.matches(FIELDS)) touched.add(target); });

/** Whether the field says another thing than the page did when it was made. */
function isChanged(field) {
  if (!field.options) return field.value !== field.defaultValue;
  const first = [...field.options].findIndex((option) => option.defaultSelected);
  return field.selectedIndex !== Math.max(first, 0);
}

/** Whether somebody fills in a form of the page. */
function isEditing() {
  const isTyping = main.contains(document.activeElement) && document.activeElement.matches(FIELDS);
  return isTyping || [...touched].some((field) => field.isConnected && isChanged(field));
}

async function refresh() {
  if (document.hidden || isAsking || isEditing() || !getSelection().isCollapsed) return;
  isAsking = true;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html", "If-None-Match": `W/"${version}"` } });
    const isPage = response.ok && !response.redirected;
    if (isPage) put(new DOMParser().parseFromString(await response.text(), "text/html"));
    say(isPage || response.status === 304);
  } catch {
    say(false);
  } finally {
    isAsking = false;
  }
}

function put(page) {
  const fresh = page.querySelector("[data-version]");
  if (!fresh) return;
  version = fresh.dataset.version;
  become(main, fresh);
  window.htmx?.process(main); // parts that were put in ask, too
  document.body.dispatchEvent(new Event("fleetwatch:fresh", { bubbles: true }));
}

/** What a row, a line or a form is of: it is known again by this wherever it stands. */
function name(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return node.nodeName;
  const of = node.matches("tr, li") ? (node.querySelector("input[type=checkbox]")?.value ?? node.querySelector("a[href]")?.pathname) : null;
  return `${node.nodeName} ${node.id} ${of ?? node.getAttribute("action") ?? ""}`;
}

/** The same with what only it has, and seldom changes: where a row leads, the words above a section and on what can be opened. */
function fullName(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return node.nodeName;
  const leads = node.matches("tr, li") ? node.querySelector("a[href]")?.search : null;
  const head = node.matches("section, details") ? (node.querySelector("h2") ?? node.querySelector("summary")) : null;
  const words = head?.textContent.replace(/[^\p{L}]+/gu, " ");
  return `${name(node)} ${leads ?? words ?? ""}`;
}

/** By each child of `fresh` the child of `old` that is the same: by its full name, else the first that is left of its name. */
function pairs(old, fresh) {
  const left = [...old.childNodes];
  const pairs = new Map();
  for (const of of [fullName, name]) {
    const names = left.map(of);
    for (const child of fresh.childNodes) {
      const at = pairs.has(child) ? -1 : names.indexOf(of(child));
      if (at < 0) continue;
      names.splice(at, 1);
      pairs.set(child, left.splice(at, 1)[0]);
    }
  }
  return [pairs, left];
}

/** Makes the children of `old` those of `fresh`; a node that is known again stays the same node. */
function become(old, fresh) {
  const [sames, left] = pairs(old, fresh);
  left.forEach((node) => node.remove()); // first, so that what stays need not be moved: moving takes the focus
  let place = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const same = sames.get(child);
    if (!same) {
      old.insertBefore(child, place);
      continue;
    }
    if (same === place) place = place.nextSibling;
    else old.insertBefore(same, place);
    adopt(same, child);
  }
}

function adopt(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.matches(APART) || old === document.activeElement) return;
  for (const { name, value } of fresh.attributes) if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !KEPT.includes(name)) old.removeAttribute(name);
  become(old, fresh);
}

const KEPT = ["open", "aria-current", "tabindex", "data-fits"]; // of what somebody opened or went to, of what fits (app.js)
const APART = "[data-apart], [data-figure-url], input:not([type=hidden]), select, textarea"; // theirs, or another script's

setInterval(refresh, EVERY_MS);
document.addEventListener("visibilitychange", refresh);

// Keys, copy buttons and the theme switch. Every page works without this file.
const TYPING = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";
let chord = "";

// Paper says where it is from and when it was printed.
addEventListener("beforeprint", () => {
  const now = new Date().toISOString().slice(0, 16).replace("T", " ");
  for (const el of document.querySelectorAll("[data-address]")) el.textContent = location.href.replace(/^https?:\/\//, "");
  for (const el of document.querySelectorAll("[data-printed]")) el.textContent = `· printed ${now} UTC`;
});

// What is folded is open on paper, for browsers in which the style sheet can't open it; what asks or takes something is not on it.
const unfolded = [];
addEventListener("beforeprint", () => {
  unfolded.push(...document.querySelectorAll("details:not([open], .picker, .menu, .confirm, .add)"));
  for (const el of unfolded) el.open = true;
});
addEventListener("afterprint", () => {
  for (const el of unfolded.splice(0)) el.open = false;
});

// The palette: Ctrl-K, ⌘K or / anywhere, or a click on the empty search field; Enter opens the first that was found, arrows go through the others; its foot says what Enter does.
const palette = document.querySelector("#palette");
addEventListener("keydown", (event) => {
  if (!palette || event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  event.preventDefault();
  if (palette.open) palette.close();
  else openPalette();
});
// what was asked before is replaced by what is typed
function openPalette() {
  palette.showModal();
  palette.querySelector("input").select();
}
document.querySelector("#search")?.addEventListener("click", (event) => {
  if (!palette || event.target.value) return;
  event.target.blur();
  openPalette();
});
palette?.addEventListener("keydown", (event) => {
  const input = palette.querySelector("input");
  // a search field takes the first Esc to empty itself
  if (event.key === "Escape") {
    event.preventDefault();
    palette.close();
    // a field that is gone goes on taking the page's keys until the next frame
    input.blur();
    return;
  }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) {
    // who stands on a line and types asks for something else
    const isText = event.key === "Backspace" || event.key.length === 1;
    if (isText && document.activeElement !== input) input.focus();
    return;
  }
  event.preventDefault();
  const stops = [input, ...palette.querySelectorAll("[data-hit]")];
  // from the field Enter opens the first line: the next one is the second
  const standsOn = document.activeElement === input && step > 0 ? firstHit() : null;
  const at = stops.indexOf(standsOn ?? document.activeElement);
  stops[Math.min(Math.max(at + step, 0), stops.length - 1)].focus();
});
palette?.addEventListener("click", (event) => {
  if (event.target === palette) palette.close();
});
// What was found for a former text is no answer to this one: until that is there it is grey, and searching is said.
function isFormer() {
  const hits = palette.querySelector("[data-of]");
  const waits = hits !== null && hits.dataset.of !== palette.querySelector("input").value.trim();
  hits?.classList.toggle("former", waits);
  hits?.setAttribute("aria-busy", waits);
  return waits;
}
palette?.querySelector("form").addEventListener("submit", (event) => {
  const first = firstHit();
  if (!first) return;
  event.preventDefault();
  first.click();
});
// What Enter opens from the field; nothing where it searches.
function firstHit() {
  const text = palette.querySelector("input").value.trim();
  const hits = palette.querySelector("[data-of]");
  return text && hits?.dataset.of === text ? hits.querySelector("[data-hit]") : null;
}
const LONGEST_NAME = 60;
function sayEnter() {
  const line = document.activeElement?.closest("#palette [data-hit]") ?? firstHit();
  const name = (line?.querySelector("b") ?? line)?.textContent.trim() ?? "";
  const short = name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME).trim()}…` : name;
  palette.querySelector("[data-enter]").textContent = `${isFormer() ? "Searching…, " : ""}${line ? `Enter opens ${short}` : "Enter searches"}`;
}
for (const event of ["focusin", "input", "htmx:afterSwap"]) palette?.addEventListener(event, sayEnter);

// Under a menu what the chosen line of it does.
addEventListener("change", (event) => {
  const says = event.target.selectedOptions?.[0]?.dataset.says;
  const place = says && document.querySelector(`[data-says-of="${CSS.escape(event.target.id)}"]`);
  if (place) place.textContent = says;
});

// What was opened in this tab lately, above the pages: it goes with the tab.
const RECENT = 5;
const recent = JSON.parse(sessionStorage.getItem("recent") ?? "[]");
if (palette && /^\/(jobs|gpus|nodes|findings|incidents|teams)\/./.test(location.pathname)) {
  const here = { to: location.pathname, name: document.title.replace(" · FleetWatch", "") };
  const others = recent.filter((each) => each.to !== here.to);
  sessionStorage.setItem("recent", JSON.stringify([here, ...others].slice(0, RECENT)));
}
palette?.addEventListener("htmx:afterSwap", () => {
  const found = palette.querySelector("[data-of]");
  if (found?.dataset.of !== "" || recent.length === 0) return;
  const title = document.createElement("h3");
  const list = document.createElement("ul");
  title.textContent = "Recent";
  list.className = "hits";
  for (const each of recent) {
    const link = document.createElement("a");
    link.href = each.to;
    link.dataset.hit = "";
    link.textContent = each.name;
    const line = document.createElement("li");
    line.append(link);
    list.append(line);
  }
  found.prepend(title, list);
});

addEventListener("keydown", (event) => {
  if (palette?.open || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.(TYPING)) return;
  if (event.key === "/") {
    event.preventDefault();
    if (palette) openPalette();
    return;
  }
  if (chord === "g") document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click();
  else inInbox(event.key);
  chord = event.key;
});

// An inbox: j and k go from row to row, and so does the focus; x ticks it, o opens it; a button with this key acts on what is ticked, else on the row.
function inInbox(key) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.findIndex((row) => row.hasAttribute("aria-current"));
  const tick = rows[at]?.querySelector("input[type=checkbox]");
  if (rows.length > 0 && (key === "j" || key === "k")) {
    const next = rows[Math.min(Math.max(at + (key === "j" ? 1 : -1), 0), rows.length - 1)];
    const stop = next.querySelector("a[href], summary") ?? next.querySelector("input");
    stop?.focus({ preventScroll: true });
    mark(next);
    next.scrollIntoView({ block: "nearest" });
  } else if (key === "x") tick?.click();
  else if (key === "o") rows[at]?.querySelector("a, summary")?.click();
  else if (key.length === 1) {
    const button = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (button && rows.length && !document.querySelector("[data-row] input:checked")) {
      if (!tick) return;
      tick.checked = true;
    }
    button?.click();
  }
}

function mark(row) {
  for (const other of document.querySelectorAll("[data-row][aria-current]")) other.removeAttribute("aria-current");
  row.setAttribute("aria-current", "true");
}
addEventListener("focusin", (event) => {
  const row = event.target.closest?.("[data-row]");
  if (row) mark(row);
});

document.querySelector("[data-tick-all]")?.addEventListener("change", (event) => {
  for (const tick of document.querySelectorAll("[data-row] input[type=checkbox]")) tick.checked = event.target.checked;
});

// What a form's ticked lines come to, in micro-dollars; the server adds them up by itself. Without one
// there is nothing to send.
document.addEventListener("change", (event) => sumTicked(event.target.form));
for (const place of document.querySelectorAll("form button [data-sum]")) sumTicked(place.closest("form"));

function sumTicked(form) {
  const places = form?.querySelectorAll("[data-sum]") ?? [];
  if (!places.length) return;
  const ticked = [...form.elements].filter((each) => each.checked && each.dataset.usd);
  for (const button of form.querySelectorAll("button:has([data-sum])")) button.disabled = !ticked.length;
  const micro = ticked.reduce((sum, each) => sum + Math.round(each.dataset.usd * 1e6), 0);
  for (const place of places) place.textContent = inDollars(micro);
}

function inDollars(micro) {
  const dollars = (Math.abs(micro) / 1e6).toLocaleString("en-US", { style: "currency", currency: "USD" });
  return (micro <= -5000 ? "−" : "") + dollars;
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

document.querySelector("[data-theme-form]")?.addEventListener("submit", (event) => {
  event.preventDefault();
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  document.cookie = `theme=${theme}; path=/; max-age=31536000; samesite=lax`;
  dispatchEvent(new Event("fleetwatch:theme"));
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  // browsers lend the clipboard to HTTPS and localhost only; elsewhere the text is selected, ready for Ctrl-C
  if (!navigator.clipboard) {
    getSelection().selectAllChildren(source);
    button.textContent = "Selected: press Ctrl-C";
    return;
  }
  await navigator.clipboard.writeText(source.textContent.trim());
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

// A link to what is shown now, for others: copied where the browser lends the clipboard, followed elsewhere.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("[data-copy-address]");
  if (!link || !navigator.clipboard || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const text = link.textContent;
  await navigator.clipboard.writeText(link.href);
  link.textContent = "Copied";
  setTimeout(() => { link.textContent = text; }, 1500);
});

// What hangs open over a page closes with Escape, or with a click beside it.
addEventListener("keydown", (event) => {
  const open = event.key === "Escape" && document.querySelector(".picker[open]");
  if (!open) return;
  open.open = false;
  open.querySelector("summary").focus();
});
document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll(".picker[open]")) if (!open.contains(event.target)) open.open = false;
});

// The reader's own zone is the first that is offered.
const own = new Option("yours", Intl.DateTimeFormat().resolvedOptions().timeZone);
document.querySelector("[data-zones]")?.prepend(own);

// A form of filters: what is left empty narrows nothing, and stays out of the address.
addEventListener("submit", (event) => {
  if (!event.target.matches?.("[data-sparse]")) return;
  for (const field of event.target.elements) field.disabled ||= field.name !== "" && field.value === "";
});
addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("[data-sparse] :disabled")) field.disabled = false;
});

// A field that leaves of folded operations those with its text; groups without any go, too.
for (const place of document.querySelectorAll("[data-narrowing]")) {
  place.hidden = false;
  place.querySelector("input").addEventListener("input", (event) => {
    const text = event.target.value.trim().toLowerCase();
    let count = 0;
    for (const group of document.querySelectorAll("[data-narrowed-group]")) {
      const lines = [...group.querySelectorAll("details")];
      for (const line of lines) line.hidden = !line.querySelector("summary").textContent.toLowerCase().includes(text);
      const left = lines.filter((line) => !line.hidden).length;
      group.hidden = left === 0;
      count += left;
    }
    place.querySelector("[data-narrowed]").textContent = text ? `${count} found` : "";
  });
}

// A table that fits lets its heads stick to the page; one that does not is scrolled sideways, by keys too.
const fitting = new ResizeObserver((entries) => {
  for (const el of new Set(entries.map((entry) => entry.target.closest(".scroll")))) {
    const fits = el.scrollWidth <= el.clientWidth;
    el.toggleAttribute("data-fits", fits);
    if (fits) el.removeAttribute("tabindex");
    else el.tabIndex = 0;
  }
});
for (const el of document.querySelectorAll(".scroll, .scroll > table")) fitting.observe(el);

// Keys, copy buttons and the theme switch. Every page works without this file.
const TYPING = "input, textarea, select, [contenteditable]";
let chord = "";

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.(TYPING)) return;
  if (event.key === "/") {
    event.preventDefault();
    document.querySelector("#search")?.focus();
    return;
  }
  if (chord === "g") document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click();
  chord = event.key;
});

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

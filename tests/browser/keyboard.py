"""A page that is used by keys alone: what has the focus at each stop is seen."""

import re
from dataclasses import dataclass

from playwright.sync_api import Page

from tests.browser.sites import wait_for_charts

MOST_STOPS = 90  # of a way on a page, its menu included

# What has the focus, what it is called, and why nobody would see that it has it. A ring is a change
# by the focus: against a twin of the element that has none.
FOCUS = """() => {
    const el = document.activeElement;
    if (!el || el === document.body) return { name: "", problems: [] };
    const words = (text) => (text ?? "").replace(/\\s+/g, " ").trim();
    const label = ({ labels }) => labels?.length && [...labels[0].childNodes].map((node) => node === el ? "" : node.textContent).join("");
    const name = words(el.getAttribute("aria-label") || label(el) || el.innerText || el.id);
    const problems = [];
    const box = el.getClientRects()[0];
    if (!box || !box.width || !box.height) return { name, problems: ["it has no place on the page"] };

    const style = getComputedStyle(el);
    const twin = el.cloneNode(true);
    el.after(twin);
    const plain = { ...getComputedStyle(twin) };
    twin.remove();
    const hasOutline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    const isOutlined = hasOutline && plain.outlineStyle === "none";
    if (!isOutlined && style.boxShadow === plain.boxShadow) problems.push("it looks as without the focus");

    // what of the ring above, below and beside it no scrolling or clipping box cuts off
    const reach = isOutlined ? parseFloat(style.outlineOffset) + parseFloat(style.outlineWidth) : 0;
    const ring = { top: box.top - reach, bottom: box.bottom + reach, left: box.left - reach, right: box.right + reach };
    const cut = (name, place) => {
        const sides = [place.top - ring.top, ring.bottom - place.bottom, place.left - ring.left, ring.right - place.right];
        if (sides.some((px) => px > 1)) problems.push(`${name} cuts ${Math.round(Math.max(...sides))} px off its ring`);
    };
    for (let at = el.parentElement; at && at !== document.body; at = at.parentElement) {
        if (getComputedStyle(at).overflow === "visible") continue;
        const outer = at.getBoundingClientRect();
        const top = outer.top + at.clientTop, left = outer.left + at.clientLeft;
        cut(at.className || at.id, { top, left, bottom: top + at.clientHeight, right: left + at.clientWidth });
    }
    cut("the window", { top: 0, left: 0, bottom: innerHeight, right: innerWidth });

    const places = [[box.left + 3, box.top + 3], [box.right - 3, box.bottom - 3], [box.left + box.width / 2, box.top + box.height / 2]];
    for (const [x, y] of places) {
        const top = document.elementFromPoint(x, y);
        if (top && !el.contains(top) && !top.contains(el)) problems.push(`${top.localName}.${top.className} covers it`);
    }
    return { name, problems };
}"""


@dataclass(frozen=True, slots=True)
class Keyboard:
    """The keys of a page's reader, who has no mouse."""

    page: Page

    @property
    def focus(self) -> str:
        """What the focused element is called, "" where none is; fails where nobody would see it."""
        focus = self.page.evaluate(FOCUS)
        problems = "; ".join(focus["problems"])
        assert not problems, f"the focus is on “{focus['name']}”: {problems}"
        return focus["name"]

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def go(self, name: str, *, by: str = "Tab", most: int = MOST_STOPS) -> None:
        """Presses the key until the focus is on what is called so; it is seen at each stop."""
        stops = []
        while len(stops) < most:
            self.press(by)
            stops.append(self.focus)
            if re.search(name, stops[-1]):
                return
        raise AssertionError(f"no “{name}” among {stops}")

    def open(self, *keys: str) -> None:
        """Presses the keys, the last of which opens another page."""
        *before, last = keys
        self.press(*before)
        with self.page.expect_navigation():
            self.press(last)
        # what loads of the page by itself: another page would cut it off, which htmx complains of
        wait_for_charts(self.page)

    def skip_the_menu(self) -> None:
        """On a page that was just opened."""
        self.go("Skip to the page", most=1)
        self.press("Enter")

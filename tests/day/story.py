"""Monday, 16 November 2026, from midnight to Tuesday's breakfast; times are UTC."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from playwright.sync_api import Page

from tests.day.drawn import mail_page, slack_page
from tests.day.nodes import Scene
from tests.day.site import CHANNELS, PEOPLE, Moment, Site

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)


def at(clock: str, *, day: int = 0) -> datetime:
    """That time of the Monday, or of a day after it."""
    hour, minute = map(int, clock.split(":"))
    return MONDAY + timedelta(days=day, hours=hour, minutes=minute)


NEXT_DAY = "next day"  # of a span: it lasts until after the story


def _scene(
    number: int, name: str, who: str, where: str, idle: str, *, end: str = NEXT_DAY
) -> Scene:
    """`who` is user/team, `where` node/first-last GPU, `idle` a span such as "08:00 09:10"."""
    user, _, team = who.partition("/")
    node, _, gpus = where.partition("/")
    low, high = map(int, gpus.split("-"))
    span = idle.split(maxsplit=1)
    start, until = at(span[0]), _end(span[1])
    held = tuple(range(low, high + 1))
    return Scene(number, name, user, team, node, held, MONDAY, _end(end), ((start, until),))


def _end(clock: str) -> datetime:
    return at("08:00", day=1) if clock == NEXT_DAY else at(clock)


SCENES = (
    _scene(70_101, "train-vit", "priya/vision", "h100-01/0-3", "08:00 09:10"),
    _scene(70_102, "pretrain-7b", "jonas/nlp", "a100-03/0-7", "08:10 12:30", end="12:30"),
    _scene(70_103, "align-eval", "amara/nlp", "h100-02/0-1", "10:40 13:00", end="13:00"),
    _scene(70_104, "detect-night", "priya/vision", "l40s-05/0-7", "09:40 10:40"),
    _scene(70_105, "sweep-lr", "jonas/nlp", "h100-04/4-7", "14:00 16:00", end="16:00"),
    _scene(70_106, "segment-xl", "priya/vision", "h100-07/0-1", f"15:00 {NEXT_DAY}"),
    _scene(70_107, "depth-distil", "priya/vision", "a100-08/0-3", f"15:10 {NEXT_DAY}"),
)


@dataclass
class Told:
    """What was there at the moments of the story, and what people saw on their pages."""

    site: Site
    moments: dict[str, Moment] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def until(self, *clocks: str, day: int = 0) -> None:
        """Lives on to each of these times; the last is kept under its name."""
        self.site.move_to(*(at(each, day=day) for each in clocks))
        self.keep(clocks[-1] if not day else f"Tuesday {clocks[-1]}")

    def keep(self, name: str) -> None:
        self.moments[name] = self.site.moment()

    def work(self, name: str) -> None:
        """What was done since the last turn goes out."""
        self.site.do("work")
        self.keep(name)

    def read(self, who: str, path: str, name: str = "") -> str:
        """The text of the page as that person sees it, kept."""
        page = self.site.page(who)
        page.goto(self.site.hub.url + path)
        text = page.inner_text("main")
        self.pages[name or f"{who} {path}"] = text
        page.close()
        return text

    def open_incident(self, who: str, word: str) -> str:
        """The address of the incident whose title in the inbox has that word; its page is kept."""
        page = self.site.page(who)
        page.goto(f"{self.site.hub.url}/alerts")
        page.locator("h3 a", has_text=word).first.click()
        page.wait_for_url("**/incidents/*")
        address = page.url.removeprefix(self.site.hub.url)
        self.pages[f"{who} incident {word}"] = page.inner_text("main")
        page.close()
        return address

    def see(self, who: str, path: str, name: str) -> None:
        """Pictures of the page as that person sees it: wide and narrow, light and dark."""
        if self.site.out is None:
            return
        for scheme in ("light", "dark"):
            for width in (1280, 390):
                page = self.site.page(who)
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size({"width": width, "height": 900})
                page.goto(self.site.hub.url + path)
                page.wait_for_load_state("networkidle")
                self._picture(page, f"{name}-{scheme}-{width}")

    def draw(self, html: str, name: str) -> None:
        """Pictures of a message, light and dark."""
        for scheme in ("light", "dark"):
            page = self.site.browser.new_page(viewport={"width": 700, "height": 500})
            page.emulate_media(color_scheme=scheme)
            page.set_content(html)
            self._picture(page, f"{name}-{scheme}")

    def _picture(self, page: Page, name: str) -> None:
        page.screenshot(path=f"{self.site.out}/{name}.png", full_page=True)
        page.close()


def live(site: Site) -> Told:
    """The whole day."""
    told = Told(site)
    site.move_to(at("07:58"))
    _set_up_by_hand(told)
    for part in (_morning, _node, _quiet_hours, _budget, _silence, _cap, _next_day):
        part(told)
    draw_all(told)
    return told


def _set_up_by_hand(told: Told) -> None:
    """What people set themselves, on their pages."""
    site = told.site
    _fill(site, "priya", "/me", "hear", time_zone="Europe/Berlin", daily_cap="2")
    quiet = {"quiet_from": "11:00", "quiet_until": "12:00", "time_zone": "UTC"}
    _fill(site, "amara", "/me", "hear", **quiet)
    idle = told.addresses["rule"] = _rule_address(site, "Job idle")
    _fill(site, "otto", idle, "tell", escalate_minutes="60")


def _morning(told: Told) -> None:
    """Priya's job rests from 8:00 and she acknowledges; Jonas' rests from 8:10 and he does not."""
    site = told.site
    told.until("08:10", "08:20", "08:28")
    told.until("08:33")
    mine = told.moments["08:33"].message(PEOPLE["priya"].direct, "idle")
    told.answers["stranger"] = site.click("U0NOBODY", mine, "ack")
    told.answers["forged"] = site.post_click("U0PRIYA", "ack", "group/1", secret="notours")
    told.answers["priya"] = site.click("U0PRIYA", mine, "ack")
    told.work("acknowledged")
    told.until("08:44")
    told.until("08:55", "09:05")  # the weekly digests
    told.until("09:15")  # her job works again
    told.until("09:30", "09:46")  # Jonas again
    for who in PEOPLE:
        told.read(who, "/alerts", f"{who} alerts 09:46")


def _node(told: Told) -> None:
    """A node falls silent at 10:00, eight idle GPUs on it, and is back at 10:40."""
    site = told.site
    told.until("09:50", "10:00")
    [silent] = [each for each in site.nodes if each.name == "l40s-05"]
    silent.is_heard = False
    told.until("10:06", "10:12")
    site.alertmanager.told(1)
    told.keep("10:12")
    told.addresses["silent"] = told.open_incident("otto", "silent")
    told.see("otto", "/alerts", "alerts-1012")
    told.until("10:25", "10:38")
    silent.is_heard = True
    told.until("10:41")
    site.alertmanager.told(2)
    told.keep("10:41")
    told.until("10:50")  # Jonas' team


def _quiet_hours(told: Told) -> None:
    """Amara's job rests from 10:40; from 11:00 to 12:00 she wants to hear nothing."""
    told.until("11:02", "11:14")
    told.until("11:30", "11:45", "11:55")  # Jonas' job: the operators
    told.until("12:02")
    told.until("12:15", "12:35")  # his job is over
    told.until("12:50", "13:05")  # and hers


def _budget(told: Told) -> None:
    """Fiona gives nlp a month's budget of which 79 % are spent; soon 80 are."""
    site = told.site
    amount = round(site.do("spent", team="nlp") / 0.79)
    _fill(site, "fiona", "/budgets", "budget", team="nlp", amount=str(amount), currency="USD")
    told.until("13:20")
    told.keep("budget set")
    told.until("14:02")


def _silence(told: Told) -> None:
    """Amara wants nobody to hear of her team's idle jobs for four hours; Jonas' job rests from 14:00."""
    site = told.site
    words = {"label-0": "team", "values-0": "nlp", "label-1": "rule", "values-1": "Job idle"}
    _fill(site, "amara", "/alerts/silences", "silence", **words, reason="a deadline on Friday")
    told.until("14:15", "14:34")
    told.addresses["silenced"] = told.open_incident("jonas", "h100-04")
    told.read("jonas", "/alerts", "jonas alerts 14:34")


def _cap(told: Told) -> None:
    """Two more of Priya's jobs rest; more than two messages a day she does not want."""
    site = told.site
    told.until("14:50", "15:05", "15:20", "15:34")
    told.until("15:44")
    address = told.open_incident("priya", "h100-07")
    page = site.page("priya")
    page.goto(site.hub.url + address)
    page.get_by_role("button", name="Acknowledge").click()
    told.pages["priya acknowledged"] = page.inner_text("main")
    page.close()
    told.until("16:02")


def _next_day(told: Told) -> None:
    """Night, and Tuesday's breakfast in Berlin, 07:00 UTC."""
    told.until("18:30")
    told.until("00:25", "06:20", "06:50", day=1)
    told.until("07:03", day=1)
    for who in PEOPLE:
        told.read(who, "/me", f"{who} me")


def draw_all(told: Told) -> None:
    """Pictures of what people got and see at the end, where they are wanted."""
    if told.site.out is None:
        return
    priya = PEOPLE["priya"].direct
    for name in ("08:33", "acknowledged", "09:15"):
        message = told.moments[name].message(priya, "h100-01")
        told.draw(slack_page([message]), f"slack-priya-{name.replace(':', '')}")
    last = told.moments["Tuesday 07:03"]
    for place in (priya, PEOPLE["jonas"].direct, *CHANNELS):
        told.draw(slack_page(last.all(place)), f"slack-all-{place}")
    for number, mail in enumerate(last.mails):
        told.draw(mail_page(mail), f"mail-{number}")
    told.see("otto", "/alerts", "alerts")
    told.see("otto", f"{told.addresses['rule']}?days=7", "rule")
    told.see("priya", "/me", "me")
    told.see("otto", told.addresses["silent"], "incident")


def _rule_address(site: Site, name: str) -> str:
    page = site.page("otto")
    page.goto(f"{site.hub.url}/alerts/rules")
    page.click(f"a:text-is('{name}')")
    page.wait_for_url("**/alerts/rules/*")
    address = page.url.removeprefix(site.hub.url)
    page.close()
    return address


def _fill(site: Site, who: str, path: str, form: str, **fields: str) -> None:
    """Fills in the form, whose fields begin with its name, and sends it."""
    page = site.page(who)
    page.goto(site.hub.url + path)
    for name, value in fields.items():
        _enter(page, f"form:has([id^={form}-]) [name='{name}']", value)
    page.locator(f"form:has([id^={form}-])").get_by_role("button").last.click()
    page.wait_for_load_state()
    assert not page.query_selector("[role=alert].error"), page.inner_text("main")
    page.close()


def _enter(page: Page, where: str, value: str) -> None:
    box = page.locator(where).first
    if not box.is_visible():
        box.locator("xpath=ancestor::details[1]/summary").click()
    if box.evaluate("each => each.tagName") == "SELECT":
        box.select_option(value)
    else:
        box.fill(value)

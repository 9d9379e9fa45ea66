"""What a digest's mail names, each with its page: what could save most, every team, and of a team
its people. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from urllib.parse import quote

from fleetwatch.figures import pricing
from fleetwatch.notify import wording
from fleetwatch.notify.message import Item, Listing, one_line
from fleetwatch.reports.statement import Shape

CAUSES = "What could save most"
TEAMS = "Teams"
PEOPLE = "People"
MAX_TEAMS = 25  # in a mail; its page has all
MAX_PEOPLE = 10
WEEKS_PER_MONTH = Decimal(30) / 7  # as of findings and causes: a month is 30 days


def could_save(causes: Sequence[Shape]) -> str:
    """What those that are listed could have saved of the week, and in a month of such weeks, as a
    sentence before another; "" where they could save nothing.
    """
    low_usd, high_usd = (
        pricing.exact_sum(Decimal(each[end]) for each in causes) for end in ("low_usd", "high_usd")
    )
    if not high_usd:
        return ""
    count = len(set(map(_fix_of, causes)))
    fixes = "The fix" if count == 1 else f"The {count} fixes"
    of_month = wording.between(low_usd * WEEKS_PER_MONTH, high_usd * WEEKS_PER_MONTH)
    of_week = wording.between(low_usd, high_usd)
    return f"{fixes} below could have saved {of_week}, {of_month} in a month of such weeks. "


def by_step(causes: Iterable[Shape]) -> list[list[Shape]]:
    """The causes that the same step helps together, those first that could save most in sum (by the
    middle of what they could); within a step in their order.
    """
    steps: dict[str, list[Shape]] = defaultdict(list)
    for cause in causes:
        steps[cause["step"]].append(cause)
    return sorted(steps.values(), key=lambda several: -sum(map(_both_ends, several)))


def _both_ends(cause: Shape) -> Decimal:
    """Twice the middle of what it could save: enough to sort by."""
    return Decimal(cause["low_usd"]) + Decimal(cause["high_usd"])


def lists(
    causes: Sequence[Shape],
    teams: Sequence[Shape],
    people: Sequence[Shape],
    *,
    is_own: bool,
    url: str,
    base: str,
) -> Iterator[Listing]:
    """Those of a digest whose page is at `url`, and other pages below `base`; `is_own`: all of it
    is its reader's, and no owner is told.
    """
    if causes:
        yield Listing(CAUSES, tuple(_of_causes(causes, base, is_own=is_own)))
    if teams:
        yield Listing(TEAMS, tuple(_of_teams(teams, url, base)))
    if people:
        yield Listing(PEOPLE, tuple(_of_people(people, url, base)))


def _of_causes(causes: Sequence[Shape], base: str, *, is_own: bool) -> Iterator[Item]:
    """Each; a fix that helps several stands with the first of them."""
    first_of: dict[tuple[str, str], str] = {}
    for cause in causes:
        name = one_line(cause["name"], 60)
        first = first_of.get(_fix_of(cause))
        item = _of_cause(cause, base, is_own=is_own)
        if cause["step"] and first is not None:
            yield replace(item, text=f"The same fix as of {first}, above.", code="")
        else:
            yield item
        first_of.setdefault(_fix_of(cause), name)


def _fix_of(cause: Shape) -> tuple[str, str]:
    """What tells fixes apart: the step, and what to type."""
    return cause["step"], cause["command"]


def _of_cause(cause: Shape, base: str, *, is_own: bool) -> Item:
    """What was wasted; of a job that is over the fix is for its next run."""
    name = one_line(cause["name"], 60)
    key = one_line(cause.get("job", ""), 100)
    owner = "" if is_own else one_line(cause["owner"], 60)
    finding = cause.get("finding")
    of_next = "For its next run: " if cause.get("is_over") else ""
    return Item(
        title=name,
        url=_page_of(cause, base),
        value=wording.between(cause["low_usd"], cause["high_usd"]),
        about=", ".join(filter(None, (key if key != name else "", owner))),
        cause=cause["title"],
        cause_url=f"{base}/findings/{finding}" if finding else "",
        text=f"{of_next}{one_line(cause['step'], 300)}",
        code=one_line(cause["command"], 500),
    )


def _page_of(cause: Shape, base: str) -> str:
    """Of the job, or the node; "" of what has none."""
    if cause.get("job"):
        return f"{base}/jobs/{quote(cause['job'])}"
    return f"{base}/nodes/{quote(cause['node'], safe='')}" if cause.get("node") else ""


def _of_teams(teams: Sequence[Shape], url: str, base: str) -> Iterator[Item]:
    """The dearest first, then what the others spent together, and the total."""
    for team in teams[:MAX_TEAMS]:
        has_page = team.get("is_team", False)
        page = f"{base}/teams/{quote(team['slug'])}" if has_page else ""
        wasted = f"{wording.usd(Decimal(team['wasted_usd']))} wasted"
        yield Item(
            one_line(team["name"], 60), page, wording.usd(Decimal(team["cost_usd"])), about=wasted
        )
    left = teams[MAX_TEAMS:]
    if left:
        yield _together(f"and {len(left)} more", url, left)
    if len(teams) > 1:
        yield _together("Total", "", teams)


def _of_people(people: Sequence[Shape], url: str, base: str) -> Iterator[Item]:
    """Who wasted most first, then what the others spent together: the amount is what was spent, as
    of teams.
    """
    for person in people[:MAX_PEOPLE]:
        wasted = Decimal(person["wasted_usd"])
        yield Item(
            one_line(person["name"], 60),
            f"{base}{person['page']}" if person["page"] else "",
            wording.usd(Decimal(person["cost_usd"])),
            about=f"{wording.usd(wasted)} wasted",
        )
    left = people[MAX_PEOPLE:]
    if left:
        yield _together(f"and {len(left)} more", url, left)


def _together(title: str, url: str, several: Sequence[Shape]) -> Item:
    """What these spent, and wasted of it."""
    cost_usd, wasted_usd = (
        pricing.exact_sum(Decimal(each[name]) for each in several)
        for name in ("cost_usd", "wasted_usd")
    )
    return Item(title, url, wording.usd(cost_usd), about=f"{wording.usd(wasted_usd)} wasted")

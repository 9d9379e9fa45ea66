"""What is wrong with one subject, and the record of a condition that looks for it. Each file of
conditions/ makes one. Pure.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import msgspec

from fleetwatch.alerts.episodes import Episode, Firing, Measured, Timing
from fleetwatch.figures import pricing
from fleetwatch.figures.totals import ZERO
from fleetwatch.lib import rounding
from fleetwatch.lib.intervals import MINUTE_MS
from fleetwatch.notify.message import one_line

Line = tuple[str, str]  # a label and its value

TIME_LIMIT = "label.time_limit_minutes"
SPELLS = "Idle"  # the line that says how much of the time it was so
OF_PARTS = (SPELLS, "Stalled", "Underused")  # and those of other conditions that say that
BELOW = "below"  # the threshold, where a breach is over
ABOVE = "above"
# agents flush each 30 s and posting follows within two minutes: beyond this nothing is coming in
STALE_MS = 10 * MINUTE_MS
# kinds of subjects: what somebody owns, and what is a team's; of all else operators are told
OF_OWNERS = ("job", "person", "finding")
OF_TEAMS = ("team", "budget", "series")


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One subject breaches a rule over [since_ms, until_ms), event time: until_ms is where what is
    known of it ends.

    `kind` and `subject` are its page: of a job, its key. Told to people are `word` ("idle"), `tag`
    ("idle"), `title`, `where`, `what` it did ("2 of 8 GPUs of job 7 did nothing"), what it `does`
    while it goes on ("": as `what` says) and what it `has` done so far, before a length (the same),
    what they `had` been when it is over, whether that was so `during` all of its time ("for") or
    some of it ("within"), and the rule's `limit`; all of it on one line, for names come from hosts.
    `several` is what a number of such are ("": the `word`). `lines` are what was measured,
    `actions` what to do, `command` what people can copy of that ("": nothing), `codes` commands
    that several of them end with, `finding_id` the finding that says so (None: none). Dollars are
    None where a GPU has no rate; `counted_until_ms` is until when they are counted, of what costs
    as much each hour while it goes on (None: it does not).
    `labels` are what scopes, silences and routes match (MATCHED). `facts` are the condition's own,
    told by the API.
    """

    subject: str
    kind: str
    since_ms: int
    until_ms: int
    word: str
    tag: str
    title: str
    where: str
    what: str
    had: str
    limit: str
    does: str = ""
    has: str = ""
    several: str = ""
    during: str = "for"
    name: str = ""
    address: str = ""  # of its page, where kind and subject do not say it
    owner: str = ""  # "" = nobody known
    has_cost: bool = True  # False: no dollars are told
    usd_per_hour: Decimal | None = None
    cost_usd: Decimal | None = None
    counted_until_ms: int | None = None
    has_example_rates: bool = False
    memory_bytes: float | None = None  # that is held meanwhile; None = not read
    lines: tuple[Line, ...] = ()
    actions: tuple[str, ...] = ()
    command: str = ""
    codes: tuple[str, ...] = ()
    finding_id: int | None = None
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def judged_until(self, judged_ms: int) -> "Breach":
        """The same with its figures until it was judged last, and not a moment later: what is newer
        may turn out to be work. Dollars of what does not cost as much each hour stay as they are,
        and so does the moment until which they are.
        """
        if self.has_cost and self.counted_until_ms is None:
            return self
        until_ms = max(self.until_ms, judged_ms)
        return replace(self, until_ms=until_ms, cost_usd=self._cost_at(until_ms))

    def _cost_at(self, judged_ms: int) -> Decimal | None:
        """Dollars until then; as they were counted where an hour's are not known."""
        if None in (self.cost_usd, self.usd_per_hour, self.counted_until_ms):
            return self.cost_usd
        more_ms = max(0, judged_ms - (self.counted_until_ms or 0))
        return pricing.usd((self.cost_usd or ZERO) + pricing.price([(more_ms, self.usd_per_hour)]))

    @property
    def so_far(self) -> str:
        """What goes on, or did, as it is said before a length of time."""
        return self.has or self.what

    @property
    def agreed_usd(self) -> Decimal | None:
        """What beside its dollars people agreed as not waste; None where that is nothing."""
        agreed = self.facts.get("agreed_usd")
        return None if agreed is None else Decimal(agreed)

    @property
    def is_limited(self) -> bool:
        """Whether it is of a job that its scheduler ends at a time: it burns for no month."""
        return self.kind == "job" and bool(self.labels.get(TIME_LIMIT))

    @property
    def over_budget_usd(self) -> Decimal | None:
        """What is spent, or expected, beyond the budget; None where it is none of a budget, or
        within it.
        """
        spent = self.facts.get("spent_usd") or self.facts.get("expected_usd")
        if spent is None or "budget_usd" not in self.facts:
            return None
        budget = Decimal(self.facts["budget_usd"])
        over = Decimal(spent) - budget
        if self.is_expected:
            # as it is said: so it, what is expected and the budget are one sum
            rounded = rounding.rounded_about(Decimal(spent)) - budget
            over = rounded if over > 0 and rounded > 0 else over
        return over if over > 0 else None

    @property
    def passed_ms(self) -> int | None:
        """Since when all of the budget is spent; None where it is not, or of no budget."""
        passed_ms = self.facts.get("passed_ms")
        return None if passed_ms is None else int(passed_ms)

    @property
    def is_expected(self) -> bool:
        """Whether it is a forecast that is beyond the budget."""
        return "expected_usd" in self.facts

    @property
    def left_usd(self) -> Decimal | None:
        """What is left of the budget, 0 where it is spent; None where it says nothing of that."""
        spent = self.facts.get("spent_usd")
        if spent is None or self.budget_usd is None:
            return None
        return max(self.budget_usd - Decimal(spent), Decimal(0))

    @property
    def spent_until_ms(self) -> int | None:
        """Until when it is counted what of the budget is spent; None where that is not known."""
        until_ms = self.facts.get("spent_until_ms")
        return None if until_ms is None else int(until_ms)

    @property
    def budget_usd(self) -> Decimal | None:
        """The budget; None where it is none of a budget."""
        budget = self.facts.get("budget_usd")
        return None if budget is None else Decimal(budget)

    @property
    def spells(self) -> str:
        """How much of its time it was so, in words; "" where it was so all of it."""
        label = self.word.capitalize()
        return dict(self.lines).get(label, "") if label in OF_PARTS else ""

    @property
    def lasting(self) -> str:
        """What its length is called, on pages and in messages, while it goes on and after; of what
        was so for a share of the time alone that it was so in part.
        """
        is_share = bool(self.spells) and self.word.capitalize() != SPELLS
        return f"{'partly ' * is_share}{self.word} for"

    @property
    def path(self) -> str:
        """The address of its page."""
        return self.address or f"/{self.kind}s/{quote(self.subject)}"

    def label(self, name: str) -> str:
        """The label where it has one value; "" where it has none or several."""
        values = self.labels.get(name, ())
        return values[0] if len(values) == 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What is summed and narrowed by of one subject's breach, as Breach has it; of the labels those
    that were asked for.
    """

    owner: str
    cost_usd: Decimal | None
    labels: Mapping[str, tuple[str, ...]]


def named(subject: str, name: str) -> str:
    """The subject as messages call it, with its name where it has one; both come from hosts."""
    key = one_line(subject, 100)
    called = one_line(name, 60)
    return f"{key} “{called}”" if called else key


def stored_breach(stored: Mapping[str, Any]) -> Breach:
    """The breach that was kept as plain data (msgspec.to_builtins) in the Incident's row."""
    return msgspec.convert(stored, Breach)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a rule is set: its threshold in the condition's unit, and how long that must be so.

    `clear` is the value at which a breach is over (hysteresis); None: as soon as it is no longer at
    the threshold. `min_coverage` is a share of 0 to 1 (0 not included).
    """

    threshold: float
    minutes: float
    clear: float | None = None
    min_coverage: float = 0.5
    grace_minutes: float = 0
    clear_minutes: float = 0

    @property
    def clear_at(self) -> float:
        """The value at which a breach is over."""
        return self.threshold if self.clear is None else self.clear

    @property
    def timing(self) -> Timing:
        """The same in milliseconds."""
        return Timing(
            duration_ms=int(self.minutes * MINUTE_MS),
            min_coverage=self.min_coverage,
            grace_ms=int(self.grace_minutes * MINUTE_MS),
            clear_ms=int(self.clear_minutes * MINUTE_MS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What a condition is asked: these settings, over [start_ms, end_ms); and in any case of the
    subjects that fire already. `looks_on_ms`: for how long after each breach what its subject did
    is asked, though the settings need less.
    """

    settings: Settings
    start_ms: int
    end_ms: int
    firing: Mapping[str, Firing] = field(default_factory=dict)
    looks_on_ms: int = 0


@dataclass(frozen=True, slots=True)
class Highest:
    """The highest value that one subject had for as long as a rule asks, and that time of it."""

    episode: Episode
    value: float


# of episodes, a period, and names of labels
Weigh = Callable[[Sequence[Episode], Watch, Collection[str]], list[Weight | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What a rule can watch for.

    `measure` reads how each subject stood to the rule over a period; `describe` makes a breach of
    each of some episodes that follow from it, None of a subject that is gone. `weigh` says of
    thousands of them what describe() would, without the words, and of labels these alone; None:
    describe() is as quick. `highest` says of each subject what it had at most for as long as the
    rule asks, the highest first; None: nobody can say.
    `sentence` says what the rule does, its settings filled in ({threshold}, {minutes}). `unit` is
    its threshold's, which is from `low` to `high`; "": it has none. `clears`: on which side of that
    the value may lie at which a breach is over, BELOW or ABOVE; "": it has no such value. `usual`
    is how it ships, and `is_on` whether it is switched on. `no_history`: why it can't be tried on
    history. `speaks_for`: labels; while an incident of it fires other rules tell nobody of what has
    of such a label only values of its. `is_held`: of GPUs that somebody holds. `renewed_at` gives
    when people changed last what it measures: that is measured at once (None: they never).
    `being` is what its subjects are in breach, as in "it stopped being idle" ("": no such word);
    `covers` what the dollars of its incidents are of, `state` the ledger's that its subjects' GPU
    time is in meanwhile ("": it is about none), `severities` which of its incidents are of another
    severity than the rule's ("": none). `judged_ms`: for how long after its time what it measures
    may be judged; what is known by then is not late.
    """

    name: str
    label: str
    sentence: str
    kind: str
    unit: str
    low: float
    high: float
    usual: Settings
    measure: Callable[[Watch], Measured]
    describe: Callable[[Sequence[Episode], Watch], list[Breach | None]]
    weigh: Weigh | None = None
    highest: Callable[[Watch], list[Highest]] | None = None
    clears: str = ""
    is_on: bool = False
    severity: str = "warning"
    every_minutes: int = 1
    no_history: str = ""
    speaks_for: tuple[str, ...] = ()
    is_held: bool = False
    renewed_at: Callable[[], datetime | None] | None = None
    being: str = ""
    covers: str = "its GPUs' time"
    state: str = ""
    severities: str = ""
    judged_ms: int = 0

    @property
    def hears_first(self) -> str:
        """Who hears first of what it finds, in words."""
        if self.is_of_teams:
            return "the team's channels, or the operators'"
        return "the owner, where there is one" if self.is_owned else "the operators' channels"

    @property
    def is_of_teams(self) -> bool:
        """Whether it is a team's, which nobody in it owns."""
        return self.kind in OF_TEAMS

    @property
    def is_owned(self) -> bool:
        """Whether what it finds has an owner, who is told in person; else it is a team's, or the
        operators'.
        """
        return self.kind in OF_OWNERS or self.is_held

    @property
    def is_of_budgets(self) -> bool:
        """Whether it is of a month's dollars: nobody owns them, no telemetry of them is missing."""
        return self.kind == "budget"

    def in_words(self, settings: Settings) -> str:
        """What a rule that is set so does, in a sentence."""
        lasting = self.sentence.replace("{minutes} minutes", lasted(settings.minutes))
        if settings.threshold == 1:
            lasting = lasting.replace("{threshold} times or more", "at least once")
        return lasting.format(threshold=f"{settings.threshold:g}", minutes=f"{settings.minutes:g}")


def lasted(minutes: float) -> str:
    """ "30 minutes", and of whole hours from two on "6 hours", of whole days "2 days"."""
    for unit, name in ((24 * 60, "days"), (60, "hours")):
        if minutes >= 2 * unit and minutes % unit == 0:
            return f"{minutes / unit:g} {name}"
    return f"{minutes:g} minutes"

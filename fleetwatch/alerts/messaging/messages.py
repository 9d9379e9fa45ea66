"""Incidents in words: a group of them as one message, while something is wrong and when it is over.
Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from operator import itemgetter
from zoneinfo import ZoneInfo

from fleetwatch.alerts.breach import Breach, Line, lasted
from fleetwatch.alerts.measuring.cause_words import (
    FIX,
    LIKELY,
    NO_CAUSE,
    NO_CAUSE_OF_SEVERAL,
    OF_SEVERAL,
)
from fleetwatch.alerts.messaging.closings import (
    Closing,
    closing,
    ending,
    of_action,
    what_to_do,
)
from fleetwatch.alerts.messaging.subject_words import (
    about,
    called,
    kind_heading,
    kind_word,
    length_of,
    of_owner,
    owner_line,
    owner_sentence,
)
from fleetwatch.alerts.stopped_words import GAP, STOPPED
from fleetwatch.lib.intervals import MINUTE_MS, clock_ms, from_ms, to_ms
from fleetwatch.notify import wording
from fleetwatch.notify.message import Button, Message, one_line

HOURS_PER_MONTH = 730  # 8760 / 12
SHOWN = 10  # of a group, a line each
CAUSES = 3  # of a group, a line each
MAX_LABELS = 40  # a job may have any number of its own
NOTED_LATE_MS = 10 * MINUTE_MS  # after it was over: the message says when it was noted


@dataclass(frozen=True, slots=True)
class Case:
    """One incident, as far as messages speak of it; `resolution` is empty while it goes on.
    `status`: what people made of it.
    """

    id: int
    breach: Breach
    note: str
    resolution: str
    status: str = ""
    is_acknowledged: bool = False
    snoozed_until: datetime | None = None
    resolved_at: datetime | None = None
    clear_minutes: float = 0  # for how long it has to be over, by its rule
    late: str = ""  # why it was opened long after its limit was reached, in words


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for every message of an evaluation; `base` is where our pages are, and
    `leads_to_budgets` whether all who read it may open those of its budget. `escalated`: since when
    nobody acknowledged it and who was asked, of what is told to the next ones for that ("": not).
    """

    rule_name: str
    severity: str
    zone: ZoneInfo
    now: datetime
    base: str
    leads_to_budgets: bool = True
    escalated: str = ""

    def clock(self, at_ms: int) -> str:
        """A moment as these people read it."""
        return wording.moment(from_ms(at_ms), self.zone, now=self.now)


def reminder(cases: Sequence[Case], setting: Setting) -> Message:
    """That the group still goes on, below what was said of it before."""
    now = of_group(cases, setting)
    return replace(now, title=f"still {now.title}", is_reply=True)


def several_groups(groups: Sequence[Sequence[Case]], setting: Setting) -> Message:
    """What was kept from a person for a while, in one message: a line for each group."""
    rows = [_group_row(cases, setting) for cases in groups[:SHOWN]]
    rest = len(groups) - SHOWN
    return Message(
        title=f"{len(groups)} things that happened meanwhile",
        summary="They were kept for you: it was your quiet time, or too much for a day.",
        rows=(("What", "Since", "So far"), *rows),
        url=f"{setting.base}/alerts",
        severity="info",
        text="\n".join(_more(rest)),
    )


def of_group(cases: Sequence[Case], setting: Setting) -> Message:
    """What goes on of the group; where nothing does, that it is over."""
    message = _in_words(cases, setting)
    breaches = [case.breach for case in cases]
    return replace(
        _escalated(message, setting) if setting.escalated else message,
        status=_status(cases),
        labels=_labels(breaches, setting),
        since_ms=min(breach.since_ms for breach in breaches),
        settings_url=f"{setting.base}/alerts/routes",
        field_urls=_field_urls(breaches[0], setting) if len(cases) == 1 else (),
    )


def _escalated(message: Message, setting: Setting) -> Message:
    """That it is told to the next ones, and why."""
    return replace(
        message,
        title=f"escalated · {message.title}",
        summary=f"Escalated: {setting.escalated}. {message.summary}",
    )


def _field_urls(breach: Breach, setting: Setting) -> tuple[Line, ...]:
    """The pages of what its lines name: of whom it is about, and of its finding."""
    if breach.kind not in ("job", "gpu"):
        return ()
    subject = (kind_heading(breach), f"{setting.base}{breach.path}")
    if breach.finding_id is None:
        return (subject,)
    return subject, (LIKELY, f"{setting.base}/findings/{breach.finding_id}")


def _in_words(cases: Sequence[Case], setting: Setting) -> Message:
    going_on = [case for case in cases if not case.resolution]
    if not going_on:
        return _resolved(cases[-1], setting) if len(cases) == 1 else _all_resolved(cases, setting)
    return _opened(going_on[0], setting) if len(going_on) == 1 else _several(going_on, setting)


def _status(cases: Sequence[Case]) -> str:
    """Resolved once all are; acknowledged while what goes on is, all of it."""
    going_on = [case for case in cases if not case.resolution]
    if not going_on:
        return "resolved"
    return "acknowledged" if all(case.is_acknowledged for case in going_on) else "firing"


def _labels(breaches: Sequence[Breach], setting: Setting) -> tuple[Line, ...]:
    """What programs route by: the rule, its severity, and the labels that all of them share."""
    own = {"rule": setting.rule_name, "severity": setting.severity}
    shared = {
        name: breaches[0].label(name)
        for name in sorted(breaches[0].labels)
        if name not in own and len({breach.labels.get(name) for breach in breaches}) == 1
    }
    labels = [*own.items(), *((name, value) for name, value in shared.items() if value)]
    return tuple((one_line(name, 100), one_line(value)) for name, value in labels[:MAX_LABELS])


def _opened(case: Case, setting: Setting) -> Message:
    """Something is wrong: who, where, since when, what it costs, what to do."""
    breach = case.breach
    since = setting.clock(breach.since_ms)
    length = length_of(breach)
    notes = (case.status, case.note, _example_note([breach]))
    message = Message(
        title=_title(breach, f"{since} ({length})"),
        summary=f"{_so_far(breach)} {length}{_passed(breach)}.{owner_sentence(breach)}",
        fields=_of_opened(case, setting),
        url=_url(case, setting),
        severity=setting.severity,
        buttons=_buttons([case], setting),
    )
    return ending(message, [*map(closing, filter(None, notes)), *what_to_do(breach)])


def _of_opened(case: Case, setting: Setting) -> tuple[Line, ...]:
    breach = case.breach
    return (
        *about(breach),
        _lasting(case, setting),
        *_opened_late(case),
        *breach.lines,
        *_dollars([breach]),
        *_severity(breach, setting),
        _rule(breach, setting),
    )


def _lasting(case: Case, setting: Setting) -> Line:
    """For how long it is or was so, as its page calls it, and when."""
    breach = case.breach
    begin = setting.clock(breach.since_ms)
    end = setting.clock(breach.until_ms)
    if case.resolution or case.note.startswith((STOPPED, GAP)):
        when = f"{begin} to {end}"
    elif breach.kind == "budget":
        when = f"since {begin}"
    else:
        when = f"since {begin}, judged until {end}"
    return breach.lasting.capitalize(), f"{length_of(breach)}, {when}"


def _opened_late(case: Case) -> tuple[Line, ...]:
    return (("Opened late", case.late),) if case.late else ()


def _title(breach: Breach, since: str) -> str:
    """Of a budget that is passed its own title says since when."""
    return breach.title if breach.passed_ms else f"{breach.title} · since {since}"


def _so_far(breach: Breach) -> str:
    """What has gone on, before its length."""
    during = "in the last" if breach.during == "within" else breach.during
    return f"{breach.so_far} {during}"


def _passed(breach: Breach) -> str:
    """Of a budget that is passed by how much, and for how long it is."""
    if breach.passed_ms is None:
        return ""
    length = wording.duration(clock_ms(breach.passed_ms, breach.until_ms))
    return f", and over all of it for {length}, by {wording.usd(breach.over_budget_usd)}"


def _several(cases: Sequence[Case], setting: Setting) -> Message:
    """Several subjects at once: one line each, the longest first."""
    breaches = sorted((case.breach for case in cases), key=lambda breach: breach.since_ms)
    first = breaches[0]
    count = f"{len(cases)} {kind_word(first)}s"
    message = Message(
        title=f"{_several_are(first)} · {count}{of_owner(first)} on {first.label('node')}",
        summary=f"{count} have been {_several_are(first)}, the longest for {length_of(first)}.",
        fields=_in_all(breaches, setting),
        rows=_rows(breaches, setting),
        url=_url(cases[0], setting),
        severity=setting.severity,
        buttons=_buttons(cases, setting),
    )
    return ending(message, [*_statuses(cases), *_causes(breaches), *_notes(breaches)])


def _notes(breaches: Sequence[Breach]) -> list[Closing]:
    """What its dollars rest on, how many more there are, and what its buttons act on."""
    count = len(breaches)
    lines = [_example_note(breaches), *_more(count - SHOWN), _acts_on(count, breaches[0])]
    return [closing(each) for each in lines if each]


def _acts_on(count: int, first: Breach) -> str:
    """Of how many incidents a button of a message of several is."""
    where = called(first)
    return (
        f"Buttons that act do so on {wording.all_of(count)} of them; those that open a page open"
        f" the first one's, {where}."
    )


def _several_are(breach: Breach) -> str:
    return breach.several or breach.word


def _statuses(cases: Sequence[Case]) -> list[Closing]:
    return [closing(each) for each in dict.fromkeys(case.status for case in cases) if each]


def _more(rest: int) -> list[str]:
    return [f"{rest} more are on the page."] if rest > 0 else []


def _group_row(cases: Sequence[Case], setting: Setting) -> tuple[str, ...]:
    message = of_group(cases, setting)
    cost = _sum(case.breach.cost_usd for case in cases)
    since_ms = min(case.breach.since_ms for case in cases)
    return message.title, setting.clock(since_ms), wording.usd(cost)


def _buttons(cases: Sequence[Case], setting: Setting) -> tuple[Button, ...]:
    """What can still be done about it, here or on its page."""
    url = _url(cases[0], setting)
    is_open = not all(case.is_acknowledged for case in cases)
    ack = (Button("Ack", "ack", url, "primary"),) if is_open else ()
    is_job = cases[0].breach.kind == "job"
    of_jobs = (Button("Not waste", "not_waste", url),) if is_job else ()
    return (
        *ack,
        _snooze_button(cases[0], setting),
        *of_jobs,
        *_over_button(cases[0], url),
        *_budget_pages(cases[0].breach, setting),
        Button("Open in FleetWatch", "open", url),
    )


def _budget_pages(breach: Breach, setting: Setting) -> tuple[Button, ...]:
    """Of a budget what spends most of it, and where it is raised; nobody is led to where he may not
    go.
    """
    if breach.kind != "budget" or not setting.leads_to_budgets:
        return ()
    spending = breach.facts.get("spending_path")
    most = (Button("See what spends most", "spending", f"{setting.base}{spending}"),)
    page = f"{setting.base}{breach.path}"
    return (*(most if spending else ()), Button("The budget", "budget", page))


def _severity(breach: Breach, setting: Setting) -> tuple[Line, ...]:
    """Of a budget, whose severity is not its rule's alone: it rises once all of it is spent."""
    return (("Severity", setting.severity),) if breach.kind == "budget" else ()


def _over_button(case: Case, url: str) -> tuple[Button, ...]:
    """What says that it is mended: of a budget nobody can say so, its page resolves it by hand."""
    return () if case.breach.kind == "budget" else (Button("Resolve", "fixed", url),)


def _snooze_button(case: Case, setting: Setting) -> Button:
    is_snoozed = case.snoozed_until is not None and case.snoozed_until > setting.now
    text, action = ("End snooze", "unsnooze") if is_snoozed else ("Snooze 4 h", "snooze")
    return Button(text, action, _url(case, setting))


def _in_all(breaches: Sequence[Breach], setting: Setting) -> tuple[Line, ...]:
    return (
        *owner_line(breaches[0]),
        *_dollars(breaches),
        _rule(breaches[0], setting),
    )


def _dollars(breaches: Sequence[Breach]) -> tuple[Line, ...]:
    """What they cost so far and go on to cost; none of what costs nothing."""
    if not breaches[0].has_cost:
        return ()
    return (
        ("So far", wording.usd(_sum(breach.cost_usd for breach in breaches))),
        ("Burning", _burning(breaches)),
    )


def _rows(breaches: Sequence[Breach], setting: Setting) -> tuple[tuple[str, ...], ...]:
    head = (kind_heading(breaches[0]), "Since", "So far")
    return head, *(_row(breach, setting) for breach in breaches[:SHOWN])


def _row(breach: Breach, setting: Setting) -> tuple[str, ...]:
    since = setting.clock(breach.since_ms)
    return called(breach), since, wording.usd(breach.cost_usd)


def _resolved(case: Case, setting: Setting) -> Message:
    """It is over: why, how long it took and what it cost."""
    breach = case.breach
    cost = _cost([breach])
    length = length_of(breach)
    subject = breach.where if breach.kind == "gpu" else f"{kind_heading(breach)} {called(breach)}"
    message = Message(
        title=f"resolved · {breach.where} · {breach.lasting} {length}{cost}",
        summary=f"{subject}: {case.resolution}. {breach.had} {breach.during} {length}.",
        fields=_of_resolved(case, setting),
        url=_url(case, setting),
        severity="resolved",
        buttons=_budget_pages(breach, setting),
    )
    return ending(message, [*_prices([breach]), *_next_time(breach)])


def _of_resolved(case: Case, setting: Setting) -> tuple[Line, ...]:
    breach = case.breach
    return (
        *about(breach),
        _lasting(case, setting),
        *_spells(breach),
        *_noted(case, setting),
        *_likely(breach),
        *_costs([breach]),
        _rule(breach, setting),
    )


def _spells(breach: Breach) -> tuple[Line, ...]:
    """How much of that it was so, where it was not all of it."""
    return ((breach.word.capitalize(), breach.spells),) if breach.spells else ()


def _noted(case: Case, setting: Setting) -> tuple[Line, ...]:
    """When it was resolved, where that was long after it was over, and what its rule waits for."""
    at = case.resolved_at
    if at is None or to_ms(at) - case.breach.until_ms < NOTED_LATE_MS:
        return ()
    waits = f"; its rule resolves what was over for {lasted(case.clear_minutes)}"
    return (("Resolved", f"{setting.clock(to_ms(at))}{waits if case.clear_minutes else ''}"),)


def _likely(breach: Breach) -> tuple[Line, ...]:
    """What it likely is, where diagnosis says so."""
    return tuple(line for line in breach.lines if line[0] == LIKELY)


def _fix(breach: Breach) -> str:
    """What to do about its cause; "" where nobody knows it, or that is to end what goes on."""
    fixes = (
        [action for action in breach.actions if action.startswith(FIX)] if _likely(breach) else []
    )
    return fixes[0] if fixes and not (breach.command and breach.command in fixes[0]) else ""


def _next_time(breach: Breach) -> list[Closing]:
    """The same of what is over."""
    fix = _fix(breach).removeprefix(FIX)
    return [of_action(fix, breach, before="If it comes back: ")] if fix else []


def _causes(breaches: Sequence[Breach]) -> list[Closing]:
    """Of several what they likely are, a line for each cause with what to do about it; where that
    is asked and of none known, where to look.
    """
    of_cause: dict[str, list[Breach]] = {}
    for breach in breaches:
        for _, cause in _likely(breach):
            of_cause.setdefault(cause, []).append(breach)
    if not of_cause and all(breach.actions == (NO_CAUSE,) for breach in breaches):
        return [closing(NO_CAUSE_OF_SEVERAL)]
    shown = list(of_cause.items())[:CAUSES]
    return [each for cause, several in shown for each in _cause(cause, several)]


def _cause(cause: str, several: Sequence[Breach]) -> list[Closing]:
    """What it is as a sentence, what happens as another, and the fix on a line of its own."""
    title, _, sentence = cause.partition(": ")
    what = f"{_those(several)}{OF_SEVERAL}{title}." + f" {sentence}" * bool(sentence)
    fix = _fix(several[0])
    return [closing(what), *([of_action(fix, several[0])] if fix else [])]


def _those(breaches: Sequence[Breach]) -> str:
    first = called(breaches[0])
    return first if len(breaches) == 1 else f"{first} and {len(breaches) - 1} more"


def _all_resolved(cases: Sequence[Case], setting: Setting) -> Message:
    breaches = [case.breach for case in cases]
    first = breaches[0]
    of_subjects = _by_subject(cases)
    what = f"{_counted(of_subjects)}{of_owner(first)}{_times(cases, of_subjects)}"
    message = Message(
        title=f"resolved · {what}{_cost(breaches)}",
        summary=_were(of_subjects),
        fields=(*owner_line(first), *_costs(breaches), _rule(first, setting)),
        rows=((kind_heading(first), "Why", "Cost"), *map(_over_row, of_subjects[:SHOWN])),
        url=_url(cases[0], setting),
        severity="resolved",
    )
    causes = _causes([own[-1].breach for own in of_subjects])
    return ending(message, [*_waited(cases, setting), *_prices(breaches), *causes])


def _waited(cases: Sequence[Case], setting: Setting) -> list[Closing]:
    """Why the end of one is told long after it was."""
    over = [(case.resolved_at, case) for case in cases if case.resolved_at is not None]
    first_at, first = min(over, key=itemgetter(0), default=(setting.now, cases[0]))
    if to_ms(setting.now) - to_ms(first_at) < NOTED_LATE_MS:
        return []
    since = f"{called(first.breach)} was over at {setting.clock(to_ms(first_at))}"
    return [closing(f"Ends are told once all of a message are over: {since}.")]


def _times(cases: Sequence[Case], of_subjects: Sequence[Sequence[Case]]) -> str:
    """How many incidents it were, where that is more than one of each."""
    return f", {len(cases)} incidents" if len(of_subjects) < len(cases) else ""


def _by_subject(cases: Sequence[Case]) -> list[list[Case]]:
    """The incidents of each subject, in order: one that began again has several."""
    of_subject: dict[str, list[Case]] = {}
    for case in cases:
        of_subject.setdefault(case.breach.subject, []).append(case)
    return list(of_subject.values())


def _counted(of_subjects: Sequence[Sequence[Case]]) -> str:
    kind = kind_word(of_subjects[0][0].breach)
    return wording.counted(len(of_subjects), kind, f"{kind}s")


def _were(of_subjects: Sequence[Sequence[Case]]) -> str:
    """What they were, and are no longer."""
    were, are = ("was", "is") if len(of_subjects) == 1 else ("were", "are")
    what = _several_are(of_subjects[0][0].breach)
    return f"{_counted(of_subjects)} {were} {what} and no longer {are}."


def _over_row(cases: Sequence[Case]) -> tuple[str, ...]:
    """One subject: why its incidents ended, and what they cost in all."""
    breach = cases[0].breach
    why = "; ".join(dict.fromkeys(case.resolution for case in cases))
    cost = _sum(case.breach.cost_usd for case in cases)
    return called(breach), why, wording.usd(cost)


def _costs(breaches: Sequence[Breach]) -> tuple[Line, ...]:
    """What they cost in all; nothing of what costs nothing."""
    if not breaches[0].has_cost:
        return ()
    return (("Cost", wording.usd(_sum(breach.cost_usd for breach in breaches))),)


def _cost(breaches: Sequence[Breach]) -> str:
    """The same in a title."""
    return "".join(f", {label.lower()} {value}" for label, value in _costs(breaches))


def _url(case: Case, setting: Setting) -> str:
    return f"{setting.base}/incidents/{case.id}"


def _sum(amounts: Iterable[Decimal | None]) -> Decimal | None:
    """None where one is not known."""
    several = list(amounts)
    if None in several:
        return None
    return sum((amount for amount in several if amount is not None), Decimal(0))


def _rule(breach: Breach, setting: Setting) -> Line:
    return "Rule", f"{one_line(setting.rule_name, 80)}: {breach.limit}"


def _burning(breaches: Sequence[Breach]) -> str:
    """Dollars an hour, and a month of what nothing ends by itself."""
    usd_per_hour = _sum(breach.usd_per_hour for breach in breaches)
    if usd_per_hour is None:
        return wording.UNKNOWN
    if any(breach.is_limited for breach in breaches):
        return f"{wording.usd(usd_per_hour)}/h"
    month = wording.about(usd_per_hour * HOURS_PER_MONTH)
    return f"{wording.usd(usd_per_hour)}/h, ≈ {month}/month if left"


def _prices(breaches: Sequence[Breach]) -> list[Closing]:
    return [closing(each) for each in [_example_note(breaches)] if each]


def _example_note(breaches: Sequence[Breach]) -> str:
    if not any(breach.has_example_rates for breach in breaches):
        return ""
    return "Dollars rest on an example list price: set your own under Pricing."

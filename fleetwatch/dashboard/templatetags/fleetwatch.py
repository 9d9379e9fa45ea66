"""Numbers, state bars and links for templates, each number with its unit and its exact value."""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlencode
from zoneinfo import ZoneInfo

from django import template
from django.db.models import Model
from django.template.context import Context
from django.template.loader import render_to_string
from django.urls import resolve, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from fleetwatch.accounts.saved_views import may_share
from fleetwatch.alerts.incidents.muting import muted_in_words
from fleetwatch.alerts.incidents.past_ends import how_it_ended
from fleetwatch.alerts.models import Incident
from fleetwatch.dashboard import data_age as data_ages
from fleetwatch.dashboard import entry_words, numbers, shown_states, threshold_words, words
from fleetwatch.dashboard.address_tag import address_tag
from fleetwatch.dashboard.agent_reads import sensor_names
from fleetwatch.dashboard.choices import LONGEST
from fleetwatch.dashboard.compared_period import COMPARE, PREVIOUS
from fleetwatch.dashboard.data_age import DataAge
from fleetwatch.dashboard.drawing.bar_svg import spark, state_band, state_bar
from fleetwatch.dashboard.parameters import CAUSE, FILTERS, SUBJECTS
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.figures.totals import Totals
from fleetwatch.ingest.tokens import USE_NOTED_EVERY
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.models import Adjustment, Entry
from fleetwatch.lib import timeframes
from fleetwatch.lib.durations import exact
from fleetwatch.lib.intervals import from_ms, ms_in, to_ms
from fleetwatch.lib.timeframes import ZONE
from fleetwatch.notify import plain_text
from fleetwatch.notify.selectors import is_kept
from fleetwatch.reports import months

register = template.Library()

FROM_A = ("name", "owner", "state", "cause")  # columns of names, sorted from A on
USE_IS_RECENT = USE_NOTED_EVERY + timedelta(minutes=1)  # and the next one is on its way
# how `at` writes a moment
STYLES = {
    "": "%a %-d %b, %H:%M",
    "short": "%-d %b %H:%M",
    "short_day": "%-d %b",
    "day": "%-d %b %Y",
    "hour": "%-d %b %Y, %H:%M",
    "clock": "%H:%M:%S",
    "minute": "%H:%M",
    "exact": "%Y-%m-%d %H:%M:%S %Z",
    "field": "%Y-%m-%dT%H:%M",
}


@register.filter
def ticked(text: str) -> SafeString:
    """Text whose parts between back-ticks are code."""
    forms = itertools.cycle(("{}", "<code>{}</code>"))
    parts = zip(forms, text.split("`"), strict=False)
    return format_html_join("", "{}", ((format_html(form, part),) for form, part in parts))


# each is called in templates as it is here
for text_of in (
    numbers.usd,
    numbers.about,
    numbers.about_range,
    numbers.budget_share,
    numbers.usd_exact,
    numbers.cents,
    numbers.price,
    numbers.rate,
    numbers.gpu_hours,
    numbers.ten_thousandths,
    numbers.signed_hours,
    numbers.signed_hundredths,
    numbers.gpu_hours_exact,
    numbers.percent,
    numbers.fine_percent,
    numbers.change,
    numbers.duration,
    numbers.in_seconds,
    numbers.gigabytes,
    numbers.has_cents,
    numbers.watts,
    numbers.kilowatt_hours,
    words.event,
    words.event_text,
    words.have_texts,
    words.incident_event,
    words.incident_state,
    muted_in_words,
    words.finding_stands,
    words.is_agreed,
    words.waste_in_words,
    words.place_name,
    words.process_trouble,
    words.did,
    words.task_name,
    sensor_names,
    threshold_words.of_minutes,
    entry_words.why,
    Incident.stands,
    how_it_ended,
):
    register.filter(text_of)
register.filter("month_in_words", months.in_words)
register.filter("in_words_of", words.decided_parts)

register.tag("url", address_tag)
for _drawn in (state_bar, state_band, spark):
    register.simple_tag(_drawn)

_NUMBER = '<span title="{}">{}</span>'
_LONG_NUMBER = '<span class="long" title="{}">{}</span>'  # smaller in a card of figures
MANY_CHARACTERS = 11


def number(text: str, exact: str) -> SafeString:
    """A value as text, with the exact one on hover."""
    return format_html(_LONG_NUMBER if len(text) >= MANY_CHARACTERS else _NUMBER, exact, text)


def number_tag(
    text_of: Callable[[Any], str], exact_of: Callable[[Any], str]
) -> Callable[[Any], SafeString]:
    """What shows a value by these."""
    return lambda value: number(text_of(value), exact_of(value))


# tag -> how it shows a value: dollars, dollars more or less, dollars of a statement, GPU-hours, a
# cell of a chart's table
for tag, texts in {
    "money": (numbers.usd, numbers.usd_exact),
    "signed_money": (numbers.signed_usd, numbers.usd_exact),
    "amount": (numbers.cents, numbers.usd_exact),
    "hours": (numbers.gpu_hours, numbers.gpu_hours_exact),
    "gpus": (numbers.gpus, "{:,.2f} GPUs".format),
    "figure": (numbers.short, numbers.short_exact),
}.items():
    register.simple_tag(number_tag(*texts), name=tag)


@register.simple_tag
def printed(value: Any, shown: Decimal) -> SafeString:
    """Dollars of a statement as reports.printed rounded them, the exact ones on hover."""
    return number(numbers.cents_shown(value, shown), numbers.usd_exact(value))


@register.simple_tag
def part_of(amounts: Mapping[str, Decimal], name: str) -> SafeString:
    """That one of dollars which stand beside their sum, rounded so that all add up to it as it is
    shown.
    """
    shown = dict(zip(amounts, numbers.parts(list(amounts.values())), strict=True))
    return number(shown[name], numbers.usd_exact(amounts[name]))


@register.simple_tag
def state_cost(totals: Totals, name: str) -> SafeString:
    """The same of the states, which stand beside what was wasted too."""
    return number(numbers.state_parts(totals)[name], numbers.usd_exact(totals.shown_cost[name]))


@register.simple_tag
def printed_hours(gpu_ms: int, shown: Decimal) -> SafeString:
    """The same of GPU-hours."""
    return number(numbers.hundredths_shown(gpu_ms, shown), numbers.gpu_hours_exact(gpu_ms))


@register.simple_tag
def multiplied_hours(gpu_ms: int, shown: Decimal) -> SafeString:
    """The same of GPU-hours that stand to be multiplied by a rate, to four places."""
    return number(numbers.multiplied_hours(gpu_ms, shown), numbers.gpu_hours_exact(gpu_ms))


@register.simple_tag
def saving(value: Saving) -> SafeString:
    """A saving in dollars to two digits, the exact range on hover."""
    exact = f"{numbers.usd_exact(value.low_usd)} to {numbers.usd_exact(value.high_usd)}"
    return number(numbers.roughly(value.low_usd, value.high_usd), exact)


@register.simple_tag
def saved_hours(value: Saving) -> SafeString:
    """The same in GPU-hours, without the unit's name."""
    exact = f"{numbers.gpu_hours_exact(value.low_ms)} to {numbers.gpu_hours_exact(value.high_ms)}"
    return number(numbers.roughly_hours(value.low_ms, value.high_ms), exact)


@register.simple_tag
def confidence(level: str, *, is_short: bool = False) -> SafeString:
    """A tag of how sure a diagnosis is; `is_short` without the word."""
    colour = {"high": "good-c", "medium": "stall-c"}.get(level, "")
    words = f"{level or 'no'}{'' if is_short else ' confidence'}"
    title = "How sure the diagnosis is, by the sensors there were"
    return format_html('<span class="tag {}" title="{}">{}</span>', colour, title, words)


@register.simple_tag
def points_between(low: float, high: float) -> str:
    """The interval of a difference of two shares."""
    return numbers.points(low, high)


@register.simple_tag
@cache  # a table has hundreds of the few there are
def swatch(state: str) -> SafeString:
    """The colour and pattern of a state, in a little square."""
    return render_to_string("dashboard/_swatch.html", {"state": state})


@register.simple_tag
@cache  # those of templates
def icon(name: str, size: int = 16) -> SafeString:
    """A symbol of the sprite in base.html."""
    return render_to_string("dashboard/_icon.html", {"name": name, "size": size})


@register.inclusion_tag("dashboard/_press.html")
def press(
    label: str, view: str, *args: Any, id: int | None = None, tone: str = "quiet"
) -> dict[str, Any]:
    """A button that posts to the view, with the `id` of a row; `tone` "danger" of what can't be
    taken back.
    """
    return {"label": label, "address": reverse(view, args=args), "id": id, "tone": tone}


@register.inclusion_tag("dashboard/_sort.html", takes_context=True)
def sort_head(
    context: Context, sort: str, label: str, classes: str = "num", title: str = ""
) -> dict[str, Any]:
    """The head of a column by which the page's table may be sorted; `title` says what it is."""
    return sort_link(context, sort, label) | {"title": title, "classes": classes}


@register.inclusion_tag("dashboard/_sort_link.html", takes_context=True)
def sort_link(context: Context, sort: str, label: str) -> dict[str, Any]:
    """The link alone, of a column that has several."""
    return {
        "label": label,
        "is_sorted": context["sort"] == sort,
        "direction": "ascending" if sort in FROM_A else "descending",
        "address": query(context, sort=sort),
    }


_HEADING = '<th scope="col" class="{}">{}</th>'
_NO_HEADING = '<td class="{}">{}</td>'


@register.simple_tag
@cache  # the columns of templates
def thead(*columns: str) -> str:
    """A table's head: each column's text, and behind a "|" its classes: "Cost|num wide-only"; a
    column without a text has no heading, and none that is empty.
    """
    parts = (column.partition("|") for column in columns)
    cells = (format_html(_HEADING if text else _NO_HEADING, cls, text) for text, _, cls in parts)
    row = format_html_join("", "{}", ((cell,) for cell in cells))
    return format_html("<thead><tr>{}</tr></thead>", row)


@register.filter
def braced(name: str) -> str:
    """A placeholder as a template of addresses has it: {name}."""
    return f"{{{name}}}"


@register.filter
def shown_state(entry: Entry | Adjustment) -> str:
    """The entry's state as pages tell it: "busy, unverified" and "waiting" apart from their own."""
    return shown_states.shown_state(entry)


@register.filter
def state_label(name: str) -> str:
    """Useful, Underused, …; an unknown name as it is."""
    return words.BY_NAME[name].label if name in words.BY_NAME else name


@register.filter
def in_words(states: Sequence[str]) -> str:
    """Several states: "Useful, underused"."""
    return ", ".join(map(state_label, states)).capitalize()


@register.filter
def inside(label: str) -> str:
    """A label as it stands inside a sentence: "Last 7 days" becomes "last 7 days", "GPU can't work"
    stays.
    """
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]


@register.filter
def count(number: int) -> str:
    """1,302."""
    return f"{number:,}"


@register.filter
def breakable(name: str) -> str:
    """A dotted name that may break behind its dots and underscores, and not within a word."""
    return format_html_join(
        "", "{}<wbr>", ((part,) for part in re.findall(r"[^._]+[._]?|[._]", name))
    )


@register.filter
def spaced(name: str) -> str:
    """A name for people: on_demand is "on demand", requested_gpus "requested GPUs"."""
    return name.replace("_", " ").replace("gpu", "GPU")


@register.filter
def delivered_by(state: str, kind: str) -> str:
    """What became of a delivery by a channel of that kind: one that reaches nobody keeps it."""
    return "kept" if is_kept(kind, state) else state


@register.filter
def absolute(value: float) -> float:
    """The size of a change, without its direction."""
    return abs(value)


@register.filter
def points(value: float) -> str:
    """A change of a share in percentage points: "+2 points", "−0.4 points"."""
    size = f"{abs(value):.0f}" if abs(value) >= 1 else f"{abs(value):.1f}"
    return f"{'+' if value >= 0 else '−'}{size} point{'' if size == '1' else 's'}"


@register.filter
def get(mapping: Mapping[str, Any], key: str) -> Any:
    """mapping[key], None where it has none."""
    return mapping.get(key)


@register.filter
def form_of(row: Model, form: str) -> str:
    """The name of a row's own form, which is also the start of its fields' ids: "rule-3"."""
    return f"{form}-{row.pk}"


@register.filter
def share_of(part: Decimal | float | None, whole: Decimal | float | None) -> Decimal | None:
    """part ÷ whole; None where the whole is nothing or unknown."""
    if part is None or not whole:
        return None
    return Decimal(part) / Decimal(whole)


@register.filter
def agreed_apart(wasted_usd: Decimal, agreed_usd: Decimal) -> dict[str, Decimal]:
    """Of what was wasted what people agreed is no waste, and what is left."""
    return {"agreed": agreed_usd, "left": max(wasted_usd - agreed_usd, Decimal(0))}


@register.filter
def ago(moment: datetime | int | None, now: datetime) -> str:
    """How long before `now` it was: "3 h 20 min ago"; in the future: "in 5 min"."""
    if moment is None:
        return "never"
    passed = to_ms(now) - (moment if isinstance(moment, int) else to_ms(moment))
    if abs(passed) < 1000:
        return "just now"
    return f"{numbers.duration(passed)} ago" if passed > 0 else f"in {numbers.duration(-passed)}"


@register.filter
def noted_ago(moment: datetime | None, now: datetime) -> str:
    """The same of what is noted every few minutes: a token that was used since is "in use"."""
    if moment is None or now - moment > USE_IS_RECENT:
        return ago(moment, now)
    return f"in use, noted every {numbers.duration(ms_in(USE_NOTED_EVERY))}"


@register.filter
def took(start: datetime, end: datetime | None) -> str:
    """How long something ran: "240 ms", "3 min"."""
    if end is None:
        return numbers.UNKNOWN
    return numbers.took(to_ms(end) - to_ms(start))


@register.filter
def message_text(stored: Mapping[str, Any]) -> str:
    """A stored message as a mail has it in plain text, without its reader's own links."""
    return plain_text.preview(stored)


@register.filter
def data_age(newest_ms: int | None, now: datetime) -> DataAge:
    """How old data that ends then is now, in a word."""
    return data_ages.data_age(newest_ms, to_ms(now))


@register.simple_tag(takes_context=True)
def at(context: Context, moment: datetime | int | None, style: str = "") -> str:
    """A moment in the zone that times are shown in: "Thu 19 Nov, 09:10"; style "short", "day",
    "exact", "clock", "minute" or "field", as a form has it; "cut": the day, with its hour where
    that is not midnight.
    """
    if moment is None:
        return numbers.UNKNOWN
    zone: ZoneInfo = context.get("zone") or ZoneInfo("UTC")
    local = (from_ms(moment) if isinstance(moment, int) else moment).astimezone(zone)
    if style == "cut":
        style = "hour" if local.hour or local.minute else "day"
    return f"{local:{STYLES[style]}}"


@register.simple_tag(takes_context=True)
def unrecorded_days(context: Context, since: datetime) -> str:
    """The days of the month before its first recorded one: "1–14 Nov", or a part of the first."""
    zone: ZoneInfo = context.get("zone") or ZoneInfo("UTC")
    local = since.astimezone(zone)
    if not (last := local.day - 1):
        return f"a part of 1 {local:%b}"
    return f"1 {local:%b}" if last == 1 else f"1–{last} {local:%b}"


@register.simple_tag(takes_context=True)
def span(context: Context, start: int, end: int) -> str:
    """From when to when, in the zone that times are shown in; the day of its end where that is
    another one. Of what began and ended in one minute how long it was.
    """
    if at(context, start, "short") == at(context, end, "short"):
        return f"{at(context, start)}, for {exact(end - start)}"
    is_of_a_day = at(context, start, "day") == at(context, end, "day")
    return f"{at(context, start)} to {at(context, end, 'minute' if is_of_a_day else '')}"


@register.simple_tag(takes_context=True)
def seen_until(context: Context, moment: datetime | int, style: str = "") -> str:
    """The end of something that was seen, now at the latest: the cell of five minutes or the hour
    that it was seen in may end later.
    """
    end = from_ms(moment) if isinstance(moment, int) else moment
    return at(context, min(end, context["now"]), style)


@register.simple_tag(takes_context=True)
def between(context: Context, start: datetime, end: datetime) -> str:
    """A period in the zone that times are shown in: whole days by the first and the last of them,
    "1–26 Nov 2026", else its two moments.
    """
    return timeframes.in_words(start, end, context.get("zone") or ZoneInfo("UTC"))


@register.simple_tag(takes_context=True)
def query(context: Context, **changes: Any) -> str:
    """The page's query string with some parameters changed (None or "" removes one)."""
    params = context["request"].GET.copy()
    params.pop("after", None)
    for key, value in changes.items():
        params.pop(key, None)
        if value not in (None, ""):
            params[key] = str(value)
    return "?" + urlencode(list(params.items()))


@register.simple_tag(takes_context=True)
def without(context: Context, name: str) -> str:
    """The page's query string without this parameter."""
    return query(context, **{name: None})


@register.simple_tag(takes_context=True)
def narrowed(context: Context, to: str = "") -> str:
    """The page's period and filters as a query string, for links to other pages of figures, or
    (`to`) to findings, or to waste.
    """
    names = {"findings": FILTERS, "waste": (*SUBJECTS, CAUSE)}.get(to, SUBJECTS)
    filters = context.get("filters") or {}
    kept = urlencode({name: filters[name] for name in names if filters.get(name)})
    return "&".join(part for part in (period(context) or "?", kept) if part)


@register.simple_tag(takes_context=True)
def only_filters(context: Context) -> str:
    """The page's filters as a query string, for a part of it that has a time of its own."""
    filters = context.get("filters") or {}
    kept = urlencode({name: filters[name] for name in SUBJECTS if filters.get(name)})
    return f"?{kept}" if kept else ""


@register.simple_tag(takes_context=True)
def without_filters(context: Context) -> str:
    """The page's query string without any filter."""
    return query(context, **dict.fromkeys(FILTERS))


@register.simple_tag(takes_context=True)
def kept(context: Context) -> list[tuple[str, str]]:
    """What the address says beside filters, and is no place in a list: hidden fields of a form."""
    params = context["request"].GET
    return [(name, params[name][:LONGEST]) for name in context["kept_names"] if name in params]


@register.filter
def gpu_numbers(gpus: Sequence[GPU]) -> str:
    """Of GPUs of a node their numbers, in a row the first and the last; "?" of those without."""
    indexes = sorted({gpu.index for gpu in gpus if gpu.index is not None})
    unnumbered = ["?"] if any(gpu.index is None for gpu in gpus) else []
    return ", ".join([*filter(None, [numbers.in_ranges(indexes)]), *unnumbered])


@register.simple_tag(takes_context=True)
def period(context: Context) -> str:
    """The page's period as a query string, for links to other pages."""
    timeframe = context.get("timeframe")
    return f"?{timeframe.query}" if timeframe else ""


@register.simple_tag(takes_context=True)
def carried(context: Context, to: str) -> str:
    """What of the page's period and filters the page `to` takes, as a query string; "" for nothing.

    A period is carried from a page that takes one, where it was asked for: the time of a job is not
    the reader's choice.
    """
    target = _parameters_of(to)
    filters = context.get("filters") or {}
    # of a page without a period a state is another thing: of incidents
    kept = [name for name in FILTERS if name in target and ("from" in target or name != "state")]
    pairs = _carried_period(context) if "from" in target else []
    pairs += [(name, filters[name]) for name in kept if filters.get(name)]
    if COMPARE in target and context.get("comparison", PREVIOUS) != PREVIOUS:
        pairs.append((COMPARE, context["comparison"]))
    return f"?{urlencode(pairs)}" if pairs else ""


def _carried_period(context: Context) -> list[tuple[str, str]]:
    if "timeframe" not in context:
        return []
    if "from" not in getattr(context["request"].resolver_match.func, "parameters", ()):
        return []
    pairs = parse_qsl(context["timeframe"].query)
    return [pair for pair in pairs if pair[0] == ZONE or not context["of_a_thing"]]


@cache  # addresses do not change
def _parameters_of(name: str) -> frozenset[str]:
    """What the page of that name takes of an address."""
    return frozenset(getattr(resolve(reverse(name)).func, "parameters", ()))


@register.simple_tag(takes_context=True)
def in_zone(context: Context, before: str = "?") -> str:
    """The zone that the address names as a parameter behind `before`; "" where it names none."""
    timeframe = context.get("timeframe")
    return before + urlencode({ZONE: timeframe.tz}) if timeframe and timeframe.tz else ""


@register.simple_tag(takes_context=True)
def pinned(context: Context) -> str:
    """The page's query string with moments for the ends of its period: the same time for ever."""
    start, end = context["timeframe"].pinned
    return query(context, range=None, **{"from": start, "to": end})


@register.simple_tag(takes_context=True)
def hidden(context: Context, *others: str) -> SafeString:
    """The parameters that the page takes, but these, as hidden fields of a form that says these
    anew.
    """
    request = context["request"]
    names = getattr(request.resolver_match.func, "parameters", request.GET)
    kept = [name for name in request.GET if name in names and name not in others]
    longest = {name: None if name in FILTERS else LONGEST for name in kept}
    pairs = ((name, request.GET[name][: longest[name]]) for name in kept)
    return format_html_join("", '<input type="hidden" name="{}" value="{}">', pairs)


@register.simple_tag(takes_context=True)
def shares(context: Context) -> bool:
    """Whether the reader's views may be everybody's."""
    return may_share(context["request"].user)

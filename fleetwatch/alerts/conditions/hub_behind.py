"""The condition hub_behind: FleetWatch itself does not do its work, takes no batches, or hears no
agent at all.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise

from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch
from fleetwatch.alerts.conditions.node_silent import is_heard, reporting_nodes, unheard
from fleetwatch.alerts.episodes import Episode, Level, Measured, Span, extend
from fleetwatch.alerts.measuring.hub_door import FRESH_MS, open_span, shut_since_ms
from fleetwatch.lib.intervals import from_ms, to_ms
from fleetwatch.notify.message import one_line
from fleetwatch.operations import disk
from fleetwatch.operations.models import JobRun

DAY = timedelta(days=1)
# what is done each minute or more often, by the name of its runs
WORK = {
    "ledger.post": "posting to the ledger",
    "telemetry.seal": "sealing of telemetry",
    "costs.attribute_changed": "attribution of jobs to teams",
    "diagnosis.diagnose": "diagnosis",
    "notify.deliver": "delivery of messages",
}
EVALUATION = "alerts.evaluate"
NAMES = WORK | {EVALUATION: "evaluation of rules"}
DOOR = "door"
AGENTS = "agents"
DOES_AGAIN = "it works again"
# a run may be late by so much, or take so long, and nothing is behind
SLACK_MS = 5 * 60_000
WHAT = {
    DOOR: "The hub took no batches (agents keep them, and nobody sees the fleet)",
    AGENTS: "The hub took batches, but no agent sent any",
}
HAS = {
    DOOR: "The hub has taken no batches (agents keep them, and nobody sees the fleet)",
    AGENTS: "The hub takes batches, but no agent has sent any",
}
FIX = {
    DOOR: "Fix: see whether the web process runs, the database answers and the disk has room.",
    AGENTS: (
        "Fix: see what lies between the agents and the hub: name, certificate, proxy, firewall."
    ),
}
RUNS_FIX = "Fix: see on the status page which runs fail and why, and whether a worker runs."


def measure(watch: Watch) -> Measured:
    """When each kind of work was not done, by its runs that ended well; since when the door is
    shut, or no agent is heard.
    """
    spans = {name: list(_work_spans(name, watch)) for name in WORK}
    spans |= {DOOR: _door_spans(watch), AGENTS: _agent_spans(watch)}
    spans[EVALUATION] = list(_evaluation_spans(watch))
    return Measured({name: each for name, each in spans.items() if each}, cleared=DOES_AGAIN)


def _work_spans(name: str, watch: Watch) -> Iterator[Span]:
    """Between two runs that ended well it was behind where these lie far apart; before the first
    one that is known nobody knows.
    """
    since = from_ms(watch.start_ms) - DAY
    runs = JobRun.objects.filter(
        name=name, ok=True, started_at__gte=since, started_at__lt=from_ms(watch.end_ms)
    )
    moments = runs.order_by("finished_at").values_list("finished_at", flat=True)
    ended = [to_ms(moment) for moment in moments if moment is not None]
    spans: list[Span] = []
    for start_ms, end_ms in pairwise([*ended, watch.end_ms]):
        if end_ms > max(start_ms, watch.start_ms):
            level = Level.BREACH if end_ms - start_ms > SLACK_MS else Level.CLEAR
            extend(spans, Span(start_ms, end_ms, level))
    yield from spans


def _evaluation_spans(watch: Watch) -> Iterator[Span]:
    """By whether its runs failed: while none runs, as before the first one after an upgrade, nobody
    looks.
    """
    since = from_ms(watch.start_ms) - DAY
    runs = JobRun.objects.filter(
        name=EVALUATION, ok__isnull=False, started_at__gte=since, finished_at__isnull=False
    )
    rows = runs.order_by("finished_at").values_list("finished_at", "ok")
    ended = [(to_ms(moment), is_done) for moment, is_done in rows if moment is not None]
    spans: list[Span] = []
    for (start_ms, _), (ended_ms, is_done) in pairwise(ended):
        end_ms = min(ended_ms, watch.end_ms)
        if start_ms < end_ms and start_ms + SLACK_MS >= end_ms > watch.start_ms:
            extend(spans, Span(start_ms, end_ms, Level.CLEAR if is_done else Level.BREACH))
    yield from spans


def _door_spans(watch: Watch) -> list[Span]:
    shut_ms = shut_since_ms(watch.end_ms)
    if shut_ms is not None:
        return [Span(shut_ms, watch.end_ms, Level.BREACH)]
    door = open_span(watch.end_ms)
    return [] if door is None else [Span(door.start_ms, door.end_ms, Level.CLEAR)]


def _agent_spans(watch: Watch) -> list[Span]:
    """In breach while not one of many nodes is heard; one alone is a silent node."""
    door = open_span(watch.end_ms)
    nodes = reporting_nodes()
    if door is None or not nodes:
        return []
    silent = unheard(nodes, door)
    if not is_heard(nodes, silent):
        return [Span(max(span.start_ms for span in silent.values()), door.end_ms, Level.BREACH)]
    return (
        [Span(door.end_ms - FRESH_MS, door.end_ms, Level.CLEAR)] if len(silent) < len(nodes) else []
    )


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode what is not done, and what to do."""
    return [_breach(each, watch) for each in episodes]


def _breach(episode: Episode, watch: Watch) -> Breach:
    work = NAMES.get(episode.subject, "")
    trouble = one_line(disk.trouble() or "") if episode.subject == DOOR else ""
    return Breach(
        subject=episode.subject,
        kind="service",
        address="/status",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="behind",
        tag="FleetWatch",
        title=f"FleetWatch is behind · {work or episode.subject}",
        where="FleetWatch",
        what=WHAT.get(episode.subject, f"FleetWatch's {work} was not done"),
        has=HAS.get(episode.subject, f"FleetWatch's {work} has not been done"),
        had="It had not been done",
        limit=f"behind ≥ {watch.settings.minutes:g} min",
        name=work,
        has_cost=False,
        lines=(("Disk", trouble),) if trouble else (),
        actions=(FIX.get(episode.subject, RUNS_FIX),),
    )


CONDITION = Condition(
    name="hub_behind",
    label="FleetWatch behind",
    sentence=(
        "Fires when FleetWatch itself has not done its work, taken batches or heard any agent for"
        " {minutes} minutes."
    ),
    kind="service",
    unit="",
    low=0,
    high=0,
    usual=Settings(threshold=0, minutes=15),
    measure=measure,
    describe=describe,
    is_on=True,
    severity="critical",
)

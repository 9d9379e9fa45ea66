"""A fleet's day in the store, its month in the ledger: bytes, questions, pages; beside
VictoriaMetrics and Prometheus, and as it grows.
"""

import math
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from benchmarks import opened_pages, questions
from benchmarks.apart import apart, say
from benchmarks.client import Reader, post_all
from benchmarks.fleet import DAY, Fleet
from benchmarks.opened_pages import Opened
from benchmarks.peers import Peer, running_peers
from benchmarks.questions import Day, Took
from benchmarks.remote_write import http
from benchmarks.servers import Hub, running_hub
from benchmarks.tables import BenchError, Goal, Size, Table

# GPUs, whether the peers get the same, and rounds of questions and pages
FLEETS = {
    Size.QUICK: ((100, True, 3), (1000, False, 3)),
    Size.FULL: ((100, True, 5), (1000, True, 3), (10_000, False, 3)),
}
# of a thousand GPUs' month while it is made: parts of runs, their indexes, and what Postgres logs
DISK_GB = 6
HEAT, SERIES, WASTE = (
    "heat map of utilisation, 24 h",
    "one GPU, all columns, 24 h",
    "waste by job, util < 5 %, from raw, 24 h",
)
REPORT = "report of 30 days by team"
# how often in a row, where one answer takes less than what CPU is counted in
TIMES = {HEAT: 10}
OURS = "FleetWatch"
WRITE_AT_ONCE = 4
DISTINCT = 16  # nodes that are drawn where there are no peers, the others echo them
# the report's target is of a fleet of this size; of a larger one its growth is
TARGET_GPUS = 1000
CHECKED_DAYS = 2  # the posted one, and one that is tiled from it
SLICES_TOLD = 12  # half hours between two lines on the terminal
# which question is asked of which system, and how; the answer goes with what it took
Question = tuple[str, str, Callable[[Took], Any]]


@dataclass
class Measured:
    """What one size of fleet showed."""

    gpus: int
    rounds: int
    fill_s: float = 0.0
    values: int = 0
    bytes_per_value: dict[str, float] = field(default_factory=dict)
    took: dict[tuple[str, str], Took] = field(default_factory=dict)  # (question, system)
    deviations: dict[tuple[str, str], float] = field(default_factory=dict)
    opened: Opened = field(default_factory=Opened)
    post_cpu_s: float = 0.0
    check_s: float = 0.0

    def of(self, question: str, system: str) -> Took:
        return self.took.setdefault((question, system), Took())

    def ratio(self, question: str, system: str) -> float | None:
        """Our median by the system's; None when it was not asked."""
        other = self.took.get((question, system))
        return None if other is None else self.of(question, OURS).median_s / other.median_s


def run(size: Size) -> list[Table]:
    """Bytes of a value, questions and pages for a simulated fleet: its day of 10 s windows and its
    month of ledger.
    """
    fleets = FLEETS[size]
    _check_disk(max(gpus for gpus, *_ in fleets))
    # the largest first: what fails there fails early
    measured = [apart(measure, *fleet) for fleet in reversed(fleets)][::-1]
    return [
        *(beside_peers(one) for one in measured if len(one.bytes_per_value) > 1),
        *(report(one) for one in measured if one.gpus <= TARGET_GPUS),
        *(opened_pages.table(one.opened, one.gpus) for one in measured),
        growth(measured),
    ]


def _check_disk(gpus: int) -> None:
    """Raises BenchError where the largest fleet would not fit: better now than in an hour."""
    needed, free = gpus / 1000 * DISK_GB, shutil.disk_usage("/var/tmp").free / 1e9
    if free < needed:
        raise BenchError(f"{gpus:,} GPUs need {needed:.0f} GB in /var/tmp, {free:.0f} GB are free")


def measure(gpus: int, with_peers: bool, rounds: int) -> Measured:
    """One size: everything is made, asked and thrown away."""
    found = Measured(gpus, rounds)
    # the peers get what is drawn, and to draw it takes most of the time
    fleet = Fleet(gpus) if with_peers else Fleet(gpus, distinct=DISTINCT)
    with running_hub(with_web=True) as hub:
        began = time.perf_counter()
        fleet.fill(os.cpu_count() or 1)
        found.fill_s = time.perf_counter() - began
        say(f"{gpus:,} GPUs are made")
        found.values, stored = _stored()
        found.bytes_per_value[OURS] = stored / found.values
        if with_peers:
            with running_peers() as peers:
                _fill_peers(fleet, peers, found)
                say("the peers have the same")
                _ask(found, hub, questions.day_of(fleet.end), peers)
        else:
            _ask(found, hub, questions.day_of(fleet.end), [])
        found.opened = opened_pages.opened(hub, rounds)
        found.check_s = _check_ledger(fleet)
        found.post_cpu_s = _post_again(hub, questions.day_of(fleet.end))
        say("the day is posted again")
    return found


def _stored() -> tuple[int, int]:
    """(values read, bytes on disk with index) of all sealed columns."""
    from django.db import connection

    from fleetwatch.operations.models import JobRun

    with connection.cursor() as cursor:
        cursor.execute("CHECKPOINT")
        cursor.execute("SELECT pg_total_relation_size('telemetry_chunk')")
        size = int(cursor.fetchone()[0])
    return int(JobRun.objects.get(name="demo.fleet").did["values"]), size


def _fill_peers(fleet: Fleet, peers: Sequence[Peer], found: Measured) -> None:
    """Sends each the same samples, and who holds what. Raises BenchError when one refuses.

    Bytes are those of the columns alone where a peer takes the holders later: not Prometheus, which
    wants all in order of time.
    """
    samples = 0
    later: list[list[bytes]] = []
    for done, parts in enumerate(fleet.slices(), 1):
        for peer in peers:
            _write(peer, [part.columns for part in parts])
            if peer.is_ordered:
                _write(peer, [part.holds for part in parts])
        samples += sum(part.samples for part in parts)
        later.append([part.holds for part in parts])
        if done % SLICES_TOLD == 0:
            say(f"the peers have {samples:,} samples of {found.values:,}")
    if samples != found.values:
        raise BenchError(f"the peers got {samples} samples, the hub {found.values} values")
    for peer in peers:
        found.bytes_per_value[peer.name] = peer.disk_bytes() / samples
        if not peer.is_ordered:
            for bodies in later:
                _write(peer, bodies)


def _write(peer: Peer, bodies: Sequence[bytes]) -> None:
    requests = [http(peer.write_path, body) for body in bodies]
    post_all(
        peer.port, [queue for at in range(WRITE_AT_ONCE) if (queue := requests[at::WRITE_AT_ONCE])]
    )


def _ask(found: Measured, hub: Hub, day: Day, peers: Sequence[Peer]) -> None:
    from fleetwatch.lib import allocator

    # what is read in this process is read as in a web process or a worker
    allocator.keep_freed()
    allocator.spare_loaded()
    answers: dict[tuple[str, str], Any] = {}
    asked = [_asked(found, answers, each) for each in _questions(found, hub, day, peers)]
    questions.taking_turns(1, asked)  # not measured: the first of its kind
    found.took.clear()
    say(f"each of {len(asked)} questions was asked once")
    questions.taking_turns(found.rounds, asked)
    say("the questions are asked")
    for peer in peers:
        _compare(found, answers, peer, day)


def _asked(
    found: Measured, answers: dict[tuple[str, str], Any], each: Question
) -> Callable[[], None]:
    def once() -> None:
        question, system, ask = each
        for _ in range(TIMES.get(question, 1)):
            answers[question, system] = ask(found.of(question, system))

    return once


def _questions(found: Measured, hub: Hub, day: Day, peers: Sequence[Peer]) -> list[Question]:
    """Each of us and of each peer, in the order in which they take turns."""
    reader = Reader(hub)
    _, shown = questions.ask_heat_map(reader, day, Took())
    uuid = _a_gpu()
    step_s = (day.end_s - day.start_s) // shown.shape[1]
    return [
        (HEAT, OURS, partial(questions.ask_heat_map, reader, day)),
        *(
            (HEAT, each.name, partial(questions.ask_peer_heat_map, each, day, step_s))
            for each in peers
        ),
        (SERIES, OURS, partial(questions.ask_series, reader, day, uuid)),
        *(
            (SERIES, each.name, partial(questions.ask_peer_series, each, day, uuid))
            for each in peers
        ),
        (WASTE, OURS, partial(questions.ask_waste, hub, day)),
        *((WASTE, each.name, partial(questions.ask_peer_waste, each, day)) for each in peers),
        (REPORT, OURS, partial(_report, reader)),
    ]


def _a_gpu() -> str:
    """One in the middle of the fleet, which has a line for each node where it is large."""
    from fleetwatch.inventory.models import GPU

    uuids = GPU.objects.order_by("uuid").values_list("uuid", flat=True)
    return str(uuids[len(uuids) // 2])


def _compare(found: Measured, answers: Mapping[tuple[str, str], Any], peer: Peer, day: Day) -> None:
    """How far our answers are from the peer's; raises where that is more than rounding."""
    found.deviations[HEAT, peer.name] = _heat_deviation(answers[HEAT, OURS], peer, day)
    for question, tolerance, relative in (
        (SERIES, questions.SERIES_TOLERANCE, True),
        (WASTE, questions.WASTE_TOLERANCE_H, False),
    ):
        ours = answers[question, OURS]
        theirs = answers[question, peer.name]
        name = f"{question}: {OURS} and {peer.name}"
        found.deviations[question, peer.name] = questions.deviation(
            name, ours, theirs, tolerance=tolerance, relative=relative
        )


def _heat_deviation(ours: tuple[list[str], Any], peer: Peer, day: Day) -> float:
    """Against the peer's five-minute means, averaged as a step of ours is."""
    uuids, shown = ours
    fine = questions.ask_peer_heat_map(peer, day, 300)
    empty = np.full((day.end_s - day.start_s) // 300, np.nan)
    theirs = [questions.five_minute_means(fine.get(uuid, empty), shown.shape[1]) for uuid in uuids]

    def cells(rows: Sequence[Any]) -> dict[tuple[str, int], float]:
        return {
            (uuid, at): value
            for uuid, row in zip(uuids, rows, strict=True)
            for at, value in enumerate(row)
            if not math.isnan(value)
        }

    return questions.deviation(
        f"{HEAT}: {OURS} and {peer.name}",
        cells(shown),
        cells(theirs),
        tolerance=questions.HEAT_TOLERANCE,
    )


def _report(reader: Reader, took: Took) -> None:
    page = reader.get("/api/v1/waste?group_by=team&from=now-30d&to=now")
    took.add(page.clock_s, page.cpu_s, len(page.body))


def _check_ledger(fleet: Fleet) -> float:
    """Seconds in which every rule was recomputed over the last days.

    Raises BenchError where one does not hold.
    """
    from django.core.management import call_command

    began = time.perf_counter()
    try:
        call_command(
            "check_ledger", stored=True, start=(fleet.end - CHECKED_DAYS * DAY).isoformat()
        )
    except SystemExit:
        raise BenchError(
            "the ledger of the fleet does not balance: the lines above say where"
        ) from None
    return time.perf_counter() - began


def _post_again(hub: Hub, day: Day) -> float:
    """CPU seconds of posting the day once more from its columns, as after a change of policy."""
    from django.utils import timezone

    from fleetwatch.ledger.services import post, repost

    repost(day.start_s * 1000, day.end_s * 1000)
    before = hub.server_s()
    post(timezone.now(), 10**9)
    return hub.server_s() - before


PEER = "VictoriaMetrics"


def beside_peers(found: Measured) -> Table:
    """The table of one size with the peers, and the goals that it decides."""
    systems = list(found.bytes_per_value)
    bytes_of_each = (f"{found.bytes_per_value[each]:.3f}" for each in systems)
    rows: list[list[Any]] = [["bytes of a value on disk, index included", *bytes_of_each, ""]]
    for question in (HEAT, SERIES, WASTE):
        rows += _asked_of_each(found, question, systems)
    where = f"{found.gpus:,} GPUs x 24 h"
    return Table(
        f"Beside the peers: {where}, {found.values:,} values",
        ["", *systems, "largest deviation"],
        rows,
        notes=_notes(found),
        goals=_goals(found, where),
    )


def _asked_of_each(found: Measured, question: str, systems: Sequence[str]) -> list[list[Any]]:
    """The question's rows: how long each system took, and its CPU."""
    worst = max(found.deviations[question, each] for each in systems[1:])
    asked = [found.of(question, each) for each in systems]
    cpu_ms = (f"{statistics.fmean(took.cpu_s) * 1000:,.1f}" for took in asked)
    return [
        [f"{question}: ms", *(took.spread for took in asked), f"{worst:.2g}"],
        ["– its CPU ms", *cpu_ms, ""],
    ]


def _notes(found: Measured) -> tuple[str, ...]:
    return (
        f"medians of {found.rounds} rounds that take turns, with the range, CPU as the mean; the"
        f" heat map {TIMES[HEAT]} times a round; the first answer of each kind is not counted",
        f"tolerances: heat map {questions.HEAT_TOLERANCE:.4f} (a cell is one byte), series"
        f" {questions.SERIES_TOLERANCE:g} relative, waste {questions.WASTE_TOLERANCE_H} GPU-h of"
        " each job; a larger deviation fails the benchmark",
        "the heat map of ours is bytes of the day's matrix that sealing writes, that of the peers"
        " from samples; both as the answer of an HTTP request with its JSON; ours carries a page's"
        " figure (labels, links), theirs only the numbers",
        "waste is read from raw columns in this process by telemetry.frames.low_counts, as a worker"
        " would, without HTTP; the peers' answer is a small JSON",
        "bytes: ours after sealing into chunks of 6 hours, VictoriaMetrics' after flush and forced"
        " merge, Prometheus' as a snapshot, in which the samples of who holds what are too (it"
        " takes them in order of time alone)",
    )


def _goals(found: Measured, where: str) -> tuple[Goal, ...]:
    bytes_ratio = found.bytes_per_value[OURS] / found.bytes_per_value[PEER]
    decided = (
        ("bytes per value, lossless", bytes_ratio, 1.05, 0.85),
        ("heat map, HTTP answer incl. JSON", found.ratio(HEAT, PEER), 0.2, 0.05),
        ("exact waste by job from raw", found.ratio(WASTE, PEER), 0.1, 0.03),
    )
    return tuple(Goal(*goal, "x VM", where=where) for goal in decided)


def report(found: Measured) -> Table:
    """The fleet's report of 30 days, by the ledger."""
    took = found.of(REPORT, OURS)
    where = f"{found.gpus:,} GPUs x 30 d"
    goal = Goal("30-day fleet report from the ledger", took.median_s, 0.3, 0.05, "s", where=where)
    return Table(f"Report: {where}", ["", "ms"], [[REPORT, took.spread]], goals=(goal,))


def growth(measured: Sequence[Measured]) -> Table:
    """Each cost by the fleet's size; the slope is that of the whole range on logarithmic axes."""
    lines: dict[str, list[float]] = {
        "making the fleet, s (two processes)": [one.fill_s for one in measured],
        "bytes of the day's columns, MB": [
            one.bytes_per_value[OURS] * one.values / 1e6 for one in measured
        ],
        "posting the day, CPU-s": [one.post_cpu_s for one in measured],
        f"checking every rule over {CHECKED_DAYS} days, s": [one.check_s for one in measured],
        **{
            f"{name}, ms": [one.of(name, OURS).median_s * 1000 for one in measured]
            for name in (HEAT, SERIES, WASTE, REPORT)
        },
        "slowest page, ms": [one.opened.slowest_s * 1000 for one in measured],
    }
    rows = [
        [name, *(f"{cost:,.3g}" for cost in costs), f"{_slope(measured, costs):.2f}"]
        for name, costs in lines.items()
    ]
    steepest = max(lines, key=lambda name: _slope(measured, lines[name]))
    sizes = f"{measured[0].gpus:,} to {measured[-1].gpus:,} GPUs"
    return Table(
        f"Growth: {sizes}, one day of windows, 30 days of ledger",
        ["", *(f"{one.gpus:,} GPUs" for one in measured), "slope"],
        rows,
        notes=(
            (
                "slope 1 = linear, 0 = the same at any size; measured on logarithmic axes from the"
                " smallest fleet to the largest"
            ),
            (
                "the rules are those of `check_ledger --stored`: one that does not hold, at any"
                " size, fails the benchmark"
            ),
            (
                "of the ledger's 30 days one is posted from windows, the others are tiled from it"
                " with other GPUs, jobs and people"
            ),
        ),
        goals=(
            Goal(
                f"growth, the steepest slope ({steepest.split(',')[0]})",
                _slope(measured, lines[steepest]),
                1.05,
                None,
                "",
                where=sizes,
            ),
            *_growth_of_pages(measured),
        ),
    )


def _growth_of_pages(measured: Sequence[Measured]) -> Iterator[Goal]:
    """From the size of the targets to the next, where both were measured."""
    ends = [one for one in measured if one.gpus >= TARGET_GPUS][:2]
    if len(ends) == 2:
        slope = _slope(ends, [one.opened.slowest_s for one in ends])
        sizes = f"{ends[0].gpus:,} to {ends[1].gpus:,} GPUs"
        yield Goal("growth, the slowest page", slope, 0.5, None, "", where=sizes)


def _slope(measured: Sequence[Measured], costs: Sequence[float]) -> float:
    return math.log(costs[-1] / costs[0]) / math.log(measured[-1].gpus / measured[0].gpus)

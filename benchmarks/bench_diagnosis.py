"""Diagnosis: how often it is right on cases that it was not tuned on, and what it costs.

Cases are the simulator's labelled ones (docs/simulator.md), 90 minutes each, with every number
drawn from the range that thresholds were tuned on and multiplied by 0.7 to 1.3. Each five-minute
cell of each GPU is judged; a case counts as one, whatever its size. Cost is measured on a real
Postgres: a day of a fleet from sealed columns, then its newest hour while batches come in, with the
ledger posted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from benchmarks import bench_posting, labelled, profiled
from benchmarks.apart import say, side_by_side
from benchmarks.cases import CELL_MS, EXTRAS, MIXTURES, NAMES, SENSORS, draw_case, with_sensors
from benchmarks.servers import Hub, running_hub
from benchmarks.tables import Cell, Goal, Size, Table
from fleetwatch.diagnosis.judgement.verdicts import CAUSES, judge

SEEDS = {Size.QUICK: 4, Size.FULL: 15}
# of the cases that are judged here and nowhere else: no rule was made with them
FIRST_SEED = 20_000
# as many as the targets name: of a small fleet most would be what a run costs however few GPUs
# there are
NODES = 125
MINUTES = 90
RIGHT, ALTERNATIVE, UNDETERMINED, WRONG = GRADES = (
    "right",
    "told as alternative",
    "undetermined",
    "wrong",
)
UNDECIDED = ("undetermined", "busy", "no_telemetry")
WELL = ("healthy", "busy", "undetermined", "no_telemetry")  # what is no accusation
SAME = {"unobserved": "no_telemetry"}
TITLES = {
    "all": "all sensors",
    "no_gpm": "without GPM",
    "no_host": "without host facts",
    "utilisation_only": "utilisation and memory only",
}
# sensors -> least right, most wrong, in percent of the cases
BOUNDS = {"all": (96.0, 1.5), "no_gpm": (82.0, 5.0)}
BOUNDS_OUTSIDE = {"all": (93.0, 4.0)}
MOST_ACCUSED = 1.0
LIVE_RUNS = 3
DAYS_BEFORE = 30
CELLS_PER_HOUR = 12


@dataclass(slots=True)
class Judged:
    """What was said of cases: weights by name and grade, and by name and cause; each case sums to
    1.
    """

    grades: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    causes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    truths: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def share(self, names: Iterable[str], grade: str) -> float:
        """Of the cases of these names, in percent."""
        whole = [sum(self.grades[name].values()) for name in names]
        return 100 * sum(self.grades[name][grade] for name in names) / sum(whole)

    def accused(self) -> float:
        """Percent of the time of healthy GPUs for which a cause was told."""
        told = self.truths["healthy"]
        return (
            100
            * sum(weight for cause, weight in told.items() if cause not in WELL)
            / sum(told.values())
        )


def run(size: Size) -> list[Table]:
    """How often diagnosis is right on held-out cases, by sensors, and CPU seconds of diagnosing
    1,000 GPUs: a day, and five minutes.
    """
    found = together(side_by_side(partial(_judged, SEEDS[size]), (*NAMES, *EXTRAS, *MIXTURES)))
    outside = together(side_by_side(partial(_judged_outside, SEEDS[size]), (*NAMES, *EXTRAS)))
    say("the labelled cases are judged")
    tables = [
        summary(found, SEEDS[size]),
        beyond(outside, SEEDS[size]),
        rows_of(found),
        mixtures(found),
        confusion(found["all"], "all"),
        confusion(found["no_gpm"], "no_gpm"),
    ]
    with running_hub() as hub:
        bench_posting.fill(NODES)
        tables += cost(hub, NODES)
    return tables


def _judged(seeds: int, name: str) -> dict[str, Judged]:
    return judged(seeds, names=[name])


def _judged_outside(seeds: int, name: str) -> dict[str, Judged]:
    return judged(seeds, names=[name], is_outside=True, sensors=tuple(BOUNDS))


def together(parts: Iterable[Mapping[str, Judged]]) -> dict[str, Judged]:
    """By sensors, what was said of the cases of all parts, of which each has names of its own."""
    found: dict[str, Judged] = defaultdict(Judged)
    for part in parts:
        for sensors, one in part.items():
            found[sensors].grades |= one.grades
            found[sensors].causes |= one.causes
            for truth, told in one.truths.items():
                found[sensors].truths[truth] += told
    return found


def judged(
    seeds: int,
    *,
    names: Sequence[str],
    held_out: bool = True,
    is_outside: bool = False,
    sensors: Sequence[str] = SENSORS,
    first: int = FIRST_SEED,
) -> dict[str, Judged]:
    """By sensors, what diagnosis says of each case; a case is drawn once."""
    found = {one: Judged() for one in sensors}
    for name in names:
        for seed in range(first, first + seeds):
            drawn = draw_case(name, seed, held_out=held_out, is_outside=is_outside, minutes=MINUTES)
            for one in sensors:
                _judge(found[one], name, with_sensors(drawn, one))
    return found


def _judge(into: Judged, name: str, case: labelled.Case) -> None:
    lanes = labelled.lanes_of(case)
    verdicts, truths = judge(lanes), labelled.truth_of(case, lanes)
    weight = 1 / (len(truths) * len(truths[0]))
    for lane, told in enumerate(truths):
        for cell, joined in enumerate(told):
            truth = [SAME.get(one, one) for one in joined.split("|")]
            cause, also = CAUSES[verdicts.cause[lane, cell]], int(verdicts.also[lane, cell])
            into.grades[name][grade(cause, also, truth)] += weight
            into.causes[name][cause] += weight
            if name not in MIXTURES:
                into.truths[truth[0]][cause] += weight


def grade(cause: str, also: int, truth: Sequence[str]) -> str:
    """One of GRADES: `busy` is right where healthy is, an accusation of the healthy is wrong
    whatever else is possible.
    """
    if cause in truth or (cause == "busy" and "healthy" in truth):
        return RIGHT
    if cause in UNDECIDED:
        return UNDETERMINED
    if any(also >> CAUSES.index(one) & 1 for one in truth if one in CAUSES):
        return ALTERNATIVE
    return WRONG


def summary(found: Mapping[str, Judged], seeds: int) -> Table:
    names = (*NAMES, *EXTRAS)
    rows: list[list[Cell]] = []
    goals: list[Goal] = []
    where = f"{seeds} held-out cases of each of {len(names)} kinds"
    for sensors, one in found.items():
        shares = {grade: one.share(names, grade) for grade in GRADES}
        rows.append([TITLES[sensors], *shares.values(), one.accused()])
        if sensors in BOUNDS:
            least, most = BOUNDS[sensors]
            goals.append(
                Goal(
                    f"right, {TITLES[sensors]}",
                    shares[RIGHT],
                    least,
                    None,
                    "%",
                    is_more_better=True,
                    where=where,
                )
            )
            wrong = shares[WRONG] + shares[ALTERNATIVE]
            goals.append(
                Goal(
                    f"wrong (or told as alternative alone), {TITLES[sensors]}",
                    wrong,
                    most,
                    None,
                    "%",
                    where=where,
                )
            )
        goals.append(
            Goal(
                f"healthy accused, {TITLES[sensors]}",
                one.accused(),
                MOST_ACCUSED,
                None,
                "%",
                where=where,
            )
        )
    notes = (
        (
            "held out: every number is drawn from its tuning range and then multiplied by anything"
            " from 0.7 to 1.3, saturated signals apart; many of them so lie outside that range, by"
            " up to 30 %, and some within"
        ),
        (
            "a cell is right when its primary cause is the truth; told as alternative when another"
            " cause is primary and the truth is among the others that are possible; undetermined"
            " also where it says busy, with an efficiency that can't be measured"
        ),
        (
            "busy counts as right where the truth is healthy: without GPM nothing is called"
            " healthy; so does undetermined where the ledger calls more than 15 % of such a cell"
            " wasted"
        ),
    )
    return Table(
        f"Accuracy on {where}, %",
        ["sensors", *GRADES, "healthy accused"],
        rows,
        notes=notes,
        goals=goals,
    )


def beyond(found: Mapping[str, Judged], seeds: int) -> Table:
    """The same where no number lies in the range that thresholds were tuned on."""
    names = (*NAMES, *EXTRAS)
    rows: list[list[Cell]] = [
        [TITLES[sensors], *(one.share(names, grade) for grade in GRADES), one.accused()]
        for sensors, one in found.items()
    ]
    goals: list[Goal] = []
    where = f"{seeds} cases of each of {len(names)} kinds, every number outside its range"
    for sensors, (least, most) in BOUNDS_OUTSIDE.items():
        one = found[sensors]
        wrong = _wrong(one, names)
        goals.append(
            Goal(
                f"right, strict, {TITLES[sensors]}",
                one.share(names, RIGHT),
                least,
                None,
                "%",
                is_more_better=True,
                where=where,
            )
        )
        goals.append(Goal(f"wrong, strict, {TITLES[sensors]}", wrong, most, None, "%", where=where))
        goals.append(
            Goal(
                f"healthy accused, strict, {TITLES[sensors]}",
                one.accused(),
                MOST_ACCUSED,
                None,
                "%",
                where=where,
            )
        )
    notes = (
        (
            "most of what is wrong here is another truth by then: a throttled GPU near its full"
            " clock and a checkpoint of a few percent of the time are called healthy, and so is"
            " work whose communication costs little"
        ),
    )
    return Table(
        "Accuracy where every number lies below or above its range, by up to 30 %:"
        f" {seeds} cases of each of {len(names)} kinds, %",
        ["sensors", *GRADES, "healthy accused"], rows, notes=notes, goals=goals,
    )  # fmt: skip


def rows_of(found: Mapping[str, Judged]) -> Table:
    rows = [[name, *(_two(one, name) for one in found.values())] for name in (*NAMES, *EXTRAS)]
    return Table(
        "Right / wrong by kind of case, %", ["case", *(TITLES[sensors] for sensors in found)], rows
    )


def mixtures(found: Mapping[str, Judged]) -> Table:
    rows = [[name, *(_two(one, name) for one in found.values())] for name in MIXTURES]
    rows.append(
        [
            "all",
            *(
                f"{one.share(MIXTURES, RIGHT):.0f} / {_wrong(one, MIXTURES):.0f}"
                for one in found.values()
            ),
        ]
    )
    notes = (
        (
            "where two causes are true at once either is right; one that starts half-way must be"
            " told from its beginning on"
        ),
    )
    return Table(
        "Mixtures, never used for tuning: right / wrong, %",
        ["case", *(TITLES[sensors] for sensors in found)],
        rows,
        notes=notes,
    )


def _two(one: Judged, name: str) -> str:
    return f"{one.share([name], RIGHT):.0f} / {_wrong(one, [name]):.0f}"


def _wrong(one: Judged, names: Iterable[str]) -> float:
    names = tuple(names)
    return one.share(names, WRONG) + one.share(names, ALTERNATIVE)


def confusion(one: Judged, sensors: str) -> Table:
    """Rows: the truth; columns: what was said, in percent of the row."""
    said = [cause for cause in CAUSES if any(told[cause] for told in one.truths.values())]
    rows = [
        [truth, *(_percent(told[cause] / sum(told.values())) for cause in said)]
        for truth, told in sorted(one.truths.items(), key=lambda item: CAUSES.index(item[0]))
    ]
    return Table(
        f"Confusion matrix, {TITLES[sensors]}, % of each truth (mixtures are apart)",
        ["truth", *said],
        rows,
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if share else ""


def cost(hub: Hub, nodes: int) -> list[Table]:
    """CPU seconds of Python and Postgres: the day for the first time, then, with a month before it,
    the newest hour while it goes on; and where Python goes then.
    """
    from fleetwatch.diagnosis import services
    from fleetwatch.ledger.services import post

    post(bench_posting.NOW, bench_posting.NO_LIMIT)
    gpus = nodes * bench_posting.GPUS
    scale = 1000 / gpus
    first = _measured(
        hub, lambda: services.diagnose(bench_posting.NOW, bench_posting.NO_LIMIT), scale
    )
    _tell_days_before()
    lives, modules = [], Counter[str]()
    for known in _growing_hour():
        now = _NEWEST_HOUR + known * _CELL - timedelta(seconds=1)
        with profiled.sampled() as at_work:
            told = _measured(hub, partial(services.diagnose, now, bench_posting.NO_LIMIT), scale)
        if known > CELLS_PER_HOUR - LIVE_RUNS:
            lives.append(told)
            modules += at_work
    live = sorted(lives, key=sum)[len(lives) // 2]
    where = f"{gpus:,} GPUs"
    rows: list[list[Cell]] = [
        ["24 hours, first time", sum(first), *first],
        [f"five minutes more, {DAYS_BEFORE} days later", sum(live), *live],
    ]
    goals = (
        Goal("diagnosing 1,000 GPUs x 24 h", sum(first), 30, None, "CPU-s", where=where),
        Goal(
            "diagnosing 1,000 GPUs each 5 min",
            sum(live),
            1,
            None,
            "CPU-s",
            where=f"{where}, {DAYS_BEFORE} days later",
        ),
    )
    told = Table(
        f"Diagnosis from posted hours, per 1,000 GPUs (measured on {where})",
        ["", "CPU-s", "Python", "Postgres"], rows,
        notes=(
            "one process; reading windows and the ledger's cells, judging, and writing causes"
            " and findings are all in it",
        ),
        goals=goals,
    )  # fmt: skip
    return [
        told,
        profiled.table(
            "Where diagnosis' Python goes, five minutes more", modules, python_s=live[0]
        ),
    ]


def _tell_days_before() -> None:
    """The same causes on each of DAYS_BEFORE days before: five minutes must not cost more on a hub
    that is older.
    """
    from django.db import connection

    from fleetwatch.diagnosis.models import CapacityEntry, CauseEntry

    with connection.cursor() as cursor:
        for model in (CauseEntry, CapacityEntry):
            names = ", ".join(
                one.column
                for one in model._meta.concrete_fields
                if one.column not in ("id", "start")
            )
            cursor.execute(
                f"INSERT INTO {model._meta.db_table} (start, {names}) SELECT start - day * interval"
                f" '1 day', {names} FROM {model._meta.db_table}, generate_series(1, %s) AS day",
                [DAYS_BEFORE],
            )
        cursor.execute("VACUUM ANALYZE")


def _measured(hub: Hub, work: Callable[[], object], scale: float) -> tuple[float, float]:
    python_s, postgres_s = hub.cost(work)
    return python_s * scale, postgres_s * scale


_NEWEST_HOUR = bench_posting.START + timedelta(hours=bench_posting.HOURS - 1)
_CELL = timedelta(milliseconds=CELL_MS)


def _growing_hour() -> Iterator[int]:
    """How many cells of the newest hour are known, one more each time: batches came in, the ledger
    is posted. Then the hour is due.
    """
    from django.db import connection

    from benchmarks import hot_hour
    from fleetwatch.inventory.models import Node
    from fleetwatch.ledger import hour_cells
    from fleetwatch.lib.intervals import to_ms

    start_ms = to_ms(_NEWEST_HOUR)
    end_ms = start_ms + bench_posting.HOUR_MS
    whole = hour_cells.read(list(Node.objects.values_list("pk", flat=True)), start_ms, end_ms)
    hour, told_ms = hot_hour.cut(start_ms), start_ms
    for known in range(CELLS_PER_HOUR - LIVE_RUNS, CELLS_PER_HOUR + 1):
        hot_hour.come_in(hour, told_ms, told_ms := start_ms + known * CELL_MS)
        for node_id, table in whole.items():
            is_told = table["start_ms"] < told_ms
            told = {name: values[is_told] for name, values in table.items()}
            hour_cells.write({node_id: (told, [start_ms])}, start_ms=start_ms, end_ms=end_ms)
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE ledger_nodeday SET versions[24] = versions[24] + 1 WHERE day = %s",
                [bench_posting.START.date()],
            )
        yield known

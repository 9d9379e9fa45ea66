"""A month's reports: asked for, planned into parts, computed by as many workers as there are. Each
step is safe twice.

A part is computed in one transaction that holds its row: a worker that dies leaves it as it was,
and another takes it. All parts of a run speak of one state of the ledger: each looks, after it has
read, whether the digest of all inputs is still the run's. Where it isn't, nothing is kept, the run
is stale and a new one begins.
"""

from datetime import datetime, time, timedelta
from decimal import Decimal

import structlog
from django.db import IntegrityError, transaction
from django.db.models import F, Q

from fleetwatch.accounts.selectors import zone as organisation_zone
from fleetwatch.costs.spreading import OWN_LINE, spread
from fleetwatch.figures import selectors as costs
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports import (
    budgeted,
    contents,
    corrections,
    inputs,
    months,
    statement,
    statement_choices,
)
from fleetwatch.reports.beside import beside
from fleetwatch.reports.models import MonthRun, Report, ReportPart

FLEET, STATEMENT = "fleet", "statement"
COMPUTE_AT = time(6)  # of the organisation's clock: the last day's late data has come
# longer than any part takes, shorter than anybody waits for a lost message
HAND_OUT_AGAIN = timedelta(minutes=5)
MAX_FAILURES = 3
MAX_RESTARTS = 5
NO_USD = statement.NO_USD
OPEN = (MonthRun.State.WAITING, MonthRun.State.COMPUTING)

log = structlog.get_logger(__name__)


def ask(name: str, *, now: datetime, by: str = "") -> MonthRun:
    """The run that computes the month of that name: the open one, or a new one.

    Raises ValueError where no day of it is over.
    """
    wanted = months.month(name, now=now, zone=organisation_zone())
    return _open_run(wanted.name) or _new_run(
        wanted.name, wanted.interval, wanted.previous, now=now, by=by, restarts=0
    )


def ask_for_last_month(now: datetime) -> dict[str, int]:
    """1 where the month that was over last is computed (again): once a day from 6 o'clock on, so
    that late data makes a new version.
    """
    local = now.astimezone(organisation_zone())
    name = months.last_full(now, organisation_zone())
    today = local.replace(hour=0, minute=0, second=0, microsecond=0)
    if (
        local.time() < COMPUTE_AT
        or MonthRun.objects.filter(month=name, asked_at__gte=today).exists()
    ):
        return {"asked": 0}
    ask(name, now=now)
    return {"asked": 1}


def plan_waiting(now: datetime) -> dict[str, int]:
    """How many waiting runs were planned, and the parts they have."""
    did = {"runs": 0, "parts": 0}
    while True:
        with transaction.atomic():
            run = (
                MonthRun.objects.select_for_update(skip_locked=True)
                .filter(state=MonthRun.State.WAITING)
                .order_by("asked_at")
                .first()
            )
            if run is None:
                return did
            did["runs"] += 1
            did["parts"] += _plan(run, now)


def hand_out(now: datetime) -> list[int]:
    """The parts that wait for a worker, each handed out once; again after five minutes if nothing
    came of it.
    """
    waiting = ReportPart.objects.filter(
        Q(handed_out_at__isnull=True) | Q(handed_out_at__lt=now - HAND_OUT_AGAIN),
        done_at__isnull=True,
        run__state=MonthRun.State.COMPUTING,
    )
    with transaction.atomic():
        found = list(
            waiting.select_for_update(skip_locked=True, of=("self",))
            .order_by("pk")
            .values_list("pk", flat=True)
        )
        ReportPart.objects.filter(pk__in=found).update(handed_out_at=now)
    return found


def compute_part(part_id: int, now: datetime) -> dict[str, int]:
    """{"computed": 1} where this call made the part's report; 0 where it is done, somebody else has
    it or the ledger changed.
    """
    try:
        with transaction.atomic():
            return {"computed": int(_compute(part_id, now))}
    except Exception as error:
        _note_failure(part_id, error, now)
        raise


def _compute(part_id: int, now: datetime) -> bool:
    waiting = ReportPart.objects.filter(
        pk=part_id, done_at__isnull=True, run__state=MonthRun.State.COMPUTING
    )
    part = waiting.select_for_update(skip_locked=True, of=("self",)).select_related("run").first()
    if part is None:
        return False
    content = contents.fleet(part) if part.kind == FLEET else contents.team(part)
    # after the reading: runs are locked for moments only
    run = MonthRun.objects.select_for_update().get(pk=part.run_id)
    if run.state != MonthRun.State.COMPUTING:
        return False
    if inputs.digest(*_intervals(run)) != run.inputs:
        _start_again(run, now)
        return False
    part.report, part.done_at = _store(part, run, content, now), now
    part.save(update_fields=["report", "done_at"])
    if not run.parts.filter(done_at__isnull=True).exists():
        _finish(run, MonthRun.State.DONE, now)
    return True


def _store(part: ReportPart, run: MonthRun, content: dict[str, object], now: datetime) -> Report:
    """The newest version if it says the same, else a new one."""
    versions = Report.objects.filter(kind=part.kind, subject=part.subject, start=run.start)
    newest = versions.order_by("-version").first()
    if newest is not None and newest.content == content:
        return newest
    return Report.objects.create(
        kind=part.kind,
        subject=part.subject,
        start=run.start,
        end=run.end,
        version=newest.version + 1 if newest else 1,
        computed_at=now,
        inputs=run.inputs,
        cost_usd=part.cost_usd,
        content=content,
    )


def _plan(run: MonthRun, now: datetime) -> int:
    """How many parts the run got; none where the month's newest reports are of the same inputs, or
    there is nothing to report.
    """
    month, previous = _intervals(run)
    digest = inputs.digest(month, previous)
    newest = (
        MonthRun.objects.filter(month=run.month, state=MonthRun.State.DONE)
        .exclude(inputs="")
        .order_by("-finished_at", "-pk")
        .first()
    )
    if newest is not None and newest.inputs == digest:
        run.inputs = digest
        return _finish(
            run, MonthRun.State.DONE, now, note="nothing has changed since the newest version"
        )
    groups, corrected = costs.totals_by(month, "team"), corrections.booked(month)
    if not groups and not corrected and not beside().has_lines(month, run.month):
        return _finish(
            run,
            MonthRun.State.DONE,
            now,
            note="the ledger has no GPU time in this month, and nothing was paid beside it",
        )
    run.state, run.planned_at, run.inputs, run.free_capacity = (
        MonthRun.State.COMPUTING,
        now,
        digest,
        statement_choices.free_capacity(),
    )
    run.save(update_fields=["state", "planned_at", "inputs", "free_capacity"])
    others = ({line["team"] for line in corrected} - {statement.NO_JOB}) | budgeted.teams(month)
    parts = _parts(
        run, *statement.split(groups), before=costs.totals_by(previous, "team"), others=others
    )
    return len(ReportPart.objects.bulk_create(parts))


def _parts(
    run: MonthRun,
    teams: dict[str, Decimal],
    states: dict[str, Decimal],
    *,
    before: list[costs.Group],
    others: set[str],
) -> list[ReportPart]:
    """A part per team, also of those that are gone since the period before, were only corrected or
    have but a budget, and the fleet's.
    """
    teams_before, states_before = statement.split(before)
    nothing = NO_USD if before else None
    shared = (
        None
        if run.free_capacity == OWN_LINE
        else spread(teams, states.get("free", NO_USD), run.free_capacity)
    )
    parts = [
        ReportPart(
            run=run,
            kind=STATEMENT,
            subject=slug,
            cost_usd=teams.get(slug, NO_USD),
            previous_usd=teams_before.get(slug, nothing),
            free_usd=None if shared is None else shared.free_usd.get(slug, NO_USD),
        )
        for slug in sorted(teams.keys() | teams_before.keys() | others)
    ]
    fleet = sum(teams.values(), NO_USD) + sum(states.values(), NO_USD)
    fleet_before = sum(teams_before.values(), NO_USD) + sum(states_before.values(), NO_USD)
    left_usd = None if shared is None else shared.left_usd
    whole = ReportPart(
        run=run,
        kind=FLEET,
        subject="",
        cost_usd=fleet,
        previous_usd=fleet_before if before else None,
        free_usd=left_usd,
    )
    return [*parts, whole]


def _start_again(run: MonthRun, now: datetime) -> None:
    """The ledger changed while the run was computed: what is done stays as it is, and a new run
    takes over.
    """
    if run.restarts >= MAX_RESTARTS:
        _finish(
            run,
            MonthRun.State.FAILED,
            now,
            note=f"the ledger changed {MAX_RESTARTS} times while it was computed",
        )
        return
    _finish(run, MonthRun.State.STALE, now, note="the ledger changed meanwhile: computed again")
    _new_run(run.month, *_intervals(run), now=now, by=run.asked_by, restarts=run.restarts + 1)
    log.info("report run stale", run=run.pk, month=run.month, restarts=run.restarts)


def _note_failure(part_id: int, error: Exception, now: datetime) -> None:
    """Three failures end the run where people see them; until then the part is handed out again."""
    ReportPart.objects.filter(pk=part_id).update(failures=F("failures") + 1)
    part = ReportPart.objects.filter(pk=part_id).select_related("run").first()
    if (
        part is not None
        and part.failures >= MAX_FAILURES
        and part.run.state == MonthRun.State.COMPUTING
    ):
        text = f"{part.kind} {part.subject}: {type(error).__name__}: {error}".replace("\x00", "")
        _finish(part.run, MonthRun.State.FAILED, now, note=text[:300])


def _finish(run: MonthRun, state: MonthRun.State, now: datetime, *, note: str = "") -> int:
    run.state, run.finished_at, run.note = state, now, note
    run.save(update_fields=["state", "finished_at", "note", "inputs"])
    log.info("report run finished", run=run.pk, month=run.month, state=state.value, note=note)
    return 0


def _open_run(name: str) -> MonthRun | None:
    return MonthRun.objects.filter(month=name, state__in=OPEN).first()


def _new_run(
    name: str, month: Interval, previous: Interval, *, now: datetime, by: str, restarts: int
) -> MonthRun:
    try:
        with transaction.atomic():
            return MonthRun.objects.create(
                month=name,
                start=month.start,
                end=month.end,
                previous_start=previous.start,
                previous_end=previous.end,
                asked_at=now,
                asked_by=by,
                restarts=restarts,
            )
    except IntegrityError:  # somebody asked at the same moment: theirs is as good
        return MonthRun.objects.filter(month=name).latest("pk")


def _intervals(run: MonthRun) -> tuple[Interval, Interval]:
    return Interval(run.start, run.end), Interval(run.previous_start, run.previous_end)

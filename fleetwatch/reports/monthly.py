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
from django.db.models import F, Q, QuerySet

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.selectors import zone as organisation_zone
from fleetwatch.costs.spreading import OWN_LINE, spread
from fleetwatch.figures import selectors as costs
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.memo import remembering
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
from fleetwatch.reports.statement import NO_JOB, NO_USD

FLEET = "fleet"
STATEMENT = "statement"
COMPUTE_AT = time(6)  # of the organisation's clock: the last day's late data has come
# longer than any part takes, shorter than anybody waits for a lost message
HAND_OUT_AGAIN = timedelta(minutes=5)
MAX_FAILURES = 3
MAX_RESTARTS = 5
NO_CHANGE = "nothing has changed since the newest version"
NO_TIME = "the ledger has no GPU time in this month, and nothing was paid beside it"
State = MonthRun.State
OPEN = (State.WAITING, State.COMPUTING)

log = structlog.get_logger(__name__)


def ask(name: str, *, now: datetime, by: str = "") -> MonthRun:
    """The run that computes the month of that name: the open one, or a new one.

    Raises ValueError where no day of it is over.
    """
    month = months.month(name, now=now, zone=organisation_zone())
    waiting = MonthRun.objects.filter(month=name, state__in=OPEN).first()
    if waiting is not None:
        return waiting
    record("report.compute", name)
    return _new_run(name, month.interval, month.previous, now=now, by=by)


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


def stop(name: str, *, now: datetime, by: str) -> bool:
    """Whether a run of the month was open, and is stopped now: parts that are done stay, whoever
    computes one keeps nothing.
    """
    with transaction.atomic():
        run = MonthRun.objects.select_for_update().filter(month=name, state__in=OPEN).first()
        if run is None:
            return False
        record("report.stop", name)
        _finish(run, State.STOPPED, now, note=f"stopped by {by}"[:300])
        return True


def plan_waiting(now: datetime) -> dict[str, int]:
    """How many waiting runs were planned, and the parts they have."""
    did = {"runs": 0, "parts": 0}
    while True:
        with transaction.atomic():
            run = (
                MonthRun.objects.select_for_update(skip_locked=True)
                .filter(state=State.WAITING)
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
    idle = Q(handed_out_at__isnull=True) | Q(handed_out_at__lt=now - HAND_OUT_AGAIN)
    with transaction.atomic():
        claimed = (
            _waiting().filter(idle).select_for_update(skip_locked=True, of=("self",)).order_by("pk")
        )
        part_ids = list(claimed.values_list("pk", flat=True))
        ReportPart.objects.filter(pk__in=part_ids).update(handed_out_at=now)
    return part_ids


def _waiting() -> QuerySet[ReportPart]:
    """Parts of open runs that are not computed."""
    return ReportPart.objects.filter(done_at__isnull=True, run__state=State.COMPUTING)


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
    part = (
        _waiting()
        .filter(pk=part_id)
        .select_for_update(skip_locked=True, of=("self",))
        .select_related("run")
        .first()
    )
    if part is None:
        return False
    with remembering():
        content = contents.fleet(part) if part.kind == FLEET else contents.team(part)
    # after the reading: runs are locked for moments only
    run = MonthRun.objects.select_for_update().get(pk=part.run_id)
    if run.state != State.COMPUTING:
        return False
    if inputs.digest(run.interval, run.previous) != run.inputs:
        _start_again(run, now)
        return False
    part.report = _store(part, run, content, now)
    part.done_at = now
    part.save(update_fields=["report", "done_at"])
    if not run.parts.filter(done_at__isnull=True).exists():
        _finish(run, State.DONE, now)
    return True


def _store(part: ReportPart, run: MonthRun, content: dict[str, object], now: datetime) -> Report:
    """The newest version if it says the same, else a new one."""
    versions = Report.objects.filter(kind=part.kind, subject=part.subject, start=run.start)
    newest = versions.order_by("-version").first()
    plain = statement.stored(content)
    if newest is not None and newest.content == plain:
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
        content=plain,
    )


def _plan(run: MonthRun, now: datetime) -> int:
    """How many parts the run got; none where the month's newest reports are of the same inputs, or
    there is nothing to report.
    """
    digest = inputs.digest(run.interval, run.previous)
    if digest == _newest_inputs(run.month):
        run.inputs = digest
        return _finish(run, State.DONE, now, note=NO_CHANGE)
    groups = costs.totals_by(run.interval, "team")
    corrected = {line["team"] for line in corrections.booked(run.interval)}
    if not groups and not corrected and not beside().has_lines(run.interval, run.month):
        return _finish(run, State.DONE, now, note=NO_TIME)
    _begin(run, digest, now)
    parts = parts_of(run, groups, corrected | budgeted.teams(run.interval))
    return len(ReportPart.objects.bulk_create(parts))


def _begin(run: MonthRun, digest: str, now: datetime) -> None:
    run.inputs = digest
    run.free_capacity = statement_choices.free_capacity()
    run.planned_at = now
    run.state = State.COMPUTING
    run.save(update_fields=["state", "planned_at", "inputs", "free_capacity"])


def _newest_inputs(name: str) -> str | None:
    """The digest of what the month's newest reports are made of."""
    done = MonthRun.objects.filter(month=name, state=State.DONE).exclude(inputs="")
    return done.order_by("-finished_at", "-pk").values_list("inputs", flat=True).first()


def parts_of(run: MonthRun, groups: list[costs.Group], others: set[str]) -> list[ReportPart]:
    """A part per team, also of those that are gone since the period before, and of `others`, which
    were only corrected or have but a budget; and the fleet's, whose subject is empty. Not stored.
    """
    before = costs.totals_by(run.previous, "team")
    usd = _by_subject(groups)
    usd_before = _by_subject(before)
    free_usd = _free_by_subject(run.free_capacity, groups)
    subjects = usd.keys() | usd_before.keys() | others
    return [
        ReportPart(
            run=run,
            kind=STATEMENT if subject else FLEET,
            subject=subject,
            cost_usd=usd.get(subject, NO_USD),
            previous_usd=usd_before.get(subject, NO_USD) if before else None,
            free_usd=free_usd.get(subject, NO_USD) if free_usd else None,
        )
        for subject in sorted(subjects, key=lambda subject: (not subject, subject))
    ]


def _by_subject(groups: list[costs.Group]) -> dict[str, Decimal]:
    teams, states = statement.split(groups)
    return teams | {NO_JOB: statement.summed([*teams.values(), *states.values()])}


def _free_by_subject(way: str, groups: list[costs.Group]) -> dict[str, Decimal]:
    """The teams' parts of the free capacity, and what of it no team gets; nothing where it is not
    spread.
    """
    if way == OWN_LINE:
        return {}
    teams, states = statement.split(groups)
    shared = spread(teams, states.get("free", NO_USD), way)
    return shared.free_usd | {NO_JOB: shared.left_usd}


def _start_again(run: MonthRun, now: datetime) -> None:
    """The ledger changed while the run was computed: what is done stays as it is, and a new run
    takes over.
    """
    if run.restarts >= MAX_RESTARTS:
        _finish(
            run,
            State.FAILED,
            now,
            note=f"the ledger changed {MAX_RESTARTS} times while it was computed",
        )
        return
    _finish(run, State.STALE, now, note="the ledger changed meanwhile: computed again")
    _new_run(
        run.month, run.interval, run.previous, now=now, by=run.asked_by, restarts=run.restarts + 1
    )
    log.info("report run stale", run=run.pk, month=run.month, restarts=run.restarts)


def _note_failure(part_id: int, error: Exception, now: datetime) -> None:
    """Three failures end the run where people see them; until then the part is handed out again."""
    ReportPart.objects.filter(pk=part_id).update(failures=F("failures") + 1)
    failed = ReportPart.objects.filter(
        pk=part_id, failures__gte=MAX_FAILURES, run__state=State.COMPUTING
    )
    for part in failed.select_related("run"):
        text = f"{part.kind} {part.subject}: {type(error).__name__}: {error}".replace("\x00", "")
        _finish(part.run, State.FAILED, now, note=text[:300])


def _finish(run: MonthRun, state: State, now: datetime, *, note: str = "") -> int:
    run.state = state
    run.finished_at = now
    run.note = note
    run.save(update_fields=["state", "finished_at", "note", "inputs"])
    log.info("report run finished", run=run.pk, month=run.month, state=state.value, note=note)
    return 0


def _new_run(
    name: str, month: Interval, previous: Interval, *, now: datetime, by: str, restarts: int = 0
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

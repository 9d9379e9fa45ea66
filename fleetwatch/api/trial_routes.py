"""What another policy would have said: two judgements of the past, compared; nothing is stored."""

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from fleetwatch.api.answer_types import Answer, GPUHours, Usd
from fleetwatch.api.request_period import RequestError, asked
from fleetwatch.api.schemas import Period, PeriodAsked
from fleetwatch.api.vocabulary import State, Tier, TrialGrouping
from fleetwatch.finance import policy_trial
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.selectors import current_policy
from fleetwatch.ledger.trial import TrialError, bounds

MAX_THRESHOLDS = 100

router = Router(tags=["ledger"])


class Trial(Schema):
    """Thresholds that differ from the policy in force, by their names."""

    thresholds: dict[str, float] = Field(max_length=MAX_THRESHOLDS)


class TrialLine(Schema):
    """One group in one state and tier: as the policy in force judges it, as the tried one would."""

    group: str
    state: State
    tier: Tier
    is_gpu_ms: int = Field(alias="is_ms")
    would_be_gpu_ms: int = Field(alias="would_ms")
    more_gpu_hours: GPUHours = Field(alias="more_ms")
    is_usd: Usd
    would_be_usd: Usd = Field(alias="would_usd")
    more_usd: Usd


class Compared(Period):
    """Both sides sum to the same GPU time and dollars: what moves is the state."""

    group_by: TrialGrouping
    rows: list[TrialLine]


@router.post("/ledger/try-policy", operation_id="tryPolicy", response=Compared)
def try_policy(
    request: HttpRequest,
    period: PeriodAsked,
    tried: Trial,
    group_by: TrialGrouping = "state",
) -> Answer:
    """At most 2,000 GPU-hours of telemetry that is still kept, judged by both policies; operators
    and finance ask for it.
    """
    policy_trial.check_may_try(getattr(request, "auth"))  # noqa: B009 - Ninja's name for who asks
    wanted = asked(request)
    in_force = current_policy()[1]
    try:
        policy = Policy.from_json(in_force.to_json() | tried.thresholds)
        interval = bounds(wanted.interval, now=timezone.now())
        lines = policy_trial.compare(
            in_force,
            policy,
            interval,
            group_by=group_by,
            max_gpu_hours=policy_trial.MAX_GPU_HOURS,
            max_s=policy_trial.MAX_S,
        )
    except TrialError as error:
        raise RequestError(str(error), field="from") from error
    except ValueError as error:
        raise RequestError(str(error), field="thresholds") from error
    return wanted.answer(
        covered_from=interval.start, covered_to=interval.end, group_by=group_by, rows=lines
    )

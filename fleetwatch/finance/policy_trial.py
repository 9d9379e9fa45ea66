"""What another policy would have said, in GPU time and dollars, while somebody waits for it."""

import time
from collections.abc import Collection, Iterable, Iterator, Sequence

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied

from fleetwatch.accounts.models import User
from fleetwatch.accounts.permissions import Right, may
from fleetwatch.finance.trial_sums import GROUPS, Line, TrialSums
from fleetwatch.ledger import trial
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.trial import Said, TrialError
from fleetwatch.lib.intervals import Interval

# of one request: what is more is asked of the background (trial_runs), by a page sooner
MAX_GPU_HOURS = 2_000
MAX_S = 20
AT_ONCE_S = 2
NOT_THEIRS = "policies are tried by operators and finance"


class TookTooLongError(TrialError):
    """It was not judged within the seconds that were allowed."""


def may_try(user: User | AnonymousUser) -> bool:
    """Whether the user may try other policies."""
    return may(user, Right.FLEET) or may(user, Right.MONEY)


def check_may_try(user: User | AnonymousUser) -> None:
    """Raises PermissionDenied, in words, for whose it is not."""
    if not may_try(user):
        raise PermissionDenied(NOT_THEIRS)


def compare(
    now_in_force: Policy,
    tried: Policy,
    interval: Interval,
    *,
    group_by: str = "state",
    max_gpu_hours: float | None = None,
    max_s: float = 0.0,
) -> list[Line]:
    """The lines of one grouping. Raises TrialError as compare_by does."""
    if group_by not in GROUPS:
        raise TrialError(f"can't group by {group_by!r}; there is {', '.join(GROUPS)}")
    return compare_by(
        (group_by,), now_in_force, tried, interval, max_gpu_hours=max_gpu_hours, max_s=max_s
    )[group_by]


def compare_by(
    groupings: Collection[str],
    now_in_force: Policy,
    tried: Policy,
    interval: Interval,
    *,
    max_gpu_hours: float | None = None,
    max_s: float = 0.0,
) -> dict[str, list[Line]]:
    """By each of these GROUPS its lines by group, state and tier, of one judgement; of both sides
    they sum to the same capacity and dollars.

    Raises TrialError for more GPU-hours, or (max_s above 0) more seconds, than allowed.
    """
    trial.check_reach(tried)
    _check_size(interval, max_gpu_hours)
    sums = TrialSums(groupings)
    for rows in _within(max_s, trial.compare(now_in_force, tried, interval)):
        sums.add(rows)
    return {grouping: sums.lines(grouping) for grouping in groupings}


def _within(max_s: float, parts: Iterable[Sequence[Said]]) -> Iterator[Sequence[Said]]:
    """Those that are judged within so many seconds (0: all). Raises TrialError after them."""
    began = time.monotonic()
    for rows in parts:
        if max_s and time.monotonic() - began > max_s:
            raise TookTooLongError(
                f"judging takes longer than {max_s:g} s: ask for less, or use manage.py try_policy"
            )
        yield rows


def _check_size(interval: Interval, max_gpu_hours: float | None) -> None:
    if max_gpu_hours is not None and (asked := trial.gpu_hours(interval)) > max_gpu_hours:
        raise TrialError(
            f"{asked:,.0f} GPU-hours are more than {max_gpu_hours:,.0f} at once: ask for less, or"
            " use manage.py try_policy"
        )

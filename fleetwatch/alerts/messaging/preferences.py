"""How a person wants to hear of things: everybody sets the own."""

from dataclasses import asdict, dataclass
from datetime import time
from zoneinfo import available_timezones

from django.core.exceptions import PermissionDenied
from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import User
from fleetwatch.alerts.models import Preference
from fleetwatch.lib.refusal import RefusedFieldError

MOST_A_DAY = 100
NOT_YOURS = "how somebody hears of things is his to say"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceTerms:
    """By which way, in which time zone ("" is the organisation's), not between these times of day
    (None: whenever), and at most how often a day (0: all of it in the morning).
    """

    way: str = Preference.Way.ANY
    time_zone: str = ""
    quiet_from: time | None = None
    quiet_until: time | None = None
    daily_cap: int = 10
    gets_digest: bool = True


@transaction.atomic
def set_preference(user: User, terms: PreferenceTerms, *, by: User) -> Preference:
    """The user's from now on. Raises RefusedFieldError, and PermissionDenied for anybody else."""
    if by.pk != user.pk or not by.is_active:
        raise PermissionDenied(NOT_YOURS)
    _check(terms)
    preference, _ = Preference.objects.update_or_create(user=user, defaults=asdict(terms))
    quiet = f"{terms.quiet_from:%H:%M} to {terms.quiet_until:%H:%M}" if terms.quiet_from else ""
    record(
        "preference.set",
        user.get_username(),
        way=terms.way,
        time_zone=terms.time_zone,
        quiet=quiet,
        daily_cap=terms.daily_cap,
        gets_digest=terms.gets_digest,
    )
    return preference


def _check(terms: PreferenceTerms) -> None:
    if terms.way not in Preference.Way.values:
        ways = ", ".join(Preference.Way.values)
        raise RefusedFieldError(f"{terms.way[:40]!r} is none of {ways}", field="way")
    if terms.time_zone and terms.time_zone not in available_timezones():
        raise RefusedFieldError(f"{terms.time_zone[:60]!r} is no time zone", field="time_zone")
    if not 0 <= terms.daily_cap <= MOST_A_DAY:
        raise RefusedFieldError(f"0 to {MOST_A_DAY} messages a day", field="daily_cap")
    _check_quiet(terms.quiet_from, terms.quiet_until)


def _check_quiet(quiet_from: time | None, quiet_until: time | None) -> None:
    if (quiet_from is None) != (quiet_until is None):
        raise RefusedFieldError("quiet hours have a beginning and an end", field="quiet_until")
    if quiet_from is None or quiet_until is None:
        return
    if quiet_from == quiet_until:
        raise RefusedFieldError(
            "quiet hours end at another time than they begin: to hear nothing choose “not at all”",
            field="quiet_until",
        )
    if quiet_from.tzinfo or quiet_until.tzinfo:
        raise RefusedFieldError("times of day have no zone of their own", field="quiet_from")

"""Links in a person's mail by which he hears no more of such: signed, and without a log-in."""

from dataclasses import replace

from django.conf import settings
from django.core import signing
from django.db import transaction
from django.urls import reverse

from fleetwatch.accounts.models import User
from fleetwatch.alerts.messaging.address_book import preference_of
from fleetwatch.alerts.messaging.preferences import PreferenceTerms, set_preference
from fleetwatch.alerts.models import Preference

SALT = "alerts.unsubscribing"
# what a link stops, as its page says it
STOPS = {"alerts": "messages of incidents", "digest": "the weekly digest"}


def unsubscribe_url(user: User, what: str) -> str:
    """The address that stops `what`, of STOPS, for this person; it does not expire."""
    token = signing.dumps([user.pk, what], salt=SALT)
    return f"{settings.PUBLIC_URL}{reverse('unsubscribe', args=[token])}"


def read_token(token: str) -> tuple[User, str] | None:
    """Whose link it is, and what it stops; None where it is none of ours, or nobody's any more."""
    try:
        pk, what = signing.loads(token, salt=SALT)
    except signing.BadSignature:
        return None
    user = User.objects.filter(pk=pk, is_active=True).select_related("alert_preference").first()
    return None if user is None else (user, what)


@transaction.atomic
def unsubscribe(user: User, what: str) -> None:
    """The person hears no more of it; all else stays as it was set. Twice is once."""
    now = preference_of(user)
    before = PreferenceTerms(
        way=now.way,
        time_zone=now.time_zone,
        quiet_from=now.quiet_from,
        quiet_until=now.quiet_until,
        daily_cap=now.daily_cap,
        gets_digest=now.gets_digest,
    )
    after = replace(before, gets_digest=False)
    if what == "alerts":
        after = replace(before, way=Preference.Way.NONE)
    if after != before:
        set_preference(user, after, by=user)

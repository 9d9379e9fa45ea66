"""How whoever asks hears of things, in the API: nobody reads or sets another one's."""

from datetime import time
from typing import Annotated

from django.http import HttpRequest
from ninja import Body, Router, Schema
from ninja.security import django_auth
from pydantic import Field

from fleetwatch.accounts.models import User
from fleetwatch.alerts.messaging.address_book import preference_of
from fleetwatch.alerts.messaging.preferences import MOST_A_DAY, PreferenceTerms, set_preference
from fleetwatch.alerts.models import Preference
from fleetwatch.api.auth import WriteToken
from fleetwatch.api.schemas import NameGiven
from fleetwatch.api.vocabulary import NotificationWay

router = Router(tags=["notifications"])


class PreferenceRow(Schema):
    """By which way (`any`: Slack, else e-mail), in which time zone ("": the organisation's), not
    between these times of day (null: whenever), at most so many messages a day, and whether the
    weekly digest comes.
    """

    way: NotificationWay
    time_zone: Annotated[NameGiven, Field(max_length=64)]
    quiet_from: time | None
    quiet_until: time | None
    daily_cap: int = Field(ge=0, le=MOST_A_DAY)
    gets_digest: bool


@router.get("/preferences", operation_id="getPreferences", response=PreferenceRow)
def preferences(request: HttpRequest) -> Preference:
    """How you hear of things."""
    user: User = getattr(request, "auth")  # noqa: B009 - Ninja's name for who asks
    return preference_of(user)


@router.put(
    "/preferences",
    operation_id="setPreferences",
    response=PreferenceRow,
    auth=[WriteToken(), django_auth],
)
def change_preferences(request: HttpRequest, wanted: Body[PreferenceRow]) -> Preference:
    """How you hear of things from now on, as a whole: read it, change it, send it back."""
    user: User = getattr(request, "auth")  # noqa: B009 - Ninja's name for who asks
    return set_preference(user, PreferenceTerms(**wanted.dict()), by=user)

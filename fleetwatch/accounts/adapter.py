"""How allauth behaves here: no open sign-up."""

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class InvitationOnly(DefaultAccountAdapter):  # type: ignore[misc]
    """Accounts are made by an admin, never by a visitor."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

"""What all of our management commands are."""

from django.core.management.base import BaseCommand


class HubCommand(BaseCommand):
    """Starts at once: pages and models are checked by `make lint`, not before each command."""

    requires_system_checks: list[str] = []

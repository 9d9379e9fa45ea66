"""Which findings an operator approved, by the room above that settings name."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from fleetwatch.diagnosis.findings.alternatives import Key


class Exemption(Protocol):
    """Why, and until when."""

    @property
    def reason(self) -> str: ...
    @property
    def ends_at(self) -> datetime: ...


def exemptions(keys: Collection[Key], now: datetime) -> Mapping[Key, Exemption]:
    """Of these jobs and causes those that are exempt now."""
    asked: Callable[[Collection[Key], datetime], Mapping[Key, Exemption]] = import_string(
        settings.EXEMPT_FINDINGS
    )
    return asked(keys, now)

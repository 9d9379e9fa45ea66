"""Which policies of the ledger were in force since when, and what each changed."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime

from fleetwatch.accounts.models import AuditEntry
from fleetwatch.dashboard import threshold_words
from fleetwatch.dashboard.trial_pages import Change
from fleetwatch.ledger.models import Policy as PolicyRow
from fleetwatch.ledger.policy import Policy

MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A policy, when it came into force, by whom ("": that is not known), and its thresholds that
    the one before it had otherwise; of the first of all none.
    """

    version: int
    since: datetime
    by: str
    changes: list[Change]

    @property
    def is_first(self) -> bool:
        """Whether it judged all that was recorded before another one was in force."""
        return self.version == 1


def policy_versions() -> list[PolicyVersion]:
    """The newest first."""
    newest = list(PolicyRow.objects.order_by("-version")[: MAX_SHOWN + 1])
    by = _set_by()
    earlier = [*newest[1:], newest[-1]] if newest else []
    lines = [
        PolicyVersion(row.version, row.created_at, by.get(row.version, ""), _changes(before, row))
        for row, before in zip(newest, earlier, strict=True)
    ]
    return lines[:MAX_SHOWN]


def _set_by() -> Mapping[int, str]:
    """By version who set it."""
    entries = AuditEntry.objects.filter(action="policy.set").values_list("subject", "name")
    return {
        int(number): name
        for subject, name in entries
        if (number := subject.rpartition(" ")[2]).isdecimal()
    }


def _changes(before: PolicyRow, row: PolicyRow) -> list[Change]:
    old, new = (Policy.from_json(each.thresholds) for each in (before, row))
    return [
        Change(threshold_words.LABELS[name], *(_written(policy, name) for policy in (old, new)))
        for name in (field.name for field in fields(Policy))
        if getattr(old, name) != getattr(new, name)
    ]


def _written(policy: Policy, name: str) -> str:
    return threshold_words.written(getattr(policy, name), threshold_words.UNITS[name])

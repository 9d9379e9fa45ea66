"""A second rule of a condition: made from another one, called something else, removed."""

from datetime import datetime
from glob import escape

from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.alerts.models import Incident, Rule, Silence
from fleetwatch.lib.refusal import RefusedFieldError, is_name

MAX_NAME = 100
MAX_RULES = 100  # each is evaluated every minute


@transaction.atomic
def copy_rule(rule: Rule, *, now: datetime) -> Rule:
    """A rule set like this one, switched off until somebody has set it. Raises RefusedFieldError
    where there are too many.
    """
    if Rule.objects.count() >= MAX_RULES:
        raise RefusedFieldError(f"There are {MAX_RULES} rules already: remove one first.")
    channels = list(rule.channels.all())
    copied = Rule.objects.get(pk=rule.pk)
    copied.pk = None
    copied._state.adding = True
    copied.name = _free_name(rule.name)
    copied.is_shipped = copied.is_enabled = False
    copied.created_at = now
    copied.evaluated_ms = None
    copied.save()
    copied.channels.set(channels)
    record("rule.copy", copied.name, of=rule.name)
    return copied


@transaction.atomic
def rename_rule(rule: Rule, name: str) -> None:
    """Twice changes nothing. Raises RefusedFieldError."""
    if name == rule.name:
        return
    if not name or not is_name(name, longest=MAX_NAME):
        raise RefusedFieldError(f"A name has 1 to {MAX_NAME} characters, on one line", field="name")
    if Rule.objects.filter(name=name).exists():
        raise RefusedFieldError(f"There is a rule {name!r} already", field="name")
    record("rule.rename", name, before=rule.name)
    _rename_in_silences(escape(rule.name), escape(name))
    rule.name = name
    rule.save(update_fields=["name"])


@transaction.atomic
def remove_rule(rule: Rule, *, now: datetime) -> int:
    """Removes a copy that is switched off; how many incidents of it stay, for the history.

    Raises RefusedFieldError for a rule that ships with FleetWatch, that is switched on, or of which
    something still goes on.
    """
    rule = Rule.objects.select_for_update().get(pk=rule.pk)
    if rule.is_shipped:
        raise RefusedFieldError(f"{rule.name} ships with FleetWatch: switch it off instead.")
    if rule.is_enabled:
        raise RefusedFieldError("Switch it off first.")
    if Incident.objects.filter(rule=rule, ended_ms=None).exists():
        raise RefusedFieldError("Its incidents are resolved within a minute: then it can go.")
    incidents: int = rule.incidents.count()
    record("rule.remove", rule.name, condition=rule.condition, incidents=incidents)
    rule.removed_at = now
    rule.save(update_fields=["removed_at"])
    return incidents


def _rename_in_silences(before: str, after: str) -> None:
    """What is not told, and why, stays so: silences name their rule, as patterns."""
    naming = Silence.objects.filter(matchers__contains=[{"label": "rule", "values": [before]}])
    for silence in naming.select_for_update():
        for matcher in silence.matchers:
            if matcher["label"] == "rule":
                values = [after if value == before else value for value in matcher["values"]]
                matcher["values"] = values
        silence.save(update_fields=["matchers"])


def _free_name(name: str) -> str:
    """The name with the first number that makes it new."""
    taken_names = set(Rule.objects.values_list("name", flat=True))
    numbered = (f"{name[: MAX_NAME - 5]} ({number})" for number in range(2, MAX_RULES + 3))
    return next(each for each in numbered if each not in taken_names)

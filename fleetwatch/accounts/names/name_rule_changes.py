"""Rules of names are set and dropped by an admin, who sees before what one would give."""

from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, transaction

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import NameRule, User
from fleetwatch.accounts.people import RuledName, check_cluster, follow_rules
from fleetwatch.lib.refusal import RefusedFieldError, is_name

MAX_DOMAIN = 253  # of DNS


@dataclass(frozen=True, slots=True)
class NewNameRule:
    """As an admin asks for it; `domain` is of addresses alone."""

    takes: str
    domain: str = ""
    cluster: str = ""


def dry_run(new: NewNameRule, *, now: datetime) -> list[RuledName]:
    """What set_rule would give and what it can't: it is that itself, taken back.

    Raises RefusedFieldError as it does.
    """
    with transaction.atomic():
        names = set_rule(new, now=now)
        transaction.set_rollback(True)
    return names


@transaction.atomic
def set_rule(new: NewNameRule, *, now: datetime) -> list[RuledName]:
    """Everybody has the rule's names at once, and who comes later from then on; a name that is
    somebody else's stays theirs.

    Raises RefusedFieldError for a rule that there can't be, or is already.
    """
    rule = _checked(new, now)
    try:
        with transaction.atomic():
            rule.save()
    except IntegrityError as error:
        raise RefusedFieldError("there is this rule already", field="takes") from error
    record("name.rule_set", rule.text)
    return _follow(now)


@transaction.atomic
def drop_rule(rule: NameRule, *, now: datetime) -> None:
    """What the rule alone gave is nobody's any more."""
    record("name.rule_drop", rule.text)
    rule.delete()
    _follow(now)


def _checked(new: NewNameRule, now: datetime) -> NameRule:
    if new.takes not in NameRule.Takes.values:
        raise RefusedFieldError("Choose one of the list.", field="takes")
    check_cluster(new.cluster)
    domain = ""
    if new.takes == NameRule.Takes.EMAIL:
        domain = new.domain.removeprefix("@").casefold()
        # of any domain whoever has an address somewhere would be who he is not
        if not domain or "@" in domain or " " in domain or not is_name(domain, longest=MAX_DOMAIN):
            raise RefusedFieldError("Of which domain, such as example.org?", field="domain")
    return NameRule(takes=new.takes, domain=domain, cluster=new.cluster, created_at=now)


def _follow(now: datetime) -> list[RuledName]:
    rules = list(NameRule.objects.all())
    everybody = User.objects.filter(is_active=True).prefetch_related("identities")
    return [
        name
        for user in everybody.order_by("username")
        for name in follow_rules(user, rules, now=now)
    ]

"""Rules that say which Unix user a person is, on one cluster or on all: by the user name here, or
by the e-mail address.
"""

from collections.abc import Iterable

from fleetwatch.accounts.models import NameRule, User

ClusterName = tuple[str, str]  # "" is every cluster


def name_by(rule: NameRule, user: User) -> str:
    """What the rule says that the user is called; "" where it says nothing."""
    if rule.takes == NameRule.Takes.USERNAME:
        return "" if user.chose_name else user.username
    name, _, domain = user.email.rpartition("@")
    return name.lower() if domain.casefold() == rule.domain else ""


def names_by(rules: Iterable[NameRule], user: User) -> set[ClusterName]:
    """Each name that a rule gives to the user, with its cluster."""
    named = {(rule.cluster, name_by(rule, user)) for rule in rules}
    return {(cluster, name) for cluster, name in named if name}

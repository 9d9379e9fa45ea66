"""A policy with some thresholds changed, as an operator writes them. Pure."""

import math
from collections.abc import Iterable

from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.refusal import RefusedFieldError


def changed(policy: Policy, changes: Iterable[str]) -> Policy:
    """The policy with each `name=number` in it.

    Raises RefusedFieldError for what no policy can say, and for no change at all.
    """
    thresholds = policy.to_json()
    for change in changes:
        name, separator, text = change.partition("=")
        if not separator or name not in thresholds:
            names = ", ".join(thresholds)
            raise RefusedFieldError(f"{change!r} is no KEY=VALUE of a policy; there is {names}")
        thresholds[name] = _number(name, text)
    new = Policy.from_json(thresholds)
    if new == policy:
        raise RefusedFieldError("that is the policy in force already")
    return new


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise RefusedFieldError(f"{name}: expected a number, not {text!r}") from None
    if not math.isfinite(value):
        raise RefusedFieldError(f"{name}: expected a number, not {text!r}")
    return value

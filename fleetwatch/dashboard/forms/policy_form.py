"""The form that puts a policy of the ledger in force that was tried."""

from dataclasses import fields
from datetime import date

from django.db import transaction

from fleetwatch.dashboard.forms.asked import Asked, Done
from fleetwatch.ledger import services
from fleetwatch.ledger.changed_policy import changed
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.selectors import current_policy
from fleetwatch.lib.refusal import RefusedFieldError


@transaction.atomic
def put_in_force(asked: Asked) -> Done:
    """The policy that was tried, from now on; and for what is kept since a day, where one is said.

    Raises RefusedFieldError, also where another one came into force since it was tried.
    """
    policy = _read(asked)
    since = _repost_start(asked)
    row = services.set_policy(policy, now=asked.now)
    done = f"Policy {row.version} is in force: it judges what is posted from now on"
    if since is None:
        return Done(f"{done}.")
    hours = services.repost_since(since)
    return Done(f"{done}, and {hours:,} hour{'' if hours == 1 else 's'} of nodes again.")


def _read(asked: Asked) -> Policy:
    version, in_force = current_policy()
    if asked.text("version") != str(version):
        raise RefusedFieldError(f"Policy {version} came into force meanwhile: try it again.")
    values = {each.name: asked.text(each.name) for each in fields(Policy)}
    return changed(in_force, [f"{name}={value}" for name, value in values.items() if value])


def _repost_start(asked: Asked) -> int | None:
    """From when on hours are judged again, in ms; None = none are."""
    text = asked.text("repost_from")
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise RefusedFieldError("Judge again since: a day like 2026-11-01, please.") from None
    return services.repost_start(day, now=asked.now)

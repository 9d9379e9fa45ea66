"""What lets agents in: agent tokens (one node each) and enrolment tokens (some nodes, for some
time).
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Greatest

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.clients import network_of
from fleetwatch.accounts.selectors import locked_organisation
from fleetwatch.accounts.services import digest, hint, new_secret
from fleetwatch.ingest.models import MAX_USES, AgentToken, Enrollment, EnrollmentToken, Rights
from fleetwatch.inventory.services import lock_node, node_by_name
from fleetwatch.inventory.steady import forget
from fleetwatch.lib.refusal import RefusedFieldError

MAX_TTL = timedelta(days=366)
NO_RIGHTS = Rights()
CLUSTER = re.compile(r"[^\s/\x00]{1,128}")
# An agent token's last use is for people, and its node's last batch is known anyway.
USE_NOTED_EVERY = timedelta(minutes=5)
NETWORK_BITS = {"ipv4": 24, "ipv6": 48}  # what one site usually has: another one is worth a look

log = structlog.get_logger(__name__)


class UnknownTokenError(Exception):
    """The token is unknown, revoked, expired or used up: which of them is told to nobody."""


class NodeEnrolledError(Exception):
    """The node has a live token; an admin revokes it first."""


@transaction.atomic
def create_agent_token(node_name: str, now: datetime, rights: Rights = NO_RIGHTS) -> str:
    """A new token for the node, shown only here; the node is made when it is new. Older tokens
    stay.

    Raises RefusedFieldError for a name that no node or cluster can have, and while the demo is
    loaded: what it would tell is not to be mixed with that.
    """
    # locked: who loads the demo meanwhile waits, and then finds the node
    if locked_organisation().demo_since is not None:
        raise RefusedFieldError("this hub shows the demo: remove it first, then nodes come in")
    _check(rights)
    text = new_secret()
    AgentToken.objects.create(
        node=node_by_name(node_name),
        digest=digest(text),
        hint=hint(text),
        created_at=now,
        may_import=rights.may_import,
        speaks_for=rights.speaks_for,
    )
    record("agent.token", node_name, token=hint(text))
    return text


@transaction.atomic
def set_rights(token_id: int, rights: Rights) -> None:
    """From the next batch on the token may say this, by the short way too.

    Raises RefusedFieldError for a name that no cluster can have.
    """
    _check(rights)
    token = AgentToken.objects.select_for_update(no_key=True).get(pk=token_id)
    token.may_import = rights.may_import
    token.speaks_for = rights.speaks_for
    token.save(update_fields=["may_import", "speaks_for"])
    record("agent.token_rights", token.node.name, rights=rights.in_words)
    forget([token.node_id])


def _check(rights: Rights) -> None:
    if rights.speaks_for and not CLUSTER.fullmatch(rights.speaks_for):
        raise RefusedFieldError(
            "a cluster's name has 1 to 128 characters, none of them a space or a slash"
        )


@transaction.atomic
def create_enrollment_token(now: datetime, *, uses: int, ttl: timedelta) -> str:
    """A new enrolment token for `uses` nodes within `ttl`, shown only here.

    Raises RefusedFieldError out of range.
    """
    if not 1 <= uses <= MAX_USES:
        raise RefusedFieldError(f"uses: expected 1 to {MAX_USES}, not {uses}")
    if not timedelta(0) < ttl <= MAX_TTL:
        raise RefusedFieldError("ttl: expected more than nothing and at most 366 days")
    text = new_secret()
    EnrollmentToken.objects.create(
        digest=digest(text), hint=hint(text), created_at=now, expires_at=now + ttl, uses_left=uses
    )
    record("agent.enrollment", hint(text), uses=uses, days=ttl.days)
    return text


def node_id_of(text: str, now: datetime) -> int:
    """The id of the node that the agent token speaks for; its use is not noted.

    Raises UnknownTokenError.
    """
    node_id = (
        AgentToken.objects.filter(digest=digest(text), revoked_at__isnull=True)
        .values_list("node_id", flat=True)
        .first()
    )
    if node_id is None:
        raise UnknownTokenError
    return node_id


def agent_token(text: str, now: datetime) -> AgentToken:
    """The live agent token with this text, its use noted. Raises UnknownTokenError."""
    token = (
        AgentToken.objects.select_related("node")
        .filter(digest=digest(text), revoked_at__isnull=True)
        .first()
    )
    if token is None:
        raise UnknownTokenError
    if token.last_used_at is None or now - token.last_used_at >= USE_NOTED_EVERY:
        token.last_used_at = now
        token.save(update_fields=["last_used_at"])
    return token


def note_use(token_ids: Iterable[int], now: datetime) -> None:
    """Notes the use of agent tokens that nobody read: their batches came the short way."""
    AgentToken.objects.filter(pk__in=list(token_ids)).update(
        last_used_at=Greatest("last_used_at", now)
    )


def hold_live(token_id: int) -> None:
    """Until the transaction ends nobody revokes the agent token.

    Raises UnknownTokenError when it is revoked.
    """
    if (
        not AgentToken.objects.select_for_update(no_key=True)
        .filter(pk=token_id, revoked_at__isnull=True)
        .exists()
    ):
        raise UnknownTokenError


@transaction.atomic
def enroll(text: str, node_name: str, now: datetime, *, address: str = "") -> str:
    """A new agent token for the node, in exchange for one use of the enrolment token; `address` is
    where the agent is.

    Raises UnknownTokenError, NodeEnrolledError, RefusedFieldError (no node's name); none of them
    costs a use.
    """
    usable = _usable(text, now)
    # the UPDATE locks the row: of two agents at once with one use left, one is refused
    if not usable.update(uses_left=F("uses_left") - 1):
        raise UnknownTokenError
    node = lock_node(node_by_name(node_name).pk)
    if node.agent_tokens.filter(revoked_at__isnull=True).exists():
        raise NodeEnrolledError(f"{node_name} has a live token; revoke it first")
    given = create_agent_token(node_name, now)
    token = EnrollmentToken.objects.get(digest=digest(text))
    _note_enrolment(
        token, AgentToken.objects.select_related("node").get(digest=digest(given)), now, address
    )
    return given


def _usable(text: str, now: datetime) -> QuerySet[EnrollmentToken]:
    return EnrollmentToken.objects.filter(
        digest=digest(text), revoked_at__isnull=True, expires_at__gt=now, uses_left__gt=0
    )


def _note_enrolment(
    token: EnrollmentToken, agent_token: AgentToken, now: datetime, address: str
) -> None:
    network = network_of(address, **NETWORK_BITS)
    is_new = Enrollment.objects.exists() and not Enrollment.objects.filter(network=network).exists()
    Enrollment.objects.create(
        token=token,
        agent_token=agent_token,
        at=now,
        address=address or None,
        network=network,
        is_new_network=is_new,
    )
    if is_new:
        node = agent_token.node.name
        log.warning(
            "node enrolled from a network that none had enrolled from before",
            node=node,
            address=address,
            token=token.hint,
        )


def check_enrollment_token(text: str, now: datetime) -> None:
    """Raises UnknownTokenError unless the enrolment token could be used now."""
    if not _usable(text, now).exists():
        raise UnknownTokenError


@transaction.atomic
def revoke_agent_token(token_id: int, now: datetime) -> None:
    """Ends the token at once, the short way too (inventory/steady.py); its node can enrol again."""
    token = AgentToken.objects.select_for_update(no_key=True).get(pk=token_id)
    if token.revoked_at is None:
        token.revoked_at = now
        token.save(update_fields=["revoked_at"])
        record("agent.token_revoke", token.node.name, token=token.hint)
        forget([token.node_id])


@transaction.atomic
def revoke_enrollment_token(token_id: int, now: datetime) -> None:
    """Ends the enrolment token at once; agents that it let in stay."""
    token = EnrollmentToken.objects.filter(pk=token_id, revoked_at=None).first()
    if token is not None:
        token.revoked_at = now
        token.save(update_fields=["revoked_at"])
        record("agent.enrollment_revoke", token.hint)

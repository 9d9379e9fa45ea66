"""Reads of ingest, for pages."""

from collections.abc import Iterable
from datetime import datetime

from fleetwatch.ingest.models import AgentToken, Enrollment, EnrollmentToken
from fleetwatch.inventory.models import Node


def agent_tokens(node: Node | None = None) -> list[AgentToken]:
    """All agent tokens, or the node's, with their nodes and the enrolments that gave them, by node,
    live ones first.
    """
    rows = AgentToken.objects.select_related("node", "enrollment__token")
    if node is not None:
        rows = rows.filter(node=node)
    return list(rows.order_by("node__name", "-revoked_at", "id"))


def enrollment_tokens(now: datetime) -> list[EnrollmentToken]:
    """Enrolment tokens that can still be used, the newest first."""
    usable = EnrollmentToken.objects.filter(
        revoked_at__isnull=True, expires_at__gt=now, uses_left__gt=0
    )
    return list(usable.order_by("-created_at"))


def newest_enrollments(tokens: Iterable[AgentToken], limit: int) -> list[Enrollment]:
    """Of these agent tokens, by which enrolments the newest were given."""
    enrollments = [token.enrollment for token in tokens if hasattr(token, "enrollment")]
    return sorted(enrollments, key=lambda each: (each.at, each.pk), reverse=True)[:limit]

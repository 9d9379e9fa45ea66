"""Reads of ingest, for the settings page."""

from datetime import datetime

from fleetwatch.ingest.models import AgentToken, EnrollmentToken


def agent_tokens() -> list[AgentToken]:
    """All agent tokens with their nodes, by node, live ones first."""
    return list(AgentToken.objects.select_related("node").order_by("node__name", "-revoked_at", "id"))


def enrollment_tokens(now: datetime) -> list[EnrollmentToken]:
    """Enrolment tokens that can still be used, the newest first."""
    usable = EnrollmentToken.objects.filter(revoked_at__isnull=True, expires_at__gt=now, uses_left__gt=0)
    return list(usable.order_by("-created_at"))

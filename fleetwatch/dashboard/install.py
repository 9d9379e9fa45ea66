"""The line that people paste on a GPU host."""

from django.conf import settings

from fleetwatch.ingest import agent_package


def install_command(token: str) -> str:
    """Installs an agent from this server and lets it in by an enrolment or agent token."""
    return agent_package.install_command(settings.PUBLIC_URL, token)

"""The lines that people paste on a GPU host."""

from datetime import timedelta

from django.conf import settings

from fleetwatch.api import cli_package
from fleetwatch.ingest import agent_package

# what an enrolment token is offered with
USES = 10
VALID_FOR = timedelta(days=1)


def install_command(token: str) -> str:
    """Installs an agent from this server and lets it in by an enrolment or agent token."""
    return agent_package.install_command(settings.PUBLIC_URL, token)


def cli_command() -> str:
    """The line that installs the command line for people, and logs in."""
    return cli_package.install_command(settings.PUBLIC_URL)


def upgrade_command() -> str:
    """Brings this server's agent to a host that has one: token, settings and queue stay."""
    return agent_package.upgrade_command(settings.PUBLIC_URL)


def agent_version() -> str:
    """Of the agent that this server hands out."""
    return agent_package.version()

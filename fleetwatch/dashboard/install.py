"""The line that people paste on a GPU host."""

from django.conf import settings


def install_command(token: str) -> str:
    """Installs an agent from this server and lets it in by an enrolment or agent token."""
    server = settings.PUBLIC_URL
    return f"curl -fsSL {server}/agent/install.sh | sudo sh -s -- --server {server} --token {token}"

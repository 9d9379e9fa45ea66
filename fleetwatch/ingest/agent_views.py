"""The agent's own files, for hosts that have nothing yet: no token is asked for, there is no secret
in them.
"""

import shlex

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from fleetwatch.ingest import agent_package

FILE_NAME = "fleetwatch-agent.pyz"
# The script's own line without a server; the one that is served knows its hub, and --server still
# goes first.
NO_SERVER = '\nSERVER="" '


@require_safe
def package(request: HttpRequest) -> HttpResponse:
    """The agent as one file."""
    return HttpResponse(
        agent_package.build(),
        content_type="application/octet-stream",
        headers={
            "Content-Disposition": f'attachment; filename="{FILE_NAME}"',
            "ETag": f'"{agent_package.checksum()}"',
        },
    )


@require_safe
def checksum(request: HttpRequest) -> HttpResponse:
    """The file's SHA-256, in the form that `sha256sum -c` reads."""
    return HttpResponse(
        f"{agent_package.checksum()}  {FILE_NAME}\n", content_type="text/plain; charset=utf-8"
    )


@require_safe
def install_script(request: HttpRequest) -> HttpResponse:
    """The script that installs the agent, with this hub's address and the file's checksum in it."""
    server = f"\nSERVER={shlex.quote(settings.PUBLIC_URL)} "
    script = agent_package.install_script().replace(NO_SERVER, server, 1)
    return HttpResponse(script, content_type="text/x-shellscript; charset=utf-8")

"""The command line's one file and its checksum, for whoever has an account or not: there is no
secret in them.
"""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from fleetwatch.api import cli_package


@require_safe
def cli_file(request: HttpRequest) -> HttpResponse:
    """`fleetwatch` as one file that knows this hub."""
    return HttpResponse(
        cli_package.build(settings.PUBLIC_URL),
        content_type="application/octet-stream",
        headers={
            "Content-Disposition": f'attachment; filename="{cli_package.COMMAND}"',
            "ETag": f'"{cli_package.checksum(settings.PUBLIC_URL)}"',
        },
    )


@require_safe
def cli_checksum(request: HttpRequest) -> HttpResponse:
    """The file's SHA-256, in the form that `sha256sum -c` reads."""
    return HttpResponse(
        f"{cli_package.checksum(settings.PUBLIC_URL)}  {cli_package.COMMAND}\n",
        content_type="text/plain; charset=utf-8",
    )

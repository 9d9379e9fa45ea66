"""The read API under /api/v1, the command line that reads it, /metrics, /healthz and /readyz.

Ingest's /api/v1/batches and /enroll stand before these.
"""

from django.urls import path, re_path

from fleetwatch.api import cli_views, views
from fleetwatch.api.v1 import api

urlpatterns = [
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
    path("metrics", views.metrics, name="metrics"),
    path("cli/fleetwatch", cli_views.cli_file, name="cli_file"),
    path("cli/fleetwatch.sha256", cli_views.cli_checksum, name="cli_checksum"),
    path("api/v1/openapi.json", views.openapi, name="api-openapi"),
    path("api/v1/docs", views.docs, name="api-docs"),
    path("api/v1/", views.nothing_here, {"path": ""}),
    path("api/v1/", api.urls),
    # the s: a line break in an address is no way out of the API
    re_path(r"^api/v1/(?P<path>(?s:.*))\Z", views.nothing_here),
]

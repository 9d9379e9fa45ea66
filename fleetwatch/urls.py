"""Every address of FleetWatch, by room."""

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("accounts/", include("fleetwatch.accounts.urls")),
    path("", include("fleetwatch.accounts.device_urls")),
    # before the read API: /api/v1/batches and /enroll are plain views
    path("", include("fleetwatch.ingest.urls")),
    path("", include("fleetwatch.alerts.urls")),
    path("", include("fleetwatch.actions.urls")),
    path("", include("fleetwatch.api.urls")),
    path("", include("fleetwatch.dashboard.urls")),
]

handler404 = "fleetwatch.dashboard.error_page.not_found"
handler403 = "fleetwatch.dashboard.error_page.permission_denied"
handler500 = "fleetwatch.dashboard.error_page.server_error"

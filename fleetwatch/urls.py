"""Every address of FleetWatch, by room."""

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("accounts/", include("fleetwatch.accounts.urls")),
    path("", include("fleetwatch.ingest.urls")),
]

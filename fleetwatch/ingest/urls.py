"""Addresses of the door."""

from django.urls import path

from fleetwatch.ingest import agent_views, views

urlpatterns = [
    path("api/v1/batches", views.batches, name="ingest_batches"),
    path("api/v1/enroll", views.enroll, name="ingest_enroll"),
    path("agent/fleetwatch-agent.pyz", agent_views.package, name="agent_package"),
    path("agent/fleetwatch-agent.pyz.sha256", agent_views.checksum, name="agent_checksum"),
    path("agent/install.sh", agent_views.install_script, name="agent_install_script"),
]

"""Addresses of the door."""

from django.urls import path

from fleetwatch.ingest import views

urlpatterns = [
    path("api/v1/batches", views.batches, name="ingest_batches"),
    path("api/v1/enroll", views.enroll, name="ingest_enroll"),
]

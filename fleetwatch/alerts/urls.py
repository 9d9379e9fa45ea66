"""Addresses of alerts that are no pages."""

from django.urls import path

from fleetwatch.alerts import views

urlpatterns = [path("slack/interactivity", views.slack_interactivity, name="slack_interactivity")]

"""Addresses of alerts that need no session."""

from django.urls import path

from fleetwatch.alerts import views

urlpatterns = [
    path("slack/interactivity", views.slack_interactivity, name="slack_interactivity"),
    path("notifications/unsubscribe/<str:token>", views.unsubscribe, name="unsubscribe"),
    path("notifications/act/<str:token>", views.mail_link, name="mail_link"),
]

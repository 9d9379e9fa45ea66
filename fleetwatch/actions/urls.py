"""Addresses of actions that need no session."""

from django.urls import path

from fleetwatch.actions import views

urlpatterns = [path("actions/keep/<str:token>", views.keep_job, name="keep_job")]

from django.apps import AppConfig


class ReportsConfig(AppConfig):
    name = "fleetwatch.reports"

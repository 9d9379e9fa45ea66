from importlib import import_module

from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "fleetwatch.alerts"

    def ready(self) -> None:
        import_module("fleetwatch.alerts.shipped_rules")

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "fleetwatch.operations"

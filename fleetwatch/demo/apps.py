from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "fleetwatch.demo"

from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "fleetwatch.jobs"

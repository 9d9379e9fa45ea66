from django.apps import AppConfig


class NotifyConfig(AppConfig):
    name = "fleetwatch.notify"

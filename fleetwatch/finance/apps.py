from django.apps import AppConfig


class FinanceConfig(AppConfig):
    name = "fleetwatch.finance"

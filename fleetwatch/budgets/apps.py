from django.apps import AppConfig


class BudgetsConfig(AppConfig):
    name = "fleetwatch.budgets"
    default_auto_field = "django.db.models.BigAutoField"

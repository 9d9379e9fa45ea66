from django.apps import AppConfig


class InventoryConfig(AppConfig):
    name = "fleetwatch.inventory"

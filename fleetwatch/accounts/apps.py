from importlib import import_module

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "fleetwatch.accounts"

    def ready(self) -> None:
        import_module("fleetwatch.accounts.logins")
        import_module("fleetwatch.accounts.single_sign_on")
        import_module("fleetwatch.accounts.second_factor")

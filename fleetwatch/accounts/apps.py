from importlib import import_module

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "fleetwatch.accounts"

    def ready(self) -> None:
        import_module("fleetwatch.accounts.log_in.logins")
        import_module("fleetwatch.accounts.log_in.single_sign_on")
        import_module("fleetwatch.accounts.log_in.second_factor")

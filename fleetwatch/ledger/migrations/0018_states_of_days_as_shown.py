"""Rows of days with nine states are made again with eleven: busy, unverified, and waiting apart."""

from django.db import migrations

FORGET = "DELETE FROM ledger_stateday"


class Migration(migrations.Migration):
    dependencies = [("ledger", "0017_idle_power_of_gpus")]

    operations = [migrations.RunSQL(FORGET, FORGET)]

"""The view costs_owned names a job's user too: who asks whose jobs are reads them once."""

from importlib import import_module

from django.db import migrations

_BEFORE = import_module("fleetwatch.costs.migrations.0014_asked_and_owned_views")
OWNED = _BEFORE.OWNED.replace("AS valid_to\n", 'AS valid_to,\n    job."user"\n')
DROP = "DROP VIEW costs_owned"


class Migration(migrations.Migration):
    dependencies = [("costs", "0020_current_sums_by_versions")]

    operations = [migrations.RunSQL(DROP, _BEFORE.OWNED), migrations.RunSQL(OWNED, DROP)]

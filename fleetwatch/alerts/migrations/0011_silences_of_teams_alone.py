"""What leads silence is their teams' alone: those that they set already too."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

OF_LEADS = ("silence", "maintenance")


def mark_those_of_leads(apps: Apps, _: BaseDatabaseSchemaEditor) -> None:
    silences = apps.get_model("alerts", "Silence").objects
    of_leads = silences.filter(kind__in=OF_LEADS, by__role="lead", by__is_superuser=False)
    of_leads.update(is_of_teams_alone=True)


class Migration(migrations.Migration):
    dependencies = [("alerts", "0010_runs_after")]

    operations = [
        migrations.AddField(
            "silence",
            "is_of_teams_alone",
            models.BooleanField(
                default=False,
                help_text="a lead's: not of what another team than the named has a part in",
            ),
        ),
        migrations.RunPython(mark_those_of_leads, migrations.RunPython.noop),
    ]

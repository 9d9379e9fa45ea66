"""The rule every hub starts with: a job that is idle for 30 minutes."""

from typing import Any

from django.db import migrations
from django.utils import timezone

MINUTES = 30


def create(apps: Any, schema_editor: Any) -> None:
    rules = apps.get_model("alerts", "Rule").objects
    if not rules.exists():
        rules.create(name="Job idle", condition="job_idle", threshold=MINUTES, created_at=timezone.now())


class Migration(migrations.Migration):
    dependencies = [("alerts", "0002_why_resolved_and_what_is_missing")]

    # Back: the rule stays; the table's own migration takes it away.
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]

"""An incident says why it was resolved, and what keeps us from knowing."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0001_initial")]

    operations = [
        migrations.AddField("incident", "resolution", models.CharField(blank=True, default="", help_text="why it was resolved", max_length=200)),
        migrations.AddField(
            "incident", "note", models.CharField(blank=True, default="", help_text="what keeps us from knowing: no data since ...", max_length=200)
        ),
        migrations.AlterField("incident", "facts", models.JSONField(default=dict, help_text="facts.Facts: what was true at updated_at")),
        migrations.AlterField(
            "rule", "channels", models.ManyToManyField(blank=True, help_text="none chosen = every channel", related_name="rules", to="notify.channel")
        ),
    ]

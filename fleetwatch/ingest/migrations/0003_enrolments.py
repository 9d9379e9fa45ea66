"""Which node came in by which enrolment token, when and from where."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ingest", "0002_at_most_1000_uses")]

    operations = [
        migrations.CreateModel(
            name="Enrollment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("address", models.GenericIPAddressField(help_text="the agent's, as the trusted proxies tell it", null=True)),
                ("network", models.CharField(db_index=True, help_text='its /24 or /48; "" = the address is not known', max_length=43)),
                ("is_new_network", models.BooleanField(help_text="nobody had enrolled from there before, and somebody from elsewhere")),
                (
                    "token",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="enrollments", to="ingest.enrollmenttoken"),
                ),
                (
                    "agent_token",
                    models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name="enrollment", to="ingest.agenttoken"),
                ),
            ],
        ),
    ]

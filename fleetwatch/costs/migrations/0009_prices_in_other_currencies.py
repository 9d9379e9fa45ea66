"""A rate has a currency, and currencies are exchanged for dollars from when on."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("costs", "0008_sums_are_made_again")]

    operations = [
        migrations.RemoveConstraint("rate", "a_rate_is_not_negative"),
        migrations.RenameField("rate", "usd_per_gpu_hour", "price_per_gpu_hour"),
        migrations.AddConstraint("rate", models.CheckConstraint(condition=Q(price_per_gpu_hour__gte=0), name="a_rate_is_not_negative")),
        migrations.AlterField(
            "rate", "price_per_gpu_hour", models.DecimalField(decimal_places=6, help_text="in its currency", max_digits=18)
        ),
        migrations.AddField(
            "rate",
            "currency",
            models.CharField(default="USD", help_text="ISO 4217; others than USD are converted by ExchangeRate", max_length=3),
        ),
        migrations.CreateModel(
            name="ExchangeRate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("currency", models.CharField(max_length=3)),
                ("usd_per_unit", models.DecimalField(decimal_places=8, max_digits=18)),
                ("valid_from", models.DateTimeField()),
                ("source", models.CharField(blank=True, default="", max_length=300)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("currency", "valid_from"), name="one_exchange_rate_per_currency_and_moment"),
                    models.CheckConstraint(condition=Q(usd_per_unit__gt=0), name="an_exchange_rate_is_above_zero"),
                    models.CheckConstraint(condition=~Q(currency="USD"), name="dollars_are_not_exchanged"),
                ],
            },
        ),
    ]

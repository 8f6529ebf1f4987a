"""The outbox."""

from django.db import migrations, models

from cdc_outbox.contrib.django.fields import EventIdField, PayloadField, UtcField
from cdc_outbox.contrib.django.operations import CreateOutbox
from cdc_outbox.contrib.django.settings import event_table

VERSIONS = {"postgresql": 1, "mysql": 1, "sqlite": 1}
"""Of the tables, when this was written. Later ones bring another migration, of ``UpgradeOutbox``."""


class Migration(migrations.Migration):
    """Make everything, and tell Django of the model."""

    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="OutboxEvent",
            fields=[
                ("id", EventIdField(primary_key=True, serialize=False)),
                ("aggregate_type", models.TextField(db_column="aggregatetype")),
                ("aggregate_id", models.TextField(db_column="aggregateid")),
                ("type", models.TextField()),
                ("payload", PayloadField(null=True)),
                ("sequence", models.BigIntegerField(null=True)),
                ("source", models.TextField()),
                ("created_at", UtcField()),
            ],
            options={
                "managed": False,
                "db_table": event_table(),
                "default_permissions": ("view",),
                "ordering": ("-id",),
                "verbose_name": "event",
            },
        ),
        CreateOutbox(),
    )

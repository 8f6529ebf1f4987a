"""The service's tables."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Make them."""

    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("customer", models.TextField()),
                ("total_cents", models.IntegerField()),
            ],
        ),
    )

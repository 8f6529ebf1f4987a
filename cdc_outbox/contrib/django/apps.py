"""The app, as Django finds it in ``INSTALLED_APPS``."""

from django.apps import AppConfig

from cdc_outbox.contrib.django import checks  # noqa: F401 - registers itself


class OutboxConfig(AppConfig):
    """The app ``cdc_outbox``."""

    name = "cdc_outbox.contrib.django"
    label = "cdc_outbox"
    verbose_name = "Outbox"

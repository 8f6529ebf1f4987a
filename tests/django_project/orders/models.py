"""What the service is about."""

from django.db import models


class Order(models.Model):
    """An order."""

    customer: "models.TextField[str, str]" = models.TextField()
    total_cents: "models.IntegerField[int, int]" = models.IntegerField()

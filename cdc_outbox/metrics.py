"""The seam between the components and whatever counts."""

from typing import Protocol


class Metrics(Protocol):
    """What a component tells about its work.

    Called on the component's own thread, once per occurrence and after the fact it counts is durable. An
    implementation must not raise and must not block.
    """

    def count(self, name: str, **labels: str) -> None:
        """Add one to the counter ``name`` (it ends in ``_total``) with these labels."""


class NoMetrics:
    """Count nothing."""

    def count(self, name: str, **labels: str) -> None:
        """Forget it."""

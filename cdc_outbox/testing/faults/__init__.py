"""Faults for users' tests: a consumer's handlers under duplicates, reorder, crashes and rebalances."""

from cdc_outbox.testing.faults.kit import HandlerFaults
from cdc_outbox.testing.faults.report import FaultReport, Problem, Repetition

__all__ = ["FaultReport", "HandlerFaults", "Problem", "Repetition"]

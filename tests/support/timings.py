"""How long tests wait: the values that stand in place of the product's defaults."""

from dataclasses import replace

from cdc_outbox.connect.deploy import DeployOptions
from cdc_outbox.connect.timings import Timings
from cdc_outbox.consumer import Limits

QUICK_TIMINGS = Timings(
    # A new slot waits for every transaction of the server that was open before it, also other tests'.
    timeout_seconds=300.0,
    poll_seconds=0.2,
    failed_seconds=1.5,
    stale_seconds=1.0,
    linger_seconds=3.0,
    restored_seconds=0.5,
    late_seconds=1.0,
    first_pause_seconds=0.05,
    longest_pause_seconds=0.5,
)
"""For tests that only wait. What passes by itself takes less than a third of these times on a machine at rest."""

SILENT_TIMINGS = replace(QUICK_TIMINGS, probe_seconds=0.5)
"""For commands that ask a system which will not answer."""

QUICK_OPTIONS = DeployOptions(stable_seconds=0.3, timings=QUICK_TIMINGS)
"""A deployment that counts as soon as the connector has read its slot for a moment."""

QUICK_LIMITS = Limits(parked_poll_seconds=0.1)
"""A consumer that soon notices what another process did to its parked events."""

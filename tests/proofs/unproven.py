"""What is not proven by running it: the code, and why, or what was tried."""

from collections.abc import Mapping

_REGISTRY = "needs a schema registry and its converters, which the public Maven repository does not hold"
_CLUSTER = "needs brokers that fail one by one; the stack has one"
_ON_THE_WAY = "needs a machine between the worker and a server with certificates"
_NO_SERVER = "needs a server that is not to be had here"

UNPROVEN: Mapping[str, str] = {
    "CC001": "is Connect's own finding: each proof by asking gets one",
    "CC110": "is a matter of milliseconds: `infra/bench latency` measures it",
    "CC114": "is a matter of time: with 3000 an event took 3.1 s instead of 1.1, too near to what a busy machine does",
    "CC115": _ON_THE_WAY,
    "CC116": _ON_THE_WAY,
    "CC119": "is CC110, CC258, CC335 and CC515 in one note; those are proven, or have a reason of their own",
    "CC122": "is no hazard, but the limit of what was looked at",
    "CC203": _CLUSTER,
    "CC204": "needs a broker that answers one of two requests under way, and not the other",
    "CC224": "is no hazard, but the limit of what was looked at",
    "CC256": _CLUSTER,
    "CC414": _REGISTRY,
    "CC417": _REGISTRY,
    "CC518": "needs an older release, for the newest has it fixed, and a restart at a moment that no test can choose",
    "CC615": "needs a PostgreSQL that keeps a connection and takes no confirmation on it",
    "CC620": "needs a pooler, and the stack has none",
    "CC801": f"{_NO_SERVER}: SQL Server",
    "CC802": f"{_NO_SERVER}: Oracle",
    "CC803": f"{_NO_SERVER}: Oracle",
    "CC804": f"{_NO_SERVER}: Oracle",
    "CC805": f"{_NO_SERVER}: MongoDB",
    "CC806": f"{_NO_SERVER}: MongoDB",
    "CC807": f"{_NO_SERVER}: MongoDB",
    "CC809": f"{_NO_SERVER}: MongoDB",
}

"""What came of a fault, as a line of a table."""

import sys
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of it.

    Args:
        seconds: From the fault until everything had gone on.
    """

    events: int
    seconds: float
    violations: list[str] = field(default_factory=list)


def tell(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def tell_columns() -> None:
    """Print the heading of :func:`tell_result`."""
    tell(f"{'point':<20}{'fault':<18}{'seed':>5}{'events':>8}{'seconds':>9}  verdict")


def tell_result(what: str, fault: str, seed: int, result: Result) -> bool:
    """Print what came of a fault, and return whether nothing is wrong with it."""
    verdict = "VIOLATED" if result.violations else "good"
    tell(f"{what:<20}{fault:<18}{seed:>5}{result.events:>8}{result.seconds:>9.2f}  {verdict}")
    for violation in result.violations:
        tell(f"    {violation}")
    return not result.violations

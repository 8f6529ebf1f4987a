"""Count the proven codes, and list the others: ``.venv/bin/python -m tests.proofs``."""

import click

from tests.proofs.catalogue import PROVEN
from tests.proofs.unproven import UNPROVEN

if __name__ == "__main__":
    count = f"{len(PROVEN)} of {len(PROVEN) + len(UNPROVEN)}"
    click.echo(f"{count} codes are proven by a test; the others are not, because:")
    for code, reason in UNPROVEN.items():
        click.echo(f"{code} {reason}")

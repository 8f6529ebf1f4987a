"""``cdc-outbox monitor``."""

import urllib.error
import urllib.request
from http.client import HTTPException, InvalidURL

import click

from cdc_outbox.cli.groups import Group
from cdc_outbox.cli.output import ExitCode, paint, say

_SECONDS = 4.0
"""Less than the time-out of the image's health check."""
_MAX_BYTES = 64 * 1024


@click.group(cls=Group)
def monitor() -> None:
    """Check running consumers and relays.

    \b
    Example:
      cdc-outbox monitor health http://127.0.0.1:9464/health
    """


@monitor.command()
@click.argument("url", help="Where a consumer or relay serves its health, such as http://127.0.0.1:9464/health.")
def health(url: str) -> ExitCode:
    """Print what /health answers, and exit with its verdict.

    For health checks of containers: one HTTP request of at most 4 seconds, without proxies. A degraded consumer or
    relay makes progress, so that the exit code is 0; restarting it would not help.

    Exit codes: 0 the answer is 200 (ok or degraded), 1 another answer (stuck), 2 an invalid URL, 75 no answer.

    \b
    Example:
      cdc-outbox monitor health http://127.0.0.1:9464/health
    """
    if not url.startswith(("http://", "https://")):
        raise click.UsageError("URL must begin with http:// or https://")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        try:
            answer = opener.open(url, timeout=_SECONDS)
        except urllib.error.HTTPError as refusal:
            answer = refusal
        with answer:
            content = answer.read(_MAX_BYTES).decode(errors="replace")
    except (InvalidURL, ValueError) as error:
        raise click.UsageError("URL is invalid") from error
    except (OSError, HTTPException) as error:
        say(f"{paint('error:', 'red')} no answer: {getattr(error, 'reason', error)}", err=True)
        return ExitCode.RETRY
    say(content.strip())
    return ExitCode.DONE if answer.status == 200 else ExitCode.FAILED

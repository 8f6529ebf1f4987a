"""Secrets that stand in a configuration themselves. No finding ever repeats one."""

import re

from cdc_outbox.connect.lint.config import Config
from cdc_outbox.connect.lint.rule import WARNING, Hit, Hits, Rulebook
from cdc_outbox.secret import shows_password, shows_secret

book = Rulebook()

_USER_INFO = re.compile(r"(basic\.auth\.)?user\.info$")
_PLACEHOLDER = re.compile(r"\$\{[^{}:\s]{1,100}\}|\{\{[^{}]{1,200}\}\}")
"""What is filled in before Connect gets the configuration, or stays as it is: no secret in either case."""


@book.rule("CC113", WARNING)
def secret_in_clear_text(config: Config) -> Hits:
    for option in config.options:
        value = _PLACEHOLDER.sub("${template:value}", config.get(option))
        shown = value and (shows_secret(option, value) or shows_password(value))
        if shown or (_USER_INFO.search(option) and ":" in value and "${" not in value):
            message = f"{option} is a secret; whoever may read the connector's configuration or its topic has it."
            yield Hit(option, message, "Make it a reference that the worker resolves, such as ${env:NAME}.")

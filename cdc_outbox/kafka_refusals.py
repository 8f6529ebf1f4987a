"""Which of librdkafka's settings a user cannot set, and why."""

import re
from collections.abc import Mapping
from typing import Any

from cdc_outbox.errors import ConfigError

_REFUSED = {
    "allow.auto.create.topics": "a topic that was created by asking for it has the wrong number of partitions",
    "auto.commit.enable": "an offset may be committed only after its effects",
    "auto.offset.reset": "a consumer that starts elsewhere than at the earliest offset skips events",
    "bootstrap.servers": "it has a parameter of its own",
    "default.topic.config": "what stands in it overrides everything else",
    "enable.auto.commit": "an offset may be committed only after its effects",
    "enable.auto.offset.store": "an offset may be stored only after its effects",
    "enable.partition.eof": "the consumer has no use for it",
    "group.id": "it is the consumer's name",
    "isolation.level": "what a producer aborted must not have effects",
    "metadata.broker.list": "it is another name of bootstrap.servers",
    "on_commit": "the consumer needs the answers itself",
}
"""Settings that would break a promise, and the reason."""
_RUNS_CODE = re.compile(r"plugin\..*|ssl[._]engine.*|ssl\.provider.*|sasl\.kerberos\.kinit\..*")
"""Settings by which librdkafka loads a library or starts a program: who may write the settings must not gain that."""
_IN_A_SHELL = re.compile(r"sasl\.kerberos\.(keytab|principal|service\.name)")
"""Settings that librdkafka puts into the shell command which renews a Kerberos ticket, unescaped."""
_SHELL_SAFE = re.compile(r"[\w.@:/=+-]*")


def refuse_settings(settings: Mapping[str, Any]) -> None:
    """Refuse a user's settings for librdkafka if one of them would break a promise, or run code.

    Raises:
        ConfigError: One would, with its name and the reason, never with its value.
    """
    for key in sorted(settings):
        if reason := _refusal(key, settings[key]):
            raise ConfigError(f"{key} cannot be set: {reason}", field=f"kafka.{key}")


def _refusal(key: str, value: Any) -> str:  # noqa: ANN401 - librdkafka's
    """Return why a setting is refused, empty if it is not."""
    if _RUNS_CODE.fullmatch(key):
        return "librdkafka would load a library or start a program for it"
    if _IN_A_SHELL.fullmatch(key) and not _SHELL_SAFE.fullmatch(str(value)):
        return "librdkafka puts it into a shell command, and a shell reads more than a name in it"
    return _REFUSED.get(key, "")

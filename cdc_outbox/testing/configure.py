"""Whether the plugins that a configuration names take their options, which Connect's own validation does not ask."""

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from cdc_outbox.debezium.event_router.jvm import Jvm
from cdc_outbox.errors import StackError

_SOURCE = Path(__file__).parent / "java" / "ConfigureCheck.java"
_END_SECONDS, _LAST_CHARACTERS = 10.0, 1000


@dataclass(frozen=True, slots=True)
class Refusal:
    """What one transformation, predicate or converter made of its options.

    Args:
        option: Where it stands in the configuration, for example ``transforms.outbox``.
        error: The class of the exception.
        message: Its own words.
    """

    option: str
    error: str
    message: str


class ConfigureCheck:
    """Configure plugins as a worker does when a task starts, in one JVM for many configurations; a context manager.

    ::

        with ConfigureCheck(stack.jvm) as check:
            assert check.refusals(config) == []

    References such as ``${env:NAME}`` reach the plugins as they stand.

    Args:
        jvm: What a worker would run on, and its plugins.
        plugins: Another folder of plugins than the worker's.
    """

    def __init__(self, jvm: Jvm, plugins: Path | None = None) -> None:
        self._jvm = jvm
        folders = [plugins] if plugins else dict.fromkeys(plugin.parent for plugin in jvm.plugins)
        self._plugin_path = ",".join(map(str, folders))
        self._log: IO[bytes] | None = None
        self._process: subprocess.Popen[str] | None = None

    def refusals(self, config: Mapping[str, str]) -> list[Refusal]:
        """Return what the plugins of a connector's configuration refuse, empty if they take it all.

        Raises:
            StackError: Java did not answer.
        """
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise StackError("the check is not running", hint="Use it as a context manager.")
        try:
            process.stdin.write(json.dumps(dict(config)) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise StackError(f"Java did not answer: {self._last_words()}")
        return [Refusal(**refusal) for refusal in json.loads(answer)]

    def __enter__(self) -> Self:
        self._log = tempfile.TemporaryFile()
        # Compiled on its way: a Java runtime of Debian's has the compiler in it.
        command = self._jvm.command(str(_SOURCE), self._plugin_path, heap="256m")
        self._process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, encoding="utf-8"
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            try:
                self._process.communicate(timeout=_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.communicate()
            self._process = None
        if self._log is not None:
            self._log.close()

    def _last_words(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace").strip()[-_LAST_CHARACTERS:]

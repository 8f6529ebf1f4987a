"""Extract the options of every Debezium version that the Maven repository holds: `infra/catalogue`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import platformdirs

from catalogue import store
from catalogue.extract import Extract, Options, extract
from catalogue.plugins import fetch, find_listed
from catalogue.table import PAGE, page
from cdc_outbox.debezium.event_router.jvm import Jvm, find_jvm
from cdc_outbox.debezium.options import CONNECTORS
from cdc_outbox.testing.broker import Broker, broker_environment, make_broker
from cdc_outbox.testing.folder import StackFolder
from cdc_outbox.testing.worker import make_login, make_worker, worker_environment


def main(arguments: Sequence[str]) -> None:
    """Refresh data and page; with ``--page``, the page only."""
    if list(arguments) not in ([], ["--page"]):
        sys.exit("usage: infra/catalogue [--page]")
    if not arguments:
        _refresh(Path(platformdirs.user_cache_dir("cdc-outbox")))
    PAGE.write_text(page(), "utf-8")


def _refresh(cache: Path) -> None:
    listed, jvm = find_listed(), find_jvm(cache)
    extracts: dict[str, Extract] = {}
    held: dict[str, list[str]] = {connector: [] for connector in CONNECTORS}
    with _broker(jvm) as (stack, broker):
        for version in sorted({version for versions in listed.values() for version in versions}, key=_number):
            carriers = [connector for connector in CONNECTORS if version in listed.get(connector, [])]
            found = {connector: fetch(cache, connector, version) for connector in carriers}
            folders = {connector: folder for connector, folder in found.items() if folder is not None}
            print(f"{version}: {', '.join(folders) or 'incomplete in the repository'}", file=sys.stderr)  # noqa: T201
            if folders:
                extracts[version] = _extract(stack, broker, jvm, list(folders.values()), version)
            for connector in folders:
                held[connector].append(version)
    for connector, versions in held.items():
        incomplete = [version for version in listed.get(connector, []) if version not in versions]
        by_version = {version: extracts[version].connectors[connector] for version in versions}
        content = {
            "versions": versions,
            "incomplete": sorted(incomplete, key=_number),
            "options": store.fold(by_version),
        }
        _write(connector, content, _options_in(content))
    _write_plugins(extracts)


def _write_plugins(extracts: Mapping[str, Extract]) -> None:
    newest = list(extracts.values())[-1]
    debezium: dict[str, dict[str, Options]] = {}
    for version, found in extracts.items():
        for name, options in found.plugins.items():
            if name.startswith("io.debezium."):
                debezium.setdefault(name, {})[version] = options
    kinds = {name: kinds for found in extracts.values() for name, kinds in found.kinds.items()}
    theirs = {
        name: {"kinds": kinds[name], "versions": list(by_version), "options": store.fold(by_version)}
        for name, by_version in sorted(debezium.items())
    }
    _write("debezium", {"plugins": theirs}, _options_in({"plugins": theirs}))
    kafka = {
        name: {"kinds": newest.kinds[name], "versions": [newest.versions[name]], "options": store.rows(options)}
        for name, options in sorted(newest.plugins.items())
        if name.startswith("org.apache.kafka.")
    }
    content = {
        "framework": store.rows(newest.framework),
        "producer": store.rows(newest.producer),
        "plugins": kafka,
    }
    _write("connect", content, _options_in(content))


def _options_in(content: Mapping[str, Any]) -> list[list[Any]]:
    """Return every line of a file, a plugin's with its class before."""
    own = [row for part in ("options", "framework", "producer") for row in content.get(part, [])]
    theirs = content.get("plugins", {}).items()
    return own + [[name, *row] for name, plugin in theirs for row in plugin["options"]]


def _write(name: str, content: Mapping[str, Any], lines: Sequence[Sequence[Any]]) -> None:
    for change in store.changes(_options_in(store.read(name)), lines):
        print(f"{name}: {change}")  # noqa: T201
    store.write(name, content)


def _extract(stack: StackFolder, broker: Broker, jvm: Jvm, folders: Sequence[Path], version: str) -> Extract:
    home = stack.path / f"plugins-{version}"
    (home / "plugins").mkdir(parents=True)
    (home / "libs").symlink_to(jvm.home / "libs")
    for folder in folders:
        (home / "plugins" / folder.name).symlink_to(folder)
    port = stack.reserve_port()
    environment = worker_environment(port, broker.bootstrap_servers)
    folder = stack.path / f"connect-{version}"
    worker = make_worker(folder, port, environment, Jvm(jvm.java, home), login=make_login())
    worker.start()
    try:
        return extract(worker.cluster, folders, jvm)
    finally:
        worker.stop()  # the next one need not wait for its place in the group


@contextmanager
def _broker(jvm: Jvm) -> Iterator[tuple[StackFolder, Broker]]:
    stack = StackFolder("catalogue")
    stack.occupy()
    try:
        port = stack.reserve_port()
        environment = broker_environment(stack.path / "kafka", port, stack.reserve_port())
        broker = make_broker(stack.path / "kafka", port, environment, jvm)
        broker.start()
        yield stack, broker
    finally:
        stack.release()


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in version.split("."))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Rules about secrets in clear text and connections without verification.

No finding contains a secret.
"""

import re

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import Config
from cdc_outbox.debezium.lint.rule import WARNING, Hit, Hits, Rulebook
from cdc_outbox.redaction import shows_password, shows_secret

book = Rulebook()

_LOCAL_HOSTS = {"localhost", "127.0.0.1", "::1"}
_UNVERIFIED = {
    DatabaseKind.POSTGRESQL: {"database.sslmode": {"disable", "allow", "prefer", "require"}},
    DatabaseKind.MYSQL: {"database.ssl.mode": {"disabled", "preferred", "required"}},
    DatabaseKind.MARIADB: {"database.ssl.mode": {"disable", "trust"}},
    DatabaseKind.SQLSERVER: {"driver.encrypt": {"false", "no", "optional"}, "driver.trustServerCertificate": {"true"}},
    DatabaseKind.MONGODB: {"mongodb.ssl.invalid.hostname.allowed": {"true"}},
}
"""Values with which the connector encrypts nothing, or does not verify the server's certificate."""
_VERIFIED = {
    DatabaseKind.POSTGRESQL: "Set it to verify-full, and database.sslrootcert to the authority's certificate.",
    DatabaseKind.MYSQL: "Set it to verify_identity.",
    DatabaseKind.MARIADB: "Set it to verify-full.",
}

_USER_INFO = re.compile(r"(basic\.auth\.)?user\.info$")
_PLACEHOLDER = re.compile(r"\$\{[^{}:\s]{1,100}\}|\{\{[^{}]{1,200}\}\}")
"""A placeholder, which is replaced before the configuration is sent to Connect, or stays: never a secret."""


@book.rule("CC113", WARNING)
def secret_in_clear_text(config: Config) -> Hits:
    for option in config.options:
        value = _PLACEHOLDER.sub("${template:value}", config.get(option))
        shown = value and (shows_secret(option, value) or shows_password(value))
        if shown or (_USER_INFO.search(option) and ":" in value and "${" not in value):
            message = f"{option} contains a secret, which every reader of the configuration or of its topic can see."
            yield Hit(option, message, "Use a reference that the worker resolves, such as ${env:NAME}.")


@book.rule("CC115", WARNING, *_UNVERIFIED)
def database_not_verified(config: Config) -> Hits:
    kind = config.kind
    if kind is None or config.get("database.hostname").lower() in _LOCAL_HOSTS:
        return
    for option, values in _UNVERIFIED[kind].items():
        value = config.get(option)
        if value.lower() in values:
            message = f"with {value} an attacker on the network can impersonate the database and read the password."
            yield Hit(
                option, message, _VERIFIED.get(kind, "Remove the option; the certificate is verified by default.")
            )


@book.rule("CC116", WARNING)
def kafka_not_verified(config: Config) -> Hits:
    for option in config.options:
        if option.endswith("security.protocol") and config.get(option).upper() in {"PLAINTEXT", "SASL_PLAINTEXT"}:
            message = "events and credentials are sent to Kafka unencrypted."
            yield Hit(option, message, "Set it to SSL or SASL_SSL.")
        if option.endswith("ssl.endpoint.identification.algorithm") and not config.get(option):
            message = "an empty value accepts the certificate of any host."
            yield Hit(option, message, "Remove the option; the default is https.")

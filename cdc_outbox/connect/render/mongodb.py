"""What MongoDB's connector is told: where the replica set is, which changes it reads, and how they are routed."""

import re
from collections.abc import Mapping

from cdc_outbox.connect.render.names import captured_table, exactly
from cdc_outbox.database import DatabaseSpec
from cdc_outbox.spec import Spec


def login(database: DatabaseSpec) -> dict[str, str]:
    """Return how the database is reached, and as whom."""
    user = {"mongodb.user": database.user, "mongodb.password": database.password} if database.user else {}
    return {"mongodb.connection.string": database.connection_string, **user}


def capture(spec: Spec) -> dict[str, str]:
    """Return what says which changes are read, and how."""
    database, _ = captured = captured_table(spec)
    return {
        # Not of the whole deployment, which would take a role that may read every database. Nor of the collection
        # alone: Debezium takes what is before the second dot of its name for all of it.
        "capture.scope": "database",
        "capture.target": database,
        "collection.include.list": exactly(".".join(captured)),
        # Documents are inserted only, and an insert brings the whole one: none has to be looked up.
        "capture.mode": "change_streams",
    }


def router(options: Mapping[str, str]) -> dict[str, str]:
    """Return the EventRouter's options as the router of documents calls them."""
    renamed = {re.sub(r"^table\.", "collection.", option): value for option, value in options.items()}
    # The payload is a text, and passes as it is.
    return {**renamed, "collection.expand.json.payload": "false"}

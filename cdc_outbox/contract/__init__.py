"""What writers, connectors and consumers agree on: columns, headers, topics and an outbox's options."""

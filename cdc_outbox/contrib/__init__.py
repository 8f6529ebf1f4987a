"""The outbox inside other frameworks."""

"""The outbox of a Django project, by release."""

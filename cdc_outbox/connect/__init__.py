"""Acting on a Kafka Connect cluster: check, plan, deploy, wait, roll back, pause, delete.

Configurations are rendered and judged in ``debezium``; the loop of ``cdc-outbox watch`` is in ``cli/watch.py``.
"""

"""What is known about Debezium and Kafka Connect. Pure: nothing here talks to a cluster."""

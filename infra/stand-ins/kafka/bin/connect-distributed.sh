#!/bin/bash
base=$(dirname "$0")/..
export KAFKA_HEAP_OPTS=${KAFKA_HEAP_OPTS:--Xms256M -Xmx2G}
export KAFKA_LOG4J_OPTS=${KAFKA_LOG4J_OPTS:--Dlog4j2.configurationFile=$base/config/log4j2.yaml}
exec "$base"/bin/kafka-run-class.sh org.apache.kafka.connect.cli.ConnectDistributed "$@"

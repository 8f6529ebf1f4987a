#!/bin/bash
# Start a class as the official script does: heap, collector, logging and options come from the environment.
base=$(dirname "$0")/..
: "${LOG_DIR:=$base/logs}" "${KAFKA_HEAP_OPTS:=-Xmx256M}"
: "${KAFKA_LOG4J_OPTS:=-Dlog4j2.configurationFile=$base/config/log4j2.yaml -Dlevel=WARN}"
: "${KAFKA_JVM_PERFORMANCE_OPTS:=-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true}"
while [ "${1:0:1}" = - ]; do
    if [ "$1" = -name ]; then shift; fi
    shift
done
# shellcheck disable=SC2086 # lists of options
exec java $KAFKA_HEAP_OPTS $KAFKA_JVM_PERFORMANCE_OPTS ${KAFKA_JMX_OPTS:-} "-Dkafka.logs.dir=$LOG_DIR" \
    $KAFKA_LOG4J_OPTS -cp "${CLASSPATH:-}:$base/libs/*" ${KAFKA_OPTS:-} "$@"

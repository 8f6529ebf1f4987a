#!/bin/bash
base=$(dirname "$0")/..
exec "$base"/bin/kafka-run-class.sh org.apache.kafka.tools.MetadataQuorumCommand "$@"

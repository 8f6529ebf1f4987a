#!/usr/bin/env bash
# Apache Kafka 4.3.1 and 3.6.2 (kafka_2.13 from Maven, one KRaft broker each), confluent-kafka 2.16.1, Java 17.
#
# A topic with one replica and min.insync.replicas=2 takes messages with acks=all on Kafka 4.3.1: the broker reports
# them as delivered, with no error and no warning, and a consumer reads them. describe_configs still answers 2. Kafka
# 3.6.2 refuses each of them with NOT_ENOUGH_REPLICAS, as the documentation of min.insync.replicas says in both
# versions. Since 3.7 brokers compare the number of replicas in sync with the lower of min.insync.replicas and the
# topic's number of replicas (apache/kafka, pull request 14594; pull request 23529 of 2026 proposes to document it).
#
# So after an upgrade, a topic that was created with too few replicas is no longer noticed when it is written to, and
# what was counted as delivered is on one disk.
#
# Output seen, after 25 seconds:
#
#   Kafka 3.6.2: replicas 1, min.insync.replicas 2; produced with acks=all: NOT_ENOUGH_REPLICAS; messages in the topic: 0
#   Kafka 4.3.1: replicas 1, min.insync.replicas 2; produced with acks=all: delivered; messages in the topic: 1
#   AS RECORDED: Kafka 4.3.1 takes what min.insync.replicas forbids where a topic has fewer replicas
#
# Needs Debian with Python 3.9 or newer. As root it installs the missing ones of the packages default-jdk-headless,
# maven and python3-venv; everything else is in a temporary folder and in the caches of Maven and pip. Exit status: 0 if
# the behaviour is as recorded, 1 if it has changed, 2 if the script could not observe it.
set -euo pipefail

old=3.6.2
new=4.3.1
confluent_kafka=2.16.1
slf4j=1.7.36
dependency_plugin=org.apache.maven.plugins:maven-dependency-plugin:3.8.1

work=$(mktemp -d)
broker=
# shellcheck disable=SC2317 # the trap calls it
clean_up() {
    if [ -n "$broker" ]; then
        kill "$broker" 2>/dev/null || true
        wait "$broker" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 2' HUP INT TERM

cannot_run() {
    echo "CANNOT RUN: $1" >&2
    exit 2
}

# Run a command; show its output only if it fails.
quietly() {
    "$@" >"$work/command.log" 2>&1 </dev/null || {
        cat "$work/command.log" >&2
        cannot_run "$1 failed"
    }
}

packages=()
command -v javac >/dev/null || packages+=(default-jdk-headless)
command -v mvn >/dev/null || packages+=(maven)
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
if [ ${#packages[@]} -gt 0 ]; then
    [ "$(id -u)" = 0 ] || cannot_run "these Debian packages are missing: ${packages[*]}"
    quietly apt-get update
    quietly env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${packages[@]}"
fi
quietly python3 -m venv "$work/venv"
quietly "$work/venv/bin/pip" --disable-pip-version-check install "confluent-kafka==$confluent_kafka"

cat >"$work/observe.py" <<'PYTHON'
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

servers, version = sys.argv[1:]
PATIENCE_S = 120
TOPIC = "one-replica"


def wait_for(ask, what):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            if answer := ask():
                return answer
        except KafkaException:
            pass
        if time.monotonic() > deadline:
            sys.exit(f"{what}: not seen in {PATIENCE_S} s")
        time.sleep(0.2)


admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
wait_for(lambda: admin.list_topics(timeout=5).brokers, "the broker")
new = NewTopic(TOPIC, num_partitions=1, replication_factor=1, config={"min.insync.replicas": "2"})
admin.create_topics([new])[TOPIC].result(60)
partition = wait_for(lambda: admin.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions.get(0), "the topic")
resource = ConfigResource("topic", TOPIC)
minimum = admin.describe_configs([resource])[resource].result(60)["min.insync.replicas"].value

outcomes = []
# Without retries the broker's own answer is reported.
producer = Producer({"bootstrap.servers": servers, "acks": "all", "retries": 0, "log_level": 0})
producer.produce(TOPIC, b"1", on_delivery=lambda error, _: outcomes.append(error.name() if error else "delivered"))
producer.flush(PATIENCE_S)
consumer = Consumer({"bootstrap.servers": servers, "group.id": "observer", "log_level": 0})
_, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=60)
consumer.close()
print(f"Kafka {version}: replicas {len(partition.replicas)}, min.insync.replicas {minimum}; ", end="")
print(f"produced with acks=all: {outcomes[0]}; messages in the topic: {end}")
PYTHON

observe() {
    local version=$1 folder=$work/$1 port controller
    mkdir "$folder"
    cat >"$folder/pom.xml" <<POM
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId>
  <artifactId>finding</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>$slf4j</version></dependency>
  </dependencies>
</project>
POM
    quietly mvn --batch-mode --quiet --file "$folder/pom.xml" "-DoutputDirectory=$folder/jars" \
        "$dependency_plugin:copy-dependencies"
    read -r port controller < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(each.getsockname()[1] for each in sockets))')
    cat >"$folder/broker.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
log.dirs=$folder/data
offsets.topic.replication.factor=1
PROPERTIES
    quietly java -Xmx128m -cp "$folder/jars/*" kafka.tools.StorageTool format --cluster-id 4L6g3nShT-eMCtK--X86sw \
        --config "$folder/broker.properties"
    java -Xmx384m -cp "$folder/jars/*" kafka.Kafka "$folder/broker.properties" >"$folder/broker.log" 2>&1 &
    broker=$!
    "$work/venv/bin/python" "$work/observe.py" "127.0.0.1:$port" "$version" >"$folder/seen" || cannot_run "Kafka $version"
    cat "$folder/seen"
    kill "$broker"
    wait "$broker" || true
    broker=
}

observe "$old"
observe "$new"
if grep -q 'acks=all: NOT_ENOUGH_REPLICAS; messages in the topic: 0' "$work/$old/seen" &&
    grep -q 'acks=all: delivered; messages in the topic: 1' "$work/$new/seen"; then
    echo "AS RECORDED: Kafka $new takes what min.insync.replicas forbids where a topic has fewer replicas"
else
    echo "CHANGED"
    exit 1
fi

#!/bin/sh
# Java, and Apache Kafka's own tools in tests/java/jars. Does nothing, and says nothing, where all of
# it is there and current.
set -eu
cd "$(dirname "$0")/.."
. scripts/common.sh
jars=tests/java/jars
stamp=$jars/installed.xml

# Not a runtime alone: the tests compile a client of theirs.
has javac || add_packages default-jdk-headless
if cmp -s tests/java/pom.xml "$stamp"; then
    exit 0
fi
has mvn || add_packages maven
echo "felix: fetching $jars"
rm -rf "$jars"
mvn --quiet --batch-mode -Dstyle.color=never --file tests/java/pom.xml dependency:copy-dependencies </dev/null
cp tests/java/pom.xml "$stamp"

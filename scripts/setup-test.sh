#!/bin/sh
# What the tests need beside a build: kcat, Apache Kafka's tools in tests/java/jars with a Java to
# run them, the clients of tests/clients, Chromium, Postgres, and a Python environment with pinned
# packages in tests/python/.venv. Does nothing, and says nothing, where all of it is there and
# current.
set -eu
cd "$(dirname "$0")/.."
. scripts/common.sh
venv=tests/python/.venv
stamp=$venv/installed.txt
# An environment does not survive a move, so its place is part of what was wanted.
wanted=$(pwd && cat tests/python/requirements.txt tests/python/data-requirements.txt)

scripts/setup-build.sh
scripts/setup-kcat.sh
scripts/setup-java.sh
scripts/setup-clients.sh
scripts/setup-browser.sh
scripts/setup-postgres.sh
has python3 || add_packages python3
if [ -x "$venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi
# Debian keeps this part of Python in a package of its own.
python3 -c 'import ensurepip' 2>/dev/null || add_packages python3-venv
echo "felix: making $venv"
rm -rf "$venv"
python3 -m venv "$venv"
pip="$venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check"
$pip -r "tests/python/requirements.txt" </dev/null
$pip --no-deps --use-pep517 -r "tests/python/data-requirements.txt" </dev/null
printf '%s\n' "$wanted" >"$stamp"

#!/bin/sh
# Postgres, which the tests of the control plane start for themselves; its own service is not used.
set -eu
cd "$(dirname "$0")/.."
. scripts/common.sh
for initdb in /usr/lib/postgresql/*/bin/initdb "$(command -v initdb || true)"; do
    [ -x "$initdb" ] && exit 0
done
# Without a cluster of its own: nobody asked for a server that runs.
as_root mkdir -p /etc/postgresql-common/createcluster.d
echo "create_main_cluster = false" |
    as_root tee /etc/postgresql-common/createcluster.d/felix.conf >/dev/null
add_packages postgresql

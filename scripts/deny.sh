#!/bin/sh
# Licences, sources, bans and advisories of everything we depend on (deny.toml). Installs
# cargo-deny below target/ if it is not there; that takes some minutes, once.
set -eu
cd "$(dirname "$0")/.."
version=0.20.2
deny=$(command -v cargo-deny || true)
if [ -z "$deny" ]; then
    tools=${CARGO_TARGET_DIR:-target}/tools
    deny=$tools/bin/cargo-deny
    if ! "$deny" --version 2>/dev/null | grep -q " $version$"; then
        echo "felix: building cargo-deny $version"
        cargo install --quiet --locked --root "$tools" --target-dir "$tools/target" \
            "cargo-deny@$version" </dev/null
        rm -rf "$tools/target"
    fi
fi
"$deny" --log-level error check --hide-inclusion-graph --allow duplicate licenses bans sources
# The advisories come from a repository of their own, which not every machine may reach. That
# alone is forgiven; an advisory is not.
if said=$("$deny" --log-level error --color never check --hide-inclusion-graph advisories 2>&1); then
    echo "$said"
elif echo "$said" | grep -q 'failed to fetch advisory database'; then
    echo "advisories not checked: the advisory database cannot be fetched from here"
else
    echo "$said" >&2
    exit 1
fi

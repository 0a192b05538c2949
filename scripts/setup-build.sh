#!/bin/sh
# What a build needs on a fresh Debian or Ubuntu that has Rust: a C compiler and its tools.
# Does nothing, and says nothing, where all of it is there.
set -eu
cd "$(dirname "$0")/.."
. scripts/common.sh

if ! has cargo; then
    echo "felix: Rust is missing; install rustup from https://rustup.rs and run this again" >&2
    exit 1
fi
# glommio builds liburing, and the codecs have C inside.
has cc || add_packages gcc libc6-dev
has make || add_packages make
# glommio's build asks git for a submodule even where it has its own copy.
has git || add_packages git

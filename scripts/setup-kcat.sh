#!/bin/sh
# kcat and curl, which the tour of the README uses, from the distribution.
set -eu
cd "$(dirname "$0")/.."
. scripts/common.sh
has kcat || add_packages kcat
has curl || add_packages curl

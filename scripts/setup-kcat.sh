#!/bin/sh
# kcat, from the distribution.
set -eu
cd "$(dirname "$0")/.."
. scripts/common.sh
has kcat || add_packages kcat

# shellcheck shell=sh
# Sourced by the set-up scripts: what they share.

# Runs a command as root, and says how to go on where that cannot be.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo -n "$@" || { echo "felix: this needs root: $*" >&2; return 1; }
    else
        echo "felix: this needs root and there is no sudo: $*" >&2
        return 1
    fi
}

# has COMMAND: whether it is installed.
has() {
    command -v "$1" >/dev/null
}

# add_packages PACKAGE...: from Debian or Ubuntu.
add_packages() {
    if ! has apt-get; then
        echo "felix: please install $*" >&2
        return 1
    fi
    echo "felix: installing $*"
    # A fresh machine has no package lists yet, an old one has lists that have moved on.
    apt_install "$@" 2>/dev/null && return 0
    as_root apt-get update -qq </dev/null >/dev/null
    apt_install "$@"
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        "$@" </dev/null >/dev/null
}

# current FOLDER FILE...: whether FOLDER was made from these files, at this place.
current() {
    folder=$1
    shift
    wanted=$(pwd && cat "$@")
    [ "$(cat "$folder/made-from.txt" 2>/dev/null)" = "$wanted" ]
}

# note FOLDER: that it is now made from the files that `current` was asked about.
note() {
    printf '%s\n' "$wanted" >"$1/made-from.txt"
}

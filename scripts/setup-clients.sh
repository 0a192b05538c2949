#!/bin/sh
# The programs of the client matrix in tests/clients, with the clients they need. Does nothing, and
# says nothing, where all of it is there and current. A program whose toolchain is missing is left
# out by name, and with CI=true that is an error.
set -eu
cd "$(dirname "$0")/.."
. scripts/common.sh
home=tests/clients

# left_out TOOL CLIENT...: says so, or fails where all must be there.
left_out() {
    tool=$1
    shift
    echo "felix: there is no $tool, so these clients are not tried: $*" >&2
    [ "${CI:-}" != true ]
}

python_clients() {
    venv=$home/python/.venv
    ! current "$venv" "$home/python/requirements.txt" || return 0
    has python3 || add_packages python3
    # Debian keeps this part of Python in a package of its own.
    python3 -c 'import ensurepip' 2>/dev/null || add_packages python3-venv
    echo "felix: making $venv"
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --no-deps \
        -r "$home/python/requirements.txt" </dev/null
    note "$venv"
}

# java_client WHICH: the oldest or the newest.
java_client() {
    built=$home/java/built/$1
    ! current "$built" "$home/java/$1.xml" "$home/java/Cells.java" || return 0
    has javac || add_packages default-jdk-headless
    has mvn || add_packages maven
    echo "felix: fetching $built"
    rm -rf "$built"
    mvn --quiet --batch-mode -Dstyle.color=never --file "$home/java/$1.xml" \
        dependency:copy-dependencies </dev/null
    javac -cp "$built/*" -d "$built" "$home/java/Cells.java"
    note "$built"
}

go_clients() {
    # shellcheck disable=SC2046 # None of our files has a space in its name.
    ! current "$home/go/built" $(find "$home/go" -name '*.go' -o -name 'go.*' | sort) || return 0
    if ! has go; then
        left_out "Go 1.26" franz-go sarama kafka-go
        return
    fi
    echo "felix: building $home/go/built"
    rm -rf "$home/go/built"
    (cd "$home/go" && go build -mod=readonly -o built/ ./franz-go ./sarama ./kafka-go) </dev/null
    note "$home/go/built"
}

node_clients() {
    modules=$home/node/node_modules
    ! current "$modules" "$home/node/package-lock.json" || return 0
    if ! has npm; then
        left_out npm kafkajs platformatic-kafka
        return
    fi
    if [ "$(uname -m)" != x86_64 ]; then
        left_out "Node of a known version for this machine" kafkajs platformatic-kafka
        return
    fi
    echo "felix: fetching $modules"
    (cd "$home/node" && npm ci --loglevel=error --no-audit --no-fund --ignore-scripts) </dev/null
    note "$modules"
}

librdkafka_client() {
    built=$home/librdkafka/built
    ! current "$built" "$home/librdkafka/Cargo.lock" "$home/librdkafka/cells.c" || return 0
    # Its configure is a bash script, and wants to see a C++ compiler.
    has bash || add_packages bash
    has c++ || add_packages g++
    for package in libssl-dev zlib1g-dev libzstd-dev; do
        dpkg-query --show "$package" >/dev/null 2>&1 || add_packages "$package"
    done
    echo "felix: building $built"
    rm -rf "$built"
    mkdir -p "$built"
    # No build directory is shared: the source is changed by its configure.
    cargo vendor --quiet --locked --versioned-dirs --manifest-path "$home/librdkafka/Cargo.toml" \
        "$built/crates" >/dev/null </dev/null
    mv "$built"/crates/rdkafka-sys-*/librdkafka "$built/source"
    rm -rf "$built/crates"
    (
        # What follows `||` is not ended by a command that fails.
        cd "$built/source" &&
            ./configure --no-download --disable-gssapi --disable-lz4-ext --disable-optimization &&
            make -C src -j"$(nproc)" librdkafka.a &&
            cd .. &&
            # What else it has been configured to need.
            libraries=$(sed -n 's/^LIBS+=//p' source/Makefile.config) &&
            # shellcheck disable=SC2086 # These are words.
            cc -std=c11 -Wall -Werror -I source/src -o cells ../cells.c source/src/librdkafka.a $libraries
    ) >"$built/build.log" 2>&1 </dev/null || {
        tail -20 "$built/build.log" >&2
        echo "felix: librdkafka does not build; all it said is in $built/build.log" >&2
        exit 1
    }
    rm -rf "$built/source"
    note "$built"
}

rust_client() {
    built=$home/rust/built
    ! current "$built" "$home/rust/Cargo.lock" "$home/rust/src/main.rs" || return 0
    echo "felix: building $built"
    rm -rf "$built"
    mkdir -p "$built"
    cargo build --quiet --locked --manifest-path "$home/rust/Cargo.toml" </dev/null
    cp "${CARGO_TARGET_DIR:-$home/rust/target}/debug/felix-clients-rskafka" "$built/cells"
    note "$built"
}

scripts/setup-build.sh
scripts/setup-kcat.sh
python_clients
java_client oldest
java_client newest
go_clients
node_clients
librdkafka_client
rust_client

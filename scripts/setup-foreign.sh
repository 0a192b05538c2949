#!/bin/sh
# The test suites of Kafka clients that tests/foreign runs, each from the package of the client that the
# matrix in tests/clients has, changed by its felix.patch and built. Does nothing, and says nothing, where
# all of it is there and current.
set -eu
cd "$(dirname "$0")/.."
. scripts/common.sh
home=tests/foreign

kafka_python() {
    built=$home/kafka-python/built
    version=$(sed -n 's/^kafka-python==//p' tests/clients/python/requirements.txt)
    ! current "$built" "$home"/kafka-python/felix* "$home/kafka-python/requirements.txt" \
        "$home/kafka-python/fixtures.py" tests/clients/python/requirements.txt || return 0
    has python3 || add_packages python3
    # Debian keeps this part of Python in a package of its own.
    python3 -c 'import ensurepip' 2>/dev/null || add_packages python3-venv
    echo "felix: making $built"
    rm -rf "$built"
    mkdir -p "$built/source"
    python3 -m venv "$built/venv"
    pip="$built/venv/bin/python -m pip --quiet --no-input --disable-pip-version-check"
    $pip download --no-deps --no-binary :all: -d "$built" "kafka-python==$version" </dev/null
    tar -xzf "$built/kafka_python-$version.tar.gz" --strip-components 1 -C "$built/source"
    $pip install --no-deps -r "$home/kafka-python/requirements.txt" "$built/kafka_python-$version.tar.gz" \
        </dev/null
    patch --quiet -d "$built/source" -p1 <"$home/kafka-python/felix.patch"
    cp "$home/kafka-python/fixtures.py" "$built/source/test/integration/"
    # The distribution leaves it out, and Python has a package of this name itself.
    touch "$built/source/test/__init__.py"
    echo "$version" >"$built/version.txt"
    note "$built"
}

franz_go() {
    built=$home/franz-go/built
    ! current "$built" "$home"/franz-go/felix* tests/clients/go/go.mod || return 0
    if ! has go; then
        echo "felix: franz-go's suite needs Go 1.26" >&2
        return 1
    fi
    echo "felix: building $built"
    rm -rf "$built"
    mkdir -p "$built"
    module=github.com/twmb/franz-go
    (cd tests/clients/go && go mod download "$module")
    cp -R "$(cd tests/clients/go && go list -m -f '{{.Dir}}' "$module")" "$built/source"
    chmod -R u+w "$built/source"
    patch --quiet -d "$built/source" -p1 <"$home/franz-go/felix.patch"
    cp "$home/franz-go/felix_topics_test.go" "$built/source/pkg/kgo/"
    (cd "$built/source" && go test -c -o ../kgo.test ./pkg/kgo) </dev/null
    (cd tests/clients/go && go list -m -f '{{.Version}}' "$module") >"$built/version.txt"
    note "$built"
}

librdkafka() {
    built=$home/librdkafka/built
    ! current "$built" "$home/librdkafka/felix.patch" tests/clients/librdkafka/Cargo.lock || return 0
    # Its configure is a bash script.
    has bash || add_packages bash
    has c++ || add_packages g++
    for package in libssl-dev zlib1g-dev libzstd-dev; do
        dpkg-query --show "$package" >/dev/null 2>&1 || add_packages "$package"
    done
    echo "felix: building $built"
    rm -rf "$built"
    mkdir -p "$built"
    # No build directory is shared: the source is changed by its configure.
    cargo vendor --quiet --locked --versioned-dirs --manifest-path tests/clients/librdkafka/Cargo.toml \
        "$built/crates" >/dev/null </dev/null
    mv "$built"/crates/rdkafka-sys-*/librdkafka "$built/source"
    rm -rf "$built/crates"
    patch --quiet -d "$built/source" -p1 <"$home/librdkafka/felix.patch"
    (
        # What follows `||` is not ended by a command that fails.
        cd "$built/source" &&
            ./configure --no-download --disable-gssapi --disable-lz4-ext --disable-optimization &&
            make -C src -j"$(nproc)" librdkafka.a librdkafka.so.1 &&
            make -C src-cpp -j"$(nproc)" &&
            make -C tests -j"$(nproc)" test-runner
    ) >"$built/build.log" 2>&1 </dev/null || {
        tail -20 "$built/build.log" >&2
        echo "felix: librdkafka does not build; all it said is in $built/build.log" >&2
        exit 1
    }
    note "$built"
}

scripts/setup-build.sh
has patch || add_packages patch
kafka_python
franz_go
librdkafka

#!/bin/sh
# librdkafka's own load generator, target/librdkafka/rdkafka_performance, built from the source that
# the crate of benches/librdkafka/Cargo.lock carries. Does nothing, and says nothing, where it is
# there and current.
set -eu
cd "$(dirname "$0")/.."
. scripts/common.sh
home=${CARGO_TARGET_DIR:-target}/librdkafka
lock=benches/librdkafka/Cargo.lock

if [ -x "$home/rdkafka_performance" ] && cmp -s "$lock" "$home/built.lock"; then
    exit 0
fi
scripts/setup-build.sh
# Its configure is a bash script, and wants to see a C++ compiler.
has bash || add_packages bash
has c++ || add_packages g++
echo "felix: fetching librdkafka"
rm -rf "$home"
mkdir -p "$home"
# No build directory is shared: the source is changed by its configure.
cargo vendor --quiet --locked --versioned-dirs --manifest-path benches/librdkafka/Cargo.toml \
    "$home/crates" >/dev/null </dev/null
mv "$home"/crates/rdkafka-sys-*/librdkafka "$home/source"
rm -rf "$home/crates"
echo "felix: building librdkafka"
(
    cd "$home/source"
    # What loopback without compression needs, and nothing that it would look for on the machine.
    ./configure --no-download --disable-ssl --disable-gssapi --disable-curl --disable-zlib \
        --disable-zstd --disable-lz4-ext
    make -C src -j"$(nproc)" librdkafka.a
    make -C examples rdkafka_performance
) >"$home/build.log" 2>&1 </dev/null || {
    tail -20 "$home/build.log" >&2
    echo "felix: librdkafka does not build; all it said is in $home/build.log" >&2
    exit 1
}
mv "$home/source/examples/rdkafka_performance" "$home/"
cp "$lock" "$home/built.lock"

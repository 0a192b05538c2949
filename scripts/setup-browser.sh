#!/bin/sh
# Chromium, in which a test opens the report of felix-bench: the distribution's or, where there is
# none but a snap, one without windows in tests/browser. Does nothing, and says nothing, where one
# of them is there and current.
set -eu
cd "$(dirname "$0")/.."
. scripts/common.sh
dir=tests/browser
browser=$dir/chromium
stamp=$dir/installed.txt
package=@sparticuz/chromium@153.0.0
sha512=8e2196a92bcf31dbb8f8ff538a562a011ef21063c41c8371fa50af13f36a34ef\
c41d8cc5ff1d615222394fa8a8548b7b744cbb9fcf1bcb24f4be4f9d9ec810c0

# Whether the distribution's is there. A snap does not see the files of a test.
has_chromium() {
    has chromium || return 1
    case $(readlink -f "$(command -v chromium)") in
    */snap) return 1 ;;
    esac
}

has_chromium && exit 0
if [ -x "$browser" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$package" ]; then
    exit 0
fi
# Ubuntu has nothing but the snap.
if ! grep -qx ID=ubuntu /etc/os-release && add_packages chromium && has_chromium; then
    exit 0
fi
if [ "$(uname -m)" != x86_64 ]; then
    echo "felix: please install a Chromium that runs as 'chromium' and is no snap" >&2
    exit 1
fi
has npm || add_packages npm
has brotli || add_packages brotli
echo "felix: fetching $browser"
rm -rf "$dir"
mkdir -p "$dir"
npm pack --silent --pack-destination "$dir" "$package" </dev/null >/dev/null
mv "$dir"/*.tgz "$dir/package.tgz"
echo "$sha512  $dir/package.tgz" | sha512sum --check --quiet
tar -xzf "$dir/package.tgz" -C "$dir" package/bin/chromium.br
brotli --decompress --output="$browser" "$dir/package/bin/chromium.br"
rm -r "$dir/package.tgz" "$dir/package"
chmod +x "$browser"
# Its libraries, and a font.
ldd "$browser" | grep -q "not found" && add_packages libnss3 libexpat1
[ -e /etc/fonts/fonts.conf ] || add_packages fontconfig-config
"$browser" --version >/dev/null
printf '%s\n' "$package" >"$stamp"

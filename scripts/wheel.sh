#!/usr/bin/env bash
# scripts/wheel.sh [PROCESSOR…] the Python wheel of mmdb for x86_64, aarch64, armv7 (all without
# words), as target/release/wheels/*.whl
#
# Its library needs glibc 2.28 or later (Debian 10, Raspberry Pi OS 10): `manylinux_2_28`. Linker and
# std are brought as by scripts/static.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
out=$target/release/wheels
glibc=2.28
. scripts/zig.sh
. scripts/licences.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
[ $# -gt 0 ] || set -- x86_64 aarch64 armv7
for processor in "$@"; do
  case $processor in
    x86_64|aarch64) triple=$processor-unknown-linux-gnu platform=$processor ;;
    armv7) triple=armv7-unknown-linux-gnueabihf platform=armv7l ;;
    *) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  std "$triple" || unavailable "rustup has no std for $triple here"
  echo "Building the wheel of mmdb for $processor …"
  export "$(flags_of "$triple")=$(remapped)"
  CARGO_TARGET_DIR=$target/static cargo-zigbuild zigbuild --locked --release --quiet -p mmdb-c --lib \
    --target "$triple.$glibc"
  licences mmdb-c "$triple" "$work/LICENCES-OF-OTHERS"
  licences_of_rust "$work/LICENCES-OF-RUST.html"
  python3 crates/mmdb-c/python/build_wheel.py "$target/static/$triple/release/libmmdb_c.so" "$out" \
    "manylinux_${glibc/./_}_$platform" "$version" "$work"/LICENCES-OF-*
done

#!/usr/bin/env bash
# scripts/portable.sh [PROCESSOR…] runs the tests of mmdb and of the trace format on aarch64, armv7
# (both without words), under qemu-user-static
#
# Built by zig as scripts/static.sh does. Among them are those that read stores and traces which
# were written on x86_64, and those that hold what is written to its octets.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
. scripts/zig.sh

# sysroot TRIPLE: compiles the standard library for it, once; `sysroot` is where it lies. A library
# beside the program (-Z build-std) will not do: crates of the tests ask the compiler what it knows
# of the processor, by programs of their own.
sysroot() {
  local triple=$1 here
  sysroot=$target/zig/sysroot-$(rustc --version | tr -c 'a-z0-9.\n' -)
  local libraries=$sysroot/lib/rustlib/$triple/lib
  [ -d "$libraries" ] && return
  echo "Compiling the standard library for $triple …"
  here=$(mktemp -d)
  mkdir "$here/src"
  touch "$here/src/lib.rs"
  printf '[package]\nname = "nothing"\nedition = "2024"\n[workspace]\n' >"$here/Cargo.toml"
  RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$here/target cargo build --release --quiet --target "$triple" \
    -Z build-std=std,panic_unwind,test --manifest-path "$here/Cargo.toml" || { rm -rf "$here"; die "it does not compile"; }
  mkdir -p "$libraries.new"
  cp "$here/target/$triple/release/deps/"*.rlib "$libraries.new"
  mv "$libraries.new" "$libraries"
  rm -rf "$here"
}

[ $# -gt 0 ] || set -- aarch64 armv7
for processor in "$@"; do
  case $processor in
    aarch64) triple=aarch64-unknown-linux-musl qemu=qemu-aarch64-static ;;
    armv7) triple=armv7-unknown-linux-musleabihf qemu=qemu-arm-static ;;
    *) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  command -v "$qemu" >/dev/null || unavailable "$qemu is not installed: sudo apt-get install qemu-user-static"
  if ! std "$triple"; then
    rustup component add rust-src >/dev/null 2>&1 || unavailable "rustup has neither std for $triple here nor its source"
    sysroot "$triple"
    # As in scripts/static.sh: what a program begins with is zig's.
    export "CARGO_TARGET_$(tr a-z- A-Z_ <<<"$triple")_RUSTFLAGS=--sysroot=$sysroot -C link-self-contained=no"
  fi
  runner=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$triple")_RUNNER
  echo "Testing mmdb and the trace format on $processor …"
  env CARGO_TARGET_DIR="$target/static" "$runner=$qemu" MMDB_CRASH_SCHEDULES=200 \
    cargo-zigbuild test --locked --no-fail-fast --target "$triple" -p mmdb -p fathom-trace \
    --lib --test format_promise --test model --test crash --test records --test damage
done

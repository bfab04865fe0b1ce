#!/usr/bin/env bash
# scripts/wheel-run.sh [PROCESSOR…] runs the Python wheel of mmdb on aarch64, armv7 (both without
# words), under qemu-user-static: the quick start of its page, and programs of crates/mmdb-c/tests
#
# The wheel is made by scripts/wheel.sh (with FATHOM_BUILT=yes it is the one that lies there). The
# Python is Debian's for that processor, unpacked below target with what it links; nothing of it is
# installed. What cannot be had here is said, and ends it with 69. Not among the programs: those that
# send signals and fork, which an emulator does otherwise than a kernel.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-$PWD/target}")
. scripts/unpacked.sh

die() { echo "error: $*" >&2; exit 1; }
unavailable() { echo "error: $*" >&2; exit 69; }

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
programs=$PWD/crates/mmdb-c/tests/python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The first program in Python of the page.
awk '/^```python$/ { inside = 1; next } /^```$/ && inside { exit } inside' crates/mmdb-c/README.md >"$work/quick-start.py"
[ $# -gt 0 ] || set -- aarch64 armv7
for processor in "$@"; do
  case $processor in
    aarch64) architecture=arm64 platform=aarch64 qemu=qemu-aarch64-static ;;
    armv7) architecture=armhf platform=armv7l qemu=qemu-arm-static ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  command -v "$qemu" >/dev/null || unavailable "$qemu is not installed: sudo apt-get install qemu-user-static"
  command -v python3 >/dev/null || unavailable "python3, which unpacks the wheel, is not installed: sudo apt-get install python3"
  [ -n "${FATHOM_BUILT-}" ] || scripts/wheel.sh "$processor"
  wheel=$target/release/wheels/mmdb-$version-py3-none-manylinux_2_28_$platform.whl
  [ -f "$wheel" ] || die "$wheel is not there: scripts/wheel.sh $processor"
  python=$target/python-$architecture
  if [ ! -e "$python/complete" ]; then
    command -v apt-get >/dev/null || unavailable "there is no apt-get here, which brings a Python for $processor"
    echo "Bringing Debian's Python for $processor into $python …"
    mkdir -p "$python"
    unpack "$python" bookworm "$architecture" python3 || unavailable "apt-get brings no python3 for $architecture here"
  fi
  place=$work/$processor
  mkdir -p "$place/packages"
  python3 -m zipfile -e "$wheel" "$place/packages"
  # Whoever built it is nobody's business, and whoever builds it again is to make the same file.
  # A name with a space in it cannot be kept out (scripts/zig.sh).
  for directory in "$PWD/crates" "${CARGO_HOME:-$HOME/.cargo}/registry" "$(rustc --print sysroot 2>/dev/null || true)/lib/rustlib"; do
    [[ $directory = *[[:space:]]* ]] || ! grep -aqF "$directory" "$place/packages/mmdb/libmmdb_c.so" || die "the library for $processor names $directory"
  done
  there() {
    env PYTHONHOME="$python/usr" PYTHONPATH="$place/packages" PYTHONDONTWRITEBYTECODE=1 \
      "$qemu" -L "$python" "$python/usr/bin/python3" -W error "$@"
  }
  echo "Running the wheel of mmdb on $processor …"
  # Twice: the second recovers what the first has left.
  for _ in first second; do
    said=$(there "$work/quick-start.py" "$place/quick-start") || die "the quick start fails on $processor"
    grep -q 'table message, constraint primary: key' <<<"$said" || die "the quick start said on $processor: $said"
  done
  for name in interface groups strangers; do
    there "$programs/$name.py" "$place/$name" || die "$name.py fails on $processor"
  done
done

#!/usr/bin/env bash
# scripts/portable.sh [PROCESSOR…] runs the tests of mmdb and of the trace format on aarch64, armv7
# (both without words), under qemu-user-static
#
# Built by zig as scripts/static.sh does. Among them are those that read stores and traces which
# were written on x86_64, and those that hold what is written to its octets. Not among them: the
# search for defects that were put in, which takes more schedules than an emulator has time for, and
# what an emulator answers otherwise than a kernel (it lets a program that runs be written to).
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
. scripts/zig.sh

[ $# -gt 0 ] || set -- aarch64 armv7
for processor in "$@"; do
  case $processor in
    aarch64) triple=aarch64-unknown-linux-musl qemu=qemu-aarch64-static ;;
    armv7) triple=armv7-unknown-linux-musleabihf qemu=qemu-arm-static ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  command -v "$qemu" >/dev/null || unavailable "$qemu is not installed: sudo apt-get install qemu-user-static"
  library "$triple"
  runner=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$triple")_RUNNER
  echo "Testing mmdb and the trace format on $processor …"
  env CARGO_TARGET_DIR="$target/static" "$runner=$qemu" MMDB_CRASH_SCHEDULES=200 \
    cargo-zigbuild test --locked --no-fail-fast --target "$triple" -p mmdb -p fathom-trace \
    --lib --test format_promise --test model --test crash --test records --test damage -- \
    --skip _caught --skip clients_notice_ --skip looking_and_locking
done

#!/usr/bin/env bash
# scripts/static.sh [PROCESSOR…] static programs of Fathom for other machines: x86_64, aarch64,
# armv7 (all without words)
#
# They are put beside the release build, as target/release/machines/fathom-PROCESSOR, where `--on`
# looks for them. The linker and the C compiler are zig's, brought by pip into a directory below
# target; std is brought by rustup, or compiled from its source (rust-src) where rustup has none with
# musl. FATHOM_PROFILE=dev makes them of the dev profile instead, faster, in target/debug/machines:
# for tests.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
profile=${FATHOM_PROFILE:-release}
case $profile in
  release) made=release ;;
  dev) made=debug ;;
  *) echo "error: FATHOM_PROFILE=$profile: release or dev" >&2; exit 2 ;;
esac
out=$target/$made/machines

. scripts/zig.sh

# build PROCESSOR TRIPLE
build() {
  local processor=$1 triple=$2
  library "$triple"
  echo "Building fathom for $processor ($triple) …"
  CARGO_TARGET_DIR=$target/static cargo-zigbuild zigbuild --locked --profile "$profile" --quiet -p fathom --target "$triple"
  mkdir -p "$out"
  cp "$target/static/$triple/$made/fathom" "$out/fathom-$processor.new"
  mv "$out/fathom-$processor.new" "$out/fathom-$processor"
  ls -l "$out/fathom-$processor"
}

[ $# -gt 0 ] || set -- x86_64 aarch64 armv7
for processor in "$@"; do
  case $processor in
    x86_64|aarch64) build "$processor" "$processor-unknown-linux-musl" ;;
    armv7) build "$processor" armv7-unknown-linux-musleabihf ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done

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

# build PROCESSOR TARGET [COMMAND [OPTION…]]: a command of cargo-zigbuild, and its options.
build() {
  local processor=$1 triple=$2 command=${3:-zigbuild}
  shift $(($# < 3 ? 2 : 3))
  echo "Building fathom for $processor ($triple) …"
  CARGO_TARGET_DIR=$target/static \
    cargo-zigbuild "$command" --locked --profile "$profile" --quiet -p fathom --target "$triple" "$@"
  mkdir -p "$out"
  cp "$target/static/$triple/$made/fathom" "$out/fathom-$processor.new"
  mv "$out/fathom-$processor.new" "$out/fathom-$processor"
  ls -l "$out/fathom-$processor"
}

[ $# -gt 0 ] || set -- x86_64 aarch64 armv7
for processor in "$@"; do
  case $processor in
    x86_64|aarch64)
      std "$processor-unknown-linux-musl" || unavailable "rustup has no std for $processor-unknown-linux-musl here"
      build "$processor" "$processor-unknown-linux-musl" ;;
    armv7)
      if std armv7-unknown-linux-musleabihf; then build armv7 armv7-unknown-linux-musleabihf
      elif rustup component add rust-src >/dev/null 2>&1; then
        # Compiling std is not yet an option of a stable cargo; the compiler is the same.
        # What a program of musl begins with (crt1.o) comes with rustup's std; here it is zig's.
        RUSTC_BOOTSTRAP=1 build armv7 armv7-unknown-linux-musleabihf rustc --bin fathom \
          -Z build-std=std,panic_unwind -- -C link-self-contained=no
      else unavailable "rustup has neither std for armv7 here nor its source"
      fi ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done

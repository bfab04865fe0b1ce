#!/usr/bin/env bash
# scripts/static.sh [PROCESSOR…] static programs of Fathom for other machines: x86_64, aarch64,
# armv7 (all without words)
#
# They are put beside the release build, as target/release/machines/fathom-PROCESSOR, where `--on`
# looks for them. The linker and the C compiler are zig's, brought by pip into a directory below
# target; std is brought by rustup. A program for which rustup has no std with musl is linked to
# glibc 2.28 or later, and this says so.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
tools=$target/zig
out=$target/release/machines

die() { echo "error: $*" >&2; exit 1; }

if [ ! -x "$tools/bin/cargo-zigbuild" ]; then
  command -v python3 >/dev/null || die "python3 is not installed: sudo apt-get install python3 python3-venv"
  echo "Bringing zig and cargo-zigbuild by pip into $tools …"
  python3 -m venv "$tools" || die "python3 has no venv: sudo apt-get install python3-venv"
  "$tools/bin/pip" install --quiet ziglang==0.17.1 cargo-zigbuild==0.24.1
fi
export PATH=$tools/bin:$PATH

# std TARGET: brings the standard library; fails where there is none.
std() {
  rustup target list --installed | grep -qx "$1" || rustup target add "$1" >/dev/null 2>&1
}

# build PROCESSOR TARGET [SUFFIX]: SUFFIX is the version of glibc.
build() {
  local processor=$1 triple=$2 suffix=${3-}
  echo "Building fathom for $processor ($triple$suffix) …"
  CARGO_TARGET_DIR=$target/static cargo-zigbuild zigbuild --locked --release --quiet -p fathom --target "$triple$suffix"
  mkdir -p "$out"
  cp "$target/static/$triple/release/fathom" "$out/fathom-$processor.new"
  mv "$out/fathom-$processor.new" "$out/fathom-$processor"
  ls -l "$out/fathom-$processor"
}

[ $# -gt 0 ] || set -- x86_64 aarch64 armv7
for processor in "$@"; do
  case $processor in
    x86_64|aarch64)
      std "$processor-unknown-linux-musl" || die "rustup has no std for $processor-unknown-linux-musl here"
      build "$processor" "$processor-unknown-linux-musl" ;;
    armv7)
      if std armv7-unknown-linux-musleabihf; then build armv7 armv7-unknown-linux-musleabihf
      elif std armv7-unknown-linux-gnueabihf; then
        echo "armv7: rustup has no std with musl here; the program needs glibc 2.28 or later (Debian 10, Raspberry Pi OS 10)"
        build armv7 armv7-unknown-linux-gnueabihf .2.28
      else die "rustup has no std for armv7 here"
      fi ;;
    *) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done

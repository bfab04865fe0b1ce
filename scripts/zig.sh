# shellcheck shell=bash Sourced by scripts that build for other machines: brings zig, which is their
# linker and C compiler, and cargo-zigbuild, which calls it, by pip into a directory below target
# (`$target`).

# die WORDS: what is wrong; unavailable WORDS: what cannot be had here (EX_UNAVAILABLE of sysexits.h).
die() { echo "error: $*" >&2; exit 1; }
unavailable() { echo "error: $*" >&2; exit 69; }

tools=$target/zig
if [ ! -x "$tools/bin/cargo-zigbuild" ]; then
  command -v python3 >/dev/null || unavailable "python3 is not installed: sudo apt-get install python3 python3-venv"
  echo "Bringing zig and cargo-zigbuild by pip into $tools …"
  python3 -m venv "$tools" || unavailable "python3 has no venv: sudo apt-get install python3-venv"
  "$tools/bin/pip" install --quiet ziglang==0.17.1 cargo-zigbuild==0.24.1 || unavailable "pip has no zig here"
fi
PATH=$tools/bin:$PATH

# Symbols are of use to nobody on a board, and a debug build has ten times as many octets.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_STRIP=symbols

# std TARGET: brings the standard library; fails where there is none.
std() {
  rustup target list --installed | grep -qx "$1" || rustup target add "$1" >/dev/null 2>&1
}

# sysroot TRIPLE: compiles the standard library for it, once; `sysroot` is where it lies. A library
# beside the program (-Z build-std) will not do: some crates ask the compiler what it knows of the
# processor, by programs of their own. Compiling it is not yet an option of a stable cargo; the
# compiler is the same. With its bitcode, as rustup's has, for what is optimised as a whole.
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
  RUSTC_BOOTSTRAP=1 RUSTFLAGS="-C embed-bitcode=yes" CARGO_TARGET_DIR=$here/target cargo build --release --quiet --target "$triple" \
    -Z build-std=std,panic_unwind,test --manifest-path "$here/Cargo.toml" || { rm -rf "$here"; die "it does not compile"; }
  mkdir -p "$libraries.new"
  cp "$here/target/$triple/release/deps/"*.rlib "$libraries.new"
  mv "$libraries.new" "$libraries"
  rm -rf "$here"
}

# library TRIPLE: has what is built from here on for it find a standard library: rustup's, or one that
# is compiled.
library() {
  local triple=$1
  std "$triple" && return
  rustup component add rust-src >/dev/null 2>&1 || unavailable "rustup has neither std for $triple here nor its source"
  sysroot "$triple"
  # What a program of musl begins with (crt1.o) comes with rustup's std; here it is zig's.
  export "CARGO_TARGET_$(tr a-z- A-Z_ <<<"$triple")_RUSTFLAGS=--sysroot=$sysroot -C link-self-contained=no"
}

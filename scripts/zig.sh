# shellcheck shell=bash Sourced by scripts that build for other machines: brings zig, which is their
# linker and C compiler, and cargo-zigbuild, which calls it, by pip into a directory below target
# (`$target`).

# die WORDS: what is wrong; unavailable WORDS: what cannot be had here (EX_UNAVAILABLE of sysexits.h).
die() { echo "error: $*" >&2; exit 1; }
unavailable() { echo "error: $*" >&2; exit 69; }

# rustc is started in the directories of crates, where a relative name would be another.
target=$(realpath -m "$target")
tools=$target/zig
# What is fetched, each by its content on x86_64 and on aarch64; with other lines it is fetched anew.
packages='ziglang==0.17.1 --hash=sha256:ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54 --hash=sha256:b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e
cargo-zigbuild==0.24.1 --hash=sha256:238a1ab54a95053a4eadc34775c81f795a8ad75f80bfed63f3f445f518102375 --hash=sha256:07c5e3dcddf208500462ec927c556bb306cca2b533b0abe29446bffb63767b85'
if [ "$(cat "$tools/packages" 2>/dev/null)" != "$packages" ]; then
  command -v python3 >/dev/null || unavailable "python3 is not installed: sudo apt-get install python3 python3-venv"
  echo "Bringing zig and cargo-zigbuild by pip into $tools …"
  python3 -m venv "$tools" || unavailable "python3 has no venv: sudo apt-get install python3-venv"
  echo "$packages" >"$tools/packages.new"
  "$tools/bin/pip" install --quiet --require-hashes --only-binary :all: --requirement "$tools/packages.new" ||
    unavailable "pip has no zig here, or another than scripts/zig.sh knows"
  mv "$tools/packages.new" "$tools/packages"
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
  sysroot=$target/zig/library-$(rustc --version | tr -c 'a-z0-9.\n' -)
  local libraries=$sysroot/lib/rustlib/$triple/lib
  [ -d "$libraries" ] && return
  echo "Compiling the standard library for $triple …"
  here=$(mktemp -d)
  mkdir "$here/src"
  touch "$here/src/lib.rs"
  printf '[package]\nname = "nothing"\nedition = "2024"\n[workspace]\n' >"$here/Cargo.toml"
  RUSTC_BOOTSTRAP=1 RUSTFLAGS="-C embed-bitcode=yes $(remapped)" CARGO_TARGET_DIR=$here/target cargo build --release --quiet --target "$triple" \
    -Z build-std=std,panic_unwind,test --manifest-path "$here/Cargo.toml" || { rm -rf "$here"; die "it does not compile"; }
  mkdir -p "$libraries.new"
  cp "$here/target/$triple/release/deps/"*.rlib "$libraries.new"
  mv "$libraries.new" "$libraries"
  rm -rf "$here"
}

# remapped: flags by which no program holds the directories of whoever has built it: the same sources
# give the same program wherever they lie. What has a space in it cannot be handed on so, and stays.
remapped() {
  local pair
  for pair in "$(rustc --print sysroot)/lib/rustlib/src/rust=/rust" "${CARGO_HOME:-$HOME/.cargo}/registry/src=/crates" \
    "$target=/fathom/target" "$PWD=/fathom"; do
    case $pair in *[[:space:]]*) ;; *) printf ' --remap-path-prefix=%s' "$pair" ;; esac
  done
}

# flags_of TRIPLE: the name of the variable from which cargo takes rustc's flags for it.
flags_of() { echo "CARGO_TARGET_$(tr a-z- A-Z_ <<<"$1")_RUSTFLAGS"; }

# library TRIPLE: has what is built from here on for it find a standard library: rustup's, or one that
# is compiled.
library() {
  local triple=$1 flags
  flags=$(flags_of "$triple")
  export "$flags=$(remapped)"
  std "$triple" && return
  rustup component add rust-src >/dev/null 2>&1 || unavailable "rustup has neither std for $triple here nor its source"
  sysroot "$triple"
  # What a program of musl begins with (crt1.o) comes with rustup's std; here it is zig's.
  export "$flags=${!flags} --sysroot=$sysroot -C link-self-contained=no"
}

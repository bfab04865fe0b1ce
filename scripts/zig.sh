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

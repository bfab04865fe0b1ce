# shellcheck shell=bash Sourced by scripts that build for other machines: brings zig, which is their
# linker and C compiler, and cargo-zigbuild, which calls it, by pip into a directory below target
# (`$target`).

die() { echo "error: $*" >&2; exit 1; }

tools=$target/zig
if [ ! -x "$tools/bin/cargo-zigbuild" ]; then
  command -v python3 >/dev/null || die "python3 is not installed: sudo apt-get install python3 python3-venv"
  echo "Bringing zig and cargo-zigbuild by pip into $tools …"
  python3 -m venv "$tools" || die "python3 has no venv: sudo apt-get install python3-venv"
  "$tools/bin/pip" install --quiet ziglang==0.17.1 cargo-zigbuild==0.24.1
fi
PATH=$tools/bin:$PATH

# std TARGET: brings the standard library; fails where there is none.
std() {
  rustup target list --installed | grep -qx "$1" || rustup target add "$1" >/dev/null 2>&1
}

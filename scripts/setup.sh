# shellcheck shell=bash Sourced by ./run and ./test: brings what is missing on a Debian or Ubuntu
# machine, and says what it does. Nothing here is needed on a machine that already has the tools.

# as_root CMD… : runs CMD as root, directly or through sudo that asks for no password; fails
# otherwise.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo "$@"
  else return 1
  fi
}

# apt_bring PACKAGE… : installs Debian packages, quietly; fails where there is no apt or no root.
# The package lists are brought up to date once, when a package is not found as they are.
apt_updated=
apt_bring() {
  command -v apt-get >/dev/null || return 1
  local log
  log=$(mktemp)
  if apt_install "$@" >"$log" 2>&1; then rm -f "$log"; return 0; fi
  if [ -z "$apt_updated" ]; then
    apt_updated=yes
    if as_root apt-get update >>"$log" 2>&1 && apt_install "$@" >>"$log" 2>&1; then rm -f "$log"; return 0; fi
  fi
  tail -n 3 "$log" >&2
  rm -f "$log"
  return 1
}
apt_install() { as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; }

# need_cc : a C compiler and linker (SQLite is compiled from its C source).
need_cc() {
  command -v cc >/dev/null && return 0
  echo "Installing a C compiler (gcc, libc6-dev) …"
  apt_bring gcc libc6-dev && return 0
  echo "error: no C compiler. Install one and start again:  sudo apt-get install gcc libc6-dev" >&2
  return 1
}

# need_rust : cargo with the toolchain of rust-toolchain.toml.
need_rust() {
  local pinned
  pinned=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
  [ -x "$HOME/.cargo/bin/cargo" ] && PATH="$HOME/.cargo/bin:$PATH"
  if command -v rustup >/dev/null; then
    rustup run "$pinned" cargo --version >/dev/null 2>&1 && return 0
    echo "Installing Rust $pinned …"
    rustup toolchain install "$pinned" --profile minimal -c rustfmt -c clippy && return 0
  elif command -v cargo >/dev/null; then
    # A cargo without rustup: good enough when it is new enough.
    local have
    have=$(rustc --version | cut -d' ' -f2)
    [ "$(printf '%s\n%s\n' "$pinned" "$have" | sort -V | head -n 1)" = "$pinned" ] && return 0
    echo "error: Rust $have is older than $pinned. Update it, or remove it and start again." >&2
    return 1
  fi
  echo "Installing Rust $pinned (rustup) …"
  if ! command -v rustup >/dev/null && ! apt_bring rustup; then
    command -v curl >/dev/null || apt_bring curl ca-certificates ||
      { echo "error: no curl. Install it and start again:  sudo apt-get install curl" >&2; return 1; }
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
      sh -s -- -y --no-modify-path --profile minimal --default-toolchain none >/dev/null ||
      { echo "error: rustup could not be installed. See https://rustup.rs, then start again." >&2; return 1; }
    PATH="$HOME/.cargo/bin:$PATH"
  fi
  rustup toolchain install "$pinned" --profile minimal -c rustfmt -c clippy
}

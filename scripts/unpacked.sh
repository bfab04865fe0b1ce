# shellcheck shell=bash Sourced by scripts that try programs of another release or processor of
# Debian: unpacks them with what they link. Nothing is installed.

# unpack DIR SUITE ARCHITECTURE PACKAGE…: the packages of a release of Debian, and all that they
# depend on, into DIR; with '' as the architecture that of this machine. apt's lists and caches lie
# below DIR meanwhile.
unpack() {
  local directory=$1 suite=$2 architecture=$3 apt=$1/apt package
  shift 3
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/parts"
  : >"$apt/status"
  cat >"$apt/parts/$suite.sources" <<SOURCES
Types: deb
URIs: http://deb.debian.org/debian
Suites: $suite
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
  local options=(-o "Dir::State::lists=$apt/lists" -o "Dir::Cache::archives=$apt/archives"
    -o "Dir::State::status=$apt/status" -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$apt/parts"
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
    -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false)
  [ -z "$architecture" ] || options+=(-o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture")
  apt-get "${options[@]}" update >/dev/null || return 1
  apt-get "${options[@]}" --yes --download-only --no-install-recommends install "$@" >/dev/null || return 1
  for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$directory" || return 1; done
  rm -rf "$apt"
  # Half of it would pass for all of it.
  touch "$directory/complete"
}

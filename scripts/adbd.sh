#!/usr/bin/env bash
# scripts/adbd.sh DIR a real adbd for the tests, with what it links, unpacked into DIR: that of
# Debian trixie
#
# Nothing is installed: the packages are fetched with apt's lists and caches below DIR and unpacked
# there. Then: FATHOM_TEST_ADBD=DIR cargo test -p fathom --test remote_adb
set -euo pipefail
case ${1--} in -*) set -- ;; esac # no directory
[ $# = 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
directory=$(cd "$1" && pwd)
apt=$directory/apt
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/parts"
: >"$apt/status"
cat >"$apt/parts/trixie.sources" <<'SOURCES'
Types: deb
URIs: http://deb.debian.org/debian
Suites: trixie
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
options=(-o "Dir::State::lists=$apt/lists" -o "Dir::Cache::archives=$apt/archives" -o "Dir::State::status=$apt/status"
  -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$apt/parts" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
  -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false)
apt-get "${options[@]}" update >/dev/null
apt-get "${options[@]}" --yes --download-only --no-install-recommends install adbd >/dev/null
for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$directory"; done
rm -rf "$apt"
# Half of it would pass for all of it.
touch "$directory/complete"
echo "$directory"

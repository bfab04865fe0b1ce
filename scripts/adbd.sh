#!/usr/bin/env bash
# scripts/adbd.sh DIR a real adbd for the tests, with what it links, unpacked into DIR: that of
# Debian trixie
#
# Nothing is installed: the packages are fetched with apt's lists and caches below DIR and unpacked
# there. Then: FATHOM_TEST_ADBD=DIR cargo test -p fathom --test remote_adb
set -euo pipefail
case ${1--} in -*) set -- ;; esac # no directory
[ $# = 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; }
. "$(dirname "$0")/unpacked.sh"
mkdir -p "$1"
directory=$(cd "$1" && pwd)
unpack "$directory" trixie '' adbd
echo "$directory"

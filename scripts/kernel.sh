# shellcheck shell=bash Sourced by scripts/release.sh: what the licence of the guest kernel (GPL,
# version 2) asks of who passes it on.
#
# Section 3 lets a program be passed on with its complete corresponding source (a), with a written
# offer of it (b), or, where it is offered for copying from a place, with the source offered in the
# same place (its last paragraph). The last one is taken where the package that the kernel was built
# from can be had: it then lies beside the archives. Else (b) where somebody makes that offer:
# FATHOM_SOURCE_OFFER='NAME <MAIL>'. Else there is no kernel in the release.

# kernel_word KEY DIRECTORY: a word of the kernel's description.
kernel_word() { sed -n "s/^ *\"$1\": \"\(.*\)\",\{0,1\}\$/\1/p" "$2/kernel.json"; }

# kernel_source DIRECTORY PLACE: the path of the package that the kernel in DIRECTORY was built from:
# $FATHOM_KERNEL_SOURCE, or what lies in PLACE, where apt brings it, unless FATHOM_BUILT says that
# nothing is to be fetched. Fails where there is none with the right content.
kernel_source() {
  local name sum package version file
  name=$(kernel_word source "$1")
  sum=$(kernel_word source_sha256 "$1")
  file=${FATHOM_KERNEL_SOURCE:-$2/$name}
  if [ ! -f "$file" ] && [ -z "${FATHOM_KERNEL_SOURCE-}${FATHOM_BUILT-}" ] && [ "${name%.deb}" != "$name" ]; then
    # linux-source-6.12_6.12.117-1~deb12u1_all.deb
    package=${name%%_*} version=${name#*_}
    mkdir -p "$2"
    (cd "$2" && apt-get -q download "$package=${version%_*}") >&2 || return 1
  fi
  if [ ! -f "$file" ] || ! sha256sum --status --check <<<"$sum  $file"; then
    [ -z "${FATHOM_KERNEL_SOURCE-}" ] || echo "note: $file is not $name with the SHA-256 $sum" >&2
    return 1
  fi
  echo "$file"
}

# kernel_papers DIRECTORY RECIPE PLACED: writes beside the kernel of DIRECTORY, which is packed in
# RECIPE, its licence, the configuration and changes it was built with, and where its source is: in
# the place of the archives by the name PLACED, or, where that is empty, with whom who offers it.
kernel_papers() {
  local guest=crates/fathom-stack/src/guest name sum release how others authors
  name=$(kernel_word source "$1") sum=$(kernel_word source_sha256 "$1") release=$(kernel_word release "$1")
  install -m 644 "$guest/kernel/COPYING" "$2/COPYING"
  install -D -m 644 -t "$2/source" "$guest"/build.rs "$guest"/build_error.rs "$guest"/patch.rs
  install -D -m 644 -t "$2/source/kernel" "$guest"/kernel/guest.config "$guest"/kernel/*.c
  if [ -n "$3" ]; then
    how="HOW THE SOURCE IS HAD: from the same place as this archive or package, where it lies beside it
by the name $3. This is the last paragraph of section 3
of the licence: who offers a program for copying from a place, and its source for copying from the
same place, has passed the source on. So there is no offer by post, which section 3 b would want,
and for which this project has no address. If you offer this archive for copying, offer that file
beside it; SHA256SUMS has both."
  else
    how="HOW THE SOURCE IS HAD: this is a written offer as in section 3 b of the licence, which is taken
because the package is too large to lie in this archive. $FATHOM_SOURCE_OFFER
gives everybody who asks, until three years after $(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d) at least, all of the
source that is named above, for no more than what it costs to hand it over, on a medium that is
usual for that or over the network, under sections 1 and 2 of the licence. The licence asks for an
offer in writing and not for a postal address: mail to the address above is enough. If you pass
this archive on without earning by it, pass this offer on with it (section 3 c)."
  fi
  # Which package it is of which release is known of Debian's only.
  authors=https://cdn.kernel.org/pub/linux/kernel/v6.x/linux-${release%-fathom}.tar.xz
  others="   $authors
   (sha256sums.asc there has its SHA-256)"
  [ "${name%.deb}" = "$name" ] || others="   http://deb.debian.org/debian-security/pool/updates/main/l/linux-6.12/$name
   https://snapshot.debian.org/package/linux-6.12/ (what Debian has had at any time)
   $authors
   (the same release by its authors, without Debian's changes; sha256sums.asc there has its SHA-256)"
  cat >"$2/LICENCE" <<LICENCE
linux is a Linux kernel, $release (user-mode Linux), and no part of Fathom: it is under the GNU
General Public License, version 2, whose text is COPYING beside this file. It comes without any
warranty (sections 11 and 12 there).

ITS COMPLETE CORRESPONDING SOURCE is two things.

1. $name
   SHA-256 $sum
2. The directory source beside this file, which is crates/fathom-stack/src/guest of Fathom's:
   kernel/guest.config   the configuration; all else is as \`make allnoconfig\` has it
   patch.rs, kernel/*.c  what is changed in the source and added to it; as parts of this kernel
                         these, too, are under the GNU General Public License, version 2
   build.rs              the steps: unpack, change, \`make ARCH=um KCONFIG_ALLCONFIG=guest.config
                         allnoconfig\`, \`make ARCH=um linux\`, strip

With \`fathom stack kernel --source FILE\` a Fathom of this version takes these steps with 1. and
builds the kernel again. Here it was compiled by $(kernel_word compiler "$1").

$how

Others have it as well, for as long as they do:
$others
LICENCE
}

#!/usr/bin/env bash
# scripts/release.sh [PROCESSOR…] what people take: target/release/dist/*.tar.gz, *.deb, the wheel of
# mmdb and SHA256SUMS
#
# One archive and one package for each processor (x86_64, aarch64, armv7): the static program, those
# for the other processors, which `--on` pushes, completions, manual pages, the guide with all that it
# leads to, licences (also of what is linked in), and for x86_64 the guest kernel, which is built where
# there is none yet (without the tools for that this says so), with the source that its licence asks for
# (scripts/kernel.sh). The same programs make the same files, whoever packs them. FATHOM_SIGN='gpg
# --detach-sign --armor', or what else is called with the name of a file and signs it, signs SHA256SUMS.
# FATHOM_XZ_LEVEL=0 packs in a tenth of the time, for a try (6).
set -euo pipefail
# Modes and orders are those of the release, and not of whoever makes it: with umask 077 nobody but
# root read the pages and completions of an installed package.
umask 022
export LC_ALL=C
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
machines=$target/release/machines
dist=$target/release/dist
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
# Results name the commit of the program that measured them.
FATHOM_COMMIT=${FATHOM_COMMIT-$(git describe --always --dirty --exclude '*' 2>/dev/null || true)}
export FATHOM_COMMIT
# Whoever makes the package says who answers for it.
maintainer="${DEBFULLNAME:-Fathom} <${DEBEMAIL:-fathom@example.org}>"
[ $# -gt 0 ] || set -- x86_64 aarch64 armv7

die() { echo "error: $*" >&2; exit 1; }
. scripts/kernel.sh
. scripts/licences.sh
wheels=
for processor in "$@"; do
  case $processor in x86_64|aarch64|armv7) ;; *) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
  [ -n "${FATHOM_BUILT-}" ] || scripts/static.sh "$processor"
  # What cannot be had here (69) is only missing from the release, which says so: a wheel that lies
  # there of an earlier day is not in its place.
  made=0
  [ -n "${FATHOM_BUILT-}" ] || scripts/wheel.sh "$processor" || made=$?
  case $made in 0) wheels+=" $processor " ;; 69) ;; *) exit "$made" ;; esac
  [ -x "$machines/fathom-$processor" ] || die "$machines/fathom-$processor is not there: scripts/static.sh $processor"
done
# Completions and pages are made by the program itself; one that runs here.
here=$machines/fathom-$(uname -m)
[ -x "$here" ] || here=$target/release/fathom
[ -x "$here" ] || here=$target/debug/fathom
[ -x "$here" ] || die "no program that runs here: cargo build --release -p fathom"

# A kernel that is there already takes no time; what it lacks is said.
if [ -z "${FATHOM_BUILT-}" ] && [ "$(uname -m)" = x86_64 ] && [[ " $* " = *" x86_64 "* ]]; then
  if built=$("$here" stack kernel); then
    echo "$built"
    kernel=$(sed -n '1s/^.*: //p' <<<"$built")
  else
    echo "note: the guest kernel was not built"
  fi
fi

debian() { case $1 in x86_64) echo amd64 ;; aarch64) echo arm64 ;; armv7) echo armhf ;; esac; }

# triple PROCESSOR: what its program is built for.
triple() { case $1 in armv7) echo armv7-unknown-linux-musleabihf ;; *) echo "$1-unknown-linux-musl" ;; esac; }

# source_of DIRECTORY: lays the source of the kernel in DIRECTORY beside the archives, and says by
# which name; nothing, where somebody offers it instead. Fails where it can be had in no way.
source_of() {
  local file
  if file=$(kernel_source "$1" "$target/guest-kernel-source"); then
    name=$(kernel_word source "$1")
    [ -f "$dist/$name" ] || install -m 644 "$file" "$dist/$name"
    echo "$name"
  else
    [ -n "${FATHOM_SOURCE_OFFER-}" ]
  fi
}

# led_to: the files to which the pages lead in this repository, of names of pages.
led_to() {
  local page name
  while read -r page; do
    [[ $page = *.md ]] || continue
    { grep -o ']([^)# ]*' "$page" || true; } | sed -n '/:\/\//d; s/^](\(.\)/\1/p' | sed "s|^|$(dirname "$page")/|"
  done | xargs -r -d '\n' realpath -m -s --relative-to=. | while read -r name; do
    if [ -d "$name" ]; then find "$name" -type f; else echo "$name"; fi
  done
}

# linked PAGE…: the pages, what they lead to, and what pages among that lead to.
linked() {
  local all new
  all=$(printf '%s\n' "$@" | sort -u)
  new=$all
  while [ -n "$new" ]; do
    new=$(led_to <<<"$new" | sort -u | comm -13 <(echo "$all") -)
    all=$(printf '%s\n' "$all" "$new" | sed '/^$/d' | sort -u)
  done
  echo "$all"
}

# tree PROCESSOR DIRECTORY: everything below bin, lib and share.
tree() {
  local processor=$1 root=$2 other name placed recipe
  install -D -m 755 "$machines/fathom-$processor" "$root/bin/fathom"
  mkdir -p "$root/lib/fathom" "$root/share/man/man1"
  for other in "${all[@]}"; do
    [ "$other" = "$processor" ] || install -m 755 "$machines/fathom-$other" "$root/lib/fathom/fathom-$other"
  done
  "$here" man --out "$root/share/man/man1" >/dev/null
  install -d "$root/share/bash-completion/completions" "$root/share/zsh/site-functions" "$root/share/fish/vendor_completions.d"
  "$here" completions bash >"$root/share/bash-completion/completions/fathom"
  "$here" completions zsh >"$root/share/zsh/site-functions/_fathom"
  "$here" completions fish >"$root/share/fish/vendor_completions.d/fathom.fish"
  install -D -m 644 -t "$root/share/doc/fathom" LICENSE-MIT LICENSE-APACHE
  xargs -d '\n' cp --parents -t "$root/share/doc/fathom" <<<"$guide"
  find "$root/share/doc/fathom" -type d -exec chmod 755 {} +
  find "$root/share/doc/fathom" -type f -exec chmod 644 {} +
  install -m 644 "$work/licences-$processor" "$root/share/doc/fathom/LICENCES-OF-OTHERS"
  licences_of_rust "$root/share/doc/fathom/LICENCES-OF-RUST.html"
  if [ "$processor" = x86_64 ]; then
    # Those of other recipes lie beside it, and no program of this release looks for them: whichever
    # was newest was packed, and in vain.
    recipe=$("$here" stack kernel --recipe) || die "$here does not say which guest kernel it looks for"
    case ${XDG_CACHE_HOME-} in /*) name=$XDG_CACHE_HOME ;; *) name=${HOME-}/.cache ;; esac
    name=${FATHOM_CACHE_DIR:-$name/fathom}/guest-kernel/$recipe/linux
    # One that another release brought.
    [ -f "$name" ] || [ "$(basename "$(dirname "${kernel-/none/none}")")" != "$recipe" ] || name=$kernel
    if [ -f "$name" ] && placed=$(source_of "$(dirname "$name")"); then
      local packed=$root/lib/fathom/guest-kernel/$recipe
      install -D -m 755 "$name" "$packed/linux"
      install -m 644 "$(dirname "$name")/kernel.json" "$packed/kernel.json"
      (cd "$packed" && sha256sum linux >linux.sha256)
      kernel_papers "$(dirname "$name")" "$packed" "$placed"
    elif [ -f "$name" ]; then
      echo "note: no guest kernel in the archive: its source, which is to be passed on with it, cannot be had (FATHOM_KERNEL_SOURCE=FILE), and nobody offers it (FATHOM_SOURCE_OFFER='NAME <MAIL>')"
    else
      echo "note: no guest kernel in the archive: there is none of this version's recipe ($recipe); \`fathom stack kernel\` builds it"
    fi
  fi
  gzip -9n "$root/share/man/man1"/*.1
  find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

# package PROCESSOR: a .deb by dpkg-deb.
package() {
  local processor=$1 root
  command -v dpkg-deb >/dev/null || { echo "note: no .deb: dpkg-deb is not installed"; return; }
  root=$work/deb-$processor
  mkdir -p "$root/DEBIAN" "$root/usr"
  tree "$processor" "$root/usr"
  # Policy 12.5 and 12.7: copyright and changelog by these names.
  local doc=$root/usr/share/doc/fathom
  {
    echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
    echo 'Upstream-Name: fathom'
    echo 'Comment: What is linked in, and under which licences, is in LICENCES-OF-OTHERS.gz and'
    echo ' LICENCES-OF-RUST.html.gz.'
    echo
    echo 'Files: *'
    echo 'Copyright: the authors of Fathom'
    echo 'License: MIT or Apache-2.0'
    echo
    echo 'License: MIT'
    sed 's/^$/./; s/^/ /' LICENSE-MIT
    echo
    echo 'License: Apache-2.0'
    echo ' On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.'
    if [ -d "$root/usr/lib/fathom/guest-kernel" ]; then
      echo
      echo 'Files: usr/lib/fathom/guest-kernel/*'
      echo 'Copyright: the authors of Linux'
      echo 'License: GPL-2'
      echo
      echo 'License: GPL-2'
      echo ' On Debian systems the text is in /usr/share/common-licenses/GPL-2.'
    fi
  } >"$doc/copyright"
  rm "$doc/LICENSE-MIT" "$doc/LICENSE-APACHE"
  gzip -9n "$doc/CHANGELOG.md" "$doc"/LICENCES-OF-*
  sed -i 's/](CHANGELOG\.md)/](CHANGELOG.md.gz)/' "$doc"/README*.md
  printf 'fathom (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
  mkdir -p "$root/usr/share/zsh/vendor-completions"
  mv "$root/usr/share/zsh/site-functions/_fathom" "$root/usr/share/zsh/vendor-completions/"
  rmdir "$root/usr/share/zsh/site-functions"
  local depends=
  [ "$processor" != armv7 ] || ! file -L "$root/usr/bin/fathom" | grep -q 'dynamically linked' || depends="Depends: libc6 (>= 2.28)"
  {
    echo "Package: fathom"
    echo "Version: $version"
    echo "Architecture: $(debian "$processor")"
    echo "Maintainer: $maintainer"
    # As dpkg-gencontrol counts: what du says depends on the file system that this is packed on.
    echo "Installed-Size: $(find "$root/usr" -printf '%y %s\n' |
      awk '{ kib += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print kib }')"
    [ -z "$depends" ] || echo "$depends"
    echo "Recommends: e2fsprogs, fuse3"
    echo "Suggests: adb, openssh-client, xfsprogs, btrfs-progs, f2fs-tools, postgresql"
    echo "Section: database"
    echo "Priority: optional"
    echo "Description: performance laboratory for embedded and mobile databases"
    echo " Tells what an application's SQL does on any combination of engine, settings,"
    echo " file system and device: how fast, where the time goes, how sure the numbers"
    echo " are, and what a power cut leaves."
  } >"$root/DEBIAN/control"
  (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
  find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  find "$root" -type d -exec chmod 755 {} +
  # Ubuntu's own takes zstd, which dpkg of Debian 11 and of Raspberry Pi OS of that time cannot read.
  dpkg-deb --root-owner-group -Zxz -z"${FATHOM_XZ_LEVEL:-6}" --build "$root" "$dist/fathom_${version}_$(debian "$processor").deb" >/dev/null
}

# The README, the guide, and all that both lead to: there is no other place where links could lead.
guide=$(linked README.md README.ko.md CHANGELOG.md docs/*.md docs/ko/*.md docs/figures/*.svg)
all=()
for processor in x86_64 aarch64 armv7; do
  # What lies there and was not built just now may be of another version.
  case " $* " in *" $processor "*) fresh=yes ;; *) fresh=${FATHOM_BUILT-} ;; esac
  if [ -n "$fresh" ] && [ -x "$machines/fathom-$processor" ]; then all+=("$processor")
  else echo "note: without the program for $processor, which \`--on\` would push: scripts/static.sh $processor"
  fi
done
rm -rf "$dist"
mkdir -p "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for processor in "$@"; do
  name=fathom-$version-$processor-linux
  licences fathom "$(triple "$processor")" "$work/licences-$processor"
  tree "$processor" "$work/$name"
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" \
    | gzip -9n >"$dist/$name.tar.gz"
  package "$processor"
  # PEP 425's names.
  platform=${processor/armv7/armv7l}
  { [[ $wheels = *" $processor "* ]] && cp "$target/release/wheels/mmdb-$version-"*"_$platform.whl" "$dist/" 2>/dev/null; } \
    || echo "note: no wheel of mmdb for $processor: scripts/wheel.sh $processor"
done
(cd "$dist" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
if [ -n "${FATHOM_SIGN-}" ]; then
  # As it would be typed; the programs of this kind write beside what they sign.
  (cd "$dist" && bash -c "$FATHOM_SIGN SHA256SUMS") || die "$FATHOM_SIGN SHA256SUMS: it was not signed"
  compgen -G "$dist/SHA256SUMS.?*" >/dev/null || die "$FATHOM_SIGN SHA256SUMS: it made no signature SHA256SUMS.* there"
fi
ls -l "$dist"

#!/usr/bin/env bash
# scripts/release.sh [PROCESSOR…] what people take: target/release/dist/*.tar.gz, *.deb, the wheel of
# mmdb and SHA256SUMS
#
# One archive and one package for each processor (x86_64, aarch64, armv7): the static program, those
# for the other processors, which `--on` pushes, completions, manual pages, licences, and for x86_64
# the guest kernel if there is one (`fathom stack kernel` builds it; without it this says so). The
# same sources make the same files.
set -euo pipefail
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
for processor in "$@"; do
  case $processor in x86_64|aarch64|armv7) ;; *) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
  [ -n "${FATHOM_BUILT-}" ] || scripts/static.sh "$processor"
  [ -n "${FATHOM_BUILT-}" ] || scripts/wheel.sh "$processor"
  [ -x "$machines/fathom-$processor" ] || die "$machines/fathom-$processor is not there: scripts/static.sh $processor"
done
# Completions and pages are made by the program itself; one that runs here.
here=$machines/fathom-$(uname -m)
[ -x "$here" ] || here=$target/release/fathom
[ -x "$here" ] || here=$target/debug/fathom
[ -x "$here" ] || die "no program that runs here: cargo build --release -p fathom"

debian() { case $1 in x86_64) echo amd64 ;; aarch64) echo arm64 ;; armv7) echo armhf ;; esac; }

# tree PROCESSOR DIRECTORY: everything below bin, lib and share.
tree() {
  local processor=$1 root=$2 other name
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
  install -D -m 644 -t "$root/share/doc/fathom" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE
  if [ "$processor" = x86_64 ]; then
    # Those of earlier recipes lie beside it, and no program of this release looks for them.
    name=$(ls -t "${FATHOM_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/fathom}"/guest-kernel/*/linux 2>/dev/null | head -n 1 || true)
    if [ -f "$name" ]; then
      local recipe=$root/lib/fathom/guest-kernel/$(basename "$(dirname "$name")")
      install -D -m 755 "$name" "$recipe/linux"
      install -m 644 "$(dirname "$name")/kernel.json" "$recipe/kernel.json"
      (cd "$recipe" && sha256sum linux >linux.sha256)
    else
      echo "note: no guest kernel in the archive: \`fathom stack kernel\` builds it"
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
  } >"$doc/copyright"
  rm "$doc/LICENSE-MIT" "$doc/LICENSE-APACHE"
  gzip -9n "$doc/CHANGELOG.md"
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
    echo "Installed-Size: $(du -sk "$root/usr" | cut -f1)"
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
  dpkg-deb --root-owner-group --build "$root" "$dist/fathom_${version}_$(debian "$processor").deb" >/dev/null
}

all=()
for processor in x86_64 aarch64 armv7; do
  [ ! -x "$machines/fathom-$processor" ] || all+=("$processor")
done
rm -rf "$dist"
mkdir -p "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for processor in "$@"; do
  name=fathom-$version-$processor-linux
  tree "$processor" "$work/$name"
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" \
    | gzip -9n >"$dist/$name.tar.gz"
  package "$processor"
  # PEP 425's names.
  platform=${processor/armv7/armv7l}
  cp "$target/release/wheels/mmdb-$version-"*"_$platform.whl" "$dist/" 2>/dev/null \
    || echo "note: no wheel of mmdb for $processor: scripts/wheel.sh $processor"
done
(cd "$dist" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
ls -l "$dist"

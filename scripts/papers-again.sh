#!/usr/bin/env bash
# scripts/papers-again.sh NAME…  measures published data sets of docs/papers.md again and says which
# verdicts come out otherwise (exit code 1). NAME is one of `fathom papers --list`, whose experiment
# lies in docs/papers/experiments or is built in; `all` is every one of them, ten hours and more. A
# NAME of that folder that is not on the page yet is measured, its excerpt written, and not judged. It
# mounts, and needs root; what runs in a guest (FAT, exFAT, F2FS, NILFS2, XFS of version 4) needs its
# kernel as well: `fathom stack kernel`. Stopped, the same command goes on where it was.
#
#   SEED=2            another seed than the published runs'
#   OUT=FOLDER        what is made and measured, and kept [fathom-out/papers-again-SEED]; whoever
#                     wants to begin anew removes it
#   DIR=/dev/shm      where images are put: memory, so that the modelled device alone decides
#   FATHOM=PROGRAM    instead of target/release/fathom; built with FATHOM_COMMIT=… its results name
#                     that commit
#   SQLITE=FOLDER     has VERSION/sqlite3.c of SQLite's releases, instead of those from elsewhere
#   MOBIBENCH=FOLDER  has shell/mobigen.out.facebook and .twitter, instead of a clone of Mobibench
#
# What an experiment names is made here. ./sqlite-….so is compiled: the bundled release from the crate
# libsqlite3-sys, others from the amalgamations that npm's packages `sqlite3` carry, or from the
# release's tag in SQLite's own repository (`make sqlite3.c`, which takes tclsh). ./mobibench-….calls
# are imported from Mobibench's repository, ./…-app.trace made up by several-app.py. ./aged….img are
# aged as docs/aged-file-systems.md says. aged-hour's print is shown where it is not the page's.
set -euo pipefail
[ $# -gt 0 ] && [ "${1#-}" = "$1" ] || { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 2; }
cd "$(dirname "$0")/.."
root=$PWD
fathom=$(realpath "${FATHOM:-target/release/fathom}")
[ -x "$fathom" ] || { echo "no $fathom: FATHOM_COMMIT=\$(git describe --always --dirty --exclude '*') cargo build --release -p fathom" >&2; exit 1; }
seed=${SEED:-2}
published=$("$fathom" papers --list | grep -v '^ ')
names=("$@")
[ "$*" != all ] || mapfile -t names <<<"$published"
is_published() { grep -qxF -- "$1" <<<"$published"; }
# Before hours of others are measured.
for name in "${names[@]}"; do
  is_published "$name" || [ -e "docs/papers/experiments/$name.toml" ] || {
    echo "$name: no such data set; there are: all" $published >&2
    exit 2
  }
done
work=$(realpath -m "${OUT:-fathom-out/papers-again-$seed}")
mkdir -p "$work"
# Who stops it stops all of it, and not the data set that is under way.
trap 'exit 130' INT TERM
cp docs/papers/experiments/* "$work"

# The package of npm that carries a release of SQLite; `of_release` looks whether it does.
package() {
  case $1 in
    3.7.13) echo sqlite3@2.1.7 ;;
    3.8.2) echo sqlite3@2.2.0 ;;
    3.8.11.1) echo sqlite3@3.1.0 ;;
    3.28.0) echo sqlite3@4.1.0 ;;
    *) return 1 ;;
  esac
}

# of_release VERSION FILE FROM: prints the path of an amalgamation, if it is of that release.
of_release() {
  local found
  found=$(sed -n 's/^#define SQLITE_VERSION  *"\(.*\)".*/\1/p' "$2" 2>/dev/null | head -n 1) || true
  [ "$found" = "$1" ] || {
    echo "SQLite $1: ${2:-no sqlite3.c} of $3 is of ${found:-no release}: put the right one into a folder $1" \
      "and name the folder above: SQLITE=…" >&2
    return 1
  }
  echo "$2"
}

# amalgamation VERSION: prints the path of sqlite3.c.
amalgamation() {
  local version=$1 place=$work/source-$1 archive
  if [ "$version" = bundled ]; then
    cargo metadata --locked --format-version 1 | grep -o '"manifest_path":"[^"]*libsqlite3-sys[^"]*"' |
      sed 's/.*:"\(.*\)Cargo.toml"/\1sqlite3\/sqlite3.c/'
    return
  fi
  if [ -n "${SQLITE:-}" ] && [ -e "$SQLITE/$version/sqlite3.c" ]; then
    of_release "$version" "$SQLITE/$version/sqlite3.c" "SQLITE=$SQLITE"
    return
  fi
  rm -rf "$place"
  mkdir -p "$place"
  if ! package "$version" >/dev/null; then
    { git clone --quiet --depth 1 --branch "version-$version" https://github.com/sqlite/sqlite "$place/own" &&
      (cd "$place/own" && ./configure && make sqlite3.c) >/dev/null 2>&1; } || {
      echo "SQLite $version: put its sqlite3.c into a folder $version and name the folder above: SQLITE=…" >&2
      return 1
    }
    of_release "$version" "$place/own/sqlite3.c" "its tag"
    return
  fi
  (cd "$place" && npm pack --silent "$(package "$version")" >/dev/null && tar xzf ./*.tgz)
  for archive in "$place"/package/deps/*.tar.gz; do
    [ ! -e "$archive" ] || tar xzf "$archive" -C "$place"
  done
  of_release "$version" "$(find "$place" -name sqlite3.c | head -n 1)" "npm's $(package "$version")"
}

# library NAME: compiles ./sqlite[-VERSION]-CALL.so.
library() {
  local name=${1#./} version=bundled call words=() source
  call=${name%.so}
  call=${call##*-}
  case $name in sqlite-[0-9]*) version=${name#sqlite-} version=${version%-*} ;; esac
  case $call in
    fdatasync) words=(-Dfdatasync=fdatasync) ;;
    batch) words=(-Dfdatasync=fdatasync -DSQLITE_ENABLE_BATCH_ATOMIC_WRITE) ;;
  esac
  source=$(amalgamation "$version")
  [ -n "$source" ] || { echo "$name: no amalgamation of SQLite $version was found" >&2; exit 1; }
  gcc -O2 -fPIC -shared -w -DSQLITE_THREADSAFE=1 "${words[@]}" "$source" -o "$work/$name.part" \
    -lpthread -ldl
  mv "$work/$name.part" "$work/$name"
}

# calls APPLICATION: imports ./mobibench-APPLICATION.calls, what a phone asked of its files; of
# APPLICATION-fdatasync with other syncs.
calls() {
  local from=${MOBIBENCH:-$work/mobibench} changed=$work/mobigen-$1 change=
  case $1 in *-fdatasync) change='s/ fsync / fdatasync /' ;; esac
  [ -e "$from" ] || git clone --quiet --depth 1 https://github.com/ESOS-Lab/Mobibench "$from" || {
    echo "no Mobibench: put a copy of its repository somewhere and name it: MOBIBENCH=…" >&2
    return 1
  }
  sed "$change" "$from/shell/mobigen.out.${1%-fdatasync}" >"$changed"
  "$fathom" trace import "$changed" --out "$work/mobibench-$1.part" >/dev/null
  mv "$work/mobibench-$1.part" "$work/mobibench-$1.calls"
}

# traces: makes up ./several-app.trace and ./one-app.trace.
traces() {
  "$work/several-app.py" "$work/app"
  for made in several one; do
    "$fathom" trace import "$work/app/$made.sql" --out "$work/$made-app.part" >/dev/null 2>&1
    mv "$work/$made-app.part" "$work/$made-app.trace"
  done
}

# aged NAME FILESYSTEM: ages ./NAME, 512 MiB of a file system.
aged() {
  local stack=papers-again-$$
  rm -f "$work/$1.part"
  "$fathom" stack up --fs "$2" --size 512 --keep "$work/$1.part" --name "$stack" >/dev/null
  "$fathom" stack age "$stack" --used 90 --rounds 3 || { "$fathom" stack down "$stack"; return 1; }
  "$fathom" stack down "$stack" >/dev/null
  mv "$work/$1.part" "$work/$1"
}

# hour: prints the page with new recordings of an hour of commits, and shows where it is another one.
hour() {
  "$fathom" simulate "$work/aged-hour.db" --device-alone --device sd-sandisk-8,emmc-51 --json >"$work/aged-hour.json"
  rm -rf "$work/pages"
  mkdir "$work/pages"
  cp -r docs "$work/pages"
  ln -s "$root/crates" "$work/pages/crates"
  sed '/^\[simulated.aged-hour\]/,/^\]/s|"../results/aged-hour-ext4.json",|"../../../aged-hour.json",|
    /results\/aged-hour-f2fs/d' docs/papers/beyond.toml >"$work/pages/docs/papers/beyond.toml"
  "$fathom" papers "$work/pages/docs/papers" >"$work/page.md"
  diff docs/papers.md "$work/page.md" || true
}

# places: which blocks were written, of every request of p3-places.
places() {
  "$fathom" report "$work/p3-places.db" --requests >"$work/p3-places-requests.csv"
  "$work/p3-places.py" "$work/p3-places-requests.csv" >"$work/p3-places.csv"
  echo "p3-places: $work/p3-places.csv"
}

# materials NAME: makes what its experiment names. By itself (below), so that the first command that
# fails ends it.
materials() {
  local experiment=$1.toml needed
  if [ -e "$work/$experiment" ]; then
    for needed in $(grep -o '\./sqlite[^"]*\.so' "$work/$experiment" | sort -u); do
      [ -e "$work/$needed" ] || library "$needed"
    done
    for needed in $(grep -o '\./mobibench-[a-z-]*\.calls' "$work/$experiment" | sort -u); do
      needed=${needed#./mobibench-}
      [ -e "$work/mobibench-$needed" ] || calls "${needed%.calls}"
    done
    ! grep -q '\./[a-z]*-app\.trace' "$work/$experiment" || [ -e "$work/one-app.trace" ] || traces
    for needed in $(grep -o '\./aged-[a-z0-9]*\.img' "$work/$experiment" | sort -u); do
      needed=${needed#./aged-}
      [ -e "$work/aged-$needed" ] || aged "aged-$needed" "${needed%.img}"
    done
  fi
  [ "$1" != aged-file-system ] || [ -e "$work/aged.img" ] || aged aged.img ext4
}

with=() failed=()
for name in "${names[@]}"; do
  experiment=$name.toml
  chosen=()
  [ -e "$work/$experiment" ] || experiment=$name
  [ "$name" != aged-file-system ] || chosen=(--set variants=fresh,aged)
  # `set -e` does nothing where somebody asks whether a command succeeds.
  set +e
  (set -e; materials "$name")
  made=$?
  set -e
  # What is there of it from before is judged all the same.
  if [ "$made" -ne 0 ]; then
    failed+=("$name")
  else
    [ ! -e "$work/$name.db" ] || chosen+=(--resume)
    (cd "$work" &&
      "$fathom" run "$experiment" "${chosen[@]}" --seed "$seed" --dir "${DIR:-/dev/shm}" --out "$name.db" --quiet) ||
      failed+=("$name")
  fi
  # The others are measured all the same, and what there is of this one is judged.
  [ -e "$work/$name.db" ] || continue
  if [ "$name" = aged-hour ]; then
    hour
  elif is_published "$name"; then
    with+=(--with "$name=$work/$name.db")
  else
    rm -f "$work/$name.db.zst"
    "$fathom" report "$work/$name.db" --excerpt "$work/$name.db.zst" >/dev/null
    echo "$name is not on the page yet: $work/$name.db.zst"
    [ "$name" != p3-places ] || places
  fi
done
status=0
[ ${#with[@]} -eq 0 ] || "$fathom" papers "${with[@]}" || status=1
[ ${#failed[@]} -eq 0 ] || { echo "not measured whole: ${failed[*]}; once what is said above is mended, the same command goes on" >&2; status=1; }
exit $status

#!/usr/bin/env bash
# scripts/tests.sh    every test of the workspace, as `cargo test --workspace` runs them, but several
# test programs side by side: most of their time they wait, for a device, a kill, another program.
# What a program prints stands together, when it ends; those that failed are named at the end again.
#   FATHOM_TEST_PROGRAMS=N    how many at once (two for each core); each runs a test for each core
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
at_once=${FATHOM_TEST_PROGRAMS:-$(($(nproc) * 2))}
kept=$(mktemp -d) || exit 1
trap 'rm -rf "$kept"' EXIT

# What cargo says of each program: its package's directory, that it is one of tests, and its file.
if ! cargo test --workspace --locked --no-run --message-format=json-render-diagnostics >"$kept/built"; then
  exit 1
fi
sed -nE 's|.*"manifest_path":"([^"]*)/Cargo.toml".*"profile":\{[^}]*"test":true\}.*"executable":"([^"]*)".*|\1\t\2|p' \
  "$kept/built" | sort >"$kept/programs"
if [ ! -s "$kept/programs" ]; then echo "error: cargo names no program of tests"; exit 1; fi

# one "DIRECTORY	PROGRAM" : runs it where cargo would, and prints what it said once it has ended.
one() {
  local directory=${1%$'\t'*} program=${1#*$'\t'} begin=$SECONDS code
  local name=${program##*/}
  cd "$directory" || exit 1
  CARGO_MANIFEST_DIR=$directory "$program" >"$kept/$name.out" 2>&1
  code=$?
  name="${directory##*/} ${name%-*}"
  {
    flock 9
    echo "     Running $name ($((SECONDS - begin)) s)"
    cat "$kept/${program##*/}.out"
    if [ $code != 0 ]; then
      echo "FAILED: $name, exit code $code"
      echo "$name, exit code $code" >>"$kept/failed"
    fi
  } 9>"$kept/turn"
}
export -f one
export kept

# The longest first: what begins last would be waited for alone.
longest='docs_commands|devices|flat|cut|browser|model_time|load|interrupted|guest|stopped|damage'
{
  grep -E "/($longest)-[0-9a-f]+$" "$kept/programs"
  grep -vE "/($longest)-[0-9a-f]+$" "$kept/programs"
} | xargs -d '\n' -n 1 -P "$at_once" bash -c 'one "$1"' _ ||
  # It goes on to none where a shell was killed: too little memory, for one.
  echo "the programs of tests: not all of them were run" >>"$kept/failed"
cargo test --workspace --locked --doc || echo "examples in documentation" >>"$kept/failed"

cat "$kept"/*.out | awk -v programs="$(wc -l <"$kept/programs")" '
  /^test result:/ { passed += $4; failed += $6; ignored += $8; results++ }
  END { printf "%d tests passed, %d failed, %d ignored, in %d of %d programs.\n", passed, failed, ignored, results, programs }'
if [ -e "$kept/failed" ]; then
  sed 's/^/failed: /' "$kept/failed"
  exit 1
fi

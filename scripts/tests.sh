#!/usr/bin/env bash
# scripts/tests.sh    every test of the workspace, as `cargo test --workspace` runs them, but several
# test programs side by side: most of their time they wait, for a device, a kill, another program.
# The examples in documentation are one of them. What a program prints stands together, when it
# ends; those that failed, and those that were not run to their end, are named at the end again, and
# so is what tests said that they had skipped, which cargo shows of none that passes.
#   FATHOM_TEST_PROGRAMS=N    how many at once (three for each core); each runs a test for each core
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
at_once=${FATHOM_TEST_PROGRAMS:-$(($(nproc) * 3))}
kept=$(mktemp -d) || exit 1
trap 'rm -rf "$kept"' EXIT

# What cargo says of each program: its package's directory, that it is one of tests, and its file.
if ! cargo test --workspace --locked --no-run --message-format=json-render-diagnostics >"$kept/built"; then
  exit 1
fi
sed -nE 's|.*"manifest_path":"([^"]*)/Cargo.toml".*"profile":\{[^}]*"test":true\}.*"executable":"([^"]*)".*|\1\t\2|p' \
  "$kept/built" | sort >"$kept/programs"
if [ ! -s "$kept/programs" ]; then echo "error: cargo names no program of tests"; exit 1; fi
# The examples need no program of their own here: cargo and rustdoc make them, out of libraries that
# are built by now.
examples="examples in documentation"
printf '%s\t%s\n' "$PWD" "$examples" >>"$kept/programs"

# The name of a "DIRECTORY	PROGRAM".
name() {
  local directory=${1%$'\t'*} program=${1#*$'\t'}
  if [ "$program" = "$examples" ]; then echo "$examples"; return; fi
  program=${program##*/}
  echo "${directory##*/} ${program%-*}"
}

# one "DIRECTORY	PROGRAM" : runs it where cargo would, and prints what it said once it has ended. It
# passes where it ends with 0 and has said that its tests did: a test may end the program, too.
one() {
  local directory=${1%$'\t'*} program=${1#*$'\t'} begin=$SECONDS code name said processor TIMEFORMAT='%U %S'
  name=$(name "$1")
  said=$kept/${program##*/}.out
  {
    time if [ "$program" = "$examples" ]; then
      cargo test --workspace --locked --no-fail-fast --doc >"$said" 2>&1
    else
      cd "$directory" && CARGO_MANIFEST_DIR=$directory "$program" --show-output >"$said" 2>&1
    fi
    code=$?
  } 2>"$said.time"
  processor=$(awk 'END { printf "%.0f", $1 + $2 }' "$said.time")
  {
    flock 9
    echo "     Running $name ($((SECONDS - begin)) s, $processor s of a processor)"
    # Without what those said that passed.
    awk '$0 == "successes:" { hidden = 1 } $0 == "failures:" || /^test result:/ { hidden = 0 } !hidden' "$said"
    if [ $code != 0 ]; then
      echo "FAILED: $name, exit code $code"
      echo "$name, exit code $code" >>"$kept/failed"
    elif ! grep -q '^test result: ok' "$said"; then
      echo "FAILED: $name, it ended without a result"
      echo "$name, it ended without a result" >>"$kept/failed"
    else
      printf '%s\t%s\n' $((SECONDS - begin)) "$name" >>"$kept/passed"
    fi
  } 9>"$kept/turn"
}
export -f one name
export kept examples

# The longest first: what begins last would be waited for alone. How long each took is kept from
# call to call; before that, and for new ones, this is known.
longest='examples in documentation|docs_commands|devices|flat|cut|browser|model_time|load|interrupted|guest|stopped|damage'
took=${CARGO_TARGET_DIR:-target}/test-seconds
while IFS= read -r line; do printf '%s\t%s\n' "$(name "$line")" "$line"; done <"$kept/programs" |
  awk -F'\t' -v took="$took" -v longest="(^| )($longest)\$" '
    BEGIN { while ((getline line < took) > 0) { split(line, at, "\t"); if (at[1] > known[at[2]]) known[at[2]] = at[1] } }
    { print (($1 in known) ? known[$1] : ($1 ~ longest) ? 10000 : 30) "\t" $2 "\t" $3 }' |
  sort -s -t$'\t' -k1,1nr | cut -f2- >"$kept/in-order"
xargs -d '\n' -n 1 -P "$at_once" bash -c 'one "$1"' _ <"$kept/in-order"

programs=$(wc -l <"$kept/programs")
passed=$(cat "$kept/passed" 2>/dev/null | wc -l)
cat "$kept"/*.out | awk -v programs="$programs" -v passed="$passed" '
  /^test result:/ { good += $4; failed += $6; ignored += $8 }
  END { printf "%d tests passed, %d failed, %d ignored; %d of %d programs passed.\n", good, failed, ignored, passed, programs }'
skipped=$(grep -ahE '^(SKIP|skipped)' "$kept"/*.out | cut -c1-200 | sort | uniq -c | sort -rn)
if [ -n "$skipped" ]; then printf 'Skipped, as tests said, how often:\n%s\n' "$skipped"; fi
# Whatever else happened, a disk that was full or a shell that was killed: those passed of which it
# was noted that they did.
if [ "$passed" != "$programs" ]; then
  if [ -e "$kept/failed" ]; then sed 's/^/failed: /' "$kept/failed"; fi
  ran=$((passed + $(cat "$kept/failed" 2>/dev/null | wc -l)))
  if [ "$ran" != "$programs" ]; then echo "failed: $((programs - ran)) of the programs were not run to their end"; fi
  exit 1
fi
cp "$kept/passed" "$took"

#!/usr/bin/env bash
# p5-disks.sh: messages a second of mmdb by the number of its log disks, one to four, each with a
# stream of its own and a modelled disk of its own, as CSV: five rounds, each in another order, and
# numbers of clients below and beyond the paper's. Several disks in one model would not do: there a
# flush waits for what is under way on all of them, and they share one bandwidth. Rates are the
# wall's; flushes, of all log disks together, are counts. It mounts, and needs root, fathom and smsc.
# It has not been run.
#
#   THREADS="8 96"   other numbers of clients        ROUNDS=2   fewer rounds
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fathom=${FATHOM:-fathom} smsc=${SMSC:-smsc}
rounds=${ROUNDS:-5} messages=${MESSAGES:-3000}
read -ra threads <<<"${THREADS:-8 32 96 128 192}"
work=$(mktemp -d -p "${DIR:-.}")
ended() {
  for disk in data 1 2 3 4; do "$fathom" stack down "p5-disks-$disk" >/dev/null 2>&1 || true; done
  rm -rf "$work"
}
trap ended EXIT
# The database has a disk of its own, as the paper's had; then the log disks.
declare -A places devices
for disk in data 1 2 3 4; do
  mkdir "$work/$disk"
  places[$disk]=$("$fathom" stack up --fs ext4 --size 512 --name "p5-disks-$disk" \
    --dir "$work/$disk" --device "$here/log-disk-p5.toml" | head -n 1)
  devices[$disk]=$(basename "$(findmnt -n -o SOURCE -T "${places[$disk]}")")
done
# Flushes that came to the first log disks, so many of them.
flushes() {
  local disk sum=0
  for ((disk = 1; disk <= $1; disk++)); do
    sum=$((sum + $(awk '{ print $16 }' "/sys/block/${devices[$disk]}/stat")))
  done
  echo "$sum"
}
# A number of what smsc tells, rounded; one that is not there ends it.
rounded() {
  local found
  found=$(sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" <<<"$2")
  [ -n "$found" ] || { echo "smsc tells no $1: $2" >&2; return 1; }
  LC_ALL=C printf '%.0f' "$found"
}
echo round,disks,side,threads,messages,per_s,cpu_us_of_message,flushes
for ((round = 1; round <= rounds; round++)); do
  for turn in 0 1 2 3; do
    disks=$(((round + turn) % 4 + 1))
    words=(--streams "$disks")
    for ((disk = 1; disk <= disks; disk++)); do words+=(--stream-dir "${places[$disk]}"); done
    for clients in "${threads[@]}"; do
      for side in receiver sender; do
        before=$(flushes "$disks")
        # Small segments, or the disks would fill 64 MiB with zeros for each stream meanwhile.
        row=$("$smsc" bench --json --side "$side" --threads "$clients" --messages "$messages" \
          --stations 100000 --segment-mib 1 --seed "$round" --no-check \
          --dir "${places[data]}" "${words[@]}")
        rate=accepted_per_s
        [ "$side" = receiver ] || rate=finished_per_s
        rate=$(rounded "$rate" "$row")
        cpu=$(rounded cpu_us_per_message "$row")
        echo "$round,$disks,$side,$clients,$messages,$rate,$cpu,$(($(flushes "$disks") - before))"
      done
    done
  done
done

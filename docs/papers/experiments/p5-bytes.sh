#!/usr/bin/env bash
# p5-bytes.sh: what mmdb's log holds of a message, and how often the paper's log disk is flushed for
# it, with differences, with whole after-images and with selective logging, as CSV: five rounds,
# each of them in another order. What it counts does not depend on other work on the machine, but
# for how many wait for one flush; rates are the wall's. It mounts, and needs root, fathom and smsc.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fathom=${FATHOM:-fathom} smsc=${SMSC:-smsc}
messages=6000
work=$(mktemp -d -p "${DIR:-.}")
trap '"$fathom" stack down p5-bytes >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
place=$("$fathom" stack up --fs ext4 --size 1024 --name p5-bytes --dir "$work" \
  --device "$here/log-disk-p5.toml" 2>/dev/null | head -n 1)
device=$(basename "$(findmnt -n -o SOURCE -T "$place")")
# Of a block device: sectors written, and flushes that came to it.
counted() { awk '{ print $7, $16 }' "/sys/block/$device/stat"; }
number() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" <<<"$2"; }
# A byte takes the log disk a twentieth of a microsecond.
echo round,log,side,messages,log_bytes_of_message,disk_us_of_these,disk_could_per_s,cpu_us_of_message,per_s,flushes,written_kib
kinds=(differences after-images selective)
for round in 1 2 3 4 5; do
  for turn in 0 1 2; do
    kind=${kinds[(round + turn) % 3]}
    case $kind in
      differences) words=() ;;
      after-images) words=(--after-images) ;;
      selective) words=(--selective) ;;
    esac
    for side in receiver sender; do
      read -r sectors flushes < <(counted)
      row=$("$smsc" bench --json --side $side --threads 96 --messages $messages --stations 100000 \
        --segment-mib 16 --seed $round --no-check --dir "$place" "${words[@]}")
      sync -f "$place"
      read -r sectors_now flushes_now < <(counted)
      rate=accepted_per_s
      [ $side = receiver ] || rate=finished_per_s
      awk -v head="$round,$kind,$side,$messages" -v bytes="$(number log_bytes_per_message "$row")" \
        -v cpu="$(number cpu_us_per_message "$row")" -v rate="$(number $rate "$row")" \
        -v tail="$((flushes_now - flushes)),$(((sectors_now - sectors) / 2))" \
        'BEGIN { printf "%s,%.0f,%.1f,%.0f,%.0f,%.0f,%s\n", head, bytes, bytes / 20, 20e6 / bytes, cpu, rate, tail }'
    done
  done
done

#!/usr/bin/env bash
# p1-space.sh FS…: what a volume of 2 GiB and P1's table (a million records of 88 bytes) take of it,
# on each file system, as CSV. Free blocks are those of statfs before and after the table was made
# by SQLite in one transaction, each volume made anew ROUNDS times (5). It mounts, and needs root,
# fathom and sqlite3.
set -euo pipefail
fathom=${FATHOM:-fathom}
work=$(mktemp -d -p "${DIR:-.}")
name=
trap '[ -z "$name" ] || "$fathom" stack down "$name" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
echo round,filesystem,volume_bytes,free_fresh_bytes,free_after_bytes,file_bytes,fresh_taken_mib,fresh_taken_percent,beyond_file_kib
volume=$((2048 * 1024 * 1024))
for round in $(seq "${ROUNDS:-5}"); do for filesystem in "$@"; do
  name=p1-space-$filesystem
  place=$("$fathom" stack up --fs "$filesystem" --size 2048 --name "$name" --dir "$work" \
    2>/dev/null | head -n 1)
  free() { sync -f "$place"; stat -f -c '%f %S' "$place" | awk '{ printf "%d", $1 * $2 }'; }
  fresh=$(free)
  sqlite3 "$place/t.db" "PRAGMA page_size = 4096; PRAGMA journal_mode = off;
    CREATE TABLE records (id INTEGER PRIMARY KEY, name TEXT, department TEXT, account TEXT, phone TEXT,
      hired INTEGER, salary REAL, bonus INTEGER);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
    INSERT INTO records SELECT i, substr(hex(randomblob(10)), 1, 20), substr(hex(randomblob(5)), 1, 10),
      substr(hex(randomblob(6)), 1, 12), substr(hex(randomblob(7)), 1, 14), 1000000000 + i, i * 1.5,
      1000000 + i FROM n;" >/dev/null
  after=$(free)
  file=$(stat -c %s "$place/t.db")
  taken=$(awk "BEGIN { t = $volume - $fresh; printf \"%.1f,%.2f\", t / 1048576, 100 * t / $volume }")
  echo "$round,$filesystem,$volume,$fresh,$after,$file,$taken,$(((fresh - after - file) / 1024))"
  "$fathom" stack down "$name" >/dev/null
  name=
done; done

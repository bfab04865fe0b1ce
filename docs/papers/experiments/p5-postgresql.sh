#!/usr/bin/env bash
# p5-postgresql.sh: messages a second of PostgreSQL on the paper's log disk, by how its sessions
# share a flush of the log, as CSV: five rounds, each in another order. PostgreSQL cannot be told not
# to share; what it can be told is to wait for others (commit_delay, if commit_siblings transactions
# are open). Alone, a client shares with nobody. The flushes of the disk say how many commits had one
# together. Rates are the wall's. It mounts and starts PostgreSQL's own server: it needs root, a user
# postgres, fathom and smsc, and a place that this user may enter (DIR).
# It has not been run.
#
#   POSTGRESQL=FOLDER   has initdb and pg_ctl         ROUNDS=2   fewer rounds
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fathom=${FATHOM:-fathom} smsc=${SMSC:-smsc}
rounds=${ROUNDS:-5} messages=${MESSAGES:-2000} port=${PORT:-54329}
programs=${POSTGRESQL:-$(dirname "$(ls /usr/lib/postgresql/*/bin/initdb | tail -n 1)")}
work=$(mktemp -d -p "${DIR:-.}")
chmod 711 "$work"
as_postgres() { runuser -u postgres -- "$@"; }
stop() { as_postgres "$programs/pg_ctl" -D "$cluster" -m fast -w stop >/dev/null 2>&1 || true; }
cluster=$work/none
trap 'stop; "$fathom" stack down p5-postgresql >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
place=$("$fathom" stack up --fs ext4 --size 1024 --name p5-postgresql --dir "$work" \
  --device "$here/log-disk-p5.toml" | head -n 1)
device=$(basename "$(findmnt -n -o SOURCE -T "$place")")
cluster=$place/cluster
install -d -o postgres -m 700 "$cluster"
chmod 711 "$place"
as_postgres "$programs/initdb" -D "$cluster" -U postgres -A trust --no-sync >/dev/null
# As the centre sets its own server up (crates/smsc/src/store/postgresql/mod.rs). In one line: pg_ctl
# gives it to a shell as it is, which would end the server's command where the first line ends.
settings="-c fsync=on -c synchronous_commit=on -c full_page_writes=on -c shared_buffers=1GB \
-c wal_buffers=64MB -c max_wal_size=16GB -c jit=off -c deadlock_timeout=20ms \
-c max_connections=240 -c max_locks_per_transaction=2560 \
-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories="
flushes() { awk '{ print $16 }' "/sys/block/$device/stat"; }
# A number of what smsc tells, rounded; one that is not there ends it.
rounded() {
  local found
  found=$(sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" <<<"$2")
  [ -n "$found" ] || { echo "smsc tells no $1: $2" >&2; return 1; }
  LC_ALL=C printf '%.0f' "$found"
}
# commit_delay in µs and commit_siblings: as it comes, half a turn, and a turn of the disk.
kinds=("0 5" "5500 1" "11000 1")
echo round,form,commit_delay_us,commit_siblings,side,threads,messages,per_s,flushes
for ((round = 1; round <= rounds; round++)); do
  for turn in 0 1 2; do
    read -r delay siblings <<<"${kinds[(round + turn) % 3]}"
    as_postgres "$programs/pg_ctl" -D "$cluster" -l "$cluster/log" -w start \
      -o "$settings -c commit_delay=$delay -c commit_siblings=$siblings" >/dev/null
    for form in calls statements; do
      for clients in 1 8 32 96 192; do
        for side in receiver sender; do
          before=$(flushes)
          row=$("$smsc" bench --json --side "$side" --threads "$clients" --messages "$messages" \
            --stations 100000 --seed "$round" --no-check \
            --store "postgresql://postgres@127.0.0.1:$port/postgres?schema=p5&form=$form")
          rate=accepted_per_s
          [ "$side" = receiver ] || rate=finished_per_s
          rate=$(rounded "$rate" "$row")
          echo "$round,$form,$delay,$siblings,$side,$clients,$messages,$rate,$(($(flushes) - before))"
        done
      done
    done
    stop
  done
done

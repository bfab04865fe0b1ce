#!/usr/bin/env bash
# capture.sh [DIRECTORY] captures four programs from Debian at small work of their own and writes
# their traces into DIRECTORY (default: here). Everything they work on is made here and holds no
# personal data; paths are those of a temporary directory.
#   apt-get install subversion newsboat bogofilter-sqlite python3
# fathom must be on the PATH.
set -euo pipefail
out=$(realpath "${1:-$(dirname "$0")}")
work=$(mktemp -d /tmp/fathom-example.XXXXXX)
trap 'rm -rf "$work"' EXIT
export HOME=$work/home LC_ALL=C.UTF-8 XDG_DATA_HOME=$work/home/.local/share
mkdir -p "$XDG_DATA_HOME"
cd "$work"

# A version-control client: a working copy with its states in wc.db.
cat > svn.sh <<'END'
svn checkout -q "file://$PWD/repository" copy
cd copy
mkdir src docs
for i in $(seq 12); do echo "line $i" > "src/file$i.txt"; echo "page $i" > "docs/page$i.txt"; done
svn add -q src docs
svn commit -q --username demo -m "first"
for i in 3 5 7; do echo more >> "src/file$i.txt"; done
svn move -q src/file1.txt src/renamed.txt
svn status > /dev/null
svn commit -q --username demo -m "second"
svn update -q
END
svnadmin create repository
fathom trace capture --out "$out/svn.trace" -- bash svn.sh

# A feed reader: two feeds with forty items each, loaded twice.
feed() {
  echo "<?xml version=\"1.0\"?><rss version=\"2.0\"><channel><title>Feed $1</title><link>http://example.org/$1</link><description>Example</description>"
  for i in $(seq "$2"); do
    echo "<item><title>Item $i of $1</title><link>http://example.org/$1/$i</link><guid>http://example.org/$1/$i</guid><description>Text of item $i, a few words long.</description></item>"
  done
  echo "</channel></rss>"
}
feed one 40 > one.xml; feed two 40 > two.xml
printf 'file://%s/one.xml\nfile://%s/two.xml\n' "$work" "$work" > urls
cat > newsboat.sh <<'END'
newsboat -u urls -c cache.db -x reload
newsboat -u urls -c cache.db -x reload
newsboat -u urls -c cache.db -x print-unread
END
fathom trace capture --out "$out/newsboat.trace" -- bash newsboat.sh

# A mail program: a filter that learns from forty mails and judges five.
mail() { printf 'From: a%s@example.org\nTo: b@example.org\nSubject: %s\n\n%s %s number %s\n' "$1" "$2" "$2" "$3" "$1"; }
cat > bogofilter.sh <<'END'
for i in $(seq 20); do bogofilter -d . -s < "spam$i"; bogofilter -d . -n < "ham$i"; done
for i in 1 2 3 4 5; do bogofilter -d . -v < "ham$i" || true; done > /dev/null
END
for i in $(seq 20); do mail "$i" "buy cheap watches now" "best prices pills offer" > "spam$i"; mail "$i" "meeting notes" "please find the agenda" > "ham$i"; done
fathom trace capture --out "$out/bogofilter.trace" -- bash bogofilter.sh

# A Python program: four threads that share a queue in a WAL database.
cat > queue.py <<'END'
import sqlite3, threading
def connect():
    c = sqlite3.connect("queue.db", isolation_level=None, timeout=60)
    c.execute("PRAGMA journal_mode=WAL")
    c.execute("PRAGMA synchronous=NORMAL")
    return c
connect().execute("CREATE TABLE job(id INTEGER PRIMARY KEY, state TEXT, body TEXT)")
def produce(n):
    c = connect()
    for i in range(50): c.execute("INSERT INTO job(state, body) VALUES ('new', ?)", (f"job {n}.{i} " + "x" * 100,))
def consume():
    c = connect()
    for _ in range(50):
        c.execute("BEGIN IMMEDIATE")
        row = c.execute("SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1").fetchone()
        if row: c.execute("UPDATE job SET state = 'done' WHERE id = ?", row)
        c.execute("COMMIT")
threads = [threading.Thread(target=produce, args=(n,)) for n in range(2)] + [threading.Thread(target=consume) for _ in range(2)]
for t in threads: t.start()
for t in threads: t.join()
END
fathom trace capture --out "$out/python-queue.trace" -- python3 queue.py

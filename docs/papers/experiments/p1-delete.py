#!/usr/bin/env python3
"""p1-delete.py: what SQLite alone writes to delete ranges of P1's table by where they begin, as CSV.

No device is under it: calls are counted, and nothing is synced. Python's own SQLite does it; that of
the published counts was 3.54.1 (LD_PRELOAD=./sqlite-fdatasync.so).
"""
import os
import random
import shutil
import sqlite3
import sys
import tempfile


def written():
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("wchar"))


def main():
    rows, seed = 1_000_000, random.Random(1)
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        whole, used = os.path.join(folder, "whole.db"), os.path.join(folder, "used.db")
        with sqlite3.connect(whole) as database:
            database.execute("PRAGMA page_size = 4096")
            database.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, a TEXT, b INTEGER, c REAL)")
            words = ["".join(seed.choices("abcdefghij", k=56)) for _ in range(5000)]
            record = lambda key: (key, seed.choice(words), 1_000_000_000 + key, key * 1.5)
            database.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", map(record, range(rows)))
        print("sqlite,rows,begin,freed_pages,written_kib")
        for count in (1000, 100_000):
            for _ in range(6):
                begin = seed.randrange(rows - count)
                shutil.copyfile(whole, used)
                database = sqlite3.connect(used, isolation_level=None)
                database.execute("PRAGMA synchronous = off")
                before = written()
                database.execute("DELETE FROM records WHERE id >= ? AND id < ?", (begin, begin + count))
                kib = (written() - before) // 1024
                (freed,) = database.execute("PRAGMA freelist_count").fetchone()
                print(f"{sqlite3.sqlite_version},{count},{begin},{freed},{kib}")
                database.close()


main()

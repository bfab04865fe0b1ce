#!/usr/bin/env python3
"""p1-secure.py: what SQLite alone writes to update and to delete rows, with secure_delete and without.

No device is under it: bytes of calls are counted, and nothing is synced. P1's kind of table, with
100,000 rows; ranges begin in its middle, and the last is all of it. Python's own SQLite does it.
"""
import os
import random
import shutil
import sqlite3
import sys
import tempfile

ROWS = 100_000


def written() -> int:
    with open("/proc/self/io", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("wchar"))


def main() -> None:
    chance = random.Random(1)
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        whole, used = os.path.join(folder, "whole.db"), os.path.join(folder, "used.db")
        with sqlite3.connect(whole) as database:
            database.execute("PRAGMA page_size = 4096")
            database.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, a TEXT, b INTEGER, c REAL)")
            words = ["".join(chance.choices("abcdefghij", k=56)) for _ in range(2000)]
            record = lambda key: (key, chance.choice(words), 1_000_000_000 + key, key * 1.5)
            database.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", map(record, range(ROWS)))
        database.close()
        print("sqlite,rows,statement,secure_delete,freed_pages,written_kib")
        for count in (1, 100, 1000, 10_000, 50_000, ROWS):
            begin = 0 if count == ROWS else (ROWS - count) // 3
            for statement, secure in (("update", "off"), ("delete", "off"), ("delete", "on")):
                shutil.copyfile(whole, used)
                database = sqlite3.connect(used, isolation_level=None)
                database.execute("PRAGMA synchronous = off")
                database.execute(f"PRAGMA secure_delete = {secure}").fetchall()
                before = written()
                what = "UPDATE records SET b = b + 1" if statement == "update" else "DELETE FROM records"
                database.execute(f"{what} WHERE id >= ? AND id < ?", (begin, begin + count))
                kib = (written() - before) // 1024
                (freed,) = database.execute("PRAGMA freelist_count").fetchone()
                print(f"{sqlite3.sqlite_version},{count},{statement},{secure},{freed},{kib}")
                database.close()


main()

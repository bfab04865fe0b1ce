#!/usr/bin/env python3
"""p2-growth.py: how many commits let a write-ahead log grow, by the limits that it has, as CSV.

No device is under it, and nothing is synced: after each of 1,000 single-row statements on P2's table
(20,000 rows here) it is looked whether the log's file has become longer. The sync of a commit that
lets it grow commits the file's size as well, which is one flush more. Python's own SQLite does it.

The limits: SQLite's own (checkpointed at 1,000 pages, never cut), those that Android's library was
compiled with, and those of Android's classes, each with auto_vacuum as Android has it.
"""
import os
import random
import shutil
import sqlite3
import sys
import tempfile

STATEMENTS = 1000
ROWS = 20_000
LIMITS = {"sqlite": (1000, -1), "library": (1000, 1_048_576), "framework": (100, 524_288)}
COLUMNS = """_id INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER, type INTEGER, chat_id INTEGER,
  user_id INTEGER, message TEXT, attachment TEXT, created_at INTEGER, is_temp INTEGER, v TEXT,
  deleted_at INTEGER NOT NULL DEFAULT 0, client_message_id INTEGER"""
INDEXES = ["chat_id, id", "chat_id", "created_at", "chat_id, type", "chat_id, deleted_at"]
INSERT = "INSERT INTO chat_logs VALUES (NULL, ?, ?, ?, ?, ?, NULL, ?, 0, '{}', 0, ?)"


def record(chance: random.Random, key: int) -> tuple:
    return (key, chance.randrange(5), chance.randrange(10**6), chance.randrange(200),
            "x" * chance.randrange(20, 120), key, key)


def make(path: str) -> None:
    chance = random.Random(1)
    database = sqlite3.connect(path, isolation_level=None)
    for statement in ("auto_vacuum = full", "synchronous = off", "page_size = 4096"):
        database.execute(f"PRAGMA {statement}")
    database.execute(f"CREATE TABLE chat_logs ({COLUMNS})")
    for number, columns in enumerate(INDEXES):
        unique = "UNIQUE" if number == 0 else ""
        database.execute(f"CREATE {unique} INDEX i{number} ON chat_logs ({columns})")
    database.execute("BEGIN")
    database.executemany(INSERT, (record(chance, key) for key in range(ROWS)))
    database.execute("COMMIT")
    database.close()


def grown(path: str, limits: tuple[int, int], phase: str) -> int:
    chance, pages, length, count = random.Random(2), limits[0], 0, 0
    database = sqlite3.connect(path, isolation_level=None)
    for statement in ("journal_mode = wal", f"wal_autocheckpoint = {pages}",
                      f"journal_size_limit = {limits[1]}", "synchronous = off"):
        database.execute(f"PRAGMA {statement}").fetchall()
    for number in range(STATEMENTS):
        row = chance.randrange(1, ROWS + 1)
        if phase == "insert":
            database.execute(INSERT, record(chance, ROWS + number))
        elif phase == "delete":
            database.execute("DELETE FROM chat_logs WHERE _id = ?", (row,))
        else:
            column = phase.removeprefix("update-")
            database.execute(f"UPDATE chat_logs SET {column} = {column} + 10 WHERE _id = ?", (row,))
        size = os.path.getsize(path + "-wal")
        count += size > length
        length = size
    database.close()
    return count


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        whole, used = os.path.join(folder, "whole.db"), os.path.join(folder, "used.db")
        make(whole)
        print("sqlite,limits,phase,statements,grown")
        for name, limits in LIMITS.items():
            for phase in ("update-chat_id", "update-is_temp", "insert", "delete"):
                shutil.copyfile(whole, used)
                print(f"{sqlite3.sqlite_version},{name},{phase},{STATEMENTS},{grown(used, limits, phase)}")


main()

#!/usr/bin/env python3
"""p2-columns.py LIBRARY…: CPU time of descending scans of P2's table by the number of columns, as CSV.

Of each library (a SQLite, as papers-again.sh compiles them) and each number of columns 21 scans, in
turns, which take no value and which take all as text; the table is in memory, so that nothing but
the processor works. What other work on the machine adds is in the median, and hardly in the
fastest.
"""
import ctypes
import random
import sys
import time

COLUMNS = (
    "_id id type chat_id user_id message attachment created_at is_temp v deleted_at client_message_id".split()
)
ROWS, SCANS = 50_000, 21


def database(path):
    library = ctypes.CDLL(path)
    library.sqlite3_libversion.restype = ctypes.c_char_p
    handle = ctypes.c_void_p()
    assert library.sqlite3_open(b":memory:", ctypes.byref(handle)) == 0

    # A function of C that gives 0 for 0, so that each row costs no Python.
    taker = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p)

    def execute(sql, takes=False):
        assert library.sqlite3_exec(handle, sql.encode(), taker if takes else None, None, None) == 0, sql

    seed = random.Random(1)
    words = lambda count: "".join(seed.choices("abcdefghij ", k=count))
    execute(
        "CREATE TABLE chat_logs (_id INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER, type INTEGER,"
        " chat_id INTEGER, user_id INTEGER, message TEXT, attachment TEXT, created_at INTEGER,"
        " is_temp INTEGER, v TEXT, deleted_at INTEGER NOT NULL DEFAULT 0, client_message_id INTEGER)"
    )
    execute("BEGIN")
    for row in range(ROWS):
        attachment = f"'{words(90)}'" if seed.random() < 0.15 else "NULL"
        execute(
            f"INSERT INTO chat_logs VALUES (NULL, {600_000_000_000_000_000 + row * 7}, 1,"
            f" {seed.randrange(10**15)}, {seed.randrange(10**8)}, '{words(seed.randrange(5, 60))}', {attachment},"
            f" {1_383_264_000 + row * 60}, 0, '{words(70)}', 0, {row})"
        )
    execute("COMMIT")
    return library.sqlite3_libversion().decode(), execute


def main():
    print("sqlite,columns,values,scans,fastest_ms,median_ms")
    for path in sys.argv[1:]:
        version, execute = database(path)
        times = {(count, takes): [] for count in (1, 12) for takes in (False, True)}
        for _ in range(SCANS):
            for (count, takes), taken in times.items():
                before = time.thread_time_ns()
                execute(f"SELECT {', '.join(COLUMNS[:count])} FROM chat_logs ORDER BY rowid DESC", takes)
                taken.append((time.thread_time_ns() - before) / 1e6)
        for (count, takes), taken in times.items():
            taken.sort()
            values = "taken" if takes else "none"
            print(f"{version},{count},{values},{SCANS},{taken[0]:.1f},{taken[SCANS // 2]:.1f}")


main()

"""Threads that commit at the same time share flushes: calls release the interpreter's lock."""

import sys
import threading

import mmdb
from mmdb import Column, ColumnType

THREADS, COMMITS = 8, 100

with mmdb.open(sys.argv[1]) as db:
    table = db.create_table("t", [Column("id", ColumnType.INT64)], primary_key=["id"])
    before = db.stats()
    failures = []

    def work(number):
        try:
            for i in range(COMMITS):
                db.run(lambda tx: tx.insert(table, id=number * COMMITS + i))
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=[n]) for n in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures
    after = db.stats()
    commits = after["commits"] - before["commits"]
    flushes = after["flushes"] - before["flushes"]
    most = after["max_batch"]
    print(f"{commits} commits of {THREADS} threads: {flushes} flushes, {most} at most in one")
    assert commits == THREADS * COMMITS
    assert flushes < commits, "no commit shared a flush"

# A call that waits leaves the interpreter to others: what it waits for happens in Python.
with mmdb.open(sys.argv[1], lock_timeout_ms=60_000) as db:
    table = db.table("t")
    older, younger = db.transaction(), db.transaction()
    younger.delete(table, 1)
    waiting = threading.Event()
    found = []

    def wait():
        waiting.set()
        try:
            found.append(older.get(table, 1))
        except mmdb.Error as e:
            found.append(e)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    younger.commit().wait()
    thread.join()
    assert found == [None], found

"""Ctrl-C: a wait ends at once, and whatever a signal breaks off loses and frees nothing twice.

A wait for a lock heard of a signal when it was over, ten seconds later; an exception between the end
of a call and the next step lost a transaction with its locks, for good.
"""

import gc
import os
import random
import signal
import sys
import threading
import time

import mmdb
from mmdb import Column, ColumnType, Index

path = sys.argv[1]
# Who is started in the background of a shell ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
rng = random.Random(7)


def later(begun, seconds=0.2):
    """Sends a signal so long after an event."""

    def send():
        begun.wait()
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def interrupted(function, kind=KeyboardInterrupt):
    """Whether a signal ends a wait of ten minutes with this exception."""
    began, begun = time.monotonic(), threading.Event()
    sender = later(begun)
    try:
        # Not before: on a busy machine it might come before there is anybody to catch it.
        begun.set()
        function()
    except kind:
        assert time.monotonic() - began < 120, "the wait went on"
        return True
    finally:
        sender.join()
    return False


class Alarm(Exception):
    pass


def alarm(*_):
    raise Alarm


with mmdb.open(path, lock_timeout_ms=600_000, segment_bytes=1 << 20) as db:
    t = db.create_table(
        "t",
        [Column("id", ColumnType.INT64), Column("n", ColumnType.INT64)],
        ["id"],
        indexes=[Index("by_n", ["n"])],
    )
    with db.transaction() as tx:
        for i in range(100):
            tx.insert(t, id=i, n=0)

    # Of a lock, by an older transaction, for a younger one's; of a row and of the whole table.
    older, younger = db.transaction(), db.transaction()
    younger.update(t, 1, n=1)
    assert interrupted(lambda: older.get(t, 1))
    # It can only be undone; what came is not said twice.
    try:
        older.get(t, 2)
    except mmdb.WaitInterruptedError:
        pass
    older.abort()
    younger.abort()

    # Of a run that waits until another transaction has gone, and in its function.
    older = db.transaction()
    older.update(t, 1, n=1)
    assert interrupted(lambda: db.run(lambda tx: tx.update(t, 1, n=2)))
    older.abort()
    waiting, let_go = threading.Event(), threading.Event()

    def hold():
        waiting.wait()
        tx = db.transaction()
        tx.update(t, 2, n=1)
        let_go.wait()
        tx.abort()

    def wait_for_younger(tx):
        tx.get(t, 1)
        waiting.set()
        while db.stats()["locks"] < 2:
            time.sleep(0.001)
        tx.update(t, 2, n=2)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert interrupted(lambda: db.run(wait_for_younger))
    finally:
        # The signal may have come before the other one was waited for.
        waiting.set()
        let_go.set()
        thread.join()
    # A handler of one's own: what it raises comes, whatever it is, and what raises nothing is heard.
    before = signal.signal(signal.SIGINT, alarm)
    older, second, younger = db.transaction(), db.transaction(), db.transaction()
    younger.update(t, 1, n=1)
    assert interrupted(lambda: older.get(t, 1), Alarm)
    older.abort()
    # And what raises nothing ends nothing.
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    begun = threading.Event()

    def let_younger_go():
        end = time.monotonic() + 60
        while not heard and time.monotonic() < end:
            time.sleep(0.01)
        younger.abort()

    sender, letting_go = later(begun), threading.Thread(target=let_younger_go)
    letting_go.start()
    begun.set()
    assert second.get(t, 1)["n"] == 0 and heard
    sender.join()
    letting_go.join()
    signal.signal(signal.SIGINT, before)
    second.abort()
    assert db.stats()["locks"] == 0

    # Of a commit: what a caller may take for a transaction of which nothing was done, and run again,
    # does not come from one that is committed.
    wait = mmdb.Ticket.wait

    def break_wait(ticket):
        raise mmdb.WaitInterruptedError("a flush")

    mmdb.Ticket.wait = break_wait
    for function in (
        lambda: db.run(lambda tx: tx.update(t, 99, n=7)),
        lambda: db.transaction().__exit__(None),
    ):
        try:
            function()
            raise AssertionError("it waited")
        except mmdb.IndeterminateError as e:
            assert "it is done" in str(e)
    mmdb.Ticket.wait = wait
    with db.snapshot() as now:
        assert now.get(t, 99)["n"] == 7

    # At any step: nothing is lost that holds locks, keeps a snapshot or the database open.
    class Broken(BaseException):
        pass

    armed = [False]

    def break_off(*_):
        if armed[0]:
            raise Broken

    def change(tx):
        for row in tx.range(t, lower=10, upper=13):
            pass
        n = tx.get(t, 5)["n"]
        tx.update(t, 5, n=n + 1)

    def step():
        with db.transaction() as tx:
            change(tx)
        tx = db.transaction()
        change(tx)
        tx.commit().wait()
        db.run(change)
        with db.snapshot() as now:
            assert len(list(now.scan(t))) == 100
        db.transaction()

    # Between the end of a call and the note that it has ended, in this thread and in one that is gone:
    # while somebody looked at the exception, the transaction could not be undone.
    from mmdb.handle import Use

    note_end = Use.__exit__

    def cut_off(*_):
        Use.__exit__ = note_end
        raise Broken

    def read_cut_off(tx):
        Use.__exit__ = cut_off
        tx.get(t, 5)

    try:
        with db.transaction() as tx:
            read_cut_off(tx)
        raise AssertionError("it was not broken off")
    except Broken:
        assert db.stats()["locks"] == 0
    tx, kept = db.transaction(), []

    def keep_exception():
        try:
            read_cut_off(tx)
        except Broken as e:
            kept.append(e)

    reader = threading.Thread(target=keep_exception)
    reader.start()
    reader.join()
    assert kept and db.stats()["locks"] == 1
    tx.abort()
    assert db.stats()["locks"] == 0

    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    signal.signal(signal.SIGALRM, break_off)
    breaks = 0
    end = time.monotonic() + 30

    def attempt():
        armed[0] = True
        try:
            while time.monotonic() < end:
                step()
        finally:
            armed[0] = False

    while breaks < 60 and time.monotonic() < end:
        # Again and again: one that comes in a destructor is lost.
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.00002, 0.003), 0.02)
        try:
            attempt()
        except (Broken, KeyboardInterrupt):
            armed[0] = False
            breaks += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    gc.collect()
    sys.unraisablehook = hook
    stats = db.stats()
    assert stats["locks"] == 0 and stats["snapshots"] == 0, (stats["locks"], stats["snapshots"])
    assert breaks > 0, "nothing was broken off"
    tx = db.transaction()
    tx.update(t, 5, n=-1)
    tx.commit().wait()
    db.run(lambda tx: tx.delete_range(t))
    db.drop_table(t)

# Nothing keeps it open.
with mmdb.open(path, segment_bytes=1 << 20) as db:
    assert db.tables() == []
print(f"{breaks} breaks")

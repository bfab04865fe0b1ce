"""A process that was forked reads what was there, and changes nothing; its parent goes on."""

import gc
import os
import signal
import sys
import time

import mmdb
from mmdb import Column, ColumnType

path = sys.argv[1]
db = mmdb.open(path, segment_bytes=1 << 20)
t = db.create_table("t", [Column("id", ColumnType.INT64)], ["id"])
db.run(lambda tx: tx.insert(t, id=1))
tx = db.transaction()
tx.insert(t, id=2)
snapshot = db.snapshot()
cursor = snapshot.scan(t)


def others_sleep():
    """Whether no other thread works or waits for a disk: one that does may hold a lock, which
    nobody gives back in a process that is forked meanwhile."""
    awake = 0
    for thread in os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else []:
        try:
            with open(f"/proc/self/task/{thread}/stat") as stat:
                awake += not stat.read().rsplit(") ", 1)[1].startswith("S")
        except OSError:
            pass  # It has ended.
    # This thread is.
    return awake <= 1


def in_child(function):
    """Runs it in a child, which has to end by itself; what it printed."""
    for _ in range(3):
        rest = time.monotonic() + 60
        while not others_sleep() and time.monotonic() < rest:
            time.sleep(0.005)
        out, inside = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(out)
            try:
                said = repr(function())
            except mmdb.Error as e:
                said = type(e).__name__
            except BaseException as e:
                said = f"{type(e).__name__}: {e}"
            os.write(inside, said.encode())
            # Destructors run, as at the end of any program.
            global db, tx, snapshot, cursor
            db = tx = snapshot = cursor = None
            gc.collect()
            os._exit(0)
        os.close(inside)
        with os.fdopen(out) as pipe:
            end, ended = time.monotonic() + 60, (0, 0)
            while ended == (0, 0) and time.monotonic() < end:
                time.sleep(0.005)
                ended = os.waitpid(child, os.WNOHANG)
            if ended == (0, 0):
                # A thread had woken in the moment of the fork, and held a lock; or it always waits.
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                continue
            said = pipe.read()
        assert ended[1] == 0
        return said
    raise AssertionError("the child waits for good")


assert in_child(lambda: [row["id"] for row in cursor]) == "[1]"
assert in_child(lambda: [row["id"] for row in db.snapshot().scan(t)]) == "[1]"
refused = ["UnsupportedError"]
assert in_child(lambda: db.run(lambda tx: tx.insert(t, id=3))) in refused
assert in_child(lambda: tx.commit().wait()) in refused
assert in_child(lambda: db.checkpoint()) in refused
assert in_child(lambda: db.create_table("u", [Column("id", ColumnType.INT64)], ["id"])) in refused
assert in_child(lambda: mmdb.open(path)) == "IoError"
assert in_child(lambda: tx.abort()) == "None"


def read_on():
    try:
        db.run(lambda tx: tx.insert(t, id=3))
    except mmdb.UnsupportedError as e:
        return "forked" in str(e) and [row["id"] for row in db.snapshot().scan(t)] == [1]


assert in_child(read_on) == "True"
tx.commit().wait()
db.run(lambda tx: tx.insert(t, id=4))
cursor.close()
snapshot.close()
db.close()
with mmdb.open(path) as db:
    assert [row["id"] for row in db.snapshot().scan(db.table("t"))] == [1, 2, 4]
    assert [table.name for table in db.tables()] == ["t"]
print("ok")

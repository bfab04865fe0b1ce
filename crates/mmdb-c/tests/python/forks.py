"""A process that was forked reads what was there, and changes nothing; its parent goes on."""

import gc
import os
import sys

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


def in_child(function):
    """Runs it in a child, which has to end by itself; what it printed."""
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
        said = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return said


assert in_child(lambda: [row["id"] for row in cursor]) == "[1]"
assert in_child(lambda: [row["id"] for row in db.snapshot().scan(t)]) == "[1]"
refused = ("PoisonedError", "IndeterminateError")
assert in_child(lambda: db.run(lambda tx: tx.insert(t, id=3))) in refused
assert in_child(lambda: tx.commit().wait()) in refused
assert in_child(lambda: db.checkpoint()) in refused
assert in_child(lambda: db.create_table("u", [Column("id", ColumnType.INT64)], ["id"])) in refused
assert in_child(lambda: mmdb.open(path)) == "IoError"
assert in_child(lambda: tx.abort()) == "None"
tx.commit().wait()
db.run(lambda tx: tx.insert(t, id=4))
cursor.close()
snapshot.close()
db.close()
with mmdb.open(path) as db:
    assert [row["id"] for row in db.snapshot().scan(db.table("t"))] == [1, 2, 4]
    assert [table.name for table in db.tables()] == ["t"]
print("ok")

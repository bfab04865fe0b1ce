"""What a stranger gives that nobody meant: it is answered by an mmdb.Error, and nothing is lost.

`commit(lazy="yes")` lost the transaction with its locks; threads that shared a cursor read rows that
were freed; arguments of other types raised whatever ctypes or an attribute raised. Integers of some
thousand digits, which Python does not write down, raised a plain ValueError out of the words of the
exception that was meant; one too large for a float an OverflowError, names of several types a
TypeError.
"""

import datetime
import decimal
import gc
import os
import sys
import threading

import mmdb
from mmdb import Column, ColumnType, Index

path = sys.argv[1]

with mmdb.open(path, segment_bytes=1 << 20) as db:
    t = db.create_table(
        "t",
        [Column("id", ColumnType.INT64), Column("body", ColumnType.var_text(100), nullable=True)],
        ["id"],
        indexes=[Index("by_body", ["body"])],
    )
    with db.transaction() as tx:
        for i in range(2000):
            tx.insert(t, id=i, body=f"body {i}")

    # Threads that share a cursor: one at a time, and each row comes once.
    for make in (lambda s: s.scan(t), lambda s: s.range(t, "by_body")):
        snapshot = db.snapshot()
        cursor, seen, refused, failures = make(snapshot), [], [], []

        def read():
            while True:
                try:
                    row = next(cursor, None)
                    if row is None:
                        return
                    assert row["body"] == f"body {row['id']}", row
                    seen.append(row["id"])
                except mmdb.ClosedError:
                    return
                except mmdb.MisuseError:
                    refused.append(1)
                except BaseException as e:
                    failures.append(e)
                    return

        threads = [threading.Thread(target=read) for _ in range(6)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not failures, failures
        assert sorted(seen) == list(range(2000)), len(seen)
        # Closed by one while others read.
        cursor = snapshot.scan(t)
        threads = [threading.Thread(target=read) for _ in range(3)]
        [thread.start() for thread in threads]
        while True:
            try:
                cursor.close()
                break
            except mmdb.MisuseError:
                pass
        [thread.join() for thread in threads]
        assert not failures, failures
        snapshot.close()

    # A mode that is none: the transaction goes on, and can be undone.
    tx = db.transaction()
    tx.insert(t, id=-1)
    for mode in ("yes", 1, None, 0.5):
        try:
            tx.commit(lazy=mode)
        except mmdb.InvalidValueError as e:
            assert "lazy" in str(e)
        else:
            raise AssertionError(mode)
    assert tx.get(t, -1)["body"] is None
    tx.abort()
    assert db.stats()["locks"] == 0

    # Every method with every odd argument, one at a time.
    class Odd:
        pass

    odd = [
        None, True, -1, 2**64, 2**70, 1.5, float("nan"), float("inf"), "", "x\0y", "\ud800", "t", b"x",
        b"\xff", bytearray(3), memoryview(b"abc"), (), [], [1, 2], (None,), {}, {"id": 1}, {1: 2}, Odd(),
        Odd, len, decimal.Decimal("NaN"), decimal.Decimal(1), datetime.datetime.now(), datetime.date(1, 1, 1),
        t, db, Column("a", ColumnType.INT64), Column(1, 2), Column("a", None), Index("i", ["id"]),
        Index(None, None), Index("i", 5), Index("i", [1]), ColumnType.INT64, ColumnType("a", "b"),
        mmdb.Locking.PAGE, object(), range(3), iter([1]), 10**30, "a" * 70000, b"a" * 100,
        10**5000, [10**5000], decimal.Decimal(10**5000), {1: 2, "x": 3},
    ]
    columns = [Column("id", ColumnType.INT64)]
    blobs = db.blobs("blob")

    def fresh():
        return db.transaction(), db.snapshot()

    made = [0]

    def name():
        made[0] += 1
        return f"table {made[0]}"

    # Each calls one thing with one odd argument; `tx` and `now` are undone afterwards.
    calls = {
        "open": lambda o, tx, now: mmdb.Database(o, in_memory=True).close(),
        "open dirs": lambda o, tx, now: mmdb.Database(in_memory=True, stream_dirs=o).close(),
        "open memory": lambda o, tx, now: mmdb.Database(path + "-m", in_memory=o).close(),
        "open option": lambda o, tx, now: mmdb.Database(in_memory=True, memory_limit=o).close(),
        "restore": lambda o, tx, now: mmdb.restore(o, path + "-none"),
        "create name": lambda o, tx, now: db.create_table(o, columns, ["id"]),
        "create columns": lambda o, tx, now: db.create_table(name(), o, ["id"]),
        "create column": lambda o, tx, now: db.create_table(name(), [o], ["id"]),
        "create key": lambda o, tx, now: db.create_table(name(), columns, o),
        "create ordered": lambda o, tx, now: db.create_table(name(), columns, ["id"], ordered=o),
        "create indexes": lambda o, tx, now: db.create_table(name(), columns, ["id"], indexes=o),
        "create index": lambda o, tx, now: db.create_table(name(), columns, ["id"], indexes=[o]),
        "create locking": lambda o, tx, now: db.create_table(name(), columns, ["id"], locking=o),
        "create logging": lambda o, tx, now: db.create_table(name(), columns, ["id"], logging=o),
        "create expiry": lambda o, tx, now: db.create_table(name(), columns, ["id"], expire_by=o),
        "create expiry unit": lambda o, tx, now: db.create_table(name(), columns, ["id"], expire_by=("id", o)),
        "create missing": lambda o, tx, now: db.create_table(name(), columns, ["id"], if_missing=o),
        "table": lambda o, tx, now: db.table(o),
        "blobs": lambda o, tx, now: db.blobs(o),
        "drop": lambda o, tx, now: o is t or db.drop_table(o),
        "rename": lambda o, tx, now: db.rename_table(db.create_table(name(), columns, ["id"]), o),
        "rename what": lambda o, tx, now: o is t or db.rename_table(o, name()),
        "add column": lambda o, tx, now: db.add_column(db.create_table(name(), columns, ["id"]), o, 1),
        "add default": lambda o, tx, now: db.add_column(
            db.create_table(name(), columns, ["id"]), Column("n", ColumnType.INT64), o
        ),
        "drop column": lambda o, tx, now: db.drop_column(db.create_table(name(), columns, ["id"]), o),
        "rename column": lambda o, tx, now: db.rename_column(db.create_table(name(), columns, ["id"]), "id", o),
        "rename from": lambda o, tx, now: db.rename_column(db.create_table(name(), columns, ["id"]), o, "x"),
        "index": lambda o, tx, now: db.create_index(db.create_table(name(), columns, ["id"]), o),
        "drop index": lambda o, tx, now: db.drop_index(t, o),
        "run": lambda o, tx, now: callable(o) or db.run(o),
        "run lazy": lambda o, tx, now: db.run(lambda tx: 1, lazy=o),
        "backup": lambda o, tx, now: isinstance(o, (str, bytes)) or db.backup(o),
        "expire": lambda o, tx, now: db.expire(o),
        "table stats": lambda o, tx, now: db.table_stats(o),
        "insert table": lambda o, tx, now: tx.insert(o, id=-5),
        "insert row": lambda o, tx, now: tx.insert(t, o),
        "insert value": lambda o, tx, now: tx.insert(t, id=-5, body=o),
        "upsert": lambda o, tx, now: tx.upsert(t, {"id": o}),
        "update": lambda o, tx, now: tx.update(t, o, body="x"),
        "update set": lambda o, tx, now: tx.update(t, 1, o),
        "delete": lambda o, tx, now: tx.delete(t, o),
        "lock": lambda o, tx, now: tx.lock_key(t, o),
        "get table": lambda o, tx, now: now.get(o, 1),
        "get": lambda o, tx, now: (tx.get(t, o), now.get(t, o)),
        "get_many": lambda o, tx, now: (tx.get_many(t, [o]), now.get_many(t, [o]), db.get_many(t, [o])),
        "get_many keys": lambda o, tx, now: (tx.get_many(t, o), db.get_many(t, [1, o])),
        "get_many table": lambda o, tx, now: db.get_many(o, [1]),
        "get committed": lambda o, tx, now: (db.get(t, o), db.get(o, 1)),
        "get_by index": lambda o, tx, now: (now.get_by(t, o, "x"), tx.get_by(t, o, "x")),
        "get_by": lambda o, tx, now: (now.get_by(t, "by_body", o), tx.get_by(t, "by_body", o)),
        "range index": lambda o, tx, now: now.range(t, o),
        "range lower": lambda o, tx, now: (list(now.range(t, lower=o)), list(tx.range(t, lower=o))),
        "range upper": lambda o, tx, now: list(now.range(t, upper=o)),
        "range excluded": lambda o, tx, now: now.range(t, lower=1, lower_excluded=o),
        "range upper excluded": lambda o, tx, now: now.range(t, upper=1, upper_excluded=o),
        "range reverse": lambda o, tx, now: now.range(t, reverse=o),
        "range update": lambda o, tx, now: now.range(t, for_update=o),
        "range skip": lambda o, tx, now: now.range(t, skip_locked=o),
        "scan table": lambda o, tx, now: now.scan(o),
        "scan": lambda o, tx, now: now.scan(t, reverse=o),
        "delete_range": lambda o, tx, now: tx.delete_range(t, lower=o, upper=o),
        "delete_range index": lambda o, tx, now: tx.delete_range(t, o),
        "cursor update": lambda o, tx, now: [c.update(body=o) for c in [tx.scan(t)] if next(c)],
        "cursor update set": lambda o, tx, now: [c.update(o) for c in [tx.scan(t)] if next(c)],
        "belong": lambda o, tx, now: blobs.belong_to(o),
        "put tx": lambda o, tx, now: blobs.put(o, 1, b""),
        "put id": lambda o, tx, now: blobs.put(tx, o, b"x"),
        "put data": lambda o, tx, now: blobs.put(tx, 1, o),
        "write at": lambda o, tx, now: blobs.write(tx, 1, o, b"x"),
        "write data": lambda o, tx, now: blobs.write(tx, 1, 0, o),
        "truncate": lambda o, tx, now: blobs.truncate(tx, 1, o),
        "blob delete": lambda o, tx, now: blobs.delete(tx, o),
        "length of": lambda o, tx, now: blobs.length(o, 1),
        "length": lambda o, tx, now: (blobs.length(tx, o), blobs.length(now, o)),
        "read": lambda o, tx, now: (blobs.read(tx, o), blobs.read(now, 1, o), blobs.read(now, 1, 0, o)),
        "read_into": lambda o, tx, now: blobs.read_into(now, 1, 0, o),
        "ids": lambda o, tx, now: blobs.ids(o),
    }
    db.run(lambda tx: blobs.put(tx, 1, b"0123456789"))
    numbers = db.create_table(
        "numbers",
        [
            Column("id", ColumnType.INT64),
            Column("real", ColumnType.FLOAT64, nullable=True),
            Column("price", ColumnType.decimal(2), nullable=True),
        ],
        ["id"],
    )
    calls["insert float"] = lambda o, tx, now: tx.insert(numbers, id=1, real=o)
    calls["insert decimal"] = lambda o, tx, now: tx.insert(numbers, id=1, price=o)
    odd.append(10**400)
    wrong = []
    for title, called in calls.items():
        for o in odd:
            tx, now = fresh()
            try:
                called(o, tx, now)
            except mmdb.Error as e:
                if isinstance(e, (mmdb.InternalError,)) or not str(e):
                    wrong.append(f"{title} of {mmdb.errors.shown(o):.60}: {type(e).__name__}: {e}")
            except BaseException as e:
                wrong.append(f"{title} of {mmdb.errors.shown(o):.60}: {type(e).__name__}: {e}")
            now.close()
            tx.abort()
    gc.collect()
    assert not wrong, "\n".join([f"{len(wrong)} answers are no mmdb.Error:"] + wrong)
    assert db.stats()["locks"] == 0 and db.stats()["snapshots"] == 0, db.stats()
    assert db.table_stats(t)["rows"] == 2000
print("ok")

"""What the package promises, tried as a stranger would."""

import ctypes
import datetime
import decimal
import gc
import json
import os
import sys
import threading

import mmdb
from mmdb import Column, ColumnType, Index, _library, database, handle

path = sys.argv[1]
D = decimal.Decimal
UTC = datetime.timezone.utc


def raises(kind, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except kind as e:
        assert str(e), "an error has words"
        return e
    raise AssertionError(f"{function} raised no {kind.__name__}")


COLUMNS = [
    Column("id", ColumnType.UINT64),
    Column("name", ColumnType.var_text(40)),
    Column("price", ColumnType.decimal(2), nullable=True),
    Column("weight", ColumnType.FLOAT64, nullable=True),
    Column("sold", ColumnType.BOOL, nullable=True),
    Column("made", ColumnType.TIME, nullable=True),
    Column("picture", ColumnType.var_bytes(1000), nullable=True),
    Column("small", ColumnType.INT16, nullable=True),
]
BY_NAME = Index("by_name", ["name", "id"])

raises(mmdb.OptionsError, mmdb.open, path, colour=3)
raises(mmdb.OptionsError, mmdb.open, path, streams=-1)
raises(mmdb.OptionsError, mmdb.open, path, streams=0)
raises(mmdb.InvalidValueError, mmdb.open, path + "\0")
raises(mmdb.InvalidValueError, mmdb.open, 5)
raises(mmdb.NotTextError, mmdb.open, b"/tmp/\xff")

# No thread gives up because another one stands still for long.
with mmdb.open(path, segment_bytes=1 << 20, lock_timeout_ms=600_000) as db:
    raises(mmdb.IoError, mmdb.open, path)
    items = db.create_table("item", COLUMNS, ["id"], indexes=[BY_NAME])
    assert [c.name for c in items.columns] == [c.name for c in COLUMNS]
    assert items.columns == tuple(COLUMNS) and items.indexes[1] == Index("by_name", ["name", "id"])
    raises(mmdb.TableExistsError, db.create_table, "item", COLUMNS, ["id"])
    db.create_table("item", COLUMNS, ["id"], indexes=[BY_NAME], if_missing=True)
    raises(mmdb.SchemaDiffersError, db.create_table, "item", COLUMNS, ["id"], if_missing=True)
    raises(mmdb.SchemaError, db.create_table, "x", [Column("a", ColumnType.var_text(70000))], ["a"])
    raises(mmdb.NoSuchColumnError, db.create_table, "x", COLUMNS, ["identity"])
    raises(mmdb.NoSuchTableError, db.table, "y")

    # Every type, and what does not fit.
    full = dict(
        id=2**64 - 1, name="Füllfeder \0 ✒", price=D("-12.50"), weight=3, sold=True,
        made=datetime.datetime(2026, 11, 25, 12, 0, 0, 7, UTC), picture=b"\0\xff" * 100, small=-5,
    )
    with db.transaction() as tx:
        tx.insert(items, full)
        tx.insert(items, id=1, name="pen")
        got = tx.get(items, 2**64 - 1)
        assert got == dict(full, weight=3.0), got
        assert str(got["price"]) == "-12.50" and isinstance(got["sold"], bool)
        assert tx.get(items, 1)["price"] is None and tx.get(items, 7) is None
        assert tx.get_many(items, [7, 1, 2**64 - 1]) == [None, tx.get(items, 1), got]
        assert db.get(items, 1) is None, "it is not committed"
        for wrong in (
            dict(id=3, name="x" * 41), dict(id=3, name=None), dict(id=-1, name="x"),
            dict(id=3, name="x", small=40000), dict(id=3, name="x", price=D("1.001")),
            dict(id=3, name="x", price=D("NaN")), dict(id=3, name="x", price=D("1e30")),
            # It was rounded to an even number, and no other number is.
            dict(id=3, name="x", weight=2**53 + 1),
            dict(id=2**64, name="x"), dict(id=3, name="x", sold="yes"), dict(id=3, name=object()),
            dict(id=3, name="x", made=datetime.datetime(2026, 1, 1)), dict(id=3, name="\ud800"),
        ):
            raises(mmdb.InvalidValueError, tx.insert, items, wrong)
        raises(mmdb.NoSuchColumnError, tx.insert, items, id=3, nome="x")
        raises(mmdb.NoSuchColumnError, tx.update, items, 1, nome="x")
        raises(mmdb.DuplicateKeyError, tx.insert, items, id=1, name="x")
        raises(mmdb.OperationError, tx.get, items, (1, 2))
        raises(mmdb.MisuseError, tx.get, "item", 1)
        assert tx.update(items, 1, weight=2**60) and tx.get(items, 1)["weight"] == 2.0**60
        assert tx.update(items, 1, {"made": 2**62}) and not tx.update(items, 9, name="x")
        assert tx.get(items, 1)["made"] == 2**62
        assert tx.upsert(items, id=1, name="ink") and not tx.upsert(items, id=5, name="ink")
    raises(mmdb.ClosedError, tx.get, items, 1)
    raises(mmdb.ClosedError, tx.commit)
    tx.abort()

    # An exception undoes, a nested cursor is refused, what it stands on can be changed.
    try:
        with db.transaction() as tx:
            tx.insert(items, id=6, name="gone")
            raise KeyError("mine")
    except KeyError:
        pass
    with db.transaction() as tx:
        assert tx.get(items, 6) is None
        assert [r["id"] for r in tx.get_by(items, "by_name", ("ink", 5))] == [5]
        assert [r["id"] for r in tx.range(items, "by_name", "ink", "ink")] == [1, 5]
        assert [r["id"] for r in tx.range(items, reverse=True, upper=5, upper_excluded=True)] == [1]
        raises(mmdb.NoSuchIndexError, tx.range, items, "by_colour")
        for row in tx.range(items, lower=5):
            raises(mmdb.MisuseError, tx.delete, items, 1)
            break
        tx.lock_key(items, 1)
        with db.transaction() as other:
            # Row 1 is somebody else's: the next one is the first that is free.
            first = lambda of: next(iter(other.range(of, for_update=True, skip_locked=True)), None)
            free = first(items)
            assert free is not None and free["id"] > 1, free
            other.abort()
        with tx.range(items, upper=5, for_update=True) as cursor:
            for row in cursor:
                if row["id"] == 1:
                    assert cursor.update(name="quill")
                else:
                    assert cursor.delete()
        raises(mmdb.ClosedError, cursor.delete)
        assert tx.get(items, 1)["name"] == "quill" and tx.get(items, 5) is None
        # A cursor took columns by name only, where a transaction takes a dict as well.
        with tx.range(items, upper=1, for_update=True) as cursor:
            assert next(cursor)["id"] == 1
            assert cursor.update({"small": 3}, sold=True)
            raises(mmdb.InvalidValueError, cursor.update, 5)
            raises(mmdb.NoSuchColumnError, cursor.update, self=1, set=2)
            assert cursor.update({"small": None, "sold": None})
        assert tx.get(items, 1)["small"] is None
        assert next(cursor, None) is None
        left = tx.scan(items)
    assert raises(mmdb.MisuseError, next, left)
    del left

    # Another transaction in the way: refused alone, run again by run.
    with db.transaction() as old:
        young = db.transaction()
        old.update(items, 1, small=1)
        error = raises(mmdb.RetryableError, young.update, items, 1, small=2)
        assert isinstance(error, mmdb.DeadlockError) and error.status == 16
        young.abort()
    runs = []

    def count(tx):
        runs.append(1)
        value = tx.get(items, 1)["small"]
        tx.update(items, 1, small=value + 1)
        return value

    threads = [threading.Thread(target=lambda: [db.run(count) for _ in range(20)]) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert db.run(count) == 81 and len(runs) >= 81

    def bad(tx):
        raises(mmdb.MisuseError, tx.commit)
        tx.update(items, 1, small=0)
        raise ZeroDivisionError("mine")

    raises(ZeroDivisionError, db.run, bad)
    stops = []

    def stop(tx):
        stops.append(tx)
        raise KeyboardInterrupt("mine")

    raises(KeyboardInterrupt, db.run, stop)
    assert len(stops) == 1

    # A second Ctrl-C left the callback, what it returned was not 0 then, and a half-done
    # transaction was committed: a callback that an exception leaves decides nothing.
    def broken(pointer, _):
        tx = mmdb.Transaction(handle.Handle.lent(pointer, "transaction"))
        tx.update(items, 1, small=0)
        tx._forget()
        raise ZeroDivisionError("mine")

    callback, decision = _library.CALLBACK(broken), ctypes.c_int(1)
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    with db._handle.use() as me:
        arguments = (me, 0, callback, None, ctypes.byref(decision), None)
        raises(mmdb.AbortedError, _library.call, "run_decided", *arguments)
    sys.unraisablehook = hook
    assert db.snapshot().get(items, 1)["small"] == 82
    raises(mmdb.ClosedError, stops[0].get, items, 1)
    def close(tx):
        raises(mmdb.MisuseError, db.close)
        raises(mmdb.MisuseError, db.run(lambda inner: inner)._require_owned)

    db.run(close)
    raises(mmdb.NoSuchColumnError, db.create_table, "x", COLUMNS, "identity")
    raises(mmdb.InvalidValueError, db.table, "\ud800")
    raises(SystemExit, db.run, lambda tx: sys.exit(3))
    value, ticket = db.run_with(count, lazy=True)
    assert value == 82 and ticket.wait_durable() == ticket.gsn and ticket.poll()

    # Snapshots: one moment, by several threads, also while it is closed.
    snapshot = db.snapshot()
    db.run(lambda tx: tx.delete_range(items))
    assert snapshot.get(items, 1)["small"] == 83 and len(list(snapshot.scan(items))) == 2
    assert [row and row["id"] for row in snapshot.get_many(items, iter([1, 5]))] == [1, None]
    assert db.get_many(items, [(1,), 5]) == [None, None] and db.get_many(items, []) == []
    assert snapshot.ticket().wait() == snapshot.gsn
    rows = snapshot.range(items)
    snapshot.close()
    snapshot.close()
    raises(mmdb.ClosedError, snapshot.get, items, 1)
    assert len(list(rows)) == 2
    with db.snapshot() as now:
        assert list(now.scan(items)) == []
    # A dump of an open database could not be had: `mmdb dump` reads closed ones only.
    with db.snapshot() as now:
        db.run(lambda tx: tx.insert(items, id=77, name="x"))
        assert now.dump(path + "-before") == 0
    with db.snapshot() as now:
        assert now.dump(path + "-dump") == 1
        raises(mmdb.FileError, now.dump, path + "-dump")
    with open(path + "-dump", encoding="utf-8") as lines:
        assert [json.loads(line)["row"]["id"] for line in lines] == [77]
    db.run(lambda tx: tx.delete(items, 77))

    # Blobs, in parts and whole.
    pictures = db.blobs("picture")
    owners = db.create_table("owner", [Column("id", ColumnType.UINT64)], ["id"])
    pictures.belong_to(owners)
    whole = bytes(range(256)) * 2000
    with db.transaction() as tx:
        tx.insert(owners, id=7)
        pictures.put(tx, 7, whole)
        raises(mmdb.OperationError, pictures.put, tx, 7, bytes((16 << 20) + 1))
        raises(mmdb.OperationError, pictures.write, tx, 7, len(whole) + 1, b"x")
        raises(mmdb.InvalidValueError, pictures.put, tx, -1, b"x")
        raises(mmdb.InvalidValueError, pictures.put, tx, 7, "text")
    with db.snapshot() as before:
        db.run(lambda tx: pictures.write(tx, 7, 100_000, memoryview(b"changed")))
        assert pictures.read(before, 7) == whole and pictures.length(before, 7) == len(whole)
        assert pictures.ids(before) == [7]
    with db.transaction() as tx:
        assert pictures.read(tx, 7, 99_999, 8) == whole[99_999:100_000] + b"changed"
        part = bytearray(b"....")
        assert pictures.read_into(tx, 7, 100_003, part) == 4 and part == b"nged"
        assert pictures.read_into(tx, 7, len(whole) - 1, part) == 1 and part == b"\xffged"
        assert pictures.read(tx, 8) is None and pictures.read_into(tx, 8, 0, part) is None
        assert pictures.length(tx, 8) is None and not pictures.delete(tx, 8)
        assert pictures.truncate(tx, 7, 100_007)
        assert pictures.read(tx, 7, 100_000) == b"changed" and pictures.read(tx, 7, 2**40) == b""
        assert tx.delete(owners, 7) and pictures.read(tx, 7) is None
    db.drop_table(db.table("picture"))
    db.drop_table(owners)

    # Changes of the schema.
    db.run(lambda tx: tx.insert(items, id=1, name="pen", weight=0.5))
    items = db.add_column(items, Column("colour", ColumnType.var_text(10)), "blue")
    items = db.create_index(items, Index("by_colour", ["colour"], ordered=False))
    with db.transaction() as tx:
        assert [r["id"] for r in tx.get_by(items, "by_colour", "blue")] == [1]
    items = db.drop_index(items, "by_colour")
    old = items
    items = db.drop_column(items, "weight")
    with db.transaction() as tx:
        raises(mmdb.TableChangedError, tx.get, old, 1)
    with db.transaction() as tx:
        assert "weight" not in tx.get(items, 1)
    items = db.rename_column(items, "colour", "tint")
    items = db.rename_table(items, "thing")
    assert [t.name for t in db.tables()] == ["thing"] and items.columns[-1].name == "tint"
    assert db.table_stats(items)["rows"] == 1

    # A table was left out while another one was dropped: those behind it moved by one place. And
    # some were listed twice where several were dropped at once.
    several = [db.create_table(f"t{i}", [Column("id", ColumnType.INT64)], ["id"]) for i in range(9)]
    real, gone, left = database.call, [], several
    def drops_first(name, *arguments):
        real(name, *arguments)
        if name == "table_at" and arguments[1] == 5:
            while gone:
                real("drop_table", db._handle.pointer, gone.pop()._handle.pointer)
    for count in (1, 3):
        gone, left = left[:count], left[count:]
        database.call = drops_first
        seen = [t.name for t in db.tables()]
        database.call = real
        assert not gone and {t.name for t in left} <= set(seen), seen
        assert len(seen) == len(set(seen)) and seen[0] == "thing", seen
    for table in left:
        db.drop_table(table)

    # A handle goes on when its table gets another name. What a change gave back was looked up by
    # the name of before: another table that had it by then, or none though the change was made.
    first = db.create_table("first", [Column("id", ColumnType.INT64)], ["id"])
    db.rename_table(first, "second")
    first = db.create_index(first, Index("again", ["id"], unique=True))
    assert first.indexes[1] == Index("again", ["id"], unique=True)
    other = db.create_table("first", [Column("id", ColumnType.INT64)], ["id"])
    first = db.rename_column(first, "id", "number")
    assert [c.name for c in first.columns] == first.indexes[1].columns == ["number"]
    db.run(lambda tx: tx.insert(first, number=1))
    with db.transaction() as tx:
        assert tx.get_by(first, "again", 1) == [{"number": 1}]
    first = db.drop_index(first, "again")
    assert len(first.indexes) == 1 and db.table("second").indexes == first.indexes
    assert db.table_stats(first)["rows"] == 1 and db.table_stats(other)["rows"] == 0
    # A table that was dropped had the figures of another one that got its name.
    gone = db.create_table("gone", [Column("id", ColumnType.INT64)], ["id"])
    db.drop_table(gone)
    db.rename_table(other, "gone")
    raises(mmdb.NoSuchTableError, db.table_stats, gone)
    db.rename_table(other, "first")
    first = db.rename_table(first, "third")
    assert first.name == "third" and db.run(lambda tx: tx.get(first, 1)) == {"number": 1}
    db.drop_table(first)
    db.drop_table(other)

    assert db.checkpoint()["containers"] >= 1
    copy = path + "-copy"
    assert db.backup(copy) == db.horizon
    mmdb.restore(copy, path + "-restored", segment_bytes=1 << 20)
    assert db.expire(datetime.datetime.now(UTC)) == 0

    # A call of another thread is refused, not crossed.
    seen = []
    tx = db.transaction()
    def twice():
        try:
            for _ in range(300):
                tx.get(items, 1)
        except mmdb.MisuseError as e:
            seen.append(str(e))

    threads = [threading.Thread(target=twice) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert all("another call uses this" in words for words in seen), seen
    with tx._handle.use():
        raises(mmdb.MisuseError, tx.commit)
    tx.abort()
    assert db.stats()["locks"] == 0 and db.stats()["snapshots"] == 0
    forgotten = db.transaction()
    forgotten.insert(items, id=99, name="forgotten", tint="red")
    del forgotten
    gc.collect()
    assert db.run(lambda tx: tx.get(items, 99)) is None
    db.drop_table(items)

raises(mmdb.ClosedError, db.stats)
db.close()
with mmdb.open(path + "-restored") as db:
    assert db.run(lambda tx: tx.get(db.table("thing"), 1))["tint"] == "blue"
with mmdb.Database(in_memory=True, memory_limit=1 << 20) as db:
    t = db.create_table("t", [Column("id", ColumnType.INT64), Column("b", ColumnType.var_bytes(60000))], ["id"])
    raises(mmdb.MemoryLimitError, db.run, lambda tx: [tx.insert(t, id=i, b=b"x" * 50000) for i in range(100)])
assert os.path.exists(os.path.join(os.path.dirname(mmdb.__file__), "py.typed"))
assert mmdb.__version__.count(".") == 2
left_open = mmdb.Database(in_memory=True)
held = left_open.transaction()
print("ok")

"""The handle on an open database."""

import ctypes
import datetime
import enum
import operator
import threading
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, TypeVar, Union

from . import _library, errors, values
from .blobs import Blobs
from ._library import CheckpointStats, Stats, call, names, text
from .errors import shown
from .handle import Handle
from .reading import many, one
from .schema import Column, ColumnType, Index
from .snapshot import Snapshot
from .table import Table, pointer_of
from .ticket import Ticket
from .transaction import Transaction

T = TypeVar("T")


class Locking(enum.IntEnum):
    """What is locked by whoever uses a row."""

    RECORD = 0
    PAGE = 1
    CONTAINER = 2
    NONE = 3


class Logging(enum.IntEnum):
    """What of a table comes back when the database is opened again."""

    LOGGED = 0
    CHECKPOINTED = 1
    VOLATILE = 2


class TimeUnit(enum.IntEnum):
    """What the numbers of a column count by which rows expire."""

    SECONDS = 0
    MILLISECONDS = 1
    MICROSECONDS = 2


def _options(in_memory: bool, stream_dirs: Sequence[Any], options: Dict[str, int]) -> Handle:
    handle = Handle("options")
    call("options_new", handle.place)
    if values.flag(in_memory, "in_memory"):
        call("options_in_memory", handle.pointer)
    if isinstance(stream_dirs, (str, bytes)):
        raise errors.OptionsError(
            f"stream_dirs is {shown(stream_dirs)}, and must be a list of paths"
        )
    for path in values.items(stream_dirs, "stream_dirs"):
        call("options_add_stream_dir", handle.pointer, text(path))
    for name, value in options.items():
        try:
            number = operator.index(value)
        except TypeError:
            raise errors.OptionsError(f"option {name}: {shown(value)} is no whole number") from None
        if not 0 <= number < 2**64:
            raise errors.OptionsError(f"option {name}: {shown(value)} is out of range")
        call("options_set", handle.pointer, text(name), number)
    return handle


def _declare(table: str, column: Column) -> Tuple[bytes, int, int, bool]:
    """A column as the library takes it."""
    if not isinstance(column, Column) or not isinstance(column.type, ColumnType):
        words = f"{shown(column)} is no mmdb.Column with a ColumnType"
        raise errors.SchemaError(f"table {table}: {words}")
    number, size = column.type.number, column.type.size
    for n in (number, size):
        if not isinstance(n, int) or not 0 <= n < 2**16:
            raise errors.SchemaError(
                f"table {table}: column {shown(column.name)} has the size {shown(size)}"
            )
    return text(column.name), number, size, bool(values.flag(column.nullable, "nullable"))


def _index(table: str, index: Index) -> Tuple[Any, ...]:
    """An index as the library takes it."""
    if not isinstance(index, Index):
        raise errors.SchemaError(f"table {table}: {shown(index)} is no mmdb.Index")
    ordered, unique = values.flag(index.ordered, "ordered"), values.flag(index.unique, "unique")
    return (text(index.name), *names(index.columns), ordered | unique << 1)


def _number(kind: Any, value: Any) -> int:
    """A member of an enumeration."""
    try:
        return int(kind(value))
    except ValueError:
        raise errors.SchemaError(f"{shown(value)} is no mmdb.{kind.__name__}") from None


def restore(source: Any, to: Any, *, stream_dirs: Sequence[Any] = (), **options: int) -> None:
    """Makes another database of a backup, in the directory `to`, with an identity of its own."""
    with _options(False, stream_dirs, options).use() as given:
        call("restore", text(source), text(to), given)


class Database:
    """An open database; any number of threads may use it.

    `Database(path, segment_bytes=1 << 20)` opens the one in a directory, and creates it if there is
    none. Options are those of `mmdb_options_set` in mmdb.h. `in_memory=True` keeps the files in
    memory, for tests.
    """

    def __init__(
        self,
        path: Any = "/mmdb",
        *,
        in_memory: bool = False,
        stream_dirs: Sequence[Any] = (),
        **options: int,
    ) -> None:
        self._handle = Handle("database")
        with _options(in_memory, stream_dirs, options).use() as given:
            call("open", text(path), given, self._handle.place)

    def close(self) -> None:
        """Flushes and closes. Nothing happens the second time."""
        self._handle.close()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _table(self, name: str, *arguments: Any) -> Table:
        handle = Handle("table")
        with self._handle.use() as me:
            call(name, me, *arguments, handle.place)
        return Table(handle)

    def create_table(
        self,
        name: str,
        columns: Sequence[Column],
        primary_key: Sequence[str],
        *,
        ordered: bool = True,
        indexes: Sequence[Index] = (),
        locking: Locking = Locking.RECORD,
        logging: Logging = Logging.LOGGED,
        expire_by: Optional[Tuple[str, TimeUnit]] = None,
        if_missing: bool = False,
    ) -> Table:
        """Creates a table. With `if_missing`, one that is there and defined alike will do."""
        handle = Handle("schema")
        call("schema_new", text(name), handle.place)
        with handle.use() as schema:
            for c in values.items(columns, "columns"):
                call("schema_column", schema, *_declare(name, c))
            is_ordered = values.flag(ordered, "ordered")
            call("schema_primary_key", schema, *names(primary_key), is_ordered)
            for i in values.items(indexes, "indexes"):
                call("schema_index", schema, *_index(name, i))
            call("schema_locking", schema, _number(Locking, locking))
            call("schema_logging", schema, _number(Logging, logging))
            if expire_by is not None:
                if not isinstance(expire_by, (tuple, list)) or len(expire_by) != 2:
                    raise errors.SchemaError(f"expire_by is {shown(expire_by)}: (column, TimeUnit)")
                unit = _number(TimeUnit, expire_by[1])
                call("schema_expire_by", schema, text(expire_by[0]), unit)
            missing = values.flag(if_missing, "if_missing")
            return self._table("create_table_if_missing" if missing else "create_table", schema)

    def table(self, name: str) -> Table:
        """The table with a name."""
        return self._table("table_open", text(name))

    def get(self, table: Table, key: Any) -> Optional[Dict[str, Any]]:
        """The row with a primary key as it was last committed, or None: outside of any transaction,
        without locks. Each such read has a moment of its own, and may be of what is not durable
        yet."""
        return one("get_committed", self._handle, table, key)

    def get_many(self, table: Table, keys: Iterable[Any]) -> List[Optional[Dict[str, Any]]]:
        """The rows with these primary keys, in their order, each as `get` would give it."""
        return many("get_many_committed", self._handle, table, keys)

    def tables(self) -> List[Table]:
        """All tables, in the order of their creation."""
        behind = 1
        while self._table_at(behind) is not None:
            behind *= 2
        # From the last one down: one that is dropped meanwhile moves those behind it, which were
        # seen, and those before it stay where they are. New ones come at the end.
        found: Dict[str, Table] = {}
        for at in reversed(range(behind)):
            table = self._table_at(at)
            # Where several are dropped, any that was seen may have moved to this place.
            if table is not None:
                found[table.name] = table
        return list(found.values())[::-1]

    def _table_at(self, at: int) -> Optional[Table]:
        handle = Handle("table")
        with self._handle.use() as me:
            call("table_at", me, at, handle.place)
        return Table(handle) if handle.is_open else None

    def blobs(self, name: str) -> Blobs:
        """The table of blobs with a name, which is created if there is none."""
        handle = Handle("blobs")
        with self._handle.use() as me:
            call("blobs_open", me, text(name), handle.place)
        return Blobs(handle)

    def drop_table(self, table: Table) -> None:
        """Drops a table and its rows."""
        with pointer_of(table) as t, self._handle.use() as me:
            call("drop_table", me, t)

    def rename_table(self, table: Table, to: str) -> Table:
        """Gives a table another name."""
        with pointer_of(table) as t, self._handle.use() as me:
            name = text(to)
            call("rename_table", me, t, name)
        return table._named(name.decode())

    def add_column(self, table: Table, column: Column, default: Any = None) -> Table:
        """Adds a column, which all rows have with the default."""
        with pointer_of(table) as t:
            declared = _declare(table.name, column)
            value = values.Values([default], [column.type])
            return self._table("add_column", t, *declared, value.array)

    def drop_column(self, table: Table, name: str) -> Table:
        """Drops a column."""
        with pointer_of(table) as t:
            return self._table("drop_column", t, text(name))

    def rename_column(self, table: Table, name: str, to: str) -> Table:
        """Gives a column another name."""
        with pointer_of(table) as t, self._handle.use() as me:
            old, new = text(name), text(to)
            call("rename_column", me, t, old, new)
        return table._with_column_named(old.decode(), new.decode())

    def create_index(self, table: Table, index: Index) -> Table:
        """Builds an index while others work."""
        with pointer_of(table) as t, self._handle.use() as me:
            name, columns, count, flags = _index(table.name, index)
            call("create_index", me, t, name, columns, count, flags)
        listed = [columns[i].decode() for i in range(count)]
        return table._with_index(Index(name.decode(), listed, bool(flags & 1), bool(flags & 2)))

    def drop_index(self, table: Table, name: str) -> Table:
        """Drops an index."""
        with pointer_of(table) as t, self._handle.use() as me:
            dropped = text(name)
            call("drop_index", me, t, dropped)
        return table._without_index(dropped.decode())

    def transaction(self) -> Transaction:
        """Begins a serializable transaction."""
        handle = Handle("transaction")
        with self._handle.use() as me:
            call("begin", me, handle.place)
        return Transaction(handle)

    def run(self, function: Callable[[Transaction], T], *, lazy: bool = False) -> T:
        """Runs a function in a transaction until that commits, and waits until it is durable.

        An exception undoes the transaction and is raised here. If another transaction was in the
        way, the function runs again once that has gone: so it may run many times.

        While it waits at its end the transaction is committed. What a signal's handler raises then
        is raised here all the same: who would run it again for that calls `run_with`, and waits for
        the ticket again instead.
        """
        result, ticket = self.run_with(function, lazy=lazy)
        ticket._settle()
        return result

    def run_with(
        self, function: Callable[[Transaction], T], *, lazy: bool = False
    ) -> Tuple[T, Ticket]:
        """As `run`, but gives the ticket instead of waiting."""
        mode = values.flag(lazy, "lazy")
        if not callable(function):
            raise errors.MisuseError(f"{shown(function)} is no function of a transaction")
        results: List[T] = []
        raised: List[BaseException] = []
        decision = ctypes.c_int(0)

        def callback(pointer: Any, _: Any) -> int:
            if raised and not isinstance(raised[-1], Exception):
                # Ctrl-C, or the end of the program: not again, whatever was in the way.
                return 0
            # What this function returns is undefined where an exception leaves it, as a second
            # Ctrl-C below does: so it decides by `decision`, at its end.
            try:
                tx = Transaction(Handle.lent(pointer, "transaction"))
                try:
                    results.append(function(tx))
                finally:
                    tx._forget()
                decision.value = 1
            except BaseException as e:
                decision.value = 0
                raised.append(e)
            return 0

        ticket = Handle("ticket")
        with self._handle.use() as me:
            c = _library.CALLBACK(callback)
            try:
                call("run_decided", me, mode, c, None, ctypes.byref(decision), ticket.place)
            except errors.AbortedError:
                if raised:
                    raise raised[-1] from None
                # It broke off outside of the function, where ctypes prints what came and drops it.
                if threading.current_thread() is threading.main_thread():
                    raise KeyboardInterrupt from None
                raise
            except errors.Error as e:
                # A handler's exception ended a wait in the function: it goes on, whatever it is.
                is_signal = isinstance(e, errors.WaitInterruptedError)
                if raised and (is_signal or not isinstance(raised[-1], Exception)):
                    raise raised[-1] from None
                raise
        return results[-1], Ticket(ticket)

    def snapshot(self) -> Snapshot:
        """One moment of the whole database, read without locks."""
        handle = Handle("snapshot")
        with self._handle.use() as me:
            call("snapshot_open", me, handle.place)
        return Snapshot(handle)

    def flush(self) -> None:
        """Makes all commits so far durable."""
        with self._handle.use() as me:
            call("flush", me)

    @property
    def horizon(self) -> int:
        """Number of the last commit such that it and all before it are durable."""
        gsn = ctypes.c_uint64()
        with self._handle.use() as me:
            call("horizon", me, ctypes.byref(gsn))
        return gsn.value

    def checkpoint(self) -> Dict[str, int]:
        """Takes a checkpoint while transactions go on."""
        stats = CheckpointStats()
        with self._handle.use() as me:
            call("checkpoint", me, ctypes.byref(stats))
        return {name: getattr(stats, name) for name, _ in CheckpointStats._fields_}

    def backup(self, to: Any) -> int:
        """Copies the database into an empty directory; returns the number of its last commit."""
        gsn = ctypes.c_uint64()
        with self._handle.use() as me:
            call("backup", me, text(to), ctypes.byref(gsn))
        return gsn.value

    def expire(self, now: Union[datetime.datetime, int]) -> int:
        """Deletes the rows that expire up to a time (microseconds, or a datetime)."""
        rows = ctypes.c_uint64()
        value, _ = values.encode(now)
        if value.kind not in (2, 6):
            raise errors.InvalidValueError(f"{shown(now)} is no time")
        with self._handle.use() as me:
            call("expire", me, value.integer, ctypes.byref(rows))
        return rows.value

    def stats(self) -> Dict[str, int]:
        """What the database is doing: counters and sizes."""
        stats = Stats()
        with self._handle.use() as me:
            call("get_stats", me, ctypes.byref(stats), ctypes.sizeof(stats))
        return {name: getattr(stats, name) for name, _ in Stats._fields_}

    def table_stats(self, table: Table) -> Dict[str, int]:
        """Rows, containers and bytes of a table."""
        numbers = [ctypes.c_uint64() for _ in range(3)]
        with pointer_of(table) as t, self._handle.use() as me:
            call("get_table_stats", me, t, *(ctypes.byref(n) for n in numbers))
        return dict(zip(("rows", "containers", "bytes"), (n.value for n in numbers)))

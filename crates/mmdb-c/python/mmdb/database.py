"""The handle on an open database."""

import ctypes
import datetime
import enum
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar, Union

from . import _library, errors, values
from .blobs import Blobs
from ._library import CheckpointStats, Handle, Stats, call, names, text
from .schema import Column, Index
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
    pointer = ctypes.c_void_p()
    call("options_new", ctypes.byref(pointer))
    handle = Handle(pointer, "options_free", "options")
    if in_memory:
        call("options_in_memory", pointer)
    for path in stream_dirs:
        call("options_add_stream_dir", pointer, text(path))
    for name, value in options.items():
        number = int(value)
        if not 0 <= number < 2**64:
            raise errors.OptionsError(f"option {name}: {value} is out of range")
        call("options_set", pointer, text(name), number)
    return handle


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
        pointer = ctypes.c_void_p()
        with _options(in_memory, stream_dirs, options).use() as given:
            call("open", text(path), given, ctypes.byref(pointer))
        self._handle = Handle(pointer, "close", "database")

    def close(self) -> None:
        """Flushes and closes. Nothing happens the second time."""
        self._handle.close()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _table(self, name: str, *arguments: Any) -> Table:
        pointer = ctypes.c_void_p()
        with self._handle.use() as me:
            call(name, me, *arguments, ctypes.byref(pointer))
        return Table(pointer)

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
        pointer = ctypes.c_void_p()
        call("schema_new", text(name), ctypes.byref(pointer))
        with Handle(pointer, "schema_free", "schema").use() as schema:
            for c in columns:
                size = c.type.size
                if not 0 <= size < 2**16:
                    raise errors.SchemaError(f"table {name}: column {c.name} has the size {size}")
                call("schema_column", schema, text(c.name), c.type.number, size, c.nullable)
            call("schema_primary_key", schema, *names(primary_key), int(ordered))
            for i in indexes:
                call("schema_index", schema, text(i.name), *names(i.columns), i.flags)
            call("schema_locking", schema, int(locking))
            call("schema_logging", schema, int(logging))
            if expire_by is not None:
                call("schema_expire_by", schema, text(expire_by[0]), int(expire_by[1]))
            how = "create_table_if_missing" if if_missing else "create_table"
            return self._table(how, schema)

    def table(self, name: str) -> Table:
        """The table with a name."""
        return self._table("table_open", text(name))

    def tables(self) -> List[Table]:
        """All tables, in the order of their creation."""
        found: List[Table] = []
        while True:
            pointer = ctypes.c_void_p()
            with self._handle.use() as me:
                call("table_at", me, len(found), ctypes.byref(pointer))
            if not pointer.value:
                return found
            found.append(Table(pointer))

    def blobs(self, name: str) -> Blobs:
        """The table of blobs with a name, which is created if there is none."""
        pointer = ctypes.c_void_p()
        with self._handle.use() as me:
            call("blobs_open", me, text(name), ctypes.byref(pointer))
        return Blobs(pointer)

    def drop_table(self, table: Table) -> None:
        """Drops a table and its rows."""
        with pointer_of(table) as t, self._handle.use() as me:
            call("drop_table", me, t)

    def rename_table(self, table: Table, to: str) -> Table:
        """Gives a table another name."""
        with pointer_of(table) as t, self._handle.use() as me:
            call("rename_table", me, t, text(to))
        return self.table(to)

    def add_column(self, table: Table, column: Column, default: Any = None) -> Table:
        """Adds a column, which all rows have with the default."""
        value = values.Values([default], [column.type])
        kind = column.type
        if not 0 <= kind.size < 2**16:
            raise errors.SchemaError(f"table {table.name}: column {column.name}: size {kind.size}")
        with pointer_of(table) as t:
            arguments = (text(column.name), kind.number, kind.size, column.nullable, value.array)
            return self._table("add_column", t, *arguments)

    def drop_column(self, table: Table, name: str) -> Table:
        """Drops a column."""
        with pointer_of(table) as t:
            return self._table("drop_column", t, text(name))

    def rename_column(self, table: Table, name: str, to: str) -> Table:
        """Gives a column another name."""
        with pointer_of(table) as t, self._handle.use() as me:
            call("rename_column", me, t, text(name), text(to))
        return self.table(table.name)

    def create_index(self, table: Table, index: Index) -> Table:
        """Builds an index while others work."""
        with pointer_of(table) as t, self._handle.use() as me:
            call("create_index", me, t, text(index.name), *names(index.columns), index.flags)
        return self.table(table.name)

    def drop_index(self, table: Table, name: str) -> Table:
        """Drops an index."""
        with pointer_of(table) as t, self._handle.use() as me:
            call("drop_index", me, t, text(name))
        return self.table(table.name)

    def transaction(self) -> Transaction:
        """Begins a serializable transaction."""
        pointer = ctypes.c_void_p()
        with self._handle.use() as me:
            call("begin", me, ctypes.byref(pointer))
        return Transaction(pointer)

    def run(self, function: Callable[[Transaction], T], *, lazy: bool = False) -> T:
        """Runs a function in a transaction until that commits, and waits until it is durable.

        An exception undoes the transaction and is raised here. If another transaction was in the
        way, the function runs again once that has gone: so it may run many times.
        """
        result, ticket = self.run_with(function, lazy=lazy)
        ticket.wait()
        return result

    def run_with(
        self, function: Callable[[Transaction], T], *, lazy: bool = False
    ) -> Tuple[T, Ticket]:
        """As `run`, but gives the ticket instead of waiting."""
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
                tx = Transaction(ctypes.c_void_p(pointer), owned=False)
                try:
                    results.append(function(tx))
                finally:
                    tx._forget()
                decision.value = 1
            except BaseException as e:
                decision.value = 0
                raised.append(e)
            return 0

        ticket = ctypes.c_void_p()
        with self._handle.use() as me:
            c = _library.CALLBACK(callback)
            try:
                call(
                    "run_decided", me, int(lazy), c, None, ctypes.byref(decision), ctypes.byref(ticket)
                )
            except errors.AbortedError:
                if not raised:
                    raise
                raise raised[-1] from None
            except errors.Error as e:
                if raised and not isinstance(raised[-1], Exception):
                    raise raised[-1] from e
                raise
        return results[-1], Ticket(ticket)

    def snapshot(self) -> Snapshot:
        """One moment of the whole database, read without locks."""
        pointer = ctypes.c_void_p()
        with self._handle.use() as me:
            call("snapshot_open", me, ctypes.byref(pointer))
        return Snapshot(pointer)

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
            raise errors.InvalidValueError(f"{now!r} is no time")
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

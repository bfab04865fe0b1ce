"""Transactions."""

import ctypes
from typing import Any, Mapping, Optional

from . import errors, values
from ._library import call, text
from .handle import Handle
from .reading import Reader
from .table import Table, pointer_of
from .ticket import Ticket


class Transaction(Reader):
    """A serializable transaction; one thread at a time may use it.

    As a context manager it commits, and waits until that is durable; an exception undoes it. What a
    signal's handler raises while it waits comes from a transaction that is committed.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def insert(self, table: Table, row: Optional[Mapping[str, Any]] = None, **columns: Any) -> None:
        """Inserts a row: a dict, or columns by name. Columns that are not named are NULL."""
        with pointer_of(table) as of, self._handle.use() as me:
            r = values.record(table.columns, values.named(row, columns), table.name)
            call("insert", me, of, r.array, r.count)

    def upsert(self, table: Table, row: Optional[Mapping[str, Any]] = None, **columns: Any) -> bool:
        """As `insert`, or in the place of the row with its primary key; says whether there was."""
        replaced = ctypes.c_bool()
        with pointer_of(table) as of, self._handle.use() as me:
            r = values.record(table.columns, values.named(row, columns), table.name)
            call("upsert", me, of, r.array, r.count, ctypes.byref(replaced))
        return replaced.value

    def update(
        self, table: Table, key: Any, set: Optional[Mapping[str, Any]] = None, **columns: Any
    ) -> bool:
        """Changes columns of the row with a primary key; says whether there is one."""
        found = ctypes.c_bool()
        with pointer_of(table) as of, self._handle.use() as me:
            k = values.key(key, table.columns_of("primary"))
            a = values.Assignments(table.columns, values.named(set, columns))
            call("update", me, of, k.array, k.count, a.array, a.count, ctypes.byref(found))
        return found.value

    def delete(self, table: Table, key: Any) -> bool:
        """Deletes the row with a primary key; says whether there was one."""
        found = ctypes.c_bool()
        with pointer_of(table) as of, self._handle.use() as me:
            k = values.key(key, table.columns_of("primary"))
            call("delete", me, of, k.array, k.count, ctypes.byref(found))
        return found.value

    def lock_key(self, table: Table, key: Any) -> None:
        """Locks a primary key for a change, whether there is a row or not."""
        with pointer_of(table) as of, self._handle.use() as me:
            k = values.key(key, table.columns_of("primary"))
            call("lock_key", me, of, k.array, k.count)

    def delete_range(
        self,
        table: Table,
        index: str = "primary",
        lower: Any = None,
        upper: Any = None,
        *,
        lower_excluded: bool = False,
        upper_excluded: bool = False,
    ) -> int:
        """Deletes the rows of a range of an ordered index; returns their number."""
        deleted = ctypes.c_uint64()
        with pointer_of(table) as of, self._handle.use() as me:
            columns = table.columns_of(index)
            low, _low = values.bound(lower, columns, lower_excluded)
            high, _high = values.bound(upper, columns, upper_excluded)
            call("delete_range", me, of, text(index), low, high, ctypes.byref(deleted))
        return deleted.value

    def commit(self, *, lazy: bool = False) -> Ticket:
        """Commits, and does not wait: the ticket does."""
        mode = values.flag(lazy, "lazy")
        self._require_owned()
        ticket = Handle("ticket")
        with self._handle.last_use() as place:
            call("commit_at", place, mode, ticket.place)
        return Ticket(ticket)

    def abort(self) -> None:
        """Undoes it. Nothing happens the second time."""
        self._require_owned()
        self._handle.close()

    def _require_owned(self) -> None:
        if not self._handle.is_owned:
            raise errors.MisuseError("the transaction of Database.run ends when the function does")

    def _forget(self) -> None:
        """It is ended by whoever began it."""
        self._handle.forget()

    def __enter__(self) -> "Transaction":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if not self._handle.is_open:
            return
        if kind is None:
            self.commit()._settle()
        else:
            self.abort()

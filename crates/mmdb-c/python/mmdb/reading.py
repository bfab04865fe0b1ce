"""What transactions and snapshots have in common: reads."""

import ctypes
from typing import Any, Dict, Iterable, List, Optional

from . import values
from ._library import call, text
from .cursor import Cursor
from .handle import Handle
from .table import Table, pointer_of


def one(name: str, of: Handle, table: Table, key: Any) -> Optional[Dict[str, Any]]:
    """The row that a function finds for a key."""
    found = Handle("row")
    with pointer_of(table) as t, of.use() as me:
        k = values.key(key, table.columns_of("primary"))
        call(name, me, t, k.array, k.count, found.place)
    return values.row(found.pointer, table.columns) if found.is_open else None


def many(name: str, of: Handle, table: Table, keys: Iterable[Any]) -> List[Optional[Dict[str, Any]]]:
    """The rows that a function finds for many keys."""
    cursor = Handle("cursor")
    with pointer_of(table) as t, of.use() as me:
        k = values.Keys(keys, table.columns_of("primary"))
        call(name, me, t, k.array, k.columns, k.count, cursor.place)
    row = ctypes.c_void_p()
    rows: List[Optional[Dict[str, Any]]] = []
    for _ in range(k.count):
        call("cursor_next", cursor.pointer, ctypes.byref(row))
        rows.append(values.row(row, table.columns) if row else None)
    return rows


class Reader:
    """Reads rows by key, by index, or in ranges."""

    _handle: Handle
    _prefix = ""

    def get(self, table: Table, key: Any) -> Optional[Dict[str, Any]]:
        """The row with a primary key (a tuple where that has several columns), or None."""
        return one(self._prefix + "get", self._handle, table, key)

    def get_many(self, table: Table, keys: Iterable[Any]) -> List[Optional[Dict[str, Any]]]:
        """The rows with these primary keys, in their order, each as `get` would give it."""
        return many(self._prefix + "get_many", self._handle, table, keys)

    def get_by(self, table: Table, index: str, key: Any) -> List[Dict[str, Any]]:
        """The rows that have a key in an index."""
        cursor = Handle("cursor")
        with pointer_of(table) as of, self._handle.use() as me:
            k, name = values.key(key, table.columns_of(index)), text(index)
            call(self._prefix + "get_by", me, of, name, k.array, k.count, cursor.place)
        return list(Cursor(cursor, table.columns))

    def range(
        self,
        table: Table,
        index: str = "primary",
        lower: Any = None,
        upper: Any = None,
        *,
        lower_excluded: bool = False,
        upper_excluded: bool = False,
        reverse: bool = False,
        for_update: bool = False,
        skip_locked: bool = False,
    ) -> Cursor:
        """The rows of a range of an ordered index. A bound may have the first columns only.

        With `skip_locked` rows that another transaction has locked are passed over, and only those
        shown are locked: for several clients at the head of one queue."""
        cursor = Handle("cursor")
        columns = table.columns_of(index) if isinstance(table, Table) else []
        low, _low = values.bound(lower, columns, lower_excluded)
        high, _high = values.bound(upper, columns, upper_excluded)
        flags = self._flags(reverse, for_update, skip_locked)
        with pointer_of(table) as of, self._handle.use() as me:
            name = self._prefix + "range"
            call(name, me, of, text(index), low, high, flags, cursor.place)
        return Cursor(cursor, table.columns)

    @staticmethod
    def _flags(reverse: bool, for_update: bool, skip_locked: bool) -> int:
        bits = values.flag(reverse, "reverse") | values.flag(for_update, "for_update") << 1
        return bits | values.flag(skip_locked, "skip_locked") << 2

    def scan(
        self,
        table: Table,
        *,
        reverse: bool = False,
        for_update: bool = False,
        skip_locked: bool = False,
    ) -> Cursor:
        """All rows, in the order of the primary key if that is ordered."""
        cursor = Handle("cursor")
        with pointer_of(table) as of, self._handle.use() as me:
            flags = self._flags(reverse, for_update, skip_locked)
            call(self._prefix + "scan", me, of, flags, cursor.place)
        return Cursor(cursor, table.columns)

"""Tables."""

import copy
import ctypes
from dataclasses import replace
from typing import Any, Sequence, Tuple

from . import _library, errors
from ._library import ColumnInfo, IndexInfo, call
from .errors import shown
from .handle import Handle
from .schema import Column, ColumnType, Index


class Table:
    """A table: its name, columns and indexes as they were when it was looked up."""

    def __init__(self, handle: Handle) -> None:
        self._handle, pointer = handle, handle.pointer
        self.name: str = _library.table_name(pointer)
        columns, indexes = ctypes.c_size_t(), ctypes.c_size_t()
        call("table_counts", pointer, ctypes.byref(columns), ctypes.byref(indexes))
        self.columns: Tuple[Column, ...] = tuple(
            self._column(pointer, i) for i in range(columns.value)
        )
        self.indexes: Tuple[Index, ...] = tuple(
            self._index(pointer, i) for i in range(indexes.value)
        )

    @staticmethod
    def _column(pointer: Any, at: int) -> Column:
        info = ColumnInfo()
        call("table_column", pointer, at, ctypes.byref(info))
        return Column(info.name.decode(), ColumnType(info.kind, info.size), info.nullable)

    def _index(self, pointer: Any, at: int) -> Index:
        info = IndexInfo()
        call("table_index", pointer, at, ctypes.byref(info))
        columns = [self.columns[info.columns[i]].name for i in range(info.count)]
        return Index(info.name.decode(), columns, bool(info.flags & 1), bool(info.flags & 2))

    def columns_of(self, index: str) -> Sequence[Column]:
        """The columns of an index. One that was built later has none here, and can be used."""
        by_name = {c.name: c for c in self.columns}
        for found in self.indexes:
            if found.name == index:
                return [by_name[name] for name in found.columns]
        return []

    # What a change that was just made gives back: this table, by the same handle. Looking it up by
    # its name would find another one that has the name by now.

    def _named(self, name: str) -> "Table":
        other = copy.copy(self)
        other.name = name
        return other

    def _with_column_named(self, name: str, to: str) -> "Table":
        other = copy.copy(self)
        other.columns = tuple(replace(c, name=to) if c.name == name else c for c in self.columns)
        other.indexes = tuple(
            replace(i, columns=[to if c == name else c for c in i.columns]) for i in self.indexes
        )
        return other

    def _with_index(self, index: Index) -> "Table":
        other = copy.copy(self)
        # Over a column that is not known here it can be used all the same: see `columns_of`.
        if set(index.columns) <= {c.name for c in self.columns}:
            other.indexes = (*self.indexes, index)
        return other

    def _without_index(self, name: str) -> "Table":
        other = copy.copy(self)
        other.indexes = tuple(i for i in self.indexes if i.name != name)
        return other

    def __repr__(self) -> str:
        return f"<mmdb.Table {self.name}>"


def pointer_of(table: Table) -> Any:
    """The handle of a table, for a call."""
    if not isinstance(table, Table):
        words = "is no table; Database.table finds one by its name"
        raise errors.MisuseError(f"{shown(table)} {words}")
    return table._handle.use()

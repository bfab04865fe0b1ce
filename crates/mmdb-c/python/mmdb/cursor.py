"""Cursors: rows one by one."""

import ctypes
from typing import Any, Dict, Mapping, Optional, Sequence

from . import values
from ._library import call
from .handle import Handle
from .schema import Column


class Cursor:
    """An iterator of rows, each a dict. It closes itself at its end. One thread at a time uses it.

    While a cursor of a transaction is open, the transaction can only be ended; `update` and
    `delete` change the row that the cursor stands on.
    """

    def __init__(self, handle: Handle, columns: Sequence[Column]) -> None:
        self._handle = handle
        self._columns = columns

    def __iter__(self) -> "Cursor":
        return self

    def __next__(self) -> Dict[str, Any]:
        if not self._handle.is_open:
            raise StopIteration
        pointer = ctypes.c_void_p()
        # Alone until the row is read: it goes with the next call for the cursor.
        with self._handle.use_alone() as cursor:
            call("cursor_next", cursor, ctypes.byref(pointer))
            if pointer.value:
                return values.row(pointer, self._columns)
        self.close()
        raise StopIteration

    # Both by position only: a column may have any name, such as `self` or `set`.
    def update(self, set: Optional[Mapping[str, Any]] = None, /, **columns: Any) -> bool:
        """Changes columns of the row, a dict or by name; returns whether it is still there."""
        found = ctypes.c_bool()
        given = values.Assignments(self._columns, values.named(set, columns))
        with self._handle.use_alone() as cursor:
            call("cursor_update", cursor, given.array, given.count, ctypes.byref(found))
        return found.value

    def delete(self) -> bool:
        """Deletes the row; returns whether it was still there."""
        found = ctypes.c_bool()
        with self._handle.use_alone() as cursor:
            call("cursor_delete", cursor, ctypes.byref(found))
        return found.value

    def close(self) -> None:
        """Frees the cursor. Nothing happens the second time."""
        self._handle.close()

    def __enter__(self) -> "Cursor":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

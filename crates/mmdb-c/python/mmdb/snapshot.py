"""Snapshots: one moment of the whole database, read without locks."""

import ctypes
from typing import Any

from ._library import Handle, call
from .reading import Reader
from .ticket import Ticket


class Snapshot(Reader):
    """One moment of the database. Any number of threads may read it at once."""

    _prefix = "snapshot_"

    def __init__(self, pointer: Any) -> None:
        self._handle = Handle(pointer, "snapshot_free", "snapshot")

    @property
    def gsn(self) -> int:
        """The number of the last commit that it has."""
        gsn = ctypes.c_uint64()
        with self._handle.use() as pointer:
            call("snapshot_gsn", pointer, ctypes.byref(gsn), None)
        return gsn.value

    def ticket(self) -> Ticket:
        """What tells when that commit is durable."""
        gsn, ticket = ctypes.c_uint64(), ctypes.c_void_p()
        with self._handle.use() as pointer:
            call("snapshot_gsn", pointer, ctypes.byref(gsn), ctypes.byref(ticket))
        return Ticket(ticket)

    def close(self) -> None:
        """Frees it. Nothing happens the second time."""
        self._handle.close()

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

"""Snapshots: one moment of the whole database, read without locks."""

import ctypes
from typing import Any

from ._library import call, text
from .handle import Handle
from .reading import Reader
from .ticket import Ticket


class Snapshot(Reader):
    """One moment of the database. Any number of threads may read it at once."""

    _prefix = "snapshot_"

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @property
    def gsn(self) -> int:
        """The number of the last commit that it has."""
        gsn = ctypes.c_uint64()
        with self._handle.use() as pointer:
            call("snapshot_gsn", pointer, ctypes.byref(gsn), None)
        return gsn.value

    def ticket(self) -> Ticket:
        """What tells when that commit is durable."""
        ticket = Handle("ticket")
        with self._handle.use() as pointer:
            call("snapshot_gsn", pointer, None, ticket.place)
        return Ticket(ticket)

    def dump(self, path: Any) -> int:
        """Writes all rows of all tables into a new file, each as a line of JSON; returns how many."""
        rows = ctypes.c_uint64()
        with self._handle.use() as pointer:
            call("snapshot_dump", pointer, text(path), ctypes.byref(rows))
        return rows.value

    def close(self) -> None:
        """Frees it. Nothing happens the second time."""
        self._handle.close()

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

"""Blobs: binary values of up to 16 MiB."""

import ctypes
from typing import Any, List, Optional, Union

from . import errors
from ._library import call
from .errors import shown
from .handle import Handle
from .reading import Reader
from .table import Table, pointer_of

Bytes = Union[bytes, bytearray, memoryview]


def _number(value: int) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**64:
        raise errors.InvalidValueError(f"{shown(value)} is no number of 64 bits without a sign")
    return value


def _reader(given: Reader) -> Reader:
    if not isinstance(given, Reader):
        raise errors.MisuseError(f"{shown(given)} is no transaction and no snapshot")
    return given


def _bytes(data: Bytes) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise errors.InvalidValueError(f"{type(data).__name__} is no bytes")
    return data if isinstance(data, bytes) else bytes(data)


class Blobs:
    """A table of blobs, each with a number, such as the primary key of its row.

    Transactions change and read them, snapshots read them.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def belong_to(self, owner: Table) -> None:
        """From now on, whoever deletes a row of a table deletes the blob with its primary key."""
        with pointer_of(owner) as table, self._handle.use() as me:
            call("blobs_belong_to", me, table)

    def put(self, tx: Reader, id: int, data: Bytes) -> None:
        """Makes bytes the whole of a blob."""
        content = _bytes(data)
        with _reader(tx)._handle.use() as t, self._handle.use() as me:
            call("blob_put", t, me, _number(id), content, len(content))

    def write(self, tx: Reader, id: int, at: int, data: Bytes) -> None:
        """Puts bytes over those from byte `at` on, and behind the end."""
        content = _bytes(data)
        with _reader(tx)._handle.use() as t, self._handle.use() as me:
            call("blob_write", t, me, _number(id), _number(at), content, len(content))

    def truncate(self, tx: Reader, id: int, length: int) -> bool:
        """Cuts a blob to its first bytes; says whether there is one."""
        found = ctypes.c_bool()
        with _reader(tx)._handle.use() as t, self._handle.use() as me:
            call("blob_truncate", t, me, _number(id), _number(length), ctypes.byref(found))
        return found.value

    def delete(self, tx: Reader, id: int) -> bool:
        """Deletes a blob; says whether there was one."""
        found = ctypes.c_bool()
        with _reader(tx)._handle.use() as t, self._handle.use() as me:
            call("blob_delete", t, me, _number(id), ctypes.byref(found))
        return found.value

    def length(self, reader: Reader, id: int) -> Optional[int]:
        """The bytes of a blob, or None if there is none."""
        length, found = ctypes.c_uint64(), ctypes.c_bool()
        name = _reader(reader)._prefix + "blob_length"
        with reader._handle.use() as r, self._handle.use() as me:
            call(name, r, me, _number(id), ctypes.byref(length), ctypes.byref(found))
        return length.value if found.value else None

    def read_into(self, reader: Reader, id: int, at: int, buffer: Any) -> Optional[int]:
        """Reads from byte `at` into a writable buffer as much as there is; how much, or None."""
        _reader(reader)
        try:
            view = memoryview(buffer).cast("B")
        except TypeError as e:
            raise errors.InvalidValueError(f"nothing can be read into {shown(buffer):.60}: {e}") from None
        if view.readonly:
            raise errors.InvalidValueError(f"{shown(buffer):.60} cannot be written to")
        count, found = ctypes.c_size_t(), ctypes.c_bool()
        place = (ctypes.c_char * len(view)).from_buffer(view) if len(view) else None
        name = reader._prefix + "blob_read"
        with reader._handle.use() as r, self._handle.use() as me:
            arguments = (_number(id), _number(at), place, len(view))
            call(name, r, me, *arguments, ctypes.byref(count), ctypes.byref(found))
        return count.value if found.value else None

    def read(
        self, reader: Reader, id: int, at: int = 0, size: Optional[int] = None
    ) -> Optional[bytes]:
        """A blob, or a part of it; None if there is none."""
        length = self.length(reader, id)
        if length is None:
            return None
        rest = max(length - _number(at), 0)
        buffer = bytearray(rest if size is None else min(rest, _number(size)))
        self.read_into(reader, id, at, buffer)
        return bytes(buffer)

    def ids(self, snapshot: Reader) -> List[int]:
        """The numbers of all blobs of a snapshot, rising."""
        if _reader(snapshot)._prefix != "snapshot_":
            raise errors.MisuseError("a snapshot tells the numbers of all blobs")
        all_ids: List[int] = []
        id, found = ctypes.c_uint64(), ctypes.c_bool()
        with snapshot._handle.use() as s, self._handle.use() as me:
            next_id = 0
            while next_id < 2**64:
                out = (ctypes.byref(id), ctypes.byref(found))
                call("snapshot_next_blob", s, me, next_id, *out)
                if not found.value:
                    break
                all_ids.append(id.value)
                next_id = id.value + 1
        return all_ids

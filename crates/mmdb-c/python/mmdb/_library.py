"""The functions of the library, by ctypes, which releases the interpreter's lock for each call."""

import ctypes
import os
from ctypes import POINTER, c_bool, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint32, c_uint64, c_void_p
from typing import Any

from . import errors, signals
from .errors import shown

_lib = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libmmdb_c.so"))


class Value(ctypes.Structure):
    """mmdb_value."""

    _fields_ = [
        ("kind", c_uint32),
        ("scale", c_uint32),
        ("integer", c_int64),
        ("natural", c_uint64),
        ("real", c_double),
        ("data", c_void_p),
        ("size", c_size_t),
    ]


class Assignment(ctypes.Structure):
    """mmdb_assignment."""

    _fields_ = [("column", c_char_p), ("value", Value)]


class Bound(ctypes.Structure):
    """mmdb_bound."""

    _fields_ = [("values", POINTER(Value)), ("count", c_size_t), ("excluded", c_bool)]


class ColumnInfo(ctypes.Structure):
    """mmdb_column."""

    _fields_ = [
        ("name", c_char_p),
        ("kind", c_uint32),
        ("size", c_uint32),
        ("nullable", c_bool),
    ]


class IndexInfo(ctypes.Structure):
    """mmdb_index."""

    _fields_ = [
        ("name", c_char_p),
        ("flags", c_uint32),
        ("columns", POINTER(c_uint32)),
        ("count", c_size_t),
    ]


class CheckpointStats(ctypes.Structure):
    """mmdb_checkpoint_stats."""

    _fields_ = [(n, c_uint64) for n in ("first_gsn", "last_gsn", "containers", "segments")]


_COUNTERS = (
    "commits aborts last_gsn horizon lock_waits lock_deaths locks flushes flushed_bytes frames "
    "max_batch flush_ns pending_bytes log_bytes checkpoints checkpoint_failures "
    "checkpoint_containers segments_recycled memory_bytes snapshots snapshot_bytes "
    "snapshot_expiries expired_rows"
).split()


class Stats(ctypes.Structure):
    """mmdb_stats."""

    _fields_ = [(n, c_uint64) for n in _COUNTERS] + [("poisoned", c_bool)]


CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)

_P, _PP, _S, _N, _U32 = c_void_p, POINTER(c_void_p), c_char_p, c_size_t, c_uint32
_V, _A, _B = POINTER(Value), POINTER(Assignment), POINTER(Bound)
_FLAG, _U64, _NAMES = POINTER(c_bool), POINTER(c_uint64), POINTER(c_char_p)

# Each function that returns a status, and what it takes.
_FUNCTIONS = {
    "release": [_PP],
    "options_new": [_PP],
    "options_set": [_P, _S, c_uint64],
    "options_add_stream_dir": [_P, _S],
    "options_in_memory": [_P],
    "open": [_S, _P, _PP],
    "flush": [_P],
    "horizon": [_P, _U64],
    "checkpoint": [_P, POINTER(CheckpointStats)],
    "backup": [_P, _S, _U64],
    "restore": [_S, _S, _P],
    "expire": [_P, c_int64, _U64],
    "get_stats": [_P, POINTER(Stats), _N],
    "get_table_stats": [_P, _P, _U64, _U64, _U64],
    "schema_new": [_S, _PP],
    "schema_column": [_P, _S, _U32, _U32, c_bool],
    "schema_primary_key": [_P, _NAMES, _N, _U32],
    "schema_index": [_P, _S, _NAMES, _N, _U32],
    "schema_locking": [_P, _U32],
    "schema_logging": [_P, _U32],
    "schema_expire_by": [_P, _S, _U32],
    "create_table": [_P, _P, _PP],
    "create_table_if_missing": [_P, _P, _PP],
    "table_open": [_P, _S, _PP],
    "table_at": [_P, _N, _PP],
    "table_counts": [_P, POINTER(_N), POINTER(_N)],
    "table_column": [_P, _N, POINTER(ColumnInfo)],
    "table_index": [_P, _N, POINTER(IndexInfo)],
    "drop_table": [_P, _P],
    "rename_table": [_P, _P, _S],
    "add_column": [_P, _P, _S, _U32, _U32, c_bool, _V, _PP],
    "drop_column": [_P, _P, _S, _PP],
    "rename_column": [_P, _P, _S, _S],
    "create_index": [_P, _P, _S, _NAMES, _N, _U32],
    "drop_index": [_P, _P, _S],
    "begin": [_P, _PP],
    "commit_at": [_PP, _U32, _PP],
    "run_decided": [_P, _U32, CALLBACK, _P, POINTER(c_int), _PP],
    "insert": [_P, _P, _V, _N],
    "upsert": [_P, _P, _V, _N, _FLAG],
    "update": [_P, _P, _V, _N, _A, _N, _FLAG],
    "delete": [_P, _P, _V, _N, _FLAG],
    "get": [_P, _P, _V, _N, _PP],
    "get_many": [_P, _P, _V, _N, _N, _PP],
    "get_committed": [_P, _P, _V, _N, _PP],
    "get_many_committed": [_P, _P, _V, _N, _N, _PP],
    "lock_key": [_P, _P, _V, _N],
    "get_by": [_P, _P, _S, _V, _N, _PP],
    "range": [_P, _P, _S, _B, _B, _U32, _PP],
    "scan": [_P, _P, _U32, _PP],
    "delete_range": [_P, _P, _S, _B, _B, _U64],
    "cursor_next": [_P, _PP],
    "cursor_update": [_P, _A, _N, _FLAG],
    "cursor_delete": [_P, _FLAG],
    "row_values": [_P, POINTER(_V), POINTER(_N)],
    "row_free": [_P],
    "snapshot_open": [_P, _PP],
    "snapshot_gsn": [_P, _U64, _PP],
    "snapshot_get": [_P, _P, _V, _N, _PP],
    "snapshot_get_many": [_P, _P, _V, _N, _N, _PP],
    "snapshot_get_by": [_P, _P, _S, _V, _N, _PP],
    "snapshot_range": [_P, _P, _S, _B, _B, _U32, _PP],
    "snapshot_scan": [_P, _P, _U32, _PP],
    "snapshot_dump": [_P, _S, _U64],
    "blobs_open": [_P, _S, _PP],
    "blobs_belong_to": [_P, _P],
    "blob_put": [_P, _P, c_uint64, _P, _N],
    "blob_write": [_P, _P, c_uint64, c_uint64, _P, _N],
    "blob_truncate": [_P, _P, c_uint64, c_uint64, _FLAG],
    "blob_delete": [_P, _P, c_uint64, _FLAG],
    "blob_length": [_P, _P, c_uint64, _U64, _FLAG],
    "blob_read": [_P, _P, c_uint64, c_uint64, _P, _N, POINTER(_N), _FLAG],
    "snapshot_blob_length": [_P, _P, c_uint64, _U64, _FLAG],
    "snapshot_blob_read": [_P, _P, c_uint64, c_uint64, _P, _N, POINTER(_N), _FLAG],
    "snapshot_next_blob": [_P, _P, c_uint64, _U64, _FLAG],
    "ticket_wait": [_P, _U64],
    "ticket_wait_durable": [_P, _U64],
    "ticket_poll": [_P, _FLAG],
    "ticket_gsn": [_P, _U64],
}

_calls = {}
for _name, _arguments in _FUNCTIONS.items():
    _function = getattr(_lib, "mmdb_" + _name)
    _function.argtypes = _arguments
    _function.restype = c_int32
    _calls[_name] = _function

_lib.mmdb_version.restype = c_char_p
_lib.mmdb_error_message.restype = c_char_p
_lib.mmdb_table_name.restype = c_char_p
_lib.mmdb_table_name.argtypes = [c_void_p]


def version() -> str:
    """The library's release."""
    return _lib.mmdb_version().decode()


def table_name(pointer: Any) -> str:
    """The name of a table."""
    return _lib.mmdb_table_name(pointer).decode()


def failure(status: int) -> errors.Error:
    """The exception for a status that this thread just got."""
    words = _lib.mmdb_error_message().decode(errors="replace")
    if status == errors.WaitInterruptedError.status:
        signals.raise_what_came(_lib)
    return errors.BY_STATUS.get(status, errors.InternalError)(words)


def call(name: str, *arguments: Any) -> None:
    """Calls a function; raises what its status says."""
    try:
        status = _calls[name](*arguments)
    except ctypes.ArgumentError as e:
        raise errors.MisuseError(f"{name}: {e}") from None
    if status != 0:
        raise failure(status)


# For objects that go: what it returns is nobody's.
release = _calls["release"]
signals.tell(_lib)


def text(value: Any) -> bytes:
    """A text as the library takes it."""
    try:
        encoded = value.encode() if isinstance(value, str) else os.fsencode(value)
    except (UnicodeEncodeError, TypeError) as e:
        raise errors.InvalidValueError(f"{shown(value)} is no text: {e}") from None
    if b"\0" in encoded:
        raise errors.InvalidValueError(f"{shown(value)} has a zero in it")
    return encoded


def names(values: Any) -> Any:
    """Names as the library takes them, and how many."""
    try:
        listed = [values] if isinstance(values, str) else list(values)
    except TypeError:
        raise errors.InvalidValueError(f"{shown(values)} is no list of names") from None
    encoded = [text(v) for v in listed]
    return (c_char_p * len(encoded))(*encoded), len(encoded)


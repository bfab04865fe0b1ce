"""Values between Python and the library."""

import ctypes
import datetime
import decimal
from collections import abc
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from . import _library, errors
from ._library import Assignment, Bound, Value
from .errors import shown
from .schema import Column, ColumnType

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)


def _bytes(kind: int, data: bytes) -> Tuple[Value, Any]:
    buffer = ctypes.c_char_p(data)
    place = ctypes.cast(buffer, ctypes.c_void_p)
    return Value(kind, 0, 0, 0, 0.0, place, len(data)), (buffer, data)


def _decimal(number: decimal.Decimal) -> Value:
    if not number.is_finite():
        raise errors.InvalidValueError(f"{number} is no decimal number of a column")
    sign, digits, exponent = number.as_tuple()
    if len(digits) > 19:
        raise errors.InvalidValueError(f"a number of {len(digits)} digits is too long for a column")
    assert isinstance(exponent, int), "a finite number has an exponent"
    if exponent > 18 or -exponent > 255:
        raise errors.InvalidValueError(f"{number} does not fit a decimal column")
    unscaled = int("".join(map(str, digits)) or "0") * 10 ** max(exponent, 0)
    unscaled = -unscaled if sign else unscaled
    if not -(2**63) <= unscaled < 2**63:
        raise errors.InvalidValueError(f"{number} has too many digits")
    return Value(5, max(-exponent, 0), unscaled)


def flag(value: Any, name: str) -> int:
    """A truth value as the library takes it; anything else is a mistake, such as lazy="no"."""
    if not isinstance(value, bool):
        raise errors.InvalidValueError(f"{name} is {shown(value)}, and must be True or False")
    return int(value)


def named(given: Optional[Mapping[str, Any]], columns: Mapping[str, Any]) -> Mapping[str, Any]:
    """Columns that are given as a dict, or by name, or both."""
    if given is None:
        return columns
    if not isinstance(given, abc.Mapping):
        raise errors.InvalidValueError(f"{shown(given)} is no dict of columns")
    return {**given, **columns}


def items(given: Any, name: str) -> List[Any]:
    """The elements of an argument that has some."""
    try:
        return list(given)
    except TypeError:
        raise errors.InvalidValueError(f"{name} is {shown(given)}, and must be a list") from None


def encode(value: Any, kind: Optional[ColumnType] = None) -> Tuple[Value, Any]:
    """A value for the library, and what must live as long as it."""
    if value is None:
        return Value(0), None
    if isinstance(value, bool):
        return Value(1, 0, int(value)), None
    if isinstance(value, int):
        if kind == ColumnType.FLOAT64:
            try:
                real = float(value)
            except OverflowError as e:
                raise errors.InvalidValueError(f"{shown(value)} is no float: {e}") from None
            if real != value:
                raise errors.InvalidValueError(f"{shown(value)} is no float: it would be rounded")
            return Value(4, 0, 0, 0, real), None
        if kind is not None and kind.number == 13:
            return _decimal(decimal.Decimal(value)), None
        if kind == ColumnType.TIME and -(2**63) <= value < 2**63:
            return Value(6, 0, value), None
        if -(2**63) <= value < 2**63:
            return Value(2, 0, value), None
        if 0 <= value < 2**64:
            return Value(3, 0, 0, value), None
        raise errors.InvalidValueError(f"{shown(value)} has more than 64 bits")
    if isinstance(value, float):
        return Value(4, 0, 0, 0, value), None
    if isinstance(value, str):
        try:
            return _bytes(8, value.encode())
        except UnicodeEncodeError as e:
            raise errors.InvalidValueError(f"a text that is not Unicode: {e}") from None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes(7, bytes(value))
    if isinstance(value, decimal.Decimal):
        return _decimal(value), None
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            raise errors.InvalidValueError(f"{shown(value)} has no time zone")
        return Value(6, 0, (value - _EPOCH) // _MICROSECOND), None
    raise errors.InvalidValueError(f"{type(value).__name__} is no type of a column")


def decode(value: Value) -> Any:
    """A value of the library, for Python. A time beyond the year 9999 stays a number."""
    kind = value.kind
    if kind == 1:
        return bool(value.integer)
    if kind == 2:
        return value.integer
    if kind == 3:
        return value.natural
    if kind == 4:
        return value.real
    if kind == 5:
        return decimal.Decimal(value.integer).scaleb(-value.scale, decimal.Context(prec=25))
    if kind == 6:
        try:
            return _EPOCH + value.integer * _MICROSECOND
        except OverflowError:
            return value.integer
    if kind in (7, 8):
        data = ctypes.string_at(value.data, value.size) if value.size else b""
        return data if kind == 7 else data.decode()
    return None


class Values:
    """An array of values, and all that they point to."""

    def __init__(self, values: Sequence[Any], kinds: Iterable[Optional[ColumnType]]) -> None:
        padded = list(kinds)[: len(values)]
        padded += [None] * (len(values) - len(padded))
        pairs = [encode(v, k) for v, k in zip(values, padded)]
        self.count = len(pairs)
        self.array = (Value * self.count)(*(v for v, _ in pairs))
        self._kept = [kept for _, kept in pairs]


def key(given: Any, columns: Sequence[Column]) -> Values:
    """A key: one value, or a tuple or list of one for each column."""
    values = list(given) if isinstance(given, (tuple, list)) else [given]
    return Values(values, [c.type for c in columns])


class Keys:
    """Keys one behind the other, and all that they point to."""

    def __init__(self, given: Iterable[Any], columns: Sequence[Column]) -> None:
        try:
            keys = [list(k) if isinstance(k, (tuple, list)) else [k] for k in given]
        except TypeError:
            raise errors.InvalidValueError(f"{shown(given)} is no list of keys") from None
        self.count = len(keys)
        self.columns = len(keys[0]) if keys else 1
        for k in keys:
            if len(k) != self.columns or not k:
                raise errors.OperationError(
                    f"cannot make a key: {len(k)} values where {len(columns)} columns are declared"
                )
        flat = [v for k in keys for v in k]
        kinds = [c.type for c in columns][: self.columns]
        kinds += [None] * (self.columns - len(kinds))
        self._values = Values(flat, kinds * self.count)
        self.array = self._values.array


def bound(given: Any, columns: Sequence[Column], excluded: bool) -> Tuple[Any, Any]:
    """A bound, or None, and what must live as long as it."""
    if given is None:
        return None, None
    values = key(given, columns)
    pointer = ctypes.cast(values.array, ctypes.POINTER(Value))
    return ctypes.byref(Bound(pointer, values.count, excluded)), values


def record(columns: Sequence[Column], given: Mapping[str, Any], table: str) -> Values:
    """A whole row. Columns that are not named are NULL."""
    unknown = set(given) - {c.name for c in columns}
    if unknown:
        raise errors.NoSuchColumnError(f"table {table}: no column {min(map(str, unknown))}")
    return Values([given.get(c.name) for c in columns], [c.type for c in columns])


class Assignments:
    """Columns with values, and all that they point to."""

    def __init__(self, columns: Sequence[Column], given: Mapping[str, Any]) -> None:
        kinds = {c.name: c.type for c in columns}
        self._values = Values(list(given.values()), [kinds.get(name) for name in given])
        named = zip((_library.text(name) for name in given), self._values.array)
        self.count = len(given)
        self.array = (Assignment * self.count)(*(Assignment(n, v) for n, v in named))


def row(pointer: Any, columns: Sequence[Column]) -> Dict[str, Any]:
    """A row of the library, by the names of its columns."""
    array, count = ctypes.POINTER(Value)(), ctypes.c_size_t()
    _library.call("row_values", pointer, ctypes.byref(array), ctypes.byref(count))
    values: List[Any] = [decode(array[i]) for i in range(count.value)]
    return dict(zip((c.name for c in columns), values))

"""Columns and indexes."""

from dataclasses import dataclass
from typing import ClassVar, Sequence, Tuple


@dataclass(frozen=True)
class ColumnType:
    """What a column holds: `ColumnType.INT64`, `ColumnType.var_text(160)`."""

    number: int
    size: int = 0

    INT16: ClassVar["ColumnType"]
    INT32: ClassVar["ColumnType"]
    INT64: ClassVar["ColumnType"]
    UINT32: ClassVar["ColumnType"]
    UINT64: ClassVar["ColumnType"]
    TIME: ClassVar["ColumnType"]
    FLOAT64: ClassVar["ColumnType"]
    BOOL: ClassVar["ColumnType"]

    @staticmethod
    def fixed_bytes(size: int) -> "ColumnType":
        """Exactly `size` bytes."""
        return ColumnType(5, size)

    @staticmethod
    def fixed_text(size: int) -> "ColumnType":
        """Text of up to `size` bytes of UTF-8, which takes them always."""
        return ColumnType(6, size)

    @staticmethod
    def var_bytes(size: int) -> "ColumnType":
        """Up to `size` bytes."""
        return ColumnType(7, size)

    @staticmethod
    def var_text(size: int) -> "ColumnType":
        """Text of up to `size` bytes of UTF-8."""
        return ColumnType(8, size)

    @staticmethod
    def decimal(scale: int) -> "ColumnType":
        """Decimal number with `scale` digits behind its point."""
        return ColumnType(13, scale)


ColumnType.INT16 = ColumnType(1)
ColumnType.INT32 = ColumnType(2)
ColumnType.INT64 = ColumnType(3)
ColumnType.TIME = ColumnType(4)
ColumnType.UINT32 = ColumnType(9)
ColumnType.UINT64 = ColumnType(10)
ColumnType.FLOAT64 = ColumnType(11)
ColumnType.BOOL = ColumnType(12)


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    type: ColumnType
    nullable: bool = False


@dataclass(frozen=True)
class Index:
    """An index of a table: ordered for ranges, or hashed for single keys."""

    name: str
    columns: Sequence[str]
    ordered: bool = True
    unique: bool = False

    @property
    def flags(self) -> int:
        """As the library takes it."""
        return int(self.ordered) | int(self.unique) << 1


Columns = Tuple[Column, ...]

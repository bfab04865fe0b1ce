"""mmdb: an embedded main-memory DBMS with parallel differential logging.

Tables live in memory; every commit that is acknowledged survives a power cut. See README.md for
the quick start. Calls release the interpreter's lock, so threads commit together.
"""

from ._library import version
from .blobs import Blobs
from .cursor import Cursor
from .database import Database, Locking, Logging, TimeUnit, restore
from .errors import (
    AbortedError,
    ClosedError,
    ConflictError,
    CorruptError,
    DeadlockError,
    DirectoryError,
    DuplicateKeyError,
    Error,
    FileError,
    IndeterminateError,
    InternalError,
    InvalidValueError,
    IoError,
    LockTimeoutError,
    LogFullError,
    MemoryLimitError,
    MisuseError,
    NoDatabaseError,
    NoSuchColumnError,
    NoSuchIndexError,
    NoSuchTableError,
    NotTextError,
    OperationError,
    OptionsError,
    OutOfMemoryError,
    PoisonedError,
    RetryableError,
    RowTooLargeError,
    SchemaDiffersError,
    SchemaError,
    SnapshotExpiredError,
    TableChangedError,
    TableExistsError,
    TableFullError,
    TransactionTooLargeError,
    UnsupportedError,
    WaitInterruptedError,
)
from .schema import Column, ColumnType, Index
from .snapshot import Snapshot
from .table import Table
from .ticket import Ticket
from .transaction import Transaction

__version__ = version()
__all__ = [name for name in dir() if name[0].isupper()] + ["restore", "__version__"]

open = Database

"""Exceptions, one class for each status of the library."""

from typing import Any, Dict, Type


def shown(value: Any) -> str:
    """A value in the words of an exception, whatever it is: Python refuses to write down integers
    of more than some thousand digits, and what an object says of itself may raise anything."""
    try:
        return repr(value)
    except Exception:
        return f"a value of type {type(value).__name__}"


class Error(Exception):
    """What every call of mmdb raises. `status` is the library's number for it."""

    status: int = 34


class RetryableError(Error):
    """Another transaction was in the way: end this one and run it again. `Database.run` does."""


class MisuseError(Error):
    """A handle is closed, in use by another thread, or has a cursor open."""

    status = 1


class ClosedError(MisuseError):
    """The database, transaction, snapshot or cursor is closed."""

    status = 32


class NotTextError(Error, ValueError):
    """A text is not UTF-8."""

    status = 2


class NoSuchTableError(Error, LookupError):
    """There is no such table, or it was dropped."""

    status = 3


class TableExistsError(Error):
    """There is a table with this name."""

    status = 4


class TableChangedError(Error):
    """A column was dropped since the table was looked up: look it up again."""

    status = 5


class SchemaDiffersError(Error):
    """The table is there, and defined in another way."""

    status = 6


class NoSuchColumnError(Error, LookupError):
    """The table has no such column."""

    status = 7


class NoSuchIndexError(Error, LookupError):
    """The table has no such index."""

    status = 8


class SchemaError(Error, ValueError):
    """No table can have this definition."""

    status = 9


class OptionsError(Error, ValueError):
    """An option is out of range, or there is none with this name."""

    status = 10


class OperationError(Error):
    """The operation cannot be done with this table."""

    status = 11


class UnsupportedError(Error):
    """This database cannot do it."""

    status = 12


class RowTooLargeError(Error, ValueError):
    """A row is larger than a container holds."""

    status = 13


class DuplicateKeyError(Error):
    """Another row has the key."""

    status = 14


class InvalidValueError(Error, ValueError):
    """A value does not fit its column."""

    status = 15


class DeadlockError(RetryableError):
    """Another transaction has the lock."""

    status = 16


class LockTimeoutError(Error, TimeoutError):
    """A lock was not free in time."""

    status = 17


class ConflictError(RetryableError):
    """Another transaction changed it."""

    status = 18


class TransactionTooLargeError(Error):
    """The changes do not fit into a segment of the log."""

    status = 19


class MemoryLimitError(Error, MemoryError):
    """The limit of memory is reached."""

    status = 20


class OutOfMemoryError(Error, MemoryError):
    """The system has no memory left."""

    status = 21


class TableFullError(Error):
    """The table has as many containers as a table can have."""

    status = 22


class SnapshotExpiredError(Error):
    """The snapshot was given up, because too much has changed since it was opened."""

    status = 23


class LogFullError(Error):
    """The log has no room."""

    status = 24


class PoisonedError(Error):
    """An earlier failure ended all writing: open the database again."""

    status = 25


class IndeterminateError(Error):
    """Nobody knows whether the commit is durable: open the database again.

    Or the wait for that was ended; the message says so. The commit is done then.
    """

    status = 26


class CorruptError(Error):
    """A file contradicts itself."""

    status = 27


class NoDatabaseError(Error):
    """There is no database."""

    status = 28


class DirectoryError(Error):
    """A directory is not what it should be."""

    status = 29


class FileError(Error):
    """A file is not what it should be."""

    status = 30


class IoError(Error, OSError):
    """The system refused a read, a write or the like, or somebody else has the database open."""

    status = 31


class AbortedError(Error):
    """The callback did not want the transaction to commit."""

    status = 33


class InternalError(Error):
    """A defect of mmdb. Please report it."""

    status = 34


class WaitInterruptedError(Error):
    """A signal ended a wait, and its handler has raised nothing.

    The transaction can only end, and nothing of it was done; a ticket can be waited for again.
    """

    status = 35


def _classes(base: Type[Error]) -> Dict[int, Type[Error]]:
    found = {base.status: base} if "status" in vars(base) and base is not Error else {}
    for sub in base.__subclasses__():
        found.update(_classes(sub))
    return found


BY_STATUS = _classes(Error)

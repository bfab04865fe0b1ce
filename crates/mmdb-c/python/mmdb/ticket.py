"""Tickets: how a commit learns that it is durable."""

import ctypes

from . import errors
from ._library import call
from .handle import Handle


class Ticket:
    """What a commit gives: wait for it, or poll it. Any number of threads may use it."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def _number(self, name: str) -> int:
        gsn = ctypes.c_uint64()
        with self._handle.use() as pointer:
            call(name, pointer, ctypes.byref(gsn))
        return gsn.value

    @property
    def gsn(self) -> int:
        """The number of the commit."""
        return self._number("ticket_gsn")

    def wait(self) -> int:
        """Waits until the commit is durable, but not for a lazy one; returns its number."""
        return self._number("ticket_wait")

    def _settle(self) -> None:
        """As `wait`, at the end of a call that has committed: nobody shall run it again."""
        try:
            self.wait()
        except errors.WaitInterruptedError as e:
            raise errors.IndeterminateError(
                f"commit {self.gsn}: {e}; it is done, and becomes durable unless its flush fails"
            ) from None

    def wait_durable(self) -> int:
        """As `wait`, for a lazy commit too."""
        return self._number("ticket_wait_durable")

    def poll(self) -> bool:
        """Whether the commit is durable."""
        done = ctypes.c_bool()
        with self._handle.use() as pointer:
            call("ticket_poll", pointer, ctypes.byref(done))
        return done.value

"""Handles of the library, owned by objects of Python.

A signal's handler may raise an exception between any two steps of a program. So that nothing is
lost then, and nothing freed twice:

- The library writes a handle into a cell that has an owner already, and empties it itself where it
  frees the handle: there is no moment at which nobody, or two, would free it.
- That a call uses a handle is an entry in a dict, put there and taken out in one step each. An
  exception may come before the second, and then the entry stays until nobody looks at the exception
  any more. That it is no use is known by the function that made it, which does not run any more.
"""

import ctypes
import sys
import threading
import time
from types import FrameType
from typing import Any, Dict, Optional, Tuple

from . import errors
from ._library import call, release


class Use:
    """A call's use of a handle, for the time of its block."""

    __slots__ = ("_handle", "_is_alone")

    def __init__(self, handle: "Handle", is_alone: bool = False) -> None:
        self._handle, self._is_alone = handle, is_alone

    def __enter__(self) -> Any:
        """The pointer."""
        handle = self._handle
        with handle._lock:
            if not handle.is_open:
                raise errors.ClosedError(f"the {handle._what} is closed")
            if self._is_alone and handle.is_in_use():
                raise errors.MisuseError(f"another call uses this {handle._what} now")
            handle._uses[id(self)] = threading.get_ident(), id(sys._getframe(1))
            return handle._cell.value

    def __exit__(self, *_: Any) -> None:
        self._handle._uses.pop(id(self), None)

    def __del__(self) -> None:
        self._handle._uses.pop(id(self), None)


class LastUse:
    """The call that ends a handle: where it is, for the library to empty that."""

    __slots__ = ("_handle",)

    def __init__(self, handle: "Handle") -> None:
        self._handle = handle

    def __enter__(self) -> Any:
        handle = self._handle
        with handle._lock:
            if not handle.is_open:
                raise errors.ClosedError(f"the {handle._what} has ended")
            if handle.is_in_use():
                raise errors.MisuseError(f"another call uses the {handle._what}")
            handle._is_ending = True
            return handle.place

    def __exit__(self, *_: Any) -> None:
        # Still there after a call that refused it.
        self._handle._is_ending = False


class Handle:
    """A handle of the library, which nobody frees while a call uses it."""

    def __init__(self, what: str) -> None:
        self._cell = ctypes.c_void_p()
        self._what = what
        # By the identity of the use: its thread and its function's frame, both by identity.
        self._uses: Dict[int, Tuple[int, int]] = {}
        self._is_ending = False
        self.is_owned = True
        self._lock = threading.RLock()

    @classmethod
    def lent(cls, pointer: Any, what: str) -> "Handle":
        """One that is freed by somebody else."""
        handle = cls(what)
        handle.is_owned = False
        handle._cell.value = pointer
        return handle

    @property
    def place(self) -> Any:
        """Where the library writes it, and finds it to free it."""
        return ctypes.byref(self._cell)

    @property
    def pointer(self) -> Any:
        """The pointer, for who is alone with it."""
        return self._cell.value

    @property
    def is_open(self) -> bool:
        """Whether it is there, and not about to be freed."""
        return bool(self._cell) and not self._is_ending

    def is_in_use(self) -> bool:
        """Whether a call uses it: one whose function still runs in its thread."""
        uses = list(self._uses.values())
        if not uses:
            return False
        running = set()
        for thread, newest in sys._current_frames().items():
            frame: Optional[FrameType] = newest
            while frame is not None:
                running.add((thread, id(frame)))
                frame = frame.f_back
        return any(use in running for use in uses)

    def use(self) -> Use:
        """The pointer, for a call."""
        return Use(self)

    def use_alone(self) -> Use:
        """The pointer, for a call beside which there is no other."""
        return Use(self, is_alone=True)

    def last_use(self) -> LastUse:
        """The place, for the call that frees it."""
        return LastUse(self)

    def forget(self) -> None:
        """Somebody else frees it when this returns; calls of other threads are waited for."""
        self._is_ending = True
        came = None
        while self.is_in_use():
            try:
                time.sleep(0.001)
            except BaseException as e:
                # What they use must not go, whatever comes.
                came = e
        self._cell.value = None
        if came is not None:
            raise came

    def close(self) -> None:
        """Frees it, once."""
        with self._lock:
            if not self.is_open:
                return
            with self.last_use() as place:
                call("release", place)

    def __del__(self) -> None:
        cell = getattr(self, "_cell", None)
        # At the end of the program the function may be gone before.
        if cell and self.is_owned and release is not None:
            release(ctypes.byref(cell))

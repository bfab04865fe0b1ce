"""Signals while a call waits, as for a lock.

Python runs a signal's handler, which may raise an exception, on its main thread and between two
steps of the program. A call of the library is one step, however long it takes. So the library asks
the interpreter again and again while it waits on that thread; where a handler raises, the call ends
with a status, and the exception goes on from here.
"""

import ctypes
from ctypes import POINTER, c_void_p
from typing import Any


class Interpreter(ctypes.Structure):
    """mmdb_interpreter: functions of Python's C interface, which the library calls itself."""

    _fields_ = [(name, c_void_p) for name in ("enter", "leave", "check", "take")]


def _address(function: Any) -> Any:
    return ctypes.cast(function, c_void_p).value


def tell(library: Any) -> None:
    """Tells the library whom to ask."""
    try:
        functions = Interpreter(
            _address(_python.PyGILState_Ensure),
            _address(_python.PyGILState_Release),
            _address(_python.PyErr_CheckSignals),
            _address(_python.PyErr_Fetch),
        )
    except AttributeError:
        return
    library.mmdb_interpreter_signals.argtypes = [POINTER(Interpreter)]
    library.mmdb_interpreter_signals(ctypes.byref(functions))
    library.mmdb_interpreter_exception.argtypes = [POINTER(c_void_p)]
    library.mmdb_interpreter_exception.restype = None


# Where Python has no such interface, signals wait for the end of a call.
_python: Any = getattr(ctypes, "pythonapi", None)


def raise_what_came(library: Any) -> None:
    """Raises the exception of the handler that ended this thread's last wait, if there is one."""
    parts = (c_void_p * 3)()
    library.mmdb_interpreter_exception(parts)
    if parts[0]:
        # Python's own way to raise an exception that something in C has got hold of.
        restore = ctypes.PYFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
        restore(("PyErr_Restore", _python))(*parts)

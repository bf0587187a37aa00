"""The device that is used where none is named."""

from __future__ import annotations

import contextvars
import os
import threading

from . import _core
from ._errors import Unsupported

_opened = None
_opened_in = None
_lock = threading.Lock()
_within: contextvars.ContextVar[tuple] = contextvars.ContextVar("vkfuse_devices", default=())


def default_device() -> _core.Device:
    """That of the innermost `with vkfuse.Device(...)` block; else $VKFUSE_DEVICE or the best device, opened once."""
    global _opened, _opened_in
    stack = _within.get()
    if stack:
        return stack[-1]
    with _lock:
        if _opened is None:
            _opened, _opened_in = _core.Device(), os.getpid()
        elif _opened_in != os.getpid():
            raise Unsupported(
                "This process was forked from one that had opened a device, which does not survive that: start it with "
                "multiprocessing's 'spawn', or fork before the first use of vkfuse."
            )
        return _opened


def _enter(device):
    _within.set(_within.get() + (device,))
    return device


def _exit(device, *raised):
    stack = list(_within.get())
    for i in reversed(range(len(stack))):
        if stack[i] is device:
            del stack[i]
            break
    _within.set(tuple(stack))


for _method, _name in ((_enter, "__enter__"), (_exit, "__exit__")):
    _method.__module__, _method.__name__, _method.__qualname__ = "vkfuse._core", _name, f"Device.{_name}"
    setattr(_core.Device, _name, _method)
_enter.__annotations__ = {"return": _core.Device}


def _after_fork_in_child():
    global _lock
    _lock = threading.Lock()  # the thread that held it may be gone
    _core._after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)

"""Tensor graphs as fused Vulkan compute kernels, on any GPU.

>>> import numpy as np, vkfuse
>>> @vkfuse.jit
... def f(x):
...     return vkfuse.relu(x * 2) + 1
>>> f(np.array([-1, 0, 1, 3], np.float32))
array([1., 1., 3., 7.], dtype=float32)

jit() compiles functions of arrays, load() ONNX models, Graph what is written down by hand, and Stream evaluates lazily.
Errors are subclasses of vkfuse.Error. docs/python.md of the project describes the package.
"""

import os as _os
import sys as _sys


def _check_system() -> None:
    """One sentence where the extension module cannot be loaded, in place of the dynamic linker's."""
    needed = (2, 36)
    try:
        name, _, version = (_os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (AttributeError, ValueError):
        name, version = "", ""
    if not _sys.platform.startswith("linux") or name != "glibc":
        raise ImportError(f"This package of vkfuse is for Linux with glibc, and this is {_sys.platform} without it.")
    if tuple(map(int, version.split(".")[:2])) < needed:
        raise ImportError(f"vkfuse needs glibc {needed[0]}.{needed[1]} or newer, and this system has {version}.")


_check_system()

from . import _errors, _core  # noqa: E402
from ._errors import *  # noqa: E402, F401, F403
from ._errors import Error  # noqa: E402, F401
from ._dim import Dim  # noqa: E402, F401
from ._default import default_device  # noqa: E402, F401
from ._core import *  # noqa: E402, F401, F403
from ._core import __version__  # noqa: E402, F401
from ._tensor import (  # noqa: E402, F401
    all, any, arange, argmax, argmin, argsort, bitwise_and, bitwise_or, bitwise_xor, broadcast_to, cumprod, cumsum,
    concatenate, dot, floor_divide, full, invert, max, mean, min, ones, prod, reshape, square, squeeze, stack, std,
    sum, swapaxes, take, tile, transpose, true_divide, var, where, zeros,
)  # fmt: skip
from ._graph import Graph  # noqa: E402, F401
from ._jit import Traced, jit  # noqa: E402, F401
from ._gradients import grad, gradients, value_and_grad  # noqa: E402, F401
from ._mpi import open_mpi  # noqa: E402, F401
from . import optimizers  # noqa: E402, F401

# NumPy's other names.
clip, isnan, isinf, isfinite = _core.clamp, _core.is_nan, _core.is_inf, _core.is_finite


def array(elements, dtype=None, device=None) -> _core.Array:
    """An array on a device, the default one if none is named, with these elements."""
    return (device or default_device()).array(elements, dtype)


def empty(shape, dtype="float32", device=None) -> _core.Array:
    """An array on a device; nothing in particular is in it."""
    return (device or default_device()).empty(shape, dtype)

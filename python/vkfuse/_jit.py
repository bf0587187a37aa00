"""Functions of arrays, traced once for each kind of arguments."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import struct
import threading
from typing import Any, Callable

import numpy as np

from . import _core, _default, _errors


def _is_array(x: Any) -> bool:
    if isinstance(x, (_core.Array, np.ndarray)):
        return True
    if isinstance(x, np.generic):
        return not isinstance(x, (np.str_, np.bytes_))
    return hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")


def _flatten(x: Any, leaves: list) -> Any:
    """Arrays go into `leaves`; the rest is a key that says how they were nested, and what was static."""
    cls = type(x)
    if cls is _core.Array:  # most often, of the hundreds that a model has
        leaves.append(x)
        return _LEAF
    if cls is dict:
        return ("dict", cls, tuple([(_name(key), _flatten(value, leaves)) for key, value in x.items()]))
    if cls is list or cls is tuple:
        return ("list", cls, tuple([_flatten(one, leaves) for one in x]))
    if cls is _Static:
        return ("static", cls, x)
    if isinstance(x, _core.Tensor):
        leaves.append(x)
        return _LEAF
    if _is_array(x):
        leaves.append(x)
        return _LEAF
    if isinstance(x, dict):
        return ("dict", type(x), tuple((_name(key), _flatten(value, leaves)) for key, value in x.items()))
    if isinstance(x, (list, tuple)):
        return ("list", type(x), tuple(_flatten(one, leaves) for one in x))
    try:
        hash(x)
    except TypeError:
        raise TypeError(
            f"An argument of type {type(x).__name__} is neither an array nor hashable: pass arrays, or lists, tuples "
            "and dicts of them."
        ) from None
    return ("static", _Static, _Static(x))


def _name(key: Any) -> Any:
    return key if type(key) is str else _Static(key)


class _Static:
    """A value that is hashed, be it an array-like thing or not: 0.0 is not -0.0, nor True 1, nested ones too."""

    __slots__ = ("value", "_exact")

    def __init__(self, value: Any) -> None:
        self.value, self._exact = value, _exact(value)

    def __hash__(self) -> int:
        return hash(self._exact)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, _Static) and self._exact == other._exact


def _exact(x: Any) -> tuple:
    """What is equal for values of the same types and bits alone."""
    cls = type(x)
    if cls is float:
        return cls, struct.pack("<d", x)
    if cls is complex:
        return cls, struct.pack("<dd", x.real, x.imag)
    if cls is tuple:
        return cls, tuple([_exact(one) for one in x])
    if cls is frozenset:
        return cls, frozenset([_exact(one) for one in x])
    if isinstance(x, np.generic):
        return cls, x.dtype.str, x.tobytes()
    if isinstance(x, (float, complex)):
        return cls, x, _exact(complex(x))
    if isinstance(x, (tuple, frozenset)):
        return cls, x, _exact(tuple(x) if isinstance(x, tuple) else frozenset(x))
    if dataclasses.is_dataclass(x) and not isinstance(x, type) and x.__dataclass_params__.eq:
        parts = tuple([_exact(getattr(x, one.name)) for one in dataclasses.fields(x) if one.compare])
        try:
            hash(parts)
        except TypeError:  # its own hash leaves some of them out
            parts = ()
        return cls, x, parts
    return cls, x


_LEAF = ("leaf",)
_INLINE = object()  # called while another function is traced: a part of that


def _unflatten(key: Any, leaves: Any) -> Any:
    if key is _LEAF:
        return next(leaves)
    kind, cls, rest = key
    if kind == "static":
        return rest.value
    if kind == "dict":
        return cls({name if type(name) is str else name.value: _unflatten(one, leaves) for name, one in rest})
    made = [_unflatten(one, leaves) for one in rest]
    return cls(*made) if hasattr(cls, "_fields") else cls(made)


def _count(key: Any) -> int:
    """How many leaves there are."""
    if key is _LEAF:
        return 1
    kind, _, rest = key
    if kind == "static":
        return 0
    return sum(_count(one[1] if kind == "dict" else one) for one in rest)


def _type_of(x: Any) -> tuple:
    """Dtype and shape, of a library that is not NumPy too."""
    if isinstance(x, (_core.Array, np.ndarray, np.generic)):
        return x.dtype, x.shape  # their texts would take longer than a small program's run
    return str(x.dtype).rpartition(".")[2], tuple(x.shape)


class Traced:
    """A function that jit() compiles: NumPy arrays give NumPy arrays; where one is a vkfuse.Array, all results are."""

    def __init__(self, function: Callable, device: Any, static: tuple, donate: tuple, options: dict) -> None:
        self._function, self._device, self._static, self._options = function, device, static, options
        self._donate = donate
        self._signature = inspect.signature(function) if static else None
        self._programs: dict[Any, tuple] = {}
        self._lock = threading.RLock()
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        program, form, read, given, leaves = self._find(args, kwargs)
        if program is _INLINE:
            return self._function(*args, **kwargs)
        if program is None:  # nothing is computed
            return _unflatten(form, iter(()))
        inputs = {name: leaves[at] for name, at in read.items()}
        donated = [name for name in given if isinstance(inputs[name], _core.Array)]
        results = program.submit(inputs, donate=donated).outputs if donated else program(**inputs)
        return _unflatten(form, iter(results.values()))

    def compile(self, *args: Any, **kwargs: Any) -> _core.Program:
        """The program for arguments like these; nothing is run."""
        return self._program(args, kwargs)[0]

    def plan(self, *args: Any, **kwargs: Any) -> str:
        """The plan, as text, for arguments like these."""
        return self.compile(*args, **kwargs).plan()

    def profile(self, *args: Any, **kwargs: Any) -> list:
        """Runs the program for these arguments, and gives the times of its kernels, as Program.profile() does."""
        program, inputs = self._program(args, kwargs)
        return program.profile(**inputs)

    @property
    def cached(self) -> int:
        """How many programs are kept: one for each device, nesting, dtypes, shapes and static arguments."""
        return len(self._programs)

    def clear(self) -> None:
        """Forgets all programs."""
        with self._lock:
            self._programs.clear()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _program(self, args: tuple, kwargs: dict) -> tuple:
        """The program and its inputs, where there is a program."""
        program, _, read, _, leaves = self._find(args, kwargs)
        if program is _INLINE:
            raise TypeError("Only arrays have a program, and an argument is a tensor.")
        if program is None:
            raise _errors.InvalidArgument("The function returns no tensor: there is nothing to compile.")
        return program, {name: leaves[at] for name, at in read.items()}

    def _find(self, args: tuple, kwargs: dict) -> tuple:
        leaves: list = []
        if self._static:
            args, kwargs = self._mark_static(args, kwargs)
        key = _flatten((args, kwargs), leaves)
        if any(isinstance(one, _core.Tensor) for one in leaves):
            return _INLINE, None, {}, (), leaves
        device = self._device
        if device is None:
            device = next((x.device for x in leaves if isinstance(x, _core.Array)), None) or _default.default_device()
        types = tuple(map(_type_of, leaves))
        full = (device, key, types)
        try:
            found = self._programs.get(full)
        except TypeError:  # equal hashes, and a comparison that is none
            found = None
        if found is None:
            with self._lock:
                found = self._programs.get(full)
                if found is None:
                    found = self._programs[full] = self._trace(device, key, types)
        return (*found, leaves)

    def _mark_static(self, args: tuple, kwargs: dict) -> tuple:
        bound = self._signature.bind(*args, **kwargs)
        for name in self._static:
            if name in bound.arguments:
                value = bound.arguments[name]
                try:
                    hash(value)
                except TypeError:
                    raise TypeError(
                        f"The static argument '{name}' of type {type(value).__name__} is not hashable."
                    ) from None
                bound.arguments[name] = _Static(value)
        return bound.args, bound.kwargs

    def _trace(self, device: Any, key: Any, types: tuple) -> tuple:
        inputs = [_core.input(f"x{i}", dtype, shape) for i, (dtype, shape) in enumerate(types)]
        args, kwargs = _unflatten(key, iter(inputs))
        outputs: list = []
        form = _flatten(self._function(*args, **kwargs), outputs)
        if not outputs:
            return None, form, {}, ()
        tensors = [x if isinstance(x, _core.Tensor) else _core.constant(x) for x in outputs]
        name = getattr(self._function, "__name__", "function").strip("<>")
        program = _core.compile(
            {f"y{i}": x for i, x in enumerate(tensors)}, device, **{"name": name, **self._options}
        )
        used = program_inputs(program)
        read = {f"x{i}": i for i in range(len(types)) if f"x{i}" in used}
        return program, form, read, tuple(name for name in self._given(key) if name in read)

    def _given(self, key: Any) -> tuple:
        """Names of the inputs that are leaves of donated arguments."""
        names: list = []
        at = 0
        for position, argument in enumerate(key[2][0][2]):
            count = _count(argument)
            if position in self._donate:
                names += [f"x{at + i}" for i in range(count)]
            at += count
        return tuple(names)


@functools.lru_cache(maxsize=4096)
def _names(program: Any) -> frozenset:
    return frozenset(program.input_names)


def program_inputs(program: Any) -> frozenset:
    """Names of the inputs that are read: what a function does not use is no input of its program."""
    return _names(program)


def jit(
    function: Callable | None = None,
    *,
    device: _core.Device | None = None,
    static: Any = (),
    donate: Any = (),
    **options: Any,
):
    """A function of arrays, compiled.

    It is traced with tensors in place of arrays, once for each device, dtypes, shapes, nesting (lists, tuples and dicts
    of arrays) and static arguments; every other call runs the program that is there. Arguments that are no arrays
    (numbers, texts, None) are static; so are those named in `static`. They are hashed. A number that often differs is
    better given as an array: numpy.float32(x). Options are those of vkfuse.compile().

    `donate` are positions of arguments that are not needed afterwards, such as parameters and an optimiser's state in a
    training step: results and what is computed on the way take the memory of their device arrays, which are then
    refused wherever they are used.

    >>> @vkfuse.jit
    ... def f(x):
    ...     return vkfuse.relu(x * 2) + 1
    >>> f(np.array([-1, 0, 1, 3], np.float32))
    array([1., 1., 3., 7.], dtype=float32)
    """
    if function is None:
        return functools.partial(jit, device=device, static=static, donate=donate, **options)
    if not callable(function):
        raise TypeError("jit() takes a function.")
    static = (static,) if isinstance(static, str) else tuple(static)
    is_several = hasattr(donate, "__iter__") and not isinstance(donate, str)
    donate = tuple(donate) if is_several else (donate,)
    for one in donate:
        if not isinstance(one, int) or isinstance(one, bool) or one < 0:
            raise TypeError(f"donate is one position of an argument, or several: integers from 0, not {one!r}.")
    return Traced(function, device, static, donate, options)

"""Operators, NumPy's methods and functions on vkfuse.Tensor, in terms of those of the extension module."""

from __future__ import annotations

import builtins
import operator
import types
from typing import Any

import numpy as np

from . import _core
from ._core import Tensor


def _attach(name: str, function: Any, doc: str | None = None) -> None:
    """Makes a function a method of Tensor, as if it were the extension module's: so its stubs have it too."""
    if isinstance(function, property):
        setattr(Tensor, name, property(_renamed(name, function.fget, function.__doc__)))
    else:
        setattr(Tensor, name, _renamed(name, function, doc))


def _renamed(name: str, function: Any, doc: str | None) -> Any:
    made = types.FunctionType(
        function.__code__, function.__globals__, name, function.__defaults__, function.__closure__
    )
    made.__module__, made.__qualname__, made.__doc__ = "vkfuse._core", f"Tensor.{name}", doc or function.__doc__
    kinds = {"Any": object, "Tensor": Tensor, "int": int, "str": str}  # not names, which the stubs would not know
    made.__annotations__ = {key: kinds[value] for key, value in function.__annotations__.items()}
    return made


# ---- operators ----


def _is_integer(x: Any) -> bool:
    return np.dtype(x.dtype).kind in "iu" if isinstance(x, Tensor) and x.dtype != "bfloat16" else False


def _binary(function):
    """An operator: what is no operand is left to the other side."""

    def method(self, other: Any) -> Tensor:
        if other is None or isinstance(other, (str, bytes, dict)):
            return NotImplemented
        return function(self, other)

    return method


def _unary(function):
    def method(self) -> Tensor:
        return function(self)

    return method


def true_divide(a, b) -> Tensor:
    """a / b of floats; integers are divided by //, or converted first."""
    for x in (a, b):
        if _is_integer(x):
            raise TypeError("Integers are not divided by /: use // (rounds down), or convert with astype() first.")
    return _core.div(a, b)


def floor_divide(a, b) -> Tensor:
    """The largest whole number not above a / b."""
    one = a if isinstance(a, Tensor) else b
    if not _is_integer(one):
        return _core.floor(_core.div(a, b))
    quotient = _core.div(a, b)
    if np.dtype(one.dtype).kind == "u":
        return quotient
    rest = _core.rem(a, b)
    zero = _core.scalar(0, one.dtype)
    apart = _core.logical_xor(
        _core.less(rest, zero), _core.less(b, zero) if isinstance(b, Tensor) else _core.less(_core.add(zero, b), zero)
    )
    down = _core.logical_and(_core.not_equal(rest, zero), apart)
    return _core.sub(quotient, down.astype(one.dtype))


def _logical_or_bits(bits, logical):
    def function(a, b) -> Tensor:
        one = a if isinstance(a, Tensor) else b
        return logical(a, b) if one.dtype == np.dtype(bool) else bits(a, b)

    function.__doc__ = f"{logical.__name__}() of bools, {bits.__name__}() of integers."
    return function


def invert(x) -> Tensor:
    """~x: of bools the opposite, of integers the complement."""
    return _core.logical_not(x) if x.dtype == np.dtype(bool) else _core.bit_not(x)


bitwise_and = _logical_or_bits(_core.bit_and, _core.logical_and)
bitwise_or = _logical_or_bits(_core.bit_or, _core.logical_or)
bitwise_xor = _logical_or_bits(_core.bit_xor, _core.logical_xor)

_OPERATORS = {
    "add": _core.add, "sub": _core.sub, "mul": _core.mul, "truediv": true_divide, "floordiv": floor_divide,
    "mod": _core.mod, "pow": _core.pow, "matmul": _core.matmul, "and": bitwise_and, "or": bitwise_or,
    "xor": bitwise_xor, "lshift": _core.shift_left, "rshift": _core.shift_right,
}  # fmt: skip
_COMPARISONS = {
    "eq": _core.equal, "ne": _core.not_equal, "lt": _core.less, "le": _core.less_equal, "gt": _core.greater,
    "ge": _core.greater_equal,
}  # fmt: skip

for _name, _function in _OPERATORS.items():
    _attach(f"__{_name}__", _binary(_function))
    _attach(f"__r{_name}__", _binary(lambda a, b, f=_function: f(b, a)))
for _name, _function in _COMPARISONS.items():
    _attach(f"__{_name}__", _binary(_function))
Tensor.__hash__ = object.__hash__
_attach("__neg__", _unary(_core.neg))
_attach("__pos__", _unary(lambda x: x))
_attach("__abs__", _unary(_core.abs))
_attach("__invert__", _unary(invert))


def _no_value(what):
    def method(self) -> Any:
        raise TypeError(
            f"A tensor has no elements before its program runs, so {what} cannot be asked for: use vkfuse.where(), "
            "or make the argument static."
        )

    return method


_attach("__bool__", _no_value("its truth"))
_attach("__float__", _no_value("a float"))
_attach("__int__", _no_value("an int"))
_attach("__index__", _no_value("an index"))
_attach("__complex__", _no_value("a complex number"))


def _array(self, dtype: Any = None, copy: Any = None) -> Any:
    raise TypeError("A tensor has no elements before its program runs, so that it is no array of NumPy yet.")


_attach("__array__", _array)

# ---- shapes ----


def _size(self) -> int:
    size = 1
    for one in self.shape:
        if isinstance(one, str):
            raise TypeError(f"The number of elements is not known: the dimension '{one}' is a symbol.")
        size *= one
    return size


def _length(self) -> int:
    if not self.shape:
        raise TypeError("A tensor without dimensions has no length.")
    if isinstance(self.shape[0], str):
        raise TypeError(f"The length is not known: the dimension '{self.shape[0]}' is a symbol.")
    return self.shape[0]


def _iterate(self) -> Any:
    return (self.select(0, i) for i in range(len(self)))


def transpose(x, *axes) -> Tensor:
    """Axes in this order; without any, in the opposite one."""
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        axes = axes[0] or ()
    return x.permute(*axes) if axes else x.permute(*reversed(range(x.ndim)))


def _squeeze(x, axis: Any = None) -> Tensor:
    """Without dimensions of 1: these, or all."""
    if axis is None:
        axis = [i for i, size in enumerate(x.shape) if size == 1]
    axes = sorted((a % builtins.max(x.ndim, 1) for a in ([axis] if isinstance(axis, int) else axis)), reverse=True)
    for one in axes:
        x = _core_squeeze(x, one)
    return x


_core_squeeze = Tensor.squeeze


def clip(x, low: Any, high: Any) -> Tensor:
    """min(max(x, low), high)."""
    return _core.clamp(x, low, high)


_attach("squeeze", _squeeze)
_attach("size", property(_size, doc="The number of elements."))
_attach("__len__", _length)
_attach("__iter__", _iterate)
_attach("transpose", transpose)
_attach("T", property(_unary(transpose), doc="Axes in the opposite order."))
_attach("mT", property(_unary(lambda x: x.swapaxes(-1, -2)), doc="The last two axes exchanged."))
_attach("flatten", _unary(lambda x: x.reshape(-1)), "One dimension.")
_attach("ravel", _unary(lambda x: x.reshape(-1)), "One dimension.")
_attach("clip", clip)
_attach("dot", _binary(_core.matmul), "The matrix product.")


def _expand(index, ndim):
    index = index if isinstance(index, tuple) else (index,)
    taken = builtins.sum(1 for one in index if one is not None and one is not Ellipsis)
    if builtins.sum(1 for one in index if one is Ellipsis) > 1:
        raise IndexError("An index has more than one '...'.")
    if taken > ndim:
        raise IndexError(f"A tensor of {ndim} dimensions is indexed with {taken}.")
    if not builtins.any(one is Ellipsis for one in index):
        index += (Ellipsis,)
    at = next(i for i, one in enumerate(index) if one is Ellipsis)
    return index[:at] + (slice(None),) * (ndim - taken) + index[at + 1 :]


def _getitem(self, index: Any) -> Tensor:
    axis, x = 0, self
    gathers = 0
    for one in _expand(index, self.ndim):
        if one is None:
            x = x.unsqueeze(axis)
            axis += 1
        elif isinstance(one, slice):
            if one != slice(None):
                step = 1 if one.step is None else operator.index(one.step)
                start = one.start if one.start is not None else (0 if step > 0 else 2**62)
                stop = one.stop if one.stop is not None else (2**62 if step > 0 else -(2**62))
                x = x.slice(axis, start, stop, step)
            axis += 1
        elif isinstance(one, (bool, np.bool_)) or getattr(one, "dtype", None) == np.dtype(bool):
            raise TypeError("A tensor is not indexed with bools, whose number decides the shape: use vkfuse.where().")
        elif isinstance(one, Tensor) or isinstance(one, (np.ndarray, list)):
            gathers += 1
            if gathers > 1:
                raise TypeError("A tensor is indexed with one array at most: use take_along() or reshape().")
            indices = one if isinstance(one, Tensor) else _core.constant(np.asarray(one))
            x = x.gather(indices, axis)
            axis += indices.ndim
        else:
            x = x.select(axis, operator.index(one))
    return x


_attach("__getitem__", _getitem)


# ---- functions with NumPy's names ----


def stack(tensors, axis=0) -> Tensor:
    """Tensors of one shape, joined along a new axis."""
    tensors = list(tensors)
    at = axis if axis >= 0 else axis + tensors[0].ndim + 1
    return _core.concat([x.unsqueeze(at) for x in tensors], at)


def full(shape, value, dtype="float32") -> Tensor:
    """A tensor of one value."""
    return _core.scalar(value, dtype).broadcast_to(shape)


def zeros(shape, dtype="float32") -> Tensor:
    """A tensor of zeros."""
    return full(shape, False if np.dtype(bool) == dtype or dtype == "bool" else 0, dtype)


def ones(shape, dtype="float32") -> Tensor:
    """A tensor of ones."""
    return full(shape, True if np.dtype(bool) == dtype or dtype == "bool" else 1, dtype)


def arange(start, stop=None, step=1, dtype="int32") -> Tensor:
    """start, start + step, ... before stop."""
    if stop is None:
        start, stop = 0, start
    count = (
        builtins.max(0, -(-(stop - start) // step))
        if isinstance(step, int)
        else builtins.max(0, int(np.ceil((stop - start) / step)))
    )
    x = _core.iota((int(count),), 0, dtype)
    if step != 1:
        x = x * step
    return x + start if start != 0 else x


def square(x) -> Tensor:
    """x * x."""
    return _core.mul(x, x)


def take(x, indices, axis=0) -> Tensor:
    """Elements at these positions of an axis; what is out of range is clamped to the nearest."""
    return x.gather(indices, axis)


def var(x, axis=None, keepdims=False) -> Tensor:
    """The mean of the squared distances from the mean."""
    return square(x - x.mean(axis, True)).mean(axis, keepdims)


def std(x, axis=None, keepdims=False) -> Tensor:
    """The square root of var()."""
    return _core.sqrt(var(x, axis, keepdims))


_attach("var", var)
_attach("std", std)


def _method(name):
    def function(x, *args, **kwargs) -> Tensor:
        return getattr(x if isinstance(x, Tensor) else _core.constant(x), name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(Tensor, name).__doc__
    return function


sum = _method("sum")
prod = _method("prod")
mean = _method("mean")
max = _method("max")
min = _method("min")
any = _method("any")
all = _method("all")
argmax = _method("argmax")
argmin = _method("argmin")
argsort = _method("argsort")
cumsum = _method("cumsum")
cumprod = _method("cumprod")
reshape = _method("reshape")
squeeze = _method("squeeze")
broadcast_to = _method("broadcast_to")
swapaxes = _method("swapaxes")
tile = _method("tile")

# numpy.exp(tensor) and the like.
_UFUNCS = {
    "add": _core.add, "subtract": _core.sub, "multiply": _core.mul, "divide": true_divide, "true_divide": true_divide,
    "floor_divide": floor_divide, "remainder": _core.mod, "fmod": _core.rem, "power": _core.pow,
    "matmul": _core.matmul, "negative": _core.neg, "positive": lambda x: x, "absolute": _core.abs, "fabs": _core.abs,
    "rint": _core.round, "invert": invert, "bitwise_and": bitwise_and, "bitwise_or": bitwise_or,
    "bitwise_xor": bitwise_xor, "left_shift": _core.shift_left, "right_shift": _core.shift_right,
    "isnan": _core.is_nan, "isinf": _core.is_inf, "isfinite": _core.is_finite, "arctan2": _core.atan2,
    "arcsin": _core.asin, "arccos": _core.acos, "arctan": _core.atan, "arcsinh": _core.asinh, "arccosh": _core.acosh,
    "arctanh": _core.atanh, "square": square,
}  # fmt: skip
for _name in """abs sign floor ceil trunc sqrt reciprocal exp exp2 expm1 log log2 log1p sin cos tan sinh cosh tanh
        minimum maximum equal not_equal less less_equal greater greater_equal logical_and logical_or logical_not
        logical_xor""".split():
    _UFUNCS.setdefault(_name, getattr(_core, _name))


def _array_ufunc(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    function = _UFUNCS.get(ufunc.__name__)
    if method != "__call__" or kwargs or function is None:
        raise TypeError(
            f"numpy.{ufunc.__name__} of a tensor is not offered in this form: docs/python.md lists what is."
        )
    return function(*inputs)


_FUNCTIONS = {
    "where": lambda c, a, b: _core.where(c, a, b), "concatenate": lambda arrays,
    axis=0: _core.concat(list(arrays), axis),
    "stack": stack, "transpose": transpose, "clip": lambda x, low, high: _core.clamp(x, low, high), "take": take,
    "take_along_axis": lambda x, indices, axis=-1: x.take_along(indices, axis), "var": var, "std": std,
    "expand_dims": lambda x, axis: x.unsqueeze(axis), "flip": lambda x, axis=None: x.reverse(
        range(x.ndim) if axis is None else axis), "dot": _core.matmul, "round": _core.round,
        "ravel": lambda x: x.reshape(-1),
    "shape": lambda x: x.shape, "ndim": lambda x: x.ndim,
}  # fmt: skip
_FUNCTIONS.update(
    sum=sum, prod=prod, mean=mean, max=max, min=min, any=any, all=all, argmax=argmax, argmin=argmin, argsort=argsort,
    cumsum=cumsum, cumprod=cumprod, reshape=reshape, squeeze=squeeze, broadcast_to=broadcast_to, swapaxes=swapaxes,
    tile=tile, amax=max, amin=min,
)  # fmt: skip


def _array_function(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    function = _FUNCTIONS.get(func.__name__)
    if function is None:
        raise TypeError(f"numpy.{func.__name__} of a tensor is not offered: docs/python.md lists what is.")
    return function(*args, **{name: value for name, value in kwargs.items() if value is not None})


_attach("__array_ufunc__", _array_ufunc)
_attach("__array_function__", _array_function)
Tensor.__array_priority__ = 100

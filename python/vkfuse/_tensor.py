"""Operators, NumPy's methods and functions on vkfuse.Tensor, in terms of those of the extension module."""

from __future__ import annotations

import builtins
import operator
import types
from typing import Any

import numpy as np

from . import _core, _errors
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


# ---- operands ----


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float))


def _tensors(*operands: Any) -> list:
    """Tensors of operands: numbers of Python take the dtype of the first that is none of them."""
    made = [x if isinstance(x, Tensor) or _is_number(x) else _core.constant(x) for x in operands]
    dtypes = [x.dtype for x in made if isinstance(x, Tensor)]
    dtype = dtypes[0] if dtypes else _dtype_of_numbers(*operands)
    return [x if isinstance(x, Tensor) else _core.scalar(x, dtype) for x in made]


def _dtype_of_numbers(*numbers: Any) -> str:
    """That of numbers of Python where no tensor tells: float32, int32 or bool."""
    if builtins.any(isinstance(x, float) for x in numbers):
        return "float32"
    return "bool" if builtins.all(isinstance(x, bool) for x in numbers) else "int32"


def _axis(axis: Any, ndim: int) -> int:
    """An axis, counted from the first; one that is not there is refused."""
    at = operator.index(axis)
    if not -ndim <= at < ndim:
        raise _errors.InvalidArgument(f"There is no axis {at} of a tensor of {ndim} dimensions.")
    return at % ndim


def _axes(axes: Any, ndim: int) -> list:
    """One axis or several, each of them once."""
    counted = [_axis(one, ndim) for one in (axes if isinstance(axes, (tuple, list)) else (axes,))]
    for one in counted:
        if counted.count(one) > 1:
            raise _errors.InvalidArgument(f"The axis {one} is named twice.")
    return counted


def _positions(indices: Any, x: Tensor, axis: Any) -> Tensor:
    """Positions along an axis. A tensor's are clamped when the program runs, and the host's are looked at here."""
    if isinstance(indices, Tensor):
        return indices
    given = np.asarray(indices)
    if isinstance(indices, (list, tuple)) and not given.size:
        given = given.astype(np.int32)  # of an empty list the dtype says nothing
    if given.dtype.kind not in "iu":
        raise TypeError(f"Positions are integers, and not of dtype {given.dtype}.")
    size = x.shape[_axis(axis, x.ndim)]
    if isinstance(size, str):
        if (given < 0).any():
            raise _errors.InvalidArgument(
                f"The position {given[given < 0][0]} counts from the end of the dimension '{size}', which is a symbol."
            )
        return _core.constant(given)
    wide = given.astype(np.int64)
    wrong = given[(wide >= size) | (wide < (-size if given.dtype.kind == "i" else 0))]
    if wrong.size:
        raise _errors.InvalidArgument(f"The position {wrong[0]} is out of range: the axis has {size} elements.")
    return _core.constant(np.where(wide < 0, wide + size, wide).astype(np.int32 if size < 2**31 else np.int64))


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
    """The largest whole number not above a / b, such that a - (a // b) * b is a % b."""
    a, b = _tensors(a, b)
    if _is_integer(a):
        return _floor_divide_integers(a, b)
    if a.dtype == "bfloat16" or a.dtype == np.float16:
        return _floor_divide_floats(a.astype("float32"), b.astype("float32")).astype(a.dtype)
    return _floor_divide_floats(a, b)


def _floor_divide_integers(a: Tensor, b: Tensor) -> Tensor:
    quotient = _core.div(a, b)
    if np.dtype(a.dtype).kind == "u":
        return quotient
    return _core.sub(quotient, _is_above(_core.rem(a, b), b).astype(a.dtype))


def _floor_divide_floats(a: Tensor, b: Tensor) -> Tensor:
    """As NumPy's: a / b may round up to a whole number that is above it, and the exact remainder says so."""
    rest, zero = _core.rem(a, b), _core.scalar(0, a.dtype)
    whole = _core.round(_core.div(_core.sub(a, rest), b)) - _is_above(rest, b).astype(a.dtype)
    whole = _core.where(_core.equal(whole, zero), zero, whole)  # and no -0, as 0 / -3 is
    has_zero = _core.logical_or(_core.equal(a, zero), _core.equal(b, zero))
    return _core.where(has_zero, _core.floor(_core.div(a, b)), whole)


def _is_above(rest: Tensor, b: Tensor) -> Tensor:
    """Whether the quotient that leaves this remainder is rounded up, as where its sign is not the divisor's."""
    zero = _core.scalar(0, rest.dtype)
    return _core.logical_and(
        _core.not_equal(rest, zero), _core.logical_xor(_core.less(rest, zero), _core.less(b, zero))
    )


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
        axes = reversed(range(x.ndim)) if axes[0] is None else axes[0]
    elif not axes:
        axes = reversed(range(x.ndim))
    return x.permute(*axes)


def _squeeze(x, axis: Any = None) -> Tensor:
    """Without dimensions of 1: these, or all."""
    if axis is None:
        axis = [i for i, size in enumerate(x.shape) if size == 1]
    for one in sorted(_axes(axis, x.ndim), reverse=True):
        x = _core_squeeze(x, one)
    return x


_core_squeeze = Tensor.squeeze


def _pad(x, low: Any, high: Any, value: Any = 0) -> Tensor:
    """`low` and `high` elements of `value` put around each axis; negative amounts cut instead."""
    if isinstance(value, np.generic):
        value = value.item()
    if _is_integer(x):
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        _core.scalar(number, x.dtype)  # refuses what the dtype does not hold
        if int(float(number)) != number:
            raise _errors.InvalidArgument(f"pad() takes a value that a double holds, and {number} is none.")
    return _core_pad(x, low, high, value)


_core_pad = Tensor.pad


def dot(a, b) -> Tensor:
    """The product of numpy.dot: sums over the last axis of a and the last but one of b, and other axes do not meet."""
    if builtins.any(_is_number(x) or np.ndim(x) == 0 for x in (a, b)):
        return _core.mul(a, b)
    a, b = _tensors(a, b)
    return _core.dot_general(a, b, a.ndim - 1, b.ndim - 2) if a.ndim > 1 and b.ndim > 2 else _core.matmul(a, b)


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
_attach("dot", _binary(dot), dot.__doc__)
_attach("pad", _pad)


def _gather(x, indices: Any, axis: int = 0) -> Tensor:
    """Axis `axis` is replaced by the axes of `indices`.

    Positions of a tensor that are out of range are clamped to the nearest element; of lists and arrays of NumPy they
    are an error, and negative ones count from the end.
    """
    return _core_gather(x, _positions(indices, x, axis), axis)


def _take_along(x, indices: Any, axis: int = -1) -> Tensor:
    """Elements by an index for each position, as numpy.take_along_axis has it; indices are those of gather()."""
    return _core_take_along(x, _positions(indices, x, axis), axis)


_core_gather, _core_take_along = Tensor.gather, Tensor.take_along
_attach("gather", _gather)
_attach("take_along", _take_along)


def _expand(index, ndim):
    """An index of ndim entries and None; slices that stand for an ellipsis are in its place."""
    taken = builtins.sum(1 for one in index if one is not None and one is not Ellipsis)
    if builtins.sum(1 for one in index if one is Ellipsis) > 1:
        raise IndexError("An index has more than one '...'.")
    if taken > ndim:
        raise IndexError(f"A tensor of {ndim} dimensions is indexed with {taken}.")
    if not builtins.any(one is Ellipsis for one in index):
        index += (Ellipsis,)
    at = next(i for i, one in enumerate(index) if one is Ellipsis)
    return index[:at] + (slice(None),) * (ndim - taken) + index[at + 1 :]


def _is_apart(index) -> bool:
    """Whether a slice, None or an ellipsis is between integers and arrays: NumPy puts the array's axes first then."""
    at = [i for i, one in enumerate(index) if not (one is None or one is Ellipsis or isinstance(one, slice))]
    return at[-1] - at[0] >= len(at)


def _is_bool(one) -> bool:
    if isinstance(one, (list, tuple)):
        return builtins.any(_is_bool(each) for each in one)
    return isinstance(one, (bool, np.bool_)) or getattr(one, "dtype", None) == np.dtype(bool)


def _getitem(self, index: Any) -> Tensor:
    index = index if isinstance(index, tuple) else (index,)
    axis, x = 0, self
    gathered = None
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
        elif _is_bool(one):
            raise TypeError("A tensor is not indexed with bools, whose number decides the shape: use vkfuse.where().")
        elif isinstance(one, (Tensor, list, tuple)) or (isinstance(one, np.ndarray) and one.ndim):
            if gathered is not None:
                raise TypeError("A tensor is indexed with one array at most: use take_along() or reshape().")
            indices = _positions(one, x, axis)
            x = _core_gather(x, indices, axis)
            gathered = list(range(axis, axis + indices.ndim))
            axis += indices.ndim
        else:
            x = x.select(axis, operator.index(one))
    if gathered and _is_apart(index):
        x = x.permute(*gathered, *(i for i in range(x.ndim) if i not in gathered))
    return x


_attach("__getitem__", _getitem)


# ---- functions with NumPy's names ----


def stack(tensors, axis=0) -> Tensor:
    """Tensors of one shape, joined along a new axis."""
    tensors = _tensors(*tensors)
    if not tensors:
        raise _errors.InvalidArgument("stack() takes one tensor or more.")
    at = _axis(axis, tensors[0].ndim + 1)
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


def take(x, indices, axis=None) -> Tensor:
    """Elements at these positions of an axis, or of all elements in their order; positions are those of gather()."""
    x, axis = _along(*_tensors(x), axis)
    return x.gather(indices, axis)


def _along(x, axis):
    """The tensor and the axis; without one, that of all its elements in their order."""
    return (x.reshape(-1), 0) if axis is None else (x, axis)


def _take_along_axis(x, indices, axis=-1) -> Tensor:
    if axis is None and np.ndim(indices) != 1:
        raise _errors.InvalidArgument(f"Without an axis, positions have one dimension, and not {np.ndim(indices)}.")
    x, axis = _along(*_tensors(x), axis)
    return x.take_along(indices, axis)


def where(condition, a, b) -> Tensor:
    """condition ? a : b, element by element; two numbers are float32, int32 or bool."""
    if _is_number(a) and _is_number(b):
        a = _core.scalar(a, _dtype_of_numbers(a, b))
    return _core.where(condition, a, b)


def concatenate(tensors, axis=0) -> Tensor:
    """Tensors joined along one axis; without one, all their elements in their order."""
    tensors = list(tensors)
    if axis is None:
        return _core.concat([x.reshape(-1) for x in _tensors(*tensors)], 0)
    return _core.concat(tensors, axis)


def var(x, axis=None, keepdims=False) -> Tensor:
    """The mean of the squared distances from the mean."""
    return square(x - x.mean(axis, True)).mean(axis, keepdims)


def std(x, axis=None, keepdims=False) -> Tensor:
    """The square root of var()."""
    return _core.sqrt(var(x, axis, keepdims))


def _argsort(x, axis: Any = -1, descending: Any = False, count: int = 0) -> Tensor:
    """int32 positions of the sorted order along an axis, or, where it is None, of all elements.

    They are the first `count`, or all. Equal elements keep their order; NaN is larger than infinity.
    """
    return _core_argsort(*_along(x, axis), descending, count)


_core_argsort, _core_argmax, _core_argmin = Tensor.argsort, Tensor.argmax, Tensor.argmin


def _argmax(x, axis: Any = None, keepdims: Any = False) -> Tensor:
    """int32: the position of the first largest, or NaN."""
    return _position(_core_argmax, x, axis, keepdims)


def _argmin(x, axis: Any = None, keepdims: Any = False) -> Tensor:
    """int32: the position of the first smallest, or NaN."""
    return _position(_core_argmin, x, axis, keepdims)


def _position(find, x, axis, keepdims):
    found = find(x, axis, keepdims)
    return found.reshape((1,) * x.ndim) if axis is None and keepdims else found


_attach("var", var)
_attach("std", std)
_attach("argsort", _argsort)
_attach("argmax", _argmax)
_attach("argmin", _argmin)


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
    "where": where, "concatenate": concatenate, "stack": stack, "transpose": lambda x, axes=None: transpose(x, axes),
    "clip": lambda x, low, high: _core.clamp(x, low, high), "take": take, "take_along_axis": _take_along_axis,
    "var": var, "std": std, "expand_dims": lambda x, axis: x.unsqueeze(axis),
    "flip": lambda x, axis=None: x.reverse(range(x.ndim) if axis is None else axis), "dot": dot, "round": _core.round,
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
    # out=None and the like say nothing; axis=None does.
    return function(*args, **{name: value for name, value in kwargs.items() if value is not None or name == "axis"})


_attach("__array_ufunc__", _array_ufunc)
_attach("__array_function__", _array_function)
Tensor.__array_priority__ = 100

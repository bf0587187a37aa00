"""Elementwise ops: a row each, of its name, how ATen promotes its operands, and what it is in ops of vkfuse."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch

from .. import _core as v
from ._dtypes import (
    NotCovered, Promotion, cast, computed_in, dtype_of, has_unrounded, is_number, name_of, operand, promoted, scalar
)  # fmt: skip
from ._rules import ARITHMETIC, Call, aten, find, rule

_ARITHMETIC = {"add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "mul.Tensor", "mul.Scalar", "div"}
DEFAULT, SAME, REAL, TRUTH = (
    Promotion.DEFAULT, Promotion.NO_OPMATH, Promotion.INT_TO_FLOAT, Promotion.ALWAYS_BOOL
)  # fmt: skip


def _is_bool(x: v.Tensor) -> bool:
    return dtype_of(x) == torch.bool


def _is_float(x: v.Tensor) -> bool:
    return dtype_of(x).is_floating_point


# Ops that give what they are given, and those whose result jumps.
_PASSING = {
    aten.view.default, aten.expand.default, aten.permute.default, aten.unsqueeze.default, aten.alias.default,
    aten.clone.default, aten.slice.Tensor, aten.select.int, aten.squeeze.dim, aten.squeeze.dims, aten.neg.default,
    aten.abs.default, aten.relu.default, aten.maximum.default, aten.minimum.default, aten.where.self,
    aten.clamp.default, aten.cat.default,
}  # fmt: skip
_JUMPING = {
    aten.floor.default, aten.ceil.default, aten.trunc.default, aten.round.default, aten.sign.default,
    aten.sgn.default, aten.remainder.Tensor, aten.remainder.Scalar, aten.fmod.Tensor, aten.fmod.Scalar,
    aten.div.Tensor_mode, aten.div.Scalar_mode,
}  # fmt: skip


def _is_compared(node: Any) -> bool:
    """Whether a result is compared, or becomes an integer: then it is rounded for sure, as overflows and ties show."""
    seen, to_see = {node}, [node]
    while to_see:
        for user in to_see.pop().users:
            value = user.meta.get("val")
            if user.target in _JUMPING or (isinstance(value, torch.Tensor) and not value.is_floating_point()):
                return True
            if user.target in _PASSING and user not in seen:
                seen.add(user)
                to_see.append(user)
    return False


def _within(call: Call, compute: torch.dtype, result: torch.dtype, name: str, *operands: Any) -> torch.dtype:
    """What an op is written in. Kernels compute 16-bit floats in float32 as eager does, so that they are converted here
    only where operands are not of the result's dtype: a number that it does not have exactly, say. Results are then
    rounded where eager rounds them, or later, and functions are as good as the dtype, and not as float32. Arithmetic on
    what is float32 anyway goes on in it."""
    if name in _ARITHMETIC and any(has_unrounded(x) for x in operands if not is_number(x)):
        return compute
    if result == compute or computed_in(result) != compute or _is_compared(call.node):
        return compute
    for x in operands:
        if is_number(x):
            if not isinstance(x, bool) and torch.tensor(x, dtype=torch.float64).to(result).item() != x:
                return compute
        elif dtype_of(x) != result:
            return compute
    return result


def _times(x: v.Tensor, factor: Any) -> v.Tensor:
    if factor == 1:
        return x
    if _is_bool(x):
        return v.logical_and(x, scalar(factor, torch.bool))
    return v.mul(x, operand(factor, dtype_of(x)))


def add(a: v.Tensor, b: v.Tensor, *, alpha: Any = 1) -> v.Tensor:
    b = _times(b, alpha)
    return v.logical_or(a, b) if _is_bool(a) else v.add(a, b)


def sub(a: v.Tensor, b: v.Tensor, *, alpha: Any = 1) -> v.Tensor:
    return v.sub(a, _times(b, alpha))


def mul(a: v.Tensor, b: v.Tensor) -> v.Tensor:
    return v.logical_and(a, b) if _is_bool(a) else v.mul(a, b)


def _floor_quotient(a: v.Tensor, b: v.Tensor) -> v.Tensor:
    """As ATen: from the exact remainder, so that it agrees with it."""
    zero, one = scalar(0, dtype_of(a)), scalar(1, dtype_of(a))
    rest = v.rem(a, b)
    apart = v.logical_and(v.not_equal(rest, zero), v.logical_xor(v.less(b, zero), v.less(rest, zero)))
    if not _is_float(a):
        return v.sub(v.div(a, b), cast(apart, dtype_of(a)))
    quotient = v.div(v.sub(a, rest), b)
    quotient = v.where(apart, v.sub(quotient, one), quotient)
    down = v.floor(quotient)
    down = v.where(v.greater(v.sub(quotient, down), scalar(0.5, dtype_of(a))), v.add(down, one), down)
    signed_zero = v.mul(v.div(a, b), zero)
    down = v.where(v.equal(quotient, zero), signed_zero, down)
    return v.where(v.equal(b, zero), v.div(a, b), down)


def _refuse_unknown_divisor(call: Call, divisor: Any) -> None:
    """Integers divided by 0 are an error of eager, and a number of a GPU."""
    if is_number(divisor):
        if divisor == 0:
            raise NotCovered("Integers are divided by 0.")
        return
    raise NotCovered("Integers are divided by a tensor: eager raises an error where one of its elements is 0.")


@rule("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode")
def div(call: Call, a: Any, b: Any, *, rounding_mode: str | None = None) -> v.Tensor:
    compute, result = promoted(call.fakes[:2], REAL if rounding_mode is None else DEFAULT)
    if not compute.is_floating_point:
        _refuse_unknown_divisor(call, b)
    if rounding_mode is None:
        compute = _within(call, compute, result, "div", a, b)
    a, b = operand(a, compute), operand(b, compute)
    if rounding_mode == "floor":
        return cast(_floor_quotient(a, b), result)
    quotient = v.div(a, b)
    if rounding_mode == "trunc" and compute.is_floating_point:
        quotient = v.trunc(quotient)
    return cast(quotient, result)


@rule("remainder.Tensor", "remainder.Scalar", "fmod.Tensor", "fmod.Scalar", "remainder.Scalar_Tensor")
def remainder(call: Call, a: Any, b: Any) -> v.Tensor:
    compute, result = promoted(call.fakes[:2], DEFAULT)
    if not compute.is_floating_point:
        _refuse_unknown_divisor(call, b)
    a, b = operand(a, compute), operand(b, compute)
    rest = v.rem(a, b)
    if "remainder" in str(call.node.target):
        zero = scalar(0, compute)
        apart = v.logical_and(v.not_equal(rest, zero), v.logical_xor(v.less(b, zero), v.less(rest, zero)))
        rest = v.where(apart, v.add(rest, b), rest)
    return cast(rest, result)


def _power(a: v.Tensor, exponent: float) -> v.Tensor | None:
    """The powers that ATen computes by other ops."""
    if exponent == 2:
        return v.mul(a, a)
    if exponent == 3:
        return v.mul(v.mul(a, a), a)
    if not _is_float(a):
        return None
    one = scalar(1, dtype_of(a))
    rows = {0.5: v.sqrt, -0.5: v.rsqrt, -1: v.reciprocal, -2: lambda x: v.div(one, v.mul(x, x))}
    return rows[exponent](a) if exponent in rows else None


@rule("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(call: Call, a: Any, b: Any) -> v.Tensor:
    compute, result = promoted(call.fakes[:2], DEFAULT)
    if not (compute.is_floating_point or compute == torch.bool) and not (is_number(b) and b >= 0):
        raise NotCovered("Integers to a negative power are an error in eager, and a kernel would give a number.")
    made = _power(operand(a, compute), b) if is_number(b) else None
    if made is None and compute == torch.bool:
        made = v.logical_or(operand(a, compute), v.logical_not(operand(b, compute)))
    return cast(v.pow(operand(a, compute), operand(b, compute)) if made is None else made, result)


def _of_floats(of_floats: Callable, otherwise: Callable) -> Callable:
    return lambda x, *rest: (of_floats if _is_float(x) else otherwise)(x, *rest)


def _never(x: v.Tensor) -> v.Tensor:
    return scalar(False, torch.bool).broadcast_to(x.shape)


def _sign(x: v.Tensor) -> v.Tensor:
    """0 for NaN, as ATen has it."""
    if _is_bool(x):
        return x
    if not _is_float(x):
        return v.sign(x)
    return v.where(v.is_nan(x), scalar(0, dtype_of(x)), v.sign(x))


def _log10(x: v.Tensor) -> v.Tensor:
    return v.mul(v.log(x), scalar(1 / math.log(10), dtype_of(x)))


def _larger(a: v.Tensor, b: v.Tensor) -> v.Tensor:
    """Of integers and bools."""
    return v.logical_or(a, b) if _is_bool(a) else v.maximum(a, b)


def _smaller(a: v.Tensor, b: v.Tensor) -> v.Tensor:
    return v.logical_and(a, b) if _is_bool(a) else v.minimum(a, b)


def _unless_nan(of_numbers: Callable) -> Callable:
    """Of two, of which one that is NaN does not count."""
    return lambda a, b: v.where(v.is_nan(a), b, v.where(v.is_nan(b), a, of_numbers(a, b)))


def _silu(x: v.Tensor) -> v.Tensor:
    return v.mul(x, v.sigmoid(x))


def _relu(x: v.Tensor) -> v.Tensor:
    return v.relu(x)


def _neg(x: v.Tensor) -> v.Tensor:
    return v.neg(x)


# name: (promotion, function)
ROWS: dict[str, tuple[Promotion, Callable]] = {
    "add.Tensor": (DEFAULT, add), "add.Scalar": (DEFAULT, add), "sub.Tensor": (DEFAULT, sub),
    "sub.Scalar": (DEFAULT, sub), "mul.Tensor": (DEFAULT, mul), "mul.Scalar": (DEFAULT, mul),
    "maximum": (SAME, _of_floats(v.maximum, _larger)), "minimum": (SAME, _of_floats(v.minimum, _smaller)),
    "fmax": (SAME, _of_floats(_unless_nan(v.maximum), _larger)),
    "fmin": (SAME, _of_floats(_unless_nan(v.minimum), _smaller)),
    "atan2": (REAL, v.atan2),
    "eq": (TRUTH, v.equal), "ne": (TRUTH, v.not_equal),
    "neg": (SAME, _neg), "abs": (SAME, lambda x: x if _is_bool(x) else v.abs(x)), "sign": (SAME, _sign),
    "sgn": (SAME, _sign), "relu": (SAME, _relu), "reciprocal": (REAL, v.reciprocal), "sqrt": (REAL, v.sqrt),
    "rsqrt": (REAL, v.rsqrt), "exp": (REAL, v.exp), "exp2": (REAL, v.exp2), "expm1": (REAL, v.expm1),
    "log": (REAL, v.log), "log2": (REAL, v.log2), "log10": (REAL, _log10), "log1p": (REAL, v.log1p),
    "sin": (REAL, v.sin), "cos": (REAL, v.cos), "tan": (REAL, v.tan), "asin": (REAL, v.asin), "acos": (REAL, v.acos),
    "atan": (REAL, v.atan), "sinh": (REAL, v.sinh), "cosh": (REAL, v.cosh), "tanh": (REAL, v.tanh),
    "asinh": (REAL, v.asinh), "acosh": (REAL, v.acosh), "atanh": (REAL, v.atanh), "erf": (REAL, v.erf),
    "sigmoid": (REAL, v.sigmoid), "silu": (DEFAULT, _silu),
    "floor": (SAME, _of_floats(v.floor, lambda x: x)), "ceil": (SAME, _of_floats(v.ceil, lambda x: x)),
    "trunc": (SAME, _of_floats(v.trunc, lambda x: x)), "round": (SAME, _of_floats(v.round, lambda x: x)),
    "isnan": (TRUTH, _of_floats(v.is_nan, _never)), "isinf": (TRUTH, _of_floats(v.is_inf, _never)),
}  # fmt: skip
# Comparisons have no order of bools: they are compared as integers.
for _name, _function in (("lt", v.less), ("le", v.less_equal), ("gt", v.greater), ("ge", v.greater_equal)):
    ROWS[_name] = (
        TRUTH,
        lambda a, b, f=_function: f(a.astype("int32"), b.astype("int32")) if _is_bool(a) else f(a, b),
    )
_BITS = {"and": (v.logical_and, v.bit_and), "or": (v.logical_or, v.bit_or), "xor": (v.logical_xor, v.bit_xor)}
for _name, (_logical, _bits) in _BITS.items():
    ROWS[f"bitwise_{_name}"] = (SAME, lambda a, b, l=_logical, f=_bits: (l if _is_bool(a) else f)(a, b))
ROWS["bitwise_not"] = (SAME, lambda x: v.logical_not(x) if _is_bool(x) else v.bit_not(x))


def _register(name: str, kind: Promotion, function: Callable) -> None:
    names = [name] if "." in name else [f"{name}.default", f"{name}.Tensor", f"{name}.Scalar"]

    @rule(*names)
    def lower(call: Call, *args: Any, **options: Any) -> v.Tensor:
        compute, result = promoted(call.fakes, kind)
        compute = _within(call, compute, result, name, *args, *options.values())
        made = function(*(operand(x, compute) for x in args), **options)
        return cast(made, result)


for _name, (_kind, _function) in ROWS.items():
    _register(_name, _kind, _function)


def _truth(x: Any) -> v.Tensor:
    return operand(x, torch.bool)


for _name, _function in (("and", v.logical_and), ("or", v.logical_or), ("xor", v.logical_xor)):
    rule(f"logical_{_name}")(lambda call, a, b, f=_function: f(_truth(a), _truth(b)))
rule("logical_not")(lambda call, x: v.logical_not(_truth(x)))


@rule("__lshift__.Tensor", "__lshift__.Scalar", "bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar",
      "__rshift__.Tensor", "__rshift__.Scalar", "bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar")
def shift(call: Call, a: Any, b: Any) -> v.Tensor:
    compute, result = promoted(call.fakes[:2], SAME)
    a, b = operand(a, compute), operand(b, compute)
    bits = torch.iinfo(compute).bits
    beyond = v.logical_or(v.less(b, scalar(0, compute)), v.greater_equal(b, scalar(bits, compute)))
    if "lshift" in str(call.node.target) or "left" in str(call.node.target):
        return cast(v.where(beyond, scalar(0, compute), v.shift_left(a, b)), result)
    last = v.shift_right(a, scalar(bits - 1, compute))  # the sign everywhere, or 0
    if compute == torch.uint8:
        last = scalar(0, compute)
    return cast(v.where(beyond, last, v.shift_right(a, b)), result)


@rule("round.decimals")
def round_to(call: Call, x: v.Tensor, *, decimals: int = 0) -> v.Tensor:
    dtype = dtype_of(x)
    if decimals == 0:
        return v.round(x) if dtype.is_floating_point else x
    if dtype not in (torch.float32, torch.float64):
        raise NotCovered(f"It rounds {dtype} to {decimals} decimals.")
    power = scalar(10.0 ** abs(decimals), dtype)
    if decimals > 0:
        return v.div(v.round(v.mul(x, power)), power)
    return v.mul(v.round(v.div(x, power)), power)


@rule("where.self")
def where(call: Call, condition: v.Tensor, a: Any, b: Any) -> v.Tensor:
    compute, result = promoted(call.fakes[1:], SAME)
    return cast(v.where(_truth(condition), operand(a, compute), operand(b, compute)), result)


@rule("clamp.default", "clamp.Tensor", "clamp_min.default", "clamp_max.default", "clamp_min.Tensor", "clamp_max.Tensor",
      "hardtanh.default")  # fmt: skip
def clamp(call: Call, x: v.Tensor, *bounds: Any, min: Any = None, max: Any = None) -> v.Tensor:
    name = str(call.node.target)
    low, high = (*bounds, None, None)[:2]
    if "clamp_max" in name:
        low, high = None, low
    if "hardtanh" in name:
        low, high = (*bounds, *(-1.0, 1.0)[len(bounds) :])
    low, high = min if low is None else low, max if high is None else high
    compute = call.dtype()
    x = cast(x, compute)
    if low is not None:
        x = v.maximum(x, operand(low, compute))
    return x if high is None else v.minimum(x, operand(high, compute))


@rule("gelu.default")
def gelu(call: Call, x: v.Tensor, *, approximate: str = "none") -> v.Tensor:
    own = dtype_of(x)
    x = cast(x, _within(call, computed_in(own), own, "gelu", x))
    return cast(v.gelu(x, form="tanh" if approximate == "tanh" else "erf"), own)


def _in_float32(function: Callable) -> Callable:
    """A function of floats, computed as ATen does: 16-bit ones in float32."""

    def lower(call: Call, x: v.Tensor, *args: Any, **options: Any) -> v.Tensor:
        return cast(function(cast(x, computed_in(dtype_of(x))), *args, **options), dtype_of(x))

    return lower


@rule("elu.default")
@_in_float32
def elu(x: v.Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> v.Tensor:
    dtype = dtype_of(x)
    below = v.mul(v.expm1(v.mul(x, scalar(input_scale, dtype))), scalar(alpha * scale, dtype))
    return v.where(v.less_equal(x, scalar(0, dtype)), below, v.mul(x, scalar(scale, dtype)))


@rule("leaky_relu.default")
@_in_float32
def leaky_relu(x: v.Tensor, slope: float = 0.01) -> v.Tensor:
    zero = scalar(0, dtype_of(x))
    return v.where(v.greater(x, zero), x, v.mul(x, scalar(slope, dtype_of(x))))


@rule("_to_copy.default")
def to_copy(call: Call, x: v.Tensor, *args: Any, **options: Any) -> v.Tensor:
    # Rounded, whatever becomes of it.
    return x if dtype_of(x) == call.dtype() else x.astype(name_of(call.dtype()))


# What goes on with a result before it is rounded: comparisons and functions take it rounded, as infinities show there.
ARITHMETIC.update(find(name) for name in (*_ARITHMETIC, "div.Tensor", "pow.Tensor_Scalar"))

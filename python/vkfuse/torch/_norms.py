"""Normalisations. Statistics are in float32, or float64 for float64; gradients are decomposed."""

from __future__ import annotations

import math
from typing import Any

from .. import _core as v
from ._dtypes import cast, computed_in, dtype_of, full, scalar
from ._reductions import moments
from ._rules import Call, rule


def _normalised(x: v.Tensor, axes: list[int], epsilon: float) -> tuple:
    """x normalised over axes, and by what: mean and inverse deviation, whose axes stay as 1."""
    mean, variance = moments(x, axes)
    inverse = v.rsqrt(v.add(variance, scalar(epsilon, dtype_of(x))))
    return v.mul(v.sub(x, mean), inverse), mean, inverse


def _scaled(x: v.Tensor, weight: Any, bias: Any, shape: Any) -> v.Tensor:
    if weight is not None:
        x = v.mul(x, cast(weight, dtype_of(x)).reshape(*shape))
    return x if bias is None else v.add(x, cast(bias, dtype_of(x)).reshape(*shape))


@rule("native_layer_norm.default")
def layer_norm(call: Call, x: v.Tensor, sizes: list[int], weight: Any, bias: Any, epsilon: float) -> tuple:
    wide = cast(x, computed_in(dtype_of(x)))
    made, mean, inverse = _normalised(wide, list(range(x.ndim - len(sizes), x.ndim)), epsilon)
    made = _scaled(made, weight, bias, sizes)
    return made, mean.reshape(*call.shape(1)), inverse.reshape(*call.shape(2))


@rule("native_group_norm.default")
def group_norm(
    call: Call, x: v.Tensor, weight: Any, bias: Any, n: int, c: int, hw: int, groups: int, epsilon: float
) -> tuple:
    wide = cast(x, computed_in(dtype_of(x))).reshape(n, groups, c // groups * hw)
    made, mean, inverse = _normalised(wide, [2], epsilon)
    made = _scaled(made.reshape(*x.shape), weight, bias, (1, c, *(1,) * (x.ndim - 2)))
    return made, mean.reshape(n, groups), inverse.reshape(n, groups)


def _channels(x: v.Tensor) -> tuple:
    return (1, x.shape[1], *(1,) * (x.ndim - 2))


def _with_batch_statistics(x: v.Tensor, weight: Any, bias: Any, epsilon: float) -> tuple:
    wide = cast(x, computed_in(dtype_of(x)))
    axes = [0, *range(2, x.ndim)]
    made, mean, inverse = _normalised(wide, axes, epsilon)
    return _scaled(made, weight, bias, _channels(x)), mean.reshape(-1), inverse.reshape(-1)


def _with_running_statistics(x: v.Tensor, weight: Any, bias: Any, mean: v.Tensor, var: v.Tensor, epsilon: float):
    wide = cast(x, computed_in(dtype_of(x)))
    mean, var = cast(mean, dtype_of(wide)), cast(var, dtype_of(wide))
    inverse = v.rsqrt(v.add(var, scalar(epsilon, dtype_of(wide))))
    made = v.mul(v.sub(wide, mean.reshape(*_channels(x))), inverse.reshape(*_channels(x)))
    return _scaled(made, weight, bias, _channels(x))


def _running(old: v.Tensor, new: v.Tensor, momentum: float) -> v.Tensor:
    new = cast(new, dtype_of(old))
    return v.add(
        v.mul(old, scalar(1 - momentum, dtype_of(old))), v.mul(new, scalar(momentum, dtype_of(old)))
    )


@rule("_native_batch_norm_legit_functional.default", "_batch_norm_with_update_functional.default")
def batch_norm_functional(
    call: Call, x: v.Tensor, weight: Any, bias: Any, mean: v.Tensor, var: v.Tensor, *how: Any
) -> tuple:
    training, momentum, epsilon = how if len(how) == 3 else (True, *how)
    empty = () if len(call.value) == 5 else (full(call.shape(3), 0, call.dtype(3)),)  # what cuDNN would keep
    if not training:
        made = _with_running_statistics(x, weight, bias, mean, var, epsilon)
        nothing = [full(call.shape(i), 0, call.dtype(i)) for i in (1, 2)]
        return made, *nothing, *empty, mean, var
    made, batch_mean, inverse = _with_batch_statistics(x, weight, bias, epsilon)
    count = math.prod(x.shape) // x.shape[1]
    _, variance = moments(cast(x, computed_in(dtype_of(x))), [0, *range(2, x.ndim)])
    unbiased = v.mul(variance.reshape(-1), scalar(count / max(count - 1, 1), dtype_of(variance)))
    running = _running(mean, batch_mean, momentum), _running(var, unbiased, momentum)
    return made, batch_mean, inverse, *empty, *running


@rule("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    call: Call, x: v.Tensor, weight: Any, bias: Any, training: bool, momentum: float, epsilon: float
) -> tuple:
    return _with_batch_statistics(x, weight, bias, epsilon)


@rule("_native_batch_norm_legit_no_training.default", "_batch_norm_no_update.default")
def batch_norm_no_training(
    call: Call, x: v.Tensor, weight: Any, bias: Any, mean: v.Tensor, var: v.Tensor, momentum: float, epsilon: float
) -> tuple:
    nothing = [full(call.shape(i), 0, call.dtype(i)) for i in range(1, len(call.value))]
    return _with_running_statistics(x, weight, bias, mean, var, epsilon), *nothing


@rule("_weight_norm_interface_backward.default")
def weight_norm_backward(
    call: Call, g: v.Tensor, direction: v.Tensor, length: v.Tensor, norms: v.Tensor, axis: int
) -> tuple:
    """Gradients of direction * (length / norms), where norms are of the direction over all axes but one."""
    others = [i for i in range(direction.ndim) if i != axis]
    dtype = dtype_of(norms)
    g, wide, factor = cast(g, dtype), cast(direction, dtype), v.div(cast(length, dtype), norms)
    along = v.div(v.mul(g, wide).sum(others, True), norms)
    return v.mul(factor, v.sub(g, v.mul(wide, v.div(along, norms)))), along

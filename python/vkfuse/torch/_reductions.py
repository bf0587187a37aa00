"""Reductions, scans and sorts."""

from __future__ import annotations

import math
from typing import Any

import torch

from .. import _core as v
from ._dtypes import NotCovered, cast, computed_in, dtype_of, scalar
from ._rules import Call, rule
from ._views import axis_of


def axes_of(axes: Any, rank: int) -> list[int]:
    """Axes in order; all where none are named."""
    if axes is None or axes == []:
        return list(range(rank))
    return sorted({axis_of(one, rank) for one in ([axes] if isinstance(axes, int) else axes)})


def _reduce(x: v.Tensor, op: str, axes: Any, keep: bool) -> v.Tensor:
    return getattr(x, op)(axes_of(axes, x.ndim), keep) if x.ndim else x


@rule("sum.dim_IntList", "sum.default")
def add_up(call: Call, x: v.Tensor, axes: Any = None, keep: bool = False, *, dtype: Any = None) -> v.Tensor:
    return _reduce(cast(x, call.dtype()), "sum", axes, keep)


@rule("mean.dim", "mean.default")
def mean(call: Call, x: v.Tensor, axes: Any = None, keep: bool = False, *, dtype: Any = None) -> v.Tensor:
    return _reduce(cast(x, call.dtype()), "mean", axes, keep)


@rule("prod.default", "prod.dim_int")
def prod(call: Call, x: v.Tensor, axis: Any = None, keep: bool = False, *, dtype: Any = None) -> v.Tensor:
    return _reduce(cast(x, call.dtype()), "prod", axis, keep)


def _largest(x: v.Tensor, op: str, axes: Any, keep: bool) -> v.Tensor:
    if dtype_of(x) == torch.bool:
        return _reduce(x, "any" if op == "max" else "all", axes, keep)
    return _reduce(x, op, axes, keep)


@rule("amax.default")
def amax(call: Call, x: v.Tensor, axes: Any = None, keep: bool = False) -> v.Tensor:
    return _largest(x, "max", axes, keep)


@rule("amin.default")
def amin(call: Call, x: v.Tensor, axes: Any = None, keep: bool = False) -> v.Tensor:
    return _largest(x, "min", axes, keep)


@rule("max.default")
def largest(call: Call, x: v.Tensor) -> v.Tensor:
    return _largest(x, "max", None, False)


@rule("min.default")
def smallest(call: Call, x: v.Tensor) -> v.Tensor:
    return _largest(x, "min", None, False)


@rule("any.default", "any.dim", "any.dims")
def any_of(call: Call, x: v.Tensor, axes: Any = None, keep: bool = False) -> v.Tensor:
    return _reduce(cast(x, torch.bool), "any", axes, keep)


@rule("all.default", "all.dim", "all.dims")
def all_of(call: Call, x: v.Tensor, axes: Any = None, keep: bool = False) -> v.Tensor:
    return _reduce(cast(x, torch.bool), "all", axes, keep)


def _as_numbers(x: v.Tensor) -> v.Tensor:
    return x.astype("int32") if dtype_of(x) == torch.bool else x


@rule("argmax.default", "argmin.default")
def position(call: Call, x: v.Tensor, axis: Any = None, keep: bool = False) -> v.Tensor:
    op = "argmax" if "argmax" in str(call.node.target) else "argmin"
    x = _as_numbers(x)
    if x.ndim == 0:
        return scalar(0, torch.int64)
    if axis is None:
        x, axis = x.reshape(-1), 0
    made = getattr(x, op)(axis_of(axis, x.ndim), False)
    return cast(made, torch.int64).reshape(*call.shape())


@rule("max.dim", "min.dim")
def largest_and_position(call: Call, x: v.Tensor, axis: int, keep: bool = False) -> tuple:
    op = "max" if "max" in str(call.node.target) else "min"
    if x.ndim == 0:
        return x, scalar(0, torch.int64)
    axis = axis_of(axis, x.ndim)
    return _largest(x, op, axis, keep), cast(getattr(_as_numbers(x), "arg" + op)(axis, keep), torch.int64)


def moments(x: v.Tensor, axes: list[int], correction: float = 0) -> tuple:
    """Mean and variance over axes, which stay as 1; of the deviations, so that nothing cancels."""
    mean = x.mean(axes, True) if axes else x
    away = v.sub(x, mean)
    square = v.mul(away, away)
    if correction == 0:
        return mean, square.mean(axes, True) if axes else square
    count = max(0, math.prod(x.shape[i] for i in axes) - correction)
    total = square.sum(axes, True) if axes else square
    return mean, v.div(total, scalar(count, dtype_of(x)))


def _var(call: Call, x: v.Tensor, axes: Any, keep: bool, correction: Any, index: int | None) -> tuple:
    if not dtype_of(x).is_floating_point:
        raise NotCovered(f"It is the variance of {dtype_of(x)}.")
    wide = cast(x, computed_in(dtype_of(x)))
    mean, variance = moments(wide, axes_of(axes, x.ndim), 1 if correction is None else correction)
    shape = call.shape(index)
    return variance.reshape(*shape), mean.reshape(*shape)


@rule("var.correction", "var.dim", "var.default")
def var(call: Call, x: v.Tensor, axes: Any = None, unbiased: Any = None, keepdim: bool = False, *,
        correction: Any = None) -> v.Tensor:  # fmt: skip
    if unbiased is not None:
        correction = int(unbiased)
    return _var(call, x, axes, keepdim, correction, None)[0]


@rule("var_mean.correction")
def var_mean(call: Call, x: v.Tensor, axes: Any = None, *, correction: Any = None, keepdim: bool = False) -> tuple:
    return _var(call, x, axes, keepdim, correction, 0)


@rule("cumsum.default", "cumprod.default")
def scan(call: Call, x: v.Tensor, axis: int, *, dtype: Any = None) -> v.Tensor:
    x = cast(x, call.dtype())
    op = "cumsum" if "cumsum" in str(call.node.target) else "cumprod"
    return getattr(x, op)(axis_of(axis, x.ndim)) if x.ndim else x


@rule("sort.default", "sort.stable", "topk.default")
def sort(call: Call, x: v.Tensor, *args: Any, **options: Any) -> tuple:
    if x.ndim == 0:
        return x, scalar(0, torch.int64)
    if "topk" in str(call.node.target):
        count, axis, descending = (*args, -1, True)[0], (*args[1:], -1)[0], (*args[2:], True)[0]
        axis, descending = options.get("dim", axis), options.get("largest", descending)
    else:
        if "stable" in str(call.node.target):
            args = args[1:] if args and "stable" not in options else args
        count, axis, descending = 0, (*args, -1)[0], (*args[1:], False)[0]
        axis, descending = options.get("dim", axis), options.get("descending", descending)
    axis = axis_of(axis, x.ndim)
    if 0 in call.shape(0):
        return x.slice(axis, 0, call.shape(0)[axis]), scalar(0, torch.int64).broadcast_to(call.shape(0))
    order = _as_numbers(x).argsort(axis, bool(descending), count)
    return x.take_along(order, axis), cast(order, torch.int64)


@rule("_softmax.default", "_log_softmax.default")
def softmax(call: Call, x: v.Tensor, axis: int, half_to_float: bool) -> v.Tensor:
    wide = cast(x, computed_in(dtype_of(x)))
    if wide.ndim == 0:
        wide = wide.reshape(1)
    function = v.log_softmax if "log" in str(call.node.target) else v.softmax
    return function(wide, axis_of(axis, wide.ndim)).reshape(*call.shape())

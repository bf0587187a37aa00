"""Pooling and interpolation."""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np
import torch

from .. import _core as v
from .._gradients import gradients
from ._dtypes import NotCovered, cast, computed_in, dtype_of, full, scalar
from ._rules import Call, rule


def _each(numbers: Any, rank: int, otherwise: Any = None) -> list[int]:
    numbers = otherwise if numbers is None or numbers == [] else numbers
    numbers = [numbers] if isinstance(numbers, int) else [*numbers]
    return numbers * rank if len(numbers) == 1 else numbers


def _batched(x: v.Tensor, rank: int) -> v.Tensor:
    return x if x.ndim == rank + 2 else x.unsqueeze(0)


def _pool_options(rank: int, size: Any, stride: Any, width: Any, dilation: Any, round_up: bool) -> dict:
    size = _each(size, rank)
    low = _each(width, rank)
    return dict(sizes=size, strides=_each(stride, rank, size), low=low, high=low, dilations=_each(dilation, rank),
                round_up=int(round_up))  # fmt: skip


@rule("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool(
    call: Call, x: v.Tensor, size: Any, stride: Any = None, width: Any = 0, dilation: Any = 1, round_up: bool = False
) -> tuple:
    rank = 3 if "3d" in str(call.node.target) else 2
    batched = _batched(x, rank)
    if 0 in call.shape(0):
        return full(call.shape(0), 0, call.dtype(0)), full(call.shape(0), 0, torch.int64)
    options = _pool_options(rank, size, stride, width, dilation, round_up)
    values, positions = v.max_pool(batched, **options), v.max_pool_positions(batched, **options)
    # Positions are counted through one plane.
    plane = math.prod(batched.shape[2:])
    positions = v.rem(positions, scalar(plane, dtype_of(positions)))
    return values.reshape(*call.shape(0)), positions.reshape(*call.shape(1))


def _elements_of_windows(x: v.Tensor, counts: list[int], options: dict) -> tuple[v.Tensor, v.Tensor]:
    """Windows [planes, windows..., elements...] over x [planes, rows, columns], and where in its plane each element
    lies: -1 in the padding."""
    positions, inside = scalar(0, torch.int64), None
    low, high = [0], [0]
    for axis, (size, count) in enumerate(zip(x.shape[1:], counts)):
        width, stride, before, step = (options[name][axis] for name in ("sizes", "strides", "low", "dilations"))
        low.append(before)
        high.append((count - 1) * stride + (width - 1) * step + 1 - size - before)
        window = v.iota([count if i == axis else 1 for i in range(4)], axis, "int64") * scalar(stride, torch.int64)
        element = v.iota([width if i == axis + 2 else 1 for i in range(4)], axis + 2, "int64")
        at = window + element * scalar(step, torch.int64) - scalar(before, torch.int64)
        of_axis = v.logical_and(v.less(scalar(-1, torch.int64), at), v.less(at, scalar(size, torch.int64)))
        positions = positions * scalar(size, torch.int64) + at
        inside = of_axis if inside is None else v.logical_and(inside, of_axis)
    windows = x.pad(low, high)
    for axis in range(2):
        windows = windows.unfold(axis + 1, options["sizes"][axis], options["strides"][axis], options["dilations"][axis])
    return windows, v.where(inside, positions, scalar(-1, torch.int64))


@rule("max_pool2d_with_indices_backward.default")
def max_pool_backward(call: Call, g: v.Tensor, x: v.Tensor, *how: Any) -> v.Tensor:
    """What each window gives to its largest element, which the forward pass has kept, added up where windows overlap:
    the transpose of cutting x into windows."""
    *options, indices = how
    dtype = computed_in(dtype_of(x))
    zeros = full((math.prod(x.shape[:-2]), *x.shape[-2:]), 0, dtype)
    if 0 in g.shape:
        return zeros.reshape(*x.shape)
    counts = [int(size) for size in g.shape[-2:]]
    defaults = [None, None, 0, 1, False][len(options):]
    windows, positions = _elements_of_windows(zeros, counts, _pool_options(2, *options, *defaults))
    each = (zeros.shape[0], *counts, 1, 1)
    is_largest = v.equal(indices.reshape(*each), positions)
    given = v.where(is_largest, cast(g, dtype).reshape(*each), scalar(0, dtype))
    return gradients(windows, zeros, given).reshape(*x.shape)


def _average(x: v.Tensor, rank: int, how: tuple) -> v.Tensor:
    size, stride, width, round_up, count_padding, divisor = (*how, *(None, 0, False, True, None)[len(how) - 1 :])
    options = _pool_options(rank, size, stride, width, 1, round_up)
    if divisor is None:
        return v.average_pool(x, count_padding=int(count_padding), **options)
    if round_up:
        raise NotCovered("It averages with a divisor that is given, and windows that hang over.")
    made = v.average_pool(x, count_padding=1, **options)
    return v.mul(made, scalar(math.prod(options["sizes"]) / divisor, dtype_of(x)))


def _forward(function: Callable) -> Callable:
    """The rule of a pooling: of x in the dtype that is computed in, with a batch."""

    def lower(call: Call, x: v.Tensor, *how: Any) -> v.Tensor:
        rank = 3 if "3d" in str(call.node.target) else 2
        if 0 in call.shape():
            return full(call.shape(), 0, call.dtype())
        if not dtype_of(x).is_floating_point:
            raise NotCovered(f"It averages {dtype_of(x)}.")
        made = function(_batched(cast(x, computed_in(dtype_of(x))), rank), rank, how)
        return made.reshape(*call.shape())

    return lower


def _backward(function: Callable) -> Callable:
    """The gradient of a pooling, which is linear in x."""

    def lower(call: Call, g: v.Tensor, x: v.Tensor, *how: Any) -> v.Tensor:
        rank = 3 if "3d" in str(call.node.target) else 2
        if 0 in call.shape() or 0 in g.shape:
            return full(call.shape(), 0, call.dtype())
        wide = _batched(cast(x, computed_in(dtype_of(x))), rank)
        g = _batched(cast(g, dtype_of(wide)), rank)
        if how == ():
            how = (list(g.shape[2:]),)
        return v._gradients([function(wide, rank, how)], [wide], [g])[0].reshape(*call.shape())

    return lower


rule("avg_pool2d.default", "avg_pool3d.default")(_forward(_average))
rule("avg_pool2d_backward.default", "avg_pool3d_backward.default")(_backward(_average))


def _means(size: int, count: int) -> np.ndarray:
    """[size, count]: what each element counts in each adaptive window."""
    made = np.zeros((size, count), np.float32)
    for i in range(count):
        start, end = i * size // count, -(-(i + 1) * size // count)
        made[start:end, i] = 1 / (end - start)
    return made


def _adaptive(x: v.Tensor, rank: int, how: tuple) -> v.Tensor:
    counts = _each(how[0], rank)
    for i, count in enumerate(counts):
        axis = 2 + i
        size = x.shape[axis]
        if size % count == 0:
            x = x.reshape(*x.shape[:axis], count, size // count, *x.shape[axis + 1 :]).mean(axis + 1)
        else:
            weights = v.constant(_means(size, count))
            x = v.matmul(x.swapaxes(axis, -1), cast(weights, dtype_of(x))).swapaxes(axis, -1)
    return x


rule("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default")(_forward(_adaptive))
rule("_adaptive_avg_pool2d_backward.default", "_adaptive_avg_pool3d_backward.default")(_backward(_adaptive))


def _nearest_positions(size: int, count: int, factor: Any) -> np.ndarray:
    """As ATen rounds: down, in float32."""
    step = np.float32(1 / factor) if factor else np.float32(size) / np.float32(count)
    return np.minimum(np.floor(np.arange(count, dtype=np.float32) * step).astype(np.int32), size - 1)


def _nearest(x: v.Tensor, counts: list[int], factors: list) -> v.Tensor:
    for i, (count, factor) in enumerate(zip(counts, factors)):
        axis, size = 2 + i, x.shape[2 + i]
        positions = _nearest_positions(size, count, factor)
        times = count // size if count % size == 0 else 0
        if times and (positions == np.arange(count) // times).all():  # a view
            shape = (*x.shape[: axis + 1], times, *x.shape[axis + 1 :])
            x = x.unsqueeze(axis + 1).broadcast_to(shape).reshape(*x.shape[:axis], count, *x.shape[axis + 1 :])
        else:
            x = x.gather(v.constant(positions), axis)
    return x


def _linear_weights(size: int, count: int, align: bool, factor: Any) -> np.ndarray:
    """[size, count]: what each element counts in each result."""
    if align:
        at = np.arange(count) * ((size - 1) / (count - 1) if count > 1 else 0.0)
    else:
        at = np.maximum((np.arange(count) + 0.5) * (1 / factor if factor else size / count) - 0.5, 0)
    low = np.minimum(at.astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    made = np.zeros((size, count))
    np.add.at(made, (low, np.arange(count)), 1 - (at - low))
    np.add.at(made, (high, np.arange(count)), at - low)
    return made.astype(np.float32)


def _linear(x: v.Tensor, counts: list[int], align: bool, factors: list) -> v.Tensor:
    for i, (count, factor) in enumerate(zip(counts, factors)):
        axis = 2 + i
        weights = cast(v.constant(_linear_weights(x.shape[axis], count, align, factor)), dtype_of(x))
        x = v.matmul(x.swapaxes(axis, -1), weights).swapaxes(axis, -1)
    return x


def _factors(factors: Any, rank: int) -> list:
    return [None] * rank if factors is None or factors == [] else [*factors]


@rule("upsample_nearest2d.vec", "upsample_nearest2d.default")
def upsample_nearest(call: Call, x: v.Tensor, sizes: Any, *factors: Any) -> v.Tensor:
    given = factors[0] if len(factors) == 1 and not isinstance(factors[0], (int, float)) else factors
    return _nearest(x, list(call.shape()[2:]), _factors(given, 2))


@rule("upsample_bilinear2d.vec", "upsample_bilinear2d.default")
def upsample_bilinear(call: Call, x: v.Tensor, sizes: Any, align: bool, *factors: Any) -> v.Tensor:
    given = factors[0] if len(factors) == 1 and not isinstance(factors[0], (int, float)) else factors
    wide = cast(x, computed_in(dtype_of(x)))
    if not dtype_of(x).is_floating_point:
        raise NotCovered(f"It interpolates {dtype_of(x)}.")
    return _linear(wide, list(call.shape()[2:]), align, _factors(given, 2))


def _gradient_of(call: Call, g: v.Tensor, forward: Callable) -> v.Tensor:
    """Of what is linear in its operand."""
    dtype = computed_in(dtype_of(g))
    at = full(call.shape(), 0, dtype)
    return v._gradients([forward(at)], [at], [cast(g, dtype)])[0]


@rule("upsample_nearest2d_backward.default", "upsample_nearest2d_backward.vec")
def upsample_nearest_backward(call: Call, g: v.Tensor, sizes: Any, input_sizes: Any, *factors: Any) -> v.Tensor:
    given = factors[0] if len(factors) == 1 and not isinstance(factors[0], (int, float)) else factors
    return _gradient_of(call, g, lambda x: _nearest(x, list(g.shape[2:]), _factors(given, 2)))


@rule("upsample_bilinear2d_backward.default", "upsample_bilinear2d_backward.vec")
def upsample_bilinear_backward(
    call: Call, g: v.Tensor, sizes: Any, input_sizes: Any, align: bool, *factors: Any
) -> v.Tensor:
    given = factors[0] if len(factors) == 1 and not isinstance(factors[0], (int, float)) else factors
    return _gradient_of(call, g, lambda x: _linear(x, list(g.shape[2:]), align, _factors(given, 2)))


def _distance(a: v.Tensor, b: v.Tensor, p: float) -> v.Tensor:
    dtype = dtype_of(a)
    away = v.abs(v.sub(a, b))
    if p == 0:
        return cast(v.not_equal(away, scalar(0, dtype)), dtype).sum(-1)
    if p == 1:
        return away.sum(-1)
    if p == 2:
        return v.sqrt(v.mul(away, away).sum(-1))
    if p == math.inf:
        return away.max(-1)
    return v.pow(v.pow(away, scalar(p, dtype)).sum(-1), scalar(1 / p, dtype))


@rule("_cdist_forward.default")
def cdist(call: Call, a: v.Tensor, b: v.Tensor, p: float, mode: Any) -> v.Tensor:
    if 0 in call.shape() or a.shape[-1] == 0:
        return full(call.shape(), 0, call.dtype())
    return _distance(a.unsqueeze(-2), b.unsqueeze(-3), p)

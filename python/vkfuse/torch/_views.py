"""Views, and what is written through them: no kernel moves elements for most of these."""

from __future__ import annotations

import math
from typing import Any

import torch

from .. import _core as v
from ._dtypes import NotCovered, cast, dtype_of, name_of, operand, scalar
from ._layout import overlaps
from ._rules import Call, rule


def axis_of(axis: int, rank: int) -> int:
    """Counted from 0; a tensor without dimensions has one in ATen's eyes."""
    return axis % max(rank, 1)


@rule("alias.default", "clone.default", "detach.default", "lift_fresh_copy.default", "lift_fresh.default",
      "alias_copy.default", "view_copy.default")  # fmt: skip
def same(call: Call, x: v.Tensor, *shape: Any, **options: Any) -> v.Tensor:
    return x.reshape(*call.shape()) if tuple(x.shape) != call.shape() else x


@rule("view.default", "_unsafe_view.default", "_reshape_alias.default", "squeeze.default",
      "squeeze.dim", "squeeze.dims", "unsqueeze.default")  # fmt: skip
def reshape(call: Call, x: v.Tensor, *how: Any, **options: Any) -> v.Tensor:
    return x.reshape(*call.shape())


@rule("view.dtype")
def bits(call: Call, x: v.Tensor, dtype: torch.dtype) -> v.Tensor:
    if dtype.itemsize != dtype_of(x).itemsize or torch.bool in (dtype, dtype_of(x)):
        raise NotCovered(f"The bits of {dtype_of(x)} are read as {dtype}.")
    if dtype in (torch.float16, torch.bfloat16) or dtype_of(x) in (torch.float16, torch.bfloat16):
        raise NotCovered("The bits of a NaN of 16 bits would not be kept.")
    return x.bitcast(name_of(dtype))


@rule("permute.default")
def permute(call: Call, x: v.Tensor, axes: list[int]) -> v.Tensor:
    return x.permute(*(axis_of(one, x.ndim) for one in axes)) if x.ndim else x


@rule("t.default", "transpose.int")
def transpose(call: Call, x: v.Tensor, a: int = 0, b: int = 1) -> v.Tensor:
    if x.ndim < 2:
        return x
    return x.swapaxes(axis_of(a, x.ndim), axis_of(b, x.ndim))


@rule("expand.default")
def expand(call: Call, x: v.Tensor, sizes: list[int], **options: Any) -> v.Tensor:
    return x.broadcast_to(call.shape())


@rule("select.int")
def select(call: Call, x: v.Tensor, axis: int, index: int) -> v.Tensor:
    return x.select(axis_of(axis, x.ndim), index)


def _bounds(start: Any, end: Any, size: int) -> tuple[int, int]:
    start, end = 0 if start is None else start, size if end is None else end
    start, end = (one + size if one < 0 else one for one in (start, end))
    start = min(max(start, 0), size)
    return start, min(max(end, start), size)


@rule("slice.Tensor")
def cut(call: Call, x: v.Tensor, axis: int = 0, start: Any = None, end: Any = None, step: int = 1) -> v.Tensor:
    axis = axis_of(axis, x.ndim)
    start, end = _bounds(start, end, x.shape[axis])
    return x if (start, end, step) == (0, x.shape[axis], 1) else x.slice(axis, start, end, step)


@rule("slice_scatter.default")
def assign_slice(
    call: Call, x: v.Tensor, update: v.Tensor, axis: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> v.Tensor:
    axis = axis_of(axis, x.ndim)
    start, end = _bounds(start, end, x.shape[axis])
    count = max(0, -(-(end - start) // step))
    if count == 0:
        return x
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    starts, steps = [0] * x.ndim, [1] * x.ndim
    starts[axis], steps[axis] = start, step
    return x.slice_assign(cast(update, dtype_of(x)).broadcast_to(shape), starts, steps)


@rule("select_scatter.default")
def assign_select(call: Call, x: v.Tensor, update: v.Tensor, axis: int, index: int) -> v.Tensor:
    axis = axis_of(axis, x.ndim)
    starts = [0] * x.ndim
    starts[axis] = index % x.shape[axis]
    return x.slice_assign(cast(update, dtype_of(x)).unsqueeze(axis), starts)


@rule("split_with_sizes.default", "split.Tensor", "unbind.int")
def split(call: Call, x: v.Tensor, sizes: Any = None, axis: int = 0) -> tuple:
    if "unbind" in str(call.node.target):
        axis = axis_of(sizes or 0, x.ndim)
        return tuple(x.select(axis, i) for i in range(x.shape[axis]))
    axis, at, parts = axis_of(axis, x.ndim), 0, []
    for i in range(len(call.value)):
        size = call.shape(i)[axis]
        parts.append(x.slice(axis, at, at + size))
        at += size
    return tuple(parts)


@rule("cat.default")
def cat(call: Call, tensors: list, axis: int = 0) -> v.Tensor:
    dtype = call.dtype()
    # An empty tensor of one dimension joins anything.
    kept = [cast(x, dtype) for x in tensors if tuple(x.shape) != (0,)] or [cast(tensors[0], dtype)]
    return v.concat(kept, axis_of(axis, kept[0].ndim)) if len(kept) > 1 else kept[0]


@rule("constant_pad_nd.default")
def pad(call: Call, x: v.Tensor, widths: list[int], value: Any = 0) -> v.Tensor:
    low, high = [0] * x.ndim, [0] * x.ndim
    for i in range(len(widths) // 2):
        low[x.ndim - 1 - i], high[x.ndim - 1 - i] = widths[2 * i], widths[2 * i + 1]
    if all(one <= 0 for one in low + high):
        return x.pad(low, high)
    if float(value) != float(value):
        raise NotCovered("It pads with NaN.")
    if dtype_of(x).is_floating_point:
        return x.pad(low, high, float(value))
    if int(float(int(value))) != int(value):
        raise NotCovered("It pads with an integer that no double holds.")
    return x.pad(low, high, int(value))


@rule("flip.default")
def flip(call: Call, x: v.Tensor, axes: list[int]) -> v.Tensor:
    return x.reverse(sorted({axis_of(one, x.ndim) for one in axes})) if axes and x.ndim else x


@rule("repeat.default")
def repeat(call: Call, x: v.Tensor, times: list[int]) -> v.Tensor:
    x = x.reshape(*(1,) * (len(times) - x.ndim), *x.shape)
    if 0 in times or 0 in x.shape:
        return scalar(0, dtype_of(x)).broadcast_to(call.shape())
    return x.tile(times)


@rule("unfold.default")
def unfold(call: Call, x: v.Tensor, axis: int, size: int, step: int) -> v.Tensor:
    return x.unfold(axis_of(axis, x.ndim), size, step, 1) if x.ndim else x.reshape(*call.shape())


def _positions(shape: tuple, strides: Any, offset: int) -> v.Tensor:
    """offset + the sum of index * stride, an int32 for each element."""
    made = scalar(offset, torch.int32).broadcast_to(shape)
    for axis, stride in enumerate(strides):
        if shape[axis] > 1 and stride:
            made = v.add(made, v.mul(v.iota(shape, axis, "int32"), scalar(stride, torch.int32)))
    return made


def _check_reach(x: v.Tensor, shape: tuple, strides: Any, offset: int) -> None:
    """Positions are int32, and inside."""
    count = math.prod(x.shape)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides))
    if offset < 0 or last >= count or count >= 2**31:
        raise NotCovered(f"Its view has elements up to the {last}th of {count}.")


def strided(x: v.Tensor, shape: tuple, strides: Any, offset: int) -> v.Tensor:
    """Elements of a dense tensor at other strides."""
    if 0 in x.shape or 0 in shape:
        return scalar(0, dtype_of(x)).broadcast_to(shape)
    _check_reach(x, shape, strides, offset)
    return x.reshape(-1).gather(_positions(shape, strides, offset), 0)


@rule("as_strided.default")
def as_strided(call: Call, x: v.Tensor, shape: Any, strides: Any, offset: Any = None) -> v.Tensor:
    fake = call.fakes[0]
    if not fake.is_contiguous() or fake.storage_offset() != 0:
        raise NotCovered("Its operand is a view, and what lies between its elements is read.")
    return strided(x, call.shape(), strides, offset or 0)


@rule("diagonal_scatter.default")
def assign_diagonal(
    call: Call, x: v.Tensor, update: v.Tensor, offset: int = 0, first: int = 0, second: int = 1
) -> v.Tensor:
    first, second = axis_of(first, x.ndim), axis_of(second, x.ndim)
    strides = [math.prod(x.shape[axis + 1 :]) for axis in range(x.ndim)]
    begin = offset * strides[second] if offset >= 0 else -offset * strides[first]
    along = [stride for axis, stride in enumerate(strides) if axis not in (first, second)]
    along.append(strides[first] + strides[second])
    if 0 in update.shape or 0 in x.shape:
        return x
    _check_reach(x, tuple(update.shape), along, begin)
    return _scattered(x, update, along, begin)


def _scattered(x: v.Tensor, update: v.Tensor, strides: Any, offset: int) -> v.Tensor:
    """x with other elements where a view of it is, no two of which are one in memory."""
    positions = _positions(tuple(update.shape), strides, offset).reshape(-1)
    return x.reshape(-1).scatter(positions, cast(update, dtype_of(x)).reshape(-1), "set").reshape(x.shape)


@rule("as_strided_scatter.default")
def as_strided_scatter(
    call: Call, x: v.Tensor, source: v.Tensor, shape: Any, strides: Any, offset: Any = None
) -> v.Tensor:
    """x with other elements where the view is. It is dense afterwards, as eager has it."""
    fake = call.fakes[0]
    if not fake.is_contiguous() or fake.storage_offset() != 0:
        raise NotCovered("Its operand is a view, and what lies between its elements is written.")
    shape, sizes = tuple(source.shape), call.state.sizes
    strides, offset = sizes.numbers(strides), sizes.number(offset or 0)
    if 0 in shape or 0 in x.shape:
        return x
    _check_reach(x, shape, strides, offset)
    if overlaps(shape, strides):
        raise NotCovered("Elements of its view are one in memory.")
    return _scattered(x, source, strides, offset)


@rule("diagonal.default")
def diagonal(call: Call, x: v.Tensor, offset: int = 0, a: int = 0, b: int = 1) -> v.Tensor:
    a, b = axis_of(a, x.ndim), axis_of(b, x.ndim)
    rest = [i for i in range(x.ndim) if i not in (a, b)]
    shape, columns = call.shape(), x.shape[b]
    flat = x.permute(*rest, a, b).reshape(*shape[:-1], x.shape[a] * columns)
    if 0 in shape:
        return scalar(0, dtype_of(x)).broadcast_to(shape)
    start = offset if offset >= 0 else -offset * columns
    return flat.gather(_positions(shape[-1:], (columns + 1,), start), len(rest))


@rule("copy.default")
def copy(call: Call, x: v.Tensor, other: v.Tensor, non_blocking: bool = False) -> v.Tensor:
    return operand(other, dtype_of(x)).broadcast_to(x.shape)

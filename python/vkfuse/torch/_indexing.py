"""Gathers and scatters. Eager raises an error for positions out of range, and so does the call of a graph."""

from __future__ import annotations

import math
from typing import Any

import torch

from .. import _core as v
from ._bounds import within
from ._dtypes import NotCovered, cast, computed_in, dtype_of, scalar
from ._rules import Call, rule
from ._views import axis_of


def _in_range(call: Call, positions: v.Tensor, node: Any, size: int, least: int, what: str) -> v.Tensor:
    """Positions as they are counted from 0, checked unless the graph shows that they are in range."""
    dtype = dtype_of(positions)
    known = within(node, call.state.sizes)
    if known is None or known[0] < least or known[1] >= size:
        if size == 0 and math.prod(positions.shape):
            raise NotCovered("It has positions in an axis without elements.")
        right = v.logical_and(
            v.greater_equal(positions, scalar(least, dtype)), v.less(positions, scalar(size, dtype))
        )
        call.check(right, f"An index of {what} is out of range for an axis of {size} elements.")
    if least < 0 and (known is None or known[0] < 0):
        positions = v.where(v.less(positions, scalar(0, dtype)), v.add(positions, scalar(size, dtype)), positions)
    return positions


@rule("embedding.default")
def embedding(call: Call, table: v.Tensor, indices: v.Tensor, *options: Any, **more: Any) -> v.Tensor:
    indices = _in_range(call, indices, call.node.args[1], table.shape[0], 0, "embedding()")
    return table.gather(indices, 0)


@rule("embedding_dense_backward.default")
def embedding_backward(call: Call, g: v.Tensor, indices: v.Tensor, rows: int, padding: int, by_count: bool) -> v.Tensor:
    if by_count:
        raise NotCovered("Gradients are scaled by how often a row is read.")
    flat = indices.reshape(-1)
    g = g.reshape(flat.shape[0], *g.shape[indices.ndim :])
    if padding >= 0:  # of no row
        flat = v.where(v.equal(flat, scalar(padding, dtype_of(flat))), scalar(-1, dtype_of(flat)), flat)
    return scalar(0, dtype_of(g)).broadcast_to((rows, *g.shape[1:])).scatter(flat, g, "add")


@rule("index_select.default")
def index_select(call: Call, x: v.Tensor, axis: int, indices: v.Tensor) -> v.Tensor:
    if x.ndim == 0:
        return x
    axis = axis_of(axis, x.ndim)
    indices = _in_range(call, indices, call.node.args[2], x.shape[axis], 0, "index_select()")
    return x.gather(indices.reshape(-1), axis)


def _smaller(x: v.Tensor, shape: Any, axis: int) -> v.Tensor:
    """x without what positions of this shape do not reach along the other axes."""
    for i, size in enumerate(shape):
        if i != axis and size < x.shape[i]:
            x = x.slice(i, 0, size)
    return x


@rule("gather.default")
def gather(call: Call, x: v.Tensor, axis: int, indices: v.Tensor, **options: Any) -> v.Tensor:
    if x.ndim == 0 or indices.ndim == 0:
        return x.reshape(*indices.shape)
    if 0 in indices.shape:
        return scalar(0, dtype_of(x)).broadcast_to(call.shape())
    axis = axis_of(axis, x.ndim)
    indices = _in_range(call, indices, call.node.args[2], x.shape[axis], 0, "gather()")
    return _smaller(x, indices.shape, axis).take_along(indices, axis)


def _scattered(call: Call, x: v.Tensor, axis: int, indices: v.Tensor, updates: v.Tensor, mode: str) -> v.Tensor:
    if 0 in indices.shape or 0 in x.shape:
        return x
    if x.ndim == 0:
        x, flat = x.reshape(1), True
    else:
        flat = False
    shape = indices.shape or (1,)
    axis, indices = axis_of(axis, x.ndim), indices.reshape(*shape)
    updates = _smaller(cast(updates, dtype_of(x)).reshape(*(updates.shape or (1,))), shape, -1)
    indices = _in_range(call, indices, call.node.args[2], x.shape[axis], 0, "scatter()")
    part = _smaller(x, shape, axis)
    made = v.scatter_along(part, indices, updates, axis=axis, mode=mode)
    if part.shape != x.shape:
        made = x.slice_assign(made, [0] * x.ndim)
    return made.reshape() if flat else made


@rule("scatter.src", "scatter.value", "scatter_add.default")
def scatter(call: Call, x: v.Tensor, axis: int, indices: v.Tensor, updates: Any) -> v.Tensor:
    if not isinstance(updates, v.Tensor):
        updates = scalar(updates, dtype_of(x)).broadcast_to(tuple(indices.shape))
    mode = "add" if "scatter_add" in str(call.node.target) else "set"
    return _joined(call, x, axis, indices, updates, mode)


def _joined(call: Call, x: v.Tensor, axis: int, indices: v.Tensor, updates: v.Tensor, mode: str) -> v.Tensor:
    """In the dtype that sums are made in: 16-bit floats are rounded once, as ATen's are at most."""
    dtype = dtype_of(x)
    if dtype != torch.bool or mode == "set":
        return _scattered(call, x, axis, indices, updates, mode)
    made = _scattered(call, cast(x, torch.int32), axis, indices, cast(updates, torch.int32), mode)
    return cast(made, dtype)


_REDUCE = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _identity(mode: str, dtype: torch.dtype) -> Any:
    """What changes nothing that it is joined with."""
    if mode in ("add", "mul"):
        return 0 if mode == "add" else 1
    if dtype.is_floating_point:
        return -math.inf if mode == "max" else math.inf
    return torch.iinfo(dtype).min if mode == "max" else torch.iinfo(dtype).max


@rule("scatter_reduce.two")
def scatter_reduce(
    call: Call, x: v.Tensor, axis: int, indices: v.Tensor, updates: v.Tensor, how: str, *, include_self: bool = True
) -> v.Tensor:
    dtype, mode = dtype_of(x), _REDUCE.get(how)
    if mode is None or dtype == torch.bool or (how == "mean" and not dtype.is_floating_point):
        raise NotCovered(f"It reduces {dtype} by '{how}'.")
    if include_self and how != "mean":
        return _scattered(call, x, axis, indices, updates, mode)
    wide = cast(x, computed_in(dtype))
    once = scalar(1, torch.int32).broadcast_to(tuple(updates.shape))
    nothing = scalar(0, torch.int32).broadcast_to(tuple(x.shape))
    count = _scattered(call, nothing, axis, indices, once, "add")
    is_met = v.greater(count, scalar(0, torch.int32))
    start = scalar(_identity(mode, dtype), dtype_of(wide))
    made = wide if include_self else v.where(is_met, start, wide)
    made = _scattered(call, made, axis, indices, cast(updates, dtype_of(wide)), mode)
    if how == "mean":
        count = v.maximum(v.add(count, scalar(int(include_self), torch.int32)), scalar(1, torch.int32))
        made = v.div(made, cast(count, dtype_of(wide)))
    return made


def _flat_positions(call: Call, indices: list, nodes: list, sizes: list[int], what: str) -> tuple:
    """One position for several axes, and the shape that the indices broadcast to."""
    shape = torch.broadcast_shapes(*(tuple(one.shape) for one in indices))
    total = None
    for one, node, size in zip(indices, nodes, sizes):
        one = cast(_in_range(call, one, node, size, -size, what), torch.int64).broadcast_to(shape)
        total = one if total is None else v.add(v.mul(total, scalar(size, torch.int64)), one)
    if math.prod(sizes) < 2**31:
        total = cast(total, torch.int32)
    return total, shape


def _indexed(call: Call, x: v.Tensor, indices: list) -> tuple:
    """The axes that are indexed, their indices, and where ATen puts what these broadcast to."""
    axes = [i for i, one in enumerate(indices) if one is not None]
    given, nodes = [indices[i] for i in axes], [call.node.args[1][i] for i in axes]
    if any(dtype_of(one) == torch.bool for one in given):
        raise NotCovered("It is indexed with bools, whose number decides the shape.")
    rest = [i for i in range(x.ndim) if i not in axes]
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    return axes, rest, given, nodes, axes[0] if together else 0


@rule("index.Tensor", "_unsafe_index.Tensor")
def index(call: Call, x: v.Tensor, indices: list) -> v.Tensor:
    axes, rest, given, nodes, place = _indexed(call, x, indices)
    if 0 in call.shape():
        return scalar(0, dtype_of(x)).broadcast_to(call.shape())
    sizes = [x.shape[i] for i in axes]
    at, shape = _flat_positions(call, given, nodes, sizes, "an index")
    x = x.permute(*rest[:place], *axes, *rest[place:]) if x.ndim > 1 else x
    others = [x.shape[i] for i in range(place)], x.shape[place + len(axes) :]
    return x.reshape(*others[0], math.prod(sizes), *others[1]).gather(at, place)


@rule("index_put.default", "_unsafe_index_put.default")
def index_put(call: Call, x: v.Tensor, indices: list, updates: v.Tensor, accumulate: bool = False) -> v.Tensor:
    if len([one for one in indices if one is not None]) == 1 and dtype_of(next(
            one for one in indices if one is not None)) == torch.bool:  # fmt: skip
        return _masked_put(x, indices, updates, accumulate)
    axes, rest, given, nodes, place = _indexed(call, x, indices)
    sizes = [x.shape[i] for i in axes]
    if 0 in x.shape:
        return x
    at, shape = _flat_positions(call, given, nodes, sizes, "an index")
    if 0 in shape:
        return x
    others = [x.shape[i] for i in rest]
    base = x.permute(*axes, *rest).reshape(math.prod(sizes), *others)
    full = (*others[:place], *shape, *others[place:])
    updates = cast(updates, dtype_of(x)).broadcast_to(full)
    order = [*range(place, place + len(shape)), *range(place), *range(place + len(shape), len(full))]
    updates = updates.permute(*order) if len(full) > 1 else updates
    updates = updates.reshape(math.prod(shape), *others)
    mode = "add" if accumulate else "set"
    if dtype_of(x) == torch.bool and accumulate:
        made = cast(base, torch.int32).scatter(at.reshape(-1), cast(updates, torch.int32), mode)
        made = cast(made, torch.bool)
    else:
        made = base.scatter(at.reshape(-1), updates, mode)
    made = made.reshape(*sizes, *others)
    back = [0] * x.ndim
    for i, axis in enumerate([*axes, *rest]):
        back[axis] = i
    return made.permute(*back) if x.ndim > 1 else made


def _masked_put(x: v.Tensor, indices: list, updates: v.Tensor, accumulate: bool) -> v.Tensor:
    """One value where a mask is true."""
    mask = indices[0]
    if mask is None or accumulate or math.prod(updates.shape) != 1:
        raise NotCovered("It is indexed with bools, whose number decides the shape.")
    mask = mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim))
    return v.where(mask, cast(updates, dtype_of(x)).reshape(*(1,) * x.ndim), x)


@rule("masked_scatter.default")
def masked_scatter(call: Call, x: v.Tensor, mask: v.Tensor, source: v.Tensor) -> v.Tensor:
    count = math.prod(source.shape)
    if count == 0 or 0 in x.shape:
        return x
    mask = mask.broadcast_to(tuple(x.shape))
    place = v.sub(mask.reshape(-1).astype("int32").cumsum(0), scalar(1, torch.int32))
    right = v.less(place.slice(0, -1, 2**62).reshape(), scalar(count, torch.int32))
    call.check(right, f"masked_scatter() has {count} elements for more places.")
    taken = source.reshape(-1).gather(place, 0).reshape(*x.shape)
    return v.where(mask, cast(taken, dtype_of(x)), x)

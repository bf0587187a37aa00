"""Which numbers an integer of the graph may be, as far as the graph shows it: positions that are in range anyway are
not checked in every call."""

from __future__ import annotations

import math
from typing import Any

import torch

from ._rules import aten

_SAME = {
    aten.view.default, aten.expand.default, aten.permute.default, aten.unsqueeze.default, aten.alias.default,
    aten.clone.default, aten.slice.Tensor, aten.select.int, aten.squeeze.dim, aten.squeeze.dims,
    aten.repeat.default, aten.flip.default, aten._unsafe_view.default,
}  # fmt: skip
_DEPTH = 32


def within(node: Any, sizes: Any, depth: int = 0) -> tuple[int, int] | None:
    """The least and the largest number, or None where they are not known. Numbers with fractions are between integers.
    """
    if isinstance(node, (int, float)):
        return (math.floor(node), math.ceil(node)) if math.isfinite(node) else None
    if not isinstance(node, torch.fx.Node) or node.op != "call_function" or depth > _DEPTH:
        return None
    rule = _RULES.get(node.target)
    if rule is None and node.target not in _SAME:
        return None
    if node.target in _SAME:
        return within(node.args[0], sizes, depth + 1)
    return _exact(rule(node, sizes, lambda one: within(one, sizes, depth + 1)), node.meta["val"].dtype)


def _exact(bounds: tuple[int, int] | None, dtype: torch.dtype) -> tuple[int, int] | None:
    """Bounds that a dtype holds: other integers wrap around, and other floats are rounded."""
    if bounds is None or dtype == torch.bool or dtype.is_complex:
        return None
    if dtype.is_floating_point:
        most = round(2 / torch.finfo(dtype).eps)
        return bounds if -most <= bounds[0] and bounds[1] <= most else None
    limits = torch.iinfo(dtype)
    return bounds if limits.min <= bounds[0] and bounds[1] <= limits.max else None


def _arange(node: Any, sizes: Any, of: Any) -> tuple[int, int] | None:
    value = node.meta["val"]
    if value.dtype.is_floating_point or not all(isinstance(one, int) for one in node.args):
        return None
    start, step = (0, 1) if len(node.args) == 1 else (node.args[0], node.args[2] if len(node.args) > 2 else 1)
    last = start + (max(1, sizes.shape_of(value)[0]) - 1) * step
    return min(start, last), max(start, last)


def _full(node: Any, sizes: Any, of: Any) -> tuple[int, int] | None:
    return of(node.args[-1] if node.target == aten.full.default else node.args[0])


def _both(node: Any, of: Any) -> tuple | None:
    a, b = of(node.args[0]), of(node.args[1])
    return None if a is None or b is None or node.kwargs else (a, b)


def _add(node: Any, sizes: Any, of: Any) -> tuple[int, int] | None:
    both = _both(node, of)
    return both and (both[0][0] + both[1][0], both[0][1] + both[1][1])


def _sub(node: Any, sizes: Any, of: Any) -> tuple[int, int] | None:
    both = _both(node, of)
    return both and (both[0][0] - both[1][1], both[0][1] - both[1][0])


def _mul(node: Any, sizes: Any, of: Any) -> tuple[int, int] | None:
    both = _both(node, of)
    corners = both and [x * y for x in both[0] for y in both[1]]
    return corners and (min(corners), max(corners))


def _where(node: Any, sizes: Any, of: Any) -> tuple[int, int] | None:
    a, b = of(node.args[1]), of(node.args[2])
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _minimum(node: Any, sizes: Any, of: Any) -> tuple[int, int] | None:
    both = _both(node, of)
    return both and (min(both[0][0], both[1][0]), min(both[0][1], both[1][1]))


def _clamp(node: Any, sizes: Any, of: Any) -> tuple[int, int] | None:
    x = of(node.args[0])
    low, high = (*node.args[1:], None, None)[:2]
    given = node.kwargs.get("min", low), node.kwargs.get("max", high)
    low, high = (None if one is None else of(one) for one in given)
    if any(bound is None and one is not None for bound, one in zip((low, high), given)):
        return None  # a size, or infinity
    if x is None and (low is None or high is None):
        return None
    least, most = (low[0], high[1]) if x is None else x
    if low is not None:
        least, most = max(least, low[0]), max(most, low[1])
    if high is not None:
        least, most = min(least, high[0]), min(most, high[1])
    return least, most


def _converted(node: Any, sizes: Any, of: Any) -> tuple[int, int] | None:
    return None if node.meta["val"].dtype.is_floating_point else of(node.args[0])


_RULES = {
    aten._to_copy.default: _converted,
    aten.arange.start_step: _arange, aten.arange.default: _arange, aten.arange.start: _arange,
    aten.full.default: _full, aten.scalar_tensor.default: _full, aten.add.Tensor: _add, aten.sub.Tensor: _sub,
    aten.mul.Tensor: _mul, aten.where.self: _where, aten.minimum.default: _minimum, aten.clamp.default: _clamp,
}  # fmt: skip

"""Tensors of one value and of numbers in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .. import _core as v
from ._dtypes import cast, full, name_of, operand, scalar
from ._rules import Call, rule


@rule("full.default", "full_like.default", "fill.Scalar")
def filled(call: Call, shape: Any, value: Any, *args: Any, **options: Any) -> v.Tensor:
    return full(call.shape(), value, call.dtype())


@rule("new_full.default")
def new_filled(call: Call, x: v.Tensor, shape: Any, value: Any, **options: Any) -> v.Tensor:
    return full(call.shape(), value, call.dtype())


@rule("fill.Tensor")
def filled_with(call: Call, x: v.Tensor, value: v.Tensor) -> v.Tensor:
    return operand(value, call.dtype()).broadcast_to(call.shape())


@rule("scalar_tensor.default")
def scalar_tensor(call: Call, value: Any, **options: Any) -> v.Tensor:
    return scalar(value, call.dtype())


# Nothing in particular is in these: zeros are as good as anything, and the same in every run.
@rule("empty.memory_format", "empty_strided.default", "empty_like.default", "new_empty.default",
      "new_empty_strided.default", "empty_permuted.default", "zeros_like.default", "new_zeros.default",
      "zeros.default")  # fmt: skip
def zeros(call: Call, *args: Any, **options: Any) -> v.Tensor:
    return full(call.shape(), 0, call.dtype())


@rule("ones.default", "ones_like.default", "new_ones.default")
def ones(call: Call, *args: Any, **options: Any) -> v.Tensor:
    return full(call.shape(), 1, call.dtype())


@rule("arange.start_step", "arange.start", "arange.default")
def arange(call: Call, *bounds: Any, **options: Any) -> v.Tensor:
    start, step = (0, 1) if len(bounds) == 1 else (bounds[0], bounds[2] if len(bounds) > 2 else 1)
    dtype, (count,) = call.dtype(), call.shape()
    if dtype.is_floating_point:  # ATen computes each in float64, and rounds once
        made = np.arange(count, dtype=np.float64) * float(step) + float(start)
        wide = made if dtype == torch.float64 else made.astype(np.float32)
        return cast(v.constant(wide), dtype)
    made = v.iota((count,), 0, name_of(dtype))
    made = v.mul(made, scalar(step, dtype)) if step != 1 else made
    return v.add(made, scalar(start, dtype)) if start != 0 else made

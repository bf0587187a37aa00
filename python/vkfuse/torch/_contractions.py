"""Matrix products and convolutions, with the gradients of these."""

from __future__ import annotations

from typing import Any

from .. import _core as v
from ._dtypes import cast, dtype_of, full, scalar
from ._rules import Call, rule


@rule("mm.default", "bmm.default", "mv.default", "dot.default")
def product(call: Call, a: v.Tensor, b: v.Tensor) -> v.Tensor:
    return v.matmul(a, b)


def _scaled(x: v.Tensor, factor: Any) -> v.Tensor:
    return x if factor == 1 else v.mul(x, scalar(factor, dtype_of(x)))


@rule("addmm.default", "baddbmm.default", "addmv.default", "addbmm.default")
def sum_and_product(
    call: Call, x: v.Tensor, a: v.Tensor, b: v.Tensor, *, beta: Any = 1, alpha: Any = 1
) -> v.Tensor:
    if "addbmm" in str(call.node.target):  # the products of all matrices are added up
        a, b = a.permute(1, 0, 2).reshape(a.shape[1], -1), b.reshape(-1, b.shape[2])
    made = _scaled(v.matmul(a, b), alpha)
    # x is not read where beta is 0: a NaN in it has no say.
    return made if beta == 0 else v.add(made, _scaled(x, beta)).broadcast_to(call.shape())


def _convolved(x: v.Tensor, w: v.Tensor, how: tuple) -> v.Tensor:
    strides, widths, dilations, transposed, appended, groups = how
    rank = x.ndim - 2
    strides, widths, dilations, appended = ([*one] * (rank if len(one) == 1 else 1) for one in
                                            (strides, widths, dilations, appended))  # fmt: skip
    if not transposed:
        return v.conv(x, w, strides=strides, low=widths, high=widths, dilations=dilations, groups=groups)
    high = [width - more for width, more in zip(widths, appended)]
    return v.conv_transpose(x, w, strides=strides, low=widths, high=high, dilations=dilations, groups=groups)


@rule("convolution.default")
def convolution(call: Call, x: v.Tensor, w: v.Tensor, bias: Any, *how: Any) -> v.Tensor:
    if 0 in x.shape or 0 in call.shape():
        made = full(call.shape(), 0, call.dtype())
    else:
        made = _convolved(x, w, how)
    if bias is None:
        return made
    return v.add(made, cast(bias, dtype_of(made)).reshape(1, -1, *(1,) * (made.ndim - 2)))


@rule("convolution_backward.default")
def convolution_backward(call: Call, g: v.Tensor, x: v.Tensor, w: v.Tensor, bias: Any, *how: Any) -> tuple:
    *how, mask = how
    wrt = [one for one, needed in zip((x, w), mask) if needed]
    made = iter(v._gradients([_convolved(x, w, tuple(how))], wrt, [g]) if wrt else [])
    slopes = [next(made) if needed else None for needed in mask[:2]]
    of_bias = g.sum([0, *range(2, g.ndim)]) if mask[2] else None
    return (*slopes, of_bias)

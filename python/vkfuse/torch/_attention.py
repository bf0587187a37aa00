"""Attention: PyTorch's fused op of the host, forward and backward. Neither is decomposed: the forward op's
decomposition does not give what the backward op takes."""

from __future__ import annotations

import math
from typing import Any

from .. import _core as v
from ._dtypes import NotCovered, cast, computed_in, dtype_of, scalar
from ._rules import Call, rule


def _grouped(q: v.Tensor, k: v.Tensor) -> None:
    if q.shape[1] % k.shape[1] != 0:
        raise NotCovered(f"{q.shape[1]} heads share {k.shape[1]}.")


def _options(causal: bool, mask: Any, scale: Any) -> dict:
    options = {"causal": bool(causal)}
    if scale is not None:
        options["scale"] = scale
    if mask is not None:
        options["mask" if str(mask.dtype) == "bool" else "bias"] = mask
    return options


def _masked(q: v.Tensor, mask: Any) -> Any:
    return mask if mask is None or str(mask.dtype) == "bool" else cast(mask, dtype_of(q))


@rule("_scaled_dot_product_flash_attention_for_cpu.default")
def attention(
    call: Call, q: v.Tensor, k: v.Tensor, v_: v.Tensor, dropout: float = 0.0, is_causal: bool = False, *,
    attn_mask: Any = None, scale: Any = None
) -> tuple:  # fmt: skip
    if dropout > 0:
        raise NotCovered("It drops weights at random.")
    _grouped(q, k)
    mask = _masked(q, attn_mask)
    made = v.attention(q, k, v_, **_options(is_causal, mask, scale))
    wide = [cast(one, computed_in(dtype_of(one))) for one in (q, k)]
    scores = v.attention_scores(*wide, **_options(is_causal, _masked(wide[0], attn_mask), scale))
    top = scores.max(-1, True)
    top = v.where(v.is_finite(top), top, scalar(0, dtype_of(top)))
    total = v.exp(v.sub(scores, top)).sum(-1, True)
    sums = v.add(v.log(total), top)
    # A query that may look at no key has zeros in eager.
    nothing = v.equal(total, scalar(0, dtype_of(total)))
    if attn_mask is not None:
        made = v.where(nothing, scalar(0, dtype_of(made)), made)
    return made, sums.reshape(*call.shape(1))


def _shared(x: v.Tensor, heads: int) -> v.Tensor:
    """Heads of keys, repeated for the heads of queries that share them."""
    n, k, s, d = x.shape
    return x if k == heads else x.unsqueeze(2).broadcast_to((n, k, heads // k, s, d)).reshape(n, heads, s, d)


def _gathered(x: v.Tensor, heads: int) -> v.Tensor:
    n, k, s, d = x.shape
    return x if k == heads else x.reshape(n, heads, k // heads, s, d).sum(2)


@rule("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def attention_backward(
    call: Call, g: v.Tensor, q: v.Tensor, k: v.Tensor, v_: v.Tensor, out: v.Tensor, log_sum_exp: v.Tensor,
    dropout: float, is_causal: bool, *, attn_mask: Any = None, scale: Any = None
) -> tuple:  # fmt: skip
    if dropout > 0:
        raise NotCovered("It drops weights at random.")
    heads, key_heads = q.shape[1], k.shape[1]
    dtype = computed_in(dtype_of(q))
    factor = scalar(1 / math.sqrt(q.shape[-1]) if scale is None else scale, dtype)
    g, q, k, v_, out = (cast(one, dtype) for one in (g, q, k, v_, out))
    k, v_ = _shared(k, heads), _shared(v_, heads)
    scores = v.attention_scores(q, k, **_options(is_causal, _masked(q, attn_mask), scale))
    sums = cast(log_sum_exp, dtype).unsqueeze(-1)
    weights = v.exp(v.sub(scores, sums))
    if attn_mask is not None:
        weights = v.where(v.is_inf(sums), scalar(0, dtype), weights)
    of_v = v.matmul(weights.swapaxes(-1, -2), g)
    of_weights = v.matmul(g, v_.swapaxes(-1, -2))
    of_scores = v.mul(v.mul(weights, v.sub(of_weights, v.mul(g, out).sum(-1, True))), factor)
    of_q, of_k = v.matmul(of_scores, k), v.matmul(of_scores.swapaxes(-1, -2), q)
    return of_q, _gathered(of_k, key_heads), _gathered(of_v, key_heads)

"""Attention: PyTorch's fused ops of the host and of CUDA, forward and backward. None is decomposed: the forward op's
decomposition does not give what the backward op takes. All of them keep the logarithm of each row's sum."""

from __future__ import annotations

import math
from typing import Any

import torch

from .. import _core as v
from ._dtypes import NotCovered, cast, computed_in, dtype_of, full, scalar
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


def _forward(call: Call, q: v.Tensor, k: v.Tensor, v_: v.Tensor, how: tuple) -> tuple:
    """The result, and the logarithms of the sums. `how`: the share of weights that is dropped, whether it is causal,
    the mask or bias, and the scale."""
    dropout, is_causal, mask, scale = how
    if dropout > 0:
        raise NotCovered("It drops weights at random.")
    _grouped(q, k)
    made = v.attention(q, k, v_, **_options(is_causal, _masked(q, mask), scale))
    wide = [cast(one, computed_in(dtype_of(one))) for one in (q, k)]
    scores = v.attention_scores(*wide, **_options(is_causal, _masked(wide[0], mask), scale))
    top = scores.max(-1, True)
    top = v.where(v.is_finite(top), top, scalar(0, dtype_of(top)))
    total = v.exp(v.sub(scores, top)).sum(-1, True)
    sums = v.add(v.log(total), top)
    # A query that may look at no key has zeros in eager.
    nothing = v.equal(total, scalar(0, dtype_of(total)))
    if mask is not None:
        made = v.where(nothing, scalar(0, dtype_of(made)), made)
    return made, sums.reshape(*sums.shape[:-1])


@rule("_scaled_dot_product_flash_attention_for_cpu.default")
def attention(
    call: Call, q: v.Tensor, k: v.Tensor, v_: v.Tensor, dropout: float = 0.0, is_causal: bool = False, *,
    attn_mask: Any = None, scale: Any = None
) -> tuple:  # fmt: skip
    made, sums = _forward(call, q, k, v_, (dropout, is_causal, attn_mask, scale))
    return made, sums.reshape(*call.shape(1))


def _others(call: Call, made: v.Tensor, sums: v.Tensor) -> tuple:
    """All results of an op of CUDA: result, logarithms, and what its own backward op wants: states of random numbers,
    which nothing draws, and sizes. Rows of logarithms may be longer there, or nobody wants them."""
    sizes, rows = call.shape(1), sums.shape[2]
    if math.prod(sizes) == math.prod(sums.shape):
        sums = sums.reshape(*sizes)
    elif len(sizes) == 3 and sizes[2] < rows:
        sums = sums.slice(2, 0, sizes[2])
    else:
        sums = v.concat([sums, full((*sizes[:2], sizes[2] - rows), math.inf, dtype_of(sums))], 2)
    others: list = []
    for i, one in enumerate(call.value[2:], 2):
        others.append(full(call.shape(i), 0, one.dtype) if isinstance(one, torch.Tensor) else one)
    return made, sums, *others


@rule("_scaled_dot_product_flash_attention.default")
def flash_attention(
    call: Call, q: v.Tensor, k: v.Tensor, v_: v.Tensor, dropout: float = 0.0, is_causal: bool = False,
    return_debug_mask: bool = False, *, scale: Any = None
) -> tuple:  # fmt: skip
    return _others(call, *_forward(call, q, k, v_, (dropout, is_causal, None, scale)))


@rule("_scaled_dot_product_efficient_attention.default", "_scaled_dot_product_cudnn_attention.default")
def biased_attention(
    call: Call, q: v.Tensor, k: v.Tensor, v_: v.Tensor, bias: Any, keep_sums: bool, dropout: float = 0.0,
    is_causal: bool = False, return_debug_mask: bool = False, *, scale: Any = None
) -> tuple:  # fmt: skip
    return _others(call, *_forward(call, q, k, v_, (dropout, is_causal, bias, scale)))


def _shared(x: v.Tensor, heads: int) -> v.Tensor:
    """Heads of keys, repeated for the heads of queries that share them."""
    n, k, s, d = x.shape
    return x if k == heads else x.unsqueeze(2).broadcast_to((n, k, heads // k, s, d)).reshape(n, heads, s, d)


def _gathered(x: v.Tensor, heads: int) -> v.Tensor:
    n, k, s, d = x.shape
    return x if k == heads else x.reshape(n, heads, k // heads, s, d).sum(2)


def _backward(g: v.Tensor, q: v.Tensor, k: v.Tensor, v_: v.Tensor, out: v.Tensor, sums: v.Tensor,
              how: tuple) -> tuple:  # fmt: skip
    """Gradients of q, k and v; `how` as for _forward(), `sums` the logarithms [batch, heads, queries]."""
    dropout, is_causal, mask, scale = how
    if dropout > 0:
        raise NotCovered("It drops weights at random.")
    heads, key_heads = q.shape[1], k.shape[1]
    dtype = computed_in(dtype_of(q))
    factor = scalar(1 / math.sqrt(q.shape[-1]) if scale is None else scale, dtype)
    g, q, k, v_, out = (cast(one, dtype) for one in (g, q, k, v_, out))
    k, v_ = _shared(k, heads), _shared(v_, heads)
    scores = v.attention_scores(q, k, **_options(is_causal, _masked(q, mask), scale))
    sums = cast(sums, dtype).unsqueeze(-1)
    weights = v.exp(v.sub(scores, sums))
    if mask is not None:
        weights = v.where(v.is_inf(sums), scalar(0, dtype), weights)
    of_v = v.matmul(weights.swapaxes(-1, -2), g)
    of_weights = v.matmul(g, v_.swapaxes(-1, -2))
    of_scores = v.mul(v.mul(weights, v.sub(of_weights, v.mul(g, out).sum(-1, True))), factor)
    of_q, of_k = v.matmul(of_scores, k), v.matmul(of_scores.swapaxes(-1, -2), q)
    return of_q, _gathered(of_k, key_heads), _gathered(of_v, key_heads)


@rule("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def attention_backward(
    call: Call, g: v.Tensor, q: v.Tensor, k: v.Tensor, v_: v.Tensor, out: v.Tensor, log_sum_exp: v.Tensor,
    dropout: float, is_causal: bool, *, attn_mask: Any = None, scale: Any = None
) -> tuple:  # fmt: skip
    return _backward(g, q, k, v_, out, log_sum_exp, (dropout, is_causal, attn_mask, scale))


def _of_queries(sums: v.Tensor, q: v.Tensor) -> v.Tensor:
    """Logarithms of CUDA's ops, whose rows may be longer, as [batch, heads, queries]."""
    rows = q.shape[2]
    if math.prod(sums.shape) == math.prod(q.shape[:3]):
        return sums.reshape(*q.shape[:3])
    return sums.slice(2, 0, rows)


@rule("_scaled_dot_product_flash_attention_backward.default")
def flash_attention_backward(
    call: Call, g: v.Tensor, q: v.Tensor, k: v.Tensor, v_: v.Tensor, out: v.Tensor, sums: v.Tensor, starts_q: Any,
    starts_k: Any, longest_q: Any, longest_k: Any, dropout: float, is_causal: bool, seed: Any, offset: Any, *,
    scale: Any = None
) -> tuple:  # fmt: skip
    return _backward(g, q, k, v_, out, _of_queries(sums, q), (dropout, is_causal, None, scale))


@rule("_scaled_dot_product_efficient_attention_backward.default")
def efficient_attention_backward(
    call: Call, g: v.Tensor, q: v.Tensor, k: v.Tensor, v_: v.Tensor, bias: Any, out: v.Tensor, sums: v.Tensor,
    seed: Any, offset: Any, dropout: float, wanted: Any, is_causal: bool = False, *, scale: Any = None
) -> tuple:  # fmt: skip
    if bias is not None and wanted[3]:
        raise NotCovered("It asks for the gradient of the bias.")
    made = _backward(g, q, k, v_, out, _of_queries(sums, q), (dropout, is_causal, bias, scale))
    return *made, None if call.value[3] is None else full(call.shape(3), 0, call.dtype(3))


@rule("_scaled_dot_product_cudnn_attention_backward.default")
def cudnn_attention_backward(
    call: Call, g: v.Tensor, q: v.Tensor, k: v.Tensor, v_: v.Tensor, out: v.Tensor, sums: v.Tensor, seed: Any,
    offset: Any, bias: Any, starts_q: Any, starts_k: Any, longest_q: Any, longest_k: Any, dropout: float,
    is_causal: bool, *, scale: Any = None
) -> tuple:  # fmt: skip
    return _backward(g, q, k, v_, out, _of_queries(sums, q), (dropout, is_causal, bias, scale))

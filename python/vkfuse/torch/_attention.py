"""Attention as one op, whichever of PyTorch's ways a call would take.

PyTorch's function is decomposed before a backend sees it, by device, dtype and mask, into one of five ops or into
products of float32. The calls in Dynamo's graph are replaced by an op of our own instead, which keeps the logarithm of
each row's sum for its backward op."""

from __future__ import annotations

import math
from typing import Any, Optional

import torch
from torch.nn.functional import scaled_dot_product_attention

from .. import _core as v
from ._dtypes import NotCovered, cast, computed_in, dtype_of, scalar
from ._rules import Call, rule

# ---- the op ----

Tensor = torch.Tensor


def _shared_heads(x: Tensor, heads: int) -> Tensor:
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def _scores(q: Tensor, k: Tensor, mask: Optional[Tensor], is_causal: bool, scale: float) -> Tensor:
    scores = q.float() @ _shared_heads(k, q.shape[1]).float().mT * scale
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return scores


@torch.library.custom_op("vkfuse::attention", mutates_args=())
def _attention(q: Tensor, k: Tensor, v_: Tensor, mask: Optional[Tensor], is_causal: bool,
               scale: float) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The result, and of each row the logarithm of the sum of exponentials. Where eager runs it, it is this."""
    scores = _scores(q, k, mask, is_causal, scale)
    sums = scores.logsumexp(-1)
    weights = (scores - sums.unsqueeze(-1)).exp().masked_fill(sums.isneginf().unsqueeze(-1), 0)
    made = (weights @ _shared_heads(v_, q.shape[1]).float()).to(q.dtype)
    like = _fake(q, k, v_, mask, is_causal, scale)[0]
    return torch.empty_strided(made.shape, like.stride(), dtype=made.dtype, device=made.device).copy_(made), sums


@_attention.register_fake
def _fake(q: Tensor, k: Tensor, v_: Tensor, mask: Optional[Tensor], is_causal: bool,
          scale: float) -> tuple[Tensor, Tensor]:  # fmt: skip
    # As PyTorch's ops have it: axes in the order of the queries'.
    order = sorted(range(3), key=lambda axis: (-q.stride(axis), axis))
    made = q.new_empty([q.shape[axis] for axis in order] + [v_.shape[3]])
    made = made.permute(*(order.index(axis) for axis in range(3)), 3)
    return made, q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("vkfuse::attention_backward", mutates_args=())
def _attention_backward(g: Tensor, q: Tensor, k: Tensor, v_: Tensor, mask: Optional[Tensor], out: Tensor, sums: Tensor,
                        is_causal: bool, scale: float, of_mask: bool) -> list[Tensor]:  # fmt: skip
    """Gradients of q, k and v, and of the mask if it is asked for."""
    heads, key_heads = q.shape[1], k.shape[1]
    sums = sums.unsqueeze(-1)
    weights = (_scores(q, k, mask, is_causal, scale) - sums).exp().masked_fill(sums.isneginf(), 0)
    of_v = weights.mT @ g.float()
    of_weights = g.float() @ _shared_heads(v_, heads).float().mT
    of_scores = weights * (of_weights - (g.float() * out.float()).sum(-1, keepdim=True))
    of_q = of_scores @ _shared_heads(k, heads).float() * scale
    of_k = of_scores.mT @ q.float() * scale

    def gathered(x: Tensor) -> Tensor:
        return x if heads == key_heads else x.unflatten(1, (key_heads, -1)).sum(2)

    made = [of_q.to(q.dtype), gathered(of_k).to(k.dtype), gathered(of_v).to(v_.dtype)]
    return [*made, of_scores.sum_to_size(mask.shape).to(mask.dtype)] if of_mask else made


@_attention_backward.register_fake
def _fake_backward(g: Tensor, q: Tensor, k: Tensor, v_: Tensor, mask: Optional[Tensor], out: Tensor, sums: Tensor,
                   is_causal: bool, scale: float, of_mask: bool) -> list[Tensor]:  # fmt: skip
    made = [one.new_empty(one.shape) for one in (q, k, v_)]
    return [*made, mask.new_empty(mask.shape)] if of_mask else made


def _keep(ctx: Any, inputs: tuple, output: tuple) -> None:
    q, k, v_, mask, ctx.is_causal, ctx.scale = inputs
    ctx.save_for_backward(q, k, v_, mask, *output)


def _differentiate(ctx: Any, g: Tensor, of_sums: Any) -> tuple:
    q, k, v_, mask, out, sums = ctx.saved_tensors
    of_mask = ctx.needs_input_grad[3]
    made = torch.ops.vkfuse.attention_backward(g, q, k, v_, mask, out, sums, ctx.is_causal, ctx.scale, of_mask)
    return *made[:3], made[3] if of_mask else None, None, None


_attention.register_autograd(_differentiate, setup_context=_keep)


_CONVERTED = (torch.float32, torch.float16, torch.bfloat16)  # by autocast


def _attend(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, dropout_p: float = 0.0,
            is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False) -> Tensor:  # fmt: skip
    """In place of PyTorch's function; what it refuses, and weights that are dropped, are PyTorch's."""
    three = query.ndim == key.ndim == value.ndim == 3 and not enable_gqa
    if torch._C._functorch.peek_interpreter_stack() is not None:  # of which our op knows nothing
        return scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
                                            enable_gqa=enable_gqa)  # fmt: skip
    if three and (attn_mask is None or attn_mask.ndim <= 3):
        mask = attn_mask.unsqueeze(1) if attn_mask is not None and attn_mask.ndim == 3 else attn_mask
        lifted = [one.unsqueeze(1) for one in (query, key, value)]
        return _attend(*lifted, mask, dropout_p, is_causal, scale).squeeze(1)
    kind = query.device.type
    if torch.is_autocast_enabled(kind):  # it converts what PyTorch's function is given, and knows nothing of ours
        tensors = [query, key, value, attn_mask]
        query, key, value, attn_mask = (
            one.to(torch.get_autocast_dtype(kind)) if one is not None and one.dtype in _CONVERTED else one
            for one in tensors
        )
    tensors = [query, key, value]
    same = len({one.dtype for one in tensors}) == len({one.device for one in tensors}) == 1
    four = all(one.ndim == 4 and one.layout == torch.strided for one in tensors)
    if (not four or not same or dropout_p != 0.0 or query.dtype not in (torch.float32, torch.float16, torch.bfloat16)
            or not _fits(query, key, value, attn_mask, is_causal, enable_gqa)):  # fmt: skip
        return scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
                                            enable_gqa=enable_gqa)  # fmt: skip
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    return torch.ops.vkfuse.attention(query, key, value, attn_mask, is_causal, scale)[0]


def _fits(q: Tensor, k: Tensor, v_: Tensor, mask: Optional[Tensor], is_causal: bool, shares_heads: bool) -> bool:
    if any(not isinstance(size, int) for one in (q, k, v_) for size in one.shape):
        return False
    (n, heads, rows, width), (_, key_heads, keys, _) = q.shape, k.shape
    heads_fit = heads == key_heads or (shares_heads and key_heads > 0 and heads % key_heads == 0)
    if not heads_fit or k.shape != (n, key_heads, keys, width) or v_.shape[:3] != k.shape[:3]:
        return False
    if 0 in q.shape or 0 in k.shape or 0 in v_.shape or (is_causal and mask is not None):
        return False
    if mask is None:
        return True
    if mask.ndim > 4 or mask.ndim < 2 or mask.dtype not in (torch.bool, torch.float32, q.dtype):
        return False
    wide = (1,) * (4 - mask.ndim) + tuple(mask.shape)
    return all(size in (1, of) for size, of in zip(wide, (n, heads, rows, keys)))


def with_one_attention(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A graph of Dynamo with the calls of PyTorch's function replaced."""
    calls = [node for node in module.graph.nodes if node.target is scaled_dot_product_attention]
    for node in calls:
        node.target = _attend
    if calls:
        module.recompile()
    return module


# ---- its rules, and those of PyTorch's op of the host ----


def _options(causal: bool, mask: Any, scale: Any) -> dict:
    options = {"causal": bool(causal), "scale": scale}
    if mask is not None:
        options["mask" if str(mask.dtype) == "bool" else "bias"] = mask
    return options


def _wide_scores(q: v.Tensor, k: v.Tensor, mask: Any, how: tuple) -> v.Tensor:
    """In float32, as all of PyTorch's ops have them. `how`: whether it is causal, and the scale."""
    dtype = computed_in(dtype_of(q))
    if mask is not None and str(mask.dtype) != "bool":
        mask = cast(mask, dtype)
    return v.attention_scores(cast(q, dtype), cast(k, dtype), **_options(how[0], mask, how[1]))


def _forward(q: v.Tensor, k: v.Tensor, v_: v.Tensor, mask: Any, how: tuple) -> tuple:
    if q.shape[1] % k.shape[1] != 0:
        raise NotCovered(f"{q.shape[1]} heads share {k.shape[1]}.")
    scores = _wide_scores(q, k, mask, how)
    zero = scalar(0, dtype_of(scores))
    top = scores.max(-1, True)
    weights = v.exp(v.sub(scores, top))
    weights = cast(v.div(weights, weights.sum(-1, True)), dtype_of(v_))
    made = v.matmul(weights, _shared(v_, q.shape[1]))
    top = v.where(v.is_finite(top), top, zero)
    total = v.exp(v.sub(scores, top)).sum(-1, True)
    sums = v.add(v.log(total), top)
    if mask is not None:  # a query that may look at no key has zeros in eager
        made = v.where(v.equal(total, zero), scalar(0, dtype_of(made)), made)
    return made, sums.reshape(*sums.shape[:-1])


def _shared(x: v.Tensor, heads: int) -> v.Tensor:
    """Heads of keys, repeated for the heads of queries that share them."""
    n, k, s, d = x.shape
    return x if k == heads else x.unsqueeze(2).broadcast_to((n, k, heads // k, s, d)).reshape(n, heads, s, d)


def _gathered(x: v.Tensor, heads: int) -> v.Tensor:
    n, k, s, d = x.shape
    return x if k == heads else x.reshape(n, heads, k // heads, s, d).sum(2)


def _backward(g: v.Tensor, q: v.Tensor, k: v.Tensor, v_: v.Tensor, mask: Any, kept: tuple, how: tuple) -> tuple:
    """Gradients of q, k, v and of the scores. `kept`: the result and the logarithms. Weights and gradients of scores
    are rounded to the operands' dtype before they are multiplied, as CUDA's ops do."""
    out, sums = kept
    heads, key_heads, narrow = q.shape[1], k.shape[1], dtype_of(q)
    wide = computed_in(narrow)
    sums = cast(sums, wide).unsqueeze(-1)
    weights = v.exp(v.sub(_wide_scores(q, k, mask, how), sums))
    if mask is not None:
        weights = v.where(v.is_inf(sums), scalar(0, wide), weights)
    k, v_ = _shared(k, heads), _shared(v_, heads)
    of_v = v.matmul(cast(weights, narrow).swapaxes(-1, -2), g)
    of_weights = v.matmul(cast(g, wide), cast(v_, wide).swapaxes(-1, -2))
    along = v.mul(cast(g, wide), cast(out, wide)).sum(-1, True)
    of_scores = v.mul(weights, v.sub(of_weights, along))
    scaled = cast(v.mul(of_scores, scalar(how[1], wide)), narrow)
    of_q, of_k = v.matmul(scaled, k), v.matmul(scaled.swapaxes(-1, -2), q)
    return of_q, _gathered(of_k, key_heads), _gathered(of_v, key_heads), of_scores


@rule("vkfuse.attention.default")
def attention(call: Call, q: v.Tensor, k: v.Tensor, v_: v.Tensor, mask: Any, is_causal: bool, scale: float) -> tuple:
    return _forward(q, k, v_, mask, (is_causal, scale))


def _summed_to(x: v.Tensor, shape: tuple) -> v.Tensor:
    for axis in range(x.ndim - len(shape)):
        x = x.sum(axis, True)
    wide = (1,) * (x.ndim - len(shape)) + tuple(shape)
    for axis, size in enumerate(wide):
        if size == 1 and x.shape[axis] != 1:
            x = x.sum(axis, True)
    return x.reshape(*shape)


@rule("vkfuse.attention_backward.default")
def attention_backward(
    call: Call, g: v.Tensor, q: v.Tensor, k: v.Tensor, v_: v.Tensor, mask: Any, out: v.Tensor, sums: v.Tensor,
    is_causal: bool, scale: float, of_mask: bool
) -> list:  # fmt: skip
    *made, of_scores = _backward(g, q, k, v_, mask, (out, sums), (is_causal, scale))
    return [*made, _summed_to(of_scores, call.shape(3))] if of_mask else made


def _scale_of(q: v.Tensor, scale: Any) -> float:
    return 1 / math.sqrt(q.shape[-1]) if scale is None else scale


@rule("_scaled_dot_product_flash_attention_for_cpu.default")
def attention_of_host(
    call: Call, q: v.Tensor, k: v.Tensor, v_: v.Tensor, dropout: float = 0.0, is_causal: bool = False, *,
    attn_mask: Any = None, scale: Any = None
) -> tuple:  # fmt: skip
    if dropout > 0:
        raise NotCovered("It drops weights at random.")
    made, sums = _forward(q, k, v_, attn_mask, (is_causal, _scale_of(q, scale)))
    return made, sums.reshape(*call.shape(1))


@rule("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def attention_of_host_backward(
    call: Call, g: v.Tensor, q: v.Tensor, k: v.Tensor, v_: v.Tensor, out: v.Tensor, log_sum_exp: v.Tensor,
    dropout: float, is_causal: bool, *, attn_mask: Any = None, scale: Any = None
) -> tuple:  # fmt: skip
    if dropout > 0:
        raise NotCovered("It drops weights at random.")
    return _backward(g, q, k, v_, attn_mask, (out, log_sum_exp), (is_causal, _scale_of(q, scale)))[:3]

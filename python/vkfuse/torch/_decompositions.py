"""Which ops PyTorch writes in terms of others before vkfuse sees a graph."""

from __future__ import annotations

import functools
from typing import Any

from torch._decomp import core_aten_decompositions, get_decompositions

from ._rules import RULES, aten, find

# Ops whose decomposition is wrong for a graph that is differentiated, or that ask for what no rule can give: that of
# attention does not keep what its backward pass takes, batch norm's reads the numbers of training, and that of a split
# reads its operand at strides.
_NEVER = (
    "_scaled_dot_product_flash_attention_for_cpu", "_native_batch_norm_legit_no_training", "split_with_sizes",
)  # fmt: skip
# Beyond PyTorch's core table.
_MORE = (
    "grid_sampler_2d", "addmv", "lcm", "dist", "batch_norm_backward",
    "nll_loss2d_backward", "native_layer_norm_backward", "native_group_norm_backward", "native_batch_norm_backward",
    "upsample_bicubic2d", "hann_window", "tril_indices", "triu_indices", "bernoulli_", "_embedding_bag_dense_backward",
    "rrelu_with_noise_backward", "permute_copy", "unbind_copy", "narrow_copy", "log_sigmoid_forward", "linspace",
    "logspace", "aminmax", "special_erfcx", "max_unpool2d", "max_unpool3d", "multi_margin_loss", "isin",
    "cudnn_batch_norm", "cudnn_batch_norm_backward",
)  # fmt: skip


@functools.cache
def table() -> dict[Any, Any]:
    """PyTorch's core decompositions, without what there are rules for, and with more."""
    made = dict(core_aten_decompositions())
    packets = [packet for packet in (getattr(aten, name, None) for name in _MORE) if packet is not None]
    made.update(get_decompositions(packets))
    for name in _NEVER:
        for overload in getattr(getattr(aten, name, None), "overloads", list)():
            made.pop(find(f"{name}.{overload}"), None)
    for op in RULES:
        made.pop(op, None)
    return made

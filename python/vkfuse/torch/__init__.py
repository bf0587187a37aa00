"""vkfuse as a backend of torch.compile, for PyTorch 2.11 or newer (docs/torch.md of the project).

>>> import torch
>>> model = torch.compile(torch.nn.Linear(4, 3), backend="vkfuse")
>>> model(torch.ones(2, 4)).sum().backward()
"""

import torch as _torch  # noqa: F401  (its absence is an ImportError of this module alone)

from . import (  # noqa: F401  (their rules)
    _attention, _contractions, _indexing, _makers, _norms, _pointwise, _pooling, _random, _reductions, _views
)  # fmt: skip
from ._backend import backend
from ._explain import Explanation, explain
from ._residency import forget, synchronize
from ._rules import RULES as _RULES

__all__ = ["Explanation", "backend", "covered", "explain", "forget", "synchronize"]


def covered() -> list[str]:
    """Names of the ops of ATen that there are rules for."""
    return sorted(str(op).removeprefix("aten.") for op in _RULES if op.namespace == "aten")

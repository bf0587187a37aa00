"""A part of a graph as a program of vkfuse."""

from __future__ import annotations

import collections
import operator
from typing import Any

import torch

from .. import _core
from .._errors import Error
from ._dtypes import NotCovered, dtype_named
from ._partition import Part, input_of, output_of
from ._rules import State, lower_node
from ._sizes import Sizes, is_symbolic


class Program:
    """The compiled program of a part: its inputs are the values x0, x1, ... that it reads, its outputs y0, y1, ..."""

    def __init__(self, part: Part, ours: set, sizes: Sizes, state: State, device: _core.Device, options: dict) -> None:
        self.part = part
        checks = len(state.checks)
        tensors = _lowered(part, ours, sizes, state)
        outputs = {f"y{i}": output_of(node, tensors[node], sizes) for i, node in enumerate(part.outputs)}
        right, self.sentences = zip(*state.checks[checks:]) if len(state.checks) > checks else ((), ())
        if right:
            outputs["checks"] = _core.concat([one.reshape(1) for one in right], 0)
        self.compiled = _core.compile(outputs, device, **{"name": "torch", **options})
        names = set(self.compiled.input_names)
        self.inputs = {f"x{i}": node for i, node in enumerate(part.inputs) if f"x{i}" in names}
        self.is_random = "seed" in names
        #: names, dtypes and sizes of the outputs
        self.results = [(one.name, dtype_named(str(one.dtype)), tuple(one.shape)) for one in self.compiled.outputs]
        self.running: collections.deque = collections.deque()  #: runs that may be in flight, of shared memory


def _lowered(part: Part, ours: set, sizes: Sizes, state: State) -> dict[torch.fx.Node, Any]:
    values: dict[torch.fx.Node, Any] = {}
    for i, node in enumerate(part.inputs):
        if isinstance(node.meta.get("val"), torch.Tensor):
            values[node] = input_of(node, f"x{i}", sizes, node in ours)
    for node in part.nodes:
        for one in node.all_input_nodes:
            if is_symbolic(one.meta.get("val")):
                values[one] = sizes.number(one.meta["val"])
        if node.target is operator.getitem:
            values[node] = values[node.args[0]][node.args[1]]
        else:
            values[node] = lower_node(node, values, state)
    return values


def refused_nodes(part: Part, ours: set, sizes: Sizes, graph: Any, failure: Error) -> dict:
    """Why nodes of a part that cannot be compiled are left to eager: those that cannot alone, or all of them."""
    reasons = {}
    for node in part.nodes:
        if node.target is operator.getitem:
            continue
        alone = Part(True, [node], node.all_input_nodes)
        try:
            made = _lowered(alone, ours, sizes, State(sizes, graph.home))[node]
            made = [one for one in (made if isinstance(made, tuple) else (made,)) if one is not None]
            _core.supports(made, graph.device)
        except (Error, NotCovered) as reason:
            reasons[node] = str(reason)
    return reasons or dict.fromkeys((n for n in part.nodes if n.target is not operator.getitem), str(failure))

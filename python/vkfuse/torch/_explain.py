"""What runs where, and why."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from . import _backend
from ._program import Program


@dataclasses.dataclass
class Part:
    """A part of a graph."""

    is_ours: bool  #: a program of vkfuse; else eager
    ops: list[str]  #: names of ATen
    reasons: dict[str, str]  #: of eager: why, by node
    kernels: int = 0  #: dispatches of one run
    plan: str = ""  #: vkfuse's, as text


@dataclasses.dataclass
class GraphParts:
    """A graph of AOTAutograd: "forward", "backward" or "inference"."""

    name: str
    parts: list[Part]


@dataclasses.dataclass
class Explanation:
    """What torch.compile(backend="vkfuse") made of a model. str() of it is a report."""

    graphs: list[GraphParts]
    breaks: dict[str, int]  #: of Dynamo, by its reason: they are PyTorch's, and what is between them is Python

    @property
    def reasons(self) -> dict[str, str]:
        """Why nodes run in eager, over all graphs."""
        return {
            f"{graph.name}: {node}": reason
            for graph in self.graphs for part in graph.parts for node, reason in part.reasons.items()
        }  # fmt: skip

    def __str__(self) -> str:
        lines = []
        for graph in self.graphs:
            ours = [part for part in graph.parts if part.is_ours]
            nodes, kernels = sum(len(part.ops) for part in ours), sum(part.kernels for part in ours)
            lines.append(f"{graph.name}: {nodes} ops are {kernels} kernels in {len(ours)} programs.")
            for part in graph.parts:
                lines += [f"  in eager: {node}: {reason}" for node, reason in part.reasons.items()]
        lines += [f"graph break, {count} times: {reason}" for reason, count in self.breaks.items()]
        return "\n".join(lines)


def _parts_of(graph: Any) -> GraphParts:
    parts = []
    for executable in graph.executables:
        for step in executable.steps:
            nodes = step.part.nodes if isinstance(step, Program) else step.nodes
            ops = [str(node.target).removeprefix("aten.") for node in nodes]
            if isinstance(step, Program):
                parts.append(Part(True, ops, {}, step.compiled.kernel_count, step.compiled.plan()))
            else:
                why = {node.name: executable.reasons[node] for node in nodes if node in executable.reasons}
                parts.append(Part(False, ops, why))
    return GraphParts(graph.name, parts)


def explain(model: Any, *args: Any, options: dict | None = None, backward: bool | None = None, **kwargs: Any):
    """Compiles a function or a module for these arguments, runs it, and says what runs where and why.

    `backward`: whether the sum of the results is differentiated; None: if it can be. Gradients that the parameters have
    stay as they are. What torch.compile has compiled before is forgotten.
    """
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    seen: list = []
    token = _backend.watched.set(seen)
    try:
        compiled = torch.compile(model, backend=lambda m, x: _backend.backend(m, x, options=options))
        results = [x for x in torch.utils._pytree.tree_leaves(compiled(*args, **kwargs)) if isinstance(x, torch.Tensor)]
        wanted = [x for x in results if x.requires_grad]
        if backward or (backward is None and wanted):
            _differentiate(wanted)
    finally:
        _backend.watched.reset(token)
        torch._dynamo.reset()
    return Explanation([_parts_of(one) for one in seen], dict(torch._dynamo.utils.counters["graph_break"]))


def _differentiate(results: list) -> None:
    """Runs the backward graph; what it adds up in .grad is of no use to anyone."""
    leaves, stack, seen = [], [x.grad_fn for x in results], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        stack += [next_node for next_node, _ in node.next_functions]
    if leaves:
        torch.autograd.grad([x.sum() for x in results], leaves, allow_unused=True)

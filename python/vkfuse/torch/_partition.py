"""Which nodes of a graph are one program, and which are left to eager between them."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import torch

from .. import _core
from ._dtypes import NotCovered, name_of
from ._layout import Layout, layout_of
from ._rules import State, aten, lower_node
from ._sizes import Sizes, is_symbolic

#: In place of the tensors of a node that eager computes and whose shapes are not known before.
UNKNOWN = object()


@dataclasses.dataclass
class Part:
    """Nodes that run one after the other: a program of vkfuse, or eager."""

    is_ours: bool
    nodes: list[torch.fx.Node] = dataclasses.field(default_factory=list)
    inputs: list[torch.fx.Node] = dataclasses.field(default_factory=list)  #: computed elsewhere, in order
    outputs: list[torch.fx.Node] = dataclasses.field(default_factory=list)  #: read elsewhere, in order


def stored_layout(node: torch.fx.Node, sizes: Sizes, is_ours: bool) -> Layout:
    """How a value lies where it crosses to or from the device. What comes from elsewhere may be stretched or not."""
    value = node.meta["val"]
    layout = layout_of(sizes.shape_of(value), sizes.numbers(value.stride()))
    if not is_ours and layout.repeated:
        return dataclasses.replace(layout, order=tuple(range(len(layout.sizes))), repeated=(), is_dense=False)
    return layout


def input_of(node: torch.fx.Node, name: str, sizes: Sizes, is_ours: bool) -> _core.Tensor:
    """A value that was computed elsewhere, as an input of a program."""
    layout = stored_layout(node, sizes, is_ours)
    made = _core.input(name, name_of(node.meta["val"].dtype), layout.stored)
    if layout.order == tuple(range(len(layout.sizes))):
        return made.broadcast_to(layout.sizes) if layout.repeated else made
    back = [0] * len(layout.order)
    for place, axis in enumerate(layout.order):
        back[axis] = place
    return made.permute(*back).broadcast_to(layout.sizes)


def output_of(node: torch.fx.Node, made: _core.Tensor, sizes: Sizes) -> _core.Tensor:
    """A value as it is stored."""
    layout = stored_layout(node, sizes, True)
    for axis in layout.repeated:
        made = made.slice(axis, 0, 1)
    return made if layout.order == tuple(range(made.ndim)) else made.permute(*layout.order)


def is_effect(node: torch.fx.Node) -> bool:
    """Whether a node writes to an argument of the graph: these come last."""
    return node.op == "call_function" and node.target is aten.copy_.default


def _value_elsewhere(node: torch.fx.Node, sizes: Sizes) -> Any:
    """What nodes that read the value of another part are lowered with."""
    value = node.meta.get("val")
    if is_symbolic(value) or isinstance(value, (bool, int, float)):
        try:
            return sizes.number(value)
        except NotCovered:
            return UNKNOWN
    if not isinstance(value, torch.Tensor):
        return UNKNOWN
    try:
        return input_of(node, node.name, sizes, False)
    except NotCovered:
        return UNKNOWN


def classify(graph: torch.fx.Graph, sizes: Sizes, refused: dict, home: torch.device) -> dict[torch.fx.Node, str]:
    """Why nodes are left to eager, for those that are: `refused`, and what no rule covers. Tensors are on `home`."""
    reasons, values, state = dict(refused), {}, State(sizes, home)
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            values[node] = _value_elsewhere(node, sizes)
        elif node.op == "call_function" and not is_effect(node):
            if is_symbolic(node.meta.get("val")):  # a size, which the call shows, or eager computes
                values[node] = _value_elsewhere(node, sizes)
                if values[node] is UNKNOWN:
                    reasons[node] = "It is a size that depends on data."
                continue
            if node.target is operator.getitem:  # runs where what it is of runs
                all_of = values[node.args[0]]
                is_lowered = isinstance(all_of, tuple)
                values[node] = all_of[node.args[1]] if is_lowered else _value_elsewhere(node, sizes)
                continue
            try:
                if node in reasons:
                    raise NotCovered(reasons[node])
                if any(values[one] is UNKNOWN for one in node.all_input_nodes):
                    raise NotCovered("It reads what eager computes, whose shape is not known before.")
                values[node] = lower_node(node, values, state)
            except NotCovered as reason:
                reasons[node] = str(reason)
                values[node] = _value_elsewhere(node, sizes)
    return reasons


def partition(graph: torch.fx.Graph, reasons: dict[torch.fx.Node, str]) -> list[Part]:
    """Parts in an order in which they can run: each node is in the earliest part that its operands allow, where parts
    of both kinds take turns. So no part waits for a later one."""
    levels: dict[torch.fx.Node, int] = {}
    parts: dict[int, Part] = {}
    for node in graph.nodes:
        is_ours = node not in reasons
        if node.op != "call_function" or is_effect(node) or (is_ours and is_symbolic(node.meta.get("val"))):
            continue
        if node.target is operator.getitem:
            is_ours = levels[node.args[0]] % 2 == 0
        # Even levels are ours.
        level = 0 if is_ours else 1
        for one in node.all_input_nodes:
            if one in levels:
                level = max(level, levels[one] + ((levels[one] % 2 == 0) != is_ours))
        levels[node] = level
        parts.setdefault(level, Part(is_ours)).nodes.append(node)
    ordered = [parts[level] for level in sorted(parts)]
    for part in ordered:
        _find_crossings(part)
    return [part for part in ordered if not part.is_ours or part.outputs]


def _find_crossings(part: Part) -> None:
    inside = set(part.nodes)
    inputs = dict.fromkeys(
        one for node in part.nodes for one in node.all_input_nodes
        if one not in inside and not is_symbolic(one.meta.get("val"))
    )  # fmt: skip
    part.inputs = list(inputs)
    part.outputs = [
        node for node in part.nodes
        if isinstance(node.meta.get("val"), torch.Tensor) and any(user not in inside for user in node.users)
    ]  # fmt: skip

"""Results of a graph that are views of one memory, in eager."""

from __future__ import annotations

import math
from typing import Any

import torch

from ._dtypes import NotCovered
from ._layout import overlaps
from ._sizes import Sizes, is_symbolic


class Lying:
    """How a value lies in the memory that it is in, in elements."""

    def __init__(self, node: torch.fx.Node, sizes: Sizes) -> None:
        value = node.meta["val"]
        self.shape, self.strides = sizes.shape_of(value), sizes.numbers(value.stride())
        self.offset = sizes.number(value.storage_offset())
        self.count = math.prod(self.shape)
        self.end = self.offset + 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))

    def holds(self, other: Lying) -> bool:
        return self.offset <= other.offset and other.end <= self.end

    def meets(self, other: Lying) -> bool:
        return self.offset < other.end and other.offset < self.end

    @property
    def extent(self) -> int:
        return self.end - self.offset

    @property
    def is_dense(self) -> bool:
        return self.extent == self.count

    @property
    def repeats(self) -> bool:
        """Whether two of its elements may be one in memory."""
        return overlaps(self.shape, self.strides)


class Aliases:
    """Which results lie in another one or in an argument (`bases`: that one), and which share memory that no result has
    all of (`joined`: lists of them). AOTAutograd makes views of arguments itself, but for those of ops that have
    several, as split() has. These are views to autograd, too (`differentiable`), unless the graph detaches them: others
    must not be, or what is detached in the graph would have the gradient of what it views."""

    def __init__(self, returned: list, arguments: list, sizes: Sizes) -> None:
        self.bases: dict[torch.fx.Node, torch.fx.Node] = {}
        self.joined: list[list[torch.fx.Node]] = []
        self.differentiable: set[torch.fx.Node] = set()
        self._sizes = sizes
        given = {_memory_of(node): node for node in reversed(arguments)}
        groups: dict[Any, list] = {}
        for node in dict.fromkeys(returned):
            memory = _memory_of(node)
            if memory is not None and node.op == "call_function":
                groups.setdefault(memory, []).append(node)
        for memory, nodes in groups.items():
            try:
                self._look(nodes, given.get(memory))
            except NotCovered:
                continue

    def _look(self, nodes: list, argument: torch.fx.Node | None) -> None:
        lying = {node: Lying(node, self._sizes) for node in nodes}
        lying = {node: one for node, one in lying.items() if one.count > 0}
        if not lying:
            return
        base = argument or max(lying, key=lambda node: (lying[node].extent, lying[node].is_dense))
        whole, all_of = Lying(base, self._sizes), list(lying.values())
        held = {node: base for node, one in lying.items() if node is not base and whole.holds(one)}
        meet = any(one.meets(other) for i, one in enumerate(all_of) for other in all_of[:i])
        if base is argument or whole.is_dense and len(held) + 1 == len(lying):
            self.bases.update(held)
            if base is argument:
                self.differentiable.update(node for node in held if not _is_detached(node))
        elif meet:
            self.joined.append(list(lying))


def _is_detached(node: torch.fx.Node) -> bool:
    """Whether a view has detach() on the way from what it is a view of."""
    memory = _memory_of(node)
    while node is not None and node.op == "call_function":
        if node.target is torch.ops.aten.detach.default:
            return True
        ways = ((one, [one, *one.all_input_nodes]) for one in node.all_input_nodes)  # split() makes a list
        node = next((one for one, near in ways if memory in map(_memory_of, near)), None)
    return False


def _memory_of(node: Any) -> Any:
    """What the nodes whose values are in one memory have in common; None where a value has no memory."""
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or is_symbolic(value) or value.layout != torch.strided:
        return None
    return value.untyped_storage()._cdata, value.dtype

"""A graph of AOTAutograd, compiled: programs of vkfuse, and eager between them."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.fx.node import map_arg

from .. import _core
from .._errors import Error
from . import _deferred
from ._aliases import Aliases, Lying
from ._layout import Layout
from ._log import log
from ._memory import memory_for
from ._partition import Part, classify, is_effect, partition, stored_layout
from ._program import Program, refused_nodes
from ._rules import State
from ._sizes import Sizes, is_symbolic, known_symbols


class Executable:
    """A graph with the sizes of a call."""

    def __init__(self, graph: "Graph", sizes: Sizes) -> None:
        self.graph, self.sizes = graph, sizes
        self.reasons: dict[torch.fx.Node, str] = {}
        self.steps: list[Part | Program] = []
        self._layouts: dict[torch.fx.Node, Layout] = {}
        self.aliases = Aliases(graph.returned[: graph.first_saved], graph.placeholders, sizes)
        nodes = graph.module.graph
        if graph.memory is None:
            self.reasons = {node: graph.refusal for node in nodes if node.op == "call_function" and not is_effect(node)}
        while not self._compile(classify(nodes, sizes, self.reasons, graph.home)):
            pass
        for node, reason in self.reasons.items():
            log.info("%s: %s runs in eager. %s", graph.name, node.format_node(), reason)
        for step in self.steps:
            if isinstance(step, Program):
                log.info("%s: kernels: %d, of %d nodes.", graph.name, step.compiled.kernel_count, len(step.part.nodes))

    def _compile(self, reasons: dict) -> bool:
        """Whether every part of ours could be compiled; else more nodes are left to eager."""
        self.reasons = reasons
        parts = partition(self.graph.module.graph, reasons)
        state = State(self.sizes, self.graph.home)
        self._ours = {node for part in parts if part.is_ours for node in part.nodes}
        self.steps = []
        for part in parts:
            if not part.is_ours:
                self.steps.append(part)
                continue
            try:
                program = Program(part, self._ours, self.sizes, state, self.graph.device, self.graph.options)
            except Error as failure:
                self.reasons.update(refused_nodes(part, self._ours, self.sizes, self.graph, failure))
                return False
            self.steps.append(program)
        return True

    def layout_of(self, node: torch.fx.Node) -> Layout:
        """How a value that comes from elsewhere lies."""
        found = self._layouts.get(node)
        if found is None:
            found = self._layouts[node] = stored_layout(node, self.sizes, False)
        return found

    def run(self, args: list) -> list:
        """The results, in the order of the graph."""
        call = _Run(self, args)
        for step in self.steps:
            if isinstance(step, Program):
                call.compute(step)
            else:
                call.eager(step)
        call.write()
        return call.results()


class _Run:
    """One call: values by their nodes, as tensors of PyTorch or as what programs read and write."""

    def __init__(self, executable: Executable, args: list) -> None:
        self._of, self._graph, self._sizes = executable, executable.graph, executable.sizes
        self._memory = self._graph.memory
        if self._memory is not None:
            self._memory.begin()
        self._host: dict[torch.fx.Node, Any] = dict(zip(self._graph.placeholders, args))
        self._host.update(self._graph.attributes)
        self._device: dict[torch.fx.Node, Any] = {}

    def _number_or_host(self, node: torch.fx.Node) -> Any:
        value = node.meta.get("val")
        if node not in self._host and is_symbolic(value):
            return self._sizes.number(value)
        return self.host(node)

    def host(self, node: torch.fx.Node) -> Any:
        """A value as PyTorch has it, with the strides that it has there."""
        if node not in self._host:
            layout = stored_layout(node, self._sizes, True)
            self._host[node] = self._memory.tensor(self._device[node], node.meta["val"].dtype, layout)
        elif isinstance(self._host[node], torch.Tensor):
            _deferred.fill(self._host[node])
        return self._host[node]

    def _on_device(self, node: torch.fx.Node) -> Any:
        if node not in self._device:
            use = "kept" if node in self._graph.kept else "saved" if self._graph.name == "backward" else "input"
            self._device[node] = self._memory.value(self._host[node], self._of.layout_of(node), use)
        return self._device[node]

    def compute(self, program: Program) -> None:
        """A program of ours."""
        made = self._memory.run(program, {name: self._on_device(node) for name, node in program.inputs.items()})
        for i, node in enumerate(program.part.outputs):
            self._device[node] = made[f"y{i}"]

    def eager(self, part: Part) -> None:
        """Nodes as PyTorch runs them."""
        for node in part.nodes:
            args, kwargs = map_arg((node.args, node.kwargs), self._number_or_host)
            self._host[node] = node.target(*args, **kwargs)

    def write(self) -> None:
        """What the graph writes to its arguments. The device has it already."""
        for node in self._graph.effects:
            target, source = node.args[0], node.args[1]
            tensor = self._host[target]
            with torch.no_grad():
                tensor.copy_(self.host(source))
            array = self._device.get(source)
            order = stored_layout(target, self._sizes, False).order
            if array is not None and source in self._of._ours and self._lies_as(source, target):
                self._memory.keep(tensor, order, array, target not in self._graph.kept)
            self._host[node] = tensor

    def _lies_as(self, source: torch.fx.Node, target: torch.fx.Node) -> bool:
        one, other = stored_layout(source, self._sizes, True), stored_layout(target, self._sizes, False)
        same = source.meta["val"].dtype == target.meta["val"].dtype
        return same and not one.repeated and (one.sizes, one.order) == (other.sizes, other.order)

    def results(self) -> list:
        for nodes in self._of.aliases.joined:
            self._join(nodes)
        made = []
        for i, one in enumerate(self._graph.returned):
            if isinstance(one, torch.fx.Node) and i >= self._graph.first_saved and self._may_stay(one):
                made.append(self._stay(one))
            elif isinstance(one, torch.fx.Node):
                base = self._of.aliases.bases.get(one)
                made.append(self._number_or_host(one) if base is None else self._view(one, base))
            else:
                made.append(one)
        return made

    def _view(self, node: torch.fx.Node, base: torch.fx.Node) -> torch.Tensor:
        """A result that shares the memory of another one, or of an argument, as in eager."""
        whole, of, view = self.host(base), Lying(base, self._sizes), Lying(node, self._sizes)
        if whole.stride() != of.strides:
            return self.host(node)
        made = whole.as_strided(view.shape, view.strides, whole.storage_offset() + view.offset - of.offset)
        return made if node in self._of.aliases.differentiable else made.detach()

    def _join(self, nodes: list) -> None:
        """Results that lie in one memory and of which none has all of it get one, as in eager."""
        lying = [Lying(node, self._sizes) for node in nodes]
        begin, end = min(one.offset for one in lying), max(one.end for one in lying)
        made = [self.host(node) for node in nodes]
        memory = made[0].new_empty(end - begin)
        for node, one, value in zip(nodes, lying, made):
            there = (one.shape, one.strides, one.offset - begin)
            if one.repeats:
                memory.put_(torch.arange(end - begin, device=memory.device).as_strided(*there), value)
            else:
                memory.as_strided(*there).copy_(value)
            self._host[node] = memory.as_strided(*there).detach()

    def _may_stay(self, node: torch.fx.Node) -> bool:
        """Whether a value that is saved for the backward graph can stay on the device."""
        can = self._memory is not None and self._memory.can_defer
        return can and node not in self._host and node in self._device and _deferred.is_possible()

    def _stay(self, node: torch.fx.Node) -> torch.Tensor:
        layout = stored_layout(node, self._sizes, True)
        if layout.repeated or not layout.is_dense or 0 in layout.sizes:
            return self.host(node)
        tensor = torch.empty_strided(layout.sizes, layout.strides, dtype=node.meta["val"].dtype)
        self._memory.keep(tensor, layout.order, self._device[node], True)
        _deferred.mark(tensor, layout, self._device[node])
        self._host[node] = tensor
        return tensor


class Graph:
    """A graph of AOTAutograd, which is compiled for the sizes of its first call, and of others as they come."""

    def __init__(self, module: torch.fx.GraphModule, device: _core.Device, options: dict, kept: set[int],
                 first_saved: int, name: str) -> None:  # fmt: skip
        self.module, self.device, self.options, self.name = module, device, options, name
        nodes = list(module.graph.nodes)
        self.placeholders = [node for node in nodes if node.op == "placeholder"]
        self.kept = {node for i, node in enumerate(self.placeholders) if i in kept}
        self.attributes = {}
        for node in nodes:
            if node.op == "get_attr":
                self.attributes[node] = value = _attribute(module, node.target)
                if isinstance(value, torch.Tensor):
                    node.meta.setdefault("val", value)
                self.kept.add(node)
        self.effects = [node for node in nodes if is_effect(node)]
        (self.returned,) = nodes[-1].args
        self.first_saved = first_saved
        self.home = home_of([node.meta.get("val") for node in nodes])
        self.memory, self.refusal = memory_for(self.home, device)
        self.is_symbolic = any(is_symbolic(size) for node in self.placeholders for size in _sizes_of(node))
        self._executables: dict[Any, Executable] = {}
        self._lock = threading.RLock()

    def compile(self) -> None:
        """For the sizes that it has; not of a graph with symbolic ones."""
        self.executable([None] * len(self.placeholders))

    def executable(self, args: list) -> Executable:
        """What runs these arguments, compiled if their sizes are new."""
        numbers = known_symbols(self.placeholders, args) if self.is_symbolic else {}
        key = tuple(numbers.items())
        found = self._executables.get(key)
        if found is None:
            with self._lock:
                found = self._executables.get(key)
                if found is None:
                    found = self._executables[key] = Executable(self, Sizes(numbers))
        return found

    @property
    def executables(self) -> list[Executable]:
        """One for each set of sizes that was called so far."""
        return list(self._executables.values())

    def __call__(self, args: list) -> list:
        given = list(args)
        args.clear()
        return self.executable(given).run(given)


def home_of(values: list) -> torch.device:
    """Where the tensors of a graph are: on the host, unless one is not."""
    for value in values:
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(one, torch.Tensor) and one.device.type != "cpu":
                return one.device
    return torch.device("cpu")


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _sizes_of(node: torch.fx.Node) -> list:
    value = node.meta.get("val")
    return [value] if is_symbolic(value) else list(value.shape) if isinstance(value, torch.Tensor) else []

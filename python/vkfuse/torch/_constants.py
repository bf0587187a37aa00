"""Values that no input leads to: positions, and masks that are made of them. They cost nothing where a kernel knows
what they are, and as much as any other tensor where they are data.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils._python_dispatch import _disable_current_modes
from torch.fx.node import map_arg

aten = torch.ops.aten

#: Elements of a value that is looked at; masks that are larger are comparisons of such.
_MOST_ELEMENTS = 1 << 16
_DTYPES = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
#: What makes values of nothing, and is left as it is.
_MAKERS = {
    aten.full.default, aten.scalar_tensor.default, aten.arange.default, aten.arange.start, aten.arange.start_step
}  # fmt: skip


def _is_pure(node: torch.fx.Node) -> bool:
    """Whether a node gives the same for the same operands, as far as that is known: an operator of somebody else's may
    count its calls, and one that leaves memory as it finds it gives anything."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in ("aten", "prims"):
        return False
    if target._schema.is_mutable or "empty" in target._schema.name:
        return False
    return not {torch.Tag.nondeterministic_seeded, torch.Tag.data_dependent_output} & set(target.tags)


def without_inputs(graph: torch.fx.Graph) -> dict[torch.fx.Node, None]:
    """Nodes that are computed from numbers alone, in their order."""
    free: dict[torch.fx.Node, None] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op != "call_function" or not _is_pure(node) or not isinstance(value, torch.Tensor):
            continue
        known = all(isinstance(size, int) for size in value.shape)
        if known and all(one in free for one in node.all_input_nodes):
            free[node] = None
    return free


def _progression(value: torch.Tensor) -> tuple[int, int, int] | None:
    """The axis along which the elements are start, start + step, ..., and the same along every other axis; (-1, 0,
    start) where all are equal. None for other values, and for those whose arithmetic might wrap."""
    first = value.reshape(-1)[0]
    if bool((value == first).all()):
        return -1, 0, int(first)
    if value.dtype == torch.bool:
        return None
    info = torch.iinfo(value.dtype)
    for axis, size in enumerate(value.shape):
        line = value.movedim(axis, -1).reshape(-1, size)
        start, step = int(first), int(line[0, 1]) - int(first) if size > 1 else 0
        if step == 0 or not info.min <= start + step * size <= info.max:
            continue
        ramp = torch.arange(start, start + step * size, step, dtype=value.dtype, device=value.device)
        if bool((line == ramp).all()):
            return axis, step, start
    return None


def _progressions(free: dict[torch.fx.Node, None]) -> dict[torch.fx.Node, tuple[int, int, int]]:
    """Of values of integers and booleans that have few elements, those that are one."""
    values: dict[torch.fx.Node, torch.Tensor] = {}
    made = {}
    with _disable_current_modes(), torch.no_grad():
        for node in free:
            value = node.meta["val"]
            is_few = value.dtype in _DTYPES and value.device.type != "meta" and 0 < value.numel() <= _MOST_ELEMENTS
            if not is_few or any(one not in values for one in node.all_input_nodes):
                continue
            args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **kwargs)
            progression = _progression(values[node])
            if progression is not None:
                made[node] = progression
    return made


def _spell(graph: torch.fx.Graph, like: torch.Tensor, progression: tuple[int, int, int]) -> torch.fx.Node:
    """The value as the operator that makes such."""
    axis, step, start = progression
    of = {"dtype": like.dtype, "device": like.device}

    def add(target: Any, args: tuple, kwargs: dict | None = None) -> torch.fx.Node:
        node = graph.call_function(target, args, kwargs or {})
        inputs = map_arg((args, kwargs or {}), lambda one: one.meta["val"])
        with like.fake_mode:
            node.meta["val"] = target(*inputs[0], **inputs[1])
        return node

    shape = [int(size) for size in like.shape]
    if axis < 0:
        return add(aten.full.default, (shape, bool(start) if like.dtype == torch.bool else start), of)
    size = shape[axis]
    line = add(aten.arange.start_step, (start, start + step * size, step), of)
    ramp = add(aten.view.default, (line, [size if i == axis else 1 for i in range(len(shape))]))
    whole = add(aten.expand.default, (ramp, shape))
    return add(aten.clone.default, (whole,), {"memory_format": torch.contiguous_format})


def name_positions(graph: torch.fx.Graph) -> None:
    """Values of numbers alone that turn out to be one number, or to count, are spelled so: what is compared with them
    is then known for all positions, however it was computed."""
    free = without_inputs(graph)
    for node, progression in _progressions(free).items():
        like = node.meta["val"]
        is_result = any(user.op == "output" for user in node.users)
        if node.target in _MAKERS or is_result or not like.is_contiguous() or not hasattr(like, "fake_mode"):
            continue
        with graph.inserting_before(node):
            node.replace_all_uses_with(_spell(graph, like, progression))
    graph.eliminate_dead_code()


#: What moves elements, beside what PyTorch has among operators on elements.
_VIEWS = {
    aten.view.default, aten.reshape.default, aten.expand.default, aten.permute.default, aten.clone.default,
    aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.slice.Tensor, aten.select.int, aten.alias.default
}  # fmt: skip


def _cheap(free: dict[torch.fx.Node, None]) -> set[torch.fx.Node]:
    """Those that are computed element by element from positions and numbers: a kernel that reads them does so."""
    cheap: set[torch.fx.Node] = set()
    for node in free:
        known = torch.Tag.pointwise in node.target.tags or node.target in _VIEWS or node.target in _MAKERS
        if known and all(one in cheap for one in node.all_input_nodes):
            cheap.add(node)
    return cheap


def _copied(node: torch.fx.Node, graph: torch.fx.Graph, copies: dict[torch.fx.Node, torch.fx.Node]) -> torch.fx.Node:
    waiting = [node]
    while waiting:
        one = waiting[-1]
        missing = [of for of in one.all_input_nodes if of not in copies]
        if missing:
            waiting.extend(missing)
            continue
        waiting.pop()
        if one not in copies:
            copies[one] = graph.node_copy(one, copies.__getitem__)
    return copies[node]


def _compute_in_both(forward: torch.fx.GraphModule, backward: torch.fx.GraphModule, results: int) -> None:
    """What the forward graph keeps for the backward one, and the latter can compute from numbers alone as it reads it,
    is kept no more."""
    free = _cheap(without_inputs(forward.graph))
    (output,) = forward.graph.find_nodes(op="output")
    kept = list(output.args[0])
    placeholders = {node.name: node for node in backward.graph.find_nodes(op="placeholder")}
    moved = {i for i, node in enumerate(kept) if i >= results and node in free and node.name in placeholders}
    if not moved:
        return
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    last = list(placeholders.values())[-1]
    with backward.graph.inserting_after(last):
        anchor = backward.graph.call_function(aten.scalar_tensor.default, (0,))  # what is copied goes before it
    with backward.graph.inserting_before(anchor):
        for i in sorted(moved):
            placeholder = placeholders[kept[i].name]
            placeholder.replace_all_uses_with(_copied(kept[i], backward.graph, copies))
            backward.graph.erase_node(placeholder)
    backward.graph.erase_node(anchor)
    output.args = (tuple(node for i, node in enumerate(kept) if i not in moved), *output.args[1:])
    if isinstance(output.meta.get("desc"), (list, tuple)):
        output.meta["desc"] = [one for i, one in enumerate(output.meta["desc"]) if i not in moved]
    for module in (forward, backward):
        module.graph.eliminate_dead_code()
        module.recompile()


def partition(joint: torch.fx.GraphModule, inputs: Any, **options: Any) -> tuple:
    """AOTAutograd's minimum cut, of a graph whose positions are known for what they are, and are kept by nobody."""
    name_positions(joint.graph)
    joint.recompile()
    forward, backward = min_cut_rematerialization_partition(joint, inputs, **options)
    _compute_in_both(forward, backward, options["num_fwd_outputs"])
    return forward, backward

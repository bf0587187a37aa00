"""The table of rules: how each op of ATen is written in tensors of vkfuse."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import torch
from torch.fx.node import map_arg

from .. import _core
from .._errors import Error
from ._dtypes import NotCovered, cast, name_of, unrounded_in

aten = torch.ops.aten
#: Rules by the op (torch._ops.OpOverload). A rule takes a Call and the node's arguments, tensors of vkfuse in place of
#: nodes, and returns a tensor, a tuple of them, or NotCovered.
RULES: dict[Any, Callable] = {}
#: Ops that go on with the float32 that a result of 16 bits was rounded from.
ARITHMETIC: set = set()


def find(name: str) -> Any:
    """An op by its name, "add.Tensor" of ATen or "vkfuse.attention.default"; None where this version of PyTorch has
    none."""
    rest = name.removeprefix("vkfuse.")
    packet, _, overload = rest.partition(".")
    ops = torch.ops.vkfuse if rest != name else aten
    return getattr(getattr(ops, packet, None), overload or "default", None)


def rule(*names: str) -> Callable:
    """Registers a function as the rule of these ops."""

    def register(function: Callable) -> Callable:
        for name in names:
            op = find(name)
            if op is not None:
                RULES[op] = function
        return function

    return register


@dataclasses.dataclass
class State:
    """What the nodes of one graph share while they are lowered."""

    sizes: Any  #: Sizes: numbers of symbolic sizes
    home: torch.device  #: where tensors are
    seed: _core.Tensor | None = None  #: u64 []: another number in each call
    draws: dict = dataclasses.field(default_factory=dict)  #: which random node draws with which number
    unrounded: dict = dataclasses.field(default_factory=dict)  #: of 16-bit results: see _dtypes.cast()
    checks: list = dataclasses.field(default_factory=list)  #: (bool [] that has to be true, sentence)

    def seed_of(self, node: Any) -> _core.Tensor:
        """A seed that no other node of the graph has."""
        if self.seed is None:
            self.seed = _core.input("seed", "uint32", ())
        place = self.draws.setdefault(node, len(self.draws) + 1)
        return _core.bit_xor(self.seed, _core.scalar(place * 0x9E3779B9 & 0xFFFFFFFF, "uint32"))


class Call:
    """One node while it is lowered."""

    def __init__(self, node: torch.fx.Node, state: State) -> None:
        self.node, self.state = node, state
        self.value = node.meta["val"]

    @property
    def fakes(self) -> tuple:
        """Positional arguments, with fake tensors in place of nodes."""
        return map_arg(self.node.args, lambda one: one.meta["val"])

    def shape(self, index: int | None = None) -> tuple[int, ...]:
        """The shape of the result, or of one of them."""
        return self.state.sizes.shape_of(self.value if index is None else self.value[index])

    def dtype(self, index: int | None = None) -> torch.dtype:
        """The dtype of the result, or of one of them."""
        return (self.value if index is None else self.value[index]).dtype

    def seed(self) -> _core.Tensor:
        """One integer, another one in each call of the graph and in each node."""
        return self.state.seed_of(self.node)

    def check(self, is_right: _core.Tensor, sentence: str) -> None:
        """The call of the graph fails with this sentence unless every element is true."""
        self.state.checks.append((is_right.all() if is_right.ndim else is_right, sentence))


def _fitted(call: Call, made: Any) -> Any:
    """What a rule made, which has to be of the shapes and dtypes that ATen gives."""
    if not isinstance(call.value, (tuple, list)):
        made, values = (made,), (call.value,)
    else:
        values = call.value
    fitted = []
    for one, value in zip(made, values, strict=True):
        if not isinstance(value, torch.Tensor):  # ops with many results have none of some, or a size
            fitted.append(one)
            continue
        one = cast(one, value.dtype)
        shape = call.state.sizes.shape_of(value)
        if tuple(one.shape) != shape:
            raise NotCovered(f"Its rule makes {list(one.shape)} where ATen has {list(shape)}.")
        fitted.append(one)
    return tuple(fitted) if isinstance(call.value, (tuple, list)) else fitted[0]


def _refuse_types(value: Any, what: str, home: torch.device) -> None:
    for one in value if isinstance(value, (tuple, list)) else (value,):
        if not isinstance(one, torch.Tensor):
            continue
        name_of(one.dtype)
        is_number = what == "operand" and one.device.type == "cpu" and one.ndim == 0
        if one.device != home and not is_number:
            raise NotCovered(f"Its {what} is on {one.device}, and those of the graph are on {home}.")
        if one.layout != torch.strided:
            raise NotCovered(f"Its {what} has the layout {one.layout}.")


def lower_node(node: torch.fx.Node, values: dict, state: State) -> Any:
    """The tensors of a node, or NotCovered with the reason."""
    function = RULES.get(node.target)
    if function is None:
        raise NotCovered(f"vkfuse has no rule for {node.target}.")
    if "val" not in node.meta:
        raise NotCovered("The graph does not say what shape it has.")
    _refuse_types(node.meta["val"], "result", state.home)
    map_arg((node.args, node.kwargs), lambda one: _refuse_types(one.meta.get("val"), "operand", state.home))
    args, kwargs = map_arg((node.args, node.kwargs), lambda one: values[one])
    call = Call(node, state)
    checks = len(state.checks)
    try:
        with unrounded_in(state.unrounded):
            made = _fitted(call, function(call, *args, **kwargs))
        # What more than one node reads is as eager has it: it may have to be stored, and takes half the bytes rounded.
        if isinstance(made, tuple) or len(node.users) != 1 or next(iter(node.users)).target not in ARITHMETIC:
            for one in made if isinstance(made, tuple) else (made,):
                state.unrounded.pop(id(one), None)
        return made
    except NotCovered:
        del state.checks[checks:]
        raise
    except (Error, TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError) as refused:
        del state.checks[checks:]
        raise NotCovered(f"It cannot be written in ops of vkfuse: {refused}") from refused

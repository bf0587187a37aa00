"""The backend: what torch.compile calls with a graph, and AOTAutograd with its forward and backward graphs."""

from __future__ import annotations

import contextvars
import functools
from typing import Any, Callable

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .. import _core, _default
from .._errors import Error
from . import _cuda, _decompositions
from ._attention import with_one_attention
from ._constants import name_positions, partition
from ._executable import Graph, home_of
from ._memory import memory_for

#: Graphs that are compiled while explain() looks on.
watched: contextvars.ContextVar[list | None] = contextvars.ContextVar("vkfuse_torch_watched", default=None)


@functools.lru_cache(maxsize=None)
def _device_of(name: Any) -> _core.Device:
    """One for each name, as what is on a device is known by the object."""
    return _core.Device(name)


def _device_at(home: torch.device) -> _core.Device | None:
    """The Vulkan device that a device of CUDA is; None where there is none, and for the host."""
    if home.type != "cuda" or torch.version.hip is not None:
        return None
    default = _default.default_device()
    uuid = _cuda.uuid_of(home)
    try:
        return default if default.describe()["uuid"] == uuid else _device_of(uuid)
    except Error:
        return None


def _metadata() -> Any:
    context = torch._guards.TracingContext.try_get()
    return None if context is None else context.fw_metadata


def _compile(kind: str, device: Any, options: dict, seen: list | None, module: Any, examples: Any) -> Callable:
    metadata = _metadata()
    kept = set(metadata.static_input_indices) if metadata is not None and kind != "backward" else set()
    first_saved = len(list(module.graph.nodes)[-1].args[0])
    if kind == "inference":  # of the others it was one graph
        name_positions(module.graph)
        module.recompile()
    if kind == "forward" and metadata is not None:
        first_saved = metadata.num_forward_returns
        metadata.bw_donated_idxs = []  # a backward graph of ours leaves what is saved as it is, and may run again
    graph = Graph(module, device, options, kept, first_saved, kind)
    if seen is not None:
        seen.append(graph)
    if not graph.is_symbolic:  # at once, so that a first call does not wait, and the log is in order
        with unset_fake_temporarily():
            graph.compile()

    def call(args: list) -> list:
        return graph(args)

    call._boxed_call = True  # the list of arguments is emptied, so that their memory is free once they are read
    return call


def _check_options(device: Any, options: dict) -> None:
    """What the library says of wrong options, before it is asked for what there may be no rule for."""
    _core.supports([_core.neg(_core.input("x", "float32", (1,)))], device, **options)


def backend(module: torch.fx.GraphModule, examples: list, *, options: dict | None = None, **more: Any) -> Callable:
    """torch.compile(model, backend="vkfuse"), with these options: `device`, a vkfuse.Device or a name of one; and those
    of vkfuse.compile(), such as numerics="strict"."""
    options = {**(options or {}), **more}
    options.pop("mode", None)
    device = options.pop("device", None)
    if device is not None and not isinstance(device, _core.Device):
        device = _device_of(device)
    home = home_of(examples)
    device = device or _device_at(home) or _default.default_device()
    _check_options(device, options)
    if memory_for(home, device)[0] is not None:
        module = with_one_attention(module)
    compiler = functools.partial(_compile, device=device, options=options, seen=watched.get())

    def of(kind: str) -> Callable:
        return lambda made, inputs: compiler(kind, module=made, examples=inputs)

    compiled = aot_autograd(
        fw_compiler=of("forward"), bw_compiler=of("backward"), inference_compiler=of("inference"),
        partition_fn=partition, decompositions=_decompositions.table(),
        keep_inference_input_mutations=True,
    )  # fmt: skip
    return compiled(module, examples)

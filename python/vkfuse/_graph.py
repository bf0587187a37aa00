"""Graphs written down by hand, and how programs show themselves in a notebook."""

from __future__ import annotations

import html
from typing import Any

from . import _core, _errors


class Graph:
    """A program that is written down: inputs, values computed from them, and named outputs.

    >>> g = vkfuse.Graph()
    >>> x = g.input("x", "float32", ["n", 4])
    >>> g.output("y", vkfuse.relu(x * 2) + 1)
    >>> program = g.compile()
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.inputs: dict[str, _core.Tensor] = {}
        self.outputs: dict[str, _core.Tensor] = {}

    @classmethod
    def from_onnx(cls, path, **options: Any) -> Graph:
        """The graph of an ONNX file; options are those of vkfuse.load_tensors(). Its programs take device arrays."""
        model = _core.load_tensors(path, **options)
        made = cls(model["name"] or "graph")
        made.inputs, made.outputs = model["inputs"], model["outputs"]
        return made

    def input(self, name: str, dtype: Any = "float32", shape: Any = ()) -> _core.Tensor:
        """A named input; dimensions are sizes, names of symbols, or vkfuse.Dim."""
        if name in self.inputs:
            raise _errors.InvalidArgument(f"The graph '{self.name}' has an input '{name}' already.")
        self.inputs[name] = _core.input(name, dtype, shape)
        return self.inputs[name]

    def constant(self, elements: Any, dtype: Any = None) -> _core.Tensor:
        """A literal with the elements of an array."""
        return _core.constant(elements, dtype)

    def scalar(self, value: float, dtype: Any = "float32") -> _core.Tensor:
        """A literal of one element."""
        return _core.scalar(value, dtype)

    def apply(self, op: str, *operands: Any) -> _core.Tensor:
        """Any elementwise op by its name in docs/ops.md."""
        return _core.apply(op, *operands)

    def output(self, name: str, value: _core.Tensor) -> None:
        """Names a result."""
        if not isinstance(value, _core.Tensor):
            raise TypeError("An output must be a vkfuse.Tensor.")
        self.outputs[name] = value

    def compile(self, device: _core.Device | None = None, **options: Any) -> _core.Program:
        """The program of the outputs; options are those of vkfuse.compile()."""
        return _core.compile(self.outputs, device, **{"name": self.name, **options})

    def compile_parallel(
        self, transport: _core.Transport, device: _core.Device | None = None, **options: Any
    ) -> _core.ParallelProgram:
        """This rank's program of the outputs; options are those of vkfuse.compile_parallel()."""
        return _core.compile_parallel(self.outputs, transport, device, **{"name": self.name, **options})

    def supports(self, device: _core.Device | None = None, **options: Any) -> None:
        """Raises what compile() would, without compiling a shader."""
        _core.supports(self.outputs, device, **{"name": self.name, **options})

    def plan(self, device: _core.Device | None = None, **options: Any) -> str:
        """The plan as text: which ops share a kernel, and what that moves."""
        return self.compile(device, **options).plan()

    def __str__(self) -> str:
        return _core.graph_text(self.outputs, self.name)

    def __repr__(self) -> str:
        return f"<vkfuse.Graph '{self.name}' ({', '.join(self.inputs)}) -> ({', '.join(self.outputs)})>"

    def _repr_html_(self) -> str:
        text = str(self) if self.outputs else repr(self)
        return f'<pre style="line-height: 1.35">{html.escape(text)}</pre>'


def page_in_frame(page: str, height: int = 720) -> str:
    """A page for a browser as part of another: in a separate frame, so that neither's styles reach the other."""
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" sandbox="allow-scripts" '
        f'style="width: 100%; height: {height}px; border: 1px solid #ccc" title="plan"></iframe>'
    )


def _repr_html_of_program(self) -> str:
    return page_in_frame(self.html())


def _repr_html_of_model(self) -> str:
    try:
        text = self.plan()
    except _errors.Error as unknown:  # sizes that only a run tells
        text = f"{self!r}\n{unknown}"
    return f'<pre style="line-height: 1.35">{html.escape(text)}</pre>'


for _type, _function in ((_core.Program, _repr_html_of_program), (_core.OnnxProgram, _repr_html_of_model)):
    _function.__module__, _function.__name__ = "vkfuse._core", "_repr_html_"
    _function.__qualname__ = f"{_type.__name__}._repr_html_"
    _type._repr_html_ = _function

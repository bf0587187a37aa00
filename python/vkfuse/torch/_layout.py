"""How the elements of a tensor of PyTorch lie: what is dense in another order of its axes crosses without a copy."""

from __future__ import annotations

import dataclasses

import torch


@dataclasses.dataclass(frozen=True)
class Layout:
    """Sizes and strides, and the order of axes in which the elements are dense."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    order: tuple[int, ...]  #: axes, outermost first
    repeated: tuple[int, ...]  #: axes of stride 0, of which one element is there
    is_dense: bool  #: in that order, without gaps

    @property
    def stored(self) -> tuple[int, ...]:
        """Sizes of what is there, in order."""
        return tuple(1 if axis in self.repeated else self.sizes[axis] for axis in self.order)

    @property
    def is_plain(self) -> bool:
        """Whether it is row-major and dense."""
        return self.is_dense and not self.repeated and self.order == tuple(range(len(self.sizes)))


def layout_of(sizes: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    """What sizes and strides mean. Axes of one element go anywhere: they stay where they are if that is dense."""
    rank = len(sizes)
    if 0 in sizes:
        return Layout(sizes, strides, tuple(range(rank)), (), True)
    repeated = tuple(i for i in range(rank) if strides[i] == 0 and sizes[i] > 1)
    plain, expected = True, 1
    for i in reversed(range(rank)):
        if sizes[i] > 1 and i not in repeated:
            plain = plain and strides[i] == expected
            expected *= sizes[i]
    if plain:
        return Layout(sizes, strides, tuple(range(rank)), repeated, True)
    order = tuple(sorted(range(rank), key=lambda i: (-strides[i], i)))
    expected, dense = 1, True
    for i in reversed(order):
        if sizes[i] > 1 and i not in repeated:
            dense = dense and strides[i] == expected
            expected *= sizes[i]
    if not dense:
        return Layout(sizes, strides, tuple(range(rank)), (), False)
    return Layout(sizes, strides, order, repeated, True)


def overlaps(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two elements may be one in memory."""
    extent = 1
    for stride, size in sorted((stride, size) for stride, size in zip(strides, sizes) if size > 1):
        if stride < extent:
            return True
        extent += (size - 1) * stride
    return False


def spread(stored: torch.Tensor, layout: Layout) -> torch.Tensor:
    """A tensor with these sizes and strides and the elements of another one. Along axes of stride 0 one is written."""
    made = torch.empty_strided(layout.sizes, layout.strides, dtype=stored.dtype, device=stored.device)
    part, elements = made, stored.reshape(layout.sizes)
    for axis, (size, stride) in enumerate(zip(layout.sizes, layout.strides)):
        if stride == 0 and size > 1:
            part, elements = part.narrow(axis, 0, 1), elements.narrow(axis, 0, 1)
    part.copy_(elements)
    return made


def placed(stored: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The tensor whose elements are there, with the strides that it is to have. It is no view."""
    if layout.is_plain and stored.stride() == layout.strides:
        return stored
    if not layout.is_dense:
        return spread(stored, layout)
    return torch.empty(0, dtype=stored.dtype).set_(stored.untyped_storage(), 0, layout.sizes, layout.strides)

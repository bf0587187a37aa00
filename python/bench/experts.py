"""What a mixture of experts takes, in us: the router, the choice of experts, and their gated networks.

    python experts.py [WEIGHTS TOKENS EXPERTS CHOSEN WIDTH INNER]...     (f16 or int4; Mixtral's and Qwen3's sizes)

Beside the kernels' times: how long the bytes of the experts that are chosen would take at the rate of a copy of
512 MiB, and how many multiplications and additions a second the products of tokens with their experts are.
"""

import sys

import numpy as np
import vkfuse
from cached_attention import bytes_per_us_of_copy
from generation import GROUP, microseconds

CASES = [
    (kind, tokens, *sizes)
    for sizes in ((8, 2, 4096, 14336), (128, 8, 2048, 768))
    for kind in ("f16", "int4")
    for tokens in (1, 4, 16, 64, 2048)
]


def weights(graph, name, experts, rows, columns, kind):
    """Matrices that lie as models are stored, a row for each result: [experts, columns, rows]."""
    if kind == "f16":
        return graph.input(name, "float16", [experts, rows, columns]).permute(0, 2, 1)
    packed = graph.input(name, "uint8", [experts, rows, columns // 2])
    numbers = vkfuse.unpack_int4(packed, False).astype("float16") - 8
    scale = graph.input(f"{name} scale", "float16", [experts, rows, columns // GROUP, 1])
    scaled = numbers.reshape(experts, rows, columns // GROUP, GROUP) * scale
    return scaled.reshape(experts, rows, columns).permute(0, 2, 1)


def layer(kind, tokens, experts, chosen, width, inner):
    graph = vkfuse.Graph("mixture of experts")
    x = graph.input("x", "float16", [tokens, width])
    logits = x @ graph.input("router", "float16", [experts, width]).permute(1, 0)
    best = logits.argsort(1, descending=True, count=chosen)
    shares = vkfuse.softmax(logits.take_along(best, 1).astype("float32"), 1)
    gate, up = (weights(graph, name, experts, inner, width, kind) for name in ("gate", "up"))
    down = weights(graph, "down", experts, width, inner, kind)
    graph.output("y", vkfuse.mixture_of_experts(x, best, shares, up, down, gate))
    graph.output("experts", best)
    return graph.compile()


def arrays_of(device, program):
    random = np.random.default_rng(1)
    made = {}
    for value in program.inputs:
        shape, dtype = [int(dim) for dim in value.shape], np.dtype(str(value.dtype))
        if dtype == np.uint8:
            made[value.name] = np.resize(random.integers(0, 256, 1 << 20, dtype=np.uint8), shape)
        else:
            numbers = random.standard_normal(1 << 20) * (1 if value.name in ("x", "router") else 0.02)
            made[value.name] = np.resize(numbers.astype(dtype), shape)
    return {name: device.array(one) for name, one in made.items()}


def measure(device, copied, kind, tokens, experts, chosen, width, inner):
    program = layer(kind, tokens, experts, chosen, width, inner)
    inputs = arrays_of(device, program)
    taken = np.unique(np.asarray(program(**inputs)["experts"])).size
    kernels = microseconds(program, inputs)
    us = sum(kernels)
    read = taken * 3 * width * inner * (2 if kind == "f16" else 0.5 + 2 / GROUP)
    print(
        f"{kind:4} {tokens:4} tokens, {chosen} of {experts} experts, {width} x {inner}: "
        f"{len(kernels):2} kernels, {us:7.1f} us, "
        f"bytes alone {read / copied:6.1f} us ({100 * read / copied / us:3.0f} %), "
        f"{tokens * chosen * 6 * width * inner / us / 1e6:5.1f} TFLOP/s; {' '.join(f'{one:.1f}' for one in kernels)}",
        flush=True,
    )


def main():
    device = vkfuse.default_device()
    copied = bytes_per_us_of_copy(device)
    print(f"{device.name}: copy {copied / 1e3:.0f} GB/s", flush=True)
    words = sys.argv[1:]
    cases = [(words[i], *map(int, words[i + 1 : i + 6])) for i in range(0, len(words), 6)]
    for case in cases or CASES:
        measure(device, copied, *case)


if __name__ == "__main__":
    main()

"""What a step of generation takes, one token a sequence, in us: layers of Llama-8B with random weights.

    python generation.py [WEIGHTS [LAYERS [SEQUENCES [KEYS]]]]...     (f16 4 1 2048; WEIGHTS: see KINDS)
    python generation.py products [VECTORS]...                        (1: times matrices of each kind of weights)

Steps are timed on the host's clock: with the next one submitted before a token is read, and where each is waited for.
Beside them: how long the bytes that a step reads would take at the rate of a copy of 512 MiB. int8 and float8
(e4m3fn) weights have a scale for each row, int4 one for each 128, MXFP4 a power of two for 32.
"""

import collections
import sys
import time

import numpy as np
import vkfuse
from cached_attention import bytes_per_us_of_copy

KINDS = ("f16", "int8", "int4", "float8", "mxfp4")
WIDTH, HEADS, KEY_HEADS, SIZE, INNER, VOCABULARY, GROUP = 4096, 32, 8, 128, 14336, 128256, 128
NUMBERS = (np.random.default_rng(1).standard_normal(1 << 20) * 0.02).astype(np.float16)
BYTES = np.random.default_rng(2).integers(0, 256, 1 << 20, dtype=np.uint8)


def product(graph, x, name, rows, columns, kind):
    """x times a matrix that lies as models are stored, a row for each result."""
    if kind == "f16":
        return x @ graph.input(name, "float16", [rows, columns]).permute(1, 0)
    if kind not in KINDS:
        raise SystemExit(f"Weights are {', '.join(KINDS)}, but '{kind}' was asked for.")
    if kind in ("int8", "float8"):
        scale = graph.input(f"{name} scale", "float16", [rows, 1])
        codes = graph.input(name, "int8" if kind == "int8" else "uint8", [rows, columns])
        numbers = codes.astype("float16") if kind == "int8" else vkfuse.decode_float(codes, dtype="float16")
        return x @ (numbers * scale).permute(1, 0)
    if kind == "mxfp4":
        codes = vkfuse.unpack_int4(graph.input(name, "uint8", [rows, columns // 2]), False)
        numbers = vkfuse.decode_float(codes, "float4_e2m1fn", "float16")
        powers = graph.input(f"{name} scale", "uint8", [rows, columns // 32])
        scale = vkfuse.decode_float(powers, "float8_e8m0fnu", "float16")
        return x @ vkfuse.dequantize(numbers, scale, axis=-1, group=32).permute(1, 0)
    numbers = vkfuse.unpack_int4(graph.input(name, "uint8", [rows, columns // 2]), False).astype("float16") - 8
    scale = graph.input(f"{name} scale", "float16", [rows, columns // GROUP, 1])
    return x @ (numbers.reshape(rows, columns // GROUP, GROUP) * scale).reshape(rows, columns).permute(1, 0)


def norm(graph, x, name):
    return vkfuse.rms_norm(x.astype("float32")).astype("float16") * graph.input(name, "float16", [WIDTH])


def layer(graph, x, i, kind, angles, start, keys):
    sequences = int(x.shape[0])
    y = norm(graph, x, f"{i} norm")

    def heads(name, many, turned):
        each = product(graph, y, f"{i} {name}", many * SIZE, WIDTH, kind).reshape(sequences, many, SIZE)
        each = vkfuse.rotary(each.astype("float32"), *angles).astype("float16") if turned else each
        return each.reshape(sequences, many, 1, SIZE)

    def cache(name, turned):
        held = graph.input(f"{i} {name}", "float16", [sequences, KEY_HEADS, keys, SIZE])
        held = held.update_rows(start, heads(f"{name} weights", KEY_HEADS, turned), 2)
        graph.output(f"{i} {name}'", held)
        return held

    seen = vkfuse.cached_attention(heads("query", HEADS, True), cache("keys", True), cache("values", False), start)
    x = x + product(graph, seen.reshape(sequences, WIDTH), f"{i} mixed", WIDTH, WIDTH, kind)
    y = norm(graph, x, f"{i} second norm")
    gate, up = (product(graph, y, f"{i} {name}", INNER, WIDTH, kind) for name in ("gate", "up"))
    return x + product(graph, vkfuse.silu(gate) * up, f"{i} down", WIDTH, INNER, kind)


def step(kind, layers, sequences, keys):
    graph = vkfuse.Graph("step")
    start = graph.input("start", "int32", [sequences])
    angles = [graph.input(name, "float32", [keys, SIZE // 2]).gather(start, 0).reshape(sequences, 1, SIZE // 2)
              for name in ("cosine", "sine")]
    x = graph.input("embedding", "float16", [VOCABULARY, WIDTH]).gather(graph.input("tokens", "int32", [sequences]), 0)
    for i in range(layers):
        x = layer(graph, x, i, kind, angles, start, keys)
    logits = product(graph, norm(graph, x, "last norm"), "logits", VOCABULARY, WIDTH, kind)
    graph.output("token", vkfuse.greedy(logits.astype("float32")))
    return graph.compile()


def arrays_of(program, start=0):
    """Inputs on the device, and their bytes without tables of which a step reads a row."""
    made, read = {}, 0
    for value in program.inputs:
        shape, dtype = [int(dim) for dim in value.shape], np.dtype(str(value.dtype))
        count = int(np.prod(shape))
        numbers = BYTES.view(dtype) if dtype.itemsize == 1 else NUMBERS.astype(dtype)
        array = np.full(count, start, dtype) if value.name == "start" else np.resize(numbers, count)
        made[value.name] = vkfuse.array((array * 0 if value.name == "tokens" else array).reshape(shape))
        read += 0 if value.name in ("embedding", "cosine", "sine") else count * dtype.itemsize
    return made, read


def microseconds(program, inputs):
    """Of each kernel, the least of some runs."""
    runs = [[kernel.microseconds for kernel in program.profile(**inputs)] for _ in range(4)]
    return [min(times) for times in zip(*runs)]


def step_us(program, inputs, behind):
    """A step on the host's clock, with caches in place: the least of some means. The host waits for the step that is
    `behind` others: 0 as one would who reads each token, 1 where the next step is submitted before a token is read."""
    outputs = {}
    for value in program.outputs:
        is_cache = value.name.endswith("'")
        shape = [int(dim) for dim in value.shape]
        outputs[value.name] = inputs[value.name[:-1]] if is_cache else vkfuse.empty(shape, str(value.dtype))
    least, steps = float("inf"), 20
    for _ in range(8):
        began = time.perf_counter()
        running = collections.deque()
        for _ in range(steps):
            running.append(program.submit(inputs, outputs))
            if len(running) > behind:
                running.popleft().wait()
        while running:
            running.popleft().wait()
        least = min(least, (time.perf_counter() - began) / steps * 1e6)
    return least


def measure_step(copied, kind, layers, sequences, keys):
    program = step(kind, layers, sequences, keys)
    inputs, read = arrays_of(program, keys - 1)
    waited, whole = (step_us(program, inputs, behind) for behind in (0, 1))
    print(
        f"{kind:6} {layers} layers, {sequences} x {keys} keys: {program.kernel_count} kernels, {whole:.0f} us a step, "
        f"{waited:.0f} where each is waited for, "
        f"bytes alone {read / copied:.0f} us ({100 * read / copied / whole:.0f} %)",
        flush=True,
    )
    return whole


def measure_products(copied, vectors):
    for rows, columns in ((28672, 8192), (8192, 28672), (14336, 4096), (4096, 14336), (4096, 4096)):
        for kind in KINDS:
            for sequences in vectors:
                graph = vkfuse.Graph("product")
                x = graph.input("x", "float16", [sequences, columns])
                graph.output("y", product(graph, x, "weights", rows, columns, kind))
                program = graph.compile()
                inputs, read = arrays_of(program)
                us = sum(microseconds(program, inputs))
                print(f"{sequences} x {columns} times {rows} rows of {kind:6}: {us:6.1f} us, "
                      f"{100 * read / us / copied:3.0f} % of copy", flush=True)


def main():
    copied = bytes_per_us_of_copy(vkfuse.default_device())
    print(f"{vkfuse.default_device().name}: copy {copied / 1e3:.0f} GB/s", flush=True)
    words = sys.argv[1:]
    if words[:1] == ["products"]:
        return measure_products(copied, [int(word) for word in words[1:]] or [1])
    starts = [i for i, word in enumerate(words) if not word.isdigit()] or [0]
    for begin, end in zip(starts, [*starts[1:], len(words)]):
        given = words[begin:end] or ["f16"]
        numbers = [int(word) for word in given[1:]] + [4, 1, 2048][len(given) - 1:]
        measure_step(copied, given[0], *numbers)


if __name__ == "__main__":
    main()

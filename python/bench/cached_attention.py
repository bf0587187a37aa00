"""What attention of one query a sequence against a cache takes, in us, by how many keys there are in a part.

    python cached_attention.py [SEQUENCES CAPACITY HELD PARTS]...      (8 2048 2048 128,256; a part of 0: the default)

32 heads on 8 of keys, size 128, float16, beside a copy of 512 MiB. `of copy` is of the bytes of keys and values held.
A part that is written as pN is the default, of caches in pages of N positions, in random order.
"""

import sys

import numpy as np
import vkfuse

HEADS, KEY_HEADS, SIZE = 32, 8, 128
CASES = [(1, 2048, 2048), (1, 8192, 8192), (1, 32768, 32768), (1, 131072, 131072), (8, 8192, 8192), (64, 8192, 8192)]


def microseconds(kernels):
    return [kernel.microseconds for kernel in kernels]


def bytes_per_us_of_copy(device):
    x = device.array(np.ones(1 << 28, np.float16))
    double = vkfuse.jit(lambda x: x * 2)
    return 2 * 2 * x.size / min(sum(microseconds(double.profile(x))) for _ in range(2))


def measure(device, copied, sequences, capacity, held, part):
    page = int(part[1:]) if part[0] == "p" else 0
    cache = [sequences * capacity, KEY_HEADS, SIZE] if page else [sequences, KEY_HEADS, capacity, SIZE]
    graph = vkfuse.Graph("cached attention")
    q = graph.input("q", "float16", [sequences, HEADS, 1, SIZE])
    keys, values = graph.input("keys", "float16", cache), graph.input("values", "float16", cache)
    starts = graph.input("starts", "int32", [sequences])
    random = np.random.default_rng(1)
    queries = random.standard_normal((sequences, HEADS, 1, SIZE)).astype(np.float16)
    tables = {}
    if page:
        pages = random.permutation(sequences * capacity // page).astype(np.int32)
        tables["table"] = pages.reshape(sequences, capacity // page)
        table = graph.input("table", "int32", [sequences, capacity // page])
        graph.output("y", vkfuse.paged_attention(q, keys, values, table, starts, page=page))
    else:
        graph.output("y", vkfuse.cached_attention(q, keys, values, starts, part=int(part)))
    given = {
        **tables,
        "q": queries,
        "keys": np.ones(cache, np.float16),
        "values": np.ones(cache, np.float16),
        "starts": np.full(sequences, held - 1, np.int32),
    }
    kernels = microseconds(graph.compile(device).profile(**{name: device.array(one) for name, one in given.items()}))
    moved = 2 * 2 * sequences * KEY_HEADS * held * SIZE
    print(
        f"{sequences:3} x {capacity:6}, {held:6} held, "
        f"part {part if part != '0' else 'default':>7}: {sum(kernels):7.1f} us, "
        f"{100 * moved / sum(kernels) / copied:3.0f} % of copy, kernels {' '.join(f'{us:.1f}' for us in kernels)}",
        flush=True,
    )


def main():
    device = vkfuse.default_device()
    copied = bytes_per_us_of_copy(device)
    print(f"{device.name}: copy {copied / 1e3:.0f} GB/s", flush=True)
    words = sys.argv[1:]
    cases = [[*map(int, words[i : i + 3]), words[i + 3]] for i in range(0, len(words), 4)]
    for sequences, capacity, held, parts in cases or [[*case, "0"] for case in CASES]:
        for part in parts.split(","):
            measure(device, copied, sequences, capacity, held, part)


if __name__ == "__main__":
    main()

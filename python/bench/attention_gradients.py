"""What the forward and the backward pass of attention take, in us, and how many multiplications and additions a second.

    python attention_gradients.py [ours|stored|torch]... [BATCHxHEADSxPOSITIONSxSIZE[xKEYHEADS][,causal]]...

`ours`: kernels of one program, which has both passes; `stored`: the same where the planner computes no product again;
`torch`: scaled_dot_product_attention, whose backend PyTorch chooses, between two events. The products of a backward
pass are counted as five, as is usual, however many a kernel computes; of causal attention, half of them.
"""

import sys

import numpy as np

CASES = ["8x12x1024x64,causal", "4x16x4096x128,causal", "4x16x4096x128", "4x16x4096x64", "1x16x16384x64,causal"]
CASES += ["4x32x2048x128x8,causal", "4x16x1000x64,causal"]


def read(case):
    sizes, *options = case.split(",")
    numbers = [int(size) for size in sizes.split("x")]
    return (*numbers, numbers[1])[:5], "causal" in options


def products(case):
    (batch, heads, positions, size, _), causal = read(case)
    return 4 * batch * heads * positions * positions * size / (2 if causal else 1)


def arrays_of(case):
    (batch, heads, positions, size, key_heads), _ = read(case)
    random = np.random.default_rng(1)
    shapes = {"q": heads, "k": key_heads, "v": key_heads, "cotangent": heads}
    return {
        name: np.resize(random.standard_normal(1 << 20).astype(np.float16), (batch, own, positions, size))
        for name, own in shapes.items()
    }


def program_of(case, **options):
    import vkfuse

    (batch, heads, positions, size, key_heads), causal = read(case)
    graph = vkfuse.Graph("attention")
    q = graph.input("q", "float16", [batch, heads, positions, size])
    k, v = (graph.input(name, "float16", [batch, key_heads, positions, size]) for name in "kv")
    y = vkfuse.attention(q, k, v, causal=causal)
    made = vkfuse.gradients([y], [q, k, v], [graph.input("cotangent", "float16", [batch, heads, positions, size])])
    for name, value in zip(("y", "of q", "of k", "of v"), [y, *made]):
        graph.output(name, value)
    return graph.compile(**options)


def ours(case, **options):
    import vkfuse

    program = program_of(case, **options)
    device = vkfuse.default_device()
    inputs = {name: device.array(one) for name, one in arrays_of(case).items()}
    runs = [[kernel.microseconds for kernel in program.profile(**inputs)] for _ in range(4)]
    kernels = [min(times) for times in zip(*runs)]
    return sum(kernels), f"{len(kernels)} kernels: " + " ".join(f"{one:.0f}" for one in kernels)


def torch_us(case):
    import torch

    (_, heads, _, _, key_heads), causal = read(case)
    inputs = {name: torch.tensor(one, device="cuda") for name, one in arrays_of(case).items()}
    leaves = [inputs[name].requires_grad_() for name in "qkv"]
    grouped = {"enable_gqa": True} if key_heads != heads else {}

    def forward():
        return torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal, **grouped)

    def both():
        torch.autograd.grad(forward(), leaves, inputs["cotangent"])

    def least(run):
        times = []
        for _ in range(8):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(5):
                run()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / 5 * 1e3)
        return min(times)

    both()
    return least(both), f"forward {least(forward):.0f}"


WAYS = {"ours": ours, "stored": lambda case: ours(case, without=["recomputed-products"]), "torch": torch_us}


def main():
    ways = [argument for argument in sys.argv[1:] if argument in WAYS] or list(WAYS)
    for case in [argument for argument in sys.argv[1:] if argument not in WAYS] or CASES:
        for way in ways:
            us, more = WAYS[way](case)
            print(f"{case:24} {way:6} {us:8.0f} us, {3.5 * products(case) / us / 1e6:4.0f} TFLOP/s; {more}", flush=True)


if __name__ == "__main__":
    main()

"""Two layers and a softmax, by vkfuse and by NumPy: what is different, in how many kernels.

Ends with 0 if they agree."""

import sys

import numpy as np

import vkfuse

random = np.random.default_rng(0)
w1, w2 = (random.standard_normal(shape).astype(np.float32) / 8 for shape in ((64, 128), (128, 10)))
bias = random.standard_normal(128).astype(np.float32)

device = vkfuse.Device()
graph = vkfuse.Graph("classifier")
x = graph.input("x", np.float32, ["batch", 64])
scale = graph.input("scale", np.float32)
hidden = (x @ graph.constant(w1) + graph.constant(bias)).relu()
scores = (hidden @ graph.constant(w2)) * scale
program = device.compile(graph, scores=scores, classes=scores.softmax(), best=scores.amax(1))
print(f"{device.name}: {program.kernel_count} kernels, inputs {program.inputs}, outputs {program.outputs}")

failures = 0


def compare(what, got, want):
    global failures
    alike = got.shape == want.shape and got.dtype == want.dtype
    error = float(np.max(np.abs(got - want), initial=0)) if alike else np.inf
    failures += not error < 1e-4
    print(f"  {what}: {got.dtype}{list(got.shape)}, largest difference {error:.2g}")


for batch in (1, 5, 32):  # one program for every size
    data = random.standard_normal((batch, 64)).astype(np.float32)
    results = program(x=data, scale=np.float32(0.5))
    want = (np.maximum(data @ w1 + bias, 0) @ w2) * np.float32(0.5)
    raised = np.exp(want - want.max(1, keepdims=True))
    compare("scores", results["scores"], want)
    compare("classes", results["classes"], raised / raised.sum(1, keepdims=True))
    compare("best", results["best"], want.max(1))

for kernel, microseconds, moved in program.profile(x=data, scale=np.float32(0.5)):
    print(f"  {kernel}: {microseconds:.1f} us, {moved} bytes")
    failures += moved == 0


def refused(words, call):
    """Whether a mistake is answered with a sentence that has these words."""
    global failures
    try:
        call()
    except (vkfuse.Error, TypeError, ValueError) as error:
        failures += words not in str(error)
        print(f"  refused: {str(error).splitlines()[0]}")
    else:
        failures += 1
        print(f"  not refused: {words}")


refused("Input 'x'", lambda: program(scale=np.float32(1)))
refused("is of float32, but an array of float64", lambda: program(x=data.astype(np.float64), scale=np.float32(1)))
refused("has no input 'z'", lambda: program(x=data, scale=np.float32(1), z=data))
refused("'unheard_of' is not the name of an op", lambda: x.unheard_of())
refused("No Vulkan device matches", lambda: vkfuse.Device("no such device"))
integers = vkfuse.Graph("integers")
steps = integers.input("steps", np.int64, [4]).cumsum(axis=0, reverse=True)
compare("sums", device.compile(integers, strict=True, y=steps)(steps=np.arange(4, dtype=np.int64))["y"],
        np.array([6, 6, 5, 3], np.int64))
refused("is a value of another graph", lambda: x + steps)
sys.exit(failures != 0)

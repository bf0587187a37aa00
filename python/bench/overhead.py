"""What a run costs the host through Python: 20 kernels of one workgroup, the median of 1,000 runs, as overhead.cpp."""

import numpy as np
from timing import median_us

import vkfuse


def twenty(x):
    for _ in range(20):
        x = vkfuse.tanh(x)
    return x


data = np.ones(64, np.float32)
function = vkfuse.jit(twenty, fusion=False)
program = vkfuse.compile({"y": twenty(vkfuse.input("x", "float32", [64]))}, fusion=False)
there, out = vkfuse.array(data), vkfuse.empty(64)
print(
    f"{program.kernel_count} kernels; program(array) {median_us(lambda: program(data)):.1f} us, "
    f"program(x=array) {median_us(lambda: program(x=data)):.1f} us, jit {median_us(lambda: function(data)):.1f} us, "
    f"submit and wait {median_us(lambda: program.submit({'x': there}, {'y': out}).wait()):.1f} us, "
    f"program(device array) and wait {median_us(lambda: program(there)['y'].wait()):.1f} us"
)

"""What a run costs the host through ONNX Runtime: 20 kernels of one workgroup, median of 1,000 runs, as overhead.cpp.

    python overhead_onnxruntime.py [LIBRARY]      (the provider's library; the installed package's)
"""

import os
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from timing import median_us

if len(sys.argv) > 1:
    onnxruntime.register_execution_provider_library("vkfuse", os.path.abspath(sys.argv[1]))
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == "VkfuseExecutionProvider"]
else:
    import vkfuse.onnxruntime

    devices = vkfuse.onnxruntime.register()
nodes = [helper.make_node("Tanh", [f"v{i}"], [f"v{i + 1}"]) for i in range(20)]
ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64]) for name in ("v0", "v20")]
graph = helper.make_graph(nodes, "twenty", ports[:1], ports[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
settings = onnxruntime.SessionOptions()
settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
settings.add_provider_for_devices(devices, {"fusion": "off"})
session = onnxruntime.InferenceSession(model, settings)
session.disable_fallback()
data = {"v0": np.ones(64, np.float32)}
print(f"20 kernels; session.run {median_us(lambda: session.run(None, data)):.1f} us")

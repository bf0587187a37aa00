"""ONNX Runtime with vkfuse: which nodes of a model it takes, and how long a run takes.

    pip install vkfuse-*.whl onnxruntime
    python onnxruntime_demo.py MODEL.onnx [OPTION=VALUE]...     (docs/onnxruntime.md lists the options)
"""

import collections
import sys
import time

import numpy as np
import onnxruntime
import vkfuse.onnxruntime


def inputs_of(session):
    """Ones; a size that the model leaves open is 1."""
    dtypes = {"float": "float32", "double": "float64"}
    inputs = {}
    for value in session.get_inputs():
        name = value.type.removeprefix("tensor(").removesuffix(")")
        sizes = [size if isinstance(size, int) else 1 for size in value.shape]
        inputs[value.name] = np.ones(sizes, dtypes.get(name, name))
    return inputs


def main():
    model, options = sys.argv[1], dict(argument.split("=", 1) for argument in sys.argv[2:])
    settings = onnxruntime.SessionOptions()
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    settings.add_provider_for_devices(vkfuse.onnxruntime.register(), options)
    session = onnxruntime.InferenceSession(model, settings)
    operators = collections.defaultdict(collections.Counter)
    for part in session.get_provider_graph_assignment_info():
        operators[part.ep_name].update(node.op_type for node in part.get_nodes())
    for provider, counts in operators.items():
        print(f"{provider}: {counts.total()} nodes: " + ", ".join(f"{n} {op}" for op, n in counts.most_common(8)))
    inputs = inputs_of(session)
    results = session.run(None, inputs)
    begin = time.perf_counter()
    session.run(None, inputs)
    print(f"a run: {(time.perf_counter() - begin) * 1e3:.2f} ms; results: {[np.shape(result) for result in results]}")


if __name__ == "__main__":
    main()

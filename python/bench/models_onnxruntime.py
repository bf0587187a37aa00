"""What a run of a model takes through ONNX Runtime, in ms: with NumPy arrays, and with values that stay on the device.

    python models_onnxruntime.py MODEL.onnx INPUTS.npz...      (arrays in the order of the model's inputs)

Beside them the sum of its kernels, and runs by the Python package: with values on the device, in turns with ONNX
Runtime's, and with arrays. Sessions have no other provider.
"""

import sys
import time

import numpy as np
import onnxruntime
import vkfuse
import vkfuse.onnxruntime


def times_ms(run, count):
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - begin))
    return times


def session_of(path):
    settings = onnxruntime.SessionOptions()
    settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    settings.add_provider_for_devices(vkfuse.onnxruntime.register(), {})
    session = onnxruntime.InferenceSession(path, settings)
    session.disable_fallback()
    return session


def measure(path, arrays):
    session = session_of(path)
    inputs = {value.name: array for value, array in zip(session.get_inputs(), arrays)}
    by_arrays = times_ms(lambda: session.run(None, inputs), 15)
    results = session.run(None, inputs)
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_ortvalue_input(name, vkfuse.onnxruntime.on_device(array))
    kept = [vkfuse.onnxruntime.on_device(np.zeros_like(result)) for result in results]
    for value, one in zip(session.get_outputs(), kept):
        binding.bind_ortvalue_output(value.name, one)
    session.run_with_iobinding(binding)
    assert all(np.array_equal(one.numpy(), result) for one, result in zip(kept, results)), "other results"
    program = vkfuse.load(path)
    python = times_ms(lambda: program(*arrays), 15)
    own = vkfuse.compile(vkfuse.load_tensors(path)["outputs"])
    given = {name: vkfuse.array(inputs[name]) for name in own.input_names}
    into = own.submit(given).outputs
    bound, waited = [], []
    for _ in range(8):  # in turns; the first two warm up
        bound += times_ms(lambda: session.run_with_iobinding(binding), 20)
        waited += times_ms(lambda: own.submit(given, into).wait(), 20)
    bound, waited = bound[40:], waited[40:]
    kernels = sum(kernel.microseconds for kernel in program.profile(*arrays)) / 1e3
    print(f"{path}: kernels {kernels:.3f}, on the device {np.median(bound):.3f}, "
          f"{np.median(bound) / np.median(waited):.3f} of the library's own {np.median(waited):.3f}, "
          f"arrays {np.median(by_arrays[7:]):.2f} (first: {' '.join(f'{one:.1f}' for one in by_arrays[:8])}), "
          f"Python {np.median(python[7:]):.2f}", flush=True)


if __name__ == "__main__":
    for model, file in zip(sys.argv[1::2], sys.argv[2::2]):
        measure(model, list(np.load(file).values()))

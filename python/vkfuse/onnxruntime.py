"""vkfuse as an execution provider of ONNX Runtime 1.23 or newer (docs/python.md of the project).

>>> import numpy as np, onnxruntime, vkfuse.onnxruntime
>>> options = onnxruntime.SessionOptions()
>>> options.add_provider_for_devices(vkfuse.onnxruntime.register(), {"numerics": "standard"})
>>> session = onnxruntime.InferenceSession("model.onnx", options)
>>> session.run(None, {"x": np.ones((2, 3), np.float32)})
"""

import ctypes

from . import _core
from ._errors import Unsupported

__all__ = ["PROVIDER", "VENDOR_ID", "library_path", "on_device", "register"]

#: How ONNX Runtime calls the provider.
PROVIDER = "VkfuseExecutionProvider"
#: What tells the provider's device memory from that of other providers, where ONNX Runtime asks for a vendor's number.
VENDOR_ID = 0x766B66


def library_path() -> str:
    """The library for onnxruntime.register_execution_provider_library(). It is the module of this package, so that a
    process that uses both has one copy. Unsupported where the package was built without ONNX Runtime's headers."""
    path = _core.__file__
    if not hasattr(ctypes.CDLL(path), "CreateEpFactories"):
        raise Unsupported("This package of vkfuse was built without ONNX Runtime's headers, and has no provider.")
    return path


def register(name: str = "vkfuse") -> list:
    """Registers the library with ONNX Runtime, once for each name, and returns its devices."""
    import onnxruntime

    if name not in _registered:
        onnxruntime.register_execution_provider_library(name, library_path())
        _registered.add(name)
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]


def on_device(array):
    """An onnxruntime.OrtValue with the elements of a NumPy array in device memory, for bind_ortvalue_input() and
    bind_ortvalue_output() of IoBinding; `.numpy()` copies them back. The provider must be registered. The memory is on
    the device of the session that was made last, or on the default one before there is any.

    >>> binding = session.io_binding()
    >>> binding.bind_ortvalue_input("x", vkfuse.onnxruntime.on_device(x))
    >>> binding.bind_ortvalue_output("y", y := vkfuse.onnxruntime.on_device(np.zeros((2, 3), np.float32)))
    >>> session.run_with_iobinding(binding)
    """
    import onnxruntime

    return onnxruntime.OrtValue.ortvalue_from_numpy(array, "gpu", 0, VENDOR_ID)


_registered: set = set()

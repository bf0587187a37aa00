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

__all__ = ["PROVIDER", "library_path", "register"]

#: How ONNX Runtime calls the provider.
PROVIDER = "VkfuseExecutionProvider"


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


_registered: set = set()

"""What vkfuse raises. The text is the library's sentence, and what was being done, a line each."""


class Error(Exception):
    """Something that vkfuse refuses or that failed.

    code: the kind, as the C++ API names it ("invalid_argument"); context: what was being done, innermost first.
    """

    code: str = "internal"
    context: "list[str]" = []


class InvalidArgument(Error, ValueError):
    """The caller's graph, shape, dtype, file or option is wrong."""


class Unsupported(Error, NotImplementedError):
    """It is valid, but neither vkfuse nor this device offers it."""


class NotFound(Error, LookupError):
    """No such file, device or name."""


class NoDevice(Error, RuntimeError):
    """No Vulkan loader, or no Vulkan device."""


class DeviceError(Error, RuntimeError):
    """A Vulkan call failed."""


class DeviceLost(DeviceError):
    """The device was reset; open it again."""


class OutOfMemory(Error, MemoryError):
    """Host or device memory is exhausted, or a limit would be exceeded."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class InternalError(Error, RuntimeError):
    """A defect of vkfuse itself, or an exception of a function that it was given."""

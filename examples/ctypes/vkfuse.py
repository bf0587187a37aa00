"""vkfuse from Python: ctypes over the C interface (vkfuse.h), NumPy arrays in and out, and nothing to build.

    import numpy as np, vkfuse
    device = vkfuse.Device()
    graph = vkfuse.Graph("example")
    x = graph.input("x", np.float32, ["n", 4])           # a size that is a text is known when the program runs
    program = device.compile(graph, y=(x * 2).relu() + 1)
    y = program(x=np.ones((3, 4), np.float32))["y"]

The library is $VKFUSE_LIBRARY, else libvkfuse of the system. Whatever it refuses is a vkfuse.Error, whose text is one
sentence.
A value's methods are the ops of docs/ops.md by their names, with the attributes of docs/text-ir.md as keywords.
"""

import ctypes
import ctypes.util
import os

import numpy as np

SIZE, I64 = ctypes.c_size_t, ctypes.c_int64


class _Dim(ctypes.Structure):
    _fields_ = [("size", I64), ("symbol", ctypes.c_char_p), ("min", I64), ("max", I64), ("multiple_of", I64)]


class _Type(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("shape", ctypes.POINTER(_Dim)), ("rank", SIZE)]


class _TypeReport(ctypes.Structure):
    _fields_ = [("shape", ctypes.POINTER(_Dim)), ("capacity", SIZE), ("dtype", ctypes.c_int), ("rank", SIZE)]


class _Attribute(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("integer", I64), ("integers", ctypes.POINTER(I64)),
                ("text", ctypes.c_char_p), ("shape", ctypes.POINTER(_Dim)), ("count", SIZE)]


class _Op(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("attributes", ctypes.POINTER(_Attribute)), ("attribute_count", SIZE)]


class _DeviceOptions(ctypes.Structure):
    _fields_ = [
        ("size", SIZE),
        ("name", ctypes.c_char_p),
        ("disable", ctypes.POINTER(ctypes.c_char_p)),
        ("disable_count", SIZE),
        ("cache", ctypes.c_char_p),
        ("cache_limit", ctypes.c_uint64),
    ]


class _CompileOptions(ctypes.Structure):
    _fields_ = [
        ("size", SIZE),
        ("numerics", ctypes.c_int),
        ("no_fusion", ctypes.c_int),
        ("without", ctypes.POINTER(ctypes.c_char_p)),
        ("without_count", SIZE),
        ("planner", ctypes.c_char_p),
    ]


class _Symbol(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("size", I64)]


class _HostInput(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("bytes", SIZE),
        ("sizes", ctypes.POINTER(I64)),
        ("rank", SIZE),
    ]


class _HostOutput(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("capacity", SIZE), ("bytes", SIZE)]


class _KernelTime(ctypes.Structure):
    _fields_ = [("kernel", ctypes.c_char * 64), ("microseconds", ctypes.c_double), ("bytes", ctypes.c_uint64)]


class _ProfileReport(ctypes.Structure):
    _fields_ = [("times", ctypes.POINTER(_KernelTime)), ("capacity", SIZE), ("count", SIZE)]


class Error(Exception):
    """What vkfuse says; `status` is the number of a vkf_status."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def _load():
    path = os.environ.get("VKFUSE_LIBRARY") or ctypes.util.find_library("vkfuse")
    if path is None:
        raise OSError("There is no libvkfuse: install it, or name it in VKFUSE_LIBRARY.")
    library = ctypes.CDLL(path)
    library.vkf_last_error.restype = library.vkf_version.restype = library.vkf_device_name.restype = ctypes.c_char_p
    library.vkf_program_input_name.restype = library.vkf_program_output_name.restype = ctypes.c_char_p
    for name in ("input_count", "output_count", "kernel_count"):
        getattr(library, "vkf_program_" + name).restype = SIZE
    for name in ("device", "graph", "program"):
        getattr(library, f"vkf_{name}_free").restype = None
    library.vkf_string_free.restype = None
    return library


_library = _load()

# As vkf_dtype counts them. NumPy has no bfloat16: "bf16" is one, and its arrays are of uint16.
_DTYPES = ["float32", "float16", "bf16", "float64"]
_DTYPES += ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"]


def _number_of(dtype):
    name = dtype if dtype == "bf16" else np.dtype(dtype).name
    if name not in _DTYPES:
        raise TypeError(f"vkfuse has no elements of type {name}.")
    return _DTYPES.index(name)


def _numpy_of(number):
    return np.dtype("uint16" if _DTYPES[number] == "bf16" else _DTYPES[number])


def _check(status):
    if status != 0:
        raise Error(status, _library.vkf_last_error().decode())


def _text_of(function, *arguments):
    """A text that a function hands out."""
    made = ctypes.c_void_p()
    _check(function(*arguments, ctypes.byref(made)))
    try:
        return ctypes.string_at(made).decode()
    finally:
        _library.vkf_string_free(made)


def _dims(shape):
    dims = [_Dim(symbol=size.encode()) if isinstance(size, str) else _Dim(size=size) for size in shape]
    return (_Dim * len(dims))(*dims)


def _type(dtype, shape):
    return _Type(dtype=_number_of(dtype), shape=_dims(shape), rank=len(shape))


def _reported_type(function, *arguments):
    """The number of a dtype, and a shape, as a function reports them."""
    report = _TypeReport()
    _check(function(*arguments, ctypes.byref(report)))  # the rank, as there is room for nothing
    dims = (_Dim * report.rank)()
    report.shape, report.capacity = dims, report.rank
    _check(function(*arguments, ctypes.byref(report)))
    return report.dtype, [one.symbol.decode() if one.symbol else one.size for one in dims]


def _names(names):
    return (ctypes.c_char_p * len(names))(*[name.encode() for name in names])


def _attribute(name, value):
    made = _Attribute(name=name.encode())
    if name == "dtype":
        made.kind, made.integer = 3, _number_of(value)
    elif name == "shape":
        dims = _dims(value)
        made.kind, made.shape, made.count = 4, ctypes.cast(dims, ctypes.POINTER(_Dim)), len(dims)
    elif isinstance(value, str):
        made.kind, made.text = 2, value.encode()
    elif isinstance(value, (list, tuple)):
        integers = (I64 * len(value))(*value)
        made.kind, made.integers, made.count = 1, ctypes.cast(integers, ctypes.POINTER(I64)), len(value)
    else:
        made.kind, made.integer = 0, int(value)
    return made  # ctypes keeps alive what a field was set to


class _Handle:
    """Something that is given back to the library."""

    _free = None

    def __init__(self):
        self._handle = ctypes.c_void_p()

    def __del__(self):
        if getattr(self, "_handle", None) and self._free is not None:
            type(self)._free(self._handle)


class Device(_Handle):
    """A Vulkan device, by index, UUID or a part of its name; without one $VKFUSE_DEVICE, else the best there is."""

    _free = _library.vkf_device_free

    def __init__(self, name=None, disable=(), cache=None):
        super().__init__()
        options = _DeviceOptions(
            size=ctypes.sizeof(_DeviceOptions),
            name=name and name.encode(),
            disable=_names(disable),
            disable_count=len(disable),
            cache=cache and cache.encode(),
        )
        _check(_library.vkf_device_open(ctypes.byref(options), ctypes.byref(self._handle)))

    @property
    def name(self):
        return _library.vkf_device_name(self._handle).decode()

    def describe(self):
        """Its driver, limits and features, as JSON."""
        return _text_of(_library.vkf_device_describe, self._handle)

    def compile(self, graph, strict=False, fusion=True, without=(), planner=None, **outputs):
        """The program that computes these values of the graph, by the names of the results."""
        for name, value in outputs.items():
            graph.output(name, value)
        options = _CompileOptions(
            size=ctypes.sizeof(_CompileOptions),
            numerics=int(strict),
            no_fusion=int(not fusion),
            without=_names(without),
            without_count=len(without),
            planner=planner and planner.encode(),
        )
        return Program(self, graph, options)


class Graph(_Handle):
    """What is to be computed. Values of it have operators, and the ops as methods."""

    _free = _library.vkf_graph_free

    def __init__(self, name="graph"):
        super().__init__()
        _check(_library.vkf_graph_create(name.encode(), ctypes.byref(self._handle)))

    def input(self, name, dtype, shape=()):
        return self._add(_library.vkf_input, name.encode(), ctypes.byref(_type(dtype, shape)))

    def constant(self, array):
        array = np.ascontiguousarray(array)
        return self._add(_library.vkf_constant, ctypes.byref(_type(array.dtype, array.shape)),
                         array.ctypes.data_as(ctypes.c_void_p), SIZE(array.nbytes))

    def scalar(self, dtype, value):
        return self._add(_library.vkf_scalar, _number_of(dtype), ctypes.c_double(value))

    def apply(self, op, *operands, **attributes):
        """Any op by its name. Numbers among the operands take the dtype of the first value."""
        dtype = next((one.dtype for one in operands if isinstance(one, Value)), "float32")
        values = [one if isinstance(one, Value) else self.scalar(dtype, one) for one in operands]
        if any(one.graph is not self for one in values):
            raise ValueError(f"An operand of '{op}' is a value of another graph.")
        made = [_attribute(name, value) for name, value in attributes.items()]
        descriptor = _Op(name=op.encode(), attributes=(_Attribute * len(made))(*made), attribute_count=len(made))
        operands = (ctypes.c_uint32 * len(values))(*[one.id for one in values])
        return self._add(_library.vkf_apply, ctypes.byref(descriptor), operands, SIZE(len(values)))

    def output(self, name, value):
        _check(_library.vkf_output(self._handle, name.encode(), ctypes.c_uint32(value.id)))

    def __str__(self):
        return _text_of(_library.vkf_graph_text, self._handle)

    def _add(self, function, *arguments):
        added = ctypes.c_uint32()
        _check(function(self._handle, *arguments, ctypes.byref(added)))
        return Value(self, added.value)


class Value:
    """A value of a graph. `x.op(...)` is graph.apply("op", x, ...), and axes may be negative where named here."""

    def __init__(self, graph, number):
        self.graph, self.id = graph, number
        dtype, self.shape = _reported_type(_library.vkf_value_type, graph._handle, ctypes.c_uint32(number))
        self.dtype = _DTYPES[dtype]

    def __getattr__(self, op):
        if op.startswith("_"):
            raise AttributeError(op)
        return lambda *operands, **attributes: self.graph.apply(op, self, *operands, **attributes)

    def cast(self, dtype):
        return self.graph.apply("cast", self, dtype=dtype)

    def reshape(self, *shape):
        return self.graph.apply("reshape", self, shape=shape)

    def permute(self, *axes):
        return self.graph.apply("permute", self, axes=axes)

    def _reduce(self, op, axes, keep):
        if axes is None:
            axes = range(len(self.shape))
        axes = sorted(axis % len(self.shape) for axis in ([axes] if isinstance(axes, int) else axes))
        made = self.graph.apply("reduce_" + op, self, axes=axes)
        return made.reshape(*[1 if i in axes else size for i, size in enumerate(self.shape)]) if keep else made

    def sum(self, axes=None, keep=False):
        return self._reduce("sum", axes, keep)

    def mean(self, axes=None, keep=False):
        return self._reduce("mean", axes, keep)

    def amax(self, axes=None, keep=False):
        return self._reduce("max", axes, keep)

    def softmax(self, axis=-1):
        raised = (self - self.amax(axis, keep=True)).exp()
        return raised / raised.sum(axis, keep=True)

    def __matmul__(self, other):
        """[..., k] times [k, m]."""
        return self.graph.apply("dot", self, other, contract_a=[len(self.shape) - 1], contract_b=[0])

    def __neg__(self):
        return self.graph.apply("neg", self)


def _operator(name, op):
    setattr(Value, f"__{name}__", lambda self, other: self.graph.apply(op, self, other))
    setattr(Value, f"__r{name}__", lambda self, other: self.graph.apply(op, self.graph.scalar(self.dtype, other), self))


for _name, _op in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div"}.items():
    _operator(_name, _op)


class Program(_Handle):
    """A compiled program: called with arrays by the names of inputs, it gives arrays by the names of results."""

    _free = _library.vkf_program_free
    _STAGES = ["graph", "plan", "json", "glsl", "spirv", "msl", "hlsl", "html"]

    def __init__(self, device, graph, options):
        super().__init__()
        _check(_library.vkf_compile(device._handle, graph._handle, ctypes.byref(options), ctypes.byref(self._handle)))
        self.inputs = [
            _library.vkf_program_input_name(self._handle, SIZE(i)).decode()
            for i in range(_library.vkf_program_input_count(self._handle))
        ]
        self.outputs = [
            _library.vkf_program_output_name(self._handle, SIZE(i)).decode()
            for i in range(_library.vkf_program_output_count(self._handle))
        ]

    @property
    def kernel_count(self):
        return _library.vkf_program_kernel_count(self._handle)

    def explain(self, stage="plan"):
        """The graph, the plan (text, "json" or "html"), or code ("glsl", "spirv", "msl", "hlsl")."""
        return _text_of(_library.vkf_program_explain, self._handle, self._STAGES.index(stage))

    def __call__(self, **arrays):
        given, symbols = self._inputs(arrays)
        outputs = (_HostOutput * len(self.outputs))()
        results = {}
        for output, name in zip(outputs, self.outputs):
            dtype, shape = self._type(name)
            array = np.empty([symbols.get(size, 0) if isinstance(size, str) else size for size in shape], dtype)
            output.name, output.data, output.capacity = name.encode(), array.ctypes.data, array.nbytes
            results[name] = array
        _check(_library.vkf_run(self._handle, given, SIZE(len(given)), outputs, SIZE(len(outputs))))
        return results

    def profile(self, **arrays):
        """Device time of every kernel of one run: (name, microseconds, bytes moved)."""
        given, _ = self._inputs(arrays)
        times = (_KernelTime * 4096)()
        report = _ProfileReport(times=times, capacity=len(times))
        _check(_library.vkf_profile_host(self._handle, given, SIZE(len(given)), ctypes.byref(report)))
        return [(one.kernel.decode(), one.microseconds, one.bytes) for one in times[:report.count]]

    def _type(self, name):
        dtype, shape = _reported_type(_library.vkf_program_type, self._handle, name.encode())
        return _numpy_of(dtype), shape

    def _inputs(self, arrays):
        given = (_HostInput * len(arrays))()
        given.arrays = []  # kept alive with what points at them
        symbols = {}
        for one, (name, array) in zip(given, arrays.items()):
            if name in self.inputs:
                dtype, shape = self._type(name)
                array = np.asarray(array)
                if array.dtype != dtype:
                    raise TypeError(f"The input '{name}' is of {dtype}, but an array of {array.dtype} is given.")
                symbols.update({size: length for size, length in zip(shape, array.shape) if isinstance(size, str)})
            array = np.ascontiguousarray(array).reshape(np.shape(array))  # a scalar stays one
            sizes = (I64 * max(array.ndim, 1))(*array.shape)
            given.arrays.append(array)
            one.name = name.encode()
            one.data = array.ctypes.data
            one.bytes = array.nbytes
            one.sizes = sizes
            one.rank = array.ndim
        return given, symbols

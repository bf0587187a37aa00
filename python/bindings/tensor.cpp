// Tensors: values of the program that is being written down.
#include "api/tensor_node.hpp"

#include <cmath>

#include "bind.hpp"
#include "device.hpp"
#include "ops/op.hpp"

namespace vkfuse::python {

using namespace nb::literals;

// ---- turns ----

namespace {

struct Turns {
  std::recursive_mutex mutex;
  int depth = 0;
  std::mutex graves_mutex;
  std::vector<Tensor> graves;  ///< dropped while it was not their stream's turn
};

/// Never destroyed: tensors are dropped while the interpreter ends.
Turns*& turns() {
  static Turns* all = new Turns;
  return all;
}

void bury(Turns& all) {
  std::vector<Tensor> dropped;
  {
    const std::scoped_lock lock(all.graves_mutex);
    dropped.swap(all.graves);
  }
}

}  // namespace

StreamTurn::StreamTurn() {
  Turns& all = *turns();
  if (!all.mutex.try_lock()) {
    const GilReleased released;
    all.mutex.lock();
  }
  if (++all.depth == 1) bury(all);
}

StreamTurn::~StreamTurn() {
  Turns& all = *turns();
  if (all.depth == 1) bury(all);
  --all.depth;
  all.mutex.unlock();
}

void StreamTurn::forget() { turns() = new Turns; }

bool is_of_stream(const Tensor& tensor) {
  return tensor.node() != nullptr && (tensor.node()->recorder != nullptr || tensor.node()->value != nullptr);
}

Value::~Value() {
  if (!is_of_stream(tensor_)) return;
  Turns& all = *turns();
  {
    const std::scoped_lock lock(all.graves_mutex);
    all.graves.push_back(std::move(tensor_));
  }
  if (!all.mutex.try_lock()) return;
  if (all.depth == 0) bury(all);
  all.mutex.unlock();
}

// ---- operands ----

nb::object value_object(Tensor tensor) {
  if (!tensor.valid()) throw Failure(tensor.error());
  return nb::cast(new Value(std::move(tensor)), nb::rv_policy::take_ownership);
}

namespace {

std::string text_of(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

/// The least and largest value of an integer dtype; of u64 the largest of i64, and what is beyond is looked at apart.
std::pair<std::int64_t, std::int64_t> range_of(DType dtype) {
  const int bits = size_of(dtype) * 8;
  if (is_signed_integer(dtype)) {
    const std::int64_t top = bits == 64 ? INT64_MAX : (std::int64_t{1} << (bits - 1)) - 1;
    return {-top - 1, top};
  }
  return {0, bits == 64 ? INT64_MAX : (std::int64_t{1} << bits) - 1};
}

Tensor integer_scalar(DType dtype, nb::handle number) {
  int overflow = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow > 0 && dtype == DType::u64) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(number.ptr());
    if (PyErr_Occurred() == nullptr) return Tensor::scalar_int(dtype, static_cast<std::int64_t>(large));
    PyErr_Clear();
  }
  const auto [least, largest] = range_of(dtype);
  if (overflow != 0 || value < least || value > largest)
    throw Failure(invalid("{} holds no number {}.", numpy_name(dtype), text_of(number)));
  return Tensor::scalar_int(dtype, value);
}

Tensor number_tensor(nb::handle number, DType dtype) {
  if (PyFloat_Check(number.ptr())) {
    const double value = PyFloat_AsDouble(number.ptr());
    if (!is_float(dtype)) {
      throw Failure(invalid("The number {} is no {}: convert the tensor with astype() first.", text_of(number),
                            numpy_name(dtype)));
    }
    return Tensor::scalar(dtype, value);
  }
  if (PyBool_Check(number.ptr()) || dtype == DType::boolean) {
    const bool truth = to_truth(number);
    if (!PyBool_Check(number.ptr()))
      throw Failure(invalid("The number {} is no bool: write True or False.", text_of(number)));
    return Tensor::scalar(dtype, truth);
  }
  if (is_integer(dtype)) return integer_scalar(dtype, number);
  const double value = PyLong_AsDouble(number.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw Failure(invalid("{} holds no number as large as the one given.", numpy_name(dtype)));
  }
  return Tensor::scalar(dtype, value);
}

bool is_number(nb::handle object) { return PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr()); }

DType own_dtype(nb::handle number) {
  return PyFloat_Check(number.ptr()) ? DType::f32 : PyBool_Check(number.ptr()) ? DType::boolean : DType::i32;
}

}  // namespace

Tensor to_tensor(nb::handle object, const Tensor* like) {
  if (nb::isinstance<Value>(object)) return nb::cast<const Value&>(object).get();
  if (is_number(object)) return number_tensor(object, like != nullptr ? like->dtype() : own_dtype(object));
  if (object.is_none() || nb::isinstance<nb::str>(object) || nb::isinstance<nb::dict>(object)) {
    wrong_type(fmt::format("An operand must be a tensor, an array or a number, and not of type {}.",
                           nb::cast<std::string>(object.type().attr("__name__"))));
  }
  const HostArray elements(object, std::nullopt, "operand");
  Shape shape(elements.sizes().begin(), elements.sizes().end());
  return Tensor::constant(elements.dtype(), std::move(shape), elements.bytes());
}

std::vector<Tensor> to_tensors(std::span<const nb::handle> objects) {
  std::vector<std::optional<Tensor>> made(objects.size());
  const Tensor* like = nullptr;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (is_number(objects[i])) continue;
    made[i] = to_tensor(objects[i], nullptr);
    if (!made[i]->valid()) throw Failure(made[i]->error());
    if (like == nullptr && made[i]->dtype() != DType::boolean) like = &*made[i];
  }
  for (std::size_t i = 0; like == nullptr && i < objects.size(); ++i) {
    if (made[i]) like = &*made[i];
  }
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < objects.size(); ++i)
    all.push_back(made[i] ? *made[i] : to_tensor(objects[i], like));  // not moved: `like` is one of them
  return all;
}

namespace {

// ---- methods ----

/// A method: `call(tensor, arguments...)` is the result.
template <typename... Arguments, typename Call>
auto method(Call call) {
  return [call](const Value& self, Arguments... arguments) {
    return made_of({self.get()}, [&] { return call(self.get(), arguments...); });
  };
}

/// One of `sum`, ...: axes None stand for all.
template <Tensor (Tensor::*Reduce)(std::vector<int>, bool) const>
auto reduction() {
  return method<nb::handle, bool>([](const Tensor& x, nb::handle axis, bool keepdims) {
    // No axes means all, but an empty list of NumPy means none.
    if (!axis.is_none() && nb::isinstance<nb::sequence>(axis) && nb::len(axis) == 0) return x;
    return (x.*Reduce)(to_axes(axis), keepdims);
  });
}

template <Tensor (Tensor::*Scan)(int, bool, bool) const>
auto scan() {
  return method<int, bool, bool>(
      [](const Tensor& x, int axis, bool exclusive, bool reverse) { return (x.*Scan)(axis, exclusive, reverse); });
}

template <Tensor (Tensor::*Find)(int, bool) const>
auto position() {
  return method<nb::handle, bool>([](const Tensor& x, nb::handle axis, bool keepdims) {
    if (axis.is_none()) return (x.reshape({-1}).*Find)(0, false);
    const std::vector<int> axes = to_axes(axis);
    if (axes.size() != 1) throw Failure(invalid("A position is along one axis, and {} are given.", axes.size()));
    return (x.*Find)(axes[0], keepdims);
  });
}

/// f(1, 2) and f((1, 2)) are the same.
nb::object listed(const nb::args& given) {
  if (given.size() == 1 && nb::isinstance<nb::sequence>(given[0]) && !nb::isinstance<nb::str>(given[0]))
    return nb::object(given[0]);
  return nb::borrow(given);
}

std::vector<std::int64_t> listed_sizes(nb::handle object, const char* what) { return to_integers(object, what); }

void bind_methods(nb::class_<Value>& type) {
  type.def_prop_ro(
          "dtype", [](const Value& self) { return dtype_object(self.get().dtype()); },
          "numpy.dtype; of bfloat16 that of ml_dtypes where it is installed, else the name.")
      .def_prop_ro(
          "shape", [](const Value& self) { return shape_object(self.get().shape()); },
          "The dimensions, outermost first: integers, and vkfuse.Dim for symbols.")
      .def_prop_ro(
          "ndim", [](const Value& self) { return self.get().shape().size(); }, "The number of dimensions.")
      .def("__repr__",
           [](const Value& self) {
             return fmt::format("<vkfuse.Tensor {}{}>", numpy_name(self.get().dtype()), to_text(self.get().shape()));
           })
      .def("astype", method<nb::handle>([](const Tensor& x, nb::handle dtype) { return x.cast(to_dtype(dtype)); }),
           "dtype"_a,
           "Conversion: floats to integers truncate toward zero, saturate, NaN gives 0; integers wrap; anything to\n"
           "bool is != 0.")
      .def("bitcast", method<nb::handle>([](const Tensor& x, nb::handle dtype) { return x.bitcast(to_dtype(dtype)); }),
           "dtype"_a, "The same bits as another dtype of the same size.")
      .def(
          "reshape",
          [](const Value& self, nb::args shape) {
            return made_of({self.get()}, [&] { return self.get().reshape(to_shape(listed(shape))); });
          },
          "shape"_a, "The same elements in row-major order under another shape. One dimension may be -1: what remains.")
      .def(
          "permute",
          [](const Value& self, nb::args axes) {
            return made_of({self.get()}, [&] { return self.get().permute(to_axes(listed(axes))); });
          },
          "axes"_a, "Axis i of the result is axis axes[i] of this tensor.")
      .def("swapaxes", method<int, int>([](const Tensor& x, int a, int b) { return x.swap_dims(a, b); }), "a"_a, "b"_a,
           "Two axes exchanged.")
      .def("broadcast_to",
           method<nb::handle>([](const Tensor& x, nb::handle shape) { return x.broadcast_to(to_shape(shape)); }),
           "shape"_a, "Dimensions of 1 are stretched, and new ones put in front, as NumPy broadcasts.")
      .def("unsqueeze", method<int>([](const Tensor& x, int axis) { return x.unsqueeze(axis); }), "axis"_a,
           "A dimension of 1 put in at `axis` of the result.")
      .def("squeeze", method<int>([](const Tensor& x, int axis) { return x.squeeze(axis); }), "axis"_a,
           "Removes a dimension of 1.")
      .def("slice",
           method<int, nb::handle, nb::handle, nb::handle>(
               [](const Tensor& x, int axis, nb::handle start, nb::handle end, nb::handle step) {
                 return x.slice(axis, to_integer(start, "start"), to_integer(end, "end"), to_integer(step, "step"));
               }),
           "axis"_a, "start"_a, "end"_a, "step"_a = 1,
           "Elements start, start + step, ... before `end` along one axis, with the bounds of NumPy.")
      .def("select", method<int, nb::handle>([](const Tensor& x, int axis, nb::handle index) {
             return x.select(axis, to_integer(index, "index"));
           }),
           "axis"_a, "index"_a, "One index along an axis, which is removed.")
      .def("reverse", method<nb::handle>([](const Tensor& x, nb::handle axes) { return x.reverse(to_axes(axes)); }),
           "axes"_a, "The order of elements turned round along these axes.")
      .def("tile",
           method<nb::handle>([](const Tensor& x, nb::handle times) { return x.repeat(listed_sizes(times, "count")); }),
           "times"_a, "Every axis repeated: (2, 1) of [n, m] is [2n, m].")
      .def("pad",
           method<nb::handle, nb::handle, double>([](const Tensor& x, nb::handle low, nb::handle high, double value) {
             return x.pad(listed_sizes(low, "width"), listed_sizes(high, "width"), value);
           }),
           "low"_a, "high"_a, "value"_a = 0.0,
           "`low` and `high` elements of `value` put around each axis; negative amounts cut instead.")
      .def("unfold",
           method<int, nb::handle, nb::handle, nb::handle>(
               [](const Tensor& x, int axis, nb::handle size, nb::handle stride, nb::handle dilation) {
                 return x.unfold(axis, to_integer(size, "size"), to_integer(stride, "stride"),
                                 to_integer(dilation, "dilation"));
               }),
           "axis"_a, "size"_a, "stride"_a = 1, "dilation"_a = 1,
           "Windows of `size` elements, each `dilation` apart, starting every `stride` elements of one axis: the axis\n"
           "then counts windows, and the window's elements are the last axis.")
      .def(
          "slice_assign",
          [](const Value& self, nb::handle update, nb::handle starts, nb::handle steps) {
            const Tensor with = to_tensor(update, &self.get());
            return made_of({self.get(), with}, [&] {
              return self.get().slice_assign(with, to_integers(starts, "start"), to_integers(steps, "step"));
            });
          },
          "update"_a, "starts"_a, "steps"_a = nb::none(),
          "This tensor with `update` written over the elements that begin at `starts`, `steps` apart.")
      .def(
          "gather",
          [](const Value& self, nb::handle indices, int axis) {
            const Tensor at = to_tensor(indices, nullptr);
            return made_of({self.get(), at}, [&] { return self.get().gather(at, axis); });
          },
          "indices"_a, "axis"_a = 0,
          "Axis `axis` is replaced by the axes of `indices`; what is out of range is clamped to the nearest element.")
      .def(
          "take_along",
          [](const Value& self, nb::handle indices, int axis) {
            const Tensor at = to_tensor(indices, nullptr);
            return made_of({self.get(), at}, [&] { return self.get().take_along(at, axis); });
          },
          "indices"_a, "axis"_a = -1, "Elements by an index for each position, as numpy.take_along_axis has it.")
      .def(
          "scatter",
          [](const Value& self, nb::handle indices, nb::handle updates, const std::string& mode) {
            const Tensor at = to_tensor(indices, nullptr);
            const Tensor with = to_tensor(updates, &self.get());
            return made_of({self.get(), at, with}, [&] { return self.get().scatter(at, with, mode); });
          },
          "indices"_a, "updates"_a, "mode"_a = "set",
          "This tensor [n, ...] with rows updates[k] joined onto row indices[k], for k in order; mode: \"set\", "
          "\"add\",\n"
          "\"mul\", \"max\" or \"min\". Rows out of range are dropped.")
      .def(
          "update_rows",
          [](const Value& self, nb::handle starts, nb::handle rows, int axis, bool circular) {
            const Tensor at = to_tensor(starts, nullptr);
            const Tensor with = to_tensor(rows, &self.get());
            return made_of({self.get(), at, with}, [&] { return self.get().update_rows(at, with, axis, circular); });
          },
          "starts"_a, "rows"_a, "axis"_a, "circular"_a = false,
          "This tensor with rows in place of those from a start on, along an axis; starts are one number, or one for\n"
          "each position of the first axes, or a position for each row, along one more axis. Rows past the end are "
          "left\n"
          "out, or circular: go on at the beginning. A run writes the rows alone where the result lies in this "
          "tensor's memory: docs/generation.md.");
}

void bind_reductions(nb::class_<Value>& type) {
  const auto axis = nb::arg("axis") = nb::none();
  const auto keep = nb::arg("keepdims") = false;
  const auto exclusive = nb::arg("exclusive") = false;
  const auto reverse = nb::arg("reverse") = false;
  type.def("sum", reduction<&Tensor::sum>(), axis, keep, "Sums, in the tensor's dtype; of 16-bit floats in float32.")
      .def("prod", reduction<&Tensor::prod>(), axis, keep, "Products.")
      .def("mean", reduction<&Tensor::mean>(), axis, keep, "Means; floats only.")
      .def("max", reduction<&Tensor::max>(), axis, keep, "The largest; NaN if one is there.")
      .def("min", reduction<&Tensor::min>(), axis, keep, "The smallest; NaN if one is there.")
      .def("any", reduction<&Tensor::any>(), axis, keep, "Whether one is true; bools only.")
      .def("all", reduction<&Tensor::all>(), axis, keep, "Whether all are true; bools only.")
      .def("argmax", position<&Tensor::argmax>(), axis, keep, "int32: the position of the first largest, or NaN.")
      .def("argmin", position<&Tensor::argmin>(), axis, keep, "int32: the position of the first smallest, or NaN.")
      .def("reduce",
           method<const std::string&, nb::handle, bool>(
               [](const Tensor& x, const std::string& op, nb::handle over, bool keepdims) {
                 return x.reduce(op, to_axes(over), keepdims);
               }),
           "op"_a, axis, keep, "Any reduction of docs/ops.md by its name.")
      .def("cumsum", scan<&Tensor::cumsum>(), "axis"_a, exclusive, reverse, "Running sums along one axis.")
      .def("cumprod", scan<&Tensor::cumprod>(), "axis"_a, exclusive, reverse, "Running products along one axis.")
      .def("cummax", scan<&Tensor::cummax>(), "axis"_a, exclusive, reverse, "The largest so far along one axis.")
      .def("cummin", scan<&Tensor::cummin>(), "axis"_a, exclusive, reverse, "The smallest so far along one axis.")
      .def("argsort", method<int, bool, nb::handle>([](const Tensor& x, int over, bool descending, nb::handle count) {
             return x.argsort(over, descending, to_integer(count, "count"));
           }),
           "axis"_a = -1, "descending"_a = false, "count"_a = 0,
           "int32 positions of the sorted order along an axis; the first `count` of them, or all. Equal elements keep\n"
           "their order; NaN is larger than infinity.");
}

}  // namespace

void bind_tensor(nb::module_& module) {
  nb::class_<Value> type(
      module, "Tensor", nb::is_weak_referenceable(),
      "A value of a program that is being written down: of an input, of what vkfuse.jit() traces, or of a Stream. It\n"
      "has dtype and shape, and no elements. Operands broadcast as NumPy's do; dtypes are never promoted, and numbers\n"
      "take the tensor's dtype.");
  bind_methods(type);
  bind_reductions(type);
  module.def(
      "input",
      [](const std::string& name, nb::handle dtype, nb::handle shape) {
        return value_object(Tensor::input(name, to_dtype(dtype), to_shape(shape)));
      },
      "name"_a, "dtype"_a = "float32", "shape"_a = nb::make_tuple(),
      "A named input; dimensions are sizes, names of symbols, or vkfuse.Dim.");
  module.def(
      "constant",
      [](nb::handle elements, nb::handle dtype) {
        const std::optional<DType> wanted = dtype.is_none() ? std::nullopt : std::optional(to_dtype(dtype));
        const HostArray host(elements, wanted, "constant");
        return value_object(
            Tensor::constant(host.dtype(), Shape(host.sizes().begin(), host.sizes().end()), host.bytes()));
      },
      "elements"_a, "dtype"_a = nb::none(), "A literal with the elements of an array.");
  module.def(
      "scalar",
      [](nb::handle value, nb::handle dtype) {
        if (!is_number(value)) wrong_type("A scalar must be a number.");
        return value_object(number_tensor(value, to_dtype(dtype)));
      },
      "value"_a, "dtype"_a = "float32", "A literal of one element, rounded to the dtype.");
  module.def(
      "iota",
      [](nb::handle shape, int axis, nb::handle dtype) {
        return value_object(Tensor::iota(to_dtype(dtype), to_shape(shape), axis));
      },
      "shape"_a, "axis"_a = 0, "dtype"_a = "float32", "Element (i0, i1, ...) is i_axis.");
  module.def(
      "random_bits",
      [](nb::handle shape, std::uint64_t seed) { return value_object(Tensor::random(to_shape(shape), seed)); },
      "shape"_a, "seed"_a,
      "One random uint32 for each element: Philox 4x32-10 with this seed, the same on every device.");
}

}  // namespace vkfuse::python

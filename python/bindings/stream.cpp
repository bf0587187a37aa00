// Lazy evaluation.
#include "vkfuse/stream.hpp"

#include "bind.hpp"
#include "device.hpp"

namespace vkfuse::python {

using namespace nb::literals;

namespace {

/// A stream, which its tensors may outlive. Dropped in its turn.
class LazyStream {
 public:
  LazyStream(Device device, const CompileOptions& options) : device_(device), stream_(std::in_place, device, options) {}
  LazyStream(const LazyStream&) = delete;
  LazyStream& operator=(const LazyStream&) = delete;
  ~LazyStream() {
    const StreamTurn turn;
    without_gil([this] { stream_.reset(); });
  }
  [[nodiscard]] const Stream& get() const { return *stream_; }
  [[nodiscard]] const Device& device() const { return *device_; }

 private:
  Dropped<Device> device_;
  std::optional<Stream> stream_;
};

std::vector<Tensor> tensors_of(const nb::args& given) {
  std::vector<Tensor> all;
  for (const nb::handle one : given) {
    if (!nb::isinstance<Value>(one)) wrong_type("What a stream evaluates must be a vkfuse.Tensor.");
    all.push_back(nb::cast<const Value&>(one).get());
  }
  return all;
}

/// Of a tensor that is being read: its memory, in the stream's turn.
Buffer buffer_of(const LazyStream& stream, const Tensor& tensor) {
  const StreamTurn turn;
  check_ok(without_gil([&] { return stream.get().eval({tensor}); }));
  return value_of(stream.get().buffer(tensor));
}

std::unique_ptr<Array> array_of(const LazyStream& stream, const Value& value) {
  const Tensor& tensor = value.get();
  Buffer buffer = buffer_of(stream, tensor);
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : tensor.shape()) sizes.push_back(dim.size());
  return std::make_unique<Array>(stream.device(), std::move(buffer), tensor.dtype(), std::move(sizes));
}

nb::object report(const LazyStream& stream) {
  const StreamTurn turn;
  const StreamReport now = stream.get().report();
  nb::dict made;
  made["evaluations"] = now.evaluations;
  made["plans"] = now.plans;
  made["kept"] = now.kept;
  made["kernels"] = now.kernels;
  made["bytes"] = now.bytes;
  made["held"] = now.held;
  made["recorded"] = now.recorded;
  made["buffer_bytes"] = now.buffer_bytes;
  return made;
}

}  // namespace

void bind_stream(nb::module_& module) {
  nb::class_<LazyStream>(
      module, "Stream", nb::is_weak_referenceable(),
      "Lazy evaluation: tensors whose elements are on a device. Ops on them are recorded; eval() and read() compile "
      "what\n"
      "was recorded, once for each structure, and hand it to the device. Threads that work with streams take turns.")
      .def(
          "__init__",
          [](LazyStream* self, nb::handle device, nb::kwargs given) {
            const CompileOptions options = compile_options(given, "Stream");
            new (self) LazyStream(device_of(device), options);
          },
          "device"_a = nb::none(), "options"_a, "Options: those of compile().")
      .def(
          "array",
          [](const LazyStream& self, nb::handle elements, nb::handle dtype) {
            const std::optional<DType> wanted = dtype.is_none() ? std::nullopt : std::optional(to_dtype(dtype));
            const HostArray host(elements, wanted, "array");
            const StreamTurn turn;
            return value_object(
                value_of(without_gil([&] { return self.get().tensor(host.dtype(), host.sizes(), host.bytes()); })));
          },
          "elements"_a, "dtype"_a = nb::none(), "A tensor of these elements, which are copied.")
      .def(
          "wrap",
          [](const LazyStream& self, const Array& array) {
            if (array.device().state() != self.device().state())
              throw Failure(
                  invalid("The array is on another device than the stream: on {}.", array.device().description().name));
            const StreamTurn turn;
            return value_object(value_of(self.get().wrap(array.buffer(), array.dtype(), array.sizes())));
          },
          "array"_a, "A tensor of what is in an array, which is read whenever it is computed with.")
      .def(
          "append",
          [](const LazyStream& self, const Value& tensor, nb::handle rows) {
            const Tensor with = to_tensor(rows, &tensor.get());
            const StreamTurn turn;
            return value_object(value_of(without_gil([&] { return self.get().append(tensor.get(), with); })));
          },
          "tensor"_a, "rows"_a, "`tensor` with `rows` after it, along axis 0: a cache that grows in place.")
      .def(
          "eval",
          [](const LazyStream& self, nb::args given) {
            const std::vector<Tensor> tensors = tensors_of(given);
            const StreamTurn turn;
            check_ok(without_gil([&] { return self.get().eval(tensors); }));
          },
          "tensors"_a, "Hands the computation of these tensors to the device without waiting for its end.")
      .def("buffer", &array_of, "tensor"_a,
           "The tensor's memory, after eval(), as a vkfuse.Array: written to, it changes what is computed with it.")
      .def(
          "read",
          [](const LazyStream& self, const Value& value) {
            const auto array = array_of(self, value);
            return to_numpy(array->dtype(), array->sizes(), array->read());
          },
          "tensor"_a, "eval(), then waits and copies to a NumPy array.")
      .def(
          "dump",
          [](const LazyStream& self, nb::args given) {
            const std::vector<Tensor> tensors = tensors_of(given);
            const StreamTurn turn;
            return value_of(self.get().dump(tensors));
          },
          "tensors"_a, "The program that evaluating these tensors would compile, as text. Nothing is evaluated.")
      .def(
          "explain",
          [](const LazyStream& self) {
            const StreamTurn turn;
            return self.get().explain();
          },
          "What the last evaluation computed, and what will become of tensors that were not asked for.")
      .def("report", &report, "What the stream has done so far, as a dict.");
}

}  // namespace vkfuse::python

#include "device.hpp"

#include "base/host_memory.hpp"
#include "base/shape.hpp"
#include "bind.hpp"

namespace vkfuse::python {

using namespace nb::literals;

Device device_of(nb::handle object) {
  if (object.is_none()) {
    const nb::object found = nb::module_::import_("vkfuse._default").attr("default_device")();
    return nb::cast<const OpenDevice&>(found).get();
  }
  if (nb::isinstance<OpenDevice>(object)) return nb::cast<const OpenDevice&>(object).get();
  wrong_type("The device must be a vkfuse.Device, or None for the default one.");
}

// ---- arrays ----

std::unique_ptr<Array> Array::allocate(const Device& device, DType dtype, std::vector<std::int64_t> sizes) {
  Buffer buffer = value_of(without_gil([&] { return device.allocate(dtype, sizes); }));
  return std::make_unique<Array>(device, std::move(buffer), dtype, std::move(sizes));
}

std::unique_ptr<Array> Array::upload(const Device& device, const HostArray& elements) {
  Buffer buffer =
      value_of(without_gil([&] { return device.upload(elements.dtype(), elements.sizes(), elements.bytes()); }));
  return std::make_unique<Array>(device, std::move(buffer), elements.dtype(), elements.sizes());
}

std::unique_ptr<Array> Array::allocate_shared(const Device& device, std::int64_t bytes) {
  if (bytes < 0) throw Failure(invalid("{} bytes of shared memory are asked for.", bytes));
  Buffer buffer = value_of(without_gil([&] { return device.allocate_shared(static_cast<std::uint64_t>(bytes)); }));
  return std::make_unique<Array>(device, std::move(buffer), DType::u8, std::vector{bytes});
}

std::unique_ptr<Array> Array::view(DType dtype, std::vector<std::int64_t> sizes, std::int64_t offset) const {
  const auto bytes = static_cast<std::uint64_t>(value_of(byte_count(dtype, sizes)));
  if (offset < 0) throw Failure(invalid("A part begins at byte {}.", offset));
  Buffer part = value_of(buffer().part(static_cast<std::uint64_t>(offset), bytes));
  return std::make_unique<Array>(device(), std::move(part), dtype, std::move(sizes), held_->made_by);
}

const Buffer& Array::buffer() const {
  if (given_away_) throw Failure(invalid("This array was donated to a run: its memory holds something else by now."));
  return held_->buffer;
}

std::int64_t Array::byte_size() const { return value_of(byte_count(dtype_, sizes_)); }

std::vector<std::byte> Array::read() const {
  const Buffer& from = buffer();
  std::vector<std::byte> bytes = zero_bytes(static_cast<std::size_t>(byte_size()));
  check_ok(without_gil([&]() -> Result<void> {
    const std::scoped_lock lock(mutex_);
    return bytes.empty() ? Result<void>() : from.read(bytes);
  }));
  return bytes;
}

void Array::write(const HostArray& elements) {
  const Buffer& to = buffer();
  if (elements.dtype() != dtype_ || elements.sizes() != sizes_) {
    throw Failure(invalid("The array is {}[{}], and {}[{}] is written to it.", numpy_name(dtype_),
                          fmt::join(sizes_, ", "), numpy_name(elements.dtype()), fmt::join(elements.sizes(), ", ")));
  }
  check_ok(without_gil([&]() -> Result<void> {
    const std::scoped_lock lock(mutex_);
    return elements.bytes().empty() ? Result<void>() : to.write(elements.bytes());
  }));
}

void Array::wait() const {
  if (held_->made_by) check_ok(without_gil([&] { return held_->made_by->wait(); }));
}

namespace {

nb::object read_numpy(const Array& array) {
  const nb::object as = dtype_object(array.dtype());
  if (nb::isinstance<nb::str>(as)) return to_numpy(array.dtype(), array.sizes(), {});  // its error
  return to_numpy(array.dtype(), array.sizes(), array.read());
}

/// The protocol of NumPy: array.__array__(dtype, copy=...).
nb::object as_array(const Array& array, nb::handle dtype, nb::handle copy) {
  if (!copy.is_none() && !nb::cast<bool>(copy))
    throw nb::value_error("The elements of a vkfuse.Array are on a device: copy=False cannot be kept.");
  nb::object made = read_numpy(array);
  return dtype.is_none() ? made : nb::object(made.attr("astype")(dtype));
}

nb::object as_dlpack(const Array& array, nb::handle copy) {
  if (!copy.is_none() && !nb::cast<bool>(copy))
    throw nb::buffer_error("The elements of a vkfuse.Array are on a device: copy=False cannot be kept.");
  return to_dlpack(array.dtype(), array.sizes(), array.read());
}

std::string text_of_array(const Array& array) {
  return fmt::format("<vkfuse.Array {}[{}] on {}{}>", numpy_name(array.dtype()), fmt::join(array.sizes(), ", "),
                     array.device().description().name, array.is_given_away() ? ", donated" : "");
}

void bind_array(nb::module_& module) {
  nb::class_<Array>(module, "Array", nb::is_weak_referenceable(),
                    "A dense array in device memory. Programs take it as it is, and give such arrays back when one of\n"
                    "their inputs is one. Thread-safe.")
      .def("numpy", &read_numpy, "The elements as a NumPy array: waits for what computes them, and copies.")
      .def(
          "write", [](Array& self, nb::handle elements) { self.write(HostArray(elements, self.dtype(), "array")); },
          "elements"_a, "Copies elements of the same dtype and shape from the host.")
      .def("wait", &Array::wait, "Waits until it is computed.")
      .def("__array__", &as_array, "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def(
          "__dlpack__",
          [](const Array& self, nb::handle, nb::handle, nb::handle, nb::handle copy) { return as_dlpack(self, copy); },
          nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(), "dl_device"_a = nb::none(),
          "copy"_a = nb::none(), "The elements, copied to the host, as a DLPack capsule.")
      .def(
          "__dlpack_device__", [](const Array&) { return nb::make_tuple(1, 0); },
          "(1, 0), the host: what __dlpack__() gives is a copy there.")
      .def_prop_ro(
          "dtype", [](const Array& self) { return dtype_object(self.dtype()); },
          "numpy.dtype; of bfloat16 that of ml_dtypes where it is installed, else the name.")
      .def_prop_ro(
          "shape", [](const Array& self) { return sizes_object(self.sizes()); }, "The sizes, outermost first.")
      .def_prop_ro(
          "ndim", [](const Array& self) { return self.sizes().size(); }, "The number of dimensions.")
      .def_prop_ro("nbytes", &Array::byte_size, "Bytes of all elements.")
      .def_prop_ro(
          "size", [](const Array& self) { return self.byte_size() / size_of(self.dtype()); }, "The number of elements.")
      .def_prop_ro(
          "device", [](const Array& self) { return new OpenDevice(self.device()); }, "Where it is.")
      .def_prop_ro("donated", &Array::is_given_away, "Whether its memory was donated to a run.")
      .def_prop_ro(
          "vulkan_handle", [](const Array& self) { return self.buffer().vulkan_handle(); },
          "The VkBuffer as an integer; 0 for one in pieces.")
      .def(
          "view",
          [](const Array& self, nb::handle dtype, nb::handle shape, std::int64_t offset) {
            return self.view(to_dtype(dtype), to_integers(shape, "shape"), offset);
          },
          "dtype"_a, "shape"_a, "offset"_a = 0,
          "Part of its memory, from this byte on, as an array of this dtype and shape. Offsets are multiples of 256.")
      .def(
          "export_memory",
          [](const Array& self) {
            const ExportedMemory made = value_of(self.buffer().export_memory());
            return nb::make_tuple(made.fd, made.bytes, made.dedicated);
          },
          "Of what Device.allocate_shared() made: a new file descriptor of the memory (opaque, of Vulkan), which is "
          "the\n"
          "caller's until an import takes it over, the bytes of the allocation, and whether it is dedicated.")
      .def("__len__",
           [](const Array& self) {
             if (self.sizes().empty()) wrong_type("An array without dimensions has no length.");
             return self.sizes()[0];
           })
      .def("__repr__", &text_of_array);
}

// ---- devices ----

DeviceOptions device_options(const std::string& name, nb::kwargs given) {
  DeviceOptions options;
  options.name = name;
  take_options(given, "Device",
               {
                   {"disable", [&](nb::handle value) { options.disable = to_texts(value, "names to do without"); }},
                   {"limits",
                    [&](nb::handle value) {
                      for (const auto& [key, limit] : nb::cast<nb::dict>(value)) {
                        const std::int64_t number = to_integer(limit, "limit");
                        if (number < 0) throw Failure(invalid("A limit of {} is below 0.", number));
                        options.limits[nb::cast<std::string>(key)] = static_cast<std::uint64_t>(number);
                      }
                    }},
                   {"cache",
                    [&](nb::handle value) {
                      const std::string folder = to_path_text(value);
                      if (folder == "off")
                        options.store.enabled = false;
                      else
                        options.store.folder = folder;
                    }},
                   {"cache_limit",
                    [&](nb::handle value) {
                      const std::int64_t bytes = to_integer(value, "limit of the cache");
                      if (bytes < 0) throw Failure(invalid("A limit of {} bytes is below 0.", bytes));
                      options.store.limit_bytes = static_cast<std::uint64_t>(bytes);
                    }},
                   {"log",
                    [&](nb::handle value) {
                      const Callback callback = to_callback(value, "log");
                      options.log = [callback](LogLevel level, std::string_view sentence) {
                        constexpr const char* names[] = {"debug", "info", "warning"};
                        callback.call(
                            [&] {
                              return nb::make_tuple(names[static_cast<int>(level)],
                                                    nb::str(sentence.data(), sentence.size()));
                            },
                            [](const nb::object&) {});
                      };
                    }},
                   {"self_check", [&](nb::handle value) { options.self_check = nb::cast<bool>(value); }},
               });
  return options;
}

nb::object from_json(const std::string& text) { return nb::module_::import_("json").attr("loads")(text); }

nb::object listed(bool self_test) {
  const auto all = value_of(without_gil([&] { return Device::list(self_test); }));
  nb::list made;
  for (const DeviceDescription& one : all) made.append(from_json(to_json(one)));
  return made;
}

nb::object store_report(const OpenDevice& device) {
  const StoreReport report = device.get().store();
  nb::dict made;
  made["folder"] = report.folder;
  made["off"] = report.off;
  made["loaded"] = report.loaded;
  made["missed"] = report.missed;
  made["saved"] = report.saved;
  made["compiler_calls"] = report.compiler_calls;
  return made;
}

}  // namespace

namespace {

void bind_timeline(nb::module_& module) {
  nb::class_<OpenTimeline>(module, "Timeline", nb::is_weak_referenceable(),
                           "A number that only grows, 0 at first: by it runs, the host and other interfaces of the\n"
                           "machine wait for each other (a timeline semaphore of Vulkan). Thread-safe.")
      .def(
          "__init__",
          [](OpenTimeline* self, const OpenDevice& device) {
            new (self) OpenTimeline(value_of(Timeline::create(device.get())));
          },
          "device"_a)
      .def(
          "signal",
          [](const OpenTimeline& self, std::uint64_t value) {
            check_ok(without_gil([&] { return self.get().signal(value); }));
          },
          "value"_a, "Sets it from the host, to more than it is.")
      .def(
          "wait",
          [](const OpenTimeline& self, std::uint64_t value, double seconds) {
            const auto time = std::chrono::nanoseconds(static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9) * 1e9));
            return value_of(without_gil([&] { return self.get().wait(value, time); }));
          },
          "value"_a, "timeout"_a, "Blocks until it has reached the value; False if that took longer, in seconds.")
      .def_prop_ro(
          "value", [](const OpenTimeline& self) { return value_of(self.get().value()); }, "What it has reached.")
      .def(
          "export", [](const OpenTimeline& self) { return value_of(self.get().export_fd()); },
          "A new file descriptor of it (opaque, of Vulkan), which is the caller's until an import takes it over.");
}

}  // namespace

void bind_device(nb::module_& module) {
  bind_timeline(module);
  nb::class_<OpenDevice>(
      module, "Device", nb::is_weak_referenceable(),
      "An open Vulkan device. In a `with` block it is the default device. It does not survive a fork.")
      .def(
          "__init__",
          [](OpenDevice* self, nb::handle name, nb::kwargs options) {
            const std::string text = name.is_none()                  ? std::string()
                                     : nb::isinstance<nb::str>(name) ? nb::cast<std::string>(name)
                                                                     : std::to_string(to_integer(name, "device"));
            const DeviceOptions how = device_options(text, options);
            new (self) OpenDevice(value_of(without_gil([&] { return Device::open(how); })));
          },
          "name"_a = nb::none(), "options"_a,
          "An index, a UUID or a part of the name; None: $VKFUSE_DEVICE, else the best device.\n\n"
          "Options: disable=[...] (feature tiers or features to do without), limits={name: number} (to lower),\n"
          "cache=FOLDER or \"off\", cache_limit=BYTES, log=f(level, sentence), self_check=True (each run is made "
          "twice,\n"
          "on memory filled with two patterns, and compared).")
      .def_static(
          "list", &listed, "self_test"_a = false,
          "Every Vulkan device of this machine, as describe() has it. With self_test, feature tiers are tested.")
      .def(
          "allocate_shared",
          [](const OpenDevice& self, nb::handle bytes) {
            return Array::allocate_shared(self.get(), to_integer(bytes, "number of bytes"));
          },
          "nbytes"_a,
          "An array of uint8 whose memory another interface of the machine can map (Array.export_memory()). Slow to\n"
          "make: keep it.")
      .def_prop_ro(
          "shares_memory", [](const OpenDevice& self) { return self.get().shares_memory(); },
          "Whether allocate_shared() works.")
      .def_prop_ro(
          "shares_timelines", [](const OpenDevice& self) { return self.get().shares_timelines(); },
          "Whether Timeline.export() works.")
      .def(
          "describe", [](const OpenDevice& self) { return from_json(to_json(self.get().description())); },
          "Name, driver, limits, features and feature tiers, as a dict.")
      .def("store", &store_report, "What the folder of compiled kernels has done so far, as a dict.")
      .def_prop_ro(
          "name", [](const OpenDevice& self) { return self.get().description().name; }, "\"NVIDIA H200\".")
      .def(
          "array",
          [](const OpenDevice& self, nb::handle elements, nb::handle dtype) {
            const std::optional<DType> wanted = dtype.is_none() ? std::nullopt : std::optional(to_dtype(dtype));
            return Array::upload(self.get(), HostArray(elements, wanted, "array"));
          },
          "elements"_a, "dtype"_a = nb::none(), "An array on this device, with these elements.")
      .def(
          "empty",
          [](const OpenDevice& self, nb::handle shape, nb::handle dtype) {
            return Array::allocate(self.get(), to_dtype(dtype), to_integers(shape, "size"));
          },
          "shape"_a, "dtype"_a = "float32", "An array on this device; nothing in particular is in it.")
      .def(
          "__eq__",
          [](const OpenDevice& self, nb::handle other) {
            return nb::isinstance<OpenDevice>(other) && self.is(nb::cast<const OpenDevice&>(other).get());
          },
          "other"_a.none())
      .def("__hash__",
           [](const OpenDevice& self) { return reinterpret_cast<std::intptr_t>(self.get().state().get()) >> 4; })
      .def("__repr__", [](const OpenDevice& self) { return "<vkfuse.Device " + self.get().description().name + ">"; });
  bind_array(module);
  module.def(
      "from_dlpack",
      [](nb::handle array, nb::handle device) {
        if (!nb::hasattr(array, "__dlpack__") || !nb::hasattr(array, "__dlpack_device__"))
          wrong_type("What from_dlpack() is given has no __dlpack__().");
        return Array::upload(device_of(device), HostArray(array, std::nullopt, "array"));
      },
      "array"_a, "device"_a = nb::none(),
      "An array on a device with the elements of an array of another library on the host, which are copied.");
}

}  // namespace vkfuse::python

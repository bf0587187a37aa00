// ONNX models.
#include "vkfuse/onnx.hpp"

#include "bind.hpp"
#include "device.hpp"
#include "os/files.hpp"
#include "run.hpp"

namespace vkfuse::python {

using namespace nb::literals;

namespace {

/// A model compiled for a device, with its ports.
class Model {
 public:
  explicit Model(onnx::OnnxProgram program)
      : program_(std::move(program)), inputs_(program_->inputs()), output_names_(program_->output_names()) {
    for (const Port& port : inputs_) add_narrow(port.name);
    for (const std::string& name : output_names_) add_narrow(name);
  }
  [[nodiscard]] const onnx::OnnxProgram& get() const { return *program_; }
  [[nodiscard]] const std::vector<Port>& inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<std::string>& output_names() const { return output_names_; }
  /// Of inputs and outputs that hold what no DType is: ONNX's names of their elements.
  [[nodiscard]] const std::map<std::string, std::string_view>& narrow_types() const { return narrow_; }

 private:
  void add_narrow(const std::string& name) {
    const std::string_view type = value_of(program_->narrow_type(name));
    if (!type.empty()) narrow_.emplace(name, type);
  }

  Dropped<onnx::OnnxProgram> program_;
  std::vector<Port> inputs_;
  std::vector<std::string> output_names_;
  std::map<std::string, std::string_view> narrow_;
};

std::map<std::string, onnx::TensorData, std::less<>> to_data(nb::handle object) {
  std::map<std::string, onnx::TensorData, std::less<>> made;
  for (const auto& [key, value] : nb::cast<nb::dict>(object)) {
    const std::string name = to_text(key, "name of an input");
    const HostArray host(value, std::nullopt, fmt::format("input '{}'", name));
    made[name] = {name, host.dtype(), host.sizes(), {host.bytes().begin(), host.bytes().end()}};
  }
  return made;
}

std::map<std::string, std::vector<std::int64_t>, std::less<>> to_sizes(nb::handle object) {
  std::map<std::string, std::vector<std::int64_t>, std::less<>> made;
  if (object.is_none()) return made;
  if (!nb::isinstance<nb::dict>(object)) wrong_type("The sizes must be a dict of shapes by name.");
  for (const auto& [key, value] : nb::borrow<nb::dict>(object))
    made[to_text(key, "name of an input")] = to_integers(value, "size");
  return made;
}

struct LoadOptions {
  onnx::OnnxOptions onnx;
  CompileOptions compile;
};

LoadOptions load_options(const nb::kwargs& given, const char* function) {
  LoadOptions made;
  made.compile = compile_options(
      given, function,
      {
          {"known_inputs", [&](nb::handle value) { made.onnx.known_inputs = to_data(value); }},
          {"input_values", [&](nb::handle value) { made.onnx.input_values = to_data(value); }},
          {"dims",
           [&](nb::handle value) {
             for (const auto& [key, size] : nb::cast<nb::dict>(value))
               made.onnx.dims[to_text(key, "name of a dimension")] = to_integer(size, "size of a dimension");
           }},
          {"input_sizes", [&](nb::handle value) { made.onnx.input_sizes = to_sizes(value); }},
          {"floats", [&](nb::handle value) { made.onnx.floats = to_dtype(value); }},
          {"shared_caches", [&](nb::handle value) { made.onnx.shared_caches = nb::cast<bool>(value); }},
      });
  return made;
}

/// Bytes, or whatever shows them.
std::optional<std::string> model_bytes(nb::handle source) {
  if (nb::isinstance<nb::str>(source) || PyObject_CheckBuffer(source.ptr()) == 0) return std::nullopt;
  Py_buffer view;
  if (PyObject_GetBuffer(source.ptr(), &view, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    throw Failure(invalid("The bytes of the model are not contiguous."));
  }
  if (view.len > INT_MAX) {
    const Py_ssize_t bytes = view.len;
    PyBuffer_Release(&view);
    throw Failure(
        unsupported("The model has {} bytes; a protobuf message holds at most {}: keep its weights in files beside "
                    "it, and load the file by its path.",
                    bytes, INT_MAX));
  }
  std::string bytes(static_cast<const char*>(view.buf), static_cast<std::size_t>(view.len));
  PyBuffer_Release(&view);
  return bytes;
}

std::unique_ptr<Model> load(nb::handle source, nb::handle device, nb::kwargs given) {
  const LoadOptions options = load_options(given, "load");
  nb::object model = nb::borrow(source);
  if (nb::hasattr(model, "SerializeToString")) model = model.attr("SerializeToString")();  // onnx.ModelProto
  const auto bytes = model_bytes(model);
  const std::string path = bytes ? std::string() : to_path_text(model);
  const Device on = device_of(device);
  return std::make_unique<Model>(value_of(without_gil([&] {
    return bytes ? onnx::compile_onnx(on, std::as_bytes(std::span(*bytes)), options.onnx, options.compile)
                 : onnx::compile_onnx(on, os::to_path(path), options.onnx, options.compile);
  })));
}

/// Inputs, outputs and what else is known, of a model as tensors.
nb::object load_tensors(nb::handle path, nb::kwargs given) {
  const std::string file = to_path_text(path);
  const LoadOptions options = load_options(given, "load_tensors");
  onnx::OnnxModel model = value_of(without_gil([&] { return onnx::load_onnx(os::to_path(file), options.onnx); }));
  nb::dict made, inputs, outputs;
  for (std::size_t i = 0; i < model.inputs.size(); ++i)
    inputs[model.input_names[i].c_str()] = value_object(model.inputs[i]);
  for (std::size_t i = 0; i < model.outputs.size(); ++i)
    outputs[model.output_names[i].c_str()] = value_object(model.outputs[i]);
  made["name"] = model.name;
  made["inputs"] = inputs;
  made["outputs"] = outputs;
  made["opset"] = model.opset;
  made["constant_inputs"] = model.constant_inputs;
  made["notes"] = model.notes;
  return made;
}

GivenInputs given_inputs(const Model& model, const nb::args& positional, const nb::kwargs& named) {
  GivenInputs given;
  for (const auto& [port, object] : match_inputs(model.inputs(), positional, named)) {
    const auto narrow = model.narrow_types().find(port->name);
    if (narrow == model.narrow_types().end()) {
      given.add(*port, object);
    } else {
      given.add(*port, narrow_bytes(object, narrow->second));
    }
  }
  return given;
}

nb::object run(const Model& model, const nb::args& positional, const nb::kwargs& named) {
  std::vector<std::pair<const char*, nb::object>> narrow;  // looked up before kernels run
  for (const std::string& name : model.output_names()) {
    const auto type = model.narrow_types().find(name);
    if (type != model.narrow_types().end()) narrow.emplace_back(name.c_str(), narrow_dtype(type->second));
  }
  const GivenInputs given = given_inputs(model, positional, named);
  nb::object results =
      run_on_host(given, model.output_names(), [&](const Inputs& inputs) { return model.get().run(inputs); });
  for (const auto& [name, dtype] : narrow) results[name] = results[name].attr("view")(dtype);
  return results;
}

std::string explain(const Model& model, const std::string& stage, nb::handle sizes) {
  const auto by_name = to_sizes(sizes);
  return value_of(without_gil([&] { return model.get().explain(to_stage(stage), by_name); }));
}

}  // namespace

void bind_onnx(nb::module_& module) {
  nb::class_<Model>(
      module, "OnnxProgram", nb::is_weak_referenceable(),
      "A model compiled for a device, in parts where the host has to look at values between kernels. Called\n"
      "with arrays, in the order of its inputs or by their names, it gives a dict of NumPy arrays.\n"
      "Thread-safe.")
      .def(
          "__call__",
          [](const Model& self, nb::args positional, nb::kwargs named) { return run(self, positional, named); },
          "arrays"_a, "named"_a)
      .def(
          "profile",
          [](const Model& self, nb::args positional, nb::kwargs named) {
            const GivenInputs given = given_inputs(self, positional, named);
            return value_of(without_gil([&] { return self.get().profile(given.inputs()); }));
          },
          "arrays"_a, "named"_a, "Time of every kernel and every step of the host in one run: a list of KernelTime.")
      .def_prop_ro("inputs", &Model::inputs, "In the model's order.")
      .def_prop_ro("input_names",
                   [](const Model& self) {
                     std::vector<std::string> names;
                     for (const Port& port : self.inputs()) names.push_back(port.name);
                     return names;
                   })
      .def_prop_ro("output_names", &Model::output_names)
      .def_prop_ro(
          "notes", [](const Model& self) { return self.get().notes(); },
          "What the file says and the import ignores, a sentence each.")
      .def(
          "plan", [](const Model& self, nb::handle sizes) { return explain(self, "plan", sizes); },
          "sizes"_a = nb::none(), "The plan as text, of a run with inputs of these sizes, by name.")
      .def("explain", &explain, "stage"_a = "plan", "sizes"_a = nb::none(),
           "The plan as text (\"plan\") or JSON (\"json\").")
      .def("__repr__", [](const Model& self) {
        std::vector<std::string> names;
        for (const Port& port : self.inputs()) names.push_back(port.name);
        return fmt::format("<vkfuse.OnnxProgram ({}) -> ({})>", fmt::join(names, ", "),
                           fmt::join(self.output_names(), ", "));
      });
  module.def(
      "load", &load, "model"_a, "device"_a = nb::none(), "options"_a,
      "An ONNX model, compiled: from a path, bytes or an onnx.ModelProto.\n\n"
      "Options: those of compile(); dims={symbol: size}, input_sizes={name: shape}, floats=\"float16\" or "
      "\"bfloat16\"\n"
      "(convert a float32 model), known_inputs={name: array} (become constants), input_values={name: array} (values\n"
      "that inputs will have, for what the import cannot do without).");
  module.def(
      "load_tensors", &load_tensors, "path"_a, "options"_a,
      "An ONNX file as tensors: a dict of name, inputs, outputs, opset, constant_inputs and notes. Its outputs are\n"
      "compiled with compile(), whose programs take arrays on the device. Options: as those of load().");
  module.def("onnx_operators", &onnx::operator_table_markdown, "The operators that load() takes, as a Markdown page.");
}

}  // namespace vkfuse::python

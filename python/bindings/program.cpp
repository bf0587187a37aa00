// Programs, and runs on the host's memory and the device's.
#include "vkfuse/executable.hpp"

#include <algorithm>
#include <unordered_map>

#include "api/tensor_node.hpp"
#include "base/shape.hpp"
#include "bind.hpp"
#include "device.hpp"
#include "run.hpp"

namespace vkfuse::python {

using namespace nb::literals;

namespace {

nb::object outputs_object(Outputs outputs, const std::vector<std::string>& names) {
  nb::dict made;
  for (const std::string& name : names) {
    const auto found = outputs.find(name);
    if (found == outputs.end()) continue;
    HostTensor& one = found->second;
    made[name.c_str()] = to_numpy(one.dtype, one.sizes, std::move(one.bytes));
  }
  return made;
}

}  // namespace

nb::object run_on_host(const GivenInputs& given, const std::vector<std::string>& output_names,
                       const std::function<Result<Outputs>(const Inputs&)>& run) {
  return outputs_object(value_of(without_gil([&] { return run(given.inputs()); })), output_names);
}

void GivenInputs::add(const Port& port, nb::handle object) {
  HostArray one(object, port.dtype, fmt::format("input '{}'", port.name));
  if (one.sizes().size() != port.shape.size()) {
    throw Failure(invalid("The input '{}' is {}, and an array of shape [{}] is given.", port.name, to_text(port.shape),
                          fmt::join(one.sizes(), ", ")));
  }
  inputs_.emplace(port.name, HostView(one.bytes(), one.sizes()));
  held_.push_back(std::move(one));
}

std::vector<std::pair<const Port*, nb::handle>> match_inputs(const std::vector<Port>& ports, const nb::args& positional,
                                                             const nb::kwargs& by_name, bool needs_all) {
  std::vector<std::pair<const Port*, nb::handle>> matched;
  if (positional.size() > ports.size()) {
    throw Failure(invalid("The program takes {} inputs, and {} are given.", ports.size(), positional.size()));
  }
  std::size_t at = 0;
  for (const nb::handle one : positional) matched.emplace_back(&ports[at++], one);
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < ports.size(); ++i) places.emplace(ports[i].name, i);
  for (const auto& [key, value] : by_name) {
    const auto name = nb::cast<std::string>(key);
    const auto found = places.find(name);
    if (found == places.end()) throw Failure(invalid("The program has no input '{}'.", name));
    if (found->second < at) throw Failure(invalid("The input '{}' is given twice.", name));
    matched.emplace_back(&ports[found->second], value);
  }
  if (!needs_all || matched.size() == ports.size()) return matched;
  for (const Port& port : ports) {
    if (std::ranges::none_of(matched, [&](const auto& one) { return one.first == &port; }))
      throw Failure(
          invalid("The input '{}', {} of {}, is not given.", port.name, to_text(port.shape), numpy_name(port.dtype)));
  }
  return matched;
}

Results to_results(nb::handle outputs) {
  Results made;
  const auto add = [&](nb::handle one) {
    if (!nb::isinstance<Value>(one)) wrong_type("An output must be a vkfuse.Tensor.");
    made.tensors.push_back(nb::cast<const Value&>(one).get());
  };
  if (nb::isinstance<Value>(outputs)) {
    add(outputs);
  } else if (nb::isinstance<nb::dict>(outputs)) {
    for (const auto& [key, value] : nb::borrow<nb::dict>(outputs)) {
      made.names.push_back(to_text(key, "name of an output"));
      add(value);
    }
  } else if (nb::isinstance<nb::sequence>(outputs)) {
    for (const nb::handle one : outputs) add(one);
  } else {
    wrong_type("The outputs must be a vkfuse.Tensor, a sequence of them, or a dict of them by name.");
  }
  return made;
}

namespace {

/// A compiled program and its device.
class Program {
 public:
  Program(Device device, Executable executable)
      : device_(std::move(device)),
        executable_(std::move(executable)),
        inputs_(executable_->inputs()),
        outputs_(executable_->outputs()) {
    for (const Port& port : inputs_) input_names_.push_back(port.name);
    for (const Port& port : outputs_) output_names_.push_back(port.name);
  }

  [[nodiscard]] const Executable& executable() const { return *executable_; }
  [[nodiscard]] const Device& device() const { return *device_; }
  [[nodiscard]] const std::vector<Port>& inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<Port>& outputs() const { return outputs_; }
  [[nodiscard]] const std::vector<std::string>& input_names() const { return input_names_; }
  [[nodiscard]] const std::vector<std::string>& output_names() const { return output_names_; }

 private:
  Dropped<Device> device_;
  Dropped<Executable> executable_;
  std::vector<Port> inputs_, outputs_;
  std::vector<std::string> input_names_, output_names_;
};

// ---- on device memory ----

/// Work handed to the device, with the arrays that it reads and writes.
class Run {
 public:
  Run(Submission submission, nb::dict outputs) : submission_(std::move(submission)), outputs_(std::move(outputs)) {}
  void wait() const {
    check_ok(without_gil([&] { return submission_->wait(); }));
  }
  [[nodiscard]] bool done() const { return submission_->done(); }
  [[nodiscard]] nb::dict outputs() const { return outputs_; }

 private:
  Dropped<Submission> submission_;
  nb::dict outputs_;
};

/// What one submission is bound to.
class Binder {
 public:
  explicit Binder(const Program& program) : program_(program) {}

  void bind_input(const Port& port, nb::handle object) {
    if (!nb::isinstance<Array>(object)) {
      const HostArray elements(object, port.dtype, fmt::format("input '{}'", port.name));
      check_shape(port, elements.sizes());
      uploaded_.push_back(Array::upload(program_.device(), elements));
      bindings_.inputs.emplace(port.name, uploaded_.back()->buffer());
      return;
    }
    Array& array = nb::cast<Array&>(object);
    check_array(port, array, "input");
    check_shape(port, array.sizes());
    bindings_.inputs.emplace(port.name, array.buffer());
    given_.emplace(port.name, &array);
  }

  void donate(nb::handle names) {
    for (const std::string& name : to_texts(names, "names of donated inputs")) {
      if (!given_.contains(name))
        throw Failure(invalid("'{}' cannot be donated: it is no input that a device array is given for.", name));
      bindings_.donated.insert(name);
    }
  }

  void bind_outputs(nb::handle given) {
    std::map<std::string, nb::handle> by_name;
    if (!given.is_none()) {
      for (const auto& [key, value] : nb::cast<nb::dict>(given)) by_name.emplace(nb::cast<std::string>(key), value);
    }
    for (const Port& port : program_.outputs()) {
      const auto found = by_name.find(port.name);
      if (found == by_name.end()) {
        if (bindings_.donated.empty()) make_output(port);
        continue;
      }
      if (!nb::isinstance<Array>(found->second))
        wrong_type(fmt::format("The output '{}' must be a vkfuse.Array.", port.name));
      Array& array = nb::cast<Array&>(found->second);
      check_array(port, array, "output");
      if (array.sizes() != sizes_of(port)) {
        throw Failure(invalid("The output '{}' is [{}], and an array of shape [{}] is given for it.", port.name,
                              fmt::join(sizes_of(port), ", "), fmt::join(array.sizes(), ", ")));
      }
      bindings_.outputs.emplace(port.name, array.buffer());
      results_.emplace(port.name, nb::borrow(found->second));
      by_name.erase(found);
    }
    if (!by_name.empty()) throw Failure(invalid("The program has no output '{}'.", by_name.begin()->first));
  }

  /// Pairs of a vkfuse.Timeline and a value.
  void bind_points(nb::handle wait_for, nb::handle signal) {
    bindings_.wait_for = points_of(wait_for);
    bindings_.signal = points_of(signal);
  }

  [[nodiscard]] const Bindings& bindings() const { return bindings_; }

  std::unique_ptr<Run> submit() {
    Submission submission = value_of(without_gil([&] { return program_.executable().submit(bindings_); }));
    for (const std::string& name : bindings_.donated) given_.at(name)->give_away();
    nb::dict outputs;
    for (const Port& port : program_.outputs()) {
      const auto given = results_.find(port.name);
      if (given != results_.end()) {
        outputs[port.name.c_str()] = given->second;
        continue;
      }
      outputs[port.name.c_str()] = nb::cast(std::make_unique<Array>(
          program_.device(), submission.outputs().find(port.name)->second, port.dtype, sizes_of(port), submission));
    }
    return std::make_unique<Run>(std::move(submission), std::move(outputs));
  }

 private:
  static std::vector<TimelinePoint> points_of(nb::handle given) {
    std::vector<TimelinePoint> points;
    if (given.is_none()) return points;
    for (const nb::handle one : given) {
      if (!nb::isinstance<nb::tuple>(one) || nb::len(one) != 2 || !nb::isinstance<OpenTimeline>(one[0]))
        wrong_type("What a run waits for and signals must be pairs of a vkfuse.Timeline and a value.");
      points.push_back({nb::cast<const OpenTimeline&>(one[0]).get(), nb::cast<std::uint64_t>(one[1])});
    }
    return points;
  }

  void check_array(const Port& port, const Array& array, const char* kind) const {
    if (array.device().state() != program_.device().state()) {
      throw Failure(invalid("The array that is given for the {} '{}' is on another device than the program: on {}.",
                            kind, port.name, array.device().description().name));
    }
    if (array.dtype() != port.dtype) {
      throw Failure(invalid("The {} '{}' is of {}, and an array of {} is given: convert it with astype().", kind,
                            port.name, numpy_name(port.dtype), numpy_name(array.dtype())));
    }
  }

  /// Its symbols get their sizes from it.
  void check_shape(const Port& port, const std::vector<std::int64_t>& sizes) {
    bool same = sizes.size() == port.shape.size();
    for (std::size_t i = 0; same && i < sizes.size(); ++i) {
      const Dim& dim = port.shape[i];
      if (dim.is_symbol()) {
        const auto [known, added] = bindings_.symbols.emplace(dim.name(), sizes[i]);
        same = added || known->second == sizes[i];
      } else {
        same = dim.size() == sizes[i];
      }
    }
    if (same) return;
    std::string symbols;
    for (const auto& [name, size] : bindings_.symbols) symbols += fmt::format(" ({} is {} elsewhere)", name, size);
    throw Failure(invalid("The input '{}' is {}, and an array of shape [{}] is given{}.", port.name,
                          to_text(port.shape), fmt::join(sizes, ", "), symbols));
  }

  [[nodiscard]] std::vector<std::int64_t> sizes_of(const Port& port) const {
    return value_of(resolve(port.shape, bindings_.symbols));
  }

  void make_output(const Port& port) {
    const std::vector<std::int64_t> sizes = sizes_of(port);
    bindings_.outputs.emplace(port.name,
                              value_of(without_gil([&] { return program_.device().allocate(port.dtype, sizes); })));
  }

  const Program& program_;
  Bindings bindings_;
  std::vector<std::unique_ptr<Array>> uploaded_;
  std::map<std::string, Array*, std::less<>> given_;  ///< alive: arguments of the call
  std::map<std::string, nb::object, std::less<>> results_;
};

nb::args no_arguments() { return nb::steal<nb::args>(PyTuple_New(0)); }

nb::kwargs by_name(nb::handle inputs) {
  if (!nb::isinstance<nb::dict>(inputs)) wrong_type("The inputs must be a dict of arrays by name.");
  for (const auto& [key, value] : nb::borrow<nb::dict>(inputs)) static_cast<void>(to_text(key, "name of an input"));
  return nb::borrow<nb::kwargs>(inputs);
}

/// Device arrays in, device arrays out; else arrays of NumPy.
nb::object call(const Program& program, nb::args positional, nb::kwargs named) {
  const auto matched = match_inputs(program.inputs(), positional, named);
  if (std::ranges::any_of(matched, [](const auto& one) { return nb::isinstance<Array>(one.second); })) {
    Binder binder(program);
    for (const auto& [port, object] : matched) binder.bind_input(*port, object);
    binder.bind_outputs(nb::none());
    return binder.submit()->outputs();
  }
  GivenInputs given;
  for (const auto& [port, object] : matched) given.add(*port, object);
  return run_on_host(given, program.output_names(),
                     [&](const Inputs& inputs) { return program.executable().run(inputs); });
}

GivenInputs host_inputs(const Program& program, nb::args positional, nb::kwargs named) {
  GivenInputs given;
  for (const auto& [port, object] : match_inputs(program.inputs(), positional, named)) given.add(*port, object);
  return given;
}

std::unique_ptr<Run> submit(const Program& program, nb::handle inputs, nb::handle outputs, nb::handle donate,
                            nb::handle wait_for, nb::handle signal) {
  Binder binder(program);
  for (const auto& [port, object] : match_inputs(program.inputs(), no_arguments(), by_name(inputs)))
    binder.bind_input(*port, object);
  if (!donate.is_none()) binder.donate(donate);
  binder.bind_outputs(outputs);
  binder.bind_points(wait_for, signal);
  return binder.submit();
}

nb::object times_object(const std::vector<KernelTime>& times) {
  nb::list made;
  for (const KernelTime& one : times) made.append(nb::cast(one));
  return made;
}

std::string explain(const Program& program, const std::string& stage, nb::handle segment) {
  const std::optional<int> which = segment.is_none() ? std::nullopt : std::optional(to_axes(segment).at(0));
  return value_of(without_gil([&] { return program.executable().explain(to_stage(stage), which); }));
}

TuneProgress tune(const Program& program, double budget_ms, nb::handle progress, nb::kwargs symbols) {
  const Symbols sizes = to_symbols(symbols);
  std::function<void(const TuneProgress&)> tell;
  if (!progress.is_none()) {
    const Callback callback = to_callback(progress, "progress");
    tell = [callback](const TuneProgress& so_far) {
      callback.call([&] { return nb::make_tuple(nb::cast(so_far)); }, [](const nb::object&) {});
    };
  }
  return value_of(without_gil([&] { return program.executable().tune(budget_ms, sizes, tell); }));
}

nb::object memory(const Program& program, nb::kwargs symbols) {
  const Symbols sizes = to_symbols(symbols);
  const MemoryUse use = value_of(without_gil([&] { return program.executable().memory(sizes); }));
  nb::dict made;
  made["arena"] = use.arena;
  made["constants"] = use.constants;
  made["inputs"] = use.inputs;
  made["outputs"] = use.outputs;
  made["staging"] = use.staging;
  made["total"] = use.total();
  return made;
}

std::string explain_measured(const Program& program, const std::string& stage, const std::vector<KernelTime>& times) {
  return value_of(without_gil([&] { return program.executable().explain(to_stage(stage), MeasuredTimes{times, {}}); }));
}

void bind_runs(nb::module_& module) {
  nb::class_<Run>(module, "Submission", nb::is_weak_referenceable(),
                  "Work handed to the device. A `with` block ends when it is done.")
      .def("wait", &Run::wait, "Blocks until it is done, or the device is lost.")
      .def_prop_ro("done", &Run::done, "Whether it is done, without blocking.")
      .def_prop_ro("outputs", &Run::outputs, "The vkfuse.Array of every output by its name.")
      .def("__enter__", [](nb::object self) { return self; })
      .def(
          "__exit__", [](const Run& self, nb::handle, nb::handle, nb::handle) { self.wait(); }, "type"_a.none(),
          "value"_a.none(), "traceback"_a.none());
  nb::class_<KernelTime>(module, "KernelTime", "Device time of one segment of a plan.")
      .def_ro("kernel", &KernelTime::kernel, "Its name.")
      .def_ro("microseconds", &KernelTime::microseconds)
      .def_ro("bytes", &KernelTime::bytes, "That it reads and writes, each element once.")
      .def("__repr__", [](const KernelTime& self) {
        return fmt::format("<vkfuse.KernelTime {}: {:.1f} us, {} bytes>", self.kernel, self.microseconds, self.bytes);
      });
  nb::class_<TuneProgress>(module, "TuneProgress", "How far a search for faster schedules has come.")
      .def_ro("segment", &TuneProgress::segment, "Kernels that have been looked at.")
      .def_ro("segments", &TuneProgress::segments, "That there are.")
      .def_ro("candidates", &TuneProgress::candidates, "Schedules that were compiled and checked.")
      .def_ro("adopted", &TuneProgress::adopted, "Kernels that run another way from now on.")
      .def_ro("spent_ms", &TuneProgress::spent_ms)
      .def_ro("budget_ms", &TuneProgress::budget_ms);
  nb::class_<Port>(module, "Port", "A named input or output of a program.")
      .def_ro("name", &Port::name)
      .def_prop_ro("dtype", [](const Port& self) { return dtype_object(self.dtype); })
      .def_prop_ro("shape", [](const Port& self) { return shape_object(self.shape); })
      .def("__repr__", [](const Port& self) {
        return fmt::format("<vkfuse.Port '{}' {}{}>", self.name, numpy_name(self.dtype), to_text(self.shape));
      });
}

void bind_class(nb::module_& module) {
  nb::class_<Program>(
      module, "Program", nb::is_weak_referenceable(),
      "A compiled program. Called with arrays, in the order of its inputs or by their names, it gives a\n"
      "dict of its outputs: NumPy arrays, or vkfuse.Array where one of the inputs is one.\n"
      "Immutable and thread-safe: runs of several threads overlap.")
      .def("__call__", &call, "arrays"_a, "named"_a)
      .def("submit", &submit, "inputs"_a, "outputs"_a = nb::none(), "donate"_a = nb::none(), "wait_for"_a = nb::none(),
           "signal"_a = nb::none(),
           "Runs without waiting. Outputs that are not given are new arrays. Donated inputs, by name, are not needed\n"
           "afterwards: their memory may take results. wait_for=[(timeline, value), ...]: the device begins when each\n"
           "vkfuse.Timeline has reached its value; signal=[...]: it sets them at the end.")
      .def_prop_ro("inputs", &Program::inputs, "In the order in which the program was written down.")
      .def_prop_ro("outputs", &Program::outputs)
      .def_prop_ro("input_names", &Program::input_names)
      .def_prop_ro("output_names", &Program::output_names)
      .def_prop_ro("device", [](const Program& self) { return new OpenDevice(self.device()); })
      .def_prop_ro(
          "kernel_count",
          [](const Program& self) { return without_gil([&] { return self.executable().kernel_count(); }); },
          "Dispatches of one run.")
      .def(
          "plan", [](const Program& self) { return explain(self, "plan", nb::none()); }, "The plan as text.")
      .def(
          "html", [](const Program& self) { return explain(self, "html", nb::none()); },
          "The plan as a page for a browser.")
      .def("explain", &explain, "stage"_a = "plan", "segment"_a = nb::none(),
           "\"graph\", \"plan\", \"json\", \"html\", or code: \"glsl\", \"spirv\", \"msl\", \"hlsl\", of one segment "
           "or all.")
      .def("explain_measured", &explain_measured, "stage"_a, "times"_a,
           "The plan (\"plan\", \"json\" or \"html\") with times that profile() gave.")
      .def(
          "save_plan",
          [](const Program& self) { return value_of(without_gil([&] { return self.executable().save_plan(); })); },
          "The plan as JSON, for the option `plan` of a compilation elsewhere.")
      .def("memory", &memory, "symbols"_a, "Bytes that a run takes, when symbols have these sizes, as a dict.")
      .def("tune", &tune, "budget_ms"_a, "progress"_a = nb::none(), "symbols"_a,
           "Measures other schedules for about `budget_ms`, checks them, and runs what is faster from now on.")
      .def(
          "profile",
          [](const Program& self, nb::args positional, nb::kwargs named) {
            const GivenInputs given = host_inputs(self, positional, named);
            return times_object(value_of(without_gil([&] { return self.executable().profile_host(given.inputs()); })));
          },
          "arrays"_a, "named"_a, "Device time of every kernel of a run with these inputs: a list of KernelTime.")
      .def(
          "replay_us",
          [](const Program& self, nb::args positional, nb::kwargs named) {
            const GivenInputs given = host_inputs(self, positional, named);
            return value_of(without_gil([&] { return self.executable().replay_us(given.inputs()); }));
          },
          "arrays"_a, "named"_a, "Device time of one replay of a run with these inputs, in microseconds.")
      .def("__repr__", [](const Program& self) {
        return fmt::format("<vkfuse.Program ({}) -> ({}) on {}>", fmt::join(self.input_names(), ", "),
                           fmt::join(self.output_names(), ", "), self.device().description().name);
      });
}

constexpr const char* kCompileDoc =
    "The program that computes these tensors: one, a sequence, or a dict by the names of the outputs.\n\n"
    "Options: numerics=\"standard\", \"strict\" or \"f16_accumulation\"; fusion=False (one kernel for each op);\n"
    "without=[...] and planner=... (docs/command-line.md); memory_budget=BYTES that intermediate values take at most;\n"
    "plan=TEXT of save_plan(); tune=\"off\", \"on\" or \"background\", tune_ms=1000, on_tune=f(progress);\n"
    "name=\"graph\".";

std::unique_ptr<Program> compiled(const Device& device, const std::function<Result<Executable>()>& make) {
  return std::make_unique<Program>(device, value_of(without_gil(make)));
}

void bind_compilation(nb::module_& module) {
  module.def(
      "compile",
      [](nb::handle outputs, nb::handle device, nb::kwargs given) {
        const Results results = to_results(outputs);
        CompileOptions options = compile_options(given, "compile");
        options.output_names = results.names;
        const Device on = device_of(device);
        return compiled(on, [&] { return compile(on, results.tensors, options); });
      },
      "outputs"_a, "device"_a = nb::none(), "options"_a, kCompileDoc);
  module.def(
      "supports",
      [](nb::handle outputs, nb::handle device, nb::kwargs given) {
        const Results results = to_results(outputs);
        CompileOptions options = compile_options(given, "supports");
        options.output_names = results.names;
        const Device on = device_of(device);
        check_ok(without_gil([&] { return supports(on, results.tensors, options); }));
      },
      "outputs"_a, "device"_a = nb::none(), "options"_a,
      "Raises what compile() would, in a fraction of its time: no shader is compiled.");
  module.def(
      "compile_text",
      [](const std::string& text, nb::handle device, nb::kwargs given) {
        bool allow_custom = false;
        CompileOptions options = compile_options(
            given, "compile_text", {{"allow_custom", [&](nb::handle value) { allow_custom = to_truth(value); }}});
        options.allow_custom = allow_custom;
        const Device on = device_of(device);
        return compiled(on, [&] { return compile_text(on, text, options); });
      },
      "text"_a, "device"_a = nb::none(), "options"_a,
      "The program of a text in the form of docs/text-ir.md. Options: those of compile(), and allow_custom=True for\n"
      "texts with GLSL, which runs on the device as it is.");
  module.def(
      "graph_text",
      [](nb::handle outputs, const std::string& name) {
        const Results results = to_results(outputs);
        return ir::print(value_of(api::to_graph(results.tensors, results.names, name)));
      },
      "outputs"_a, "name"_a = "graph", "The text form of what computes these tensors.");
}

}  // namespace

void bind_program(nb::module_& module) {
  bind_runs(module);
  bind_class(module);
  bind_compilation(module);
}

}  // namespace vkfuse::python

#include "tool/commands.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "api/program.hpp"
#include "base/limit_text.hpp"
#include "base/target.hpp"
#include "onnx/program_watcher.hpp"
#include "os/files.hpp"
#include "os/terminal.hpp"
#include "schedule/schedule.hpp"
#include "store/store.hpp"
#include "tool/device_text.hpp"
#include "tool/model.hpp"
#include "tool/output_names.hpp"

namespace vkfuse::tool {

namespace fs = std::filesystem;

namespace {

StoreOptions store_options(const Common& common) {
  StoreOptions options;
  options.enabled = common.cache != "off";
  if (options.enabled) options.folder = common.cache;
  return options;
}

}  // namespace

Result<DeviceOptions> device_options(const Common& common) {
  DeviceOptions options;
  options.name = common.device;
  options.disable = common.disable;
  options.store = store_options(common);
  for (const std::string& text : common.limits) {
    VKF_TRY(limit, parse_limit(text));
    options.limits[limit.first] = limit.second;
  }
  return options;
}

Result<std::int64_t> memory_budget_of(const Common& common) {
  if (common.memory_budget.empty()) return 0;
  const auto budget = parse_limit("memory_budget=" + common.memory_budget);
  if (!budget || budget->second == 0 || budget->second > std::numeric_limits<std::int64_t>::max())
    return invalid("'--memory-budget {}' is no number of bytes, as 4096 or 512MiB are.", common.memory_budget);
  return static_cast<std::int64_t>(budget->second);
}

Result<CompileOptions> compile_options(const Common& common) {
  CompileOptions options;
  options.numerics = common.strict             ? Numerics::strict
                     : common.f16_accumulation ? Numerics::f16_accumulation
                                               : Numerics::standard;
  options.without = common.without;
  options.planner = common.planner;
  VKF_TRY(budget, memory_budget_of(common));
  options.memory_budget = budget;
  return options;
}

Result<ModelOptions> model_options(const Common& common, const NamedInputs& given) {
  ModelOptions options;
  options.known = common.known;
  options.host = !common.no_host;
  options.allow_custom = common.allow_custom;
  for (const auto& [name, input] : given) {
    if (input.tensor)
      options.values.emplace(name,
                             onnx::TensorData{name, input.tensor->dtype, input.tensor->sizes, input.tensor->bytes});
  }
  for (const std::string& stated : common.dims) {
    const std::size_t equals = stated.find('=');
    std::int64_t size = 0;
    const char* end = stated.data() + stated.size();
    const bool parsed = equals != std::string::npos && equals + 1 < stated.size() &&
                        std::from_chars(stated.data() + equals + 1, end, size).ptr == end && size >= 0;
    if (!parsed) return invalid("'--dim {}' is not NAME=NUMBER.", stated);
    options.dims[stated.substr(0, equals)] = size;
  }
  if (!common.dtype.empty()) options.floats = common.dtype == "f16" ? DType::f16 : DType::bf16;
  return options;
}

namespace {

Result<Device> open_device(const Common& common) {
  VKF_TRY(options, device_options(common));
  return Device::open(options);
}

/// `plan` is the file of a plan, or empty.
Result<Executable> compile_model(const Common& common, const Device& device, ir::Graph graph,
                                 const std::string& plan = "") {
  VKF_TRY(options, compile_options(common));
  if (plan.empty()) return api::compile_graph(device, std::move(graph), options);
  VKF_TRY(text, read_text(os::to_path(plan)));
  if (text.empty()) return invalid("The plan '{}' is an empty file.", plan);
  options.plan = std::move(text);
  auto program = api::compile_graph(device, std::move(graph), options);
  if (!program) return std::move(program).error().within(fmt::format("following the plan '{}'", plan));
  return program;
}

void print_device(const DeviceDescription& device) {
  std::printf("%d: %s\n", device.index, device.name.c_str());
  std::printf("   %s device, %s, Vulkan %s\n", device.type.c_str(), device.driver.c_str(), device.api.c_str());
  std::printf("   uuid %s, %.1f GiB device memory\n", device.uuid.c_str(),
              static_cast<double>(device.memory_bytes) / (1 << 30));
  for (const auto& [name, value] : device.limits) {
    const bool known = name != "registers_per_thread" || value != kUnknownRegistersPerThread;
    std::printf("   %-24s %20s\n", name.c_str(), known ? std::to_string(value).c_str() : "not known");
  }
  std::string features;
  for (const std::string& feature : device.features) features += " " + feature;
  std::printf("   features:%s\n", features.c_str());
  for (const auto& tier : device.feature_tiers) std::printf("   %s: %s\n", tier.first.c_str(), tier.second.c_str());
  for (const auto& cost : device.costs) std::printf("   %-24s %20.1f  (measured)\n", cost.first.c_str(), cost.second);
  std::printf("%s", architecture_text(device).c_str());
}

}  // namespace

Result<NamedInputs> read_inputs(const std::vector<std::string>& arguments) {
  NamedInputs given;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos)
      return invalid("'--input {}' is not NAME=FILE.npy, NAME=FILE.pb or NAME=random[:SEED].", argument);
    const std::string value = argument.substr(equals + 1);
    GivenInput& one = given[argument.substr(0, equals)];
    if (value == "random" || value.starts_with("random:")) {
      const char* end = value.data() + value.size();
      if (value != "random" && (value.size() == 7 || std::from_chars(value.data() + 7, end, one.seed).ptr != end))
        return invalid("'{}' names no seed.", value);
      continue;
    }
    VKF_TRY(tensor, read_tensor(os::to_path(value)));
    one.tensor = std::move(tensor);
  }
  return given;
}

namespace {

Result<void> check_names(const ir::Graph& graph, const NamedInputs& given, const std::vector<std::string>& elsewhere) {
  const auto ids = graph.inputs();
  for (const auto& entry : given) {
    const auto has_name = [&](ir::NodeId id) {
      return std::get<ir::InputPayload>(graph.node(id).payload).name == entry.first;
    };
    if (std::find(elsewhere.begin(), elsewhere.end(), entry.first) != elsewhere.end()) continue;
    if (std::none_of(ids.begin(), ids.end(), has_name))
      return invalid("The graph '{}' has no input '{}'.", graph.name, entry.first);
  }
  return {};
}

}  // namespace

Result<RunInputs> inputs_for(const ir::Graph& graph, const NamedInputs& given,
                             const std::vector<std::string>& elsewhere, std::uint64_t seed) {
  std::map<std::string, HostTensor, std::less<>> tensors;
  for (ir::NodeId id : graph.inputs()) {
    const std::string& name = std::get<ir::InputPayload>(graph.node(id).payload).name;
    const DType dtype = graph.node(id).type.dtype;
    const auto found = given.find(name);
    if (found == given.end() || !found->second.tensor) continue;
    HostTensor tensor = *found->second.tensor;
    // NumPy has no bfloat16: two-byte elements of the right count are taken as what the graph wants.
    if (dtype == DType::bf16 && size_of(tensor.dtype) == 2) tensor.dtype = DType::bf16;
    if (tensor.dtype == DType::f32 && (dtype == DType::f16 || dtype == DType::bf16)) tensor = converted(tensor, dtype);
    tensors.emplace(name, std::move(tensor));
  }
  VKF_CHECK_OK(check_names(graph, given, elsewhere));
  VKF_TRY(symbols, symbols_of(graph, tensors));
  VKF_TRY(inputs, random_inputs(graph, seed, symbols));
  for (auto& entry : inputs.tensors) {
    const auto found = given.find(entry.first);
    if (const auto tensor = tensors.find(entry.first); tensor != tensors.end()) {
      entry.second = std::move(tensor->second);
    } else if (found != given.end()) {
      entry.second = random_tensor(entry.second.dtype, entry.second.sizes, found->second.seed, entry.first);
    }
  }
  return inputs;
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::fprintf(stderr, "vkfuse: note: %s\n", note.c_str());
}

std::vector<std::string> without_graph(const Model& model) {
  std::vector<std::string> names = model.constants;
  names.insert(names.end(), model.unread.begin(), model.unread.end());
  return names;
}

namespace {

/// Says what of a model, and of what is given, is ignored.
Result<void> check_given(const Model& model, const NamedInputs& given) {
  print_notes(model.notes);
  for (const std::string& name : model.unread) {
    if (given.contains(name)) print_notes({fmt::format("Input '{}' is given, which no output needs.", name)});
  }
  return check_names(model.graph, given, without_graph(model));
}

std::string summary(const HostTensor& tensor) {
  const auto width = static_cast<std::size_t>(size_of(tensor.dtype));
  std::string text = fmt::format("{}[{}]", name_of(tensor.dtype), fmt::join(tensor.sizes, ", "));
  text += " = {";
  const std::size_t count = std::min<std::size_t>(6, tensor.bytes.size() / width);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* at = tensor.bytes.data() + i * width;
    text += (i == 0 ? "" : ", ") + (is_float(tensor.dtype) ? fmt::format("{:.6g}", ir::decode(tensor.dtype, at))
                                                           : fmt::format("{}", ir::decode_int(tensor.dtype, at)));
  }
  return text + (count * width < tensor.bytes.size() ? ", ...}" : "}");
}

std::string summary(const StoreReport& store) {
  const std::string kept =
      store.off.empty() ? fmt::format("{} loaded from {}, {} saved there.", store.loaded, store.folder, store.saved)
                        : store.off;
  return fmt::format("Shaders compiled: {}. {}", store.compiler_calls, kept);
}

Result<void> write_outputs(const Outputs& outputs, const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed)
    return make_error(ErrorCode::io, "The folder '{}' could not be made: {}.", folder.string(), failed.message());
  std::set<std::string> names;
  for (const auto& entry : outputs) names.insert(entry.first);
  for (const auto& [name, stem] : file_stems(names)) {
    VKF_CHECK_OK(write_npy(folder / os::to_path(stem + ".npy"), outputs.at(name)));
    if (stem != name) std::printf("  %s is in %s.npy\n", name.c_str(), stem.c_str());
  }
  return {};
}

}  // namespace

Result<int> list_devices(const Common& common, bool json) {
  VKF_TRY(options, device_options(common));
  static_cast<void>(options);
  VKF_TRY(devices, Device::list(true));
  if (json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const DeviceDescription& device : devices) all.push_back(nlohmann::ordered_json::parse(to_json(device)));
    std::printf("%s\n", all.dump(2).c_str());
    return 0;
  }
  for (const DeviceDescription& device : devices) print_device(device);
  return 0;
}

Result<int> manage_cache(const Common& common, const std::string& action) {
  store::Store store(store_options(common));
  if (!store.off().empty()) return unsupported("{}", store.off());
  if (action == "clear") {
    const store::Usage removed = store.clear();
    fmt::print("{} entries, {} bytes removed\n", removed.entries, removed.bytes);
    return 0;
  }
  const store::Usage usage = store.usage();
  if (action == "path") fmt::print("{}\n", store.path());
  if (action == "size") fmt::print("{}\n", usage.bytes);
  if (action == "entries") fmt::print("{}\n", usage.entries);
  if (action.empty())
    fmt::print("path     {}\nsize     {} of {} bytes\nentries  {}\n", store.path(), usage.bytes,
               StoreOptions().limit_bytes, usage.entries);
  return 0;
}

namespace {

/// The largest scores of each row of an output that looks like a classifier's: [batch, classes] of floats.
void print_top(const std::string& name, const HostTensor& scores, int top) {
  constexpr std::int64_t kFewestClasses = 3, kMostRows = 4;
  if (top == 0 || !is_float(scores.dtype) || scores.sizes.size() != 2 || scores.sizes[1] < kFewestClasses) return;
  const std::int64_t classes = scores.sizes[1];
  const auto score = [&](std::int64_t row, std::int64_t at) {
    return ir::decode(scores.dtype,
                      scores.bytes.data() + static_cast<std::size_t>((row * classes + at) * size_of(scores.dtype)));
  };
  for (std::int64_t row = 0; row < std::min(scores.sizes[0], kMostRows); ++row) {
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < classes; ++i) {
      if (!std::isnan(score(row, i))) order.push_back(i);
    }
    const auto count = static_cast<std::ptrdiff_t>(std::min<std::size_t>(static_cast<std::size_t>(top), order.size()));
    std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](std::int64_t a, std::int64_t b) {
      return score(row, a) != score(row, b) ? score(row, a) > score(row, b) : a < b;
    });
    std::string line;
    for (std::ptrdiff_t i = 0; i < count; ++i)
      line += fmt::format("  {}: {:.6g}", order[static_cast<std::size_t>(i)],
                          score(row, order[static_cast<std::size_t>(i)]));
    std::printf("  largest of %s[%lld]:%s\n", name.c_str(), static_cast<long long>(row), line.c_str());
  }
}

/// How far numbers are from exact ones. Those that are not finite on both sides are only counted.
struct ConversionErrors {
  double largest_error = 0, largest_element = 0, sum = 0;
  std::int64_t elements = 0;
  std::int64_t finite = 0;     ///< on both sides
  std::int64_t undefined = 0;  ///< of the others, those that differ
};

ConversionErrors errors_between(const HostTensor& exact, const HostTensor& near) {
  const auto number = [](const HostTensor& tensor, std::size_t at) {
    return ir::decode(tensor.dtype, tensor.bytes.data() + at * static_cast<std::size_t>(size_of(tensor.dtype)));
  };
  ConversionErrors errors;
  const std::size_t count = exact.bytes.size() / static_cast<std::size_t>(size_of(exact.dtype));
  errors.elements = static_cast<std::int64_t>(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double a = number(exact, i), b = number(near, i);
    if (!std::isfinite(a) || !std::isfinite(b)) {
      errors.undefined += a == b || (std::isnan(a) && std::isnan(b)) ? 0 : 1;
      continue;
    }
    ++errors.finite;
    errors.largest_error = std::max(errors.largest_error, std::abs(a - b));
    errors.largest_element = std::max(errors.largest_element, std::abs(a));
    errors.sum += std::abs(a - b);
  }
  return errors;
}

void print_errors_of(const std::string& name, const ConversionErrors& errors) {
  const double relative = errors.largest_element > 0 ? errors.largest_error / errors.largest_element : 0.0;
  const double mean = errors.finite > 0 ? errors.sum / static_cast<double>(errors.finite) : 0.0;
  if (errors.finite == 0 && errors.elements > 0) {
    std::printf("  %s against f32: no element is finite in both", name.c_str());
  } else {
    std::printf("  %s against f32: largest error %.3g (%.3g of the largest element), mean error %.3g", name.c_str(),
                errors.largest_error, relative, mean);
  }
  if (errors.finite > 0 && errors.finite < errors.elements)
    std::printf(", of the %lld of %lld elements that are finite in both", static_cast<long long>(errors.finite),
                static_cast<long long>(errors.elements));
  std::printf(errors.undefined > 0 ? "; %lld elements are infinite or undefined in one of them\n" : "\n",
              static_cast<long long>(errors.undefined));
}

/// How far the outputs of a converted model are from those of the model as it was.
void print_errors(const Outputs& got, const Outputs& want) {
  for (const auto& [name, exact] : want) {
    const HostTensor& near = got.at(name);
    if (is_float(exact.dtype)) {
      print_errors_of(name, errors_between(exact, near));
    } else {
      std::printf("  %s : %s as in f32\n", name.c_str(),
                  exact.bytes == near.bytes ? "all elements" : "not all elements");
    }
  }
}

/// Words on stderr, where somebody is watching, about what takes seconds.
void say(const std::string& what) {
  if (os::is_terminal(os::Standard::error)) std::fprintf(stderr, "%s ...\n", what.c_str());
}

/// What the model makes of its inputs, in a line on stdout for each output.
void print_outputs(const Outputs& outputs, int top) {
  for (const auto& entry : outputs) std::printf("  %s : %s\n", entry.first.c_str(), summary(entry.second).c_str());
  for (const auto& entry : outputs) print_top(entry.first, entry.second, top);
}

Result<void> show_times(const RunCommand& command, const Device& device, const std::string& model,
                        const std::vector<KernelTime>& times, std::optional<double> replay_us = {}) {
  if (!command.trace.empty())
    VKF_CHECK_OK(write_file(os::to_path(command.trace), to_trace(times, model, device.description().name)));
  if (!command.profile) return {};
  print_times(times);
  if (replay_us) std::printf("One replay of the program: %.2f device us\n", *replay_us);
  std::printf("%s\n", summary(device.store()).c_str());
  return {};
}

/// A model that runs on the host too, or for each size by itself.
Result<int> run_in_parts(const Common& common, const RunCommand& command, ModelOptions how, const NamedInputs& given) {
  VKF_TRY(device, open_device(common));
  VKF_TRY(options, compile_options(common));
  say("Compiling");
  VKF_TRY(program, load_in_parts(device, os::to_path(command.model), how, options));
  VKF_TRY(graph, graph_of(program.inputs()));
  VKF_TRY(inputs, inputs_for(graph, given, how.known));
  onnx::Watcher watcher;
  Outputs outputs;
  for (int i = 0; i < command.repeat; ++i) {
    watcher = {};
    VKF_TRY(made, onnx::run_program(program, views(inputs), watcher));
    outputs = std::move(made);
  }
  print_notes(program.notes());
  const std::string name = os::to_path(command.model).stem().string();
  std::printf("%s on %s: %d kernel%s, %d step%s of the host\n", name.c_str(), device.description().name.c_str(),
              watcher.kernels, watcher.kernels == 1 ? "" : "s", watcher.host_steps, watcher.host_steps == 1 ? "" : "s");
  print_outputs(outputs, command.top);
  if (how.floats) {
    how.floats.reset();
    VKF_TRY(plain, load_in_parts(device, os::to_path(command.model), how, options));
    VKF_TRY(plain_graph, graph_of(plain.inputs()));
    VKF_TRY(plain_inputs, inputs_for(plain_graph, given, how.known));
    VKF_TRY(wanted, plain.run(views(plain_inputs)));
    print_errors(outputs, wanted);
  }
  if (!command.output_dir.empty()) VKF_CHECK_OK(write_outputs(outputs, os::to_path(command.output_dir)));
  if (!command.profile && command.trace.empty()) return 0;
  VKF_TRY(times, program.profile(views(inputs)));
  VKF_CHECK_OK(show_times(command, device, name, times));
  return 0;
}

/// The plan of such a model, for inputs of the sizes that --dim says.
Result<std::string> plan_in_parts(const Common& common, const PlanCommand& command, const ModelOptions& how) {
  if (!command.save.empty() || !command.plan.empty() || command.profile) {
    return unsupported(
        "'{}' runs in parts with the host between them, and --save, --plan and --profile are about one program.",
        command.model);
  }
  VKF_TRY(device, open_device(common));
  VKF_TRY(options, compile_options(common));
  VKF_TRY(program, load_in_parts(device, os::to_path(command.model), how, options));
  print_notes(program.notes());
  return program.explain(command.format == "json" ? Stage::json : command.format == "html" ? Stage::html : Stage::plan);
}

}  // namespace

namespace {

Result<void> measure_times(const RunCommand& command, const Device& device, const Executable& program,
                           const std::string& model, const Inputs& inputs) {
  VKF_TRY(times, program.profile_host(inputs));
  if (!command.profile) return show_times(command, device, model, times);  // a trace has no place for a replay
  VKF_TRY(replay_us, program.replay_us(inputs));
  return show_times(command, device, model, times, replay_us);
}

/// One line on a terminal, written over again and again; the last one stays, wherever it goes.
Result<void> tune_model(const Executable& program, const Inputs& inputs, double budget_ms) {
  Symbols symbols;
  for (const Port& port : program.inputs()) {
    const auto given = inputs.find(port.name);
    for (std::size_t i = 0; given != inputs.end() && i < given->second.sizes.size(); ++i) {
      if (port.shape[i].is_symbol()) symbols[port.shape[i].name()] = given->second.sizes[i];
    }
  }
  const bool watched = os::is_terminal(os::Standard::error);
  const auto line = [](const TuneProgress& so_far) {
    return fmt::format("Tuning: {} of {} kernels, {} schedules measured, {} kernels faster, {:.0f} of {:.0f} ms",
                       so_far.segment, so_far.segments, so_far.candidates, so_far.adopted, so_far.spent_ms,
                       so_far.budget_ms);
  };
  VKF_TRY(end, program.tune(budget_ms, symbols, [&](const TuneProgress& so_far) {
    if (watched) std::fprintf(stderr, "\r%s", line(so_far).c_str());
  }));
  if (watched) std::fprintf(stderr, "\n");
  std::printf("%s\n", line(end).c_str());
  return {};
}

}  // namespace

Result<int> run_model(const Common& common, const RunCommand& command) {
  VKF_TRY(given, read_inputs(command.inputs));
  VKF_TRY(how, model_options(common, given));
  say(fmt::format("Reading {}", command.model));
  auto loaded = load_model(os::to_path(command.model), how);
  if (!loaded && may_load_in_parts(os::to_path(command.model), how, loaded.error()))
    return run_in_parts(common, command, std::move(how), given);
  if (!loaded) return std::move(loaded).error();
  VKF_CHECK_OK(check_given(*loaded, given));
  VKF_TRY(inputs, inputs_for(loaded->graph, given, without_graph(*loaded)));
  const ir::Graph graph = std::move(loaded->graph);
  VKF_TRY(device, open_device(common));
  say("Compiling");
  VKF_TRY(program, compile_model(common, device, graph, command.plan));
  if (command.tune_ms > 0) VKF_CHECK_OK(tune_model(program, views(inputs), command.tune_ms));
  Outputs outputs;
  for (int i = 0; i < command.repeat; ++i) {
    VKF_TRY(made, program.run(views(inputs)));
    outputs = std::move(made);
  }
  std::printf("%s on %s: %d kernel%s\n", graph.name.c_str(), device.description().name.c_str(), program.kernel_count(),
              program.kernel_count() == 1 ? "" : "s");
  print_outputs(outputs, command.top);
  if (how.floats) {
    how.floats.reset();
    VKF_TRY(plain, load_model(os::to_path(command.model), how));
    VKF_TRY(plain_inputs, inputs_for(plain.graph, given, without_graph(plain)));
    VKF_TRY(plain_program, compile_model(common, device, plain.graph));
    VKF_TRY(wanted, plain_program.run(views(plain_inputs)));
    print_errors(outputs, wanted);
  }
  if (!command.output_dir.empty()) VKF_CHECK_OK(write_outputs(outputs, os::to_path(command.output_dir)));
  if (command.profile || !command.trace.empty())
    VKF_CHECK_OK(measure_times(command, device, program, graph.name, views(inputs)));
  return 0;
}

namespace {

/// Times of the program and of the same without fusion, on random inputs, with symbols as the plan shows them.
Result<MeasuredTimes> measured(const Common& common, const Device& device, const Executable& program,
                               const ir::Graph& graph) {
  VKF_TRY(inputs, random_inputs(graph, 0, schedule::representative_symbols(graph)));
  VKF_TRY(options, compile_options(common));
  options.planner = "bytes";
  options.memory_budget = 0;
  options.fusion = false;
  say("Compiling without fusion");
  VKF_TRY(unfused, api::compile_graph(device, graph, options));
  say("Measuring");
  MeasuredTimes times;
  VKF_TRY(fused_times, program.profile_host(views(inputs)));
  VKF_TRY(unfused_times, unfused.profile_host(views(inputs)));
  times.fused = std::move(fused_times);
  times.unfused = std::move(unfused_times);
  return times;
}

Result<std::string> plan_whole(const Common& common, const PlanCommand& command, const ir::Graph& graph) {
  VKF_TRY(device, open_device(common));
  VKF_TRY(program, compile_model(common, device, graph, command.plan));
  if (!command.save.empty()) {
    VKF_TRY(plan, program.save_plan());
    VKF_CHECK_OK(write_file(os::to_path(command.save), plan));
  }
  const Stage stage = command.format == "json" ? Stage::json : command.format == "html" ? Stage::html : Stage::plan;
  if (!command.profile) return program.explain(stage);
  VKF_TRY(times, measured(common, device, program, graph));
  return program.explain(stage, times);
}

}  // namespace

Result<int> show_plan(const Common& common, const PlanCommand& command) {
  VKF_TRY(given, read_inputs(command.inputs));
  VKF_TRY(how, model_options(common, given));
  auto model = load_model(os::to_path(command.model), how);
  const bool in_parts = !model && may_load_in_parts(os::to_path(command.model), how, model.error());
  if (!model && !in_parts) return std::move(model).error();
  if (model) VKF_CHECK_OK(check_given(*model, given));
  VKF_TRY(text, in_parts ? plan_in_parts(common, command, how) : plan_whole(common, command, model->graph));
  if (command.output.empty()) {
    std::fputs(text.c_str(), stdout);
  } else {
    VKF_CHECK_OK(write_file(os::to_path(command.output), text));
  }
  return 0;
}

Result<int> show_code(const Common& common, const CodeCommand& command) {
  VKF_TRY(given, read_inputs(command.inputs));
  VKF_TRY(how, model_options(common, given));
  VKF_TRY(model, load_model(os::to_path(command.model), how));
  VKF_CHECK_OK(check_given(model, given));
  VKF_TRY(device, open_device(common));
  VKF_TRY(program, compile_model(common, device, std::move(model.graph)));
  const int count = program.kernel_count();
  if (command.segment && (*command.segment < 0 || *command.segment >= count)) {
    return invalid("There is no segment {}: the plan has {}.", *command.segment, count);
  }
  const fs::path folder = os::to_path(command.output);
  if (!command.output.empty()) {
    std::error_code failed;
    fs::create_directories(folder, failed);
    if (failed)
      return make_error(ErrorCode::io, "The folder '{}' could not be made: {}.", command.output, failed.message());
  }
  for (int i = 0; i < count; ++i) {
    if (command.segment && *command.segment != i) continue;
    VKF_TRY(text, program.explain(command.stage, i));
    if (command.output.empty()) {
      std::printf("%s%s\n", i > 0 && !command.segment ? "\n" : "", text.c_str());
    } else {
      VKF_CHECK_OK(write_file(folder / os::to_path(fmt::format("segment{}.{}", i, command.extension)), text));
    }
  }
  return 0;
}

}  // namespace vkfuse::tool

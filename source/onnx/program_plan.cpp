// The plan of a program with steps of the host.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/program.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/onnx_program.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

// What a step is taken to cost besides the operator's own work: the host waits for the kernels and starts the next, and
// bytes cross at the pace of a PCIe 4.0 slot, or of memory where the device is the host's processor.
constexpr double kRoundTripUs = 40;
constexpr double kBytesPerUs = 12e3;

struct StepCost {
  std::uint64_t read = 0, written_at_most = 0;
  [[nodiscard]] double microseconds() const {
    return kRoundTripUs + static_cast<double>(read + written_at_most) / kBytesPerUs;
  }
};

Result<std::uint64_t> bytes_of(DType dtype, const Sizes& sizes) {
  VKF_TRY(bytes, byte_count(dtype, sizes));
  return static_cast<std::uint64_t>(bytes);
}

/// Whether values that the host reads after a part decide what follows.
bool decides(const ProgramPart& part) {
  return std::ranges::any_of(part.import.part().steps, [](const PlacedStep& placed) { return placed.step.reads; });
}

Result<StepCost> cost_of(const HostStep& step) {
  StepCost cost;
  for (const std::optional<Value>& operand : step.operands) {
    if (!operand || operand->known) continue;
    VKF_TRY(sizes, resolve(operand->tensor.shape(), {}));
    VKF_TRY(bytes, bytes_of(operand->tensor.dtype(), sizes));
    cost.read += bytes;
  }
  VKF_TRY(results, largest_results(step));
  for (const auto& [dtype, sizes] : results) {
    VKF_TRY(bytes, bytes_of(dtype, sizes));
    cost.written_at_most += bytes;
  }
  return cost;
}

std::string operand_text(const HostStep& step) {
  std::string text;
  for (const std::optional<Value>& operand : step.operands) {
    if (!operand || operand->known) continue;
    text +=
        (text.empty() ? "" : ", ") + std::string(name_of(operand->tensor.dtype())) + to_text(operand->tensor.shape());
  }
  return text;
}

Result<std::string> plan_of(const OnnxProgram& program, ProgramPart& part, Stage stage) {
  if (!part.program) {
    VKF_TRY(compiled, api::compile_graph(program.state()->device, *part.graph, program.state()->compile_options));
    part.program = std::move(compiled);
  }
  return part.program->explain(stage);
}

using Parts = std::vector<std::shared_ptr<ProgramPart>>;

Result<std::string> text_of(const OnnxProgram& program, const Parts& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += fmt::format("part {}{}\n\n", i, i > 0 ? ", for the most that the host can make" : "");
    if (parts[i]->graph) {
      VKF_TRY(plan, plan_of(program, *parts[i], Stage::plan));
      text += plan;
    } else {
      text += "  no kernel\n";
    }
    for (const PlacedStep& placed : parts[i]->import.part().steps) {
      VKF_TRY(cost, cost_of(placed.step));
      VKF_TRY(results, largest_results(placed.step));
      std::string made;
      for (const auto& [dtype, sizes] : results)
        made += fmt::format("{}{}[{}]", made.empty() ? "" : ", ", name_of(dtype), fmt::join(sizes, ", "));
      text += fmt::format(
          "\nhost {} ({}): reads {}, makes at most {}; {} bytes read back, {} written at most, {:.1f} us without its "
          "own work\n",
          placed.step.row->name, placed.step.label, operand_text(placed.step), made, cost.read, cost.written_at_most,
          cost.microseconds());
      if (placed.step.recurrence) text += fmt::format("  kernels in rounds: {}\n", placed.step.recurrence->text());
    }
    if (i + 1 < parts.size()) text += "\n";
  }
  if (decides(*parts.back())) text += "\nWhat follows is planned in a run: the values that the host reads decide it.\n";
  return text;
}

Result<std::string> json_of(const OnnxProgram& program, const Parts& parts) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& part : parts) {
    nlohmann::ordered_json one;
    one["kind"] = "kernels";
    one["plan"] = nullptr;
    if (part->graph) {
      VKF_TRY(plan, plan_of(program, *part, Stage::json));
      one["plan"] = nlohmann::ordered_json::parse(plan);
    }
    all.push_back(std::move(one));
    for (const PlacedStep& placed : part->import.part().steps) {
      VKF_TRY(cost, cost_of(placed.step));
      all.push_back({{"kind", "host"},
                     {"op", placed.step.row->name},
                     {"node", placed.step.label},
                     {"bytes_read", cost.read},
                     {"bytes_written_at_most", cost.written_at_most},
                     {"modelled_us", cost.microseconds()}});
    }
  }
  return nlohmann::ordered_json{{"parts", std::move(all)}}.dump(2, ' ', false,
                                                                nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace

Result<Parts> largest_parts(const OnnxProgram& program, const std::map<std::string, Sizes, std::less<>>& sizes) {
  const OnnxProgram::State& state = *program.state();
  Parts parts;
  GivenInputs given = state.given;
  for (const auto& [name, of_input] : sizes) given.set_sizes(name, of_input);
  VKF_TRY(first, first_part(state, state.whole && sizes.empty() ? GivenInputs() : given));
  parts.push_back(std::move(first));
  while (!parts.back()->import.is_finished() && !decides(*parts.back())) {
    std::vector<StepResults> results;
    for (const PlacedStep& placed : parts.back()->import.part().steps) {
      VKF_TRY(types, largest_results(placed.step));
      results.push_back({std::move(types), {}});
    }
    VKF_TRY(next, next_part(state, *parts.back(), results));
    parts.push_back(std::move(next));
  }
  return parts;
}

Result<std::string> explain_program(const OnnxProgram& program, Stage stage,
                                    const std::map<std::string, Sizes, std::less<>>& sizes) {
  if (stage != Stage::plan && stage != Stage::json)
    return unsupported("Of a program in parts there are plans as text and as JSON.");
  for (const Port& port : program.state()->inputs) {
    const bool has_symbols = std::ranges::any_of(port.shape, &Dim::is_symbol);
    if (has_symbols && !program.state()->whole && !sizes.contains(port.name) &&
        !program.state()->given.sizes().contains(port.name)) {
      return invalid("The plan depends on the sizes of input {}, which is {}{}.", in_quotes(port.name),
                     name_of(port.dtype), to_text(port.shape));
    }
  }
  VKF_TRY(parts, largest_parts(program, sizes));
  return stage == Stage::plan ? text_of(program, parts) : json_of(program, parts);
}

}  // namespace vkfuse::onnx

// Writes what the planner and the printer make of many graphs on fabricated targets: plans, launches and SPIR-V. Two
// such folders, of two versions of the sources, are compared by scripts/compare-kernels.py: a restructuring changes
// nothing.
//
//   vkfuse-kernels FOLDER PART...     PART: goldens, rows (of the benchmark), random=COUNT, or a .vkf or .onnx file
//                                     device=FILE: the parts after it are for that device alone, as
//                                     vkfuse-describe (tests/baseline/describe.cpp) tells of it
//                                     budget=BYTES: their plans have this memory budget, and what these take is told
//
// FOLDER/kernels.jsonl has a line for each graph and target; FOLDER/spirv/HASH.spv are the modules that the lines name.
// Where the linked shaderc is older than what a kernel uses, and of devices from files always, HASH.glsl is its text.
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "api/tensor_node.hpp"
#include "golden/targets.hpp"
#include "kernel/kernel.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "rows.hpp"
#include "runtime/feature_tiers.hpp"
#include "schedule/access.hpp"
#include "spirv/compile.hpp"
#include "support/cases.hpp"
#include "support/described_device.hpp"
#include "support/device.hpp"
#include "support/folder.hpp"
#include "support/hidden_names.hpp"
#include "templates/lowering.hpp"
#include "tool/model.hpp"

namespace vkfuse::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct NamedTarget {
  std::string name;
  Target target;
};

std::vector<NamedTarget> fabricated_targets() {
  return {{"gpu", discrete_gpu()},
          {"matrices", discrete_gpu_with_measured_costs()},
          {"workgroup-matrices", discrete_gpu_with_whole_tiles()},
          {"mali", mali()},
          {"minimum", minimum_device()},
          {"cpu", cpu_driver()}};
}

/// The device as programs get it if it passes every self-test.
Target target_of(const vulkan::DeviceInfo& info) {
  Target target;
  target.name = info.name;
  target.type = info.type;
  target.caps = info.caps;
  target.model = model_of(info.identity());
  target.workarounds = workarounds_of(info.identity());
  target.tiers = runtime::offered_tiers(info.caps);
  target.caps.matrix.lane_fragments = lane_fragments_of(info.caps);
  target.caps.matrix.sub_byte = matrix_of(info.caps, DType::f16, DType::f32);
  target.caps.matrix.shapes.clear();
  for (const MatrixKind& kind : kMatrixKinds) {
    const auto shape = matrix_of(info.caps, kind.operands, kind.sums);
    if (shape && (kind.operands != DType::bf16 || info.caps.matrix.bf16)) target.caps.matrix.shapes.push_back(*shape);
  }
  if (info.caps.matrix2.may_multiply_tiles())
    target.caps.matrix2.tiles.assign(std::begin(kWorkgroupTiles), std::end(kWorkgroupTiles));
  return target;
}

/// FNV-1a: the same on every machine.
std::string hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return fmt::format("{:016x}", hash);
}

class Writer {
 public:
  explicit Writer(fs::path folder) : folder_(std::move(folder)) {
    fs::create_directories(folder_ / "spirv");
    lines_.open(folder_ / "kernels.jsonl");
  }

  /// What is written from now on is for this device alone.
  void take_device(NamedTarget device) {
    targets_ = {std::move(device)};
    with_text_ = true;
  }
  [[nodiscard]] const std::vector<NamedTarget>& targets() const { return targets_; }

  void take_budget(std::int64_t bytes) { planning_.memory_budget = bytes; }

  void write(const std::string& name, const ir::Graph& graph) {
    for (const NamedTarget& target : targets_) write_on(name, graph, target);
  }
  void write_on(const std::string& name, const ir::Graph& graph, const NamedTarget& target) {
    ordered_json line{{"graph", name}, {"target", target.name}};
    auto steps = steps_of(graph, target.target);
    if (steps) {
      line["steps"] = *std::move(steps);
    } else {
      line["refused"] = steps.error().message;
    }
    lines_ << line.dump() << "\n";
    ++written_;
  }

  /// Whether every line could be written; says how many there are.
  bool end() {
    lines_.close();
    std::printf("%d graphs on targets, %zu different kernels\n", written_, modules_.size());
    return !lines_.fail();
  }

 private:
  Result<ordered_json> steps_of(const ir::Graph& graph, const Target& target) {
    VKF_TRY(prepared, passes::run_pipeline(graph));
    VKF_TRY(plan, plan::make_plan(prepared, target, planning_));
    const SymbolValues symbols = schedule::representative_symbols(prepared);
    VKF_TRY(scheduled, plan::schedule_all(plan, symbols));
    if (plan.budget) VKF_CHECK_OK(tell_budget(plan, symbols, scheduled));
    ordered_json steps = ordered_json::array();
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      const segment::Segment& segment = plan.steps[i].segment;
      const schedule::Schedule& schedule = scheduled[i].schedule;
      lowering::LoweringOptions options;
      options.hoist_sizes = !symbols.empty();  // as the runtime does
      options.name = "kernel";
      ordered_json step{{"members", segment.members}, {"reads", segment.reads}, {"stores", segment.stores}};
      step["bytes"] = {schedule.cost.bytes_read, schedule.cost.bytes_written, schedule.cost.bytes_read_again};
      step["modelled_us"] = schedule.cost.modelled_us;
      step["scratch_bytes"] = schedule.scratch_bytes;
      step["counter_bytes"] = schedule.counter_bytes;
      step["shared_bytes"] = schedule.shared_bytes;
      if (with_text_) {
        step["kind"] = schedule::name_of(schedule.kind());
        step["registers"] = schedule.cost.registers;
        step["whole_vectors"] = whole_vectors_of(scheduled[i]);
      }
      if (scheduled[i].pieces.empty()) {
        VKF_TRY(kernels, lowering::lower({plan.graph, segment, scheduled[i].loops, schedule, plan.target, options}));
        VKF_TRY(dispatches, dispatches_of(kernels));
        step["dispatches"] = std::move(dispatches);
      } else {
        step["pieces"] = scheduled[i].pieces.size();
      }
      steps.push_back(std::move(step));
    }
    return steps;
  }

  static Result<void> tell_budget(const plan::Plan& plan, const SymbolValues& symbols,
                                  const std::vector<plan::ScheduledKernel>& scheduled) {
    VKF_TRY(memory, plan::plan_memory(plan, symbols, scheduled));
    double modelled_us = 0;
    for (const plan::ScheduledKernel& step : scheduled) modelled_us += step.alias ? 0 : step.schedule.cost.modelled_us;
    std::printf("%s: %lld bytes in %.1f us; without a budget %lld in %.1f\n", plan.graph.name.c_str(),
                static_cast<long long>(memory.arena_bytes), modelled_us,
                static_cast<long long>(plan.budget->arena_bytes_without), plan.budget->microseconds_without);
    return {};
  }

  /// How many of the loads and of the stores are planned as accesses of 16 bytes.
  static std::array<int, 2> whole_vectors_of(const plan::ScheduledKernel& scheduled) {
    const auto whole = [](const schedule::AccessPlan& access) {
      return access.kind == schedule::AccessKind::vector && access.vector_bytes == kBindingGranule ? 1 : 0;
    };
    std::array<int, 2> count{};
    for (std::size_t i = 0; i < scheduled.loops.values.size(); ++i) {
      if (scheduled.loops.values[i].kind == segment::Value::Kind::load) count[0] += whole(scheduled.schedule.loads[i]);
    }
    for (const schedule::AccessPlan& store : scheduled.schedule.stores) count[1] += whole(store);
    return count;
  }

  Result<ordered_json> dispatches_of(const std::vector<lowering::Kernel>& kernels) {
    ordered_json all = ordered_json::array();
    for (const lowering::Kernel& kernel : kernels) {
      ordered_json bindings = ordered_json::array();
      for (const lowering::Binding& binding : kernel.bindings) {
        bindings.push_back({binding.value, binding.store, binding.scratch, binding.counts, binding.half.value_or(-1),
                            binding.offset, binding.bytes});
      }
      VKF_TRY(module, module_of(kernel));
      all.push_back({{"spirv", module},
                     {"bindings", std::move(bindings)},
                     {"constants", kernel.constants},
                     {"workgroup", kernel.workgroup},
                     {"subgroup", kernel.subgroup},
                     {"groups", {kernel.groups_x, kernel.groups_y}}});
    }
    return all;
  }

  /// The name of a kernel's module, which is written if no kernel had its text before. An older shaderc than a kernel's
  /// extensions asks for leaves the text in its place.
  Result<std::string> module_of(const lowering::Kernel& kernel) {
    const std::string hash = hash_of(kernel.glsl);
    if (!modules_.insert(hash).second) return hash;
    if (const std::vector<std::string> hidden = hidden_names(kernel.glsl); !hidden.empty()) {
      return make_error(ErrorCode::internal, "The kernel '{}' declares '{}' where another '{}' is visible.",
                        kernel.name, hidden[0], hidden[0]);
    }
    auto spirv = spirv::compile_glsl(kernel.glsl, kernel.name);
    if (spirv) {
      const std::size_t bytes = spirv->size() * sizeof(std::uint32_t);
      VKF_CHECK_OK(write_file(hash + ".spv", {reinterpret_cast<const char*>(spirv->data()), bytes}));
    }
    if (!spirv || with_text_) VKF_CHECK_OK(write_file(hash + ".glsl", kernel.glsl));
    return hash;
  }

  [[nodiscard]] Result<void> write_file(const std::string& name, std::string_view bytes) const {
    const fs::path path = folder_ / "spirv" / name;
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (file.fail()) return make_error(ErrorCode::io, "'{}' cannot be written.", path.string());
    return {};
  }

  fs::path folder_;
  std::vector<NamedTarget> targets_ = fabricated_targets();
  bool with_text_ = false;
  partition::Options planning_;
  std::ofstream lines_;
  std::set<std::string> modules_;
  int written_ = 0;
};

void write_goldens(Writer& writer) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(tests_folder() / "golden")) {
    if (entry.path().extension() == ".vkf") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) writer.write("golden " + path.stem().string(), must(tool::load_model(path)).graph);
}

void write_rows(Writer& writer) {
  for (const bench::Row& row : bench::rows()) {
    const bench::Built built = row.build(row.dtype, Shape(row.full.begin(), row.full.end()));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < built.outputs.size(); ++i) names.push_back(fmt::format("y{}", i));
    writer.write("row " + row.name + " " + std::string(name_of(row.dtype)),
                 must(api::to_graph(built.outputs, names, "row")));
  }
}

/// Random graphs, each on one target of the six or on the device; every fourth has repeated layers.
void write_random(Writer& writer, std::uint64_t count) {
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const NamedTarget& target = writer.targets()[seed % writer.targets().size()];
    CaseOptions options;
    options.caps = target.target.caps;
    options.every_class = seed % 3 != 0;
    Case one = random_case(seed, options);
    if (seed % 4 == 0) one = repeated(std::move(one));
    writer.write_on(fmt::format("random {}", seed), one.graph, target);
  }
}

Result<void> write_part(Writer& writer, const std::string& part) {
  constexpr std::string_view kRandom = "random=", kDevice = "device=", kBudget = "budget=";
  if (part.starts_with(kDevice)) {
    const fs::path path = part.substr(kDevice.size());
    VKF_TRY(text, tool::read_text(path));
    VKF_TRY(info, parse_device(text));
    writer.take_device({path.stem().string(), target_of(info)});
  } else if (part.starts_with(kBudget)) {
    std::int64_t bytes = 0;
    const char* const end = part.data() + part.size();
    if (std::from_chars(part.data() + kBudget.size(), end, bytes).ptr != end || bytes < 1)
      return invalid("'{}' has no number of bytes.", part);
    writer.take_budget(bytes);
  } else if (part == "goldens") {
    write_goldens(writer);
  } else if (part == "rows") {
    write_rows(writer);
  } else if (part.starts_with(kRandom)) {
    std::uint64_t count = 0;
    const char* const end = part.data() + part.size();
    if (std::from_chars(part.data() + kRandom.size(), end, count).ptr != end)
      return invalid("'{}' has no number of random graphs.", part);
    write_random(writer, count);
  } else {
    VKF_TRY(model, tool::load_model(part));
    writer.write("model " + fs::path(part).stem().string(), model.graph);
  }
  return {};
}

}  // namespace
}  // namespace vkfuse::test

int main(int argc, char** argv) {
  using namespace vkfuse::test;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 2) {
    std::fprintf(
        stderr,
        "usage: vkfuse-kernels FOLDER PART...\nPART: goldens, rows, random=COUNT, device=FILE, budget=BYTES, or a .vkf "
        "or .onnx file\n");
    return 2;
  }
  Writer writer(words[0]);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto written = write_part(writer, words[i]);
    if (!written) {
      std::fprintf(stderr, "%s\n", written.error().text().c_str());
      return 2;
    }
  }
  return writer.end() ? 0 : 1;
}

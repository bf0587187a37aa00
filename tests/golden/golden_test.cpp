// Graphs, and the kernels and plans they become on fabricated devices. VKFUSE_UPDATE_GOLDEN=1 writes
// what is expected instead of comparing; read the difference before you commit it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "golden/row_targets.hpp"
#include "kernel/kernel.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "schedule/access.hpp"
#include "schedule/operands.hpp"
#include "schedule/traffic.hpp"
#include "spirv/compile.hpp"
#include "spirv/probe.hpp"
#include "spirv/reflect.hpp"
#include "spirv/tools.hpp"
#include "spirv/walk.hpp"
#include "support/device.hpp"
#include "support/folder.hpp"
#include "support/hidden_names.hpp"
#include "templates/lowering.hpp"
#include "templates/matmul/tiles.hpp"
#include "templates/stencil/geometry.hpp"

namespace vkfuse::test {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = tests_folder() / "golden";

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void expect_same(const fs::path& path, const std::string& got) {
  if (std::getenv("VKFUSE_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << got;
    return;
  }
  EXPECT_EQ(read(path), got) << "differs from " << path << "; VKFUSE_UPDATE_GOLDEN=1 vkfuse-test-golden rewrites it";
}

struct Golden {
  const char* graph;
  const char* device;
  Target (*target)();
  int dispatches;
  friend std::ostream& operator<<(std::ostream& out, const Golden& golden) {
    return out << golden.graph << " on " << golden.device;
  }
};

Target gpu() { return discrete_gpu(); }
/// Whose workgroups do not see what others of their dispatch have stored.
Target hiding_stores() {
  Target target = discrete_gpu();
  target.workarounds.hides_stores = true;
  return target;
}
Target xe() { return target_of(row_device("Intel Xe-LP")); }
Target v3d() { return target_of(row_device("V3D 4")); }

// The graph is tests/golden/GRAPH.vkf; beside it lie GRAPH.DEVICE.glsl and GRAPH.DEVICE.json.
const Golden kGoldens[] = {
    {"textbook", "gpu", gpu, 1},
    {"textbook", "minimum", minimum_device, 1},
    {"bias_gelu", "gpu", gpu, 1},
    {"bias_gelu", "cpu", cpu_driver, 1},
    {"unaligned", "cpu", cpu_driver, 1},
    {"three_outputs", "gpu", gpu, 1},
    {"masks", "minimum", minimum_device, 1},
    {"float8_weights", "gpu", gpu, 1},
    {"float8_weights", "minimum", minimum_device, 1},
    {"wide_integers", "cpu", cpu_driver, 1},
    {"many_inputs", "minimum", minimum_device, 2},
    {"ranks", "gpu", gpu, 1},
    {"softmax", "gpu", gpu, 1},
    {"softmax", "minimum", minimum_device, 1},
    {"softmax_first", "gpu", gpu, 1},
    {"layer_norm", "gpu", gpu, 1},
    {"rms_norm", "gpu", gpu, 1},
    {"views", "cpu", cpu_driver, 1},
    {"concat", "gpu", gpu, 1},
    {"pad", "cpu", cpu_driver, 1},
    {"sum_of_all", "gpu", gpu, 1},
    {"transpose", "gpu", gpu, 1},
    {"depthwise", "gpu", gpu, 1},
    {"depthwise_channels_last", "measured", discrete_gpu_with_measured_costs, 1},
    {"depthwise", "minimum", minimum_device, 1},
    {"depthwise", "mali", mali, 1},
    {"depthwise", "v3d", v3d, 1},
    {"matmul_bytes", "dots", discrete_gpu_with_dots, 1},
    {"int4_vector", "gpu", gpu, 1},
    {"matmul_bias_silu", "gpu", gpu, 1},
    {"matmul_bias_silu", "minimum", minimum_device, 1},
    {"matmul_in_parts", "gpu", gpu, 2},
    {"attention_causal", "gpu", gpu, 1},
    {"attention_causal", "minimum", minimum_device, 1},
    {"cached_attention", "measured", discrete_gpu_with_measured_costs, 1},
    {"cached_attention_shared", "gpu", gpu, 1},
    {"cached_attention_shared", "hiding", hiding_stores, 2},
    {"attention_exported", "gpu", gpu, 1},
    {"attention_heads", "gpu", gpu, 1},
    {"attention_sums", "gpu", gpu, 1},
    {"attention_gradient", "gpu", gpu, 1},
    // Lanes of few registers; of the kernels whose tiles spill there (scripts/portability.sh).
    {"matmul_bytes", "mali", mali, 1},
    {"matmul_bias_silu", "mali", mali, 1},
    {"matmul_in_parts", "mali", mali, 1},
    {"attention_causal", "mali", mali, 1},
    {"softmax_first", "mali", mali, 1},
    {"softmax_first", "adreno", adreno, 1},
    {"layer_norm", "mali", mali, 1},
    {"rms_norm", "mali", mali, 1},
    {"attention_bias", "mali", mali, 3},
    // Lanes that share the registers of a hardware thread, and a fourth of a GPU's registers.
    {"layer_norm", "xe", xe, 1},
    {"rms_norm", "xe", xe, 1},
    {"softmax", "xe", xe, 1},
    {"softmax_first", "xe", xe, 1},
    {"matmul_bias_silu", "xe", xe, 1},
    {"attention_causal", "xe", xe, 1},
    {"bias_gelu", "v3d", v3d, 1},
    {"layer_norm", "v3d", v3d, 1},
    {"softmax", "v3d", v3d, 1},
    {"matmul_bias_silu", "v3d", v3d, 1},
    {"attention_causal", "v3d", v3d, 3},
};

struct Planned {
  plan::Plan plan;
  plan::Plan unfused;
  SymbolValues symbols;
  std::vector<plan::ScheduledKernel> steps;
  std::vector<std::vector<lowering::Kernel>> kernels;  ///< of each step, one per dispatch

  [[nodiscard]] const schedule::Schedule& schedule(std::size_t step = 0) const { return steps.at(step).schedule; }
};

std::vector<lowering::Kernel> emitted(const Planned& made, std::size_t step, lowering::Numerics numerics) {
  lowering::LoweringOptions options;
  options.numerics = numerics;
  options.hoist_sizes = !made.symbols.empty();  // as the runtime does
  options.name = fmt::format("segment {}", step);
  return must(lowering::lower({made.plan.graph, made.plan.steps[step].segment, made.steps[step].loops,
                               made.steps[step].schedule, made.plan.target, options}));
}

Planned planned(const ir::Graph& graph, const Target& target, const schedule::Tuning& tuning = {}) {
  Planned made;
  const ir::Graph prepared = must(passes::run_pipeline(graph));
  made.plan = must(plan::make_plan(prepared, target));
  made.unfused = must(plan::make_plan(prepared, target, {false}));
  made.symbols = schedule::representative_symbols(prepared);
  made.steps = must(plan::schedule_all(made.plan, made.symbols, tuning));
  for (std::size_t i = 0; i < made.plan.steps.size(); ++i)
    made.kernels.push_back(emitted(made, i, lowering::Numerics::standard));
  return made;
}

/// The fields of the plan that do not come from the cost model.
std::string essentials(const Planned& made) {
  auto json = nlohmann::ordered_json::parse(must(plan::to_json(made.plan, made.unfused, made.symbols, {})));
  for (const char* field : {"modelled_us_fused", "modelled_us_unfused", "constants"}) json.erase(field);
  for (auto& segment : json["segments"]) {
    segment.erase("modelled_us");
    segment.erase("modelled_registers");
  }
  return json.dump(2) + "\n";
}

class Goldens : public testing::TestWithParam<Golden> {
 protected:
  Goldens()
      : made(planned(must(ir::parse(read(kFolder / (std::string(GetParam().graph) + ".vkf")))), GetParam().target(),
                     tuning())) {}
  /// Whole tiles have to be asked for: by default a product has to be larger than what tests run.
  static schedule::Tuning tuning() {
    schedule::Tuning tuning;
    if (std::string_view(GetParam().device) == "whole") {
      tuning.matmul = tuning.cooperative_matrix = true;
      tuning.matrix_scope = schedule::MatrixScope::workgroup;
      tuning.tile = schedule::shape_of(kWorkgroupTiles[0]);
    }
    return tuning;
  }
  Planned made;
};

TEST_P(Goldens, PlanAndText) {
  const std::string base = std::string(GetParam().graph) + "." + GetParam().device;
  std::string text;
  int dispatches = 0;
  for (const std::vector<lowering::Kernel>& step : made.kernels) {
    for (const lowering::Kernel& kernel : step) {
      text += (dispatches++ == 0 ? "" : "\n") + kernel.glsl;
      EXPECT_EQ(hidden_names(kernel.glsl), std::vector<std::string>()) << kernel.glsl;
    }
  }
  expect_same(kFolder / (base + ".glsl"), text);
  expect_same(kFolder / (base + ".json"), essentials(made));
  EXPECT_EQ(dispatches, GetParam().dispatches);
}

/// Instructions of the text that touch memory, by binding, kind and width.
using Traffic = std::map<std::tuple<std::size_t, spirv::AccessKind, int>, int>;

/// The factor of a matrix product that a load is part of.
const schedule::TileOperand* factor_of(const segment::Loops& loops, const schedule::Schedule& schedule,
                                       std::size_t value) {
  const auto* params = schedule.get_if<schedule::MatmulParams>();
  if (params == nullptr) return nullptr;
  for (const schedule::TileOperand& tile_operand : params->tile_operands) {
    const std::vector<segment::ValueId> backward_slice =
        schedule::backward_slice_of_operand(loops, *params, tile_operand);
    if (std::find(backward_slice.begin(), backward_slice.end(), value) != backward_slice.end()) return &tile_operand;
  }
  return nullptr;
}

/// Whether a load is part of what an attention of threads fetches for the first slice, and in its loop for the next.
bool is_fetched_in_slices(const segment::Loops& loops, const schedule::AttentionParams& params, std::size_t value) {
  if (params.simt() == nullptr || params.simt()->slice == 0) return false;
  std::vector<segment::ValueId> operands;
  if (params.tile_k() > params.staged_k()) {
    for (const schedule::WeightedSum& sum : params.sums) operands.push_back(sum.value.value);
  }
  for (const schedule::ScoreProduct& product : params.products) {
    operands.push_back(product.key.value);
    const bool in_slices = params.staged_d(loops, product) < params.extent_d(loops, product);
    if (in_slices || params.products.size() > 1) operands.push_back(product.query.value);
  }
  return std::any_of(operands.begin(), operands.end(), [&](segment::ValueId operand) {
    const std::vector<segment::ValueId> backward_slice = schedule::backward_slice_of(loops, operand);
    return std::find(backward_slice.begin(), backward_slice.end(), value) != backward_slice.end();
  });
}

/// How often subgroups that walk by themselves mention a load: for each part that it is of, and for what bounds the
/// walk. Keys are loaded before the walk, and in it for the next block.
int mentions_by_subgroups(const segment::Loops& loops, const schedule::AttentionParams& params, std::size_t value) {
  int mentions = 0;
  const auto count = [&](segment::ValueId of, std::span<const segment::ValueId> stops, int times) {
    const std::vector<segment::ValueId> slice = schedule::backward_slice_of(loops, of, stops);
    if (std::find(slice.begin(), slice.end(), value) != slice.end()) mentions += times;
  };
  const segment::ValueId contracted[] = {params.products[0].sum};
  count(params.products[0].query.value, {}, 1);
  count(params.products[0].key.value, {}, 2);
  count(params.sums[0].value.value, {}, 1);
  count(params.values.score, contracted, 1);
  for (const schedule::MaskBound& bound : params.mask.upper) {
    for (const schedule::MaskLine& line : bound) {
      if (line.data) count(*line.data, {}, 1);
    }
  }
  return mentions;
}

/// How often the text of a kernel mentions a load: once, or once for each pass over the columns that needs
/// the value, unless it stays in registers. Vectors of a factor are loaded before the walk along the sum, and in it
/// for the next step, unless lanes of few registers turn them.
int mentions_of(const segment::Loops& loops, const schedule::Schedule& schedule, const Target& target,
                std::size_t value) {
  const schedule::TileOperand* tile_operand = factor_of(loops, schedule, value);
  const bool turned = tile_operand != nullptr && schedule.as<schedule::MatmulParams>().integer_dot() &&
                      !tile_operand->along_k && schedule::has_few_registers(target);
  const bool prefetched =
      schedule.loads[value].kind == schedule::AccessKind::vector && tile_operand != nullptr && !turned;
  if (schedule.kind() == schedule::Template::matmul) return prefetched ? 2 : 1;
  if (const auto* params = schedule.get_if<schedule::AttentionParams>(); params != nullptr && params->by_subgroups())
    return mentions_by_subgroups(loops, *params, value);
  if (const auto* params = schedule.get_if<schedule::AttentionParams>())
    return is_fetched_in_slices(loops, *params, value) ? 2 : 1;
  if (schedule.kind() != schedule::Template::reduction || !loops.per_element(loops.values[value])) return 1;
  int passes = 0;
  for (int pass = 0; pass < loops.passes; ++pass) passes += segment::needed_in_pass(loops, pass)[value] ? 1 : 0;
  return schedule.as<schedule::ReductionParams>().persistent &&
                 schedule.loads[value].kind == schedule::AccessKind::vector
             ? 1
             : passes;
}

/// Of a line of a window: the vectors that it lies in, wherever in the first one it begins.
std::optional<int> loads_of_stencil(const segment::Loops& loops, const schedule::StencilParams& params,
                                    const schedule::AccessPlan& plan, std::size_t value) {
  if (params.roles[value] != schedule::StencilRole::window || plan.kind != schedule::AccessKind::vector ||
      !params.along_window)
    return std::nullopt;
  const schedule::StencilBlocks blocks(loops, params);
  const int elements = plan.vector_bytes / 2;  // the graph's are of 16 bits
  const auto vectors = blocks.row_vectors(blocks.loops().values[value], elements);
  const std::int64_t row = blocks.window_extent(params.windows.size() - 1);
  return static_cast<int>(schedule::ceil_div(vectors.value().phase + row, elements));
}

/// How often the text has what is done for a line: for each of those that are written out, else once.
int lines_of_text(const std::string& glsl) {
  constexpr std::string_view kLine = "const uint line = ";
  int lines = 0;
  for (std::size_t at = glsl.find(kLine); at != std::string::npos; at = glsl.find(kLine, at + 1)) ++lines;
  return std::max(1, lines);
}

/// What a kernel that is a dispatch of its own may do to memory: every vector of an item once.
Traffic expected_traffic(const Planned& made, const Target& target, std::size_t step, const lowering::Kernel& kernel) {
  const auto& [planned_loops, schedule, alias, pieces] = made.steps[step];
  const segment::Loops loops = schedule::scheduled_loops(made.plan.graph, planned_loops, schedule);
  const auto size = [&](ir::NodeId id) { return size_of(made.plan.graph.node(id).type.dtype); };
  const auto vectors = [](int elements, int bytes, int vector_bytes) {
    return std::max(1, elements * bytes / vector_bytes);
  };
  const auto binding = [&](ir::NodeId id, bool store) {
    const auto found = std::find_if(kernel.bindings.begin(), kernel.bindings.end(), [&](const lowering::Binding& b) {
      return !b.scratch && b.value == id && b.store == store;
    });
    return static_cast<std::size_t>(found - kernel.bindings.begin());
  };
  Traffic traffic;
  for (std::size_t i = 0; i < loops.values.size(); ++i) {
    const segment::Value& value = loops.values[i];
    if (value.kind != segment::Value::Kind::load) continue;
    const schedule::AccessPlan& plan = schedule.loads[i];
    const schedule::TileOperand* tile_operand = factor_of(loops, schedule, i);
    // An element of memory may be several of the item.
    const int elements = (tile_operand != nullptr ? tile_operand->elements : schedule.chunk_size) / plan.repeat;
    // What attention's scores are computed from is loaded score by score, or as one vector of neighbours.
    const bool of_scores = schedule.kind() == schedule::Template::attention && tile_operand == nullptr;
    int count = plan.kind == schedule::AccessKind::vector && !of_scores
                    ? vectors(elements, size(value.node), plan.vector_bytes)
                    : 1;
    if (const auto* params = schedule.get_if<schedule::TransposeParams>()) {
      for (const schedule::TransposedLoad& load : params->loads) count = load.value == i ? load.packed : count;
    }
    if (const auto* params = schedule.get_if<schedule::StencilParams>())
      count = loads_of_stencil(planned_loops, *params, plan, i).value_or(count) *
              (params->roles[i] == schedule::StencilRole::window ? lines_of_text(kernel.glsl) : 1);
    traffic[{binding(value.node, false), spirv::AccessKind::load, plan.vector_bytes}] +=
        count * mentions_of(loops, schedule, target, i);
  }
  for (std::size_t i = 0; i < loops.stores.size(); ++i) {
    const segment::Store& store = loops.stores[i];
    const schedule::AccessPlan& plan = schedule.stores[i];
    const std::size_t at = binding(store.node, true);
    const int count = plan.kind == schedule::AccessKind::vector
                          ? vectors(schedule.chunk_size, size(store.node), plan.vector_bytes)
                          : 1;
    if (plan.kind != schedule::AccessKind::vector && size(store.node) < 4) {
      if (schedule::stores_sub32(made.plan.graph, loops, target, schedule, store.node)) {
        ++traffic[{at, spirv::AccessKind::store, size(store.node)}];
        continue;
      }
      traffic[{at, spirv::AccessKind::atomic, 4}] += 2;  // neighbours in the word belong to others: and, or
      continue;
    }
    traffic[{at, spirv::AccessKind::store, plan.vector_bytes}] += count;
    // The tail stores the words of a shorter last item one by one.
    const bool ragged =
        !schedule.full_chunks && plan.kind == schedule::AccessKind::vector && !(plan.vector_bytes == 4 && count == 1);
    if (ragged) traffic[{at, spirv::AccessKind::store, 4}] += count;
  }
  return traffic;
}

TEST_P(Goldens, OneLoadPerInputVectorOneStorePerOutputVector) {
  // A loop that is written out mentions its accesses in every turn: the same kernels are counted with loops.
  Target target = GetParam().target();
  const bool written_out = !std::exchange(target.caps.registers.arrays, true);
  const Planned counted = written_out ? planned(made.plan.graph, target) : made;
  for (std::size_t i = 0; i < counted.kernels.size(); ++i) {
    if (counted.kernels[i].size() > 1) continue;  // partial results between dispatches: compared with running them
    const lowering::Kernel& kernel = counted.kernels[i].front();
    const spirv::Module words = must(spirv::compile_glsl(kernel.glsl, kernel.name));
    Traffic found;
    for (const spirv::MemoryAccess& access : must(spirv::memory_accesses(words))) {
      if (kernel.bindings[access.binding].scratch) continue;  // partial results: likewise
      ++found[{access.binding, access.kind, static_cast<int>(access.bytes)}];
    }
    for (const auto& [access, count] : expected_traffic(counted, target, i, kernel)) {
      const auto& [binding, kind, bytes] = access;
      EXPECT_EQ(found[access], count) << "accesses of " << bytes << " bytes, kind " << static_cast<int>(kind)
                                      << ", on binding " << binding << " of\n"
                                      << kernel.glsl;
      found.erase(access);
    }
    EXPECT_TRUE(found.empty()) << "something else touches memory in\n" << kernel.glsl;
  }
}

TEST_P(Goldens, KernelsAreValidInBothNumerics) {
  for (std::size_t i = 0; i < made.kernels.size(); ++i) {
    for (const lowering::Numerics numerics : {lowering::Numerics::standard, lowering::Numerics::strict}) {
      for (const lowering::Kernel& kernel : emitted(made, i, numerics))
        must(spirv::validate(must(spirv::compile_glsl(kernel.glsl, kernel.name))));
    }
  }
}

TEST_P(Goldens, PrintForOtherApis) {
  const auto integer_dot = [](const auto& step) {
    const auto* params = step.schedule.template get_if<schedule::MatmulParams>();
    return params != nullptr && params->integer_dot();
  };
  if (std::any_of(made.steps.begin(), made.steps.end(), integer_dot))
    GTEST_SKIP() << "The linked SPIRV-Cross knows no dot products of bytes (OpSDot).";
  Target plain = GetParam().target();
  plain.tiers[static_cast<std::size_t>(FeatureTier::subgroup)] = false;
  for (const Planned& specialization : {made, planned(made.plan.graph, plain)}) {
    for (const std::vector<lowering::Kernel>& step : specialization.kernels) {
      for (const lowering::Kernel& kernel : step) {
        const spirv::Module words = must(spirv::compile_glsl(kernel.glsl, kernel.name));
        EXPECT_FALSE(must(spirv::print_msl(words)).empty());
        const auto hlsl = spirv::print_hlsl(words);
        // Direct3D numbers no subgroups; without T1 nothing asks for that.
        ASSERT_EQ(hlsl.ok(), kernel.subgroup == 0) << kernel.glsl;
        EXPECT_TRUE(hlsl.ok() || hlsl.error().message.find("T1") != std::string::npos);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Goldens, testing::ValuesIn(kGoldens), [](const auto& golden) {
  return std::string(golden.param.graph) + "_" + golden.param.device;
});

// --- cooperative matrices: their text needs a newer shaderc than Debian 12's, and a device to run
// ---------------------

/// Where it is not known which elements of a fragment a lane has.
Target gpu_with_opaque_fragments() {
  Target target = discrete_gpu_with_measured_costs();
  target.caps.matrix.lane_fragments.reset();
  return target;
}

const Golden kUnitGoldens[] = {{"int4_packed", "measured", discrete_gpu_with_measured_costs, 1},
                               {"int4_gate", "measured", discrete_gpu_with_measured_costs, 1},
                               {"int4_projections", "measured", discrete_gpu_with_measured_costs, 1},
                               {"mxfp4_packed", "measured", discrete_gpu_with_measured_costs, 1},
                               {"float8_packed", "measured", discrete_gpu_with_measured_costs, 1},
                               {"int4_packed", "opaque", gpu_with_opaque_fragments, 1},
                               {"int4_gate", "opaque", gpu_with_opaque_fragments, 1},
                               {"int4_projections", "opaque", gpu_with_opaque_fragments, 1},
                               {"mxfp4_packed", "opaque", gpu_with_opaque_fragments, 1},
                               {"float8_packed", "opaque", gpu_with_opaque_fragments, 1},
                               {"few_rows", "measured", discrete_gpu_with_measured_costs, 1},
                               {"few_rows_int4", "measured", discrete_gpu_with_measured_costs, 1},
                               {"matmul_bias_silu", "matrices", discrete_gpu_with_matrices, 1},
                               {"matmul_in_parts", "matrices", discrete_gpu_with_matrices, 2},
                               {"matmul_bytes", "matrices", discrete_gpu_with_matrices, 1},
                               {"matmul_int4", "matrices", discrete_gpu_with_matrices, 1},
                               {"attention_causal", "matrices", discrete_gpu_with_matrices, 1},
                               {"attention_bias", "matrices", discrete_gpu_with_matrices, 1},
                               {"attention_causal", "products", discrete_gpu_with_matrix_products, 1},
                               {"attention_sums", "matrices", discrete_gpu_with_matrices, 1},
                               {"attention_sums", "products", discrete_gpu_with_matrix_products, 1},
                               {"attention_gradient", "matrices", discrete_gpu_with_matrices, 1},
                               {"attention_gradient", "products", discrete_gpu_with_matrix_products, 1},
                               {"attention_gradients", "matrices", discrete_gpu_with_matrices, 1},
                               {"attention_gradients", "products", discrete_gpu_with_matrix_products, 1},
                               {"attention_exported", "matrices", discrete_gpu_with_matrices, 1},
                               {"attention_exported", "products", discrete_gpu_with_matrix_products, 1},
                               {"attention_softcap", "whole", discrete_gpu_with_whole_tiles, 1},
                               {"matmul_whole", "whole", discrete_gpu_with_whole_tiles, 1},
                               {"matmul_edges", "whole", discrete_gpu_with_whole_tiles, 1},
                               {"matmul_shared_tiles", "whole", discrete_gpu_with_whole_tiles, 2},
                               {"conv_residual", "matrices", discrete_gpu_with_matrices, 1},
                               {"conv_strided", "matrices", discrete_gpu_with_matrices, 1}};

class UnitGoldens : public Goldens {};

bool uses_cooperative_matrices(const schedule::Schedule& schedule) {
  if (const auto* params = schedule.get_if<schedule::MatmulParams>()) return params->mma() != nullptr;
  if (const auto* params = schedule.get_if<schedule::AttentionParams>()) return params->cooperative() != nullptr;
  const auto* params = schedule.get_if<schedule::ReductionParams>();
  return params != nullptr && params->packed.has_value();
}

TEST_P(UnitGoldens, PlanAndText) {
  const std::string base = std::string(GetParam().graph) + "." + GetParam().device;
  ASSERT_EQ(made.kernels.size(), 1u);
  ASSERT_EQ(made.kernels[0].size(), static_cast<std::size_t>(GetParam().dispatches));
  EXPECT_TRUE(uses_cooperative_matrices(made.schedule()));
  EXPECT_EQ(made.kernels[0][0].subgroup, 32);
  expect_same(kFolder / (base + ".glsl"), made.kernels[0][0].glsl);
  EXPECT_EQ(hidden_names(made.kernels[0][0].glsl), std::vector<std::string>());
  expect_same(kFolder / (base + ".json"), essentials(made));
}

TEST_P(UnitGoldens, TextIsValidWhereItCompiles) {
  const bool functions = made.kernels[0][0].glsl.find("GL_NV_cooperative_matrix2") != std::string::npos;
  const auto extension =
      functions ? spirv::GlslExtension::nv_cooperative_matrix2 : spirv::GlslExtension::khr_cooperative_matrix;
  if (!spirv::can_compile(extension)) GTEST_SKIP() << "The linked shaderc cannot compile " << spirv::name_of(extension);
  must(spirv::validate(must(spirv::compile_glsl(made.kernels[0][0].glsl, "units"))));
}

INSTANTIATE_TEST_SUITE_P(Golden, UnitGoldens, testing::ValuesIn(kUnitGoldens), [](const auto& golden) {
  return std::string(golden.param.graph) + "_" + golden.param.device;
});

// --- fabricated limits ---------------------------------------------------------------------------------

ir::Graph chain(DType dtype, std::int64_t elements) {
  ir::Graph graph;
  const ir::NodeId x = must(graph.add_input("x", {dtype, {Dim(elements)}}));
  must(graph.add_output("y", must(graph.add(ops::row("neg"), {x}))));
  return graph;
}

TEST(Targets, WorkgroupAndVectorFollowTheDevice) {
  for (std::uint32_t subgroup : {4u, 8u, 16u, 32u, 64u}) {
    for (std::uint32_t limit : {128u, 256u, 512u, 1024u}) {
      struct Want {
        DType dtype;
        int elements;
      };
      for (const Want want : {Want{DType::f32, 4}, Want{DType::f16, 8}, Want{DType::i8, 16}, Want{DType::i64, 2}}) {
        const Planned made = planned(chain(want.dtype, 1 << 24), discrete_gpu(subgroup, limit));
        const schedule::Schedule& schedule = made.schedule();
        EXPECT_EQ(schedule.workgroup, static_cast<int>(limit));  // large ones win where there is little arithmetic
        EXPECT_EQ(schedule.workgroup % static_cast<int>(subgroup), 0);
        EXPECT_EQ(schedule.chunk_size, want.elements);
        EXPECT_EQ(schedule.loads.at(0).vector_bytes, 16);
        EXPECT_EQ(schedule.stores.at(0).vector_bytes, 16);
        EXPECT_EQ(schedule.unroll_factor, 2);  // 32 bytes
        EXPECT_EQ(schedule.launch.workgroups * schedule.workgroup * 2 * want.elements, 1 << 24);
        EXPECT_EQ(schedule.launch.workgroups_x, std::min<std::int64_t>(schedule.launch.workgroups, 65535));
      }
    }
  }
  const schedule::Schedule cpu = planned(chain(DType::f32, 1 << 24), cpu_driver()).schedule();
  EXPECT_EQ(cpu.unroll_factor, 1);
  EXPECT_EQ(cpu.workgroup, 256);
  // A small launch is spread over the device.
  const schedule::Schedule small = planned(chain(DType::f32, 4096), discrete_gpu()).schedule();
  EXPECT_EQ(small.unroll_factor, 1);
  EXPECT_EQ(small.workgroup, 64);
}

TEST(Targets, ItemsFitTheRowsWhereThatSavesLoads) {
  struct Want {
    int columns;
    int elements;
    schedule::AccessKind row;
  };
  // u16 and u32 together are 8 elements an item; a row of 4 or 12 takes 4, a row of 7 goes one by one.
  for (const Want want : {Want{16, 8, schedule::AccessKind::vector}, Want{12, 4, schedule::AccessKind::vector},
                          Want{4, 4, schedule::AccessKind::vector}, Want{7, 8, schedule::AccessKind::element}}) {
    ir::Graph graph;
    const ir::NodeId x = must(graph.add_input("x", {DType::u16, {Dim(50), Dim(want.columns)}}));
    const ir::NodeId row = must(graph.add_input("row", {DType::u32, {Dim(want.columns)}}));
    must(graph.add_output("y",
                          must(graph.add(ops::row("add"), {must(graph.add(ops::row("cast"), {x}, DType::u32)), row}))));
    const Planned made = planned(graph, cpu_driver());
    ASSERT_EQ(made.steps.size(), 1U);
    EXPECT_EQ(made.schedule().chunk_size, want.elements) << want.columns;
    const auto& [loops, schedule, alias, pieces] = made.steps[0];
    for (std::size_t i = 0; i < loops.values.size(); ++i) {
      if (loops.values[i].kind == segment::Value::Kind::load && loops.values[i].node == row) {
        EXPECT_EQ(schedule.loads[i].kind, want.row) << want.columns;
      }
    }
  }
}

TEST(Targets, KernelsWithSeveralItemsInFlightAreValid) {
  // Aligned and unaligned broadcasts and positions, at sizes where a GPU gets several items.
  for (int columns : {64, 63}) {
    ir::Graph graph;
    const Shape space = {Dim(1 << 16), Dim(columns)};
    const ir::NodeId x = must(graph.add_input("x", {DType::u32, space}));
    const ir::NodeId row = must(graph.add_iota({DType::u32, space}, 1));
    const ir::NodeId column = must(graph.add_input("c", {DType::u32, {Dim(1 << 16), Dim(1)}}));
    const ir::NodeId noise = must(graph.add_random({Dim(columns)}, 5));
    ir::NodeId sum = must(graph.add(ops::row("add"), {x, row}));
    sum = must(graph.add(ops::row("add"), {sum, noise}));
    must(graph.add_output("positions", sum));
    must(graph.add_output("y", must(graph.add(ops::row("add"), {sum, column}))));
    for (const std::vector<lowering::Kernel>& step : planned(graph, discrete_gpu()).kernels) {
      for (const lowering::Kernel& kernel : step) must(spirv::validate(must(spirv::compile_glsl(kernel.glsl, "k"))));
    }
  }
}

/// The store keeps what was compiled for one device beside what was for another: what the text asks of the device is in
/// the key.
TEST(Targets, KeysTellDevicesApartThatAreAskedForOtherModes) {
  const ir::Graph graph = must(ir::parse(read(kFolder / "softmax.vkf")));
  Target keeps = gpu();
  keeps.caps.float_controls.keep_nan_f32 = true;
  Target native = keeps;
  native.caps.float_controls.exp_of_nan = true;
  std::set<std::string> keys;
  for (const Target& target : {gpu(), keeps, native}) {
    const Planned made = planned(graph, target);
    keys.insert(made.kernels[0][0].key);
    EXPECT_TRUE(spirv::compile_glsl(made.kernels[0][0].glsl, "softmax").ok());
    EXPECT_EQ(made.kernels[0][0].glsl.find("f32_exp(") == std::string::npos, target.caps.float_controls.exp_of_nan);
  }
  EXPECT_EQ(keys.size(), 3U);
}

TEST(Targets, SegmentsAreSplitAtTheBufferLimit) {
  for (const std::uint32_t buffers : {4u, 8u, 30u}) {
    Target target = cpu_driver();
    target.caps.memory.storage_buffers = buffers;
    ir::Graph graph;
    ir::NodeId sum = must(graph.add_input("x0", {DType::f32, {Dim(1000)}}));
    for (int i = 1; i < 20; ++i) {
      sum = must(
          graph.add(ops::row("add"), {sum, must(graph.add_input("x" + std::to_string(i), {DType::f32, {Dim(1000)}}))}));
    }
    must(graph.add_output("y", sum));
    const Planned made = planned(graph, target);
    for (const plan::PlannedKernel& step : made.plan.steps)
      EXPECT_LE(step.segment.reads.size() + step.segment.stores.size(), buffers);
    // Each kernel takes on limit - 1 operands, one of which is the sum so far.
    EXPECT_EQ(made.kernels.size(), (19 + buffers - 3) / (buffers - 2)) << buffers;
    EXPECT_EQ(made.plan.fusion_boundaries.size(), made.kernels.size() - 1);
    for (const partition::FusionBoundary& fusion_boundary : made.plan.fusion_boundaries) {
      const std::string reason = plan::text_of(fusion_boundary.reasons);
      EXPECT_NE(reason.find("storage buffers"), std::string::npos) << reason;
    }
  }
}

}  // namespace
}  // namespace vkfuse::test

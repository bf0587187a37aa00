// AMD's compiler on our kernels, without AMD hardware: RADV for a chip that RADV_FORCE_FAMILY names
// makes pipelines and says what became of them, and dies if anything is submitted. Nothing is: there
// are no self-tests here either, so T1 and T2 are taken as a chip that passes their self-tests would have
// them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "device_model/device_model.hpp"
#include "portability/kernels.hpp"
#include "spirv/compile.hpp"
#include "support/compare.hpp"
#include "support/device.hpp"
#include "vkfuse/contractions.hpp"
#include "vulkan/pipeline.hpp"

namespace vkfuse::test {
namespace {

struct Figures {
  std::map<std::string, double> numbers;  ///< as the driver names them
  std::map<std::string, int> accesses;    ///< count of each load and store instruction, "buffer_load_dwordx4"
};

/// Without a timeline semaphore, which this driver cannot make.
std::shared_ptr<vulkan::Device> chip() {
  static const auto opened = must(vulkan::Device::create(must(vulkan::Instance::create({})), 0, {.timeline = false}));
  return opened;
}

Target target_without_self_tests() {
  Target target;
  target.name = chip()->info().name;
  target.type = chip()->info().type;
  target.caps = chip()->caps();
  target.workarounds = workarounds_of(chip()->info().identity());
  target.tiers[static_cast<std::size_t>(FeatureTier::subgroup)] =
      target.caps.subgroup.shuffle && target.caps.subgroup.full;
  target.tiers[static_cast<std::size_t>(FeatureTier::float16)] =
      target.caps.arithmetic.float16 && target.caps.memory.storage_16bit;
  return target;
}

/// Instructions of the ISA that touch buffers; scalar loads of descriptors and push constants are not among them.
std::map<std::string, int> accesses_in(const std::string& isa) {
  std::map<std::string, int> accesses;
  for (const char* start :
       {"buffer_load_", "buffer_store_", "global_load_", "global_store_", "scratch_load_", "scratch_store_"}) {
    for (std::size_t at = isa.find(start); at != std::string::npos; at = isa.find(start, at + 1)) {
      if (at > 1 && isa[at - 1] == '_') continue;  // s_buffer_load_...
      const std::size_t end = isa.find_first_of(" \t\n", at);
      ++accesses[isa.substr(at, end - at)];
    }
  }
  return accesses;
}

Figures compile(const BuiltKernel& built) {
  const spirv::Module module = must(spirv::compile_glsl(built.kernel.glsl, built.kernel.name));
  vulkan::PipelineInfo info;
  info.name = built.kernel.name;
  info.spirv = module;
  info.buffers = static_cast<std::uint32_t>(built.kernel.bindings.size());
  info.push_constant_bytes = static_cast<std::uint32_t>(built.kernel.constants.size() * 4);
  info.constants = {{0, static_cast<std::uint32_t>(built.kernel.workgroup)}};
  info.capture_statistics = true;
  if (built.kernel.subgroup > 0) {
    info.full_subgroups = true;
    info.subgroup_size = chip()->caps().subgroup.size_control ? static_cast<std::uint32_t>(built.kernel.subgroup) : 0;
  }
  const auto pipeline = must(vulkan::ComputePipeline::create(chip(), info));
  Figures figures;
  for (const vulkan::Statistic& one : must(vulkan::statistics(pipeline))) figures.numbers[one.name] = one.value;
  for (const vulkan::Representation& one : must(vulkan::representations(pipeline))) {
    if (one.name.find("ssembly") != std::string::npos) figures.accesses = accesses_in(one.text);
  }
  return figures;
}

int count(const Figures& figures, const std::string& end) {
  int total = 0;
  for (const auto& access : figures.accesses) {
    if (access.first.find("_" + end) != std::string::npos) total += access.second;
  }
  return total;
}

double number(const Figures& figures, const std::string& name) {
  const auto found = figures.numbers.find(name);
  if (found == figures.numbers.end()) throw std::runtime_error("the driver reports no '" + name + "'");
  return found->second;
}

std::string access_text(const Figures& figures) {
  std::string text;
  for (const auto& access : figures.accesses)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", access.second, access.first);
  return text;
}

/// How many loads and stores of 16 bytes a kernel has at least.
std::pair<int, int> wide_accesses(const plan::ScheduledKernel& step) {
  const auto wide = [](const schedule::AccessPlan& plan) {
    return (plan.kind == schedule::AccessKind::vector || plan.kind == schedule::AccessKind::transposed) &&
           plan.vector_bytes == 16;
  };
  return {static_cast<int>(std::count_if(step.schedule.loads.begin(), step.schedule.loads.end(), wide)),
          static_cast<int>(std::count_if(step.schedule.stores.begin(), step.schedule.stores.end(), wide))};
}

/// Vector registers that Mesa 22.3 spills on GFX1100, and neither on NAVI21 nor on VEGA10: 7 of attention with 8 x 8
/// scores of f16 a thread, and 1 of the largest score of each row where scores are stored, a kernel that is estimated
/// to want 33 of 256 (docs/portability.md).
int spilled_by_driver(std::string_view graph) {
  if (chip()->info().name.find("GFX1100") == std::string::npos) return 0;
  constexpr std::pair<std::string_view, int> kKnown[] = {{"golden attention_heads", 1},
                                                         {"row attention_of_128", 1},
                                                         {"row attention_causal", 7},
                                                         {"row attention_with_bias", 1},
                                                         {"row attention_through_a_window_with_softcap", 7}};
  for (const auto& [name, registers] : kKnown) {
    if (name == graph) return registers;
  }
  return 0;
}

/// Of all kernels of a graph. What is known of a driver has to be so: else the exception is to be taken out.
class Spills {
 public:
  explicit Spills(std::string_view graph) : known_(spilled_by_driver(graph)) {}
  void add(const Figures& figures) {
    EXPECT_EQ(number(figures, "Spilled SGPRs"), 0);
    if (known_ == 0) {
      EXPECT_EQ(number(figures, "Spilled VGPRs"), 0);
      EXPECT_EQ(number(figures, "Scratch size"), 0);
    }
    most_ = std::max(most_, number(figures, "Spilled VGPRs"));
  }
  void expect_as_known() const { EXPECT_EQ(most_, known_); }

 private:
  int known_;
  double most_ = 0;
};

class RadvChip : public testing::Test {
 protected:
  void SetUp() override {
    const char* driver = std::getenv("VKFUSE_TEST_DRIVER");
    if (driver == nullptr || std::string_view(driver) != "radv")
      GTEST_SKIP() << "this driver runs kernels; ctest runs this test on radv";
    ASSERT_NE(chip()->info().name.find("RADV"), std::string::npos) << chip()->info().name;
  }
};

class Radv : public RadvChip, public testing::WithParamInterface<NamedGraph> {};

TEST_P(Radv, NothingSpillsAndVectorsStayWhole) {
  const BuiltGraph built =
      build(GetParam().graph, schedule::representative_symbols(GetParam().graph), target_without_self_tests());
  ASSERT_FALSE(built.kernels.empty());
  Spills spills("golden " + GetParam().name);
  for (const BuiltKernel& one : built.kernels) {
    SCOPED_TRACE(one.kernel.name);
    const Figures figures = compile(one);
    spills.add(figures);
    const auto [loads, stores] = wide_accesses(built.steps[one.step]);
    if (built.steps[one.step].schedule.dispatches > 1)
      continue;  // which of them has which access is the template's business
    EXPECT_GE(count(figures, "load_dwordx4") + count(figures, "load_b128"), loads) << access_text(figures) << "\n"
                                                                                   << one.kernel.glsl;
    EXPECT_GE(count(figures, "store_dwordx4") + count(figures, "store_b128"), stores) << access_text(figures) << "\n"
                                                                                      << one.kernel.glsl;
  }
  spills.expect_as_known();
}

TEST_F(RadvChip, SixteenByteAccessesAreInTheIsa) {
  for (const NamedGraph& one : golden_graphs()) {
    if (one.name != "silu_gate") continue;
    const BuiltGraph built = build(one.graph, schedule::representative_symbols(one.graph), target_without_self_tests());
    ASSERT_EQ(built.kernels.size(), 1u);
    const BuiltKernel& kernel = built.kernels[0];
    const Figures figures = compile(kernel);
    const int in_flight = built.steps[0].schedule.unroll_factor;
    EXPECT_EQ(count(figures, "load_dwordx4") + count(figures, "load_b128"), 2 * in_flight) << access_text(figures);
    EXPECT_EQ(count(figures, "store_dwordx4") + count(figures, "store_b128"), in_flight) << access_text(figures);
    EXPECT_EQ(figures.accesses.size(), 2u) << "another width: " << access_text(figures);
    return;
  }
  FAIL() << "there is no graph 'silu_gate'";
}

TEST_F(RadvChip, ComparisonsOfWidenedIntegersReadThem) {
  for (const char* type : {"i8", "i16", "i32"}) {
    const ir::Graph graph = must(ir::parse(fmt::format(R"(graph "widened" {{
  %0 = input "x" : {0}[4096]
  %1 = cast %0 : i64[4096]
  %2 = constant {{3}} : i64[]
  %3 = lt %1 %2 : bool[4096]
  output "y" = %3
}})",
                                                       type)));
    const BuiltGraph built = build(graph, {}, target_without_self_tests());
    ASSERT_EQ(built.kernels.size(), 1u);
    const Figures figures = compile(built.kernels[0]);
    int loads = 0;
    for (const auto& [instruction, count] : figures.accesses) {
      if (instruction.find("load") != std::string::npos) loads += count;
    }
    EXPECT_GT(loads, 0) << type << ": one answer for all\n" << built.kernels[0].kernel.glsl;
  }
}

TEST_F(RadvChip, TransposesMoveSixteenBytesBothWays) {
  for (const char* type : {"f32", "f16", "u8", "i64"}) {
    SCOPED_TRACE(type);
    const ir::Graph graph = must(ir::parse(fmt::format(R"(graph "transpose" {{
  %0 = input "x" : {0}[8192, 4096]
  %1 = permute axes=[1, 0] %0 : {0}[4096, 8192]
  %2 = input "b" : {0}[8192]
  %3 = add %1 %2 : {0}[4096, 8192]
  output "y" = %3
}})",
                                                       type)));
    const BuiltGraph built = build(graph, {}, target_without_self_tests());
    ASSERT_EQ(built.kernels.size(), 1u);
    const schedule::Schedule& schedule = built.steps[0].schedule;
    ASSERT_EQ(schedule.kind(), schedule::Template::transpose);
    const Figures figures = compile(built.kernels[0]);
    EXPECT_EQ(number(figures, "Spilled SGPRs") + number(figures, "Spilled VGPRs") + number(figures, "Scratch size"), 0);
    // 512 vectors of the tile, and one of the row for each item of a lane.
    EXPECT_EQ(count(figures, "load_dwordx4") + count(figures, "load_b128"),
              512 / schedule.workgroup + schedule.unroll_factor)
        << access_text(figures);
    EXPECT_EQ(count(figures, "store_dwordx4") + count(figures, "store_b128"), schedule.unroll_factor)
        << access_text(figures);
    EXPECT_EQ(figures.accesses.size(), 2u) << "another width: " << access_text(figures);
  }
}

// --- the kernels of rows ---------------------------------------------------------------------------------

Tensor input(const char* name, DType dtype, Shape shape) { return Tensor::input(name, dtype, std::move(shape)); }

/// At sizes that fill a device: what people run.
struct RowKernel {
  const char* name;
  ir::Graph (*build)(DType dtype);
  friend std::ostream& operator<<(std::ostream& out, const RowKernel& row) { return out << row.name; }
};

ir::Graph layer_norm(DType dtype, std::int64_t rows, std::int64_t length) {
  return graph_of({normalize(input("x", dtype, {rows, length}), {1}, 1e-5) * input("weight", dtype, {length}) +
                   input("bias", dtype, {length})});
}

const RowKernel kRowKernels[] = {
    {"softmax_of_the_last_axis",
     [](DType dtype) {
       return graph_of({softmax(input("x", dtype, {16384, 4096}))});
     }},
    {"softmax_of_a_middle_axis",
     [](DType dtype) {
       return graph_of({softmax(input("x", dtype, {64, 1000, 96}), 1)});
     }},
    {"softmax_of_the_first_axis",
     [](DType dtype) {
       return graph_of({softmax(input("x", dtype, {4096, 4096}), 0)});
     }},
    {"softmax_of_odd_rows",
     [](DType dtype) {
       return graph_of({softmax(input("x", dtype, {4096, 4098}))});
     }},
    {"softmax_of_long_rows",
     [](DType dtype) {
       return graph_of({softmax(input("x", dtype, {1024, 131072}))});
     }},
    {"softmax_of_few_long_rows",
     [](DType dtype) {
       return graph_of({softmax(input("x", dtype, {2, 1 << 22}))});
     }},
    {"layer_norm_1024", [](DType dtype) { return layer_norm(dtype, 32768, 1024); }},
    {"layer_norm_4098", [](DType dtype) { return layer_norm(dtype, 8192, 4098); }},
    {"layer_norm_12288", [](DType dtype) { return layer_norm(dtype, 4096, 12288); }},
    {"residual_and_rms_norm",
     [](DType dtype) {
       const Tensor sum = input("x", dtype, {8192, 4096}) + input("residual", dtype, {8192, 4096});
       return graph_of({sum, rms_normalize(sum, {1}, 1e-5) * input("weight", dtype, {4096})});
     }},
    {"group_norm_and_silu",
     [](DType dtype) {
       const Tensor x = input("x", dtype, {16, 256, 64, 64});
       const Tensor normal = normalize(x.reshape({16, 32, 8 * 64 * 64}), {2}, 1e-5).reshape(x.shape());
       return graph_of({silu(normal * input("weight", dtype, {256, 1, 1}) + input("bias", dtype, {256, 1, 1}))});
     }},
    {"cross_entropy",
     [](DType dtype) {
       return graph_of({cross_entropy(input("logits", dtype, {4096, 50257}), input("label", DType::i32, {4096}))});
     }},
    {"quantise",
     [](DType dtype) {
       const Tensor x = input("x", dtype, {8192, 4096}).cast(DType::f32);
       const Tensor scale = abs(x).max({1}, true) / 127.0;
       return graph_of(
           {clamp(round(x / scale), Tensor::scalar(DType::f32, -127), Tensor::scalar(DType::f32, 127)).cast(DType::i8),
            scale.squeeze(1)});
     }},
    {"sum_of_rows",
     [](DType dtype) {
       return graph_of({input("x", dtype, {8192, 8192}).sum({1})});
     }},
    {"sum_of_columns",
     [](DType dtype) {
       return graph_of({input("x", dtype, {8192, 8192}).sum({0})});
     }},
    {"sum_of_all",
     [](DType dtype) {
       return graph_of({input("x", dtype, {8192, 8192}).sum()});
     }},
    {"best_of_rows",
     [](DType dtype) {
       const Tensor x = input("x", dtype, {8192, 8192});
       return graph_of({x.max({1}), x.argmax(1)});
     }},
    {"permute_0213",
     [](DType dtype) {
       return graph_of({input("x", dtype, {8, 2048, 32, 128}).permute({0, 2, 1, 3})});
     }},
    {"rotary",
     [](DType dtype) {
       const Tensor x = input("x", dtype, {8, 32, 2048, 128});
       const Tensor turned = concat({-x.slice(3, 64, 128), x.slice(3, 0, 64)}, 3);
       return graph_of({x * input("cosine", dtype, {2048, 128}) + turned * input("sine", dtype, {2048, 128})});
     }},
    {"concat",
     [](DType dtype) {
       return graph_of({concat({input("x", dtype, {4096, 1000}), input("z", dtype, {4096, 3000})}, 1)});
     }},
    {"scan_of_rows",
     [](DType dtype) {
       return graph_of({input("x", dtype, {8192, 4096}).cumsum(1)});
     }},
    {"scan_of_columns",
     [](DType dtype) {
       return graph_of({input("x", dtype, {4096, 8192}).cumsum(0)});
     }},
    {"scan_of_one_row", [](DType dtype) { return graph_of({input("x", dtype, {1 << 24}).cumsum(0)}); }},
    {"sort_of_rows",
     [](DType dtype) {
       return graph_of({top_k(input("x", dtype, {4096, 1024}), 1024).values});
     }},
    {"sort_of_long_rows",
     [](DType dtype) {
       return graph_of({top_k(input("x", dtype, {16, 100000}), 100000).values});
     }},
    {"best_fifty",
     [](DType dtype) {
       const TopK best = top_k(input("x", dtype, {256, 50257}), 50);
       return graph_of({best.values, best.positions});
     }},
};

// --- contractions ------------------------------------------------------------------------------------------

Tensor int4_weights(DType dtype, std::int64_t rows, std::int64_t length, std::int64_t group) {
  const Quantization how{
      .scale = input("scale", dtype, {rows, length / group}), .zero_point = std::nullopt, .axis = 1, .group = group};
  return dequantize(unpack_int4(input("packed", DType::u8, {rows, length / 2}), true), how);
}

ir::Graph heads(DType dtype, std::int64_t size, const AttentionOptions& options) {
  return graph_of({attention(input("q", dtype, {4, 32, 4096, size}), input("k", dtype, {4, 8, 4096, size}),
                             input("v", dtype, {4, 8, 4096, size}), options)});
}

const RowKernel kContractions[] = {
    {"matmul",
     [](DType dtype) {
       return graph_of({matmul(input("a", dtype, {4096, 4096}), input("b", dtype, {4096, 4096}))});
     }},
    {"matmul_of_rows",
     [](DType dtype) {
       return graph_of({matmul(input("a", dtype, {4096, 4096}), input("b", dtype, {4096, 4096}).transpose())});
     }},
    {"matmul_of_odd_sizes",
     [](DType dtype) {
       return graph_of({matmul(input("a", dtype, {1001, 999}), input("b", dtype, {999, 1003}))});
     }},
    {"matmul_bias_silu",
     [](DType dtype) {
       return graph_of({silu(matmul(input("a", dtype, {4096, 4096}), input("b", dtype, {4096, 16384})) +
                             input("bias", dtype, {16384}))});
     }},
    {"gated_pair",
     [](DType dtype) {
       const Tensor a = input("a", dtype, {2048, 4096});
       return graph_of(
           {silu(matmul(a, input("gate", dtype, {4096, 11008}))) * matmul(a, input("up", dtype, {4096, 11008}))});
     }},
    {"norm_before_a_matmul",
     [](DType dtype) {
       const Tensor normal = rms_normalize(input("a", dtype, {512, 1024}), {1}, 1e-5) * input("weight", dtype, {1024});
       return graph_of({matmul(normal, input("b", dtype, {1024, 768}))});
     }},
    {"matvec",
     [](DType dtype) {
       return graph_of({matmul(input("w", dtype, {28672, 8192}), input("x", dtype, {8192}))});
     }},
    {"matvec_of_columns",
     [](DType dtype) {
       return graph_of({matmul(input("x", dtype, {1, 8192}), input("w", dtype, {8192, 28672}))});
     }},
    {"matvec_of_eight_rows",
     [](DType dtype) {
       return graph_of({matmul(input("x", dtype, {8, 8192}), input("w", dtype, {28672, 8192}).transpose())});
     }},
    {"matvec_of_int4_weights",
     [](DType dtype) { return graph_of({matmul(int4_weights(dtype, 28672, 8192, 128), input("x", dtype, {8192}))}); }},
    {"matmul_of_int4_weights",
     [](DType dtype) {
       return graph_of({matmul(input("x", dtype, {512, 4096}), int4_weights(dtype, 4096, 4096, 128).transpose())});
     }},
    {"attention_of_64", [](DType dtype) { return heads(dtype, 64, {}); }},
    {"attention_of_128", [](DType dtype) { return heads(dtype, 128, {}); }},
    {"attention_causal", [](DType dtype) { return heads(dtype, 128, {.causal = true}); }},
    {"attention_with_bias",
     [](DType dtype) {
       return heads(dtype, 128, {.bias = input("bias", dtype, {32, 4096, 4096})});
     }},
    {"attention_through_a_window_with_softcap",
     [](DType dtype) { return heads(dtype, 128, {.softcap = 30, .causal = true, .window_before = 512}); }},
};

class RadvRows : public RadvChip, public testing::WithParamInterface<RowKernel> {};

TEST_P(RadvRows, NothingSpills) {
  Spills spills(fmt::format("row {}", GetParam().name));
  for (const DType dtype : {DType::f32, DType::f16}) {
    const BuiltGraph built = build(GetParam().build(dtype), {}, target_without_self_tests());
    ASSERT_FALSE(built.kernels.empty());
    for (const BuiltKernel& one : built.kernels) {
      SCOPED_TRACE(fmt::format("{} of {}", one.kernel.name, name_of(dtype)));
      spills.add(compile(one));
    }
  }
  spills.expect_as_known();
}

const auto name_of_row = [](const auto& row) { return std::string(row.param.name); };
INSTANTIATE_TEST_SUITE_P(Rows, RadvRows, testing::ValuesIn(kRowKernels), name_of_row);
INSTANTIATE_TEST_SUITE_P(Contractions, RadvRows, testing::ValuesIn(kContractions), name_of_row);

std::string name_of_graph(const testing::TestParamInfo<NamedGraph>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Golden, Radv, testing::ValuesIn(golden_graphs()), name_of_graph);

}  // namespace
}  // namespace vkfuse::test

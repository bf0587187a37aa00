// Graphs, and the kernels and plans they become on fabricated devices. VKFUSE_UPDATE_GOLDEN=1 writes
// what is expected instead of comparing; read the difference before you commit it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "codegen/kernel.hpp"
#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "spirv/compile.hpp"
#include "spirv/reflect.hpp"
#include "spirv/tools.hpp"
#include "spirv/walk.hpp"
#include "support/device.hpp"

namespace vkfuse::test {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(VKFUSE_TEST_DATA) / "golden";

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
  int kernels;
  friend std::ostream& operator<<(std::ostream& out, const Golden& golden) { return out << golden.graph << " on " << golden.device; }
};

Target gpu() { return discrete_gpu(); }

// The graph is tests/golden/GRAPH.vkf; beside it lie GRAPH.DEVICE.glsl and GRAPH.DEVICE.json.
const Golden kGoldens[] = {
    {"textbook", "gpu", gpu, 1},     {"textbook", "minimum", minimum_device, 1}, {"bias_gelu", "gpu", gpu, 1},
    {"bias_gelu", "cpu", cpu_driver, 1}, {"unaligned", "cpu", cpu_driver, 1},    {"three_outputs", "gpu", gpu, 1},
    {"masks", "minimum", minimum_device, 1}, {"wide_integers", "cpu", cpu_driver, 1}, {"many_inputs", "minimum", minimum_device, 2},
    {"ranks", "gpu", gpu, 1},
};

struct Planned {
  plan::Plan plan;
  plan::Plan unfused;
  SymbolValues symbols;
  std::vector<schedule::Schedule> schedules;
  std::vector<codegen::Kernel> kernels;
};

Planned planned(const ir::Graph& graph, const Target& target) {
  Planned made;
  const ir::Graph prepared = must(passes::run_pipeline(graph));
  made.plan = must(plan::make_plan(prepared, target));
  made.unfused = must(plan::make_plan(prepared, target, {false}));
  made.symbols = schedule::nominal_symbols(prepared);
  made.schedules = must(plan::schedule_all(made.plan, made.symbols));
  for (std::size_t i = 0; i < made.plan.steps.size(); ++i) {
    const plan::Step& step = made.plan.steps[i];
    made.kernels.push_back(must(codegen::emit_pointwise(made.plan.graph, step.segment, step.loops, made.schedules[i], target,
                                                        codegen::Numerics::standard, fmt::format("segment {}", i))));
  }
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
  Goldens() : made(planned(must(ir::parse(read(kFolder / (std::string(GetParam().graph) + ".vkf")))), GetParam().target())) {}
  Planned made;
};

TEST_P(Goldens, PlanAndText) {
  const std::string base = std::string(GetParam().graph) + "." + GetParam().device;
  std::string text;
  for (const codegen::Kernel& kernel : made.kernels) text += (text.empty() ? "" : "\n") + kernel.glsl;
  expect_same(kFolder / (base + ".glsl"), text);
  expect_same(kFolder / (base + ".json"), essentials(made));
  EXPECT_EQ(static_cast<int>(made.kernels.size()), GetParam().kernels);
}

/// Loads that one item of a read takes, and stores of one item of a result.
int vectors(int elements, int element_bytes, int vector_bytes) { return std::max(1, elements * element_bytes / vector_bytes); }

TEST_P(Goldens, OneLoadPerInputVectorOneStorePerOutputVector) {
  for (std::size_t i = 0; i < made.kernels.size(); ++i) {
    const codegen::Kernel& kernel = made.kernels[i];
    const schedule::Schedule& schedule = made.schedules[i];
    const segment::Segment& segment = made.plan.steps[i].segment;
    const spirv::Module words = must(spirv::compile_glsl(kernel.glsl, kernel.name));
    must(spirv::validate(words));
    const std::vector<spirv::MemoryAccess> accesses = must(spirv::memory_accesses(words));
    std::size_t expected = 0;
    const auto size = [&](ir::NodeId id) { return size_of(made.plan.graph.node(id).type.dtype); };
    const auto expect = [&](std::size_t binding, spirv::AccessKind kind, int bytes, int count) {
      EXPECT_EQ(spirv::count_of(accesses, kind, static_cast<std::uint32_t>(binding), static_cast<std::uint32_t>(bytes)), count)
          << "binding " << binding << " of\n" << kernel.glsl;
      expected += static_cast<std::size_t>(count);
    };
    for (std::size_t r = 0; r < segment.reads.size(); ++r) {
      const schedule::ReadPlan& read = schedule.reads[r];
      const bool vector = read.kind == schedule::AccessKind::contiguous || read.kind == schedule::AccessKind::row_vector;
      expect(r, spirv::AccessKind::load, read.vector_bytes, vector ? vectors(schedule.elements_per_item, size(segment.reads[r]), read.vector_bytes) : 1);
    }
    for (std::size_t s = 0; s < segment.stores.size(); ++s) {
      const int bytes = schedule.store_bytes[s];
      const int count = vectors(schedule.elements_per_item, size(segment.stores[s]), bytes);
      expect(segment.reads.size() + s, spirv::AccessKind::store, bytes, count);
      // The tail stores the words of a shorter last item one by one.
      if (!schedule.exact && bytes > 4) expect(segment.reads.size() + s, spirv::AccessKind::store, 4, count);
    }
    EXPECT_EQ(accesses.size(), expected) << "something else touches memory in\n" << kernel.glsl;
  }
}

TEST_P(Goldens, StrictKernelsAreValidToo) {
  for (std::size_t i = 0; i < made.kernels.size(); ++i) {
    const plan::Step& step = made.plan.steps[i];
    const codegen::Kernel kernel = must(codegen::emit_pointwise(made.plan.graph, step.segment, step.loops, made.schedules[i],
                                                                made.plan.target, codegen::Numerics::strict, "strict"));
    must(spirv::validate(must(spirv::compile_glsl(kernel.glsl, "strict"))));
  }
}

TEST_P(Goldens, PrintForOtherApis) {
  for (const codegen::Kernel& kernel : made.kernels) {
    const spirv::Module words = must(spirv::compile_glsl(kernel.glsl, kernel.name));
    EXPECT_FALSE(must(spirv::print_msl(words)).empty());
    EXPECT_FALSE(must(spirv::print_hlsl(words)).empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Pointwise, Goldens, testing::ValuesIn(kGoldens),
                         [](const auto& golden) { return std::string(golden.param.graph) + "_" + golden.param.device; });

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
        const schedule::Schedule& schedule = made.schedules.at(0);
        EXPECT_EQ(schedule.workgroup, static_cast<int>(limit));  // large ones win where there is little arithmetic
        EXPECT_EQ(schedule.workgroup % static_cast<int>(subgroup), 0);
        EXPECT_EQ(schedule.elements_per_item, want.elements);
        EXPECT_EQ(schedule.reads[0].vector_bytes, 16);
        EXPECT_EQ(schedule.store_bytes[0], 16);
        EXPECT_EQ(schedule.items_in_flight, 2);  // 32 bytes
        EXPECT_EQ(schedule.workgroups * schedule.workgroup * 2 * want.elements, 1 << 24);
        EXPECT_EQ(schedule.workgroups_x, std::min<std::int64_t>(schedule.workgroups, 65535));
      }
    }
  }
  const schedule::Schedule cpu = planned(chain(DType::f32, 1 << 24), cpu_driver()).schedules.at(0);
  EXPECT_EQ(cpu.items_in_flight, 1);
  EXPECT_EQ(cpu.workgroup, 256);
  // A small launch is spread over the device.
  const schedule::Schedule small = planned(chain(DType::f32, 4096), discrete_gpu()).schedules.at(0);
  EXPECT_EQ(small.items_in_flight, 1);
  EXPECT_EQ(small.workgroup, 64);
}

TEST(Targets, ItemsFitTheRowsWhereThatSavesLoads) {
  struct Want {
    int columns;
    int elements;
    schedule::AccessKind row;
  };
  // u16 and u32 together are 8 elements an item; a row of 4 or 12 takes 4, a row of 7 goes one by one.
  for (const Want want : {Want{16, 8, schedule::AccessKind::row_vector}, Want{12, 4, schedule::AccessKind::row_vector},
                          Want{4, 4, schedule::AccessKind::row_vector}, Want{7, 8, schedule::AccessKind::element}}) {
    ir::Graph graph;
    const ir::NodeId x = must(graph.add_input("x", {DType::u16, {Dim(50), Dim(want.columns)}}));
    const ir::NodeId row = must(graph.add_input("row", {DType::u32, {Dim(want.columns)}}));
    must(graph.add_output("y", must(graph.add(ops::row("add"), {must(graph.add(ops::row("cast"), {x}, DType::u32)), row}))));
    const Planned made = planned(graph, cpu_driver());
    ASSERT_EQ(made.schedules.size(), 1U);
    EXPECT_EQ(made.schedules[0].elements_per_item, want.elements) << want.columns;
    EXPECT_EQ(made.schedules[0].reads[1].kind, want.row) << want.columns;
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
    for (const codegen::Kernel& kernel : planned(graph, discrete_gpu()).kernels) must(spirv::validate(must(spirv::compile_glsl(kernel.glsl, "k"))));
  }
}

TEST(Targets, SegmentsAreSplitAtTheBufferLimit) {
  for (const std::uint32_t buffers : {4u, 8u, 30u}) {
    Target target = cpu_driver();
    target.caps.storage_buffers = buffers;
    ir::Graph graph;
    ir::NodeId sum = must(graph.add_input("x0", {DType::f32, {Dim(1000)}}));
    for (int i = 1; i < 20; ++i) {
      sum = must(graph.add(ops::row("add"), {sum, must(graph.add_input("x" + std::to_string(i), {DType::f32, {Dim(1000)}}))}));
    }
    must(graph.add_output("y", sum));
    const Planned made = planned(graph, target);
    for (const plan::Step& step : made.plan.steps) EXPECT_LE(step.segment.reads.size() + step.segment.stores.size(), buffers);
    // Each kernel takes on limit - 1 operands, one of which is the sum so far.
    EXPECT_EQ(made.kernels.size(), (19 + buffers - 3) / (buffers - 2)) << buffers;
    EXPECT_EQ(made.plan.boundaries.size(), made.kernels.size() - 1);
    for (const partition::Boundary& boundary : made.plan.boundaries) {
      EXPECT_NE(boundary.reason.find("storage buffers"), std::string::npos) << boundary.reason;
    }
  }
}

}  // namespace
}  // namespace vkfuse::test

// Loads that run along other axes than the stores, through shared memory: what the schedule says of them, and
// that every element arrives.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "support/compare.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

/// With tiles wherever a load can be transposed: left to itself, a CPU driver gets none.
Executable compile_tiled(const ir::Graph& graph, Numerics numerics = Numerics::strict, const Device* device = nullptr) {
  Build how;
  how.device = device;
  how.numerics = numerics;
  how.tuning.tiled = true;
  return compile_graph(graph, how);
}

void expect_right(const Executable& program, const ir::Graph& graph, const SymbolValues& symbols, std::uint64_t seed) {
  const Data data = data_for({graph, symbols, seed, false});
  const GuardedRun run = run_guarded(program, graph, data);
  std::string sizes;
  for (const auto& symbol : symbols) sizes += fmt::format("{} = {} ", symbol.first, symbol.second);
  ASSERT_EQ(run.broken, "") << sizes << "\n" << ir::print(graph);
  ASSERT_EQ(check_outputs(graph, data, run.outputs).wrong, "") << sizes << "\n" << ir::print(graph);
}

// --- sizes ---------------------------------------------------------------------------------------------

class TransposeSizes : public testing::TestWithParam<DType> {};

/// A transposed operand, one that lies as the result does, and one of each kind of broadcast.
ir::Graph sum_graph(DType dtype) {
  return must(ir::parse(fmt::format(R"(graph "sum" {{
  %0 = input "x" : {0}[n, m]
  %1 = permute axes=[1, 0] %0 : {0}[m, n]
  %2 = input "z" : {0}[m, n]
  %3 = input "row" : {0}[n]
  %4 = input "column" : {0}[m, 1]
  %5 = add %1 %2 : {0}[m, n]
  %6 = add %5 %3 : {0}[m, n]
  %7 = add %6 %4 : {0}[m, n]
  output "y" = %7
}})",
                                    name_of(dtype))));
}

TEST_P(TransposeSizes, EveryElementArrives) {
  const ir::Graph graph = sum_graph(GetParam());
  const Executable program = compile_tiled(graph);
  EXPECT_TRUE(are_kernels(program.kernel_count(), 1));
  Random random(17);
  constexpr int kRounds = 10;
  int tiled = 0;
  for (int round = 0; round < kRounds; ++round) {
    // Each edge of a tile at first, then anything.
    constexpr std::int64_t kEdges[] = {8, 16, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 130};
    const auto size = [&] {
      return round % 3 == 0 ? 1 + static_cast<std::int64_t>(random.below(130))
                            : kEdges[random.below(std::size(kEdges))];
    };
    const SymbolValues symbols{{"m", size()}, {"n", size()}};
    tiled += specialization_of(program, symbols)->steps.at(0).schedule.kind() == schedule::Template::transpose ? 1 : 0;
    expect_right(program, graph, symbols, static_cast<std::uint64_t>(round));
  }
  EXPECT_GE(tiled, kRounds - 2);  // not where a size is 1
}

INSTANTIATE_TEST_SUITE_P(Differential, TransposeSizes, testing::Values(DType::i8, DType::i16, DType::f32, DType::i64),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

// --- what the schedule says ----------------------------------------------------------------------------

struct Access {
  const char* input;  ///< or output
  schedule::AccessKind kind;
  int vector_bytes;
};

struct Layout {
  const char* name;
  const char* text;
  std::vector<Access> accesses;  ///< in any order
  friend std::ostream& operator<<(std::ostream& out, const Layout& layout) { return out << layout.name; }
};

constexpr auto kVector = schedule::AccessKind::vector;
constexpr auto kScalar = schedule::AccessKind::scalar;
constexpr auto kUniform = schedule::AccessKind::uniform;
constexpr auto kElement = schedule::AccessKind::element;
constexpr auto kTransposed = schedule::AccessKind::transposed;

const Layout kLayouts[] = {
    {"bias",
     R"(graph "bias" {
  %0 = input "x" : f32[192, 128]
  %1 = permute axes=[1, 0] %0 : f32[128, 192]
  %2 = constant {2} : f32[]
  %3 = mul %1 %2 : f32[128, 192]
  %4 = input "b" : f32[192]
  %5 = input "c" : f32[128, 1]
  %6 = input "u" : f32[1]
  %7 = add %3 %4 : f32[128, 192]
  %8 = add %7 %5 : f32[128, 192]
  %9 = mul %8 %6 : f32[128, 192]
  output "y" = %9
})",
     {{"x", kTransposed, 16}, {"b", kVector, 16}, {"c", kScalar, 4}, {"u", kUniform, 4}, {"y", kVector, 16}}},
    {"half",
     R"(graph "half" {
  %0 = input "x" : f16[3, 136, 72]
  %1 = permute axes=[0, 2, 1] %0 : f16[3, 72, 136]
  %2 = neg %1 : f16[3, 72, 136]
  output "y" = %2
})",
     {{"x", kTransposed, 16}, {"y", kVector, 16}}},
    {"bytes",
     R"(graph "bytes" {
  %0 = input "x" : u8[144, 80]
  %1 = permute axes=[1, 0] %0 : u8[80, 144]
  %2 = input "z" : u8[80, 144]
  %3 = sub %1 %2 : u8[80, 144]
  output "y" = %3
})",
     {{"x", kTransposed, 16}, {"z", kVector, 16}, {"y", kVector, 16}}},
    {"wide",
     R"(graph "wide" {
  %0 = input "x" : i64[50, 34]
  %1 = permute axes=[1, 0] %0 : i64[34, 50]
  %2 = add %1 %1 : i64[34, 50]
  output "y" = %2
})",
     {{"x", kTransposed, 16}, {"y", kVector, 16}}},
    {"own transpose",
     R"(graph "own" {
  %0 = input "x" : f32[100, 100]
  %1 = permute axes=[1, 0] %0 : f32[100, 100]
  %2 = add %0 %1 : f32[100, 100]
  output "y" = %2
})",
     {{"x", kVector, 16}, {"x", kTransposed, 16}, {"y", kVector, 16}}},
    {"casts",
     R"(graph "casts" {
  %0 = input "x" : f32[96, 88]
  %1 = permute axes=[1, 0] %0 : f32[88, 96]
  %2 = cast %1 : f16[88, 96]
  %3 = input "z" : i8[96, 88]
  %4 = permute axes=[1, 0] %3 : i8[88, 96]
  %5 = cast %4 : f16[88, 96]
  %6 = add %2 %5 : f16[88, 96]
  output "y" = %6
})",
     {{"x", kTransposed, 16}, {"z", kTransposed, 8}, {"y", kVector, 16}}},
    {"three operands",
     R"(graph "three" {
  %0 = input "x" : f32[64, 96]
  %1 = input "z" : f32[64, 96]
  %2 = input "w" : f32[64, 96]
  %3 = permute axes=[1, 0] %0 : f32[96, 64]
  %4 = permute axes=[1, 0] %1 : f32[96, 64]
  %5 = permute axes=[1, 0] %2 : f32[96, 64]
  %6 = mul %3 %4 : f32[96, 64]
  %7 = add %6 %5 : f32[96, 64]
  output "y" = %7
})",
     {{"x", kTransposed, 16}, {"z", kTransposed, 16}, {"w", kTransposed, 16}, {"y", kVector, 16}}},
    {"inside a chain",
     R"(graph "chain" {
  %0 = input "x" : f16[2, 40, 24, 16]
  %1 = exp %0 : f16[2, 40, 24, 16]
  %2 = permute axes=[0, 3, 2, 1] %1 : f16[2, 16, 24, 40]
  %3 = abs %2 : f16[2, 16, 24, 40]
  %4 = input "b" : f16[24, 40]
  %5 = add %3 %4 : f16[2, 16, 24, 40]
  output "y" = %5
})",
     {{"x", kTransposed, 16}, {"b", kVector, 16}, {"y", kVector, 16}}},
    {"few channels last",
     R"(graph "last" {
  %0 = input "x" : f32[2, 3, 20, 28]
  %1 = permute axes=[0, 2, 3, 1] %0 : f32[2, 20, 28, 3]
  %2 = input "b" : f32[3]
  %3 = add %1 %2 : f32[2, 20, 28, 3]
  output "y" = %3
})",
     {{"x", kTransposed, 16}, {"b", kElement, 4}, {"y", kVector, 16}}},
    {"few channels first",
     R"(graph "first" {
  %0 = input "x" : f16[2, 20, 28, 3]
  %1 = permute axes=[0, 3, 1, 2] %0 : f16[2, 3, 20, 28]
  %2 = input "b" : f16[3, 1, 1]
  %3 = add %1 %2 : f16[2, 3, 20, 28]
  output "y" = %3
})",
     {{"x", kTransposed, 16}, {"b", kScalar, 4}, {"y", kVector, 16}}},
    {"short inner axis",
     R"(graph "short" {
  %0 = input "x" : f16[2, 32, 24, 5]
  %1 = permute axes=[0, 2, 1, 3] %0 : f16[2, 24, 32, 5]
  %2 = neg %1 : f16[2, 24, 32, 5]
  output "y" = %2
})",
     {{"x", kTransposed, 16}, {"y", kVector, 16}}},
    {"sliced",
     R"(graph "sliced" {
  %0 = input "x" : f32[70, 100]
  %1 = slice starts=[2, 3] steps=[1, 1] %0 : f32[64, 96]
  %2 = permute axes=[1, 0] %1 : f32[96, 64]
  %3 = neg %2 : f32[96, 64]
  output "y" = %3
})",
     {{"x", kTransposed, 4}, {"y", kVector, 16}}},
    {"sliced at a vector",
     R"(graph "sliced" {
  %0 = input "x" : f16[70, 104]
  %1 = slice starts=[2, 8] steps=[1, 1] %0 : f16[64, 96]
  %2 = permute axes=[1, 0] %1 : f16[96, 64]
  %3 = neg %2 : f16[96, 64]
  output "y" = %3
})",
     {{"x", kTransposed, 16}, {"y", kVector, 16}}},
    {"stacked",
     R"(graph "stacked" {
  %0 = input "x" : f32[3, 40, 48]
  %1 = input "z" : f32[2, 40, 48]
  %2 = permute axes=[0, 2, 1] %0 : f32[3, 48, 40]
  %3 = permute axes=[0, 2, 1] %1 : f32[2, 48, 40]
  %4 = concat axis=0 %2 %3 : f32[5, 48, 40]
  %5 = neg %4 : f32[5, 48, 40]
  output "y" = %5
})",
     {{"x", kTransposed, 16}, {"z", kTransposed, 16}, {"y", kVector, 16}}},
    {"padded inside",
     R"(graph "padded" {
  %0 = input "x" : f32[40, 48]
  %1 = permute axes=[1, 0] %0 : f32[48, 40]
  %2 = constant {-1} : f32[]
  %3 = pad low=[1, 0] high=[3, 0] %1 %2 : f32[52, 40]
  %4 = input "z" : f32[40, 52]
  %5 = permute axes=[1, 0] %4 : f32[52, 40]
  %6 = add %3 %5 : f32[52, 40]
  output "y" = %6
})",
     {{"x", kElement, 4}, {"z", kTransposed, 16}, {"y", kVector, 16}}},
    {"other way about as well",
     R"(graph "outputs" {
  %0 = input "x" : f32[56, 64]
  %1 = permute axes=[1, 0] %0 : f32[64, 56]
  %2 = input "z" : f32[64, 56]
  %3 = sub %1 %2 : f32[64, 56]
  %4 = permute axes=[1, 0] %3 : f32[56, 64]
  %5 = gt %1 %2 : bool[64, 56]
  output "a" = %4
  output "b" = %3
  output "c" = %5
})",
     {{"x", kTransposed, 16}, {"z", kVector, 16}, {"a", kElement, 4}, {"b", kVector, 16}, {"c", kVector, 8}}},
    {"five axes",
     R"(graph "five" {
  %0 = input "x" : f32[4, 6, 8, 3, 12]
  %1 = permute axes=[4, 1, 3, 0, 2] %0 : f32[12, 6, 3, 4, 8]
  %2 = neg %1 : f32[12, 6, 3, 4, 8]
  output "y" = %2
})",
     {{"x", kTransposed, 16}, {"y", kVector, 16}}},
};

class TransposeLayouts : public testing::TestWithParam<Layout> {};

/// "x transposed 16", one for each way an input or output is loaded or stored; parts of a concatenation have one.
std::vector<std::string> accesses_of(const ir::Graph& graph, const plan::ScheduledKernel& step) {
  std::vector<std::string> all;
  const auto add = [&](const std::string& name, const schedule::AccessPlan& plan) {
    all.push_back(fmt::format("{} {} {}", name, schedule::name_of(plan.kind), plan.vector_bytes));
  };
  for (std::size_t i = 0; i < step.loops.values.size(); ++i) {
    const segment::Value& value = step.loops.values[i];
    if (value.kind != segment::Value::Kind::load) continue;
    add(std::get<ir::InputPayload>(graph.node(value.node).payload).name, step.schedule.loads[i]);
  }
  for (std::size_t i = 0; i < step.loops.stores.size(); ++i) {
    const auto output = std::find_if(graph.outputs().begin(), graph.outputs().end(),
                                     [&](const ir::Output& one) { return one.value == step.loops.stores[i].node; });
    add(output->name, step.schedule.stores[i]);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

TEST_P(TransposeLayouts, OneKernelReadsAndWritesVectors) {
  const ir::Graph graph = must(ir::parse(GetParam().text));
  std::vector<std::string> wanted;
  for (const Access& access : GetParam().accesses) {
    wanted.push_back(fmt::format("{} {} {}", access.input, schedule::name_of(access.kind), access.vector_bytes));
  }
  std::sort(wanted.begin(), wanted.end());
  const Executable program = compile_tiled(graph, Numerics::standard);
  EXPECT_TRUE(are_kernels(program.kernel_count(), 1));
  const auto specialization = specialization_of(program, {});
  if (specialization->steps.size() == 1) {
    EXPECT_EQ(specialization->steps[0].schedule.kind(), schedule::Template::transpose);
    EXPECT_LE(specialization->steps[0].schedule.shared_bytes, 16384);
    EXPECT_EQ(accesses_of(program.state()->program->plan().graph, specialization->steps[0]), wanted);
  }
  expect_right(program, graph, {}, 3);
}

std::string layout_name(const testing::TestParamInfo<Layout>& info) {
  std::string name(info.param.name);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Differential, TransposeLayouts, testing::ValuesIn(kLayouts), layout_name);

// --- anything ------------------------------------------------------------------------------------------

/// A sum of permuted operands of rank 2 to 5; some are slices of larger ones, some run backwards.
class PermutedSum {
 public:
  explicit PermutedSum(std::uint64_t seed) : random_(seed) {
    constexpr DType kTypes[] = {DType::f32, DType::f16, DType::i8, DType::u16, DType::i64, DType::i32};
    const std::size_t rank = 2 + random_.below(4);
    std::int64_t room = 12000;  // elements
    for (std::size_t i = 0; i < rank; ++i) {
      const std::int64_t most = std::min<std::int64_t>(rank == 2 ? 130 : 48, room);
      sizes_.push_back(1 + static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(most))));
      if (random_.chance(50)) sizes_.back() = std::min(most, (sizes_.back() + 7) / 8 * 8);
      room = std::max<std::int64_t>(1, room / sizes_.back());
    }
    const DType dtype = kTypes[random_.below(std::size(kTypes))];
    type_ = name_of(dtype);
    std::string sum = operand();
    for (std::size_t more = random_.below(3); more > 0; --more) {
      const std::string other = operand();
      sum = node("add", "", sum + " " + other, sizes_);
    }
    lines_ += fmt::format("  output \"y\" = {}\n", sum);
  }

  [[nodiscard]] ir::Graph graph() const { return must(ir::parse("graph \"permuted\" {\n" + lines_ + "}")); }

 private:
  std::string node(const std::string& op, const std::string& attributes, const std::string& operands,
                   const Sizes& sizes) {
    lines_ += fmt::format("  %{} = {}{}{} : {}[{}]\n", count_, op, attributes, operands.empty() ? "" : " " + operands,
                          type_, fmt::join(sizes, ", "));
    return fmt::format("%{}", count_++);
  }

  std::string operand() {
    std::vector<int> axes(sizes_.size());
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int>(i);
    for (std::size_t i = axes.size(); i > 1; --i) std::swap(axes[i - 1], axes[random_.below(i)]);
    Sizes sizes(sizes_.size());  // of what is permuted
    for (std::size_t i = 0; i < axes.size(); ++i) sizes[static_cast<std::size_t>(axes[i])] = sizes_[i];
    Sizes stored = sizes;
    Sizes starts(sizes.size(), 0);
    const bool sliced = random_.chance(40);
    for (std::size_t i = 0; i < sizes.size() && sliced; ++i) {
      starts[i] = static_cast<std::int64_t>(random_.below(3)) * 4;
      stored[i] += starts[i] + static_cast<std::int64_t>(random_.below(5)) * 4;
    }
    std::string value = node("input", fmt::format(" \"x{}\"", count_), "", stored);
    if (sliced)
      value =
          node("slice",
               fmt::format(" starts=[{}] steps=[{}]", fmt::join(starts, ", "), fmt::join(Sizes(sizes.size(), 1), ", ")),
               value, sizes);
    if (random_.chance(15))
      value = node("reverse", fmt::format(" axes=[{}]", random_.below(sizes.size())), value, sizes);
    return node("permute", fmt::format(" axes=[{}]", fmt::join(axes, ", ")), value, sizes_);
  }

  Random random_;
  Sizes sizes_;
  std::string type_;
  std::string lines_;
  int count_ = 0;
};

TEST(Differential, PermutedSumsOfAnyRank) {
  int tiled = 0;
  constexpr std::uint64_t kCases = 30;
  for (std::uint64_t seed = 1; seed <= kCases; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const ir::Graph graph = PermutedSum(seed).graph();
    const Executable program = compile_tiled(graph);
    for (const plan::ScheduledKernel& step : specialization_of(program, {})->steps)
      tiled += step.schedule.kind() == schedule::Template::transpose ? 1 : 0;
    expect_right(program, graph, {}, seed);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(tiled, 15);
}

TEST(Differential, TilesFitTheSmallestDevice) {
  DeviceOptions options;
  options.limits = {
      {"max_invocations", 128}, {"max_workgroup_x", 128}, {"shared_memory_bytes", 16384}, {"max_groups_per_axis", 16}};
  const Device small = must(Device::open(options));
  const ir::Graph graph = must(ir::parse(R"(graph "small" {
  %0 = input "x" : f16[200, 264]
  %1 = permute axes=[1, 0] %0 : f16[264, 200]
  %2 = input "z" : f32[200, 264]
  %3 = permute axes=[1, 0] %2 : f32[264, 200]
  %4 = cast %1 : f32[264, 200]
  %5 = add %3 %4 : f32[264, 200]
  output "y" = %5
})"));
  const Executable program = compile_tiled(graph, Numerics::strict, &small);
  const schedule::Schedule& schedule = specialization_of(program, {})->steps.at(0).schedule;
  EXPECT_EQ(schedule.kind(), schedule::Template::transpose);
  EXPECT_LE(schedule.workgroup, 128);
  EXPECT_LE(schedule.shared_bytes, 16384);
  EXPECT_GT(schedule.launch.workgroups,
            schedule.launch.workgroups_x);  // in rows of the dispatch, the last with idle ones
  expect_right(program, graph, {}, 5);
}

TEST(Differential, ATileMayWriteInPlaceOfWhatItReadsThere) {
  const ir::Graph graph = must(ir::parse(R"(graph "place" {
  %0 = input "x" : f32[72, 60]
  %1 = permute axes=[1, 0] %0 : f32[60, 72]
  %2 = input "z" : f32[60, 72]
  %3 = sub %1 %2 : f32[60, 72]
  output "y" = %3
})"));
  const Executable program = compile_tiled(graph);
  const Data data = data_for({graph, {}, 8, false});
  const GuardedRun run = run_guarded(program, graph, data, {{"y", "z"}});
  EXPECT_EQ(check_outputs(graph, data, run.outputs).wrong, "");
  // What is read elsewhere than written is still refused.
  EXPECT_THROW(run_guarded(program, graph, data, {{"y", "x"}}), std::runtime_error);
}

}  // namespace
}  // namespace vkfuse::test

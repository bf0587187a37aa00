// One program, written in many ways, has one plan: t3 = sum(t1 * t2), t4 = sum(t2 * t3), t5 = t4 + t1 * t2, or with t1
// + t2 in the last place, and the same with matrix products for the sums.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <set>

#include "golden/targets.hpp"
#include "kernel/kernel.hpp"
#include "passes/passes.hpp"
#include "support/fuzz.hpp"
#include "templates/lowering.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

enum class From { stored, one_input, four_inputs, one_input_dearly };
const char* name_of(From from) {
  constexpr const char* names[] = {"stored inputs", "one input", "four inputs", "one input, twelve steps"};
  return names[static_cast<int>(from)];
}

struct Program {
  Shape shape;
  bool products = false;  ///< matrix products instead of sums
  bool adds = false;      ///< the last value is t4 + (t1 + t2)
  From from = From::stored;
};

struct Spelling {
  bool late = false;      ///< the last product or sum is written again where it is needed, else once and first
  bool commuted = false;  ///< what may be turned round is
  bool held = false;      ///< values go through copies and views that change nothing
  bool text = false;      ///< as lines of .vkf, else as tensors
  std::string words() const {
    return fmt::format("{}{}{}{}", late ? "late " : "early ", commuted ? "commuted " : "", held ? "held " : "",
                       text ? "text" : "tensors");
  }
};

/// A program as tensors or as lines: `Value` is a tensor, or the number of a line.
template <typename Maker>
void write_program(const Program& program, const Spelling& spelling, Maker& make) {
  using Value = typename Maker::Value;
  const auto held = [&](const Value& x) { return spelling.held ? make.view(make.copy(x)) : x; };
  const auto both = [&](const char* op, const Value& a, const Value& b) {
    return spelling.commuted ? make.op(op, {b, a}) : make.op(op, {a, b});
  };
  const auto steps = [&](Value x) {
    for (int i = 0; i < 12; ++i) x = make.op(i % 2 == 0 ? "sin" : "cos", {x});
    return x;
  };
  std::function<Value()> first, second;
  if (program.from == From::stored) {
    const Value a = make.input("a");
    const Value b = make.input("b");
    first = [=] { return a; };
    second = [=] { return b; };
  } else if (program.from == From::four_inputs) {
    const Value a = make.input("a");
    const Value b = make.input("b");
    const Value c = make.input("c");
    const Value d = make.input("d");
    first = [=, &make] { return both("add", make.op("relu", {a}), b); };
    second = [=, &make] { return both("mul", make.op("abs", {c}), d); };
  } else {
    const Value x = make.input("x");
    const bool dearly = program.from == From::one_input_dearly;
    first = [=, &make] { return dearly ? steps(x) : make.op("tanh", {x}); };
    second = [=, &make] { return both("add", make.op("relu", {x}), make.op("abs", {x})); };
  }
  const Value t1 = held(first());
  const Value t2 = held(second());
  const char* last_op = program.adds ? "add" : "mul";
  std::optional<Value> last;
  if (!spelling.late) last = both(last_op, t1, t2);
  const Value t3 = held(program.products ? make.product(t1, t2) : make.sum(both("mul", t1, t2)));
  const Value t4 = program.products ? make.product(t2, t3) : make.sum(both("mul", t2, t3));
  // Late: from what it is made of, all over again.
  if (spelling.late) last = both(last_op, held(first()), second());
  make.result(both("add", held(t4), *last));
}

struct Tensors {
  using Value = Tensor;
  Shape shape;
  std::vector<Tensor> results;
  Tensor input(const char* name) { return Tensor::input(name, DType::f32, shape); }
  Tensor op(const char* name, std::initializer_list<Tensor> operands) { return Tensor::apply(name, operands); }
  Tensor copy(const Tensor& x) { return Tensor::apply("copy", {x}); }
  Tensor view(const Tensor& x) { return x.permute({1, 0}).permute({1, 0}); }
  Tensor sum(const Tensor& x) { return x.sum({1}, true); }
  Tensor product(const Tensor& a, const Tensor& b) { return matmul(a, b); }
  void result(const Tensor& x) { results = {x}; }
};

struct Lines {
  using Value = std::size_t;
  Shape shape;
  std::string text = "graph \"seed\" {\n";
  std::vector<std::string> types;
  std::size_t line(const std::string& what, std::string type) {
    text += fmt::format("  %{} = {} : {}\n", types.size(), what, type);
    types.push_back(std::move(type));
    return types.size() - 1;
  }
  [[nodiscard]] std::string full() const { return fmt::format("f32[{}, {}]", shape[0].size(), shape[1].size()); }
  [[nodiscard]] std::string reduced() const { return fmt::format("f32[{}, 1]", shape[0].size()); }
  std::size_t input(const char* name) { return line(fmt::format("input \"{}\"", name), full()); }
  std::size_t op(const char* name, std::initializer_list<std::size_t> operands) {
    std::string all = name;
    bool wide = false;
    for (std::size_t operand : operands) {
      all += fmt::format(" %{}", operand);
      wide = wide || types[operand] == full();
    }
    return line(all, wide ? full() : reduced());
  }
  std::size_t copy(std::size_t x) { return line(fmt::format("copy %{}", x), types[x]); }
  std::size_t view(std::size_t x) { return line(fmt::format("reshape %{}", x), types[x]); }
  std::size_t sum(std::size_t x) {
    const std::size_t folded = line(fmt::format("reduce_sum axes=[1] %{}", x), fmt::format("f32[{}]", shape[0].size()));
    return line(fmt::format("reshape %{}", folded), reduced());
  }
  std::size_t product(std::size_t a, std::size_t b) {
    return line(fmt::format("dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %{} %{}", a, b), full());
  }
  void result(std::size_t x) { text += fmt::format("  output \"y\" = %{}\n", x); }
};

ir::Graph written(const Program& program, const Spelling& spelling) {
  if (spelling.text) {
    Lines lines{program.shape};
    write_program(program, spelling, lines);
    return must(ir::parse(lines.text + "}\n"));
  }
  Tensors tensors{program.shape, {}};
  write_program(program, spelling, tensors);
  return graph_of({tensors.results[0]});
}

std::vector<Spelling> all_spellings() {
  std::vector<Spelling> all;
  for (int bits = 0; bits < 16; ++bits)
    all.push_back({(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0});
  return all;
}

/// What must not depend on the spelling.
struct Essence {
  std::int64_t launches = 0;
  std::size_t kernels = 0;
  std::int64_t bytes = 0;
  std::vector<int> widths;
  std::string text;  ///< of all kernels
  std::vector<std::string> reasons;
};

Essence essence_of(const ir::Graph& graph, const Target& target, const partition::Options& options = {},
                   const passes::Options& prepared = {}) {
  const plan::Plan plan = must(plan::make_plan(must(passes::run_pipeline(graph, prepared)), target, options));
  const plan::Totals totals = must(plan::totals(plan, {}));
  Essence canonical_key{totals.launches, plan.steps.size(), totals.bytes, {}, {}, {}};
  const std::vector<plan::ScheduledKernel> steps = must(plan::schedule_all(plan, {}));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const schedule::AccessPlan& load : steps[i].schedule.loads) canonical_key.widths.push_back(load.vector_bytes);
    for (const schedule::AccessPlan& store : steps[i].schedule.stores)
      canonical_key.widths.push_back(store.vector_bytes);
    for (const lowering::Kernel& kernel :
         must(lowering::lower({plan.graph, plan.steps[i].segment, steps[i].loops, steps[i].schedule, target, {}})))
      canonical_key.text += kernel.key;
  }
  for (const partition::FusionBoundary& fusion_boundary : plan.fusion_boundaries)
    canonical_key.reasons.push_back(plan::text_of(fusion_boundary.reasons));
  return canonical_key;
}

/// Plans every spelling, and returns what they have in common.
Essence common_essence(const Program& program) {
  std::optional<Essence> common;
  for (const Spelling& spelling : all_spellings()) {
    const ir::Graph graph = written(program, spelling);
    const Essence canonical_key = essence_of(graph, discrete_gpu());
    if (!common) common = canonical_key;
    EXPECT_EQ(canonical_key.kernels, common->kernels) << spelling.words() << " of\n" << ir::print(graph);
    EXPECT_EQ(canonical_key.bytes, common->bytes) << spelling.words();
    EXPECT_EQ(canonical_key.widths, common->widths) << spelling.words();
    EXPECT_TRUE(canonical_key.text == common->text) << spelling.words() << " has other kernels";
  }
  return *common;
}

/// Whether programs are validated at the sizes that are planned: on a graphics card, or as VKFUSE_TEST_WHOLE says (1 or
/// 0).
bool validates_whole() {
  constexpr std::uint64_t memory = std::uint64_t{8}
                                   << 30;  // five times what four inputs and a result of 64 x 2^20 take
  const DeviceDescription on = device().description();
  return number_in("VKFUSE_TEST_WHOLE").value_or(on.type == "discrete" && on.memory_bytes >= memory ? 1 : 0) != 0;
}

/// Runs a program, at a smaller shape where whole programs take too long.
void validate(Program program, const Shape& small) {
  if (!validates_whole()) program.shape = small;
  const Spelling spelling{true, true, true, true};
  const ir::Graph graph = written(program, spelling);
  const std::string what = fmt::format("{} at {}", name_of(program.from), to_text(program.shape));
  const auto start = std::chrono::steady_clock::now();
  // A row of a matrix product needs all rows of the product before it.
  (program.products ? compare_with_reference : compare_rows)(compile_graph(graph, Build{}), graph,
                                                             small_data(graph, 3, false), what);
  fmt::print("validated {} in {:.1f} s\n", what,
             std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

/// Neither storing what several ops read nor one kernel per op comes to the optimum.
void expect_others_fail(const Program& program, std::int64_t bytes) {
  const ir::Graph graph = written(program, {});
  partition::Options options;
  options.policy = partition::Policy::store_all;
  // Of stored inputs with t1 + t2 at the end, no result of an op has two readers.
  if (!program.adds || program.from != From::stored) {
    EXPECT_GT(essence_of(graph, discrete_gpu(), options).bytes, bytes) << name_of(program.from);
  }
  EXPECT_GT(essence_of(graph, discrete_gpu(), {false}).bytes, bytes) << name_of(program.from);
}

std::int64_t elements(const Program& program) { return program.shape[0].size() * program.shape[1].size(); }

// (a) A row of 512 stays in registers: every input is read once, t5 is written, nothing else is.
TEST(Spelling, ShortRowsAreOneKernelThatReadsInputsOnce) {
  for (const bool adds : {false, true}) {
    for (const From from : {From::stored, From::one_input, From::four_inputs}) {
      const Program program{{Dim(4096), Dim(512)}, false, adds, from};
      const std::int64_t inputs = from == From::stored ? 2 : from == From::one_input ? 1 : 4;
      const Essence canonical_key = common_essence(program);
      EXPECT_EQ(canonical_key.kernels, 1U) << name_of(from);
      EXPECT_EQ(canonical_key.launches, 1) << name_of(from);
      EXPECT_EQ(canonical_key.bytes, (inputs + 1) * elements(program) * 4) << name_of(from);
      for (int width : canonical_key.widths) EXPECT_TRUE(width == 0 || width == 16) << width;
      expect_others_fail(program, canonical_key.bytes);
      validate(program, {Dim(37), Dim(512)});
    }
  }
}

TEST(Spelling, EveryRowIsCompared) {
  const Program program{{Dim(5), Dim(64)}, false, false, From::four_inputs};
  const ir::Graph graph = written(program, {});
  const Data data = small_data(graph, 3, false);
  NamedBytes outputs = compare_rows(compile_graph(graph, Build{}), graph, data, "five rows");
  EXPECT_EQ(check_rows(graph, data, outputs).elements, elements(program));
  EXPECT_EQ(check_rows(graph, data, outputs).max_ratio, check_outputs(graph, data, outputs).max_ratio);
  std::vector<std::byte>& result = outputs.at("y");
  for (std::size_t row = 0; row < 5; ++row) {
    std::byte& exponent = result.at((row * 64 + row) * 4 + 3);
    exponent ^= std::byte{4};
    EXPECT_NE(check_rows(graph, data, outputs).wrong, "") << row;
    exponent ^= std::byte{4};
  }
  EXPECT_EQ(check_rows(graph, data, outputs).wrong, "");
  result.pop_back();
  EXPECT_EQ(check_rows(graph, data, outputs).wrong, "Output 'y' has 1279 bytes instead of 1280.");
}

TEST(Spelling, WithoutOneOrderKernelsDiffer) {
  const Program program{{Dim(4096), Dim(512)}, false, false, From::four_inputs};
  std::set<std::string> texts;
  for (const Spelling& spelling : all_spellings())
    texts.insert(essence_of(written(program, spelling), discrete_gpu(), {}, {.reorder = false}).text);
  EXPECT_GT(texts.size(), 1U) << "the other tests show nothing";
}

// (b) A row of 2^20 does not: t3 must be known before t4, and t4 before t5, so there are three walks along the row, and
// each reads what it needs again. N elements each:
//   stored inputs   t1 t2 | t2 | t1 t2, t5                 6 N, and storing the product is no better: t1 t2, p | t2 |
//   p, t5 one input       x | x | x, t5                          4 N four inputs     a b c d, t1*t2, t2 | t2 | t1*t2,
//   t5    9 N in two kernels, and t3, a number per row, written and read;
//                   a b c d | c d | a b c d, t5            11 N as one
// With t1 + t2 at the end it is that sum in place of the product.
TEST(Spelling, LongRowsRecomputeWhatComesFromOneInputAndStoreWhatComesFromFour) {
  for (const bool adds : {false, true}) {
    for (const From from : {From::stored, From::one_input, From::four_inputs}) {
      const Program program{{Dim(64), Dim(1 << 20)}, false, adds, from};
      const std::int64_t row = 64 * 4;
      const std::int64_t all = elements(program) * 4;
      const Essence canonical_key = common_essence(program);
      EXPECT_EQ(canonical_key.kernels, from == From::four_inputs ? 2U : 1U) << name_of(from);
      EXPECT_EQ(canonical_key.bytes, from == From::stored      ? 6 * all
                                     : from == From::one_input ? 4 * all
                                                               : 9 * all + 2 * row)
          << name_of(from);
      if (from == From::four_inputs) {
        bool told = false;
        for (const std::string& reason : canonical_key.reasons) {
          told = told || reason.find(fmt::format("One kernel would move {} bytes instead of {}.", 11 * all,
                                                 9 * all + 2 * row)) != std::string::npos;
        }
        EXPECT_TRUE(told) << fmt::format("{}", fmt::join(canonical_key.reasons, "\n"));
      }
      // From stored inputs, and where everything is stored anyway, three walks move what three kernels do.
      if (from == From::one_input) expect_others_fail(program, canonical_key.bytes);
      validate(program, {Dim(2), Dim(1 << 17)});
    }
  }
}

// (c) A product of matrices reads both whole, so t3 is stored; all else is computed where it is read: t1 and t2 in the
// loads of both products, and the last product or sum behind the second one.
TEST(Spelling, MatrixProductsStoreTheirResultsAlone) {
  for (const bool adds : {false, true}) {
    for (const From from : {From::stored, From::one_input}) {
      const Program program{{Dim(512), Dim(512)}, true, adds, from};
      const Essence canonical_key = common_essence(program);
      EXPECT_EQ(canonical_key.kernels, 2U) << name_of(from);
      // t1 t2 -> t3, and t1 t2 t3 -> t5; from x alone it is x -> t3, and x t3 -> t5.
      EXPECT_EQ(canonical_key.bytes, (from == From::stored ? 7 : 5) * elements(program) * 4) << name_of(from);
      if (from == From::one_input) expect_others_fail(program, canonical_key.bytes);
      validate(program, {Dim(96), Dim(96)});
    }
  }
}

TEST(Spelling, WhatIsDearIsStoredBeforeALargeMatrixProduct) {
  const Program large{{Dim(16384), Dim(16384)}, true, false, From::one_input_dearly};
  const auto stored = [](const Program& program) {
    const plan::Plan plan = must(plan::make_plan(must(passes::run_pipeline(written(program, {}))), discrete_gpu()));
    std::vector<std::string> ops;
    for (const plan::PlannedKernel& step : plan.steps) {
      for (ir::NodeId id : step.segment.stores) ops.emplace_back(plan.graph.node(id).op->name);
    }
    return ops;
  };
  common_essence(large);
  const std::vector<std::string> ops = stored(large);
  EXPECT_NE(std::find(ops.begin(), ops.end(), "cos"), ops.end()) << fmt::format("{}", fmt::join(ops, ", "));
}

// The axis that a product does not have, put in before it or behind it.
TEST(Spelling, AnAxisAddedBeforeOrBehindAMatrixProductIsTheSame) {
  const Tensor a = Tensor::input("a", DType::f32, {Dim(512), Dim(512)});
  const Tensor b = Tensor::input("b", DType::f32, {Dim(512), Dim(512)});
  const ir::Graph before = graph_of({relu(matmul(a.unsqueeze(0), b.unsqueeze(0)))});
  const ir::Graph behind = graph_of({relu(matmul(a, b).unsqueeze(0))});
  const Essence one = essence_of(before, discrete_gpu());
  const Essence other = essence_of(behind, discrete_gpu());
  EXPECT_EQ(one.kernels, 1U);
  EXPECT_EQ(other.kernels, 1U);
  EXPECT_EQ(one.bytes, other.bytes);
  EXPECT_EQ(one.bytes, 3 * 512 * 512 * 4);
  EXPECT_EQ(one.widths, other.widths);
  EXPECT_EQ(one.text, other.text);
}

}  // namespace
}  // namespace vkfuse::test

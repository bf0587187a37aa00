// Results that are views of what is in memory already: no kernel runs for them, whatever stands around, and a buffer of
// the caller's own is filled all the same.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/compare.hpp"

namespace vkfuse::test {
namespace {

/// The device under test without self-checks, which store every output by a kernel: here the host reads views where
/// they are.
const Device& unchecked_device() {
  static const Device opened = [] {
    DeviceOptions options;
    if (has_least_limits()) options = least_of(device());
    options.self_check = false;
    return must(Device::open(options));
  }();
  return opened;
}

/// So many kernels, and right both ways: on the host, and on buffers of the outputs' own.
void check(const ir::Graph& graph, int kernels, const std::string& what, const SymbolValues& symbols = {}) {
  for (const bool fusion : {true, false}) {
    const Executable program = compile_graph(graph, {.fusion = fusion});
    const Executable unchecked = compile_graph(graph, {.device = &unchecked_device(), .fusion = fusion});
    EXPECT_TRUE(!fusion || are_kernels(specialization_of(program, symbols)->dispatches(), kernels))
        << what << ": " << must(program.explain(Stage::plan));
    for (const std::uint64_t seed : {91, 92}) {  // another run is of other data
      const Data data = data_for({graph, symbols, seed, false});
      for (const Executable* one : {&unchecked, &program}) {
        const Verdict verdict = check_outputs(graph, data, run_on_host(*one, graph, data));
        EXPECT_EQ(verdict.wrong, "") << what << " on the host\n" << ir::print(graph);
        EXPECT_EQ(verdict.max_ratio == 0 || kernels > 0, true) << what;
      }
      compare_with_reference(program, graph, data, what);
    }
  }
}

struct View {
  const char* name;
  Tensor (*build)(const Tensor& x);
  int kernels;
  friend std::ostream& operator<<(std::ostream& out, const View& view) { return out << view.name; }
};

// x is [6, 4, 10].
const View kViews[] = {
    {"reshape",
     [](const Tensor& x) {
       return x.reshape({24, 10});
     },
     0},
    {"flatten", [](const Tensor& x) { return x.reshape({-1}); }, 0},
    {"unsqueeze", [](const Tensor& x) { return x.unsqueeze(1).unsqueeze(-1); }, 0},
    {"slice", [](const Tensor& x) { return x.slice(0, 2, 5); }, 0},
    {"slice_of_a_row", [](const Tensor& x) { return x.slice(0, 3, 4).slice(1, 1, 3); }, 0},
    {"select", [](const Tensor& x) { return x.select(0, 4).select(0, 3); }, 0},
    {"one_element", [](const Tensor& x) { return x.select(0, 4).select(0, 3).select(0, 7); }, 0},
    {"slice_off_every_alignment", [](const Tensor& x) { return x.reshape({240}).slice(0, 3, 101); }, 0},
    {"slice_of_a_slice",
     [](const Tensor& x) {
       return x.reshape({240}).slice(0, 3, 101).slice(0, 5, 50).reshape({9, 5});
     },
     0},
    {"nothing_at_the_end", [](const Tensor& x) { return x.slice(0, 6, 6); }, 0},
    {"swap_with_an_axis_of_one", [](const Tensor& x) { return x.unsqueeze(1).swap_dims(0, 1); }, 0},
    {"there_and_back",
     [](const Tensor& x) {
       return x.permute({2, 0, 1}).permute({1, 2, 0});
     },
     0},
    {"reverse_twice", [](const Tensor& x) { return x.reverse({1}).reverse({1}); }, 0},
    {"cut_by_negative_padding",
     [](const Tensor& x) {
       return x.pad({-1, 0, 0}, {-2, 0, 0});
     },
     0},
    {"half_of_a_concat",
     [](const Tensor& x) {
       return concat({x, Tensor::input("z", x.dtype(), {2, 4, 10})}, 0).slice(0, 6, 8);
     },
     0},
    {"slice_of_columns", [](const Tensor& x) { return x.slice(2, 0, 5); }, 1},
    {"permute",
     [](const Tensor& x) {
       return x.permute({1, 0, 2});
     },
     1},
    {"reverse", [](const Tensor& x) { return x.reverse({0}); }, 1},
    {"every_other", [](const Tensor& x) { return x.slice(0, 0, 6, 2); }, 1},
    {"pad",
     [](const Tensor& x) {
       return x.pad({1, 0, 0}, {0, 0, 0});
     },
     1},
    {"broadcast",
     [](const Tensor& x) {
       return x.unsqueeze(0).broadcast_to({2, 6, 4, 10});
     },
     1},
};

class Aliases : public testing::TestWithParam<View> {};

TEST_P(Aliases, RunNoKernel) {
  for (const DType dtype : {DType::f32, DType::f16, DType::u8, DType::i64}) {
    const Tensor x = Tensor::input("x", dtype, {6, 4, 10});
    check(graph_of({GetParam().build(x)}), GetParam().kernels,
          fmt::format("{} of {}", GetParam().name, name_of(dtype)));
  }
}

INSTANTIATE_TEST_SUITE_P(Differential, Aliases, testing::ValuesIn(kViews),
                         [](const auto& view) { return std::string(view.param.name); });

// --- beside other results --------------------------------------------------------------------------------

TEST(AliasChains, OfInputsOutputsAndEachOther) {
  const Tensor x = Tensor::input("x", DType::f32, {8, 12});
  const Tensor row = x.slice(0, 3, 5);
  const Tensor power = exp(x);
  check(graph_of({x}), 0, "an output that is an input");
  check(graph_of({x, x}), 0, "two of them");
  check(graph_of({x.reshape({96}), x.reshape({4, 24})}), 0, "two views of one input");
  check(graph_of({row, row.reshape({24}), row.reshape({24}).slice(0, 1, 8)}), 0, "each a view of the one before");
  check(graph_of({power, power.reshape({96}), power.slice(0, 1, 3), power}), 1, "views of another output");
  check(graph_of({power.reshape({96})}), 1, "a view of what is computed");
  check(graph_of({row, exp(row), exp(row).sum({1})}), 1, "a view that is computed with");
  check(graph_of({x.reshape({96}), -x, x * x}), 1, "a view beside a kernel of the same input");
  check(graph_of({x.sum({0}).unsqueeze(0), x.reshape({96})}), 1, "a view beside a fold");
}

TEST(AliasChains, OfConstants) {
  const ir::Graph graph = must(ir::parse(R"(graph "constants" {
  %0 = constant {1, 2, 3, 4, 5, 6} : f16[6]
  %1 = slice starts=[1] steps=[1] %0 : f16[4]
  %2 = reshape %1 : f16[2, 2]
  %3 = constant {7} : i32[]
  %4 = reshape %3 : i32[1, 1]
  output "a" = %0
  output "b" = %2
  output "c" = %4
})"));
  check(graph, 1, "views of a constant; the literal is written");
}

TEST(AliasChains, AtEverySizeOfASymbol) {
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), 7});
  const ir::Graph graph = graph_of({x.unsqueeze(0), x.transpose(), x.slice(1, 3, 5), exp(x.slice(1, 3, 5))});
  const Executable program = compile_graph(graph, Build{});
  for (const std::int64_t n : {5, 1, 64, 0, 1}) {
    const Data data = data_for({graph, {{"n", n}}, 93, false});
    EXPECT_EQ(check_outputs(graph, data, run_on_host(program, graph, data)).wrong, "") << n;
    compare_with_reference(program, graph, data, fmt::format("{} rows", n));
  }
}

TEST(AliasChains, AreSaidInThePlan) {
  const Tensor x = Tensor::input("x", DType::f32, {8, 12});
  const Executable program = compile_graph(graph_of({x.slice(0, 2, 4).reshape({24})}), Build{});
  const auto json = nlohmann::json::parse(must(program.explain(Stage::json)));
  EXPECT_EQ(json.at("kernels"), 0);
  EXPECT_EQ(json.at("bytes_fused"), 0);
  ASSERT_EQ(json.at("segments").size(), 1U);
  EXPECT_EQ(json.at("segments")[0].at("kind"), "alias");
  EXPECT_EQ(json.at("segments")[0].at("of"), "%0");
  EXPECT_EQ(json.at("segments")[0].at("offset_bytes"), 2 * 12 * 4);
  EXPECT_NE(must(program.explain(Stage::plan)).find("is the bytes of %0 \"x\" from 96 on"), std::string::npos);
  EXPECT_EQ(program.kernel_count(), 0);
}

// --- on the caller's buffers -------------------------------------------------------------------------------

/// Runs with these inputs' buffers for these outputs; the error's text, or nothing.
std::string run_in_place(const ir::Graph& graph, const std::map<std::string, std::string>& in_place) {
  const Data data = data_for({graph, {}, 94, false});
  try {
    const GuardedRun run = run_guarded(compile_graph(graph, Build{}), graph, data, in_place);
    EXPECT_EQ(run.broken, "");
    EXPECT_EQ(check_outputs(graph, data, run.outputs).wrong, "") << ir::print(graph);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(AliasSharing, TheInputsOwnBufferNeedsNoCopy) {
  const Tensor x = Tensor::input("x", DType::f32, {8, 12});
  EXPECT_EQ(run_in_place(graph_of({x.reshape({96})}), {{"y", "x"}}), "");
  EXPECT_EQ(run_in_place(graph_of({x.reshape({96}), x.unsqueeze(0)}), {{"y", "x"}, {"y1", "x"}}), "");
  EXPECT_EQ(run_in_place(graph_of({x.reshape({96}), exp(x), x.transpose()}), {{"y", "x"}}), "");
}

TEST(AliasSharing, HarmIsRefused) {
  const Tensor x = Tensor::input("x", DType::f32, {8, 12});
  // Bytes from the middle would be moved to the front while they are read.
  EXPECT_NE(run_in_place(graph_of({x.slice(0, 1, 8)}), {{"y", "x"}}).find("Output 'y' shares memory with"),
            std::string::npos);
  // The view stands for what the other result overwrites.
  EXPECT_NE(run_in_place(graph_of({x.reshape({96}), exp(x)}), {{"y", "x"}, {"y1", "x"}}).find("share memory"),
            std::string::npos);
}

}  // namespace
}  // namespace vkfuse::test

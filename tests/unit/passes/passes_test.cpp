// Passes: what each makes of a graph, and that none changes what a graph computes.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "passes/passes.hpp"
#include "support/cases.hpp"
#include "support/compare.hpp"
#include "support/device.hpp"
#include "support/text_ir.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

using Pass = Result<ir::Graph> (*)(const ir::Graph&);

std::string after(Pass pass, const std::string& body) {
  const ir::Graph made = must(pass(must(ir::parse("graph \"g\" {\n" + body + "}\n"))));
  must(ir::verify(made));
  const std::string text = ir::print(made);
  return text.substr(text.find('\n') + 1, text.rfind('}') - text.find('\n') - 1);
}

Result<ir::Graph> in_one_order(const ir::Graph& graph) { return passes::canonicalize(graph); }
Result<ir::Graph> scatters_compared(const ir::Graph& graph) { return passes::decompose(graph); }
Result<ir::Graph> scatters_sorted(const ir::Graph& graph) { return passes::decompose(graph, 0); }
Result<ir::Graph> once_each(const ir::Graph& graph) { return passes::canonicalize(graph, /*reorder=*/false); }

TEST(Passes, WhatNoOutputNeedsGoesAndInputsStay) {
  EXPECT_EQ(
      after(passes::remove_dead,
            "  %0 = input \"x\" : f32[4]\n  %1 = input \"unused\" : f32[4]\n  %2 = exp %0 : f32[4]\n"
            "  %3 = neg %1 : f32[4]\n  output \"y\" = %2\n"),
      "  %0 = input \"x\" : f32[4]\n  %1 = input \"unused\" : f32[4]\n  %2 = exp %0 : f32[4]\n  output \"y\" = %2\n");
}

TEST(Passes, ViewsThatChangeNothingGo) {
  EXPECT_EQ(after(passes::drop_identities,
                  "  %0 = input \"x\" : f16[2, 6]\n  %1 = slice starts=[0, 0] steps=[1, 1] %0 : f16[2, 6]\n"
                  "  %2 = copy %1 : f16[2, 6]\n  %3 = concat axis=0 %2 : f16[2, 6]\n  %4 = broadcast %3 : f16[2, 6]\n"
                  "  %5 = permute axes=[0, 1] %4 : f16[2, 6]\n  %6 = constant {0} : f16[]\n  %7 = pad low=[0, 0] "
                  "high=[0, 0] %5 %6 : f16[2, 6]\n"
                  "  %8 = reshape %7 : f16[12]\n  %9 = reshape %8 : f16[2, 6]\n  output \"y\" = %9\n"),
            "  %0 = input \"x\" : f16[2, 6]\n  %1 = constant {0} : f16[]\n  %2 = reshape %0 : f16[12]\n  output \"y\" "
            "= %0\n");
}

TEST(Passes, TwoPermutesAreOneAndTwoThatCancelAreNone) {
  EXPECT_EQ(after(passes::drop_identities,
                  "  %0 = input \"x\" : f32[2, 3, 4]\n  %1 = permute axes=[1, 2, 0] %0 : f32[3, 4, 2]\n"
                  "  %2 = permute axes=[1, 2, 0] %1 : f32[4, 2, 3]\n  %3 = permute axes=[2, 0, 1] %1 : f32[2, 3, 4]\n"
                  "  output \"y\" = %2\n  output \"y1\" = %3\n"),
            "  %0 = input \"x\" : f32[2, 3, 4]\n  %1 = permute axes=[1, 2, 0] %0 : f32[3, 4, 2]\n  %2 = permute "
            "axes=[2, 0, 1] %0 : f32[4, 2, 3]\n"
            "  output \"y\" = %2\n  output \"y1\" = %0\n");
}

TEST(Passes, OpsOnLiteralsAreLiterals) {
  // What is folded is what the device would store: 1/3 in f16, and wrapped integers.
  EXPECT_EQ(after(passes::fold_literals,
                  "  %0 = constant {3} : f16[]\n  %1 = reciprocal %0 : f16[]\n  %2 = constant {200} : u8[]\n  %3 = add "
                  "%2 %2 : u8[]\n"
                  "  %4 = cast %1 : f32[]\n  %5 = input \"x\" : f32[2]\n  %6 = mul %5 %4 : f32[2]\n  output \"y\" = "
                  "%6\n  output \"z\" = %3\n"),
            "  %0 = constant {3} : f16[]\n  %1 = constant {0.33325195} : f16[]\n  %2 = constant {200} : u8[]\n  %3 = "
            "constant {144} : u8[]\n"
            "  %4 = constant {0.33325195} : f32[]\n  %5 = input \"x\" : f32[2]\n  %6 = mul %5 %4 : f32[2]\n  output "
            "\"y\" = %6\n  output \"z\" = %3\n");
}

TEST(Passes, SumsThatAreDividedByTheirLengthAreMeans) {
  const std::string rows = "  %0 = input \"x\" : f32[4, 6]\n";
  const std::string mean =
      rows + "  %1 = reduce_mean axes=[1] %0 : f32[4]\n  %2 = reshape %1 : f32[4, 1]\n  output \"y\" = %2\n";
  EXPECT_EQ(
      after(passes::name_means, rows + "  %1 = reduce_sum axes=[1] %0 : f32[4]\n  %2 = reshape %1 : f32[4, 1]\n  %3 = "
                                       "constant {6} : f32[]\n  %4 = div %2 %3 : f32[4, 1]\n  output \"y\" = %4\n"),
      mean);
  EXPECT_EQ(after(passes::name_means,
                  rows + "  %1 = reduce_sum axes=[1] %0 : f32[4]\n  %2 = reshape %1 : f32[4, 1]\n  %3 = constant "
                         "{0.16666667} : f32[1]\n  %4 = mul %3 %2 : f32[4, 1]\n  output \"y\" = %4\n"),
            mean);
  // Another number, another dtype, the other way round, a length that only a run tells.
  for (const std::string& other :
       {rows + "  %1 = reduce_sum axes=[1] %0 : f32[4]\n  %2 = constant {5} : f32[]\n  %3 = div %1 %2 : f32[4]\n  "
               "output \"y\" = %3\n",
        rows + "  %1 = reduce_sum axes=[1] %0 : f32[4]\n  %2 = constant {6} : f32[]\n  %3 = div %2 %1 : f32[4]\n  "
               "output \"y\" = %3\n",
        rows + "  %1 = reduce_max axes=[1] %0 : f32[4]\n  %2 = constant {6} : f32[]\n  %3 = div %1 %2 : f32[4]\n  "
               "output \"y\" = %3\n",
        std::string("  %0 = input \"x\" : f16[4, 6]\n  %1 = reduce_sum axes=[1] %0 : f16[4]\n  %2 = constant {6} : "
                    "f16[]\n  %3 = div %1 %2 : f16[4]\n  output \"y\" = %3\n"),
        std::string("  %0 = input \"x\" : f32[4, n]\n  %1 = reduce_sum axes=[1] %0 : f32[4]\n  %2 = constant {6} : "
                    "f32[]\n  %3 = div %1 %2 : f32[4]\n  output \"y\" = %3\n")}) {
    EXPECT_EQ(after(passes::name_means, other), other);
  }
}

/// The sum of the exponentials of %0 - %10, the centre, which may be made of the largest elements %1 [4] or %2 [4, 1],
/// of 0 (%3) and infinity (%4), and of magnitudes (%5).
std::string sum_about(const std::string& centre, const std::string& outputs = "") {
  return numbered(
      "  %0 = input \"x\" : f32[4, 6]\n  %1 = reduce_max axes=[1] %0 : f32[4]\n  %2 = reshape %1 : f32[4, 1]\n  %3 = "
      "constant {0} : f32[]\n  %4 = constant {inf} : f32[]\n  %5 = abs %2 : f32[4, 1]\n" +
      centre +
      "  %20 = sub %0 %10 : f32[4, 6]\n  %21 = exp %20 : f32[4, 6]\n  %22 = reduce_sum axes=[1] %21 : f32[4]\n" +
      outputs + "  output \"y\" = %22\n");
}

TEST(Passes, SumsAboutAGuardedMaximumAreThoseOfASoftmax) {
  const std::string sum =
      "  %0 = input \"x\" : f32[4, 6]\n  %1 = reduce_max axes=[1] %0 : f32[4]\n  %2 = reshape %1 : f32[4, 1]\n  %3 = "
      "sub %0 %2 : f32[4, 6]\n  %4 = exp %3 : f32[4, 6]\n  %5 = reduce_sum axes=[1] %4 : f32[4]\n  %6 = is_finite %1 : "
      "bool[4]\n  %7 = exp %1 : f32[4]\n  %8 = select %6 %5 %7 : f32[4]\n  output \"y\" = %8\n";
  const std::string b = " : bool[4, 1]\n", f = " : f32[4, 1]\n";
  for (const std::string& centre : {
           "  %9 = is_finite %2" + b + "  %10 = select %9 %2 %3" + f,
           "  %9 = is_inf %2" + b + "  %10 = select %9 %3 %2" + f,
           "  %8 = is_inf %2" + b + "  %9 = not %8" + b + "  %10 = select %9 %2 %3" + f,
           "  %9 = eq %5 %4" + b + "  %10 = select %9 %3 %2" + f,
           "  %9 = ne %4 %5" + b + "  %10 = select %9 %2 %3" + f,
           "  %8 = is_finite %1 : bool[4]\n  %9 = select %8 %1 %3 : f32[4]\n  %10 = reshape %9" + f,
           "  %8 = broadcast %3" + f + "  %9 = is_finite %2" + b + "  %10 = select %9 %2 %8" + f,
       }) {
    EXPECT_EQ(after(passes::unguard_sums, sum_about(centre)), sum) << centre;
  }
  // Another guard, another maximum, exponentials that something else reads.
  for (const std::string& other : {
           sum_about("  %9 = is_finite %2" + b + "  %10 = select %9 %3 %2" + f),
           sum_about("  %9 = is_finite %2" + b + "  %10 = select %9 %2 %4" + f),
           sum_about("  %8 = neg %2" + f + "  %9 = is_finite %8" + b + "  %10 = select %9 %2 %3" + f),
           sum_about("  %8 = reduce_min axes=[1] %0 : f32[4]\n  %9 = is_finite %8 : bool[4]\n  %7 = select %9 %8 %3 : "
                     "f32[4]\n  %10 = reshape %7" +
                     f),
           sum_about("  %9 = is_finite %2" + b + "  %10 = select %9 %2 %3" + f, "  output \"e\" = %21\n"),
       }) {
    EXPECT_EQ(after(passes::unguard_sums, other), after(passes::remove_dead, other)) << other;
  }
}

TEST(Passes, EqualComputationsAreOneNodeAndOthersAreNot) {
  const std::string slices =
      "  %0 = input \"x\" : f32[4, 8]\n  %1 = slice starts=[0, 0] steps=[1, 1] %0 : f32[4, 4]\n"
      "  %2 = slice starts=[0, 4] steps=[1, 1] %0 : f32[4, 4]\n  %3 = slice starts=[0, 0] steps=[1, 1] %0 : f32[4, 4]\n"
      "  %4 = sub %1 %2 : f32[4, 4]\n  %5 = mul %4 %3 : f32[4, 4]\n  output \"y\" = %5\n";
  EXPECT_EQ(after(once_each, slices),
            "  %0 = input \"x\" : f32[4, 8]\n  %1 = slice starts=[0, 0] steps=[1, 1] %0 : f32[4, 4]\n"
            "  %2 = slice starts=[0, 4] steps=[1, 1] %0 : f32[4, 4]\n  %3 = sub %1 %2 : f32[4, 4]\n"
            "  %4 = mul %3 %1 : f32[4, 4]\n  output \"y\" = %4\n");
  const std::string reductions =
      "  %0 = input \"x\" : f32[4, 4]\n  %1 = reduce_sum axes=[0] %0 : f32[4]\n  %2 = reduce_sum axes=[1] %0 : f32[4]\n"
      "  %3 = sub %1 %2 : f32[4]\n  output \"y\" = %3\n";
  EXPECT_EQ(after(once_each, reductions), reductions);
  const std::string constants =
      "  %0 = input \"x\" : f32[4]\n  %1 = constant {1} : f32[]\n  %2 = constant {2} : f32[]\n  %3 = add %0 %1 : "
      "f32[4]\n"
      "  %4 = mul %3 %2 : f32[4]\n  output \"y\" = %4\n";
  EXPECT_EQ(after(once_each, constants), constants);
}

TEST(Passes, GraphsThatDifferInHowTheyAreWrittenHaveOneForm) {
  const char* const written[] = {
      "  %0 = input \"a\" : f32[4]\n  %1 = input \"b\" : f32[4]\n  %2 = exp %0 : f32[4]\n  %3 = neg %1 : f32[4]\n  %4 "
      "= add %2 %3 : f32[4]\n"
      "  %5 = mul %4 %0 : f32[4]\n  output \"y\" = %5\n",
      "  %0 = input \"b\" : f32[4]\n  %1 = neg %0 : f32[4]\n  %2 = input \"a\" : f32[4]\n  %3 = exp %2 : f32[4]\n  %4 "
      "= add %1 %3 : f32[4]\n"
      "  %5 = mul %2 %4 : f32[4]\n  output \"y\" = %5\n"};
  EXPECT_EQ(after(in_one_order, written[0]), after(in_one_order, written[1]));
  EXPECT_NE(after(once_each, written[0]), after(once_each, written[1]));
}

TEST(Passes, OutputsAreNodesOfTheirOwn) {
  const std::string made =
      after(passes::separate_outputs,
            "  %0 = input \"x\" : f32[4]\n  %1 = exp %0 : f32[4]\n  %2 = constant {1, 2} : f32[2]\n"
            "  output \"y\" = %1\n  output \"again\" = %1\n  output \"x too\" = %0\n  output \"two\" = %2\n");
  EXPECT_NE(made.find("output \"y\" = %1\n  output \"again\" = %3\n  output \"x too\" = %4\n  output \"two\" = %5\n"),
            std::string::npos)
      << made;
}

Result<ir::Graph> joined(const ir::Graph& graph) {
  VKF_TRY(found, passes::merge_matmuls(graph));
  return found ? std::move(found->graph) : graph;
}

TEST(Passes, ProductsOfOneValueAreOneAndPartsOfIt) {
  const std::string dot = " = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] ";
  EXPECT_EQ(after(joined, "  %0 = input \"x\" : f32[4, 8]\n  %1 = input \"a\" : f32[8, 2]\n  %2" + dot +
                              "%0 %1 : f32[4, 2]\n  %3 = input \"b\" : f32[8, 6]\n  %4" + dot +
                              "%0 %3 : f32[4, 6]\n  output \"y\" = %2\n  output \"z\" = %4\n"),
            "  %0 = input \"x\" : f32[4, 8]\n  %1 = input \"a\" : f32[8, 2]\n  %2 = input \"b\" : f32[8, 6]\n  %3 = "
            "concat axis=1 %1 %2 : f32[8, 8]\n  %4" +
                dot +
                "%0 %3 : f32[4, 8]\n  %5 = slice starts=[0, 0] steps=[1, 1] %4 : f32[4, 2]\n  %6 = slice starts=[0, 2] "
                "steps=[1, 1] %4 : f32[4, 6]\n  output \"y\" = %5\n  output \"z\" = %6\n");
  const auto stays = [&](const std::string& body) {
    EXPECT_FALSE(must(passes::merge_matmuls(must(ir::parse("graph \"g\" {\n" + body + "}\n"))))) << body;
  };
  const std::string inputs =
      "  %0 = input \"x\" : f32[4, 8]\n  %1 = input \"a\" : f32[8, 4]\n  %2 = input \"b\" : f32[8, 4]\n  %3" + dot +
      "%0 %1 : f32[4, 4]\n";
  // The halves of a gated pair, however far they are from where they meet.
  stays(inputs + "  %4" + dot +
        "%0 %2 : f32[4, 4]\n  %5 = exp %3 : f32[4, 4]\n  %6 = mul %5 %4 : f32[4, 4]\n  output \"y\" = %6\n");
  // What is multiplied is another product, or has another length.
  stays(inputs + "  %4 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[1] %2 %3 : f32[8, 4]\n  %5" + dot +
        "%0 %4 : f32[4, 4]\n  output \"y\" = %5\n");
  stays(
      "  %0 = input \"x\" : f32[2, 4, 8]\n  %1 = input \"a\" : f32[8, 4]\n  %2 = input \"b\" : f32[4, 8]\n"
      "  %3 = dot batch_a=[] batch_b=[] contract_a=[2] contract_b=[0] %0 %1 : f32[2, 4, 4]\n  %4 = dot batch_a=[] "
      "batch_b=[] contract_a=[1] contract_b=[0] %0 %2 : f32[2, 8, 8]\n"
      "  output \"y\" = %3\n  output \"z\" = %4\n");
}

/// Heads between tokens: results of attention, as the product that follows reads them.
TEST(Passes, RowsThatAPermutePartsAreACopy) {
  const auto heads = [](const std::string& sizes, const std::string& axes, const std::string& after_it) {
    return "  %0 = input \"w\" : f32[" + sizes + ", 5]\n  %1 = input \"v\" : f32[" + sizes +
           ", 8]\n  %2 = dot batch_a=[0, 1] batch_b=[0, 1] contract_a=[2] contract_b=[2] %0 %1 : f32[2, 3, 5, 8]\n  %3 "
           "= "
           "permute axes=[" +
           axes + "] %2 : " + after_it;
  };
  const auto copies = [](const std::string& body) {
    const std::string made = after(passes::copy_parted_rows, body);
    return made.find(" = copy ") != std::string::npos;
  };
  const std::string dot = " = dot batch_a=[] batch_b=[] contract_a=";
  const std::string weights = "  %4 = input \"o\" : f32[24, 6]\n";
  const std::string tokens = heads("2, 3, 5", "0, 2, 1, 3", "f32[2, 5, 3, 8]\n") + weights;
  EXPECT_TRUE(copies(tokens + "  %5 = reshape %3 : f32[2, 5, 24]\n  %6" + dot +
                     "[2] contract_b=[0] %5 %4 : f32[2, 5, 6]\n"
                     "  output \"y\" = %6\n"));
  EXPECT_TRUE(copies(tokens + "  %5 = reshape %3 : f32[10, 24]\n  %6" + dot +
                     "[1] contract_b=[0] %5 %4 : f32[10, 6]\n"
                     "  output \"y\" = %6\n"))
      << "tokens of all sentences as one axis";
  EXPECT_FALSE(copies(tokens + "  %5 = reshape %3 : f32[10, 24]\n  %6" + dot +
                      "[1] contract_b=[0] %5 %4 : f32[10, 6]\n"
                      "  output \"y\" = %6\n  output \"z\" = %3\n"))
      << "another node reads them";
  EXPECT_FALSE(copies(heads("2, 3, 5", "2, 0, 1, 3", "f32[5, 2, 3, 8]\n") +
                      "  %4 = input \"o\" : f32[48, 6]\n  %5 = reshape %3 : f32[5, 48]\n  %6" + dot +
                      "[1] contract_b=[0] %5 %4 : f32[5, 6]\n  output \"y\" = %6\n"))
      << "rows have one stride as they are";
}

/// A constant factor, and which of its axes meet x.
struct Factor {
  std::vector<std::int64_t> sizes;
  int contracted = 0;
  std::optional<int> batch = {};
};

/// Its product with x, of which the constant is the first or the second factor.
ir::Graph product_with(const Factor& factor, DType dtype, bool is_first) {
  Shape shape;
  std::int64_t count = 1;
  for (const std::int64_t size : factor.sizes) {
    shape.emplace_back(size);
    count *= size;
  }
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < count; ++i) ir::encode(dtype, static_cast<double>(i * 7 % 11 - 5), bytes);
  const Tensor constant = Tensor::constant(dtype, shape, bytes);
  Shape sizes{Dim(2), shape[static_cast<std::size_t>(factor.contracted)]};
  if (factor.batch) sizes.insert(sizes.begin(), shape[static_cast<std::size_t>(*factor.batch)]);
  const Tensor x = Tensor::input("x", dtype, sizes);
  DotAxes axes{.contract_a = {factor.batch ? 2 : 1}, .contract_b = {factor.contracted}};
  if (factor.batch) {
    axes.batch_a = {0};
    axes.batch_b = {*factor.batch};
  }
  if (!is_first) return graph_of({dot_general(x, constant, axes)});
  std::swap(axes.contract_a, axes.contract_b);
  std::swap(axes.batch_a, axes.batch_b);
  return graph_of({dot_general(constant, x, axes)});
}

TEST(Passes, PackedFactorsEndWithTheContractedAxisAndChangeNoValue) {
  const Factor factors[] = {{{16, 5}}, {{5, 16, 3}, 1}, {{16, 7, 3}, 0, 2}, {{3, 16, 5}, 1, 0}, {{16, 3, 5}, 0, 1}};
  for (const DType dtype : {DType::f16, DType::f32, DType::i8, DType::i32}) {
    for (const Factor& factor : factors) {
      for (const bool is_first : {false, true}) {
        const ir::Graph graph = product_with(factor, dtype, is_first);
        const ir::Graph made = must(passes::pack_factors(graph, 0));
        must(ir::verify(made));
        for (const ir::Node& node : made.nodes()) {
          if (node.op->cls == ops::OpClass::constant) {
            EXPECT_EQ(node.type.shape.back(), Dim(16));
          }
        }
        expect_same_values(graph, made, data_for({graph, {}, 5, false}),
                           fmt::format("{}, contracted {}", name_of(dtype), factor.contracted));
        EXPECT_EQ(ir::print(must(passes::pack_factors(graph))), ir::print(graph)) << "it is small";
      }
    }
  }
}

TEST(Passes, FactorsStayWhereTheyGainNothing) {
  const auto stays = [](const ir::Graph& graph) {
    EXPECT_EQ(ir::print(must(passes::pack_factors(graph, 0))), ir::print(graph));
  };
  stays(product_with({{16, 8}}, DType::f32, false));     // rows of 32 bytes
  stays(product_with({{15, 5}}, DType::f32, false));     // turned, they would have 60
  stays(product_with({{5, 16}, 1}, DType::f32, false));  // it is the last
  // Read by something else, and by products along two axes.
  std::vector<std::byte> bytes(std::size_t{16 * 5 * 4});
  const Tensor w = Tensor::constant(DType::f32, {16, 5}, bytes);
  const Tensor x = Tensor::input("x", DType::f32, {2, 16}), z = Tensor::input("z", DType::f32, {2, 5});
  stays(graph_of({matmul(x, w), w + 1.0}));
  stays(graph_of({matmul(x, w), dot_general(z, w, {.contract_a = {1}, .contract_b = {1}})}));
}

/// A product [rows, 32] by [32, columns] whose result is read turned round, and what else reads it.
std::string turned_product(int rows, int columns, const std::string& more = "") {
  return fmt::format(
      "  %0 = input \"a\" : f32[{0}, 32]\n  %1 = input \"b\" : f32[32, {1}]\n"
      "  %2 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %1 : f32[{0}, {1}]\n"
      "  %3 = permute axes=[1, 0] %2 : f32[{1}, {0}]\n  %4 = exp %3 : f32[{1}, {0}]\n  output \"y\" = %4\n{2}",
      rows, columns, more);
}

TEST(Passes, OperandsOfProductsComeInTheOrderThatReadersAskFor) {
  const auto is_turned = [](const std::string& body) {
    return after(passes::order_dot_operands, body).find("contract_a=[0] contract_b=[1] %1 %0") != std::string::npos;
  };
  EXPECT_TRUE(is_turned(turned_product(32, 1024)));
  EXPECT_TRUE(is_turned(turned_product(8, 4096)));
  EXPECT_FALSE(is_turned(turned_product(4, 8192))) << "its rows are shorter than those of the second operand";
  EXPECT_FALSE(is_turned(turned_product(32, 16))) << "it is in a cache";
  EXPECT_FALSE(is_turned(turned_product(32, 1024, "  %5 = neg %2 : f32[32, 1024]\n  output \"z\" = %5\n")))
      << "another reader asks for the order that there is";
  EXPECT_TRUE(
      is_turned(turned_product(32, 1024,
                               "  %5 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[1] %2 %2 : f32[32, 32]\n"
                               "  output \"z\" = %5\n")))
      << "a product takes any order";
}

TEST(Passes, OperandsOfProductsInAnotherOrderChangeNoValue) {
  const Tensor a = Tensor::input("a", DType::f32, {3, 5, 2, 80, 7}), b = Tensor::input("b", DType::f32, {2, 7, 9, 3});
  const DotAxes axes{.contract_a = {4}, .contract_b = {1}, .batch_a = {0, 2}, .batch_b = {3, 0}};
  const Tensor product = dot_general(a, b, axes);  // [3, 2, 5, 80, 9]
  const ir::Graph graph = graph_of({product.permute({1, 4, 0, 2, 3}).reshape({2, 9, 3, 400}) + 1.0,
                                    product.permute({0, 1, 4, 3, 2}).slice(3, 1, 79)});
  const ir::Graph made = must(passes::order_dot_operands(graph));
  must(ir::verify(made));
  EXPECT_NE(ir::print(made), ir::print(graph));
  expect_same_values(graph, made, data_for({graph, {}, 5, false}), "operands in another order");
}

/// However short they are.
Result<ir::Graph> rows_padded(const ir::Graph& graph) {
  VKF_TRY(made, passes::pad_chosen_rows(graph, {0, 100}));
  return made ? std::move(made->graph) : graph;
}

TEST(Passes, ChangeNoValueOfRandomGraphs) {
  const std::pair<const char*, Pass> all[] = {{"remove_dead", passes::remove_dead},
                                              {"decompose", scatters_compared},
                                              {"decompose by sorting", scatters_sorted},
                                              {"drop_identities", passes::drop_identities},
                                              {"fold_literals", passes::fold_literals},
                                              {"canonicalize", in_one_order},
                                              {"canonicalize where it is", once_each},
                                              {"separate_outputs", passes::separate_outputs},
                                              {"pad_rows", rows_padded},
                                              {"write_out_updates", passes::write_out_updates}};
  CaseOptions options;
  options.caps.arithmetic.int64 = options.caps.arithmetic.float64 = true;
  options.every_class = true;
  options.max_ops = 14;
  std::map<std::string, int> changed;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const Case one = random_case(seed, options);
    const Data data = data_for(one);
    for (const auto& [name, pass] : all) {
      const ir::Graph made = must(pass(one.graph));
      must(ir::verify(made));
      if (ir::print(made) == ir::print(one.graph)) continue;
      ++changed[name];
      expect_same_values(one.graph, made, data, fmt::format("{}, seed {}", name, seed));
    }
  }
  for (const auto& [name, pass] : all) EXPECT_GT(changed[name], 0) << name;
}

}  // namespace
}  // namespace vkfuse::test

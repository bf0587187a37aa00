// Loops of more iterations than one driver goes through: lavapipe leaves those of an invocation after 65,535, and says
// nothing.
#include <gtest/gtest.h>

#include "support/fuzz.hpp"

namespace vkfuse::test {
namespace {

struct Long {
  const char* name;
  const char* text;
  friend void PrintTo(const Long& one, std::ostream* out) { *out << one.name; }
};

const Long kLong[] = {
    {"scan_along_the_first_axis", R"(graph "g" {
  %0 = input "x" : i32[600000, 2]
  %1 = cumsum axis=0 exclusive=false reverse=false %0 : i32[600000, 2]
  output "y" = %1
})"},
    // The steps in which threads scan across each other are counted, too.
    {"scan_across_threads", R"(graph "g" {
  %0 = input "x" : i32[3, 3400000]
  %1 = cumsum axis=1 exclusive=false reverse=false %0 : i32[3, 3400000]
  output "y" = %1
})"},
    {"product", R"(graph "g" {
  %0 = input "a" : i32[8, 70000]
  %1 = input "b" : i32[70000, 8]
  %2 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %1 : i32[8, 8]
  output "y" = %2
})"},
    {"product_of_elements_one_by_one", R"(graph "g" {
  %0 = input "a" : i32[31, 19679]
  %1 = input "b" : i32[19679, 63]
  %2 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %1 : i32[31, 63]
  output "y" = %2
})"},
    {"attention", R"(graph "g" {
  %0 = input "q" : f32[1, 8, 16]
  %1 = input "k" : f32[1, 60000, 16]
  %2 = input "v" : f32[1, 60000, 16]
  %3 = dot batch_a=[0] batch_b=[0] contract_a=[2] contract_b=[2] %0 %1 : f32[1, 8, 60000]
  %4 = reduce_max axes=[2] %3 : f32[1, 8]
  %5 = reshape %4 : f32[1, 8, 1]
  %6 = sub %3 %5 : f32[1, 8, 60000]
  %7 = exp %6 : f32[1, 8, 60000]
  %8 = reduce_sum axes=[2] %7 : f32[1, 8]
  %9 = dot batch_a=[0] batch_b=[0] contract_a=[2] contract_b=[1] %7 %2 : f32[1, 8, 16]
  %10 = reshape %8 : f32[1, 8, 1]
  %11 = div %9 %10 : f32[1, 8, 16]
  output "y" = %11
})"},
    {"scatter", R"(graph "g" {
  %0 = input "base" : i32[8, 4]
  %1 = input "index1" : i32[150000]
  %2 = input "updates" : i32[150000, 4]
  %3 = scatter mode=add %0 %1 %2 : i32[8, 4]
  output "y" = %3
})"},
};

class LongLoops : public testing::TestWithParam<Long> {};

TEST_P(LongLoops, AreGoneThroughToTheEnd) {
  const ir::Graph graph = must(ir::parse(GetParam().text));
  Build how;
  how.tuning.matmul = true;  // small ones are left to rows
  compare_with_reference(compile_graph(graph, how), graph, small_data(graph, 1, false), GetParam().name);
}

/// Newer versions of the driver go on: the loops are as short there, because a plan does not ask for its version.
TEST_P(LongLoops, AreCutForADriverThatLeavesThem) {
  if (device().description().name.find("llvmpipe") == std::string::npos)
    GTEST_SKIP() << "No other driver is known to leave loops.";
  const Executable program = compile_graph(must(ir::parse(GetParam().text)), Build{});
  for (const auto& step : specialization_of(program)->steps) {
    const auto* rows = step.schedule.get_if<schedule::ReductionParams>();
    if (rows == nullptr) continue;
    EXPECT_LE(schedule::ceil_div(rows->iterations, step.schedule.splits), 1 << 16) << GetParam().name;
  }
}

INSTANTIATE_TEST_SUITE_P(Differential, LongLoops, testing::ValuesIn(kLong),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace vkfuse::test

// Views, gathers, reductions, scans, sorts and scatter in the graph: their text, their shapes and what is
// refused.
#include <gtest/gtest.h>

#include <set>

#include "passes/passes.hpp"
#include "support/device.hpp"
#include "unit/ir/every_op.hpp"

namespace vkfuse::test {
namespace {

using ops::OpClass;

bool is_structured(const ops::OpRow& op) {
  return op.cls >= OpClass::view;  // the classes that add_structured takes come last
}

TEST(StructuredText, EveryOpIsPrintedAsItIsRead) {
  const ir::Graph graph = must(ir::parse(kEveryOp));
  EXPECT_EQ(ir::print(graph), kEveryOp);
  must(ir::verify(graph));
  std::set<std::string_view> seen;
  for (const ir::Node& node : graph.nodes()) seen.insert(node.op->name);
  for (const ops::OpRow& op : ops::table()) {
    if (is_structured(op)) {
      EXPECT_EQ(seen.count(op.name), 1U) << op.name;
    }
  }
  for (const char* mode : {"set", "add", "mul", "max", "min"})
    EXPECT_EQ(ir::name_of(*ir::scatter_mode_named(mode)), mode);
}

struct Refused {
  const char* statement;  ///< after the inputs below
  const char* sentence;
};

// %0 is f32[2, 4], %1 is f32[n, 12], %2 is f32[], %3 is i32[3], %4 is bool[2], %5 is f32[0, 3], %6 is i32[2, 3].
constexpr const char* kInputs =
    " %0 = input \"a\" : f32[2, 4]\n %1 = input \"b\" : f32[n, 12]\n %2 = input \"c\" : f32[]\n %3 = input \"d\" : "
    "i32[3]\n"
    " %4 = input \"e\" : bool[2]\n %5 = input \"f\" : f32[0, 3]\n %6 = input \"g\" : i32[2, 3]\n";

const Refused kRefused[] = {
    {"reshape %0 : f32[3, 3]",
     "'reshape' of f32[2, 4] to [3, 3] does not keep the number of elements: the numbers multiply out to 8 and to 9."},
    {"reshape %1 : f32[n, 4, 4]",
     "'reshape' of f32[n, 12] to [n, 4, 4] does not keep the number of elements: the numbers multiply out to 12 and to "
     "16."},
    {"reshape %1 : f32[k]",
     "'reshape' of f32[n, 12] to [k] leaves out the symbol 'n': no symbol stands for a product of symbols and numbers, "
     "so each one stays as it is."},
    {"reshape %0 : f32[k]", "'reshape' of f32[2, 4] to [k] names the symbol 'k' more often than the operand does."},
    {"reshape %1 : f32[n, n, 12]",
     "'reshape' of f32[n, 12] to [n, n, 12] names the symbol 'n' more often than the operand does."},
    {"reshape %5 : f32[4294967296, 4294967296]",
     "A tensor of shape [4294967296, 4294967296] has more elements than 64 bits can count."},
    {"reshape %0 %0 : f32[8]", "'reshape' takes 1 operand, but 2 were given."},
    {"reshape %0 : f16[8]", "'reshape' gives f32[8], but f16[8] is declared."},
    {"permute axes=[1] %0 : f32[4, 2]", "'permute' takes one entry of axes for each of 2 axes, but 1 was given."},
    {"permute axes=[1, 2] %0 : f32[4, 2]", "'permute' names axis 2, but f32[2, 4] has 2 axes."},
    {"permute axes=[-1, 0] %0 : f32[4, 2]", "'permute' names axis -1, but f32[2, 4] has 2 axes."},
    {"permute axes=[1, 1] %0 : f32[4, 2]", "'permute' names axis 1 twice."},
    {"permute axes=[0, 1] %0 : f32[4, 2]", "'permute' gives f32[2, 4], but f32[4, 2] is declared."},
    {"broadcast %0 : f32[2, 5]", "'broadcast' cannot stretch f32[2, 4] to [2, 5]."},
    {"broadcast %0 : f32[4]", "'broadcast' cannot stretch f32[2, 4] to [4]."},
    {"broadcast %1 : f32[m, 12]", "'broadcast' cannot stretch f32[n, 12] to [m, 12]."},
    {"slice starts=[0] steps=[1, 1] %0 : f32[2, 4]",
     "'slice' takes one entry of starts for each of 2 axes, but 1 was given."},
    {"slice starts=[0, 0] steps=[1, 1, 1] %0 : f32[2, 4]",
     "'slice' takes one entry of steps for each of 2 axes, but 3 were given."},
    {"slice starts=[0, 0] steps=[1, 1] %0 : f32[8]",
     "'slice' of f32[2, 4] is declared with the shape [8], which has another number of axes."},
    {"slice starts=[0, 0] steps=[1, 0] %0 : f32[2, 4]", "'slice' has a step of 0 along axis 1."},
    {"slice starts=[0, 1] steps=[1, 1] %0 : f32[2, 4]",
     "'slice' takes 4 elements from 1 in steps of 1 along axis 1, which is out of bounds of f32[2, 4]."},
    {"slice starts=[0, 2] steps=[1, -1] %0 : f32[2, 4]",
     "'slice' takes 4 elements from 2 in steps of -1 along axis 1, which is out of bounds of f32[2, 4]."},
    {"slice starts=[-1, 0] steps=[1, 1] %0 : f32[2, 4]",
     "'slice' takes 2 elements from -1 in steps of 1 along axis 0, which is out of bounds of f32[2, 4]."},
    {"slice starts=[3, 0] steps=[1, 1] %0 : f32[0, 4]",
     "'slice' takes 0 elements from 3 in steps of 1 along axis 0, which is out of bounds of f32[2, 4]."},
    {"slice starts=[1, 0] steps=[9223372036854775807, 1] %0 : f32[2, 4]",
     "'slice' takes 2 elements from 1 in steps of 9223372036854775807 along axis 0, which is out of bounds of f32[2, "
     "4]."},
    {"slice starts=[1, 0] steps=[-9223372036854775808, 1] %0 : f32[2, 4]",
     "'slice' takes 2 elements from 1 in steps of -9223372036854775808 along axis 0, which is out of bounds of f32[2, "
     "4]."},
    {"slice starts=[0, 0] steps=[-1, 1] %1 : f32[n, 12]",
     "'slice' takes a symbolic axis whole, from 0 in steps of 1, but along axis 0 of f32[n, 12] it takes n elements "
     "from 0 in steps of -1."},
    {"slice starts=[0, 0] steps=[1, 1] %1 : f32[4, 12]",
     "'slice' takes a symbolic axis whole, from 0 in steps of 1, but along axis 0 of f32[n, 12] it takes 4 elements "
     "from 0 in steps of 1."},
    {"slice starts=[0, 0] steps=[1, 1] %1 : f32[n, m]",
     "'slice' takes a symbolic axis whole, from 0 in steps of 1, but along axis 1 of f32[n, 12] it takes m elements "
     "from 0 in steps of 1."},
    {"reverse axes=[] %0 : f32[2, 4]", "'reverse' of f32[2, 4] names no axis."},
    {"reverse axes=[1, 1] %0 : f32[2, 4]", "'reverse' names axis 1 twice."},
    {"reverse axes=[0] %2 : f32[]", "'reverse' names axis 0, but f32[] has 0 axes."},
    {"pad low=[1, 0] high=[0, 0] %0 %0 : f32[3, 4]", "'pad' fills with a scalar, but it was given f32[2, 4]."},
    {"pad low=[1] high=[0, 0] %0 %2 : f32[3, 4]", "'pad' takes one entry of low for each of 2 axes, but 1 was given."},
    {"pad low=[1, 0] high=[] %0 %2 : f32[3, 4]", "'pad' takes one entry of high for each of 2 axes, but 0 were given."},
    {"pad low=[0, -1] high=[0, 0] %0 %2 : f32[2, 3]", "'pad' of axis 1 by -1 and 0 is negative."},
    {"pad low=[0, 0] high=[2, 0] %1 %2 : f32[n, 12]",
     "'pad' of axis 0 by 0 and 2 needs a number there, but it is the symbol 'n' of f32[n, 12]."},
    {"pad low=[9223372036854775807, 0] high=[9, 0] %0 %2 : f32[2, 3]",
     "'pad' of axis 0 of f32[2, 4] by 9223372036854775807 and 9 makes more elements than 64 bits can count."},
    {"pad low=[4611686018427387904, 0] high=[0, 0] %0 %2 : f32[2, 3]",
     "A tensor of shape [4611686018427387906, 4] has more elements than 64 bits can count."},
    {"pad low=[1, 0] high=[0, 0] %0 : f32[3, 4]", "'pad' takes 2 operands, but 1 was given."},
    {"concat axis=2 %0 %0 : f32[2, 8]", "'concat' names axis 2, but f32[2, 4] has 2 axes."},
    {"concat axis=0 %0 %5 : f32[2, 8]",
     "'concat' along axis 0 cannot join f32[2, 4] and f32[0, 3]: the other dimensions differ."},
    {"concat axis=0 %0 %2 : f32[2, 8]",
     "'concat' along axis 0 cannot join f32[2, 4] and f32[]: the other dimensions differ."},
    {"concat axis=0 %1 %1 : f32[n, 12]",
     "'concat' along axis 0 needs numbers there, but it is the symbol 'n' of f32[n, 12]."},
    {"concat axis=0 : f32[2, 4]", "'concat' takes one operand or more, but none was given."},
    {"unfold axes=[] sizes=[] strides=[] dilations=[] %0 : f32[2, 4]", "'unfold' of f32[2, 4] names no axis."},
    {"unfold axes=[1] sizes=[2, 2] strides=[1] dilations=[1] %0 : f32[2, 3, 2]",
     "'unfold' takes one entry of sizes for each of 1 windows, but 2 were given."},
    {"unfold axes=[1] sizes=[2] strides=[] dilations=[1] %0 : f32[2, 3, 2]",
     "'unfold' takes one entry of strides for each of 1 windows, but 0 were given."},
    {"unfold axes=[1] sizes=[2] strides=[1] dilations=[1, 2] %0 : f32[2, 3, 2]",
     "'unfold' takes one entry of dilations for each of 1 windows, but 2 were given."},
    {"unfold axes=[1] sizes=[0] strides=[1] dilations=[1] %0 : f32[2, 3, 2]",
     "'unfold' along axis 1 has a window of size 0, stride 1 and dilation 1; each is at least 1."},
    {"unfold axes=[1] sizes=[2] strides=[-1] dilations=[1] %0 : f32[2, 3, 2]",
     "'unfold' along axis 1 has a window of size 2, stride -1 and dilation 1; each is at least 1."},
    {"unfold axes=[1] sizes=[3] strides=[1] dilations=[2] %0 : f32[2, 1, 3]",
     "'unfold' along axis 1 of f32[2, 4] has no place for a window of size 3 and dilation 2."},
    {"unfold axes=[0] sizes=[2] strides=[1] dilations=[1] %1 : f32[n, 12, 2]",
     "'unfold' along axis 0 needs a number there, but it is the symbol 'n' of f32[n, 12]."},
    {"slice_assign starts=[0, 0] steps=[1, 1] %0 %2 : f32[2, 4]",
     "'slice_assign' writes f32[] into f32[2, 4], which has another number of axes."},
    {"slice_assign starts=[0, 0] steps=[1, 2] %0 %0 : f32[2, 4]",
     "'slice_assign' takes 4 elements from 0 in steps of 2 along axis 1, which is out of bounds of f32[2, 4]."},
    {"gather axis=0 %0 %4 : f32[2, 4]",
     "The positions that 'gather' takes must be i32, u32 or i64, but they are bool."},
    {"gather axis=2 %0 %3 : f32[3, 4]", "'gather' names axis 2, but f32[2, 4] has 2 axes."},
    {"gather axis=0 %5 %3 : f32[3, 3]", "'gather' reads along axis 0 of f32[0, 3], which has no elements."},
    {"take_along axis=0 %0 %3 : f32[3, 4]",
     "'take_along' takes positions i32[3] of f32[2, 4], which has another number of axes."},
    {"take_along axis=0 %0 %6 : f32[2, 4]",
     "'take_along' along axis 0 takes positions i32[2, 3] of f32[2, 4]: dimension 1 is neither 1 nor 4."},
    {"take_along axis=0 %5 %6 : f32[2, 3]", "'take_along' reads along axis 0 of f32[0, 3], which has no elements."},
    {"reduce_sum axes=[] %0 : f32[2, 4]", "'reduce_sum' of f32[2, 4] names no axis."},
    {"reduce_sum axes=[2] %0 : f32[2, 4]", "'reduce_sum' names axis 2, but f32[2, 4] has 2 axes."},
    {"reduce_sum axes=[0, 0] %0 : f32[4]", "'reduce_sum' names axis 0 twice."},
    {"reduce_sum axes=[1, 0] %0 : f32[]", "'reduce_sum' takes its axes in ascending order, but they are [1, 0]."},
    {"reduce_any axes=[0] %0 : f32[4]", "'reduce_any' is not defined on f32; it takes bool."},
    {"reduce_mean axes=[0] %3 : i32[]", "'reduce_mean' is not defined on i32; it takes f32, f16, bf16 and f64."},
    {"reduce_max axes=[0] %5 : f32[3]", "'reduce_max' along axis 0 of f32[0, 3] has no elements to choose from."},
    {"reduce_min axes=[0, 1] %5 : f32[]", "'reduce_min' along axis 0 of f32[0, 3] has no elements to choose from."},
    {"argmin axes=[0] %5 : i32[3]", "'argmin' along axis 0 of f32[0, 3] has no elements to choose from."},
    {"argmax axes=[0, 1] %0 : i32[]", "'argmax' runs along one axis, but 2 were given."},
    {"argmax axes=[1] %0 : f32[2]", "'argmax' gives i32[2], but f32[2] is declared."},
    {"cumsum axis=1 exclusive=false reverse=false %3 : i32[3]", "'cumsum' names axis 1, but i32[3] has 1 axis."},
    {"argsort axis=1 descending=false count=0 %0 : i32[2, 4]",
     "'argsort' gives 0 positions of axis 1 of f32[2, 4]; it can give 1 to 4."},
    {"argsort axis=1 descending=false count=5 %0 : i32[2, 5]",
     "'argsort' gives 5 positions of axis 1 of f32[2, 4]; it can give 1 to 4."},
    {"argsort axis=0 descending=false count=5 %1 : i32[5, 12]",
     "'argsort' along axis 0 of f32[n, 12] sorts it whole, with a count of 0, but the count is 5."},
    {"scatter mode=add %4 %3 %4 : bool[2]", "'scatter' with the mode 'add' is not defined on bool."},
    {"scatter mode=set %2 %3 %2 : f32[]", "'scatter' writes rows, but its base f32[] is a scalar."},
    {"scatter mode=set %0 %6 %0 : f32[2, 4]",
     "'scatter' takes one position for each row of updates, along one axis, but they are i32[2, 3]."},
    {"scatter mode=set %0 %3 %0 : f32[2, 4]",
     "'scatter' into f32[2, 4] at positions i32[3] takes updates of shape [3, 4], but they are f32[2, 4]."},
    {"scatter mode=sub %0 %3 %0 : f32[2, 4]", "'sub' is not a mode of scatter: set, add, mul, max or min."},
    {"cumsum axis=1 exclusive=1 reverse=false %3 : i32[3]", "expected true or false for 'exclusive', found '1'."},
    {"cumsum axis=1 reverse=false exclusive=true %3 : i32[3]", "expected 'exclusive=', found 'reverse=false"},
    {"permute axes=1 %0 : f32[4, 2]", "expected a list '[...]' for 'axes', found '1 %0"},
    {"permute axes=[1 0] %0 : f32[4, 2]", "expected ',' or ']' in the list 'axes', found '0] %0"},
    {"permute axes=[1, x] %0 : f32[4, 2]", "'x' is not a whole number in range for 'axes'."},
    {"permute %0 : f32[4, 2]", "expected 'axes=', found '%0"},
    {"iota axis=0 %0 : u32[4]", "'iota' takes no operands, but %0 was given."},
};

TEST(StructuredText, WhatIsRefusedNamesTheValue) {
  for (const Refused& one : kRefused) {
    const std::string text =
        std::string("graph \"g\" {\n") + kInputs + " %7 = " + one.statement + "\n output \"y\" = %7\n}";
    const auto graph = ir::parse(text);
    if (graph.ok()) {
      ADD_FAILURE() << "accepted: " << one.statement;
      continue;
    }
    EXPECT_EQ(graph.error().message.find("Line 9: "), 0U) << graph.error().message;
    EXPECT_NE(graph.error().message.find(one.sentence), std::string::npos)
        << graph.error().message << "\nwanted: " << one.sentence;
    EXPECT_EQ(graph.error().message.back(), '.');
  }
}

std::string with_code(const std::string& code) {
  return "graph \"g\" {\n %0 = input \"x\" : f32[4]\n %1 = custom name=\"c\" code=\"" + code +
         "\" ulps=16 cost=8 %0 : f32[4]\n output \"y\" = %1\n}";
}

std::string with_kernel(const std::string& code) {
  return "graph \"g\" {\n %0 = input \"x\" : f32[4]\n %1 = custom_kernel name=\"k\" code=\"" + code +
         "\" workgroup=64 tile=[64] %0 : f32[4]\n output \"y\" = %1\n}";
}

TEST(StructuredText, CodeOfItsOwnIsRefusedUnlessAllowed) {
  for (const auto& [text, op] :
       {std::pair{with_code("x0 * 2.0"), "custom"}, std::pair{with_kernel("#version 450"), "custom_kernel"}}) {
    const auto refused = ir::parse(text);
    ASSERT_FALSE(refused.ok()) << op;
    EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
    EXPECT_EQ(refused.error().message, fmt::format("Line 3: the op '{}' holds code of the text's own, which runs only "
                                                   "where the caller allows it (allow_custom, --allow-custom).",
                                                   op));
    EXPECT_TRUE(ir::parse(text, {.allow_custom = true}).ok()) << op;
  }
}

/// What a compiler of shaders would call itself for.
TEST(StructuredText, CodeOfItsOwnIsBounded) {
  const auto refused = [](const std::string& text) {
    const auto graph = ir::parse(text, {.allow_custom = true});
    return graph.ok() ? std::string() : graph.error().message;
  };
  const auto repeated = [](const std::string& part, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += part;
    return all;
  };
  const auto nested = [&](const std::string& open, const std::string& close, int depth) {
    return with_code(repeated(open, depth) + "x0" + repeated(close, depth));
  };
  const std::string too_deep = "nests brackets, or branches and loops, more than 64 deep.";
  for (const auto& [open, close] : {std::pair{"sin(", ")"}, std::pair{"(", ")"}, std::pair{"float[1](", ")[0]"},
                                    std::pair{"x0 > 0.0 ? x0 : ", ""}}) {
    EXPECT_EQ(refused(nested(open, close, 64)), "") << open;
    EXPECT_NE(refused(nested(open, close, 65)).find(too_deep), std::string::npos) << open;
  }
  for (const std::string word : {"if (x0 > 0.0) ", "for (int i = 0; i < 2; ++i) ", "while (y > 0.0) "}) {
    EXPECT_EQ(refused(with_code("float y = x0; " + repeated(word, 64) + "y = 1.0; return y;")), "") << word;
    EXPECT_NE(refused(with_code("float y = x0; " + repeated(word, 65) + "y = 1.0; return y;")).find(too_deep),
              std::string::npos)
        << word;
  }
  const auto chain = [&](int count) {
    return with_code("float y = x0; " + repeated("if (y > 0.0) y = 1.0; else ", count) + "y = 2.0; return y;");
  };
  EXPECT_EQ(refused(chain(256)), "");
  EXPECT_EQ(refused(chain(257)), "Line 3: The code of the custom op 'c' has 257 branches and loops; it may have 256.");
  EXPECT_EQ(refused(with_code("x0" + std::string((1 << 14) - 2, ' '))), "");
  EXPECT_EQ(refused(with_code("x0" + std::string((1 << 14) - 1, ' '))),
            "Line 3: The code of the custom op 'c' has 16385 bytes; it may have 16384.");
  EXPECT_EQ(refused(with_code("x0;\\x0a(")),
            "Line 3: The code of the custom op 'c' has a '(' that nothing closes: 'x0; ('.");
  EXPECT_EQ(refused(with_kernel("#version 450 " + repeated("{", 64))), "");
  EXPECT_NE(refused(with_kernel("#version 450 " + repeated("{", 65))).find(too_deep), std::string::npos);
  EXPECT_NE(refused(with_kernel(std::string((1 << 18) + 1, ' '))).find("it may have 1 to 262144."), std::string::npos);
}

TEST(StructuredText, SymbolsAreRegroupedAndEmptyTensorsKept) {
  for (const char* body : {
           " %0 = input \"x\" : f32[n, m]\n %1 = reshape %0 : f32[m, n]\n",
           " %0 = input \"x\" : f32[n, 12, n]\n %1 = reshape %0 : f32[2, n, n, 1, 6]\n",
           " %0 = input \"x\" : f32[0, 4]\n %1 = reshape %0 : f32[7, 0]\n",
           " %0 = input \"x\" : f32[]\n %1 = permute axes=[] %0 : f32[]\n",
           " %0 = input \"x\" : f32[]\n %1 = reshape %0 : f32[1, 1]\n",
           " %0 = input \"x\" : f32[4]\n %1 = slice starts=[4] steps=[-1] %0 : f32[0]\n",
           " %0 = input \"x\" : f32[4]\n %1 = slice starts=[3] steps=[-9223372036854775808] %0 : f32[1]\n",
           " %0 = input \"x\" : f32[0, 2]\n %1 = argsort axis=0 descending=false count=0 %0 : i32[0, 2]\n",
           " %0 = input \"x\" : f32[0, 2]\n %1 = reduce_sum axes=[0] %0 : f32[2]\n",
           " %0 = input \"x\" : f32[0, 2]\n %1 = cummax axis=0 exclusive=true reverse=false %0 : f32[0, 2]\n",
           " %0 = input \"x\" : i32[0]\n %1 = gather axis=0 %0 %0 : i32[0]\n",
           " %0 = input \"x\" : i32[0]\n %1 = concat axis=0 %0 : i32[0]\n",
       }) {
    const std::string text = "graph \"g\" {\n" + std::string(body) + " output \"y\" = %1\n}";
    const auto graph = ir::parse(text);
    EXPECT_TRUE(graph.ok()) << text << (graph.ok() ? "" : graph.error().text());
  }
}

TEST(StructuredGraph, StatedSymbolsKeepTheOperandsPromises) {
  const DimFacts promised{1, 64, 8};
  for (const char* op : {"reshape", "broadcast", "slice"}) {
    ir::Graph graph;
    const ir::NodeId x = must(graph.add_input("x", {DType::f32, {Dim::any("n", promised), 4}}));
    const ir::Payload payload =
        std::string_view(op) == "slice" ? ir::Payload(ir::SlicePayload{{0, 0}, {1, 1}}) : ir::Payload(ir::NoPayload{});
    const ir::NodeId y = must(graph.add_structured(ops::row(op), {x}, payload, {Dim::any("n"), 4}));
    EXPECT_TRUE(graph.node(y).type.shape[0].facts() == promised) << op;
  }
}

TEST(StructuredGraph, CallsThatNoTextCanMake) {
  ir::Graph graph;
  const ir::NodeId x = must(graph.add_input("x", {DType::f32, {3}}));
  const auto message = [&](const char* op, std::vector<ir::NodeId> operands, const ir::Payload& payload,
                           const Shape& shape = {}) {
    const auto made = graph.add_structured(ops::row(op), std::move(operands), payload, shape);
    return made.ok() ? "accepted" : made.error().message;
  };
  EXPECT_EQ(message("add", {x, x}, ir::NoPayload{}),
            "'add' is not a view, gather, reduction, contraction, scan, sort, scatter or update.");
  EXPECT_EQ(message("permute", {x}, ir::AxisPayload{0}), "'permute' was given the attributes of another op.");
  EXPECT_EQ(message("reshape", {x}, ir::AxesPayload{}, {3}), "'reshape' was given the attributes of another op.");
  EXPECT_EQ(message("permute", {x}, ir::AxesPayload{{0}}, {3}),
            "'permute' infers its shape, but the shape [3] was given.");
  EXPECT_EQ(message("permute", {7}, ir::AxesPayload{{0}}), "'permute' reads %7, which is not defined before it.");
  EXPECT_EQ(message("reshape", {x}, ir::NoPayload{}, {-3, -1}),
            "'reshape' has a negative dimension -3 in its shape [-3, -1].");
  EXPECT_EQ(graph.add(ops::row("permute"), {x}).error().message,
            "'permute' is not an elementwise op, and cannot be applied to operands.");
  const ir::NodeId huge = must(graph.add_input("h", {DType::i8, {std::int64_t{1} << 32}}));
  EXPECT_EQ(message("argmax", {huge}, ir::AxesPayload{{0}}),
            "'argmax' gives positions as i32, and axis 0 of i8[4294967296] has more elements than that.");
  EXPECT_EQ(message("argsort", {huge}, ir::SortPayload{0, false, 1}),
            "'argsort' gives positions as i32, and axis 0 of i8[4294967296] has more elements than that.");
  const ir::NodeId half = must(graph.add_input("q", {DType::i8, {std::int64_t{1} << 62, 0}}));
  EXPECT_EQ(message("concat", {half, half}, ir::AxisPayload{0}),
            "'concat' along axis 0 makes more elements than 64 bits can count.");
  EXPECT_EQ(graph.size(), 3U);
}

ir::Graph merged(const std::string& body, const char* output) {
  return must(passes::run_pipeline(must(ir::parse("graph \"g\" {\n" + body + " output \"y\" = " + output + "\n}"))));
}

TEST(StructuredGraph, EqualNodesMergeAndOthersDoNot) {
  const std::string x = " %0 = input \"x\" : f32[4, 4]\n";
  // Two equal views, then two that differ in the payload alone, then two that differ in the shape alone.
  EXPECT_EQ(merged(x + " %1 = slice starts=[0, 1] steps=[1, 1] %0 : f32[4, 2]\n %2 = slice starts=[0, 1] steps=[1, 1] "
                       "%0 : f32[4, 2]\n"
                       " %3 = add %1 %2 : f32[4, 2]\n",
                   "%3")
                .size(),
            3U);
  EXPECT_EQ(merged(x + " %1 = slice starts=[0, 1] steps=[1, 1] %0 : f32[4, 2]\n %2 = slice starts=[0, 2] steps=[1, 1] "
                       "%0 : f32[4, 2]\n"
                       " %3 = add %1 %2 : f32[4, 2]\n",
                   "%3")
                .size(),
            4U);
  EXPECT_EQ(
      merged(x + " %1 = reshape %0 : f32[16]\n %2 = reshape %0 : f32[1, 16]\n %3 = add %1 %2 : f32[1, 16]\n", "%3")
          .size(),
      4U);
  EXPECT_EQ(merged(x + " %1 = cumsum axis=0 exclusive=false reverse=false %0 : f32[4, 4]\n %2 = cumsum axis=0 "
                       "exclusive=false reverse=true %0 : f32[4, 4]\n"
                       " %3 = add %1 %2 : f32[4, 4]\n",
                   "%3")
                .size(),
            4U);
}

TEST(StructuredGraph, ThePassesKeepEveryOp) {
  const ir::Graph graph = must(ir::parse(kEveryOp));
  ir::Graph all = graph;  // every value that nothing reads becomes an output, or it would be dead
  const auto users = graph.users();
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    if (users[id].empty() && id + 1 < graph.size()) must(all.add_output("v" + std::to_string(id), id));
  }
  const ir::Graph after = must(passes::run_pipeline(all));
  const auto count = [](const ir::Graph& of, std::string_view op) {
    return std::count_if(of.nodes().begin(), of.nodes().end(),
                         [&](const ir::Node& node) { return node.op->name == op; });
  };
  for (const ir::Node& node : graph.nodes()) {
    const std::string_view op = node.op->name;
    if (op == "scatter") {
      EXPECT_EQ(count(after, op), 0) << "a scatter is written out";
    } else {
      EXPECT_GE(count(after, op), count(graph, op)) << op;
    }
  }
  must(ir::verify(after));
}

}  // namespace
}  // namespace vkfuse::test

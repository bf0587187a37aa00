// The rows are complete, and the type rules name what is wrong.
#include <gtest/gtest.h>

#include <set>

#include "ops/op.hpp"
#include "vkfuse/result.hpp"

namespace vkfuse::ops {
namespace {

std::vector<DType> dtypes_of(const OpRow& row) {
  std::vector<DType> dtypes;
  for (int i = 0; i < kDTypeCount; ++i) {
    if ((row.types & bit(static_cast<DType>(i))) != 0) dtypes.push_back(static_cast<DType>(i));
  }
  return dtypes;
}

TEST(TableTest, NamesAreUniqueAndFound) {
  std::set<std::string_view> names;
  for (const OpRow& each : table()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_EQ(find(each.name), &each);
    EXPECT_EQ(&row(each.name), &each);
  }
  EXPECT_EQ(find("gelu"), nullptr);
}

TEST(TableTest, EveryRowIsComplete) {
  const std::vector<std::string> operands = {"a", "b", "c"};
  for (const OpRow& each : table()) {
    SCOPED_TRACE(each.name);
    EXPECT_FALSE(each.doc.empty());
    EXPECT_TRUE(each.doc.ends_with('.'));
    EXPECT_NE(each.types, 0);
    EXPECT_LE(each.arity, 3);
    EXPECT_LT(each.low, each.high);
    EXPECT_EQ(each.propagation == ErrorPropagation::custom, each.custom_propagation != nullptr);
    if (each.cls != OpClass::elementwise) continue;
    for (const DType dtype : dtypes_of(each)) {
      for (const bool native : {false, true})
        EXPECT_NE(expression(each, dtype, native, operands), "") << name_of(dtype);
      EXPECT_TRUE(is_float(dtype) ? each.real != nullptr : each.integer != nullptr) << name_of(dtype);
    }
  }
}

TEST(TableTest, FoldsJoinByRowsOfTheTable) {
  int reductions = 0;
  for (const OpRow& each : table()) {
    SCOPED_TRACE(each.name);
    const bool folds_by_class =
        each.cls == OpClass::reduce || each.cls == OpClass::scan || each.cls == OpClass::contraction;
    // What is folded is the operand's elements, or an elementwise row of two of them.
    EXPECT_EQ(!each.reduction.of.empty(), each.cls == OpClass::contraction);
    if (!each.reduction.of.empty()) {
      EXPECT_EQ(element_row(each).arity, each.arity);
    }
    EXPECT_EQ(each.reduction.kind != Reduction::Kind::none, folds_by_class);
    EXPECT_EQ(each.signature == Signature::position,
              each.reduction.kind == Reduction::Kind::arg || each.cls == OpClass::sort);
    if (!folds_by_class) continue;
    ++reductions;
    const OpRow* join = find(each.reduction.join);
    ASSERT_NE(join, nullptr);
    EXPECT_EQ(join->arity, 2);
    EXPECT_TRUE(join->commutative);
    EXPECT_EQ(each.types & ~join->types, 0);
    // What a reduction starts from changes nothing it is joined with.
    if (join->real != nullptr) {
      const double start[] = {each.reduction.identity, -2.5};
      EXPECT_EQ(join->real(start), -2.5);
    } else {
      for (const std::int64_t value : {0, 1}) {
        const std::int64_t start[] = {static_cast<std::int64_t>(each.reduction.identity), value};
        EXPECT_EQ(join->integer(start, DType::boolean), value);
      }
    }
  }
  EXPECT_EQ(reductions, 14);
}

TEST(TableTest, ViewsAndGathersCostNothing) {
  for (const OpRow& each : table()) {
    const bool moves = each.cls == OpClass::view || each.cls == OpClass::gather;
    EXPECT_EQ(moves && each.cost != 0, false) << each.name;
    EXPECT_EQ(each.shape_is_attribute, each.name == "reshape" || each.name == "broadcast" || each.name == "slice")
        << each.name;
  }
}

TEST(TableTest, CommutativeRowsCommute) {
  for (const OpRow& each : table()) {
    if (!each.commutative) continue;
    SCOPED_TRACE(each.name);
    EXPECT_EQ(each.arity, 2);
    const double ab[] = {1.5, -2.25};
    const double ba[] = {-2.25, 1.5};
    if (each.real != nullptr) {
      EXPECT_EQ(each.real(ab), each.real(ba));
    }
    const std::int64_t mn[] = {12, -5};
    const std::int64_t nm[] = {-5, 12};
    if (each.integer != nullptr) {
      EXPECT_EQ(each.integer(mn, DType::i32), each.integer(nm, DType::i32));
    }
  }
}

TEST(ExpressionTest, ParenthesisesOperandsWhereAnOperatorNeedsIt) {
  const std::string sums[] = {"a + b", "-1"};
  EXPECT_EQ(expression(row("mul"), DType::f32, false, sums), "(a + b) * (-1)");
  EXPECT_EQ(expression(row("max"), DType::f32, false, sums), "f32_max(a + b, -1)");
  EXPECT_EQ(expression(row("fma"), DType::f32, false, std::vector<std::string>{"a", "b", "c"}), "fma(a, b, c)");
}

TEST(ExpressionTest, ShiftsAreModuloTheWidthOfTheDtype) {
  const std::string names[] = {"a", "b"};
  EXPECT_EQ(expression(row("shift_left"), DType::i8, false, names), "a << (b & 7)");
  EXPECT_EQ(expression(row("shift_right"), DType::u32, false, names), "a >> (b & 31u)");
}

TEST(InferTest, GivesTheDtypeOfTheResult) {
  EXPECT_EQ(*infer_dtype(row("add"), std::vector{DType::f16, DType::f16}, {}), DType::f16);
  EXPECT_EQ(*infer_dtype(row("lt"), std::vector{DType::i64, DType::i64}, {}), DType::boolean);
  EXPECT_EQ(*infer_dtype(row("select"), std::vector{DType::boolean, DType::u8, DType::u8}, {}), DType::u8);
  EXPECT_EQ(*infer_dtype(row("cast"), std::vector{DType::f32}, DType::i8), DType::i8);
  EXPECT_EQ(*infer_dtype(row("iota"), {}, DType::i64), DType::i64);
  EXPECT_EQ(*infer_dtype(row("concat"), std::vector(5, DType::i8), {}), DType::i8);
  EXPECT_EQ(*infer_dtype(row("gather"), std::vector{DType::f16, DType::i64}, {}), DType::f16);
  EXPECT_EQ(*infer_dtype(row("gather"), std::vector{DType::i64, DType::i64}, {}), DType::i64);
  EXPECT_EQ(*infer_dtype(row("scatter"), std::vector{DType::u8, DType::u32, DType::u8}, {}), DType::u8);
  EXPECT_EQ(*infer_dtype(row("reduce_mean"), std::vector{DType::bf16}, {}), DType::bf16);
  EXPECT_EQ(*infer_dtype(row("argmin"), std::vector{DType::f64}, {}), DType::i32);
  EXPECT_EQ(*infer_dtype(row("argsort"), std::vector{DType::u64}, {}), DType::i32);
}

struct Refusal {
  const char* op;
  std::vector<DType> operands;
  std::optional<DType> attribute;
  const char* message;
};

TEST(InferTest, NamesWhatIsWrong) {
  const Refusal refusals[] = {
      {"add", {DType::f32}, {}, "'add' takes 2 operands, but 1 was given."},
      {"neg", {DType::f32, DType::f32}, {}, "'neg' takes 1 operand, but 2 were given."},
      {"add", {DType::f32, DType::i32}, {}, "The operands of 'add' must have one dtype, but they are f32 and i32."},
      {"sin", {DType::i32}, {}, "'sin' is not defined on i32; it takes f32, f16, bf16 and f64."},
      {"and", {DType::u8, DType::u8}, {}, "'and' is not defined on u8; it takes bool."},
      {"select", {DType::i32, DType::f32, DType::f32}, {}, "The condition of 'select' must be bool, but it is i32."},
      {"cast", {DType::f32}, {}, "'cast' needs a dtype attribute."},
      {"exp", {DType::f32}, DType::f16, "'exp' takes its dtype from its operands, but the attribute f16 was given."},
      {"bitcast",
       {DType::f32},
       DType::i64,
       "'bitcast' from f32 to i64 would change the element size from 4 to 8 bytes."},
      {"random", {}, DType::f32, "'random' is not defined on f32; it takes u32."},
      {"concat", {}, {}, "'concat' takes one operand or more, but none was given."},
      {"concat",
       {DType::f32, DType::f32, DType::i8},
       {},
       "The operands of 'concat' must have one dtype, but they are f32 and i8."},
      {"pad", {DType::f32, DType::f64}, {}, "The operands of 'pad' must have one dtype, but they are f32 and f64."},
      {"gather",
       {DType::f32, DType::i16},
       {},
       "The positions that 'gather' takes must be i32, u32 or i64, but they are i16."},
      {"take_along",
       {DType::f32, DType::u64},
       {},
       "The positions that 'take_along' takes must be i32, u32 or i64, but they are u64."},
      {"scatter",
       {DType::f32, DType::f32, DType::f32},
       {},
       "The positions that 'scatter' takes must be i32, u32 or i64, but they are f32."},
      {"scatter",
       {DType::f32, DType::i32, DType::i32},
       {},
       "The operands of 'scatter' must have one dtype, but they are f32 and i32."},
      {"reduce_sum",
       {DType::boolean},
       {},
       "'reduce_sum' is not defined on bool; it takes f32, f16, bf16, f64, i8, u8, i16, u16, i32, u32, i64 and u64."},
      {"reduce_mean", {DType::i32}, {}, "'reduce_mean' is not defined on i32; it takes f32, f16, bf16 and f64."},
      {"reduce_any", {DType::f32}, {}, "'reduce_any' is not defined on f32; it takes bool."},
      {"argmax",
       {DType::f32},
       DType::i32,
       "'argmax' takes its dtype from its operands, but the attribute i32 was given."},
  };
  for (const Refusal& refusal : refusals) {
    const auto result = infer_dtype(row(refusal.op), refusal.operands, refusal.attribute);
    ASSERT_FALSE(result.ok()) << refusal.op;
    EXPECT_EQ(result.error().message, refusal.message);
  }
}

}  // namespace
}  // namespace vkfuse::ops

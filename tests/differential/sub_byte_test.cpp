// Numbers of a few bits, taken out of bytes and made floats by their bits: kernels of rows do so wherever what stands
// between a byte and its float is a shift, a mask, flipped bits and a difference.
#include <gtest/gtest.h>

#include "support/compare.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

constexpr std::int64_t kRows = 40, kBytes = 192;

Tensor bytes(DType dtype = DType::u8) { return Tensor::input("bytes", dtype, {kRows, kBytes}); }

Tensor number(DType dtype, double value) { return Tensor::scalar(dtype, value); }

/// So many numbers of a byte side by side.
Tensor parts_of_bytes(int count) {
  const int bits = 8 / count;
  const Tensor shifts = Tensor::iota(DType::u8, {count}, 0) * bits;
  return bit_and(shift_right(bytes().unsqueeze(-1), shifts), number(DType::u8, (1 << bits) - 1))
      .reshape({kRows, kBytes * count});
}

struct Form {
  const char* name;
  bool field;  ///< made by its bits
  Tensor (*build)();
  friend std::ostream& operator<<(std::ostream& out, const Form& form) { return out << form.name; }
};

const Form kForms[] = {
    {"u8", false, [] { return bytes(); }},
    {"i8", false, [] { return bytes(DType::i8); }},
    {"i8_less_a_zero_point", false, [] { return bytes(DType::i8).cast(DType::i16) - number(DType::i16, 37); }},
    {"u8_less_half", false, [] { return bytes().cast(DType::i16) - number(DType::i16, 128); }},
    {"u4", true, [] { return parts_of_bytes(2); }},
    {"i4", true, [] { return unpack_int4(bytes(), true); }},
    {"u4_less_eight", true, [] { return parts_of_bytes(2).cast(DType::i8) - number(DType::i8, 8); }},
    {"u4_less_eight_as_floats", true, [] { return parts_of_bytes(2).cast(DType::f16) - 8; }},
    {"three_and_u4_as_floats", true, [] { return number(DType::f32, 3) + parts_of_bytes(2).cast(DType::f32) - 11; }},
    {"u4_less_a_half", true, [] { return parts_of_bytes(2).cast(DType::f32) - 0.5; }},
    {"eight_less_u4", true, [] { return number(DType::f16, 8) - parts_of_bytes(2).cast(DType::f16); }},
    {"u4_and_what_bf16_rounds", true, [] { return parts_of_bytes(2).cast(DType::bf16) + 300; }},
    {"u2", true, [] { return parts_of_bytes(4); }},
    {"bits", true, [] { return parts_of_bytes(8); }},
    {"upper_five_bits", true, [] { return shift_right(bytes(), number(DType::u8, 3)); }},
    {"bits_here_and_there", true,
     [] { return bit_xor(bit_and(bytes(), number(DType::u8, 0x5a)), number(DType::u8, 0xa1)); }},
    {"flipped_then_more", true,
     [] {
       return bit_xor(shift_right(bytes(), number(DType::u8, 4)), number(DType::u8, 9)).cast(DType::i32) +
              number(DType::i32, 1000);
     }},
    {"wraps", false, [] { return bytes() + number(DType::u8, 200); }},
    {"masked_after_a_difference", false,
     [] { return bit_and(bytes().cast(DType::i16) - number(DType::i16, 3), number(DType::i16, 15)); }},
    {"taken_apart_after_a_difference", false,
     [] {
       const Tensor more = bytes().cast(DType::i16) + number(DType::i16, 3);
       return shift_right(more.unsqueeze(-1), Tensor::iota(DType::i16, {2}, 0) * 4).reshape({kRows, kBytes * 2});
     }},
    {"shift_of_each_row", false,
     [] {
       return shift_right(bytes(), Tensor::input("shifts", DType::u8, {kRows, 1}));
     }},
    {"negated", false, [] { return -bytes(DType::i8).cast(DType::i32); }},
};

class Fields : public testing::TestWithParam<Form> {};

TEST_P(Fields, AreTheirIntegers) {
  bool found = false;
  for (const DType type : {DType::f32, DType::f16}) {
    const Tensor numbers = GetParam().build();
    ASSERT_TRUE(numbers.valid()) << numbers.error().text();
    const Tensor floats = numbers.cast(type);
    const Dim columns = floats.shape().back();
    // Each number is seen in the first; the second is what weights are for; in the third the numbers are a result
    // themselves.
    const Tensor product = matmul(floats, Tensor::input("x", type, {columns.size()}));
    for (const ir::Graph& graph :
         {graph_of({floats - floats.max({1}, true)}), graph_of({product}), graph_of({product, floats})}) {
      Build how;
      how.tuning.matmul = false;
      const Executable program = compile_graph(graph, how);
      compare_with_reference(program, graph, data_for({graph, {}, 71, false}),
                             fmt::format("{} as {}", GetParam().name, name_of(type)));
      found = found || must(program.explain(Stage::glsl)).find("field_values(") != std::string::npos;
    }
  }
  EXPECT_EQ(found, GetParam().field);
}

/// As an operand of a matmul, either one, with numbers that lie along the sum, some with a scale for each sixteen, and
/// with numbers that lie across.
TEST_P(Fields, AreTheirIntegersInMatmuls) {
  bool found = false;
  for (const DType type : {DType::f32, DType::f16}) {
    const Tensor floats = GetParam().build().cast(type);
    const std::int64_t columns = floats.shape().back().size();
    const Tensor scales = Tensor::input("scales", type, {kRows, columns / 16, 1});
    const Tensor scaled = (floats.reshape({kRows, columns / 16, 16}) * (scales * 0.01)).reshape({kRows, columns});
    const Tensor x = Tensor::input("x", type, {35, columns}), across = Tensor::input("across", type, {35, kRows});
    for (const ir::Graph& graph : {graph_of({matmul(x, floats.transpose())}), graph_of({matmul(x, scaled.transpose())}),
                                   graph_of({matmul(floats, x.transpose())}), graph_of({matmul(across, floats)}),
                                   graph_of({matmul(across, scaled)})}) {
      Build how;
      how.tuning.matmul = true;
      const Executable program = compile_graph(graph, how);
      compare_with_reference(program, graph, data_for({graph, {}, 72, false}),
                             fmt::format("{} as {}", GetParam().name, name_of(type)));
      found = found || must(program.explain(Stage::glsl)).find("field_values(") != std::string::npos;
    }
  }
  EXPECT_EQ(found, GetParam().field);
}

INSTANTIATE_TEST_SUITE_P(OfBytes, Fields, testing::ValuesIn(kForms),
                         [](const auto& form) { return std::string(form.param.name); });

}  // namespace
}  // namespace vkfuse::test

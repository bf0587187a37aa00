// Floats of 8, 6 and 4 bits on the device: every code, weights of products, caches.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ops/float_formats.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/float_codes.hpp"
#include "vkfuse/generation.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

constexpr FloatFormat kAll[] = {FloatFormat::float8_e4m3fn,   FloatFormat::float8_e5m2,   FloatFormat::float8_e4m3fnuz,
                                FloatFormat::float8_e5m2fnuz, FloatFormat::float6_e2m3fn, FloatFormat::float6_e3m2fn,
                                FloatFormat::float4_e2m1fn,   FloatFormat::float8_e8m0fnu};

Tensor input(const char* name, DType dtype, Shape shape) { return Tensor::input(name, dtype, std::move(shape)); }

template <typename T>
std::vector<T> result(const Executable& program, const Inputs& inputs) {
  const Outputs outputs = must(program.run(inputs));
  const auto got = outputs.at("y").as<T>();
  return {got.begin(), got.end()};
}

std::vector<std::uint8_t> all_codes() {
  std::vector<std::uint8_t> codes(256);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
  return codes;
}

bool is_subnormal(float x) { return x != 0 && std::abs(x) < 0x1p-126F; }

class FloatCodes : public testing::TestWithParam<FloatFormat> {};
/// All but powers of two, which are scales.
class SignedFloatCodes : public FloatCodes {};

/// Bit for bit, on every device.
TEST_P(FloatCodes, AreTheirNumbers) {
  const std::vector<std::uint8_t> codes = all_codes();
  const Tensor bits = Tensor::apply(ops::row_of(GetParam()).decode, {input("x", DType::u8, {256}).cast(DType::u32)});
  const Executable program = compile_graph(graph_of({bits}), {});
  const std::vector<std::uint32_t> got = result<std::uint32_t>(program, {{"x", HostView(codes)}});
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto wanted = static_cast<float>(ops::decoded(codes[i], ops::row_of(GetParam())));
    std::uint32_t expected = 0x7fc00000;
    if (!std::isnan(wanted)) std::memcpy(&expected, &wanted, sizeof expected);
    EXPECT_EQ(got[i], expected) << i << " is " << wanted;
  }
}

/// The reference has the nearest codes (unit FloatCodes.AreTheNearest), of which there is one.
TEST_P(FloatCodes, AreTheNearestOfNumbers) {
  Random random(static_cast<std::uint64_t>(GetParam()));
  std::vector<float> numbers = {0.0F, -0.0F, INFINITY, -INFINITY, NAN, 1e6F, -1e6F, 448, 464, 465, 57344, 61439, 61441};
  for (const std::uint8_t code : all_codes()) {
    const auto exact = static_cast<float>(ops::decoded(code, ops::row_of(GetParam())));
    if (is_subnormal(exact)) continue;
    numbers.insert(numbers.end(), {exact, exact * 1.03125F, exact * 1.0625F, exact * 0.9375F});
  }
  for (int i = 0; i < 2000; ++i)
    numbers.push_back(static_cast<float>(std::ldexp(random.between(-2, 2), static_cast<int>(random.below(34)) - 17)));
  const Tensor x = input("x", DType::f32, {Dim(static_cast<std::int64_t>(numbers.size()))});
  for (const bool saturates : {true, false}) {
    for (const PowerRounding rounding : {PowerRounding::up, PowerRounding::down, PowerRounding::nearest}) {
      const ir::Graph graph =
          graph_of({encode_float(x, GetParam(), {.saturates = saturates, .power_rounding = rounding})});
      Data data = data_for({graph, {}, 1, false});
      std::memcpy(data.inputs.at("x").data(), numbers.data(), numbers.size() * sizeof(float));
      compare_with_reference(compile_graph(graph, {}), graph, data,
                             fmt::format("{}, saturates {}", name_of(GetParam()), saturates));
    }
  }
}

/// Codes of magnitudes up to a few units: neither NaN nor infinities.
Tensor moderate(const Tensor& codes, FloatFormat format) {
  const int kept = bits_of(format) == 8 ? 0xbb : 0xff;
  return bit_and(codes, Tensor::scalar(DType::u8, kept));
}

TEST_P(SignedFloatCodes, OfWeightsArePartOfAProduct) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    for (const std::int64_t rows : {1, 4, 33}) {
      const Tensor codes = input("codes", DType::u8, {96, 256});
      const Tensor w = decode_float(moderate(codes, GetParam()), GetParam(), dtype);
      const Tensor scale = input("scale", dtype, {96}) * 0.25;
      const ir::Graph graph = graph_of({matmul(input("x", dtype, {rows, 256}), w.transpose()) * scale});
      const Executable program = compile_graph(graph, {});
      // Of many rows, numbers that each tile would compute again may be stored.
      EXPECT_TRUE(are_kernels_at_most(specialization_of(program)->steps.size(), rows <= 4 ? 1 : 2)) << rows;
      compare_with_reference(program, graph, data_for({graph, {}, 5, false}),
                             fmt::format("{} rows of {}, {}", rows, name_of(dtype), name_of(GetParam())));
    }
  }
}

const auto kName = [](const auto& one) { return std::string(name_of(one.param)); };
INSTANTIATE_TEST_SUITE_P(All, FloatCodes, testing::ValuesIn(kAll), kName);
INSTANTIATE_TEST_SUITE_P(All, SignedFloatCodes, testing::ValuesIn(std::begin(kAll), std::end(kAll) - 1), kName);

/// MXFP4 has a power of two for 32 neighbours, NVFP4 a float of 8 bits for 16 and a number for all.
TEST(FloatBlocks, OfWeightsArePartOfAProduct) {
  const Tensor numbers = decode_float(unpack_int4(input("w", DType::u8, {48, 64}), false), FloatFormat::float4_e2m1fn);
  // 2^-7 to 2^8.
  const Tensor powers = bit_or(bit_and(input("powers", DType::u8, {48, 4}), Tensor::scalar(DType::u8, 15)),
                               Tensor::scalar(DType::u8, 0x78));
  const Tensor mx =
      dequantize(numbers, {.scale = decode_float(powers, FloatFormat::float8_e8m0fnu), .axis = 1, .group = 32});
  const Tensor scales = moderate(input("scales", DType::u8, {48, 8}), FloatFormat::float8_e4m3fn);
  const Tensor nv =
      dequantize(numbers, {.scale = decode_float(scales, FloatFormat::float8_e4m3fn) * input("all", DType::f32, {}),
                           .axis = 1,
                           .group = 16});
  for (const Tensor& w : {mx, nv, mx.cast(DType::bf16), nv.cast(DType::f16)}) {
    for (const std::int64_t rows : {1, 4, 33}) {
      const ir::Graph graph = graph_of({matmul(input("x", w.dtype(), {rows, 128}), w.transpose())});
      const Executable program = compile_graph(graph, {});
      EXPECT_TRUE(are_kernels_at_most(specialization_of(program)->steps.size(), rows <= 4 ? 1 : 2)) << rows;
      compare_with_reference(program, graph, data_for({graph, {}, 6, false}),
                             fmt::format("{} rows of {}, {}", rows, name_of(w.dtype()), &w == &mx ? "mx" : "others"));
    }
  }
}

/// A bias of codes, NaN among them, in the scores of attention, with matrix units where the device has them.
TEST(FloatBias, IsDecodedOnce) {
  const Tensor q = input("q", DType::f16, {1, 2, 64, 32}), k = input("k", DType::f16, {1, 2, 256, 32});
  const Tensor codes = input("codes", DType::u8, {64, 256});
  for (const FloatFormat format : {FloatFormat::float8_e4m3fn, FloatFormat::float8_e5m2}) {
    const Tensor bias = decode_float(moderate(codes, format), format, DType::f16);
    const Tensor with_nan =
        select(gt(bias, Tensor::scalar(DType::f16, 1.5)), decode_float(codes, format, DType::f16), bias);
    for (const Tensor& one : {bias, with_nan}) {
      const ir::Graph graph = graph_of(
          {attention(q, k, input("v", DType::f16, {1, 2, 256, 32}), {.bias = one, .softmax_dtype = DType::f32})});
      compare_with_reference(compile_graph(graph, {}), graph, data_for({graph, {}, 12, false}),
                             std::string(name_of(format)));
    }
  }
}

/// A cache of codes: rows are encoded where they are written and decoded where attention reads them.
TEST(FloatCaches, AreWrittenAndReadAsCodes) {
  constexpr std::int64_t kCapacity = 64, kHeads = 4, kKeyHeads = 2, kSize = 16;
  for (const FloatFormat format : {FloatFormat::float8_e4m3fn, FloatFormat::float8_e5m2}) {
    const auto cache = [&](const char* name) { return input(name, DType::u8, {2, kKeyHeads, kCapacity, kSize}); };
    const auto row = [&](const char* name) { return input(name, DType::f16, {2, kKeyHeads, 1, kSize}); };
    const Tensor starts = Tensor::input("index" + std::to_string(kCapacity - 1), DType::i32, {2});
    const auto updated = [&](const char* name, const char* rows) {
      return moderate(cache(name), format).update_rows(starts, encode_float(row(rows), format), 2);
    };
    const Tensor keys = updated("keys", "k"), values = updated("values", "v");
    const Tensor y =
        cached_attention(input("q", DType::f16, {2, kHeads, 1, kSize}), decode_float(keys, format, DType::f16),
                         decode_float(values, format, DType::f16), starts, {.part = kCapacity});
    const ir::Graph graph = graph_of({y, keys, values});
    compare_with_reference(compile_graph(graph, {}), graph, data_for({graph, {}, 9, false}),
                           std::string(name_of(format)));
  }
}

}  // namespace
}  // namespace vkfuse::test

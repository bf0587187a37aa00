// Products and attention at sizes that no tile divides, each beside the nearest multiple of 128.
#include <fmt/format.h>

#include "row_groups.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

using Sizes = std::vector<std::int64_t>;

/// Tokens of images and of sentences, one less and one more than a multiple of tiles, and round numbers of people.
constexpr std::int64_t kOdd[] = {129, 197, 1000, 1500, 4095, 4097};

/// [m, k, n].
Built product(DType dtype, const Shape& shape) {
  return {matmul(Tensor::input("a", dtype, {shape[0], shape[1]}), Tensor::input("b", dtype, {shape[1], shape[2]}))};
}

/// [batch, m, k, n].
Built products(DType dtype, const Shape& shape) {
  return {matmul(Tensor::input("a", dtype, {shape[0], shape[1], shape[2]}),
                 Tensor::input("b", dtype, {shape[0], shape[2], shape[3]}))};
}

/// [batch, heads, length, size] of each of q, k and v.
Built attention_of(DType dtype, const Shape& shape) {
  const auto input = [&](const char* name) { return Tensor::input(name, dtype, shape); };
  return {attention(input("q"), input("k"), input("v"))};
}

/// What smaller devices get less of are the dimensions `divide`; the odd one stays as long as it can.
Row odd_row(std::string name, DType dtype, Sizes full, Built (*build)(DType, const Shape&), std::size_t odd,
            Traits traits) {
  name += ' ' + std::string(vkfuse::name_of(dtype));
  return {std::move(name), "odd", dtype, std::move(full), build, std::move(traits), Beside{"128s", build, {odd}}};
}

void add_products(std::vector<Row>& all) {
  // A row of f16 that is no multiple of 16 bytes long.
  constexpr std::int64_t kUnaligned[] = {4095, 1001};
  const auto add = [&](char letter, std::int64_t size, DType dtype, bool named) {
    const std::size_t odd = letter == 'm' ? 0 : letter == 'k' ? 1 : 2;
    Sizes full = {4096, 4096, 4096};
    full[odd] = size;
    std::vector<std::size_t> divide = {2, 0, 1};
    std::stable_partition(divide.begin(), divide.end(), [&](std::size_t axis) { return axis != odd; });
    all.push_back(odd_row(fmt::format("matmul {}{}", letter, size), dtype, full, product, odd,
                          {.divide = std::move(divide), .named = named}));
  };
  for (const std::int64_t size : kOdd) add('m', size, DType::f16, size == 129 || size == 4095);
  for (const std::int64_t size : kUnaligned) {
    add('k', size, DType::f16, size != 4095);
    add('n', size, DType::f16, size == 4095);
  }
  for (const std::int64_t size : {197, 1500}) {
    add('m', size, DType::bf16, true);
    add('m', size, DType::f32, true);
  }
  for (const DType dtype : {DType::bf16, DType::f32}) {
    add('k', 4095, dtype, true);
    add('n', 1001, dtype, true);
  }
  // Scores of 197 tokens by 197, and the values that they weigh.
  all.push_back(odd_row("matmul batch n197", DType::f16, {512, 197, 64, 197}, products, 1, {.divide = {0}}));
  all.back().beside->axes = {1, 3};
  all.push_back(
      odd_row("matmul batch k197", DType::f16, {512, 197, 197, 64}, products, 1, {.divide = {0}, .named = true}));
  all.back().beside->axes = {1, 2};
}

void add_attention(std::vector<Row>& all) {
  for (const std::int64_t size : {64, 128}) {
    for (const std::int64_t keys : {129, 197, 577, 1000, 1500, 4095, 4097}) {
      const std::int64_t batch = keys < 600 ? 32 : keys < 2000 ? 8 : 2;
      const bool in_suite = size == 64 && (keys == 197 || keys == 1500);
      all.push_back(odd_row(fmt::format("attention {} by {}", keys, size), DType::f16, {batch, 16, keys, size},
                            attention_of, 2, {.divide = {0, 1, 2}, .named = !in_suite}));
    }
  }
}

}  // namespace

std::vector<Row> odd_rows() {
  std::vector<Row> all;
  add_products(all);
  add_attention(all);
  return all;
}

}  // namespace vkfuse::bench

// Tensors over the device's limits: windows of them, pieces in memory, and the one error where neither helps.
#include <gtest/gtest.h>

#include "support/judge.hpp"
#include "unit/runtime/watched_device.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

/// A graph whose largest tensor is some times the limit that it is for.
struct Large {
  const char* name;
  std::function<Tensor(std::int64_t n)> make;  ///< n grows with the limit
  bool fusion = true;
};

Tensor in(const char* name, Shape shape, DType dtype = DType::f32) { return Tensor::input(name, dtype, std::move(shape)); }

/// With n = 1 the largest tensors have some 50 KB.
const std::vector<Large>& cases() {
  static const std::vector<Large> all = {
      {"chain", [](std::int64_t n) { return relu(exp(in("x", {13001 * n})) * 0.5F) + 1.0F; }},
      {"one_kernel_per_op", [](std::int64_t n) { return relu(exp(in("x", {13001 * n})) * 0.5F) + 1.0F; }, false},
      {"halves", [](std::int64_t n) { return exp(in("x", {26003 * n}, DType::f16)) + in("y", {26003 * n}, DType::f16); }},
      {"bytes_to_words", [](std::int64_t n) { return in("x", {20011 * n}, DType::u8).cast(DType::i32) * Tensor::scalar_int(DType::i32, 3); }},
      {"words_to_bytes", [](std::int64_t n) { return in("x", {20011 * n}, DType::i32).cast(DType::u8); }},
      {"odd_rows_and_a_bias", [](std::int64_t n) { return in("x", {301 * n, 83}, DType::f16) * in("b", {83}, DType::f16); }},
      {"a_factor_per_row", [](std::int64_t n) { return in("x", {301 * n, 83}) * in("b", {301 * n, 1}); }},
      {"softmax", [](std::int64_t n) { return softmax(in("x", {130 * n, 100})); }},
      {"softmax_of_halves", [](std::int64_t n) { return softmax(in("x", {259 * n, 99}, DType::f16)); }},
      {"norm", [](std::int64_t n) { return normalize(in("x", {130 * n, 100}), {1}, 1e-5) * in("w", {100}); }},
      {"two_results", [](std::int64_t n) {
         const Tensor x = in("x", {130 * n, 100});
         return x - x.max({1}, true);
       }},
      {"sums_of_rows", [](std::int64_t n) { return in("x", {900 * n, 16}).sum({1}); }},
      {"positions_of_rows", [](std::int64_t n) { return in("x", {130 * n, 100}).argmax(1); }},
      {"running_sums", [](std::int64_t n) { return in("x", {130 * n, 100}).cumsum(1); }},
      {"sorted_rows", [](std::int64_t n) { return in("x", {130 * n, 100}).argsort(1); }},
      {"inner_axes_change_places", [](std::int64_t n) { return in("x", {24 * n, 16, 36}).permute({0, 2, 1}) + 1.0F; }},
      {"rows_backwards", [](std::int64_t n) { return in("x", {130 * n, 100}).reverse({1}) + 1.0F; }},
      {"all_backwards", [](std::int64_t n) { return in("x", {16384 * n}).reverse({0}) + 1.0F; }},
      {"a_slice", [](std::int64_t n) { return in("x", {400 * n, 64}).slice(0, 150, 150 + 200 * n) * 2.0F; }},
      {"every_other", [](std::int64_t n) { return in("x", {16384 * n}).slice(0, 1, 16383, 2) + 1.0F; }},
      {"padded_inside", [](std::int64_t n) { return in("x", {200 * n, 60}).pad({0, 2}, {0, 3}, 7) + 1.0F; }},
      {"padded_outside", [](std::int64_t n) { return in("x", {200 * n, 60}).pad({3, 0}, {5, 0}, 7) + 1.0F; }},
      {"joined_inside", [](std::int64_t n) { return concat({in("x", {200 * n, 40}), exp(in("y", {200 * n, 24}))}, 1); }},
      {"joined_outside", [](std::int64_t n) { return concat({in("x", {60 * n, 80}), exp(in("y", {110 * n, 80}))}, 0); }},
      {"neighbours", [](std::int64_t n) { return in("x", {200 * n, 60}).unfold(1, 3, 1).sum({2}); }},
      {"copies", [](std::int64_t n) { return in("x", {20, 33}).repeat({20 * n, 1}) + in("y", {400 * n, 33}); }},
      {"positions", [](std::int64_t n) { return Tensor::iota(DType::i32, {200 * n, 64}, 0) + in("x", {200 * n, 64}, DType::i32); }},
      {"random", [](std::int64_t n) { return Tensor::random({13001 * n}, 7).bitcast(DType::i32); }},
      {"taken_from_a_table", [](std::int64_t n) { return in("x", {24, 64}).gather(in("index24", {200 * n}, DType::i32), 0) * 2.0F; }},
      {"product", [](std::int64_t n) { return relu(matmul(in("x", {300 * n, 48}), in("w", {48, 40})) + in("b", {40})); }},
      {"product_of_halves", [](std::int64_t n) { return matmul(in("x", {600 * n, 48}, DType::f16), in("w", {48, 40}, DType::f16)); }},
      {"products", [](std::int64_t n) { return matmul(in("x", {20 * n, 24, 32}), in("y", {20 * n, 32, 24})); }},
      {"attention", [](std::int64_t n) { return attention(in("q", {12 * n, 2, 24, 16}), in("k", {12 * n, 2, 24, 16}), in("v", {12 * n, 2, 24, 16})); }},
      {"pairs_of_words", [](std::int64_t n) { return in("x", {9001 * n}, DType::i64) + in("y", {9001 * n}, DType::i64); }},
  };
  return all;
}

struct Limits {
  const char* name;
  std::map<std::string, std::uint64_t> limits;
  std::int64_t n = 1;
  bool guarded = true;  ///< the test's own buffers are in one piece
};

class LargeTensors : public testing::TestWithParam<Limits> {};

/// Bytes of the largest binding, and kernels that bind a part of something.
std::pair<std::int64_t, int> bound_by(const Executable& program) {
  std::int64_t most = 0;
  int parts = 0;
  for (const auto& step : variant_of(program)->kernels) {
    for (const codegen::Kernel& kernel : step) {
      parts += std::any_of(kernel.bindings.begin(), kernel.bindings.end(), [](const codegen::Binding& one) { return one.bytes > 0; }) ? 1 : 0;
      for (const codegen::Binding& binding : kernel.bindings) most = std::max(most, binding.bytes);
    }
  }
  return {most, parts};
}

void run_case(const Device& device, const Limits& how, const Large& one) {
  SCOPED_TRACE(one.name);
  const ir::Graph graph = graph_of({one.make(how.n)});
  Build build;
  build.device = &device;
  build.fusion = one.fusion;
  const Executable program = compile_graph(graph, build);
  const auto [most, parts] = bound_by(program);
  EXPECT_GE(parts, 2);
  EXPECT_LE(static_cast<std::uint64_t>(most), how.limits.begin()->second);
  const Data data = data_for({graph, {}, 7, false});
  if (how.guarded) {
    judge(program, graph, data, one.name);
    return;
  }
  Inputs inputs;
  for (const auto& [name, bytes] : data.inputs) inputs.emplace(name, HostView(std::span<const std::byte>(bytes)));
  NamedBytes results;
  for (const auto& [name, array] : must(program.run(inputs))) results[name] = array.bytes;
  EXPECT_EQ(check_outputs(graph, data, results).wrong, "");
  // The same on buffers that the caller binds.
  Bindings bindings;
  for (const Port& port : program.inputs()) {
    std::vector<std::int64_t> sizes;
    for (const Dim& dim : port.shape) sizes.push_back(dim.size());
    bindings.inputs[port.name] = must(device.allocate(port.dtype, sizes));
    must(bindings.inputs[port.name].write(data.inputs.at(port.name)));
  }
  for (const Port& port : program.outputs()) {
    std::vector<std::int64_t> sizes;
    for (const Dim& dim : port.shape) sizes.push_back(dim.size());
    bindings.outputs[port.name] = must(device.allocate(port.dtype, sizes));
  }
  must(must(program.submit(bindings)).wait());
  for (auto& [name, bytes] : results) {
    std::vector<std::byte> again(bytes.size());
    must(bindings.outputs.at(name).read(again));
    EXPECT_EQ(again, bytes) << "the same bits in bound buffers";
  }
}

TEST_P(LargeTensors, RunInPieces) {
  const WatchedDevice watched({.limits = GetParam().limits});
  for (const Large& one : cases()) {
    if (GetParam().n > 1 && (one.name == std::string("random") || one.name == std::string("attention"))) continue;  // the reference takes its time
    run_case(watched.device(), GetParam(), one);
  }
}

INSTANTIATE_TEST_SUITE_P(OfLimits, LargeTensors,
                         testing::Values(Limits{"range", {{"storage_range", 16384}}}, Limits{"allocation", {{"max_allocation", 16384}}, 1, false},
                                         Limits{"both", {{"storage_range", 9000}, {"max_allocation", 20000}}, 1, false}),
                         [](const testing::TestParamInfo<Limits>& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace vkfuse::test

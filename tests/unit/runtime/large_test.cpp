// Tensors over the device's limits: windows of them, pieces in memory, and the one error where neither helps.
#include <gtest/gtest.h>

#include <cstring>

#include "support/compare.hpp"
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

Tensor in(const char* name, Shape shape, DType dtype = DType::f32) {
  return Tensor::input(name, dtype, std::move(shape));
}

/// With n = 1 the largest tensors have some 50 KB.
const std::vector<Large>& cases() {
  static const std::vector<Large> all = {
      {"chain", [](std::int64_t n) { return relu(exp(in("x", {13001 * n})) * 0.5F) + 1.0F; }},
      {"one_kernel_per_op", [](std::int64_t n) { return relu(exp(in("x", {13001 * n})) * 0.5F) + 1.0F; }, false},
      {"halves",
       [](std::int64_t n) { return exp(in("x", {26003 * n}, DType::f16)) + in("y", {26003 * n}, DType::f16); }},
      {"bytes_to_words",
       [](std::int64_t n) {
         return in("x", {20011 * n}, DType::u8).cast(DType::i32) * Tensor::scalar_int(DType::i32, 3);
       }},
      {"words_to_bytes", [](std::int64_t n) { return in("x", {20011 * n}, DType::i32).cast(DType::u8); }},
      {"odd_rows_and_a_bias",
       [](std::int64_t n) {
         return in("x", {301 * n, 83}, DType::f16) * in("b", {83}, DType::f16);
       }},
      {"a_factor_per_row",
       [](std::int64_t n) {
         return in("x", {301 * n, 83}) * in("b", {301 * n, 1});
       }},
      {"softmax",
       [](std::int64_t n) {
         return softmax(in("x", {130 * n, 100}));
       }},
      {"softmax_of_halves",
       [](std::int64_t n) {
         return softmax(in("x", {259 * n, 99}, DType::f16));
       }},
      {"norm",
       [](std::int64_t n) {
         return normalize(in("x", {130 * n, 100}), {1}, 1e-5) * in("w", {100});
       }},
      {"two_results",
       [](std::int64_t n) {
         const Tensor x = in("x", {130 * n, 100});
         return x - x.max({1}, true);
       }},
      {"sums_of_rows",
       [](std::int64_t n) {
         return in("x", {900 * n, 16}).sum({1});
       }},
      {"positions_of_rows",
       [](std::int64_t n) {
         return in("x", {130 * n, 100}).argmax(1);
       }},
      {"running_sums",
       [](std::int64_t n) {
         return in("x", {130 * n, 100}).cumsum(1);
       }},
      {"sorted_rows",
       [](std::int64_t n) {
         return in("x", {130 * n, 100}).argsort(1);
       }},
      {"inner_axes_change_places",
       [](std::int64_t n) {
         return in("x", {24 * n, 16, 36}).permute({0, 2, 1}) + 1.0F;
       }},
      {"transposed",
       [](std::int64_t n) {
         return in("x", {130 * n, 100}).transpose() + 1.0F;
       }},
      {"bytes_transposed",
       [](std::int64_t n) {
         return in("x", {263 * n, 200}, DType::u8).transpose() + Tensor::scalar_int(DType::u8, 1);
       }},
      {"rows_backwards",
       [](std::int64_t n) {
         return in("x", {130 * n, 100}).reverse({1}) + 1.0F;
       }},
      {"all_backwards", [](std::int64_t n) { return in("x", {16384 * n}).reverse({0}) + 1.0F; }},
      {"a_slice",
       [](std::int64_t n) {
         return in("x", {400 * n, 64}).slice(0, 150, 150 + 200 * n) * 2.0F;
       }},
      {"every_other", [](std::int64_t n) { return in("x", {16384 * n}).slice(0, 1, 16383, 2) + 1.0F; }},
      {"padded_inside",
       [](std::int64_t n) {
         return in("x", {200 * n, 60}).pad({0, 2}, {0, 3}, 7) + 1.0F;
       }},
      {"padded_outside",
       [](std::int64_t n) {
         return in("x", {200 * n, 60}).pad({3, 0}, {5, 0}, 7) + 1.0F;
       }},
      {"joined_inside",
       [](std::int64_t n) {
         return concat({in("x", {200 * n, 40}), exp(in("y", {200 * n, 24}))}, 1);
       }},
      {"joined_outside",
       [](std::int64_t n) {
         return concat({in("x", {60 * n, 80}), exp(in("y", {110 * n, 80}))}, 0);
       }},
      {"neighbours",
       [](std::int64_t n) {
         return in("x", {200 * n, 60}).unfold(1, 3, 1).sum({2});
       }},
      {"copies",
       [](std::int64_t n) {
         return in("x", {20, 33}).repeat({20 * n, 1}) + in("y", {400 * n, 33});
       }},
      {"positions",
       [](std::int64_t n) {
         return Tensor::iota(DType::i32, {200 * n, 64}, 0) + in("x", {200 * n, 64}, DType::i32);
       }},
      {"random", [](std::int64_t n) { return Tensor::random({13001 * n}, 7).bitcast(DType::i32); }},
      {"taken_from_a_table",
       [](std::int64_t n) {
         return in("x", {24, 64}).gather(in("index24", {200 * n}, DType::i32), 0) * 2.0F;
       }},
      {"product",
       [](std::int64_t n) {
         return relu(matmul(in("x", {300 * n, 48}), in("w", {48, 40})) + in("b", {40}));
       }},
      {"product_of_halves",
       [](std::int64_t n) {
         return matmul(in("x", {600 * n, 48}, DType::f16), in("w", {48, 40}, DType::f16));
       }},
      {"products",
       [](std::int64_t n) {
         return matmul(in("x", {20 * n, 24, 32}), in("y", {20 * n, 32, 24}));
       }},
      {"attention",
       [](std::int64_t n) {
         return attention(in("q", {12 * n, 2, 24, 16}), in("k", {12 * n, 2, 24, 16}), in("v", {12 * n, 2, 24, 16}));
       }},
      {"pairs_of_words",
       [](std::int64_t n) { return in("x", {9001 * n}, DType::i64) + in("y", {9001 * n}, DType::i64); }},
  };
  return all;
}

struct Limits {
  const char* name;
  std::map<std::string, std::uint64_t> limits;
  std::int64_t n = 1;
  bool guarded = true;                  ///< the test's own buffers are in one piece
  std::vector<std::string> cases = {};  ///< empty: all
};

class LargeTensors : public testing::TestWithParam<Limits> {};

/// Bytes of the largest binding, and kernels that bind a part of something.
std::pair<std::int64_t, int> bound_by(const Executable& program) {
  std::int64_t most = 0;
  int parts = 0;
  for (const auto& step : specialization_of(program)->kernels) {
    for (const runtime::Launch& launch : step) {
      const lowering::Kernel& kernel = *launch.kernel;
      parts += std::any_of(kernel.bindings.begin(), kernel.bindings.end(),
                           [](const lowering::Binding& one) { return one.bytes > 0; })
                   ? 1
                   : 0;
      for (const lowering::Binding& binding : kernel.bindings) most = std::max(most, binding.bytes);
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
  for (const auto& limit : how.limits) EXPECT_LE(static_cast<std::uint64_t>(most), limit.second);
  const Data data = data_for({graph, {}, 7, false});
  if (how.guarded) {
    compare_with_reference(program, graph, data, one.name);
    return;
  }
  NamedBytes results = run_on_host(program, graph, data);
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
    const std::vector<std::string>& wanted = GetParam().cases;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), one.name) == wanted.end()) continue;
    run_case(watched.device(), GetParam(), one);
  }
}

INSTANTIATE_TEST_SUITE_P(OfLimits, LargeTensors,
                         testing::Values(Limits{"range", {{"storage_range", 16384}}},
                                         Limits{"allocation", {{"max_allocation", 16384}}, 1, false},
                                         Limits{"both",
                                                {{"max_allocation", 20000}, {"storage_range", 9000}},
                                                1,
                                                false,
                                                {"chain", "halves", "odd_rows_and_a_bias", "softmax_of_halves",
                                                 "padded_outside", "copies", "product"}},
                                         Limits{"a_mebibyte",
                                                {{"storage_range", 1 << 20}},
                                                50,
                                                true,
                                                {"chain", "halves", "softmax", "joined_inside", "product"}}),
                         [](const testing::TestParamInfo<Limits>& each) { return std::string(each.param.name); });

/// The range is the one that is stated where both limits are low.
TEST(LargeTensorErrors, OfWhatCannotBeCutNameValueBytesAndLimit) {
  const WatchedDevice watched({.limits = {{"storage_range", 16384}}});
  const auto sentence = [&](const Tensor& tensor) {
    const auto made = compile(watched.device(), {tensor});
    return made.ok()                                       ? "It compiles."
           : made.error().code == ErrorCode::out_of_memory ? made.error().message
                                                           : "It is another error.";
  };
  const std::string limit = "bytes, and one storage buffer of this device holds 16384 (storage_range); ";
  EXPECT_NE(
      sentence(in("x", {9000}).sum())
          .find("of type f32[9000] takes 36000 " + limit + "the segment has no axis to cut: it reduces all of them."),
      std::string::npos);
  EXPECT_NE(sentence(in("x", {90, 100}).sum({0}))
                .find("of type f32[90, 100] takes 36000 " + limit + "at one position of each axis"),
            std::string::npos);
  EXPECT_NE(sentence(in("x", {90, 100}).gather(in("i", {5}, DType::i32), 0) + 1.0F).find("takes 36000 " + limit),
            std::string::npos);
}

/// The same of what lies in several buffers, and of a constant, which never does.
TEST(LargeTensorErrors, OfWhatIsNotAllocatedAtOnceNameValueBytesAndLimit) {
  const WatchedDevice watched({.limits = {{"max_allocation", 16384}}});
  const auto refusal = [&](const Tensor& tensor) {
    const auto made = compile(watched.device(), {tensor});
    if (!made.ok())
      return made.error().code == ErrorCode::out_of_memory ? made.error().message
                                                           : "It is another error: " + made.error().message;
    // What only a run finds.
    Inputs inputs;
    const std::vector<float> data(9000, 1.0F);
    const std::vector<std::int32_t> positions(5, 1);
    for (const Port& port : made->inputs())
      inputs.emplace(port.name, port.dtype == DType::f32 ? HostView(data) : HostView(positions));
    const auto run = made->run(inputs);
    return run.ok()                                       ? "It runs."
           : run.error().code == ErrorCode::out_of_memory ? run.error().message
                                                          : "It is another error: " + run.error().message;
  };
  const std::string limit = "takes 36000 bytes, and one allocation of this device holds 16384 (max_allocation); ";
  const auto expect = [&](const Tensor& tensor, const std::string& part) {
    const std::string message = refusal(tensor);
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nwanted: " << part;
  };
  expect(in("x", {9000}).sum(),
         "of type f32[9000] " + limit + "the segment has no axis to cut: it reduces all of them.");
  expect(in("x", {90, 100}).sum({0}), "of type f32[90, 100] " + limit + "at one position of each axis");
  expect(in("x", {90, 100}).gather(in("i", {5}, DType::i32), 0) + 1.0F,
         "of type f32[90, 100] " + limit + "at one position of each axis");
  const std::vector<float> table(9000, 2.0F);
  expect(in("x", {90, 100}) + Tensor::constant(DType::f32, {90, 100}, std::as_bytes(std::span(table))), "36000");
  expect(in("x", {90, 100}) + Tensor::constant(DType::f32, {90, 100}, std::as_bytes(std::span(table))), "16384");
}

/// A constant over the range alone lies in one buffer, and windows of it are bound.
TEST(LargeTensors, AConstantOverTheRangeIsReadInWindows) {
  const WatchedDevice watched({.limits = {{"storage_range", 16384}}});
  std::vector<float> table(9000), data(9000, 0.5F), wanted(9000);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i), wanted[i] = table[i] + 0.5F;
  const Executable program =
      must(compile(watched.device(),
                   {in("x", {90, 100}) + Tensor::constant(DType::f32, {90, 100}, std::as_bytes(std::span(table)))}));
  const Outputs outputs = must(program.run({{"x", HostView(data)}}));
  const auto got = outputs.at("y").as<float>();
  EXPECT_EQ(std::vector<float>(got.begin(), got.end()), wanted);
}

/// What a whole cannot do in pieces, its ops may do one by one: rows are cut, their sums are few.
TEST(LargeTensors, WhatIsTooLargeInOneKernelIsPlannedApart) {
  const WatchedDevice watched({.limits = {{"storage_range", 16384}}});
  const Tensor x = in("x", {90, 100});
  const ir::Graph graph = graph_of({exp(x.sum({1})).sum()});
  Build build;
  build.device = &watched.device();
  const Executable program = compile_graph(graph, build);
  compare_with_reference(program, graph, data_for({graph, {}, 7, false}), "a sum of sums");
}

/// Where there is room for them: elements that are checked where pieces meet, and here and there.
void expect_right(const Executable& program, DType dtype, std::int64_t rows, std::int64_t width,
                  const std::function<bool(std::uint64_t at, const std::byte* got)>& right) {
  const std::int64_t sizes[] = {rows, width};
  const Device& on = device();
  const std::uint64_t size = static_cast<std::uint64_t>(size_of(dtype)),
                      bytes = static_cast<std::uint64_t>(rows * width) * size;
  Bindings bindings;
  bindings.inputs["x"] = must(on.allocate(dtype, sizes));
  bindings.outputs["y"] = must(on.allocate(dtype, sizes));
  constexpr std::uint64_t kPart = std::uint64_t{1} << 26;
  std::vector<std::byte> part(kPart);
  for (std::uint64_t begin = 0; begin < bytes; begin += kPart) {
    for (std::uint64_t i = 0; i < kPart / 4; ++i) {
      const std::uint64_t at = begin / 4 + i;
      const float value = static_cast<float>(at % 8191);
      const auto word = static_cast<std::uint32_t>(at * 2654435761u);
      std::memcpy(part.data() + i * 4, dtype == DType::f32 ? static_cast<const void*>(&value) : &word, 4);
    }
    must(bindings.inputs["x"].write(std::span(part).first(std::min(kPart, bytes - begin)), begin));
  }
  must(must(program.submit(bindings)).wait());
  std::uint64_t wrong = 0, checked = 0;
  for (std::uint64_t begin = 0; begin < bytes; begin += kPart) {
    const std::uint64_t count = std::min(kPart, bytes - begin);
    must(bindings.outputs["y"].read(std::span(part).first(count), begin));
    for (std::uint64_t i = 0; i < count; i += size, ++checked)
      wrong += right((begin + i) / size, part.data() + i) ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0u) << "of " << checked;
  const std::vector<KernelTime> times = must(program.profile(bindings));
  for (const KernelTime& time : times)
    fmt::print("{} bytes in {} dispatches: {:.0f} us, {:.0f} GB/s\n", bytes, program.kernel_count(), time.microseconds,
               static_cast<double>(time.bytes) / time.microseconds * 1e-3);
}

/// A driver that runs on the CPU offers memory of the host, which other tests have a share of.
bool has_room() {
  return device().description().type != "cpu" &&
         device().state()->context->memory().left(vulkan::BufferKind::device) >= (std::uint64_t{14} << 30);
}

TEST(LargeTensors, OfSixGibibytesWork) {
  if (!has_room()) GTEST_SKIP() << "The device has less than 14 GiB that no host shares, for two tensors of 6 GiB.";
  const Tensor x = in("x", {std::int64_t{3} << 19, 1024});
  const Executable program = must(compile(device(), {relu(x * 2.0F - 100.0F)}));
  EXPECT_GE(program.kernel_count(), 2);
  expect_right(program, DType::f32, std::int64_t{3} << 19, 1024, [](std::uint64_t at, const std::byte* got) {
    float value = 0;
    std::memcpy(&value, got, 4);
    return value == std::max(0.0F, static_cast<float>(at % 8191) * 2 - 100);
  });
}

/// Rows that no power of two is a multiple of, and a kernel that folds them.
TEST(LargeTensors, OfSixGibibytesInOddRowsWork) {
  if (!has_room()) GTEST_SKIP() << "The device has less than 14 GiB that no host shares, for two tensors of 6 GiB.";
  const std::int64_t width = 3001, rows = (std::int64_t{3} << 29) / width;
  const Tensor x = in("x", {rows, width});
  const Executable program = must(compile(device(), {x - x.max({1}, true)}));
  EXPECT_GE(program.kernel_count(), 2);
  expect_right(program, DType::f32, rows, width, [&](std::uint64_t at, const std::byte* got) {
    // Numbers rise to 8190 and begin anew: the largest of a row is its last, or 8190 if it begins anew inside.
    const std::uint64_t first = at / static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(width),
                        last = first + static_cast<std::uint64_t>(width) - 1;
    const std::uint64_t most = first % 8191 > last % 8191 ? 8190 : last % 8191;
    float value = 0;
    std::memcpy(&value, got, 4);
    return value == static_cast<float>(at % 8191) - static_cast<float>(most);
  });
}

/// More than 2^31 elements in one kernel.
TEST(LargeTensors, OfThreeThousandMillionBytesWork) {
  if (!has_room()) GTEST_SKIP() << "The device has less than 14 GiB that no host shares.";
  const std::int64_t width = 3000, rows = 1000000;
  const Tensor x = in("x", {rows, width}, DType::u8);
  const Executable program = must(compile(device(), {x + Tensor::scalar_int(DType::u8, 3)}));
  expect_right(program, DType::u8, rows, width, [](std::uint64_t at, const std::byte* got) {
    const auto word = static_cast<std::uint32_t>(at / 4 * 2654435761u);
    return std::to_integer<unsigned>(*got) == ((word >> (8 * (at % 4)) & 0xffu) + 3u) % 256u;
  });
}

}  // namespace
}  // namespace vkfuse::test

// Attention against caches of which data says how much they hold: what is beyond is not looked at.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "support/compare.hpp"
#include "support/random.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/generation.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

struct Cache {
  const char* name;
  std::int64_t batch, heads, key_heads, queries, capacity, size;
  DType dtype = DType::f32;
  CachedAttentionOptions options = {};
  friend void PrintTo(const Cache& cache, std::ostream* out) { *out << cache.name; }
};

Tensor attention_of(const Cache& c) {
  const auto input = [&](const char* name, std::int64_t heads, std::int64_t positions) {
    return Tensor::input(name, c.dtype, {c.batch, heads, positions, c.size});
  };
  return cached_attention(input("q", c.heads, c.queries), input("keys", c.key_heads, c.capacity),
                          input("values", c.key_heads, c.capacity), Tensor::input("starts", DType::i32, {c.batch}),
                          c.options);
}

/// Bytes of random floats of a type.
std::vector<std::byte> numbers(DType dtype, std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < count; ++i) ir::encode(dtype, random.between(-2, 2), bytes);
  return bytes;
}

const Build kBySubgroups{
    .tuning = {.matmul = true, .attention = schedule::AttentionShape{.keys = 2, .subgroups = 2, .lanes = 4}}};

/// Several workgroups share the keys, as on GPUs where rows are few: by subgroups, by threads with shuffles and
/// without, and where the device hides what workgroups have stored from each other.
constexpr int kSplits = 3;
const Build kSharedBySubgroups{
    .tuning = {.splits = kSplits,
               .matmul = true,
               .attention = schedule::AttentionShape{.keys = 2, .subgroups = 2, .lanes = 4}}};
const Build kSharedByThreads{.tuning = {.splits = kSplits,
                                        .matmul = true,
                                        .attention = schedule::AttentionShape{.threads_m = 2, .threads_k = 4}}};
const Build kSharedByThreadsInSlices{
    .tuning = {.splits = kSplits,
               .matmul = true,
               .attention = schedule::AttentionShape{.threads_m = 4, .threads_k = 8, .slices = true}}};
Build in_two_dispatches(Build how) {
  how.planned_as = DeviceIdentity{.name = "Apple M2", .driver_name = "MoltenVK", .type = target(false).type};
  return how;
}
std::vector<Build> shared_builds() {
  return {kSharedBySubgroups, kSharedByThreads, kSharedByThreadsInSlices, in_two_dispatches(kSharedBySubgroups),
          in_two_dispatches(kSharedByThreads)};
}

class CachedAttention : public testing::TestWithParam<Cache> {
 protected:
  static void check_what_is_held(const Build& how);
  /// Keys and values, with one number in all positions from `held` on.
  static std::vector<std::byte> cache(const std::vector<std::int32_t>& held, double beyond, std::uint64_t seed) {
    const Cache& c = GetParam();
    const auto width = static_cast<std::size_t>(size_of(c.dtype));
    std::vector<std::byte> bytes = numbers(c.dtype, c.batch * c.key_heads * c.capacity * c.size, seed), number;
    ir::encode(c.dtype, beyond, number);
    for (std::size_t i = 0; i < bytes.size() / width; ++i) {
      const auto row = static_cast<std::int64_t>(i) / c.size;
      if (row % c.capacity >= held[static_cast<std::size_t>(row / c.capacity / c.key_heads)])
        std::copy(number.begin(), number.end(), bytes.begin() + static_cast<std::ptrdiff_t>(i * width));
    }
    return bytes;
  }
};

TEST_P(CachedAttention, IsThatOfWhatIsHeld) { check_what_is_held({}); }
/// As GPUs have it.
TEST_P(CachedAttention, BySubgroupsIsThatOfWhatIsHeld) { check_what_is_held(kBySubgroups); }
TEST_P(CachedAttention, ByWorkgroupsIsThatOfWhatIsHeld) {
  for (const Build& how : shared_builds()) check_what_is_held(how);
}

void CachedAttention::check_what_is_held(const Build& how) {
  const Cache& c = GetParam();
  const Executable program = compile_graph(graph_of({attention_of(c)}), how);
  // What joins a graph's own parts is shared by workgroups, too, where that is asked for.
  if (!c.options.part || !how.tuning.splits) {
    EXPECT_TRUE(are_kernels_at_most(static_cast<std::size_t>(program.kernel_count()), 2));
  }
  const std::vector<std::byte> q = numbers(c.dtype, c.batch * c.heads * c.queries * c.size, 1);
  for (const std::int64_t start : {std::int64_t{0}, c.capacity / 3, c.capacity - c.queries}) {
    std::vector<std::int32_t> starts, held;
    for (std::int64_t b = 0; b < c.batch; ++b) {
      starts.push_back(static_cast<std::int32_t>(start >= b ? start - b : 0));
      held.push_back(starts.back() + static_cast<std::int32_t>(c.queries));
    }
    const auto result = [&](double beyond) {
      const std::vector<std::byte> keys = cache(held, beyond, 2), values = cache(held, beyond, 3);
      const auto outputs = must(program.run(
          {{"q", HostView(q)}, {"keys", HostView(keys)}, {"values", HostView(values)}, {"starts", HostView(starts)}}));
      return outputs.at("y").bytes;
    };
    const std::vector<std::byte> clean = result(0);
    for (const std::byte* at = clean.data(); at < clean.data() + clean.size(); at += size_of(c.dtype))
      ASSERT_TRUE(std::isfinite(ir::decode(c.dtype, at))) << "start " << start;
    EXPECT_EQ(result(NAN), clean) << "start " << start;
    EXPECT_EQ(result(INFINITY), clean) << "start " << start;
  }
}

/// In one part: what the reference bounds of several, by way of logarithms, decides nothing. Composites has these.
TEST_P(CachedAttention, IsWhatTheReferenceComputes) {
  Cache c = GetParam();
  c.options.part = c.capacity;
  const ir::Graph graph = graph_of({[&] {
    const auto input = [&](const char* name, std::int64_t heads, std::int64_t positions) {
      return Tensor::input(name, c.dtype, {c.batch, heads, positions, c.size});
    };
    const Tensor starts = Tensor::input("index" + std::to_string(c.capacity + 6), DType::i32, {c.batch}) - 3;
    return cached_attention(input("q", c.heads, c.queries), input("keys", c.key_heads, c.capacity),
                            input("values", c.key_heads, c.capacity), starts, c.options);
  }()});
  std::vector<Build> builds = shared_builds();
  builds.insert(builds.end(), {Build{}, {.numerics = Numerics::strict}, kBySubgroups});
  for (const Build& how : builds) {
    const Executable program = compile_graph(graph, how);
    for (const std::uint64_t seed : {7U, 8U}) {
      const Data data = data_for({graph, {}, seed, false});
      const NamedBytes once = compare_rows(program, graph, data, c.name);
      EXPECT_TRUE(run_guarded(program, graph, data).outputs == once) << "another run has other bits";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Differential, CachedAttention,
    testing::Values(Cache{"one_query", 1, 4, 2, 1, 512, 32}, Cache{"unlike_lengths", 3, 4, 4, 1, 64, 16},
                    Cache{"one_part", 1, 4, 1, 1, 96, 64}, Cache{"a_chunk", 1, 4, 2, 8, 128, 32},
                    Cache{"halves", 2, 8, 2, 1, 512, 64, DType::f16},
                    Cache{"a_window", 1, 2, 2, 1, 512, 16, DType::f32, {.window = 40}},
                    Cache{"a_chunk_with_a_window", 2, 2, 1, 5, 160, 16, DType::f32, {.window = 9, .part = 32}},
                    Cache{"a_softcap", 1, 2, 1, 1, 512, 16, DType::f16, {.softcap = 2}},
                    Cache{"all_queries_see_all", 1, 2, 1, 4, 64, 16, DType::f32, {.causal = false}}),
    [](const auto& one) { return std::string(one.param.name); });

/// The same caches in pages, whose order is data: the same results but for the order of sums, whatever lies beyond, and
/// nothing else of the pool.
TEST_P(CachedAttention, InPagesIsThatOfTheSameCaches) {
  const Cache& c = GetParam();
  const std::int64_t page = c.capacity / 32, pages = 32, rows = (c.batch * pages + 2) * page;
  const auto input = [&](const char* name) { return Tensor::input(name, c.dtype, {rows, c.key_heads, c.size}); };
  const Tensor starts = Tensor::input("starts", DType::i32, {c.batch}),
               q = Tensor::input("q", c.dtype, {c.batch, c.heads, c.queries, c.size}),
               table = Tensor::input("table", DType::i32, {c.batch, pages});
  const Tensor y = paged_attention(q, input("keys"), input("values"), {table, starts, page}, c.options);
  const std::int32_t first = static_cast<std::int32_t>(c.capacity / 2);
  const std::vector<std::int32_t> held(static_cast<std::size_t>(c.batch), first + static_cast<std::int32_t>(c.queries)),
      at(held.size(), first);
  const std::vector<std::byte> queries = numbers(c.dtype, c.batch * c.heads * c.queries * c.size, 1);
  // Pages of sequences alternate, the last ones first; those that nothing is in yet are no pages.
  std::vector<std::int32_t> entries;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t i = 0; i < pages; ++i)
      entries.push_back(i * page < held[0] ? static_cast<std::int32_t>((pages - i) * c.batch - b) : -7);
  }
  const auto pool = [&](const std::vector<std::byte>& caches) {
    std::vector<std::byte> made(static_cast<std::size_t>(rows * c.key_heads * c.size * size_of(c.dtype)),
                                std::byte{0xff});
    const auto row_bytes = static_cast<std::size_t>(c.size * size_of(c.dtype));
    for (std::int64_t b = 0; b < c.batch; ++b) {
      for (std::int64_t position = 0; position < held[0]; ++position) {
        const std::int64_t row =
            entries[static_cast<std::size_t>(b * pages + position / page)] * page + position % page;
        for (std::int64_t head = 0; head < c.key_heads; ++head)
          std::memcpy(
              made.data() + static_cast<std::size_t>(row * c.key_heads + head) * row_bytes,
              caches.data() + static_cast<std::size_t>((b * c.key_heads + head) * c.capacity + position) * row_bytes,
              row_bytes);
      }
    }
    return made;
  };
  const std::vector<std::byte> keys = cache(held, NAN, 2), values = cache(held, NAN, 3);
  const std::vector<std::byte> paged_keys = pool(keys), paged_values = pool(values);
  for (const Build& how : {Build{}, kBySubgroups}) {
    const Executable whole = compile_graph(graph_of({attention_of(c)}), how), paged = compile_graph(graph_of({y}), how);
    EXPECT_TRUE(are_kernels_at_most(static_cast<std::size_t>(paged.kernel_count()), 2));
    const auto wanted = must(whole.run(
        {{"q", HostView(queries)}, {"keys", HostView(keys)}, {"values", HostView(values)}, {"starts", HostView(at)}}));
    const auto got = must(paged.run({{"q", HostView(queries)},
                                     {"keys", HostView(paged_keys)},
                                     {"values", HostView(paged_values)},
                                     {"table", HostView(entries)},
                                     {"starts", HostView(at)}}));
    const auto number = [&](const auto& outputs, std::size_t i) {
      return ir::decode(c.dtype, outputs.at("y").bytes.data() + i * static_cast<std::size_t>(size_of(c.dtype)));
    };
    for (std::size_t i = 0; i < queries.size() / static_cast<std::size_t>(size_of(c.dtype)); ++i)
      ASSERT_NEAR(number(got, i), number(wanted, i), c.dtype == DType::f32 ? 1e-5 : 4e-3) << "element " << i;
  }
}

/// Which of them share keys, and that runs at the same time do not count each other's workgroups.
TEST(CachedAttentionParts, AreJoinedByTheLastWorkgroup) {
  const Cache c{"", 2, 4, 2, 1, 512, 32};
  const ir::Graph graph = graph_of({attention_of(c)});
  const bool may_shuffle = schedule::may_shuffle(target(false));
  for (const Build& how : shared_builds()) {
    const Executable program = compile_graph(graph, how);
    const auto specialization = specialization_of(program);
    std::size_t dispatches = 0;
    for (std::size_t i = 0; i < specialization->steps.size(); ++i) {
      const schedule::Schedule& schedule = specialization->steps[i].schedule;
      const auto* params = schedule.get_if<schedule::AttentionParams>();
      if (params == nullptr) continue;
      dispatches += specialization->kernels[i].size();
      EXPECT_EQ(schedule.splits, kSplits);
      EXPECT_EQ(schedule.counter_bytes > 0, !how.planned_as);
      EXPECT_TRUE(how.tuning.attention->lanes == 0 || !may_shuffle || params->by_subgroups() != nullptr);
    }
    EXPECT_EQ(dispatches, has_least_limits() ? dispatches : how.planned_as ? 2U : 1U);

    const std::vector<std::byte> q = numbers(c.dtype, 256, 1), keys = numbers(c.dtype, 65536, 2),
                                 values = numbers(c.dtype, 65536, 3);
    const std::vector<std::int32_t> starts = {511, 77};
    const auto uploaded = [](const auto& data) {
      const auto bytes = std::as_bytes(std::span(data));
      Buffer buffer = must(device().allocate(bytes.size()));
      must(buffer.write(bytes));
      return buffer;
    };
    Bindings bindings;
    bindings.inputs = {
        {"q", uploaded(q)}, {"keys", uploaded(keys)}, {"values", uploaded(values)}, {"starts", uploaded(starts)}};
    std::vector<Submission> runs;
    for (int i = 0; i < 8; ++i) {
      bindings.outputs["y"] = must(device().allocate(1024));
      runs.push_back(must(program.submit(bindings)));
    }
    std::vector<std::byte> first;
    for (const Submission& run : runs) {
      must(run.wait());
      std::vector<std::byte> got(1024);
      must(run.outputs().at("y").read(got));
      if (first.empty()) first = got;
      EXPECT_TRUE(got == first);
    }
  }
}

/// Of 32,768 positions, 100 are held: a run takes a small part of the time that it takes where all are.
void check_that_time_grows(const Cache& c, const Tensor& attention, const std::vector<std::int32_t>& table) {
  const Executable program = compile_graph(graph_of({attention}), {});
  EXPECT_TRUE(are_kernels_at_most(static_cast<std::size_t>(program.kernel_count()), 2));
  if (has_least_limits()) GTEST_SKIP() << "The kernel that skips blocks needs more than four buffers.";
  Bindings bindings;
  const auto give = [&](const char* name, const std::vector<std::byte>& bytes) {
    bindings.inputs[name] = must(device().allocate(bytes.size()));
    must(bindings.inputs[name].write(bytes));
  };
  give("q", numbers(c.dtype, c.heads * c.size, 1));
  give("keys", numbers(c.dtype, c.key_heads * c.capacity * c.size, 2));
  give("values", numbers(c.dtype, c.key_heads * c.capacity * c.size, 3));
  if (!table.empty()) {
    bindings.inputs["table"] = must(device().allocate(4 * table.size()));
    must(bindings.inputs["table"].write(std::as_bytes(std::span(table))));
  }
  bindings.inputs["starts"] = must(device().allocate(4));
  bindings.outputs["y"] = must(device().allocate(static_cast<std::uint64_t>(c.heads * c.size * 4)));
  const auto time = [&](std::int32_t start) {
    must(bindings.inputs["starts"].write(std::as_bytes(std::span(&start, 1))));
    double best = INFINITY;
    for (int run = 0; run < 5; ++run) {
      double all = 0;
      for (const KernelTime& kernel : must(program.profile(bindings))) all += kernel.microseconds;
      best = std::min(best, all);
    }
    return best;
  };
  const double few = time(100), all = time(static_cast<std::int32_t>(c.capacity - 1));
  EXPECT_LT(few * 4, all) << few << " us and " << all << " us";
}

/// One that takes a device much longer than a launch.
Cache cache_to_time() {
  const bool is_gpu = target(false).type != DeviceType::cpu;
  return {"", 1, is_gpu ? 64 : 4, is_gpu ? 64 : 2, 1, 32768, 64};
}

TEST(CachedAttentionTime, GrowsWithWhatIsHeld) {
  const Cache c = cache_to_time();
  check_that_time_grows(c, attention_of(c), {});
}
TEST(CachedAttentionTime, GrowsWithWhatIsHeldInPages) {
  const Cache c = cache_to_time();
  const auto pool = [&](const char* name) { return Tensor::input(name, c.dtype, {c.capacity, c.key_heads, c.size}); };
  std::vector<std::int32_t> table(2048);
  std::iota(table.rbegin(), table.rend(), 0);
  check_that_time_grows(
      c,
      paged_attention(Tensor::input("q", c.dtype, {1, c.heads, 1, c.size}), pool("keys"), pool("values"),
                      {Tensor::input("table", DType::i32, {1, 2048}), Tensor::input("starts", DType::i32, {1}), 16}),
      table);
}

/// Lengths that are negative see all keys: what is beyond them is no reason to leave a block out.
TEST(CachedAttentionMasks, MayJoinAConditionOfDataByOr) {
  const Tensor q = Tensor::input("q", DType::f32, {2, 4, 16}), k = Tensor::input("k", DType::f32, {2, 512, 16});
  const Tensor v = Tensor::input("v", DType::f32, {2, 512, 16});
  const Tensor length = Tensor::input("length", DType::i32, {2}).reshape({2, 1, 1});
  const Tensor key = Tensor::iota(DType::i32, {1, 1, 512}, 2), query = Tensor::iota(DType::i32, {1, 4, 1}, 1);
  const Tensor zero = Tensor::scalar_int(DType::i32, 0);
  const Tensor hidden = Tensor::scalar(DType::f32, -std::numeric_limits<double>::infinity());
  const Tensor masks[] = {logical_or(le(key - query, length), lt(length, zero)),
                          logical_or(ge(key - query - 5000, length), lt(key, Tensor::scalar_int(DType::i32, 10)))};
  for (const Tensor& mask : masks) {
    const Tensor scores = select(mask, matmul(q, k.transpose()), hidden);
    const ir::Graph graph = graph_of({matmul(softmax(scores), v)});
    const Executable program = compile_graph(graph, {});
    for (const std::vector<std::int32_t>& lengths : {std::vector<std::int32_t>{-1, 300}, {-6000, -1}, {511, 0}}) {
      Data data;
      data.inputs = {{"q", numbers(DType::f32, 128, 3)},
                     {"k", numbers(DType::f32, 16384, 4)},
                     {"v", numbers(DType::f32, 16384, 5)}};
      const auto bytes = std::as_bytes(std::span(lengths));
      data.inputs["length"] = {bytes.begin(), bytes.end()};
      compare_with_reference(program, graph, data, fmt::format("lengths {}, {}", lengths[0], lengths[1]));
    }
  }
}

TEST(PagedAttentionErrors, SayWhatWasGiven) {
  const auto refusal = [](const Tensor& y) { return y.valid() ? std::string() : y.error().message; };
  const auto input = [](const char* name, const Shape& shape) { return Tensor::input(name, DType::f32, shape); };
  const Tensor q = input("q", {1, 4, 1, 8}), pool = input("k", {20, 2, 8}), start = Tensor::input("s", DType::i32, {1});
  const auto table = [](const Shape& shape) { return Tensor::input("t", DType::i32, shape); };
  EXPECT_EQ(refusal(page_rows({table({1, Dim(1 << 27)}), start, 1}, 1)),
            "'page_rows' takes 1 to 67108864 positions of a sequence, but there are 134217728 pages of 1.");
  EXPECT_EQ(refusal(page_rows({table({1, Dim::any("pages")}), start, 16}, 1)),
            "'page_rows' takes a table of i32 [batch, pages], at least one page, whose number is no symbol, but it is "
            "i32[1, pages].");
  EXPECT_EQ(
      refusal(page_rows({table({2, 8}), start, 16}, 1)),
      "'page_rows' takes 1 to 67108864 positions from a start of i32 on, or one for each of 2 sequences, but it was "
      "given 1 and i32[1].");
  const auto pools = [&](const Tensor& keys, const Tensor& values, std::int64_t page) {
    return refusal(paged_attention(q, keys, values, {table({1, 4}), start, page}));
  };
  const std::string wanted =
      "'paged_attention' takes queries [batch, heads, queries, size], and keys [rows, key heads, size] and values "
      "[rows, "
      "key heads, value size] of a pool of whole pages of 5 rows, but they are f32[1, 4, 1, 8], ";
  EXPECT_EQ(pools(pool, input("v", {10, 2, 8}), 5), wanted + "f32[20, 2, 8] and f32[10, 2, 8].");
  EXPECT_EQ(pools(input("k", {20, 3, 8}), input("v", {20, 3, 8}), 5), wanted + "f32[20, 3, 8] and f32[20, 3, 8].");
  EXPECT_EQ(pools(input("k", {18, 2, 8}), input("v", {18, 2, 8}), 5), wanted + "f32[18, 2, 8] and f32[18, 2, 8].");
  EXPECT_EQ(pools(pool, pool, 5), "");
}

/// Entries that no pool has, as large as they get: nothing is written to another page.
TEST(PagedAttentionErrors, RowsOfEntriesPastThePoolAreLeftOut) {
  const Tensor rows =
      page_rows({Tensor::input("table", DType::i32, {6, 1}), Tensor::input("s", DType::i32, {}), 16}, 1);
  const Executable program = must(compile(device(), {rows}, {}));
  const std::vector<std::int32_t> entries = {0, -1, 1 << 28, (1 << 28) + 1, INT32_MAX, INT32_MIN}, start = {3};
  const Outputs outputs = must(program.run({{"table", HostView(entries)}, {"s", HostView(start)}}));
  const auto got = outputs.at("y").as<std::int32_t>();
  EXPECT_EQ(got[0], 3);
  for (const std::size_t i : {1U, 5U}) EXPECT_EQ(got[i], -1);
  for (const std::size_t i : {2U, 3U, 4U}) EXPECT_GT(got[i], INT32_MAX - 32);
}

TEST(CachedAttentionErrors, SayWhatWasGiven) {
  const Tensor q = Tensor::input("q", DType::f32, {1, 4, 1, 8}), cache = Tensor::input("k", DType::f32, {1, 2, 64, 8});
  const Tensor start = Tensor::input("s", DType::i32, {1});
  const auto refusal = [](const Tensor& y) { return y.valid() ? std::string() : y.error().message; };
  EXPECT_EQ(refusal(cached_attention(q, cache, cache, start, {.part = 48})),
            "'cached_attention' looks at parts of 48 keys, which must be above 1 and divide the capacity 64.");
  EXPECT_EQ(refusal(cached_attention(q, cache, cache, start.cast(DType::i64))),
            "'cached_attention' takes a start of i32, or one for each of 1 sequences, but they are i64[1].");
  EXPECT_EQ(refusal(cached_attention(q, cache, cache, start, {.window = 0})),
            "'cached_attention' has a window of 1 to 67108864 keys, but it is 0.");
  const Tensor three = Tensor::input("k3", DType::f32, {1, 3, 64, 8});
  EXPECT_EQ(refusal(cached_attention(q, three, three, start)),
            "'cached_attention' of queries f32[1, 4, 1, 8] has keys f32[1, 3, 64, 8] and values f32[1, 3, 64, 8]: "
            "heads, positions or sizes do not agree.");
}

}  // namespace
}  // namespace vkfuse::test

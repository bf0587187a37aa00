// Chains of reductions along rows: one kernel each at every length, whatever the axis, the same bits every time.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "support/compare.hpp"
#include "support/random.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

// --- what people fold ------------------------------------------------------------------------------------

Tensor input(const char* name, DType dtype, Shape shape) { return Tensor::input(name, dtype, std::move(shape)); }

/// As many rows as the reference has time for.
std::int64_t rows_of(std::int64_t length) { return std::clamp<std::int64_t>(20000 / length, 3, 37); }

/// A divisor of the length near its square root.
std::int64_t part_of(std::int64_t length) {
  std::int64_t part = 1;
  for (std::int64_t i = 2; i * i <= length && i <= 8; ++i) part = length % i == 0 ? i : part;
  return part;
}

struct Chain {
  const char* name;
  ir::Graph (*build)(DType dtype, std::int64_t length);
  int dispatches = 2;  ///< of few long rows, at most
  friend std::ostream& operator<<(std::ostream& out, const Chain& chain) { return out << chain.name; }
};

const Chain kChains[] = {
    {"softmax_of_the_last_axis",
     [](DType dtype, std::int64_t n) {
       return graph_of({softmax(input("x", dtype, {rows_of(n), n}))});
     }},
    {"softmax_of_a_middle_axis",
     [](DType dtype, std::int64_t n) {
       return graph_of({softmax(input("x", dtype, {2, n, 6}), 1)});
     }},
    {"softmax_of_the_first_axis",
     [](DType dtype, std::int64_t n) {
       return graph_of({softmax(input("x", dtype, {n, 8}), 0)});
     }},
    {"layer_norm",
     [](DType dtype, std::int64_t n) {
       const Tensor x = input("x", dtype, {rows_of(n), n});
       return graph_of({normalize(x, {1}, 1e-3) * input("weight", dtype, {n}) + input("bias", dtype, {n})});
     }},
    {"residual_and_rms_norm",
     [](DType dtype, std::int64_t n) {
       const Tensor sum = input("x", dtype, {rows_of(n), n}) + input("residual", dtype, {rows_of(n), n});
       return graph_of({sum, rms_normalize(sum, {1}, 1e-3) * input("weight", dtype, {n})});
     }},
    {"group_norm_and_silu",
     [](DType dtype, std::int64_t n) {
       constexpr std::int64_t kGroups = 3;
       const std::int64_t channels = part_of(n);
       const Tensor x = input("x", dtype, {2, kGroups * channels, n / channels});
       const Tensor normal = normalize(x.reshape({2, kGroups, n}), {2}, 1e-3).reshape(x.shape());
       return graph_of({silu(normal * input("weight", dtype, {kGroups * channels, 1}) +
                             input("bias", dtype, {kGroups * channels, 1}))});
     }},
    {"cross_entropy",
     [](DType dtype, std::int64_t n) {
       return graph_of({cross_entropy(input("logits", dtype, {rows_of(n), n}),
                                      input(fmt::format("index{}", n).c_str(), DType::i32, {rows_of(n)}))});
     }},
    {"quantise",
     [](DType dtype, std::int64_t n) {
       const Tensor x = input("x", dtype, {rows_of(n), n}).cast(DType::f32);
       const Tensor scale = abs(x).max({1}, true) / 127.0;
       const Tensor whole = clamp(round(x / scale), Tensor::scalar(DType::f32, -127), Tensor::scalar(DType::f32, 127));
       return graph_of({whole.cast(DType::i8), scale.squeeze(1)});
     }},
    {"log_softmax",
     [](DType dtype, std::int64_t n) {
       return graph_of({log_softmax(input("x", dtype, {rows_of(n), n}))});
     }},
    {"instance_norm",
     [](DType dtype, std::int64_t n) {
       const Tensor x = input("x", dtype, {2, 3, part_of(n), n / part_of(n)});
       return graph_of(
           {normalize(x, {2, 3}, 1e-3) * input("weight", dtype, {3, 1, 1}) + input("bias", dtype, {3, 1, 1})});
     }},
    {"batch_norm",
     [](DType dtype, std::int64_t n) {
       const Tensor x = input("x", dtype, {2, 3, n});
       const Tensor mean = x.mean({0, 2}, true);
       return graph_of(
           {relu(normalize(x, {0, 2}, 1e-3) * input("weight", dtype, {3, 1}) + input("bias", dtype, {3, 1})),
            mean.reshape({3})});
     }},
    {"top_1",
     [](DType dtype, std::int64_t n) {
       const Tensor x = input("x", dtype, {rows_of(n), n});
       return graph_of({x.max({1}), x.argmax(1)});
     }},
    // The statistics, the two sums of the gradient, and what is stored are a pass each.
    {"layer_norm_backward",
     [](DType dtype, std::int64_t n) {
       const Tensor x = input("x", dtype, {rows_of(n), n});
       const Tensor gradient = input("gradient", dtype, {rows_of(n), n}) * input("weight", dtype, {n});
       const Tensor centered = x - x.mean({1}, true);
       const Tensor scale = rsqrt((centered * centered).mean({1}, true) + 1e-3);
       const Tensor normal = centered * scale;
       return graph_of({(gradient - gradient.mean({1}, true) - normal * (gradient * normal).mean({1}, true)) * scale});
     },
     3},
};

const std::int64_t kLengths[] = {1, 7, 64, 1000, 4096, 4098, 65537};

int dispatches(const Executable& program) { return specialization_of(program)->dispatches(); }

class Chains : public testing::TestWithParam<Chain> {
 protected:
  static void check(DType dtype) {
    for (const std::int64_t length : kLengths) {
      const std::string what = fmt::format("{} of {} elements of {}", GetParam().name, length, name_of(dtype));
      const ir::Graph graph = GetParam().build(dtype, length);
      const Data data = data_for({graph, {}, 41, false});
      const Executable fused = compile_graph(graph, Build{});
      EXPECT_TRUE(are_kernels(fused.state()->program->plan().steps.size(), 1)) << what << "\n" << ir::print(graph);
      EXPECT_LE(dispatches(fused), GetParam().dispatches) << what;
      const NamedBytes once = compare_with_reference(fused, graph, data, what);
      EXPECT_TRUE(run_guarded(fused, graph, data).outputs == once) << what << ": another run has other bits";
    }
  }
};

TEST_P(Chains, AreOneKernelOfF32) { check(DType::f32); }
TEST_P(Chains, AreOneKernelOfF16) { check(DType::f16); }

INSTANTIATE_TEST_SUITE_P(Differential, Chains, testing::ValuesIn(kChains),
                         [](const auto& chain) { return std::string(chain.param.name); });

// --- every reduction ---------------------------------------------------------------------------------------

struct Axes {
  const char* name;
  std::vector<int> axes;
};
const Axes kAxes[] = {{"first", {0}}, {"middle", {1}}, {"last", {2}}, {"first and last", {0, 2}}, {"all", {0, 1, 2}}};

class Reductions : public testing::TestWithParam<DType> {
 protected:
  /// Every reduction row that takes the dtype, over the same axes: one kernel for all of them.
  static ir::Graph graph(const Shape& shape, const std::vector<int>& axes) {
    ir::Graph made;
    const ir::NodeId id = must(made.add_input("x", {GetParam(), shape}));
    for (const ops::OpRow& row : ops::table()) {
      const bool positions = row.reduction.kind == ops::Reduction::Kind::arg;
      if (row.cls != ops::OpClass::reduce || (row.types & ops::bit(GetParam())) == 0 || (positions && axes.size() != 1))
        continue;
      must(made.add_output(std::string(row.name), must(made.add_structured(row, {id}, ir::AxesPayload{axes}))));
    }
    return made;
  }
};

/// Floats whose products neither overflow nor vanish, whatever the order; a few NaN, infinities and zeros.
Data moderate(const ir::Graph& graph, DType dtype, bool special) {
  Data data = data_for({graph, {}, 43, false});
  if (!is_float(dtype)) return data;
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> planted = {inf, -inf, std::nan(""), 0.0, -0.0};
  std::vector<std::byte>& bytes = data.inputs.at("x");
  const std::size_t count = bytes.size() / static_cast<std::size_t>(size_of(dtype));
  bytes.clear();
  Random random(44);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = random.between(0.97, 1.03) * (random.chance(50) ? -1 : 1);
    ir::encode(dtype, special && random.chance(3) ? random.pick(planted) : value, bytes);
  }
  return data;
}

TEST_P(Reductions, OfEveryAxisAreOneKernel) {
  if (GetParam() == DType::f64 && !target().caps.arithmetic.float64) GTEST_SKIP() << "the device has no 64-bit floats";
  for (const Shape& shape : {Shape{5, 33, 18}, Shape{3, 1, 64}}) {
    for (const Axes& axes : kAxes) {
      const ir::Graph made = graph(shape, axes.axes);
      const Executable fused = compile_graph(made, Build{});
      EXPECT_TRUE(are_kernels(fused.state()->program->plan().steps.size(), 1)) << axes.name << "\n" << ir::print(made);
      for (const bool special : {false, true}) {
        const Data data = moderate(made, GetParam(), special);
        const std::string what =
            fmt::format("the {} axes of {}{}", axes.name, to_text(shape), special ? " with NaN and infinities" : "");
        const NamedBytes once = compare_with_reference(fused, made, data, what);
        EXPECT_TRUE(run_guarded(fused, made, data).outputs == once) << what << ": another run has other bits";
      }
    }
  }
}

std::vector<DType> every_dtype() {
  std::vector<DType> all;
  for (int i = 0; i < kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
  return all;
}
INSTANTIATE_TEST_SUITE_P(Differential, Reductions, testing::ValuesIn(every_dtype()),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

// --- rows that have no number ----------------------------------------------------------------------------------

TEST(Rows, InfinitiesAndNaNStayInTheirRow) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr std::int64_t kRow = 100;
  // Of each row: every element, and one at a place of its own.
  const std::pair<double, double> rows[] = {{0.5, 0.25},       {-inf, -inf}, {1, inf},   {1, -inf},
                                            {2, std::nan("")}, {-inf, 3},    {inf, inf}, {-0.0, 0.0}};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Tensor x = Tensor::input("x", dtype, {std::ssize(rows), kRow});
    Data data;
    for (std::size_t r = 0; r < std::size(rows); ++r) {
      for (std::int64_t i = 0; i < kRow; ++i)
        ir::encode(dtype, i == static_cast<std::int64_t>(37 + r * 7) ? rows[r].second : rows[r].first,
                   data.inputs["x"]);
    }
    const ir::Graph graphs[] = {graph_of({softmax(x)}), graph_of({log_softmax(x)}),
                                graph_of({x.max({1}), x.min({1}), x.sum({1}), x.argmax(1), x.argmin(1)}),
                                graph_of({normalize(x, {1}, 1e-3)})};
    for (const ir::Graph& graph : graphs) {
      for (const std::optional<bool> online : {std::optional<bool>(), std::optional(true)}) {
        Build how;
        how.tuning.online = online;
        how.tuning.persistent = online ? std::optional(false) : std::nullopt;
        compare_with_reference(compile_graph(graph, how), graph, data, fmt::format("rows of {}", name_of(dtype)));
      }
    }
  }
}

/// Four elements at a time, wherever the best one stands among them and whatever is as good behind it.
TEST(Rows, TheFirstOfTheBestIsFound) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  constexpr std::int64_t kRow = 128;
  std::vector<std::vector<std::pair<std::int64_t, double>>> rows;  // where a row is not what all others are
  for (std::int64_t place = 0; place < 12; ++place) {
    rows.push_back({{place, 2}, {place + 1, 2}, {place + 40, 2}, {place + 64, -2}, {place + 66, -2}});
    rows.push_back({{place, nan}, {place + 2, inf}, {place + 5, nan}});
    rows.push_back({{place, inf}, {place + 1, -inf}, {place + 90, inf}});
  }
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const double others : {0.5, -inf, inf}) {
      const Tensor x = Tensor::input("x", dtype, {std::ssize(rows), kRow});
      Data data;
      for (const auto& row : rows) {
        std::vector<double> elements(kRow, others);
        for (const auto& [at, value] : row) elements[static_cast<std::size_t>(at)] = value;
        for (const double element : elements) ir::encode(dtype, element, data.inputs["x"]);
      }
      for (const int lanes : {1, 4, 32}) {
        Build how;
        how.tuning.reduction_threads = lanes;
        const Executable program = compile_graph(graph_of({x.argmax(1), x.argmin(1)}), how);
        EXPECT_NE(must(program.explain(Stage::glsl)).find("_join_four("), std::string::npos);
        compare_with_reference(program, graph_of({x.argmax(1), x.argmin(1)}), data,
                               fmt::format("the best of rows of {} by {} lanes", name_of(dtype), lanes));
      }
    }
  }
}

// --- forced schedules --------------------------------------------------------------------------------------------

std::vector<schedule::Tuning> forced() {
  std::vector<schedule::Tuning> all;
  for (int lanes = 1; lanes <= 64; lanes *= 2) {
    for (const bool persistent : {false, true}) all.push_back({.reduction_threads = lanes, .persistent = persistent});
  }
  for (int parts = 1; parts <= 8; ++parts) all.push_back({.reduction_threads = 1 << (parts % 7), .splits = parts});
  for (const int lanes : {1, 16, 64}) all.push_back({.vector_bytes = 4, .reduction_threads = lanes});
  for (const int lanes : {4, 32}) all.push_back({.reduction_threads = lanes, .online = true, .persistent = false});
  for (const int parts : {2, 5}) all.push_back({.online = true, .splits = parts});
  for (const int flying : {2, 4, 8})
    all.push_back({.unroll_factor = flying, .reduction_threads = 4, .persistent = false});
  all.push_back({.unroll_factor = 4, .splits = 3});
  all.push_back({.workgroup = 128, .reduction_threads = 8});
  return all;
}

std::string text_of(const schedule::Tuning& tuning) {
  const auto one = [](const char* name, const auto& value) {
    return value ? fmt::format(" {}={}", name, *value) : std::string();
  };
  return one("workgroup", tuning.workgroup) + one("vector_bytes", tuning.vector_bytes) +
         one("unroll_factor", tuning.unroll_factor) + one("reduction_threads", tuning.reduction_threads) +
         one("persistent", tuning.persistent) + one("parts", tuning.splits) + one("online", tuning.online);
}

class Forced : public testing::TestWithParam<Chain> {};

const Chain kForced[] = {
    {"softmax",
     [](DType dtype, std::int64_t n) {
       return graph_of({softmax(input("x", dtype, {5, n}))});
     }},
    {"softmax_of_the_first_axis",
     [](DType dtype, std::int64_t n) {
       return graph_of({softmax(input("x", dtype, {n, 24}), 0)});
     }},
    {"normalise",
     [](DType dtype, std::int64_t n) {
       return graph_of({normalize(input("x", dtype, {9, n}), {1}, 1e-3)});
     }},
    {"sums_and_positions",
     [](DType dtype, std::int64_t n) {
       const Tensor x = input("x", dtype, {3, n});
       return graph_of({x.sum({1}), x.argmax(1), x.min({1})});
     }},
};

TEST_P(Forced, SchedulesOfEveryKindAreRight) {
  const std::vector<schedule::Tuning> tunings = forced();
  const bool crosses_lanes =
      std::string_view(GetParam().name) != "softmax_of_the_first_axis";  // that one never shuffles
  for (const Device* on : {&device(), &device_without_subgroups()}) {
    const std::size_t step = on == &device() ? 1 : crosses_lanes ? 2 : tunings.size();
    for (std::size_t i = 0; i < tunings.size(); i += step) {
      const DType dtype = i % 3 == 0 ? DType::f16 : DType::f32;
      const ir::Graph graph = GetParam().build(dtype, i % 2 == 0 ? 1000 : 203);
      Build how;
      how.device = on;
      how.tuning = tunings[i];
      const std::string what = fmt::format("{} of {},{}{}", GetParam().name, name_of(dtype), text_of(tunings[i]),
                                           on == &device() ? "" : ", no subgroups");
      const Executable program = compile_graph(graph, how);
      EXPECT_TRUE(are_kernels(program.state()->program->plan().steps.size(), 1)) << what;
      compare_with_reference(program, graph, data_for({graph, {}, 47, false}), what);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Differential, Forced, testing::ValuesIn(kForced),
                         [](const auto& chain) { return std::string(chain.param.name); });

// --- norms of equal elements -------------------------------------------------------------------------------------

/// Rows of one number each, as a dtype holds them.
Data equal_rows(DType dtype, std::int64_t rows, std::int64_t length) {
  constexpr double kNumbers[] = {100.1, 1000.1, 100000.1, -3.3e7, 1.7e-19, -1e15};
  Data data;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double number = kNumbers[static_cast<std::size_t>(row) % (dtype == DType::f16 ? 1 : std::size(kNumbers))];
    for (std::int64_t i = 0; i < length; ++i) ir::encode(dtype, number, data.inputs["x"]);
  }
  for (std::int64_t i = 0; i < length; ++i)
    ir::encode(dtype, 0.25 * static_cast<double>(i % 7) - 0.5, data.inputs["bias"]);
  return data;
}

/// Far less than the variance that a rounded mean would leave; not 0 in f16.
double epsilon_of(const Tensor& x) { return x.dtype() == DType::f16 ? 1e-4 : 1e-12; }

/// The norms that people write.
struct WrittenNorm {
  const char* name;
  Tensor (*build)(const Tensor& x, std::int64_t length);
  bool names_a_mean;  ///< else the mean is to be found, where there is one: not of sums that are rounded to 16 bits,
                      ///< nor of single elements
  bool has_f64 = false;
};
const WrittenNorm kNorms[] = {
    {"a_norm", [](const Tensor& x, std::int64_t) { return normalize(x, {1}, epsilon_of(x)); }, true},
    {"a_sum_divided",
     [](const Tensor& x, std::int64_t n) {
       const Tensor centered = x - x.sum({1}, true) / static_cast<double>(n);
       return centered / sqrt((centered * centered).sum({1}, true) / static_cast<double>(n) + epsilon_of(x));
     },
     false},
    {"a_sum_times_an_inverse",
     [](const Tensor& x, std::int64_t n) { return (x - x.sum({1}, true) * (1.0 / static_cast<double>(n))) * 1e6; },
     false, true},
    {"squares_less_a_square",
     [](const Tensor& x, std::int64_t) {
       const Tensor mean = x.mean({1}, true);
       return (x - mean) * rsqrt((x * x).mean({1}, true) - mean * mean + epsilon_of(x));
     },
     true},
};

void expect_bias(const Executable& program, const ir::Graph& graph, const Data& data, const std::string& what) {
  const GuardedRun run = run_guarded(program, graph, data);
  EXPECT_EQ(run.broken, "") << what;
  const std::vector<std::byte>& got = run.outputs.at("y");
  const std::vector<std::byte>& bias = data.inputs.at("bias");
  for (std::size_t at = 0; at < got.size(); at += bias.size()) {
    ASSERT_TRUE(std::equal(bias.begin(), bias.end(), got.begin() + static_cast<std::ptrdiff_t>(at)))
        << what << ": row " << at / bias.size() << " of equal elements is not the bias";
  }
}

/// Six rows of a number each, and their norm; squared numbers stay finite.
ir::Graph norm_of(const WrittenNorm& norm, DType dtype, std::int64_t length, std::int64_t rows = 6) {
  const Tensor x = input("x", dtype, {rows, length});
  return graph_of({norm.build(x, length) + input("bias", dtype, {length})});
}

TEST(EqualRows, HaveANormThatIsTheBias) {
  for (const WrittenNorm& norm : kNorms) {
    for (const std::int64_t length : {1, 3, 7, 64, 100, 203, 1000, 4098}) {
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
        if (!norm.names_a_mean && (size_of(dtype) == 2 || length == 1)) continue;
        if (dtype == DType::f64 && !(norm.has_f64 && target().caps.arithmetic.float64)) continue;
        const ir::Graph graph = norm_of(norm, dtype, length);
        const Data data = equal_rows(dtype, 6, length);
        for (const bool fusion : {true, false}) {
          if (!fusion && (dtype != DType::f32 || length > 1000)) continue;
          Build how;
          how.fusion = fusion;
          if (length == 203) how.numerics = Numerics::strict;
          expect_bias(
              compile_graph(graph, how), graph, data,
              fmt::format("{} of {} elements of {}{}", norm.name, length, name_of(dtype), fusion ? "" : ", unfused"));
        }
      }
    }
  }
}

TEST(EqualRows, HaveANormThatIsTheBiasByEverySchedule) {
  std::vector<schedule::Tuning> tunings = forced();
  for (std::size_t i = 0; i < tunings.size(); ++i) {
    for (const std::int64_t length : {std::int64_t{1000}, std::int64_t{203}}) {
      const DType dtype = i % 4 == 3 ? DType::bf16 : DType::f32;
      const ir::Graph graph = norm_of(kNorms[i % 5 == 4 ? 3 : 0], dtype, length);
      Build how;
      how.device = i % 3 == 1 ? &device_without_subgroups() : &device();
      how.tuning = tunings[i];
      expect_bias(compile_graph(graph, how), graph, equal_rows(dtype, 6, length),
                  fmt::format("{} elements of {},{}", length, name_of(dtype), text_of(tunings[i])));
    }
  }
}

/// Rows that differ in their last bits: what rounding their mean loses is as much.
TEST(EqualRows, AlmostHaveANorm) {
  for (const std::int64_t length :
       {std::int64_t{3}, std::int64_t{64}, std::int64_t{203}, std::int64_t{1000}, std::int64_t{1026}}) {
    const ir::Graph graph = graph_of({normalize(input("x", DType::f32, {2, length}), {1}, 1e-5)});
    Data data;
    std::vector<double> want;
    for (const double offset : {1000.1, -30000.3}) {
      std::vector<double> row;
      double sum = 0, squares = 0;
      for (std::int64_t i = 0; i < length; ++i) {
        row.push_back(static_cast<float>(static_cast<float>(offset) * (1 + 0x1p-23 * static_cast<double>(i * 7 % 13))));
        sum += row.back() - offset;
        ir::encode(DType::f32, row.back(), data.inputs["x"]);
      }
      const double mean = sum / static_cast<double>(length) + offset;
      for (const double x : row) squares += (x - mean) * (x - mean);
      for (const double x : row) want.push_back((x - mean) / std::sqrt(squares / static_cast<double>(length) + 1e-5));
    }
    const GuardedRun run = run_guarded(compile_graph(graph, Build{}), graph, data);
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(ir::decode(DType::f32, run.outputs.at("y").data() + 4 * i), want[i], 1e-3 * (1 + std::abs(want[i])))
          << "element " << i << " of rows of " << length;
    }
  }
}

/// Axes that are not the last one, and several; a row that workgroups share.
TEST(EqualRows, HaveANormThatIsTheBiasAlongEveryAxis) {
  const auto check = [](const Shape& shape, const std::vector<int>& axes, const char* what) {
    const Tensor x = input("x", DType::f32, shape);
    const Tensor bias = input("bias", DType::f32, {1});
    const ir::Graph graph = graph_of({normalize(x, axes, 1e-12) + bias});
    Data data;
    for (std::size_t i = 0; i < bytes_of(graph, graph.inputs()[0], {}) / 4; ++i)
      ir::encode(DType::f32, 100000.1, data.inputs["x"]);
    ir::encode(DType::f32, 0.75, data.inputs["bias"]);
    expect_bias(compile_graph(graph, Build{}), graph, data, what);
  };
  check({203, 24}, {0}, "the first axis");
  check({3, 77, 5}, {1}, "a middle axis");
  check({7, 6, 11, 13}, {0, 2, 3}, "a batch's channels");
  check({1, 300'007}, {1}, "one long row");
  check({300'007, 2}, {0}, "two long columns");
}

/// The mean of equal elements that a product gives: a norm in its epilogue, and one whose statistics come in parts.
TEST(EqualRows, OfProductsHaveANormThatIsTheBias) {
  constexpr CostModel kFewKernels = {1000, 3e4, 1e4, 1e6};
  for (const std::int64_t width : {std::int64_t{192}, std::int64_t{96}, std::int64_t{64}}) {
    const Tensor product = matmul(input("a", DType::f32, {70, 40}), input("b", DType::f32, {40, width})) +
                           input("offset", DType::f32, {1});
    const Tensor normal = normalize(product, {1}, 1e-12) + input("bias", DType::f32, {width});
    const ir::Graph graphs[] = {graph_of({normal}),
                                graph_of({matmul(normal, input("unit", DType::f32, {width, width}))})};
    for (const ir::Graph& graph : graphs) {
      Data data;
      data.inputs["a"].resize(70 * 40 * 4);
      data.inputs["b"].resize(static_cast<std::size_t>(40 * width * 4));
      ir::encode(DType::f32, 1000.1, data.inputs["offset"]);
      for (std::int64_t i = 0; i < width; ++i)
        ir::encode(DType::f32, 0.25 * static_cast<double>(i % 7) - 0.5, data.inputs["bias"]);
      for (std::int64_t i = 0; &graph == &graphs[1] && i < width * width; ++i)
        ir::encode(DType::f32, i % (width + 1) == 0 ? 1 : 0, data.inputs["unit"]);
      Build how;
      how.costs = kFewKernels;
      how.tuning.matmul = true;
      expect_bias(compile_graph(graph, how), graph, data,
                  fmt::format("a product with rows of {}{}", width, &graph == graphs ? "" : ", before another one"));
    }
  }
}

TEST(Rows, WhatIsComputedAndWhatItFoldsToAreOneKernel) {
  const Tensor x = Tensor::input("x", DType::f32, {37, 100});
  const Tensor sum = x + Tensor::input("residual", DType::f32, {37, 100});
  const ir::Graph graphs[] = {graph_of({(-x).max({1}), (-x).argmax(1)}),
                              graph_of({sum, sum.mean({1})}),
                              graph_of({sum.mean({1}), sum, sum.max({1})}),
                              graph_of({sum, softmax(sum), -sum}),
                              graph_of({sum, sum.cumsum(1)}),
                              graph_of({sum, sum.sum({0})}),
                              graph_of({sum, sum.sum()})};
  for (const ir::Graph& graph : graphs) {
    const Executable program = compile_graph(graph, Build{});
    EXPECT_TRUE(are_kernels(program.kernel_count(), 1)) << ir::print(graph);
    compare_with_reference(program, graph, data_for({graph, {}, 58, false}), "folds beside what they fold");
  }
}

// --- few long rows ---------------------------------------------------------------------------------------------

/// Numbers that are stored once per row, and share what they are computed from.
TEST(Rows, StoresOfARowShareWhatTheyNeed) {
  const Tensor x = Tensor::input("x", DType::f32, {37, 100});
  const Tensor least = exp(x.mean({1})) + Tensor::input("shift", DType::f32, {37});
  const ir::Graph graph = graph_of({least * 2.0, relu(least), least});
  const Executable program = compile_graph(graph, Build{});
  EXPECT_TRUE(are_kernels(program.kernel_count(), 1)) << ir::print(graph);
  compare_with_reference(program, graph, data_for({graph, {}, 59, false}), "three numbers of each row");
}

/// Runs at the same time do not count each other's workgroups, and a run at other sizes, in memory where the one before
/// had numbers, counts from 0.
TEST(Rows, SharedOnesCountTheirWorkgroupsFromZero) {
  const std::int64_t columns = 3000;
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), columns});
  const ir::Graph graph = graph_of({x.sum({1}), x.argmax(1)});
  Build how;
  how.tuning.splits = 5;
  const Executable program = compile_graph(graph, how);
  Random random(11);
  for (const std::int64_t rows : {100, 1, 7, 60}) {
    std::vector<float> data(static_cast<std::size_t>(rows * columns));
    for (float& one : data) one = static_cast<float>(random.between(-2, 2));
    Bindings bindings;
    bindings.symbols["n"] = rows;
    bindings.inputs["x"] = must(device().allocate(data.size() * 4));
    must(bindings.inputs["x"].write(std::as_bytes(std::span(data))));
    // Four buffers are an input, two results and partial results: no room for counts.
    EXPECT_TRUE(has_least_limits() || !specialization_of(program, {{"n", rows}})->memory.counters.empty());
    std::vector<Submission> runs;
    for (int i = 0; i < 4; ++i) {
      for (const char* output : {"y", "y1"})
        bindings.outputs[output] = must(device().allocate(static_cast<std::size_t>(rows) * 4));
      runs.push_back(must(program.submit(bindings)));
    }
    for (const Submission& run : runs) {
      must(run.wait());
      std::vector<float> sums(static_cast<std::size_t>(rows));
      std::vector<std::int32_t> best(static_cast<std::size_t>(rows));
      must(run.outputs().at("y").read(std::as_writable_bytes(std::span(sums))));
      must(run.outputs().at("y1").read(std::as_writable_bytes(std::span(best))));
      for (std::size_t row = 0; row < sums.size(); ++row) {
        const auto begin = data.begin() + static_cast<std::ptrdiff_t>(row) * columns;
        EXPECT_NEAR(sums[row], std::accumulate(begin, begin + columns, 0.0), 1e-2) << row << " of " << rows;
        EXPECT_EQ(best[row], std::max_element(begin, begin + columns) - begin) << row << " of " << rows;
      }
    }
  }
}

TEST(Rows, FewLongOnesAreSharedByWorkgroups) {
  const auto check = [](const ir::Graph& graph, int dispatches, const char* what) {
    const Executable program = compile_graph(graph, Build{});
    ASSERT_EQ(program.state()->program->plan().steps.size(), 1U) << what;
    EXPECT_GT(specialization_of(program)->steps[0].schedule.splits, 1) << what;
    EXPECT_TRUE(are_kernels(program.kernel_count(), dispatches)) << what;
    const Data data = data_for({graph, {}, 59, false});
    const NamedBytes once = compare_with_reference(program, graph, data, what);
    EXPECT_TRUE(run_guarded(program, graph, data).outputs == once) << what << ": another run has other bits";
  };
  const Tensor x = Tensor::input("x", DType::f32, {1, 1 << 18});
  check(graph_of({softmax(x)}), 2, "softmax of one row");
  check(graph_of({x.sum()}), 1, "the sum of all");
  check(graph_of({normalize(x, {1}, 1e-3)}), 2, "one row normalised");
  check(graph_of({x.max({1}), x.argmax(1)}), 1, "the best of one row");
  const Tensor tall = Tensor::input("x", DType::f32, {1 << 17, 2});
  check(graph_of({softmax(tall, 0)}), 2, "softmax of two columns");
}

TEST(Rows, WithoutSubgroupsFoldThroughSharedMemory) {
  Build how;
  how.device = &device_without_subgroups();
  for (const Chain& chain : kChains) {
    for (const std::int64_t length : {std::int64_t{7}, std::int64_t{1000}, std::int64_t{4098}}) {
      const ir::Graph graph = chain.build(DType::f32, length);
      const Executable program = compile_graph(graph, how);
      EXPECT_EQ(specialization_of(program)->steps[0].schedule.subgroup, 0);
      compare_with_reference(program, graph, data_for({graph, {}, 53, false}),
                             fmt::format("{} of {} without subgroups", chain.name, length));
    }
  }
}

/// Mean and variance in one pass, as of rows that nothing else needs: an infinity is the mean, and leaves no variance.
TEST(Moments, OfInfinitiesAreWhatTwoPassesGive) {
  for (const std::int64_t columns : {std::int64_t{2}, std::int64_t{8}, std::int64_t{1000}, std::int64_t{4096}}) {
    const Tensor x = Tensor::input("x", DType::f32, {4, columns});
    const Tensor mean = x.mean({1});
    const Tensor apart = x - mean.reshape({4, 1});
    const Executable program = must(compile(device(), {mean, (apart * apart).mean({1})}));
    std::vector<float> values(static_cast<std::size_t>(4 * columns), 1.5F);
    const auto width = static_cast<std::size_t>(columns);
    values[width + 1] = INFINITY;
    values[2 * width] = -INFINITY;
    values[2 * width + 1] = INFINITY;
    values[3 * width] = NAN;
    const Outputs outputs = must(program.run({{"x", values}}));
    const auto means = outputs.at("y").as<float>();
    const auto squares = outputs.at("y1").as<float>();
    EXPECT_EQ(means[0], 1.5F);
    EXPECT_EQ(squares[0], 0.0F);
    EXPECT_EQ(means[1], INFINITY) << columns;
    EXPECT_TRUE(std::isnan(means[2])) << columns;
    EXPECT_TRUE(std::isnan(means[3])) << columns;
    for (std::size_t row = 1; row < 4; ++row) EXPECT_TRUE(std::isnan(squares[row])) << columns << ", row " << row;
  }
}

}  // namespace
}  // namespace vkfuse::test

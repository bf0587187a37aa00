// Running folds: every op, direction and axis on every dtype; rows from one element to a million; with ops before
// and after in the same kernel; the same bits every time.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/compare.hpp"
#include "support/random.hpp"

namespace vkfuse::test {
namespace {

constexpr const char* kOps[] = {"cumsum", "cumprod", "cummax", "cummin"};

std::int64_t size_at(const Tensor& x, int axis) { return x.shape()[static_cast<std::size_t>(axis)].size(); }

Tensor scan(std::string_view op, const Tensor& x, int axis, bool exclusive, bool reverse) {
  if (op == "cumsum") return x.cumsum(axis, exclusive, reverse);
  if (op == "cumprod") return x.cumprod(axis, exclusive, reverse);
  if (op == "cummax") return x.cummax(axis, exclusive, reverse);
  return x.cummin(axis, exclusive, reverse);
}

void put(Data& data, const std::string& name, DType dtype, std::int64_t count,
         const std::function<double(std::int64_t)>& element) {
  std::vector<std::byte>& bytes = data.inputs[name];
  bytes.clear();
  for (std::int64_t i = 0; i < count; ++i) ir::encode(dtype, element(i), bytes);
}

/// Floats whose running products neither overflow nor vanish; a few NaN, infinities and zeros where asked for.
void put_moderate(Data& data, DType dtype, std::int64_t count, bool special) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> planted = {inf, -inf, std::nan(""), 0.0, -0.0};
  Random random(61);
  put(data, "x", dtype, count, [&](std::int64_t) {
    const double value = random.between(0.97, 1.03) * (random.chance(50) ? -1 : 1);
    return special && random.chance(2) ? random.pick(planted) : value;
  });
}

/// 1 and -1, and now and then a pair of 2 and 0.5: products that are exact however long the row is.
void put_signs(Data& data, DType dtype, std::int64_t count, std::int64_t length) {
  Random random(62);
  const std::int64_t apart = std::max<std::int64_t>(length / 40, 2);
  put(data, "x", dtype, count, [&](std::int64_t i) {
    return (i % apart == 0 ? 2 : i % apart == apart / 2 ? 0.5 : 1) * (random.chance(50) ? -1 : 1);
  });
}

void expect_one_kernel(const ir::Graph& graph, const Data& data, const Build& how, const std::string& what,
                       int most_dispatches = 1) {
  const Executable fused = compile_graph(graph, how);
  EXPECT_TRUE(are_kernels(fused.state()->program->plan().steps.size(), 1)) << what << "\n" << ir::print(graph);
  EXPECT_TRUE(are_kernels_at_most(fused.kernel_count(), most_dispatches)) << what;
  const NamedBytes once = compare_with_reference(fused, graph, data, what);
  EXPECT_TRUE(run_guarded(fused, graph, data).outputs == once) << what << ": another run has other bits";
}

// --- every kind ------------------------------------------------------------------------------------------

class Scans : public testing::TestWithParam<DType> {};

/// Every op, with and without the element itself, along one axis in one direction.
ir::Graph all_scans(DType dtype, int axis, bool reverse) {
  ir::Graph graph;
  const ir::NodeId x = must(graph.add_input("x", {dtype, {5, 33, 18}}));
  for (const char* op : kOps) {
    for (const bool exclusive : {false, true}) {
      const ir::NodeId made = must(graph.add_structured(ops::row(op), {x}, ir::ScanPayload{axis, exclusive, reverse}));
      must(graph.add_output(fmt::format("{}{}", op, exclusive ? " of those before" : ""), made));
    }
  }
  return graph;
}

TEST_P(Scans, OfEveryOpDirectionAndAxisAreOneKernel) {
  if (GetParam() == DType::f64 && !target().caps.arithmetic.float64) GTEST_SKIP() << "the device has no 64-bit floats";
  const int most = target().type == DeviceType::cpu
                       ? 1
                       : 2;  // a GPU is shared by workgroups that leave what they have to a second dispatch
  for (int axis = 0; axis < 3; ++axis) {
    for (const bool reverse : {false, true}) {
      const ir::Graph graph = all_scans(GetParam(), axis, reverse);
      Data data = data_for({graph, {}, 63, false});
      const std::string what =
          fmt::format("scans of {} along axis {}{}", name_of(GetParam()), axis, reverse ? " backwards" : "");
      if (is_float(GetParam())) put_moderate(data, GetParam(), 5 * 33 * 18, false);
      expect_one_kernel(graph, data, Build{}, what, most);
      if (!is_float(GetParam())) continue;
      put_moderate(data, GetParam(), 5 * 33 * 18, true);
      expect_one_kernel(graph, data, Build{}, what + " with NaN and infinities", most);
    }
  }
}

std::vector<DType> numbers() {
  std::vector<DType> all;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (static_cast<DType>(i) != DType::boolean) all.push_back(static_cast<DType>(i));
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Differential, Scans, testing::ValuesIn(numbers()),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

// --- every length ----------------------------------------------------------------------------------------

struct Long {
  const char* name;
  const char* op;
  DType dtype;
  bool exclusive;
  bool reverse;
  friend std::ostream& operator<<(std::ostream& out, const Long& one) { return out << one.name; }
};

class ScanLengths : public testing::TestWithParam<Long> {
 protected:
  /// A scan between two ops, along `axis`.
  static ir::Graph between(const Shape& shape, int axis) {
    const Tensor x = Tensor::input("x", GetParam().dtype, shape);
    const Tensor scanned = scan(GetParam().op, -x, axis, GetParam().exclusive, GetParam().reverse);
    Shape beside = shape;
    for (std::size_t i = 0; i < beside.size(); ++i) beside[i] = static_cast<int>(i) == axis ? shape[i] : Dim(1);
    return graph_of({abs(scanned) - Tensor::input("b", GetParam().dtype, beside)});
  }

  static void check(const Shape& shape, int axis, const Device& on) {
    const ir::Graph graph = between(shape, axis);
    Data data = data_for({graph, {}, 64, false});
    const Tensor x = Tensor::input("x", GetParam().dtype, shape);
    const std::int64_t count = must(element_count(must(resolve(shape, {}))));
    if (GetParam().op == std::string_view("cumprod")) put_signs(data, GetParam().dtype, count, size_at(x, axis));
    Build how;
    how.device = &on;
    expect_one_kernel(graph, data, how,
                      fmt::format("{} of {} along axis {}{}", GetParam().name, to_text(shape), axis,
                                  &on == &device() ? "" : ", no subgroups"),
                      3);
  }
};

TEST_P(ScanLengths, BetweenTwoOpsAreOneKernel) {
  for (const std::int64_t length : {1, 7, 64, 1000, 4096, 4098, 65537, 1 << 20}) {
    check({length < 10000 ? 3 : 1, length}, 1, device());
    if (length < 10000) check({3, length}, 1, device_without_subgroups());
    if (length < 100000) check({length, 3}, 0, device());
  }
  check({2, 4098, 3}, 1, device());
  check({2, 65537}, 1, device_without_subgroups());
}

INSTANTIATE_TEST_SUITE_P(Differential, ScanLengths,
                         testing::Values(Long{"cumsum", "cumsum", DType::f32, false, false},
                                         Long{"cumsum_of_f16_backwards", "cumsum", DType::f16, false, true},
                                         Long{"cumsum_before_of_i32", "cumsum", DType::i32, true, false},
                                         Long{"cumprod_before", "cumprod", DType::f32, true, false},
                                         Long{"cummax_before_backwards", "cummax", DType::f32, true, true},
                                         Long{"cummin_of_i64", "cummin", DType::i64, false, false}),
                         [](const auto& one) { return std::string(one.param.name); });

// --- in chains -------------------------------------------------------------------------------------------

TEST(ScanChains, AreOneKernelWithTheFoldsOfTheirRows) {
  for (const std::int64_t length : {100, 4098}) {
    const Tensor x = Tensor::input("x", DType::f32, {3, length});
    const auto check = [&](const ir::Graph& graph, const char* what) {
      expect_one_kernel(graph, data_for({graph, {}, 65, false}), Build{}, fmt::format("{} of {}", what, length), 3);
    };
    check(graph_of({softmax(x).cumsum(1)}), "the running sum of probabilities");
    check(graph_of({x.cumsum(1) / (abs(x).sum({1}, true) + 1.0)}), "a running sum over the row's sum");
    check(graph_of({x.cumsum(1).max({1})}), "the largest running sum");
    check(graph_of({x.cummax(1) - x, x.max({1})}), "the fall from the highest so far");
    check(graph_of({x.reverse({1}).cumsum(1).reverse({1})}), "a running sum seen from the other end");
    check(graph_of({x.slice(1, 3, length).pad({0, 5}, {0, 0}, -1).cumsum(1) * 0.5}),
          "a running sum of a slice, padded");
  }
}

TEST(ScanChains, NaNLastsToTheEndOfItsRow) {
  const Tensor x = Tensor::input("x", DType::f32, {2, 100});
  const ir::Graph graph = graph_of({x.cumsum(1), x.cumprod(1), x.cummax(1), x.cummin(1)});
  Data data;
  put(data, "x", DType::f32, 200, [](std::int64_t i) { return i == 37 ? std::nan("") : 1.0; });
  const NamedBytes outputs = compare_with_reference(compile_graph(graph, Build{}), graph, data, "a NaN at 37");
  for (const auto& [name, bytes] : outputs) {
    std::vector<float> row(200);
    ASSERT_EQ(bytes.size(), row.size() * sizeof(float));
    std::memcpy(row.data(), bytes.data(), bytes.size());
    for (std::size_t i = 0; i < 200; ++i) EXPECT_EQ(std::isnan(row[i]), i >= 37 && i < 100) << name << " at " << i;
  }
}

}  // namespace
}  // namespace vkfuse::test

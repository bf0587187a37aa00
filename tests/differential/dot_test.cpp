// Random contractions against the reference: sizes, layouts, dtypes, several axes, what stands before and behind.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "api/states.hpp"
#include "support/fuzz.hpp"
#include "support/random.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

constexpr std::int64_t kProducts = 60'000;          // of most cases: what the reference has time for
constexpr std::int64_t kManyProducts = 600'000;     // of one case in sixteen
constexpr std::int64_t kMostProducts = 30'000'000;  // of one in a hundred: no size is cut

std::vector<DType> numeric_dtypes(bool float64) {
  std::vector<DType> all;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype != DType::boolean && (dtype != DType::f64 || float64)) all.push_back(dtype);
  }
  return all;
}

/// In units of its largest element.
Tensor scaled_by_largest(const Tensor& x) {
  std::vector<int> all(x.shape().size());
  std::iota(all.begin(), all.end(), 0);
  return all.empty() ? x : x / max(abs(x).max(all), Tensor::scalar(x.dtype(), 0.5));
}

/// A contraction as one seed draws it.
class DotCase {
 public:
  DotCase(std::uint64_t seed, bool float64, std::optional<DType> dtype = std::nullopt) : random_(seed) {
    const std::vector<DType> dtypes = numeric_dtypes(float64);
    // Half of them in the dtypes that have kernels of their own.
    dtype_ = dtype                ? *dtype
             : random_.chance(50) ? random_.pick(std::vector<DType>{DType::f32, DType::f16, DType::bf16})
                                  : random_.pick(dtypes);
    left_ = random_.chance(6) ? kManyProducts : random_.chance(1) ? kMostProducts : kProducts;
    draw_axes();
    // Products of bytes in wider numbers, as quantised models have them.
    const bool byte = dtype && size_of(*dtype) == 1;
    const DType wide =
        byte && random_.chance(75) ? random_.pick(std::vector<DType>{DType::i32, DType::i32, DType::f32}) : dtype_;
    Tensor a = operand("a", a_);
    Tensor b = operand("b", b_);
    if (wide != dtype_) {
      a = a.cast(wide);
      b = b.cast(wide);
      dtype_ = wide;
    }
    Tensor result = dot_general(a, b, axes_);
    result = with_epilogue(result);
    graph_ = graph_of({result});
    graph_.name = fmt::format("dot {}", seed);
  }

  [[nodiscard]] const ir::Graph& graph() const { return graph_; }

 private:
  struct Axis {
    std::int64_t size;
    enum Part { batch, contracted, free } part;
    int pair;  // of batch and contracted axes
  };

  /// Any number up to 300, with primes, powers of two and their neighbours more often.
  std::int64_t draw_size(bool may_be_empty) {
    const std::vector<int> primes = {2, 3, 5, 7, 11, 13, 17, 31, 61, 97, 127, 131, 251, 257};
    const std::vector<int> powers = {1, 2, 4, 8, 16, 32, 64, 128, 256};
    std::int64_t size = 0;
    if (random_.chance(30)) {
      size = random_.pick(primes);
    } else if (random_.chance(50)) {
      size = random_.pick(powers) + static_cast<std::int64_t>(random_.below(3)) - 1;
    } else {
      size = 1 + static_cast<std::int64_t>(random_.below(300));
    }
    if (size == 0 && !(may_be_empty && random_.chance(25))) size = 1;
    while (size > 1 && size > left_) size = (size + 2) / 3;
    if (size_of(dtype_) == 1 && random_.chance(70)) size = (size + 3) / 4 * 4;  // words of bytes
    left_ /= std::max<std::int64_t>(size, 1);
    return size;
  }

  void draw_axes() {
    // In an order that does not always starve the same kind.
    std::vector<Axis> batch, contracted, free_a, free_b;
    const std::size_t batches = random_.below(4);
    const std::size_t contractions = random_.chance(3) ? 0 : random_.chance(70) ? 1 : 2 + random_.below(2);
    const auto draw = [&](std::vector<Axis>& to, std::size_t count, Axis::Part part) {
      for (std::size_t i = 0; i < count; ++i)
        to.push_back({draw_size(part == Axis::contracted), part, static_cast<int>(i)});
    };
    const std::size_t frees_a = random_.chance(75) ? 1 : random_.below(3);
    const std::size_t frees_b = random_.chance(75) ? 1 : random_.below(3);
    if (random_.chance(50)) draw(contracted, contractions, Axis::contracted);
    draw(free_a, frees_a, Axis::free);
    draw(free_b, frees_b, Axis::free);
    if (contracted.empty()) draw(contracted, contractions, Axis::contracted);
    left_ = std::min<std::int64_t>(left_, 12);
    draw(batch, batches, Axis::batch);
    for (const bool second : {false, true}) {
      std::vector<Axis>& axes = second ? b_ : a_;
      for (const auto* part : {&batch, &contracted, second ? &free_b : &free_a})
        axes.insert(axes.end(), part->begin(), part->end());
      shuffle(axes);
    }
    place(a_, axes_.batch_a, axes_.contract_a, batches, contractions);
    place(b_, axes_.batch_b, axes_.contract_b, batches, contractions);
  }

  template <typename T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random_.below(i)]);
  }

  static void place(const std::vector<Axis>& axes, std::vector<int>& batch, std::vector<int>& contract,
                    std::size_t batches, std::size_t contractions) {
    batch.resize(batches);
    contract.resize(contractions);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].part == Axis::batch) batch[static_cast<std::size_t>(axes[i].pair)] = static_cast<int>(i);
      if (axes[i].part == Axis::contracted) contract[static_cast<std::size_t>(axes[i].pair)] = static_cast<int>(i);
    }
  }

  /// A tensor with these axes: as it lies in memory, permuted, cut out of a larger one, turned round, stretched, or
  /// computed from one.
  Tensor operand(const std::string& name, const std::vector<Axis>& axes) {
    std::vector<int> order(axes.size());
    std::iota(order.begin(), order.end(), 0);
    if (random_.chance(40)) shuffle(order);  // axis order[i] of the operand is axis i in memory
    Shape shape, whole;
    std::vector<bool> stretched;
    for (const int axis : order) {
      const std::int64_t size = axes[static_cast<std::size_t>(axis)].size;
      stretched.push_back(random_.chance(7));
      shape.emplace_back(stretched.back() ? 1 : size);
      whole.emplace_back(size);
    }
    Tensor x = input(name, shape).broadcast_to(whole);
    std::vector<int> back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) back[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
    x = x.permute(back);
    if (!axes.empty() && random_.chance(8)) x = x.reverse({static_cast<int>(random_.below(axes.size()))});
    if (!axes.empty() && is_float(dtype_) && random_.chance(15)) x = x * one_axis_of(name + "_scale", axes);
    return is_float(dtype_) && random_.chance(8) ? scaled_by_largest(x) : x;
  }

  /// A number for each position along one of the axes.
  Tensor one_axis_of(const std::string& name, const std::vector<Axis>& axes) {
    Shape shape(axes.size(), Dim(1));
    const std::size_t at = random_.below(axes.size());
    shape[at] = Dim(axes[at].size);
    return Tensor::input(name, dtype_, shape);
  }

  Tensor input(const std::string& name, Shape shape) {
    if (!shape.empty() && random_.chance(12)) {  // cut out of a larger one
      Shape larger = shape;
      const std::size_t axis = random_.below(shape.size());
      larger[axis] = Dim(shape[axis].size() + 3);
      const std::int64_t begin = static_cast<std::int64_t>(random_.below(4));
      return Tensor::input(name, dtype_, larger).slice(static_cast<int>(axis), begin, begin + shape[axis].size());
    }
    if (std::optional<Tensor> several = several_of_each(name, shape)) return *several;
    if (!is_float(dtype_) || !random_.chance(20)) return Tensor::input(name, dtype_, shape);
    if (random_.chance(50)) return Tensor::input(name, DType::i8, shape).cast(dtype_) * 0.015625;  // dequantised
    return relu(Tensor::input(name, dtype_, shape)) * 0.5;
  }

  /// Neighbours that are one element of memory: numbers of a few bits that share a byte, some with a scale for each
  /// few, or the same number again.
  std::optional<Tensor> several_of_each(const std::string& name, const Shape& shape) {
    if (shape.empty() || !random_.chance(15)) return std::nullopt;
    const std::int64_t size = shape.back().size(), count = random_.pick(std::vector<int>{2, 2, 4, 8});
    if (size == 0 || size % count != 0) return std::nullopt;
    Shape held = shape, each = shape;
    held.back() = Dim(size / count);
    each.back() = Dim(size / count);
    each.emplace_back(count);
    if (!is_float(dtype_) || random_.chance(30))
      return Tensor::input(name, dtype_, held).unsqueeze(-1).broadcast_to(each).reshape(shape);
    const int bits = 8 / static_cast<int>(count);
    const Tensor shifts = Tensor::iota(DType::u8, {count}, 0) * bits;
    const Tensor bytes = Tensor::input(name, DType::u8, held).unsqueeze(-1);
    const Tensor numbers =
        bit_and(shift_right(bytes, shifts), Tensor::scalar(DType::u8, (1 << bits) - 1)).reshape(shape).cast(dtype_) - 1;
    const std::int64_t group = 4 * count;
    if (size % group != 0 || random_.chance(40)) return numbers * 0.125;
    Shape groups = shape, scales = shape;
    groups.back() = scales.back() = Dim(size / group);
    groups.emplace_back(group);
    scales.emplace_back(1);
    return (numbers.reshape(groups) * (Tensor::input(name + "_groups", dtype_, scales) * 0.125)).reshape(shape);
  }

  Tensor with_epilogue(Tensor x) {
    if (random_.chance(60)) return x;
    if (!x.shape().empty() && random_.chance(60)) x = x + Tensor::input("bias", dtype_, {x.shape().back()});
    if (is_float(dtype_) && dtype_ != DType::f64 && random_.chance(50)) x = tanh(x);
    if (x.shape().size() > 1 && random_.chance(40)) x = x.transpose();
    return x;
  }

  Random random_;
  DType dtype_ = DType::f32;
  std::int64_t left_ = 0;
  std::vector<Axis> a_, b_;
  DotAxes axes_;
  ir::Graph graph_;
};

/// Numbers of all elements of one operand stand before the product, as where a model quantises as it runs.
TEST(Dot, OperandsScaledByAllOfTheirElements) {
  const auto input = [](const char* name, Shape shape) { return Tensor::input(name, DType::f32, std::move(shape)); };
  for (const bool second : {false, true}) {
    Tensor a = input("a", {24, 32}), b = input("b", {32, 96});
    (second ? b : a) = scaled_by_largest(second ? b : a);
    for (const bool forced : {false, true}) {
      const ir::Graph graph = graph_of({matmul(a, b)});
      Build how;
      if (forced) how.tuning.matmul = true;
      compare_with_reference(compile_graph(graph, how), graph, data_for({graph, {}, 17, false}),
                             second ? "the second operand" : "the first operand");
    }
  }
}

/// Of every shape of a lane's own tile, and workgroups of 8 to 128.
constexpr schedule::TileShape kTiles[] = {{16, 16, 16, 4, 4}, {32, 64, 16, 8, 4},  {64, 32, 32, 4, 8},
                                          {64, 64, 16, 8, 8}, {16, 128, 32, 4, 4}, {128, 32, 16, 8, 8}};

/// Workgroups that share a tile, where it has so many steps along the sum.
constexpr int kParts[] = {1, 2, 1, 3, 7};

void run_contractions(const char* test, std::uint64_t cases, bool low_limits) {
  RandomSuite suite{test, cases, schedule::Template::matmul, false, false, {}, {}};
  suite.draw = [&](std::uint64_t seed) {
    return RandomGraph{DotCase(seed, !low_limits && target().caps.arithmetic.float64).graph(), seed % 5 == 0};
  };
  suite.build = [&](std::uint64_t seed) {
    Build how = random_build(seed, low_limits);
    // Small sizes are left to rows by default.
    how.tuning.matmul = seed % 5 < 3 ? std::optional(true) : std::nullopt;
    if (seed % 5 == 4) {
      how.tuning.matmul = false;
      how.tuning.register_block_rows = seed % 2 == 0 ? 2 : 4;
    }
    if (seed % 5 == 2) how.tuning.tile = kTiles[seed / 5 % std::size(kTiles)];
    if (seed % 5 < 3 && !low_limits) how.tuning.splits = kParts[seed / 3 % std::size(kParts)];
    return how;
  };
  run_random(suite);
}

TEST(Dot, RandomContractions) { run_contractions("Dot.RandomContractions", 90, false); }
TEST(Dot, RandomContractionsOnLowLimits) { run_contractions("Dot.RandomContractionsOnLowLimits", 30, true); }

/// In products of any size up to 16: subgroups own from one product to sixteen.
constexpr schedule::TileShape kUnitTiles[] = {{16, 16, 16, 16, 16}, {32, 32, 16, 16, 16}, {64, 32, 32, 32, 16},
                                              {32, 64, 16, 16, 32}, {64, 64, 64, 64, 16}, {16, 64, 32, 16, 32},
                                              {64, 16, 32, 16, 16}};

/// T3, wherever the driver has it at all.
TEST(Dot, RandomContractionsOfBytes) {
  const std::string missing = must(device().state()->context->tiers().missing(FeatureTier::dot_product));
  if (!missing.empty()) GTEST_SKIP() << "T3 is not in use here: " << missing;
  RandomSuite suite{"Dot.RandomContractionsOfBytes", 40, schedule::Template::matmul, false, true, {}, {}};
  suite.draw = [&](std::uint64_t seed) { return RandomGraph{DotCase(seed, false, DType::i8).graph(), seed % 5 == 0}; };
  suite.build = [&](std::uint64_t seed) {
    Build how = random_build(seed, false);
    how.tuning.matmul = true;
    how.tuning.integer_dot = true;
    if (seed % 3 == 2) how.tuning.tile = kTiles[seed / 3 % std::size(kTiles)];
    how.tuning.splits = kParts[seed / 4 % std::size(kParts)];
    return how;
  };
  run_random(suite);
}

/// Half of them f16. A device that has no units for one of the others multiplies without.
constexpr DType kUnitDTypes[] = {DType::f16, DType::bf16, DType::f16, DType::i8, DType::f16, DType::u8};

TEST(Dot, RandomContractionsWithMatrixUnits) {
  const std::string missing = must(device().state()->context->tiers().missing(FeatureTier::cooperative_matrix));
  if (!missing.empty()) GTEST_SKIP() << "T4 is not in use here: " << missing;
  RandomSuite suite{"Dot.RandomContractionsWithMatrixUnits", 60, schedule::Template::matmul, true, false, {}, {}};
  suite.draw = [&](std::uint64_t seed) {
    return RandomGraph{DotCase(seed, false, kUnitDTypes[seed % std::size(kUnitDTypes)]).graph(), seed % 5 == 0};
  };
  suite.build = [&](std::uint64_t seed) {
    Build how = random_build(seed, false);
    how.numerics = Numerics::standard;
    how.tuning.matmul = true;
    how.tuning.cooperative_matrix = true;
    if (seed % 3 != 0) how.tuning.tile = kUnitTiles[seed / 3 % std::size(kUnitTiles)];
    how.tuning.splits = kParts[seed / 4 % std::size(kParts)];
    return how;
  };
  run_random(suite);
}

/// Rows that are gathered from where a reduction of their own says.
TEST(Dot, FactorsGatheredByReductions) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor table = Tensor::input("table", dtype, {64, 48}), b = Tensor::input("b", dtype, {48, 40});
    const Tensor at = Tensor::input("index14", DType::i32, {70, 4});
    for (const Tensor& position : {at.sum({1}), at.max({1})}) {
      const ir::Graph graph = graph_of({matmul(table.gather(position, 0), b)});
      for (const bool forced : {false, true}) {
        Build how;
        if (forced) how.tuning.matmul = true;
        compare_with_reference(compile_graph(graph, how), graph, data_for({graph, {}, 19, false}), "gathered rows");
      }
    }
  }
}

/// A factor that is made of positions alone, of sizes that no item divides, the last of which is not whole.
TEST(Dot, FactorsOfPositions) {
  struct {
    std::int64_t k;
    Shape n;
  } const sizes[] = {{108, {108}}, {40, {1004}}, {64, {33, 3}}, {33, {6}}};
  for (const auto& [k, n] : sizes) {
    Shape shape = {Dim(k)};
    shape.insert(shape.end(), n.begin(), n.end());
    const Tensor table =
        (Tensor::iota(DType::f32, shape, 0) - Tensor::iota(DType::f32, shape, static_cast<int>(shape.size()) - 1)) *
        0.125;
    const ir::Graph graph =
        graph_of({dot_general(Tensor::input("x", DType::f32, {64, k}), table, {.contract_a = {1}, .contract_b = {0}})});
    Build how;
    how.tuning.matmul = true;
    compare_with_reference(compile_graph(graph, how), graph, data_for({graph, {}, 91, false}),
                           fmt::format("a table of {} rows", k));
  }
}

/// A product of which each workgroup multiplies a tile as one.
struct WholeTiles {
  WorkgroupTile tile;
  DType dtype = DType::f16;
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool turned_a = false, turned_b = false, in_heads = false;

  [[nodiscard]] std::string text() const {
    return fmt::format("tiles of {} x {}, {}, a {}, b {}, batch {}, heads {}, {} rows", tile.m, tile.n, name_of(dtype),
                       turned_a, turned_b, batch, in_heads, m);
  }
  [[nodiscard]] Tensor product() const {
    const auto factor = [&](const char* name, std::int64_t rows, std::int64_t columns, bool turned) {
      const Tensor input =
          Tensor::input(name, dtype, turned ? Shape{batch, columns, rows} : Shape{batch, rows, columns});
      return turned ? input.permute({0, 2, 1}) : input;
    };
    const auto heads = [&] {
      return Tensor::input("a", dtype, {batch, k / 64, m, 64}).permute({0, 2, 1, 3}).reshape({batch, m, k});
    };
    return matmul(in_heads ? heads() : factor("a", m, k, turned_a), factor("b", k, n, turned_b));
  }
};

/// By itself and with work behind it; how many programs there were.
int compare_whole_tiles(const WholeTiles& one) {
  const Tensor product = one.product();
  const Tensor bias = Tensor::input("bias", one.dtype, {one.n});
  const Tensor residual = Tensor::input("residual", one.dtype, {one.batch, one.m, one.n});
  const std::pair<const char*, Tensor> forms[] = {{"plain", product},
                                                  {"with a bias", relu(product * 0.125 + bias)},
                                                  {"with a residual", product + residual},
                                                  {"in f32", product.cast(DType::f32)}};
  std::uint64_t seed = 0;
  for (const auto& [name, tensor] : forms) {
    const std::string what = fmt::format("{}, {}", name, one.text());
    const ir::Graph graph = graph_of({tensor});
    Build how;
    how.tuning.matmul = how.tuning.cooperative_matrix = true;
    how.tuning.matrix_scope = schedule::MatrixScope::workgroup;
    how.tuning.tile = schedule::shape_of(one.tile);
    const Executable program = compile_graph(graph, how);
    EXPECT_NE(must(program.explain(Stage::glsl)).find("gl_ScopeWorkgroup"), std::string::npos) << what;
    compare_with_reference(program, graph, data_for({graph, {}, ++seed, false}), what);
  }
  return static_cast<int>(std::size(forms));
}

/// Tiles that the workgroup multiplies as one, of factors in either order, in batches, with work behind them.
TEST(Dot, WholeTiles) {
  const std::string missing = must(device().state()->context->tiers().missing(FeatureTier::cooperative_matrix2));
  if (!missing.empty()) GTEST_SKIP() << "T5 is not in use here: " << missing;
  constexpr FeatureTier kTiers[] = {FeatureTier::cooperative_matrix, FeatureTier::cooperative_matrix2};
  int programs = 0;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const DType halves[] = {dtype};
    const Target offered = must(device().state()->context->tiers().target(kTiers, {.workgroup_tiles = halves}));
    const bool able = offered.caps.matrix2.may_multiply_tiles() && offered.caps.subgroup.size == 32 &&
                      offered.type != DeviceType::cpu && matrix_of(offered.caps, dtype, DType::f32);
    EXPECT_EQ(offered.caps.matrix2.tiles.size(), able ? std::size(kWorkgroupTiles) : 0U)
        << "the self-test has dropped some of " << name_of(dtype);
    // The second is of sizes that no tile divides.
    for (const std::array<std::int64_t, 3>& sizes : {std::array<std::int64_t, 3>{256, 384, 512}, {168, 136, 584}}) {
      for (int form = 0; form < 16; ++form) {
        for (const WorkgroupTile& tile : offered.caps.matrix2.tiles) {
          const WholeTiles one{.tile = tile,
                               .dtype = dtype,
                               .batch = (form & 8) != 0 ? 3 : 1,
                               .m = sizes[0],
                               .n = sizes[1],
                               .k = sizes[2],
                               .turned_a = (form & 1) != 0,
                               .turned_b = (form & 2) != 0,
                               .in_heads = (form & 4) != 0};
          if (!(one.in_heads && (one.turned_a || one.k % 64 != 0))) programs += compare_whole_tiles(one);
        }
      }
    }
  }
  if (programs == 0) GTEST_SKIP() << "This device offers no workgroup-scope matrices of 16-bit floats.";
  fmt::print("{} programs of workgroup tiles\n", programs);
}

/// A factor goes to dot products and cooperative matrices as it was read only where no cast on the way changes it,
/// whatever words its buffer has: one that the results read too has those that both can use.
TEST(Dot, FactorsThatCastsChangeAreNotTakenAsTheyWereRead) {
  const Tensor x = Tensor::input("x", DType::i8, {64, 64}), w = Tensor::input("w", DType::i8, {64, 64}),
               half = Tensor::input("h", DType::f16, {64, 64});
  const Tensor wide_x = x.cast(DType::i32), wide_w = w.cast(DType::i32);
  const Tensor mask = x.cast(DType::boolean).cast(DType::i8).cast(DType::i32);
  const std::pair<const char*, Tensor> forms[] = {
      {"a mask", matmul(mask, wide_w)},
      {"a mask of the second", matmul(wide_w, mask)},
      {"a residual", matmul(wide_x, wide_w) + wide_x},
      {"a residual of the second", matmul(wide_x, wide_w) + wide_w},
      {"a mask in f16", matmul(half.cast(DType::boolean).cast(DType::f16), half)}};
  for (const auto& [name, tensor] : forms) {
    const ir::Graph graph = graph_of({tensor});
    Build how;
    how.tuning.matmul = true;
    how.tuning.integer_dot = true;
    how.tuning.cooperative_matrix = true;
    compare_with_reference(compile_graph(graph, how), graph, data_for({graph, {}, 76, false}), name);
  }
}

/// Sums in f16 where they are asked for: off by no more than n * 2^-11 of the magnitudes they are added up from.
TEST(Dot, HalfSumsStayWithinTheirBound) {
  const std::string missing = must(device().state()->context->tiers().missing(FeatureTier::cooperative_matrix));
  if (!missing.empty()) GTEST_SKIP() << "T4 is not in use here: " << missing;
  constexpr FeatureTier kTiers[] = {FeatureTier::float16, FeatureTier::cooperative_matrix};
  const auto shapes = must(device().state()->context->tiers().target(kTiers)).caps.matrix.shapes;
  const bool halves =
      std::any_of(shapes.begin(), shapes.end(), [](const MatrixShape& shape) { return shape.c == DType::f16; });
  if (!halves)
    GTEST_SKIP() << "The device's matrix units have no f16 sums: "
                 << must(device().state()->context->tiers().matrices().describe());
  constexpr std::int64_t kM = 70, kK = 136, kN = 48;
  const ir::Graph graph =
      graph_of({matmul(Tensor::input("a", DType::f16, {kM, kK}), Tensor::input("b", DType::f16, {kK, kN}))});
  Build how;
  how.tuning.matmul = how.tuning.cooperative_matrix = true;
  how.tuning.f16_accumulation = true;
  const Executable program = compile_graph(graph, how);
  const MatrixShape* unit = specialization_of(program)->steps.front().schedule.as<schedule::MatmulParams>().mma();
  ASSERT_TRUE(unit != nullptr && unit->c == DType::f16);
  const Data data = small_data(graph, 75, false);
  const GuardedRun run = run_guarded(program, graph, data);
  const auto at = [](const std::vector<std::byte>& bytes, std::int64_t i) {
    return ir::decode(DType::f16, bytes.data() + 2 * i);
  };
  double largest = 0;
  for (std::int64_t m = 0; m < kM; ++m) {
    for (std::int64_t n = 0; n < kN; ++n) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < kK; ++k) {
        const double product = at(data.inputs.at("a"), m * kK + k) * at(data.inputs.at("b"), k * kN + n);
        sum += product;
        magnitude += std::abs(product);
      }
      const double error = std::abs(at(run.outputs.at("y"), m * kN + n) - sum);
      largest = std::max(largest, error / (kK * 0x1p-11 * magnitude));
    }
  }
  std::printf("largest error/bound %.3f\n", largest);
  EXPECT_LE(largest, 1);
  EXPECT_GT(largest, 1e-4) << "sums that are as good as this were not made in f16";
}

// --- what has no sum ---------------------------------------------------------------------------------------

Tensor input(const char* name, DType dtype, Shape shape) { return Tensor::input(name, dtype, std::move(shape)); }

TEST(Dot, OfNothingIsZero) {
  for (const DType dtype : {DType::f32, DType::f16, DType::i32, DType::u8}) {
    const ir::Graph graph =
        graph_of({matmul(input("a", dtype, {5, 0}), input("b", dtype, {0, 7})) + input("c", dtype, {7})});
    compare_with_reference(compile_graph(graph, Build{}), graph, data_for({graph, {}, 3, false}),
                           fmt::format("nothing added up in {}", name_of(dtype)));
  }
}

/// What is contracted twice is two kernels, or one whose tiles multiply what they have just found.
TEST(Dot, ProductsInARowAreOneKernelOrTwo) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    const std::int64_t sizes[][4] = {{2, 3, 4, 5}, {33, 64, 48, 70}, {1, 9, 9, 1}};
    for (const auto& [m, k, l, n] : sizes) {
      const Tensor first =
          tanh(matmul(input("a", dtype, {m, k}), input("b", dtype, {k, l})) + input("bias", dtype, {l}));
      const ir::Graph graph = graph_of({matmul(first, input("c", dtype, {l, n})) * 0.5});
      const Executable fused = compile_graph(graph, Build{});
      EXPECT_TRUE(are_kernels_at_most(fused.kernel_count(), 2)) << ir::print(graph);
      compare_with_reference(fused, graph, data_for({graph, {}, 5, false}),
                             fmt::format("[{}, {}] x [{}, {}] x [{}, {}] of {}", m, k, k, l, l, n, name_of(dtype)));
    }
  }
}

/// Queries, keys and values: contractions of one value with others, of equal shapes, are one kernel that reads it once.
TEST(Dot, ProjectionsOfOneValueAreOneKernel) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    const std::int64_t sizes[][3] = {{4, 3, 5}, {33, 70, 48}, {128, 64, 96}};
    for (const auto& [m, k, n] : sizes) {
      const Tensor x = rms_normalize(input("x", dtype, {m, k}), {1}, 1e-5);
      const Tensor q = matmul(x, input("wq", dtype, {k, n})) + input("bq", dtype, {n});
      const Tensor keys = matmul(x, input("wk", dtype, {n, k}).transpose());
      const Tensor v = tanh(matmul(x, input("wv", dtype, {k, n})));
      const ir::Graph graph = graph_of({q, keys, v});
      const Executable fused = compile_graph(graph, Build{});
      EXPECT_TRUE(are_kernels_at_most(fused.kernel_count(), 2)) << ir::print(graph);  // the norm may be stored
      compare_with_reference(fused, graph, data_for({graph, {}, 5, false}),
                             fmt::format("[{}, {}] x [{}, {}] of {}", m, k, k, n, name_of(dtype)));
    }
  }
}

TEST(Dot, OfNoRowsHasNoElements) {
  const Shape shapes[][2] = {{{0, 4}, {4, 3}}, {{3, 4}, {4, 0}}, {{0, 3, 4}, {0, 4, 3}}};
  for (const auto& pair : shapes) {
    const ir::Graph graph = graph_of({matmul(input("a", DType::f32, pair[0]), input("b", DType::f32, pair[1]))});
    compare_with_reference(compile_graph(graph, Build{}), graph, data_for({graph, {}, 3, false}), to_text(pair[0]));
  }
}

TEST(Dot, NaNAndInfinitiesReachTheirRowAndColumnOnly) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr std::int64_t kSize = 70;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const ir::Graph graph = graph_of({matmul(input("a", dtype, {kSize, kSize}), input("b", dtype, {kSize, kSize}))});
    Data data;
    for (std::int64_t i = 0; i < kSize * kSize; ++i) {
      const std::int64_t row = i / kSize;
      const bool planted = i % kSize == (row * 5) % kSize;
      ir::encode(dtype,
                 !planted    ? 1.0
                 : row == 3  ? std::nan("")
                 : row == 40 ? inf
                 : row == 41 ? -inf
                             : 0.0,
                 data.inputs["a"]);
      ir::encode(dtype, i == 20 * kSize + 65 ? std::nan("") : 0.5, data.inputs["b"]);
    }
    const NamedBytes outputs =
        compare_with_reference(compile_graph(graph, Build{}), graph, data, fmt::format("rows of {}", name_of(dtype)));
    for (std::int64_t i = 0; i < kSize * kSize && !outputs.empty(); ++i) {
      const double value = ir::decode(dtype, outputs.at("y").data() + i * size_of(dtype));
      const bool wanted = i / kSize == 3 || i % kSize == 65;
      ASSERT_EQ(std::isnan(value), wanted) << "element " << i << " of " << name_of(dtype);
      ASSERT_EQ(std::isinf(value), !wanted && (i / kSize == 40 || i / kSize == 41))
          << "element " << i << " of " << name_of(dtype);
    }
  }
}

// --- matmul's rules ------------------------------------------------------------------------------------------

struct Product {
  Shape a, b, result;
};
const Product kProductsOfShapes[] = {
    {{5}, {5}, {}},
    {{5}, {5, 3}, {3}},
    {{2, 5}, {5}, {2}},
    {{4, 2, 5}, {5, 3}, {4, 2, 3}},
    {{2, 5}, {4, 5, 3}, {4, 2, 3}},
    {{4, 2, 5}, {4, 5, 3}, {4, 2, 3}},
    {{1, 2, 5}, {4, 5, 3}, {4, 2, 3}},
    {{6, 1, 2, 5}, {4, 5, 3}, {6, 4, 2, 3}},
    {{1, 4, 2, 5}, {6, 1, 5, 3}, {6, 4, 2, 3}},
    {{1, 1, 2, 5}, {1, 1, 5, 3}, {1, 1, 2, 3}},
    {{5}, {4, 5, 3}, {4, 3}},
    {{6, 4, 2, 5}, {5}, {6, 4, 2}},
};

TEST(Matmul, FollowsNumPy) {
  for (const Product& one : kProductsOfShapes) {
    const Tensor a = input("a", DType::f32, one.a);
    const Tensor b = input("b", DType::f32, one.b);
    const Tensor made = matmul(a, b);
    ASSERT_TRUE(made.valid()) << made.error().text();
    EXPECT_EQ(made.shape(), one.result) << to_text(one.a) << " by " << to_text(one.b);
    // The same sums written out: every product, then a reduction.
    const bool row = one.a.size() == 1;
    const bool column = one.b.size() == 1;
    const Tensor left = (row ? a.unsqueeze(0) : a).unsqueeze(-1);                   // [..., m, k, 1]
    const Tensor right = (column ? b.unsqueeze(1) : b).unsqueeze(column ? 0 : -3);  // [..., 1, k, n]
    const Tensor sums = (left * right).sum({-2}).reshape(one.result);
    const ir::Graph graph = graph_of({made, sums});
    const Data data = data_for({graph, {}, 11, false});
    const auto want = expected(graph, data);
    for (std::size_t i = 0; i < want.at("y").value.size(); ++i) {
      ASSERT_NEAR(want.at("y").value[i], want.at("y1").value[i], 1e-4)
          << "element " << i << " of " << to_text(one.a) << " by " << to_text(one.b);
    }
    const ir::Graph alone = graph_of({made});
    const Executable program = compile_graph(alone, Build{});
    EXPECT_TRUE(are_kernels(program.kernel_count(), 1)) << to_text(one.a) << " by " << to_text(one.b);
    compare_with_reference(program, alone, data, to_text(one.a) + " by " + to_text(one.b));
  }
}

}  // namespace
}  // namespace vkfuse::test

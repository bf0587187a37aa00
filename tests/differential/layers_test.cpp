// Random convolutions and attention against the reference: ranks, strides, dilations, padding, groups; head sizes,
// grouped heads, masks; how operands lie in memory and what stands before and behind.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "api/states.hpp"
#include "support/fuzz.hpp"
#include "support/masks.hpp"
#include "support/random.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

constexpr std::int64_t kProducts = 200'000;        // of most cases: what the reference has time for
constexpr std::int64_t kManyProducts = 4'000'000;  // of one case in twenty

/// What both kinds of layers are drawn from.
class LayerCase {
 public:
  explicit LayerCase(std::uint64_t seed) : random_(seed) {
    dtype_ = random_.pick(std::vector<DType>{DType::f32, DType::f16, DType::bf16});
    left_ = random_.chance(5) ? kManyProducts : kProducts;
  }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const ir::Graph& graph() const { return graph_; }

 protected:
  /// Up to `most`: any number, or more often a prime, a power of two or one beside it; cut to what is left of the
  /// products.
  std::int64_t draw_size(std::int64_t most) {
    const std::vector<int> primes = {1, 2, 3, 5, 7, 11, 13, 17, 31, 61, 97, 127, 131, 251};
    const std::vector<int> powers = {1, 2, 4, 8, 16, 32, 64, 128, 256};
    std::int64_t size = random_.chance(35) ? random_.pick(primes)
                        : random_.chance(55)
                            ? random_.pick(powers) + static_cast<std::int64_t>(random_.below(3)) - 1
                            : 1 + static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(most)));
    if (size < 1 || size > most) size = 1 + static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(most)));
    while (size > 1 && size > left_) size = (size + 2) / 3;
    left_ = std::max<std::int64_t>(left_ / size, 1);
    return size;
  }
  std::int64_t up_to(std::int64_t most) {
    return static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(most) + 1));
  }

  /// A tensor of the shape: as it lies in memory, with its axes in another order there, or computed from another.
  Tensor operand(const std::string& name, const Shape& shape) {
    std::vector<int> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    if (random_.chance(35)) {
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
    }
    Shape stored;
    std::vector<int> back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      stored.push_back(shape[static_cast<std::size_t>(order[i])]);
      back[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
    }
    // Not in bf16: SwiftShader's compiler takes gigabytes for the tile of a product whose factor is rounded to bf16
    // from int8.
    if (random_.chance(10) && dtype_ != DType::bf16)
      return (Tensor::input(name, DType::i8, stored).cast(dtype_) * 0.015625).permute(back);
    const Tensor x = Tensor::input(name, dtype_, stored).permute(back);
    return random_.chance(15) ? relu(x) * 0.5 : x;
  }

  void finish(const std::vector<Tensor>& results, std::string name) {
    for (const Tensor& result : results) {
      if (!result.valid()) throw std::runtime_error(result.error().text());
    }
    graph_ = graph_of(results);
    graph_.name = std::move(name);
  }

  Random random_;
  DType dtype_ = DType::f32;
  std::int64_t left_ = 0;
  ir::Graph graph_;
};

class ConvCase : public LayerCase {
 public:
  ConvCase(std::uint64_t seed, bool halves) : LayerCase(seed) {
    if (halves) dtype_ = seed % 4 == 3 ? DType::bf16 : DType::f16;
    const std::size_t rank = 1 + random_.below(3);
    const bool transposed = random_.chance(25);
    draw_window(rank, transposed);
    draw_channels();
    const std::int64_t batch = random_.chance(4) ? 0 : draw_size(3);
    Shape x = {batch, channels_};
    Shape w = transposed ? Shape{channels_, channels_out_ / options_.groups}
                         : Shape{channels_out_, channels_ / options_.groups};
    for (std::size_t i = 0; i < rank; ++i) {
      // Of what comes out, or for what goes in: at least one position.
      const std::int64_t taken = (kernel_[i] - 1) * options_.dilations[i] + 1;
      const std::int64_t cut = options_.low[i] + options_.high[i];
      std::int64_t size = draw_size(rank == 1 ? 300 : rank == 2 ? 40 : 12);
      if (transposed) {
        while ((size - 1) * options_.strides[i] + taken - cut < 1) ++size;
      } else {
        size = std::max<std::int64_t>(size * options_.strides[i] - cut, std::max<std::int64_t>(taken - cut, 1));
      }
      x.emplace_back(size);
      w.emplace_back(kernel_[i]);
    }
    const Tensor tensor = operand("x", x);
    const Tensor kernel = operand("w", w);
    finish({with_epilogue(transposed ? conv_transpose(tensor, kernel, options_) : conv(tensor, kernel, options_))},
           fmt::format("conv {}", seed));
  }

 private:
  void draw_window(std::size_t rank, bool transposed) {
    for (std::size_t i = 0; i < rank; ++i) {
      kernel_.push_back(1 + up_to(rank == 1 ? 8 : 4));
      left_ = std::max<std::int64_t>(left_ / kernel_.back(), 1);
      options_.strides.push_back(random_.chance(50) ? 1 : 1 + up_to(3));
      options_.dilations.push_back(random_.chance(65) ? 1 : 1 + up_to(2));
      // Negative ones cut elements off what is read, or append to what a transpose makes.
      options_.low.push_back(random_.chance(10) ? -up_to(1) : up_to(3));
      options_.high.push_back(random_.chance(10) ? -up_to(transposed ? 2 : 1) : up_to(3));
    }
  }

  void draw_channels() {
    if (random_.chance(20)) {  // depthwise, with one or two results of each channel
      channels_ = draw_size(70);
      options_.groups = channels_;
      channels_out_ = channels_ * (1 + up_to(1));
      return;
    }
    if (random_.chance(35)) options_.groups = draw_size(6);
    channels_ = options_.groups * draw_size(options_.groups == 1 ? 130 : 20);
    channels_out_ = options_.groups * draw_size(options_.groups == 1 ? 130 : 20);
  }

  Tensor with_epilogue(Tensor y) {
    if (random_.chance(60)) {
      Shape along(y.shape().size() - 1, Dim(1));
      along[0] = channels_out_;
      y = y + Tensor::input("bias", dtype_, along);
    }
    if (random_.chance(40)) y = random_.chance(50) ? relu(y) : silu(y);
    if (random_.chance(20)) y = y + Tensor::input("residual", dtype_, y.shape());
    return y;
  }

  ConvOptions options_;
  std::vector<std::int64_t> kernel_;
  std::int64_t channels_ = 1, channels_out_ = 1;
};

class AttentionCase : public LayerCase {
 public:
  /// With `halves` in f16 or bf16, with heads of whole vectors of eight.
  explicit AttentionCase(std::uint64_t seed, bool halves = false) : LayerCase(seed) {
    if (halves && dtype_ == DType::f32) dtype_ = DType::f16;
    if (random_.chance(40)) left_ *= 10;  // scores are shared by all elements of a head
    size_ = draw_size(256);
    value_size_ = random_.chance(50) ? size_ : draw_size(256);
    if (halves) size_ = (size_ + 7) / 8 * 8;
    if (halves) value_size_ = (value_size_ + 7) / 8 * 8;
    keys_ = draw_size(300);
    queries_ = random_.chance(15) ? 1 : random_.chance(25) ? keys_ : draw_size(300);
    const std::int64_t key_heads = draw_size(3);
    heads_ = key_heads * (random_.chance(50) ? 1 : draw_size(4));
    batch_ = draw_size(3);
    draw_options();
    const Tensor q = operand("q", {batch_, heads_, queries_, size_});
    const Tensor k = operand("k", {batch_, key_heads, keys_, size_});
    const Tensor v = operand("v", {batch_, key_heads, keys_, value_size_});
    // By another source: other cases are what they were.
    Random masks(seed + 1'000'000);
    const auto spellings = mask_spellings();
    if (masks.chance(30)) spelling_ = &spellings[masks.below(spellings.size())];
    const bool hides_rows = spelling_ != nullptr && !spelling_->infinite && may_hide_rows();
    // Of rows whose every score is rounded beside a large number the reference knows little.
    if (hides_rows && dtype_ != DType::f32) spelling_ = nullptr;
    // By another source, too.
    Random sums(seed + 2'000'000);
    const bool has_sums = sums.chance(30);
    // And by a third one: scores in f32 of operands that are widened, as PyTorch computes them.
    const bool is_wide =
        dtype_ != DType::f32 && !options_.bias && !options_.alibi_slopes && Random(seed + 3'000'000).chance(40);
    const Tensor wide_q = is_wide ? q.cast(DType::f32) : q;
    const Tensor wide_k = is_wide ? k.cast(DType::f32) : k;
    if (spelling_ == nullptr && is_wide) {
      const Tensor scores = attention_scores(wide_q, wide_k, options_);
      std::vector<Tensor> results{with_epilogue(attention_output(softmax(scores).cast(dtype_), v))};
      if (has_sums) results.push_back(log_sum_exp(scores));
      finish(results, fmt::format("attention {} widened{}", seed, has_sums ? " and sums" : ""));
      return;
    }
    if (spelling_ == nullptr) {
      const AttentionParts parts = attention_and_log_sum_exp(q, k, v, options_);
      std::vector<Tensor> results{with_epilogue(parts.result)};
      if (has_sums) results.push_back(sums.chance(50) ? parts.log_sum_exp : parts.log_sum_exp.permute({2, 0, 1}) * 0.5);
      finish(results, fmt::format("attention {}{}", seed, has_sums ? " and sums" : ""));
      return;
    }
    const bool small = masks.chance(50) || dtype_ == DType::f16 || hides_rows;
    const Tensor scores = spelling_->masked(attention_scores(wide_q, wide_k, options_), small ? -1e4 : -1e38);
    const Tensor wide = is_wide ? scores : scores.cast(options_.softmax_dtype.value_or(dtype_));
    std::vector<Tensor> results{with_epilogue(attention_output(softmax(wide).cast(dtype_), v))};
    if (has_sums) results.push_back(log_sum_exp(wide));
    const char* how = is_wide ? " widened" : "";
    finish(results, fmt::format("attention {} {}{}{}", seed, spelling_->name, how, has_sums ? " and sums" : ""));
  }

  /// Whether positions leave out keys: blocks of them are not visited, and a NaN there does not reach the result.
  [[nodiscard]] bool leaves_out() const { return options_.causal || options_.window_before || options_.window_after; }
  /// The same of a mask that a model's exporter wrote.
  [[nodiscard]] bool is_exported() const { return spelling_ != nullptr; }

 private:
  [[nodiscard]] bool may_hide_rows() const {
    if (spelling_->hides_rows) return true;
    for (std::int64_t query = 0; query < queries_; ++query) {
      bool sees = false;
      for (std::int64_t key = 0; key < keys_ && !sees; ++key) sees = spelling_->sees(query, key);
      if (!sees) return true;
    }
    return false;
  }

  void draw_options() {
    if (random_.chance(20)) options_.scale = random_.between(0.3, 2) / std::sqrt(static_cast<double>(size_));
    if (random_.chance(20)) options_.softcap = random_.between(2, 20);
    if (random_.chance(25)) options_.bias = Tensor::input("bias", dtype_, stretched());
    if (random_.chance(15)) options_.mask = Tensor::input("mask", DType::boolean, stretched());
    if (random_.chance(15)) options_.alibi_slopes = Tensor::input("slopes", dtype_, {heads_}) * 0.1;
    options_.causal = random_.chance(40);
    if (random_.chance(20)) options_.window_before = up_to(40);
    if (!options_.causal && random_.chance(15)) options_.window_after = up_to(40);
    if (random_.chance(15)) options_.first_query = up_to(30);
    if (dtype_ != DType::f32 && random_.chance(30)) options_.softmax_dtype = DType::f32;
  }

  /// What broadcasts to the scores.
  Shape stretched() {
    Shape shape = {batch_, heads_, queries_, keys_};
    for (Dim& dim : shape) {
      if (random_.chance(25)) dim = Dim(1);
    }
    const std::size_t left_out = random_.below(3);
    shape.erase(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(left_out));
    return shape;
  }

  Tensor with_epilogue(Tensor y) {
    if (random_.chance(30))
      y = y.permute({0, 2, 1, 3}).reshape({batch_, queries_, heads_ * value_size_});  // heads side by side
    if (random_.chance(15)) y = y * Tensor::input("gate", dtype_, y.shape());
    return y;
  }

  AttentionOptions options_;
  const MaskSpelling* spelling_ = nullptr;
  std::int64_t batch_ = 1, heads_ = 1, queries_ = 1, keys_ = 1, size_ = 1, value_size_ = 1;
};

void run_convolutions(const char* test, std::uint64_t cases, bool low_limits) {
  RandomSuite suite{test, cases, schedule::Template::matmul, false, false, {}, {}};
  suite.draw = [](std::uint64_t seed) { return RandomGraph{ConvCase(seed, false).graph(), seed % 5 == 0}; };
  suite.build = [&](std::uint64_t seed) {
    Build how = random_build(seed, low_limits);
    how.tuning.matmul = seed % 5 < 3 ? std::optional(true) : std::nullopt;
    if (seed % 4 == 1 && !low_limits) how.tuning.splits = 2 + static_cast<int>(seed / 4 % 3);
    return how;
  };
  run_random(suite);
}

RandomGraph random_attention(std::uint64_t seed, bool halves) {
  const AttentionCase one(seed, halves);
  return {one.graph(), seed % 5 == 0 && !one.is_exported() && !(halves && one.leaves_out()),
          halves && one.dtype() == DType::bf16};
}

/// Of threads, as GPUs have them.
constexpr schedule::AttentionShape kAttentionTiles[] = {
    {.threads_m = 2, .threads_k = 4, .rows = 8, .keys = 8, .slices = true},
    {.threads_m = 4, .threads_k = 8, .rows = 8, .keys = 4, .slices = true},
    {.threads_m = 4, .threads_k = 8, .rows = 4, .keys = 4, .slices = true},
    {.threads_m = 8, .threads_k = 2, .rows = 4, .keys = 8, .slices = false},
    {.keys = 4, .subgroups = 2, .lanes = 8},
    {.keys = 2, .subgroups = 3, .lanes = 2},
};

void run_attention(const char* test, std::uint64_t cases, bool low_limits) {
  RandomSuite suite{test, cases, schedule::Template::attention, false, false, {}, {}};
  suite.draw = [](std::uint64_t seed) { return random_attention(seed, false); };
  suite.build = [&](std::uint64_t seed) {
    Build how = random_build(seed, low_limits);
    how.fusion = seed % 10 != 0;  // without it there is no attention, and ten kernels to compile
    how.tuning.matmul = seed % 5 < 3 ? std::optional(true) : std::nullopt;
    if (seed % 2 == 1) how.tuning.attention = kAttentionTiles[seed / 2 % std::size(kAttentionTiles)];
    return how;
  };
  run_random(suite);
}

TEST(Layers, RandomAttentionWithMatrixUnits) {
  const std::string missing = must(device().state()->context->tiers().missing(FeatureTier::cooperative_matrix));
  if (!missing.empty()) GTEST_SKIP() << "T4 is not in use here: " << missing;
  RandomSuite suite{"Layers.RandomAttentionWithMatrixUnits", 60, schedule::Template::attention, true, false, {}, {}};
  suite.draw = [](std::uint64_t seed) { return random_attention(seed, true); };
  suite.build = [](std::uint64_t seed) {
    Build how = random_build(seed, false);
    how.numerics = Numerics::standard;
    how.fusion = true;
    how.tuning.matmul = true;
    how.tuning.cooperative_matrix = true;
    how.tuning.elements = static_cast<schedule::ElementAccess>(seed % 3);
    how.tuning.lazy_rescaling = seed % 2 == 0;
    return how;
  };
  run_random(suite);
}

/// With T4 wherever operands suit it.
TEST(Layers, RandomConvolutionsWithMatrixUnits) {
  const std::string missing = must(device().state()->context->tiers().missing(FeatureTier::cooperative_matrix));
  if (!missing.empty()) GTEST_SKIP() << "T4 is not in use here: " << missing;
  RandomSuite suite{"Layers.RandomConvolutionsWithMatrixUnits", 60, schedule::Template::matmul, true, false, {}, {}};
  suite.draw = [](std::uint64_t seed) { return RandomGraph{ConvCase(seed, true).graph(), seed % 5 == 0}; };
  suite.build = [](std::uint64_t seed) {
    Build how = random_build(seed, false);
    how.numerics = Numerics::standard;
    how.fusion = true;
    how.tuning.matmul = true;
    how.tuning.cooperative_matrix = true;
    return how;
  };
  run_random(suite);
}

TEST(Layers, RandomConvolutions) { run_convolutions("Layers.RandomConvolutions", 60, false); }
TEST(Layers, RandomConvolutionsOnLowLimits) { run_convolutions("Layers.RandomConvolutionsOnLowLimits", 20, true); }
TEST(Layers, RandomAttention) { run_attention("Layers.RandomAttention", 30, false); }
TEST(Layers, RandomAttentionOnLowLimits) { run_attention("Layers.RandomAttentionOnLowLimits", 10, true); }

}  // namespace
}  // namespace vkfuse::test

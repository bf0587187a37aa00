#include "support/images.hpp"

#include "support/compare.hpp"
#include "support/random.hpp"

namespace vkfuse::test {

namespace {

constexpr std::int64_t kMostElements = 6'000;  // of one image's value: what the reference has time for
constexpr std::int64_t kMostProducts = 300'000;

class ImageNetwork {
 public:
  explicit ImageNetwork(std::uint64_t seed) : random_(seed_of(seed, "images")), seed_(seed) {}

  Case run() {
    dtype_ = random_.chance(50) ? DType::f32 : random_.chance(80) ? DType::f16 : DType::bf16;
    Dim batch = number({1, 1, 2, 3});
    if (random_.chance(25)) batch = Dim::any("b"), symbols_["b"] = 2;
    const int rows = number({1, 2, 3, 5, 7, 8, 9, 12, 16, 17});
    x_ = input({batch, number({1, 3, 4, 6, 8, 8, 8, 16, 16, 16, 24, 32}), rows,
                random_.chance(50) ? rows : number({1, 2, 3, 5, 7, 8, 9, 12, 16, 17})});
    for (std::size_t more = 2 + random_.below(5); more > 0; --more) {
      add_layer();
      if (random_.chance(15)) outputs_.push_back(x_);
    }
    outputs_.push_back(x_);
    Case made{graph_of(outputs_), symbols_, seed_, random_.chance(2)};
    made.graph.name = fmt::format("images {}", seed_);
    return made;
  }

 private:
  using Layer = void (ImageNetwork::*)();

  void add_layer() {
    static const std::vector<Layer> layers = {
        &ImageNetwork::convolve,     &ImageNetwork::convolve,     &ImageNetwork::convolve, &ImageNetwork::each_channel,
        &ImageNetwork::each_channel, &ImageNetwork::each_channel, &ImageNetwork::point,    &ImageNetwork::transposed,
        &ImageNetwork::pool,         &ImageNetwork::pool,         &ImageNetwork::excite,   &ImageNetwork::normalise,
        &ImageNetwork::normalise,    &ImageNetwork::resize,       &ImageNetwork::cut,      &ImageNetwork::join,
        &ImageNetwork::shuffle,      &ImageNetwork::attend,       &ImageNetwork::product,  &ImageNetwork::reduce,
        &ImageNetwork::local};
    const Tensor before = x_;
    (this->*random_.pick(layers))();
    if (!x_.valid()) throw std::runtime_error(fmt::format("Images of seed {}: {}", seed_, x_.error().text()));
    if (x_.shape() == before.shape() && random_.chance(40)) x_ = before + x_;
    if (random_.chance(40)) x_ = activated(x_);
  }

  Tensor activated(const Tensor& x) {
    switch (random_.below(6)) {
      case 0: return Tensor::apply("relu", {x});
      case 1: return silu(x);
      case 2: return hard_swish(x);
      case 3: return gelu(x);
      case 4: return leaky_relu(x);
      default: return Tensor::apply("tanh", {x});
    }
  }

  // --- what there is to draw from ------------------------------------------------------------------------------------

  int number(const std::vector<int>& of) { return random_.pick(of); }
  Tensor input(Shape shape, std::optional<DType> dtype = {}) {
    return Tensor::input(fmt::format("x{}", inputs_++), dtype.value_or(dtype_), std::move(shape));
  }
  [[nodiscard]] Dim dim(int axis) const { return x_.shape()[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] std::int64_t size(int axis) const { return dim(axis).size(); }
  [[nodiscard]] std::int64_t elements() const { return size(1) * size(2) * size(3); }
  /// Whether this layer would be too much for the reference.
  [[nodiscard]] static bool is_too_much(const Tensor& made, std::int64_t products_each) {
    if (!made.valid()) return false;
    const Shape& shape = made.shape();
    const std::int64_t count = shape[1].size() * shape[2].size() * shape[3].size();
    return count > kMostElements || count * products_each > kMostProducts;
  }
  /// Numbers for all channels, as [channels] or with the axes of an image.
  Tensor of_channels(std::int64_t channels) { return input({Dim(channels)}); }

  Tensor weights(Shape shape) {
    if (random_.chance(85)) return input(std::move(shape)) * 0.25;
    const Dim out = shape[0];
    Quantization how{.scale = input({out}) * 0.0625, .axis = 0};
    return dequantize(input(std::move(shape), DType::i8), how).cast(dtype_);
  }

  // --- layers --------------------------------------------------------------------------------------------------------

  ConvOptions options_of_convolution(const std::vector<std::int64_t>& kernel) {
    ConvOptions options;
    const bool strides = random_.chance(40), dilations = random_.chance(20);
    const std::size_t padding = random_.below(4);
    for (const std::int64_t taps : kernel) {
      options.strides.push_back(strides ? number({1, 2, 2, 3}) : 1);
      options.dilations.push_back(dilations ? number({1, 2}) : 1);
      const std::int64_t most = (taps - 1) * options.dilations.back();
      options.low.push_back(padding == 0 ? 0 : padding == 1 ? most / 2 : padding == 2 ? number({0, 1, 3}) : most);
      options.high.push_back(padding == 0 ? 0 : padding == 1 ? most - most / 2 : number({0, 1, 2}));
    }
    return options;
  }
  std::vector<std::int64_t> kernel_of(const std::vector<int>& sizes) {
    const int rows = number(sizes);
    return {rows, random_.chance(75) ? rows : number(sizes)};
  }
  /// Whether the windows fit into the image.
  [[nodiscard]] bool fits(const std::vector<std::int64_t>& kernel, const ConvOptions& options) const {
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t padded = size(static_cast<int>(i) + 2) + options.low[i] + options.high[i];
      if (padded < (kernel[i] - 1) * options.dilations[i] + 1) return false;
    }
    return true;
  }
  void convolve_with(std::int64_t out, std::int64_t groups, const std::vector<int>& sizes) {
    const std::vector<std::int64_t> kernel = kernel_of(sizes);
    ConvOptions options = options_of_convolution(kernel);
    options.groups = groups;
    if (!fits(kernel, options)) return;
    const std::int64_t each = size(1) / groups;
    Tensor made = conv(x_, weights({Dim(out), Dim(each), Dim(kernel[0]), Dim(kernel[1])}), options);
    if (is_too_much(made, each * kernel[0] * kernel[1])) return;
    if (random_.chance(50)) made = made + of_channels(out).reshape({Dim(out), 1, 1});
    x_ = made * (random_.chance(50) ? 0.25 : 1);
  }
  void convolve() {
    std::vector<std::int64_t> groups = {1, 1, 1};
    for (const std::int64_t count : {2, 4})
      if (size(1) % count == 0) groups.push_back(count);
    const std::int64_t count = random_.pick(groups);
    convolve_with(count * number({1, 3, 4, 8, 8, 16}), count, {1, 2, 3, 3, 3, 4, 5, 7});
  }
  void each_channel() {
    const std::int64_t channels = size(1);
    convolve_with(channels * (random_.chance(85) ? 1 : 2), channels, {1, 2, 3, 3, 5, 7, 9});
  }
  void point() { convolve_with(number({1, 2, 4, 8, 12, 16, 24, 32}), 1, {1}); }
  void transposed() {
    const std::int64_t groups = random_.chance(25) ? size(1) : 1, each = number({1, 3, 4, 8});
    const std::vector<std::int64_t> kernel = kernel_of({1, 2, 3, 4});
    ConvOptions options;
    options.groups = groups;
    options.strides = {number({1, 2, 3}), number({1, 2})};
    if (random_.chance(40)) options.low = {0, kernel[1] - 1}, options.high = {kernel[0] - 1, -1};
    const Tensor made =
        conv_transpose(x_, weights({dim(1), Dim(groups > 1 ? 1 : each), Dim(kernel[0]), Dim(kernel[1])}), options);
    if (made.valid() && !is_too_much(made, size(1) / groups * kernel[0] * kernel[1])) x_ = made * 0.25;
  }
  void pool() {
    PoolOptions options;
    for (int i = 0; i < 2; ++i) {
      options.sizes.push_back(std::min<std::int64_t>(number({1, 2, 2, 3, 3, 5}), size(i + 2)));
      options.strides.push_back(number({1, 2, 2, 3}));
      options.low.push_back(random_.chance(50) ? options.sizes.back() / 2 : 0);
      options.high.push_back(random_.chance(50) ? options.sizes.back() / 2 : 0);
    }
    options.round_up = random_.chance(25);
    options.count_padding = random_.chance(30);
    if (random_.chance(40)) {
      x_ = average_pool(x_, options);
    } else if (random_.chance(70) || dim(0).is_symbol()) {
      x_ = max_pool(x_, options);
    } else {
      const MaxPool made = max_pool_and_positions(x_, options);
      outputs_.push_back(made.positions);
      x_ = made.result;
    }
  }
  /// Squeeze and excitation: a factor for each channel of what all its positions say.
  void excite() {
    const std::int64_t channels = size(1), inner = number({1, 2, 4, 8});
    const Tensor means = x_.mean({2, 3});
    const Tensor gates =
        matmul(activated(matmul(means, weights({Dim(channels), Dim(inner)}))), weights({Dim(inner), Dim(channels)}));
    x_ = x_ * Tensor::apply("sigmoid", {gates}).reshape({dim(0), Dim(channels), 1, 1});
  }
  void normalise() {
    const std::int64_t channels = size(1);
    NormOptions options;
    if (random_.chance(70)) options.scale = of_channels(channels), options.bias = of_channels(channels);
    // Of one or two positions nothing but signs is left, which rounding decides.
    const bool has_positions = size(2) * size(3) > 2;
    switch (has_positions ? random_.below(6) : 2 + random_.below(3)) {
      case 0: x_ = group_norm(x_, channels % 4 == 0 ? 4 : 1, options); break;
      case 1: x_ = instance_norm(x_, options); break;
      case 2: x_ = layer_norm(x_.permute({0, 2, 3, 1}), -1, options).permute({0, 3, 1, 2}); break;
      case 3: x_ = rms_norm(x_.permute({0, 2, 3, 1})).permute({0, 3, 1, 2}); break;
      case 4: {
        const Tensor variance = Tensor::apply("abs", {of_channels(channels)}) + 0.25;
        x_ = batch_norm(x_, of_channels(channels), variance, options);
        break;
      }
      default: x_ = softmax(x_, random_.chance(60) ? 1 : number({2, 3})); break;
    }
  }
  void resize() {
    const std::int64_t rows = size(2) * number({1, 2, 2}),
                       columns = random_.chance(60) ? size(3) * 2 : number({1, 4, 9});
    if (size(1) * rows * columns > kMostElements) return;
    const std::vector<Interpolation> modes = {Interpolation::nearest, Interpolation::nearest, Interpolation::linear,
                                              Interpolation::cubic};
    const std::vector<Coordinates> coordinates = {Coordinates::half_pixel, Coordinates::align_corners,
                                                  Coordinates::asymmetric};
    x_ = interpolate(x_, {2, 3}, {rows, columns},
                     {.mode = random_.pick(modes), .coordinates = random_.pick(coordinates)});
  }
  void cut() {
    const int axis = number({1, 2, 3});
    if (random_.chance(30)) {
      std::vector<std::int64_t> low(4, 0), high(4, 0);
      low[static_cast<std::size_t>(axis)] = number({0, 1, 2}), high[static_cast<std::size_t>(axis)] = number({0, 1, 3});
      x_ = x_.pad(low, high, random_.chance(60) ? 0 : -1.5);
      return;
    }
    const std::int64_t length = size(axis);
    if (length < 2) return;
    const auto from = static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(length)));
    x_ = random_.chance(75) ? x_.slice(axis, from, length, number({1, 1, 2})) : x_.reverse({axis});
  }
  void join() {
    Shape shape = x_.shape();
    shape[1] = Dim(number({1, 4, 8, 8}));
    std::vector<Tensor> all = {x_, random_.chance(50) ? input(shape) : activated(x_)};
    if (random_.chance(40)) std::swap(all.front(), all.back());
    x_ = concat(all, 1);
  }
  /// Channels in another order: of two groups one by one, or as positions, or positions as channels.
  void shuffle() {
    const Dim b = dim(0);
    const std::int64_t c = size(1), h = size(2), w = size(3);
    const std::size_t kind = random_.below(3);
    if (kind == 0 && c % 2 == 0)
      x_ = x_.reshape({b, 2, Dim(c / 2), Dim(h), Dim(w)}).permute({0, 2, 1, 3, 4}).reshape({b, Dim(c), Dim(h), Dim(w)});
    if (kind == 1 && c % 4 == 0)
      x_ = x_.reshape({b, Dim(c / 4), 2, 2, Dim(h), Dim(w)})
               .permute({0, 1, 4, 2, 5, 3})
               .reshape({b, Dim(c / 4), Dim(2 * h), Dim(2 * w)});
    if (kind == 2 && h % 2 == 0 && w % 2 == 0)
      x_ = x_.reshape({b, Dim(c), Dim(h / 2), 2, Dim(w / 2), 2})
               .permute({0, 1, 3, 5, 2, 4})
               .reshape({b, Dim(c * 4), Dim(h / 2), Dim(w / 2)});
  }
  void attend() {
    const std::int64_t c = size(1), positions = size(2) * size(3), heads = c % 2 == 0 ? 2 : 1;
    if (positions > 64 || c < 2) return;
    const Tensor tokens = x_.reshape({dim(0), Dim(c), Dim(positions)}).permute({0, 2, 1});
    const auto part = [&] {
      return (matmul(tokens, weights({Dim(c), Dim(c)})) * 0.25)
          .reshape({dim(0), Dim(positions), Dim(heads), Dim(c / heads)})
          .permute({0, 2, 1, 3});
    };
    const Tensor q = part(), k = part(), v = part();
    x_ = attention(q, k, v)
             .permute({0, 2, 1, 3})
             .reshape({dim(0), Dim(positions), Dim(c)})
             .permute({0, 2, 1})
             .reshape(x_.shape());
  }
  /// Each position along the columns has weights of its own.
  void local() {
    const std::int64_t taps = std::min<std::int64_t>(number({1, 2, 3}), size(3));
    const Tensor windows = x_.unfold(3, taps);
    const std::int64_t columns = windows.shape()[3].size();
    const Tensor w = weights({dim(1), dim(2), Dim(columns), Dim(taps)});
    x_ = dot_general(windows, w, {.contract_a = {4}, .contract_b = {3}, .batch_a = {1, 2, 3}, .batch_b = {0, 1, 2}})
             .permute({3, 0, 1, 2});
  }
  /// A product over channels as networks write it that have them last.
  void product() {
    const std::int64_t c = size(1), inner = number({4, 8, 16}), out = random_.chance(60) ? c : number({3, 8});
    if (elements() * inner > kMostProducts || elements() / c * inner * out > kMostProducts) return;
    const Tensor last = x_.permute({0, 2, 3, 1});
    x_ = (matmul(activated(matmul(last, weights({Dim(c), Dim(inner)}))), weights({Dim(inner), Dim(out)})) * 0.25)
             .permute({0, 3, 1, 2});
  }
  void reduce() {
    if (random_.chance(30)) outputs_.push_back(x_.argmax(number({1, 2, 3})));
    if (random_.chance(40)) outputs_.push_back(x_.mean({2, 3}));
    const std::vector<std::vector<int>> axes = {{1}, {2, 3}, {3}, {1, 2, 3}};
    if (elements() < 4) return;
    const Tensor made = x_.reduce(random_.chance(50) ? "reduce_max" : "reduce_mean", random_.pick(axes), true);
    x_ = x_ - made;
  }

  Random random_;
  std::uint64_t seed_;
  DType dtype_ = DType::f32;
  SymbolValues symbols_;
  int inputs_ = 0;
  Tensor x_ = Tensor::scalar(DType::f32, 0);
  std::vector<Tensor> outputs_;
};

}  // namespace

Case random_images(std::uint64_t seed) { return ImageNetwork(seed).run(); }

}  // namespace vkfuse::test

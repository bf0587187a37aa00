#include "support/layers.hpp"

#include "support/compare.hpp"
#include "support/random.hpp"
#include "vkfuse/experts.hpp"
#include "vkfuse/float_codes.hpp"
#include "vkfuse/generation.hpp"

namespace vkfuse::test {

namespace {

class Network {
 public:
  explicit Network(std::uint64_t seed) : random_(seed_of(seed, "network")), seed_(seed) {}

  Case run() {
    dtype_ = random_.chance(60) ? DType::f32 : random_.chance(70) ? DType::f16 : DType::bf16;
    batch_ = dim("b", 30, {1, 1, 2, 3}, 4);
    positions_ = dim("n", 55, {1, 2, 3, 5, 7, 8, 16, 17, 31, 33}, 16);
    x_ = input(dtype_, {batch_, positions_, number({1, 3, 4, 6, 8, 16, 24, 33})});
    for (std::size_t more = 1 + random_.below(4); more > 0; --more) {
      add_layer();
      if (random_.chance(20)) keep(x_);
    }
    keep(x_);
    Case made{graph_of(outputs_), symbols_, seed_, random_.chance(6)};
    made.graph.name = fmt::format("layers {}", seed_);
    return made;
  }

 private:
  using Layer = void (Network::*)();

  void add_layer() {
    static const std::vector<Layer> layers = {
        &Network::attend,    &Network::attend,     &Network::attend_cache,   &Network::attend_pages,
        &Network::multiply,  &Network::multiply,   &Network::multiply_codes, &Network::convolve,
        &Network::pool,      &Network::experts,    &Network::pick,           &Network::sort,
        &Network::cut,       &Network::join,       &Network::reduce,         &Network::reduce,
        &Network::normalise, &Network::accumulate, &Network::scatter,        &Network::convert,
        &Network::update,    &Network::turn,       &Network::shift,          &Network::choose,
        &Network::resize,    &Network::cross};
    const Tensor before = x_;
    (this->*random_.pick(layers))();
    if (!x_.valid()) throw std::runtime_error(fmt::format("Layers of seed {}: {}", seed_, x_.error().text()));
    const bool fits = x_.shape() == before.shape() && x_.dtype() == before.dtype();
    if (fits && random_.chance(50)) x_ = before + x_;
    if (random_.chance(40))
      x_ = Tensor::apply(random_.pick(std::vector<const char*>{"tanh", "sigmoid", "abs", "sin"}), {x_});
  }

  // --- what there is to draw from ------------------------------------------------------------------------------------

  int number(const std::vector<int>& of) { return random_.pick(of); }
  Dim dim(const char* name, int symbol_chance, const std::vector<int>& sizes, std::int64_t usual) {
    if (!random_.chance(symbol_chance)) return number(sizes);
    DimFacts facts;
    if (random_.chance(25)) facts.min = number({1, 2, 3});
    if (random_.chance(25)) facts.max = number({16, 64, 127});
    if (random_.chance(25)) facts.multiple_of = number({2, 4, 8});
    symbols_[name] = (usual + facts.multiple_of - 1) / facts.multiple_of * facts.multiple_of;
    return Dim::any(name, facts);
  }
  Tensor input(DType dtype, Shape shape) {
    return Tensor::input(fmt::format("x{}", inputs_++), dtype, std::move(shape));
  }
  Tensor index(std::int64_t below, Shape shape, DType dtype = DType::i32) {
    return Tensor::input(fmt::format("index{} {}", below, inputs_++), dtype, std::move(shape));
  }
  void keep(const Tensor& value) { outputs_.push_back(value); }

  [[nodiscard]] Dim size(int axis) const { return x_.shape()[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] std::int64_t channels() const { return x_.shape()[2].size(); }
  [[nodiscard]] bool is_static(int axis) const { return !size(axis).is_symbol(); }
  [[nodiscard]] std::optional<std::vector<int>> some_axes() {
    std::vector<int> axes;
    for (int axis = 0; axis < 3; ++axis) {
      if (random_.chance(50)) axes.push_back(axis);
    }
    return axes.empty() ? std::vector<int>{2} : axes;
  }

  /// Weights of a product, as they are or decoded from codes.
  Tensor weights(std::int64_t rows, std::int64_t columns) {
    const std::size_t kind = random_.below(6);
    if (kind < 2) return input(dtype_, {Dim(rows), Dim(columns)}) * 0.25;
    const bool by_rows = random_.chance(50);
    const std::int64_t along = by_rows ? rows : columns;
    const std::int64_t group = random_.chance(50) ? 0 : number({1, 2, 8, 32});
    Tensor codes = stored(kind, rows, columns);
    Shape shape = {Dim(along)};
    if (group > 0) {
      shape = {Dim(rows), Dim(columns)};
      shape[by_rows ? 0 : 1] = Dim((along + group - 1) / group);
    }
    Quantization how{.scale = input(random_.chance(50) ? dtype_ : DType::f32, shape) * 0.0625,
                     .axis = by_rows ? 0 : 1,
                     .group = group};
    if (kind < 5 && random_.chance(50)) how.zero_point = input(codes.dtype(), shape);
    const bool turned = random_.chance(30);
    if (turned) codes = codes.transpose(), how.axis = 1 - how.axis;
    if (turned && group > 0) how.scale = how.scale.transpose();
    if (turned && group > 0 && how.zero_point) how.zero_point = how.zero_point->transpose();
    const Tensor real = dequantize(codes, how).cast(dtype_);
    return turned ? real.transpose() : real;
  }
  Tensor stored(std::size_t kind, std::int64_t rows, std::int64_t columns) {
    if (kind == 2) return input(DType::i8, {Dim(rows), Dim(columns)});
    if (kind == 5)
      return decode_float(index(120, {Dim(rows), Dim(columns)}, DType::u8),
                          random_.chance(50) ? FloatFormat::float8_e4m3fn : FloatFormat::float8_e5m2,
                          random_.chance(50) ? DType::f32 : dtype_);
    if (columns % 2 == 0) return unpack_int4(input(DType::u8, {Dim(rows), Dim(columns / 2)}), kind == 3);
    return input(DType::u8, {Dim(rows), Dim(columns)});
  }

  // --- layers --------------------------------------------------------------------------------------------------------

  void multiply() {
    const std::int64_t out = number({1, 2, 4, 7, 8, 16, 32, 40});
    x_ = matmul(x_, weights(channels(), out)) * 0.25;
    if (random_.chance(50)) x_ = x_ + input(dtype_, {Dim(out)});
  }
  void multiply_codes() {
    const Tensor a = x_.cast(DType::i8).cast(DType::i32), w = input(DType::i8, {Dim(channels()), Dim(8)});
    x_ = (matmul(a, w.cast(DType::i32)).cast(DType::f32) * 0.001).cast(dtype_);
  }

  /// [batch, heads, positions, size] of x times weights.
  Tensor heads_of(const Tensor& x, std::int64_t heads, std::int64_t width) {
    const std::int64_t in = x.shape()[2].size();
    return (matmul(x, weights(in, heads * width)) * 0.25)
        .reshape({x.shape()[0], x.shape()[1], Dim(heads), Dim(width)})
        .permute({0, 2, 1, 3});
  }
  void from_heads(const Tensor& y) {
    x_ = y;
    if (!y.valid()) return;
    const Shape& s = y.shape();
    x_ = y.permute({0, 2, 1, 3}).reshape({s[0], s[2], Dim(s[1].size() * s[3].size())});
  }

  AttentionOptions options_of_attention(std::int64_t heads, const Dim& queries, const Dim& keys) {
    AttentionOptions options;
    const DType dtype = dtype_;
    if (random_.chance(20)) options.softcap = 2;
    if (random_.chance(20)) options.bias = input(dtype, {random_.chance(50) ? Dim(heads) : Dim(1), queries, keys});
    if (random_.chance(30))
      options.mask = input(
          DType::boolean, {random_.chance(50) ? size(0) : Dim(1), Dim(1), random_.chance(50) ? queries : Dim(1), keys});
    if (random_.chance(15)) options.alibi_slopes = input(dtype, {Dim(heads)});
    options.causal = random_.chance(40);
    if (random_.chance(25)) options.window_before = number({0, 1, 3, 8});
    if (random_.chance(25)) options.window_after = number({0, 1, 3, 8});
    if (random_.chance(20)) options.first_query = number({1, 4, 9});
    if (random_.chance(20)) options.sink = input(dtype, {Dim(heads)});
    if (random_.chance(20)) options.softmax_dtype = DType::f32;
    return options;
  }
  void attend() {
    const std::int64_t groups = number({1, 1, 2, 3}), key_heads = number({1, 2}), width = number({1, 4, 8, 16});
    const Tensor q = heads_of(x_, key_heads * groups, width), k = heads_of(x_, key_heads, width),
                 v = heads_of(x_, key_heads, number({1, 4, 8}));
    from_heads(attention(q, k, v, options_of_attention(key_heads * groups, size(1), size(1))));
  }
  /// To a sequence of another length.
  void cross() {
    const Dim keys = dim("m", 50, {1, 2, 9, 17}, 9);
    const Tensor other = input(dtype_, {size(0), keys, Dim(4)});
    const std::int64_t heads = number({1, 2, 4});
    from_heads(attention(heads_of(x_, heads, 4), heads_of(other, 1, 4), heads_of(other, 1, 4),
                         options_of_attention(heads, size(1), keys)));
  }

  CachedAttentionOptions options_of_cache(std::int64_t heads, const Dim& capacity) {
    CachedAttentionOptions options;
    if (random_.chance(20)) options.softcap = 3;
    options.causal = random_.chance(80);
    if (random_.chance(30)) options.window = number({1, 2, 7, 40});
    if (random_.chance(20)) options.bias = input(dtype_, {Dim(1), Dim(heads), Dim(1), capacity});
    if (random_.chance(20)) options.sink = input(dtype_, {Dim(heads)});
    return options;
  }
  [[nodiscard]] Tensor starts_of(std::int64_t capacity) {
    const bool each = random_.chance(60);
    return index(capacity + 6, each ? Shape{size(0)} : Shape{}) - 3;
  }
  void attend_cache() {
    if (!is_static(1)) return;
    const std::int64_t key_heads = number({1, 2}), heads = key_heads * number({1, 2, 4}), width = number({4, 8, 16});
    const std::int64_t capacity = size(1).size() + number({0, 7, 24, 40, 64, 63});
    const Tensor starts = starts_of(capacity);
    const auto cache = [&] {
      const Tensor past = input(dtype_, {size(0), Dim(key_heads), Dim(capacity), Dim(width)});
      if (random_.chance(30)) return past;
      const Tensor made = past.update_rows(starts, heads_of(x_, key_heads, width), 2);
      if (random_.chance(60)) keep(made);
      return made;
    };
    const Tensor keys = cache(), values = cache();
    CachedAttentionOptions options = options_of_cache(heads, Dim(capacity));
    if (capacity % 8 == 0 && random_.chance(40)) options.part = number({8, 4, 2});
    from_heads(cached_attention(heads_of(x_, heads, width), keys, values, starts, options));
  }
  void attend_pages() {
    if (!is_static(0) || !is_static(1)) return;
    const std::int64_t page = number({1, 2, 4, 16}), pages = number({1, 2, 5}), key_heads = number({1, 2});
    if (page * pages < size(1).size()) return;
    const std::int64_t heads = key_heads * number({1, 2, 4}), width = number({4, 8});
    const std::int64_t pool = pages * size(0).size() + 1, capacity = page * pages;
    const Tensor starts = starts_of(capacity);
    // No page twice, so that no row is written twice; the last sequence's last page may be missing.
    Tensor table = Tensor::iota(DType::i32, {Dim(pages * size(0).size())}, 0).reshape({size(0), Dim(pages)});
    if (random_.chance(50)) table = table - 1;
    if (random_.chance(50)) table = table.reverse({1});
    const PagedSequences sequences{table, starts, page};
    const auto pool_of = [&] {
      Tensor rows = input(dtype_, {Dim(pool * page), Dim(key_heads), Dim(width)});
      if (random_.chance(30)) return rows;
      const std::int64_t count = size(0).size() * size(1).size();
      const Tensor made =
          matmul(x_, weights(channels(), key_heads * width)).reshape({Dim(count), Dim(key_heads), Dim(width)});
      rows = rows.update_rows(page_rows(sequences, size(1).size()).reshape({Dim(count)}), made, 0);
      if (random_.chance(50)) keep(rows);
      return rows;
    };
    const Tensor keys = pool_of(), values = pool_of();
    from_heads(
        paged_attention(heads_of(x_, heads, width), keys, values, sequences, options_of_cache(heads, Dim(capacity))));
  }

  /// Axis 1 or 2 as the one of an image, the other as channels or batch.
  void convolve() {
    if (!is_static(1)) {
      if (!is_static(0)) return;
      x_ = x_.permute({1, 0, 2});
      convolve_last();
      x_ = x_.permute({1, 0, 2});
      return;
    }
    x_ = x_.permute({0, 2, 1});
    convolve_last();
    x_ = x_.permute({0, 2, 1});
  }
  void convolve_last() {
    const std::int64_t in = size(1).size(), length = size(2).size();
    ConvOptions options;
    const std::int64_t kernel = number({1, 2, 3, 5});
    options.groups = random_.chance(30) ? in : 1;
    if (random_.chance(50)) options.strides = {number({1, 2, 3})};
    if (random_.chance(40)) options.dilations = {number({1, 2})};
    options.low = {kernel}, options.high = {kernel + number({0, 1})};
    const std::int64_t out = options.groups * number({1, 2, 3});
    if (length == 0) return;
    if (random_.chance(30)) {
      options.low = {0}, options.high = {number({0, -1})};
      x_ = conv_transpose(x_, input(dtype_, {Dim(in), Dim(out / options.groups), Dim(kernel)}), options) * 0.125;
      return;
    }
    x_ = conv(x_, input(dtype_, {Dim(out), Dim(in / options.groups), Dim(kernel)}), options) * 0.125;
  }
  void pool() {
    if (channels() < 3) return;
    PoolOptions options;
    options.sizes = {number({1, 2, 3})};
    options.strides = {number({1, 2, 3})};
    if (random_.chance(50)) options.low = {options.sizes[0] - 1};
    if (random_.chance(50)) options.high = {options.sizes[0] - 1};
    options.round_up = random_.chance(30);
    options.count_padding = random_.chance(30);
    if (random_.chance(50)) {
      x_ = average_pool(x_, options);
      return;
    }
    if (!is_static(0) || !is_static(1)) {
      x_ = max_pool(x_, options);
      return;
    }
    const MaxPool made = max_pool_and_positions(x_, options);
    if (random_.chance(40)) keep(made.positions);
    x_ = made.result;
  }

  void experts() {
    if (!is_static(0) || !is_static(1) || size(0).size() * size(1).size() > 40) return;
    const std::int64_t tokens = size(0).size() * size(1).size(), count = number({1, 2, 4, 7}), width = channels();
    const Tensor flat = x_.reshape({Dim(tokens), Dim(width)});
    const Tensor logits = input(dtype_, {Dim(tokens), Dim(count)});
    const ExpertChoice choice =
        choose_experts(logits, random_.chance(50) ? 1 : std::min<std::int64_t>(2, count), random_.chance(50));
    const std::int64_t inner = number({2, 8}), out = number({4, 8});
    ExpertsOptions options;
    const auto of = [&](std::int64_t a, std::int64_t b) { return input(dtype_, {Dim(count), Dim(a), Dim(b)}) * 0.25; };
    if (random_.chance(60)) options.gate = of(width, inner);
    if (random_.chance(50)) options.rows = number({1, 2, 4, 16});
    x_ = mixture_of_experts(flat, choice, of(width, inner), of(inner, out), options)
             .reshape({size(0), size(1), Dim(out)});
  }

  void pick() {
    const int axis = number({0, 1, 2});
    const Dim count = axis == 0   ? Dim(number({1, 2, 3}))
                      : axis == 2 ? Dim(number({1, 2, 5, 8}))
                                  : dim("k", 40, {1, 2, 5, 9}, 5);
    const DType dtype = random_.chance(60) ? DType::i32 : random_.chance(50) ? DType::i64 : DType::u32;
    const std::int64_t below = size(axis).is_symbol() ? 12 : std::max<std::int64_t>(size(axis).size(), 1) + 1;
    if (random_.chance(60)) {
      x_ = x_.gather(index(below, {count}, dtype), axis);
      return;
    }
    Shape shape = x_.shape();
    shape[static_cast<std::size_t>(axis)] = count;
    x_ = x_.take_along(index(below, shape, dtype), axis);
  }
  void sort() {
    const int axis = number({1, 2});
    const Tensor keys = random_.chance(50) ? input(DType::i8, x_.shape()) : input(dtype_, x_.shape());
    const bool whole = size(axis).is_symbol() || random_.chance(50);
    const std::int64_t most = whole ? 0
                                    : 1 + static_cast<std::int64_t>(random_.below(
                                              static_cast<std::size_t>(std::max<std::int64_t>(size(axis).size(), 1))));
    const Tensor order = keys.argsort(axis, random_.chance(50), most);
    if (random_.chance(30)) keep(order);
    x_ = x_.take_along(order, axis);
  }

  void cut() {
    const int axis = is_static(1) ? number({1, 2}) : 2;
    const std::int64_t length = size(axis).size();
    if (length < 2) return;
    const std::int64_t step = number({1, 2, 3, -1, -2});
    const std::int64_t from = static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(length)));
    x_ = step > 0 ? x_.slice(axis, from, length, step) : x_.slice(axis, length - 1, from - length - 1, step);
  }
  void join() {
    const int axis = is_static(1) ? number({1, 2}) : 2;
    Shape shape = x_.shape();
    shape[static_cast<std::size_t>(axis)] = Dim(number({0, 1, 3, 8}));
    std::vector<Tensor> all = {x_, input(dtype_, shape)};
    if (random_.chance(40)) all.push_back(Tensor::apply("neg", {x_}));
    if (random_.chance(50)) std::swap(all.front(), all.back());
    x_ = concat(all, axis);
  }
  void shift() {
    std::vector<std::int64_t> low(3, 0), high(3, 0);
    for (std::size_t axis = is_static(1) ? 1 : 2; axis < 3; ++axis)
      low[axis] = number({0, 1, 2}), high[axis] = number({0, 1, 3, -1});
    if (channels() < 3 || (is_static(1) && size(1).size() < 3)) return;
    x_ = x_.pad(low, high, random_.chance(50) ? 0 : 1.5);
  }

  void reduce() {
    const std::vector<int> axes = *some_axes();
    const bool sums = random_.chance(60);
    const char* const op = sums ? "reduce_sum" : random_.pick(std::vector<const char*>{"reduce_mean", "reduce_sum"});
    Tensor made = x_.reduce(op, axes, true) * 0.125;
    if (random_.chance(30)) keep(made);
    if (random_.chance(40)) keep(x_.reduce("reduce_sum", *some_axes(), false));
    if (random_.chance(20)) keep(Tensor::apply("gt", {x_, Tensor::scalar(dtype_, 0.3)}).any(*some_axes(), false));
    x_ = random_.chance(50) ? x_ - made : x_ * made;
  }
  void normalise() {
    const std::size_t kind = random_.below(5);
    if (kind == 0) x_ = softmax(x_, number({1, 2}));
    if (kind == 1) x_ = layer_norm(x_, -1, {.scale = input(dtype_, {Dim(channels())})});
    if (kind == 2) x_ = rms_norm(x_);
    if (kind == 3) x_ = log_softmax(x_, 2);
    if (kind == 4) x_ = x_ - log_sum_exp(x_, 2, true);
  }
  void accumulate() {
    const int axis = number({1, 2});
    x_ = (x_ * 0.125).cumsum(axis, random_.chance(30), random_.chance(30));
  }
  void scatter() {
    const std::int64_t rows = number({1, 3, 8});
    const Tensor table = input(dtype_, {Dim(rows), size(0), Dim(channels())});
    const Tensor where = index(rows + 1, {size(1)});
    const char* const mode = random_.pick(std::vector<const char*>{"add", "set", "max", "min"});
    x_ = (table.scatter(where, x_.permute({1, 0, 2}), mode) * 0.125).permute({1, 0, 2});
  }
  void convert() {
    const std::vector<DType> all = {DType::i8, DType::u8, DType::i32, DType::i64, DType::i16, DType::f16, DType::bf16};
    const DType to = random_.pick(all);
    const Tensor whole = input(to, x_.shape());
    if (!is_float(to)) {
      const Tensor sums = whole.reduce(random_.pick(std::vector<const char*>{"reduce_sum", "reduce_max"}), {2}, true);
      if (size(2).size() > 0) keep(whole + sums);
    }
    x_ = x_ + (is_float(to) ? whole.cast(dtype_) : whole.cast(DType::i8).cast(dtype_)) * 0.0625;
  }
  void update() {
    const std::int64_t capacity = is_static(1) ? size(1).size() + number({0, 1, 24}) : 128;
    const Tensor cache = input(dtype_, {size(0), Dim(capacity), Dim(channels())});
    const Tensor made = cache.update_rows(starts_of(capacity), x_, 1);
    if (random_.chance(50)) keep(made);
    x_ = made;
  }
  void turn() {
    if (channels() % 2 != 0 || channels() == 0) return;
    const Shape angles = {size(1), Dim(channels() / 2)};
    x_ = rotary(x_, input(dtype_, angles), input(dtype_, angles), {.interleaved = random_.chance(50)}) * 0.5;
  }
  void choose() {
    const Tensor condition =
        random_.chance(50) ? input(DType::boolean, {size(1), Dim(1)})
                           : Tensor::apply("lt", {input(DType::i32, x_.shape()), Tensor::scalar_int(DType::i32, 2)});
    x_ = Tensor::apply("select", {condition, x_, input(dtype_, {Dim(channels())})});
  }
  void resize() {
    if (channels() < 1) return;
    const std::vector<Interpolation> modes = {Interpolation::nearest, Interpolation::linear, Interpolation::cubic};
    x_ = interpolate(x_, {2}, {number({1, 3, 8, 13})}, {.mode = random_.pick(modes)});
  }

  Random random_;
  std::uint64_t seed_;
  DType dtype_ = DType::f32;
  Dim batch_ = 1, positions_ = 1;
  SymbolValues symbols_;
  int inputs_ = 0;
  Tensor x_ = Tensor::scalar(DType::f32, 0);
  std::vector<Tensor> outputs_;
};

}  // namespace

Case random_layers(std::uint64_t seed) { return Network(seed).run(); }

}  // namespace vkfuse::test

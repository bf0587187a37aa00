// Every composite by its name, on random shapes, against loops in double precision that share nothing with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <set>

#include "api/composite_table.hpp"
#include "support/device.hpp"
#include "support/random.hpp"
#include "vkfuse/executable.hpp"

namespace vkfuse::test {
namespace {

using Integers = std::vector<std::int64_t>;

std::int64_t count_of(const Integers& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

/// Numbers that a computation on the host has made, or was given.
struct Array {
  Integers sizes;
  std::vector<double> at;

  explicit Array(Integers of = {}) : sizes(std::move(of)), at(static_cast<std::size_t>(count_of(sizes))) {}
  double& operator()(const Integers& position) { return at[flat(position)]; }
  double operator()(const Integers& position) const { return at[flat(position)]; }
  [[nodiscard]] std::int64_t size(int axis) const {
    return sizes[axis < 0 ? sizes.size() - static_cast<std::size_t>(-axis) : static_cast<std::size_t>(axis)];
  }

 private:
  [[nodiscard]] std::size_t flat(const Integers& position) const {
    std::int64_t result = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) result = result * sizes[i] + position[i];
    return static_cast<std::size_t>(result);
  }
};

/// Every position of a shape, row-major.
void each(const Integers& sizes, const std::function<void(const Integers&)>& call) {
  if (count_of(sizes) == 0) return;
  Integers position(sizes.size());
  for (;;) {
    call(position);
    std::size_t axis = sizes.size();
    while (axis > 0 && ++position[axis - 1] == sizes[axis - 1]) position[--axis] = 0;
    if (axis == 0) return;
  }
}

Array made(const Integers& sizes, const std::function<double(const Integers&)>& element) {
  Array result(sizes);
  each(sizes, [&](const Integers& p) { result(p) = element(p); });
  return result;
}

/// What a position is along an axis.
Integers with(Integers position, std::size_t axis, std::int64_t value) {
  position[axis] = value;
  return position;
}

class Problem {
 public:
  Problem(std::string_view name, std::uint64_t seed) : random(seed_of(seed, name)), name_(name) {}

  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random.below(static_cast<std::size_t>(high - low + 1)));
  }
  Integers draw_sizes(std::size_t least, std::size_t most) {
    Integers sizes(least + random.below(most - least + 1));
    for (std::int64_t& size : sizes) size = draw(1, random.chance(20) ? 33 : 6);
    return sizes;
  }
  Array floats(const Integers& sizes, double low = -3, double high = 3) {
    return add(sizes, DType::f32, [&] { return static_cast<double>(static_cast<float>(random.between(low, high))); });
  }
  Array integers(const Integers& sizes, std::int64_t low, std::int64_t high) {
    return add(sizes, DType::i32, [&] { return static_cast<double>(draw(low, high)); });
  }
  Array bytes(const Integers& sizes, std::int64_t low, std::int64_t high) {
    return add(sizes, DType::u8, [&] { return static_cast<double>(draw(low, high)); });
  }
  /// Floats without a fraction, many of which are equal.
  Array whole(const Integers& sizes, std::int64_t low, std::int64_t high) {
    return add(sizes, DType::f32, [&] { return static_cast<double>(draw(low, high)); });
  }
  Array booleans(const Integers& sizes) {
    return add(sizes, DType::boolean, [&] { return random.chance(70) ? 1.0 : 0.0; });
  }

  /// Runs the composite on the operands as they were drawn, and compares.
  void expect(const Array& wanted, const CompositeAttributes& attributes = {}, double tolerance = 2e-5) {
    const Tensor result = apply_composite(name_, operands_, attributes);
    ASSERT_TRUE(result.valid()) << name_ << ": " << result.error().text();
    CompileOptions options;
    const Executable program = must(compile(device(), {result}, options));
    Inputs inputs;
    for (std::size_t i = 0; i < bytes_.size(); ++i) inputs.emplace(std::to_string(i), HostView(bytes_[i]));
    const Outputs outputs = must(program.run(inputs));
    const HostTensor& got = outputs.at("y");
    ASSERT_EQ(got.sizes, wanted.sizes) << name_;
    for (std::size_t i = 0; i < wanted.at.size(); ++i) {
      const double element = ir::decode(got.dtype, got.bytes.data() + i * static_cast<std::size_t>(size_of(got.dtype)));
      if (std::isinf(wanted.at[i]) || std::isnan(wanted.at[i])) {
        ASSERT_EQ(std::fpclassify(element), std::fpclassify(wanted.at[i])) << name_ << ", element " << i;
        continue;
      }
      ASSERT_NEAR(element, wanted.at[i], tolerance * (1 + std::abs(wanted.at[i]))) << name_ << ", element " << i;
    }
    kernels = program.kernel_count();
  }

  Random random;
  void expect_one_kernel() const { expect_kernels(1, 1); }
  /// A device with the least that Vulkan has (VKFUSE_TEST_LIMITS) may have too few buffers for so few kernels.
  void expect_kernels(int least, int most) const {
    if (std::getenv("VKFUSE_TEST_LIMITS") != nullptr) return;
    EXPECT_GE(kernels, least);
    EXPECT_LE(kernels, most);
  }

  int kernels = 0;

 private:
  Array add(const Integers& sizes, DType dtype, const std::function<double()>& next) {
    Array array(sizes);
    std::vector<std::byte> bytes;
    for (double& element : array.at) {
      element = next();
      ir::encode(dtype, element, bytes);
    }
    const std::string name = std::to_string(operands_.size());
    operands_.push_back(Tensor::input(name, dtype, Shape(sizes.begin(), sizes.end())));
    bytes_.push_back(std::move(bytes));
    return array;
  }

  std::string_view name_;
  std::vector<Tensor> operands_;
  std::vector<std::vector<std::byte>> bytes_;
};

using Check = std::function<void(Problem&)>;

Check of_elements(double (*function)(double), CompositeAttributes attributes = {}) {
  return [=](Problem& p) {
    const Array x = p.floats(p.draw_sizes(1, 4), -6, 6);
    p.expect(made(x.sizes, [&](const Integers& at) { return function(x(at)); }), attributes);
    p.expect_one_kernel();
  };
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// What is made of the elements along one axis, at one of its positions.
Check along_axis(double (*function)(const std::vector<double>& all, double one)) {
  return [=](Problem& p) {
    const Array x = p.floats(p.draw_sizes(1, 4));
    const auto axis = static_cast<std::size_t>(p.draw(0, static_cast<std::int64_t>(x.sizes.size()) - 1));
    const Array wanted = made(x.sizes, [&](const Integers& at) {
      std::vector<double> all;
      for (std::int64_t i = 0; i < x.sizes[axis]; ++i) all.push_back(x(with(at, axis, i)));
      return function(all, x(at));
    });
    p.expect(wanted, {{"axis", static_cast<std::int64_t>(axis)}});
    p.expect_one_kernel();
  };
}

double sum_of_exp(const std::vector<double>& all) {
  double sum = 0;
  for (const double x : all) sum += std::exp(x);
  return sum;
}

void check_log_sum_exp(Problem& p) {
  const Array x = p.floats(p.draw_sizes(1, 3));
  Integers sizes = x.sizes;
  sizes.pop_back();
  p.expect(made(sizes, [&](const Integers& at) {
    double sum = 0;
    Integers inside = at;
    inside.push_back(0);
    for (; inside.back() < x.size(-1); ++inside.back()) sum += std::exp(x(inside));
    return std::log(sum);
  }));
  p.expect_one_kernel();
}

// --- norms ---

struct Normal {
  double mean = 0, variance = 0;
};
Normal normal_of(const std::vector<double>& all) {
  Normal result;
  for (const double x : all) result.mean += x / static_cast<double>(all.size());
  for (const double x : all) result.variance += (x - result.mean) * (x - result.mean) / static_cast<double>(all.size());
  return result;
}

/// A norm in which positions of one key go together, with a scale and bias found by `number`.
Array normalised(const Array& x, const std::function<Integers(const Integers&)>& key, bool centred,
                 const std::function<double(const Integers&, double)>& affine) {
  std::map<Integers, std::vector<double>> groups;
  each(x.sizes, [&](const Integers& at) { groups[key(at)].push_back(x(at)); });
  return made(x.sizes, [&](const Integers& at) {
    const std::vector<double>& all = groups.at(key(at));
    const Normal normal = normal_of(all);
    double squares = 0;
    for (const double one : all) squares += one * one / static_cast<double>(all.size());
    return affine(
        at, centred ? (x(at) - normal.mean) / std::sqrt(normal.variance + 1e-5) : x(at) / std::sqrt(squares + 1e-5));
  });
}

Check norm_of_rows(bool centred) {
  return [=](Problem& p) {
    const Array x = p.floats(p.draw_sizes(1, 4));
    const auto axis = static_cast<std::size_t>(p.draw(0, static_cast<std::int64_t>(x.sizes.size()) - 1));
    const bool has_scale = p.random.chance(70), has_bias = has_scale && p.random.chance(60);
    const Integers inner(x.sizes.begin() + static_cast<int>(axis), x.sizes.end());
    const Array scale = has_scale ? p.floats(inner) : Array(inner), bias = has_bias ? p.floats(inner) : Array(inner);
    const auto row = [&](const Integers& at) { return Integers(at.begin(), at.begin() + static_cast<int>(axis)); };
    p.expect(normalised(x, row, centred,
                        [&](const Integers& at, double value) {
                          const Integers inside(at.begin() + static_cast<int>(axis), at.end());
                          return value * (has_scale ? scale(inside) : 1) + (has_bias ? bias(inside) : 0);
                        }),
             {{"axis", static_cast<std::int64_t>(axis)}}, 1e-4);
    p.expect_one_kernel();
  };
}

/// [batch, channels, any...], each channel with a scale and bias.
Array norm_of_channels(Problem& p, const Array& x, std::int64_t each_group) {
  const Array scale = p.floats({x.size(1)}), bias = p.floats({x.size(1)});
  return normalised(
      x,
      [&](const Integers& at) {
        return Integers{at[0], at[1] / each_group};
      },
      true, [&](const Integers& at, double value) { return value * scale({at[1]}) + bias({at[1]}); });
}

void check_group_norm(Problem& p) {
  const std::int64_t groups = p.draw(1, 4), each_group = p.draw(1, 3);
  Integers sizes = p.draw_sizes(2, 4);
  sizes[1] = groups * each_group;
  const Array x = p.floats(sizes);
  const Array wanted = norm_of_channels(p, x, each_group);
  p.expect(wanted, {{"groups", groups}}, 1e-4);
  p.expect_one_kernel();
}

void check_instance_norm(Problem& p) {
  const Array x = p.floats(p.draw_sizes(3, 5));
  const Array wanted = norm_of_channels(p, x, 1);
  p.expect(wanted, {}, 1e-4);
  p.expect_one_kernel();
}

void check_batch_norm(Problem& p) {
  const Array x = p.floats(p.draw_sizes(2, 4));
  const Array mean = p.floats({x.size(1)}), variance = p.floats({x.size(1)}, 0.25, 4);
  const Array scale = p.floats({x.size(1)}), bias = p.floats({x.size(1)});
  p.expect(made(x.sizes,
                [&](const Integers& at) {
                  const Integers c{at[1]};
                  return (x(at) - mean(c)) / std::sqrt(variance(c) + 0.25) * scale(c) + bias(c);
                }),
           {{"epsilon", 0.25}});
  p.expect_one_kernel();
}

// --- layers ---

void check_linear(Problem& p) {
  Integers sizes = p.draw_sizes(1, 3);
  const std::int64_t out = p.draw(1, 9);
  const Array x = p.floats(sizes), w = p.floats({x.size(-1), out}), bias = p.floats({out});
  sizes.back() = out;
  p.expect(made(sizes, [&](const Integers& at) {
    double sum = bias({at.back()});
    Integers from = at;
    for (std::int64_t k = 0; k < x.size(-1); ++k) {
      from.back() = k;
      sum += x(from) * w({k, at.back()});
    }
    return sum;
  }));
}

/// What a window over one spatial axis is.
struct Axis {
  std::int64_t size = 1, stride = 1, low = 0, high = 0, dilation = 1;
  [[nodiscard]] std::int64_t extent() const { return (size - 1) * dilation + 1; }
  [[nodiscard]] std::int64_t windows(std::int64_t input) const { return (input + low + high - extent()) / stride + 1; }
  [[nodiscard]] std::int64_t at(std::int64_t window, std::int64_t tap) const {
    return window * stride + tap * dilation - low;
  }
};

Axis draw_axis(Problem& p) {
  Axis axis{p.draw(1, 3), p.draw(1, 3), 0, 0, p.draw(1, 2)};
  axis.low = p.draw(0, axis.size - 1);
  axis.high = p.draw(0, axis.size - 1);
  return axis;
}

CompositeAttributes attributes_of(const Axis& a, const Axis& b) {
  return {{"strides", Integers{a.stride, b.stride}},
          {"low", Integers{a.low, b.low}},
          {"high", Integers{a.high, b.high}},
          {"dilations", Integers{a.dilation, b.dilation}}};
}

bool is_inside(const Array& x, std::int64_t i, std::int64_t j) {
  return i >= 0 && i < x.size(2) && j >= 0 && j < x.size(3);
}

Integers draw_image(Problem& p, std::int64_t channels) {
  return {p.draw(1, 2), channels, p.draw(6, 12), p.draw(6, 12)};
}

void check_conv(Problem& p) {
  const std::int64_t groups = p.draw(1, 3), in = p.draw(1, 3), out = p.draw(1, 3);
  const Axis a = draw_axis(p), b = draw_axis(p);
  const Array x = p.floats(draw_image(p, groups * in)), w = p.floats({groups * out, in, a.size, b.size}),
              bias = p.floats({groups * out});
  CompositeAttributes attributes = attributes_of(a, b);
  attributes.emplace("groups", groups);
  const Array wanted =
      made({x.size(0), groups * out, a.windows(x.size(2)), b.windows(x.size(3))}, [&](const Integers& at) {
        double sum = bias({at[1]});
        each({in, a.size, b.size}, [&](const Integers& tap) {
          const std::int64_t i = a.at(at[2], tap[1]), j = b.at(at[3], tap[2]);
          if (is_inside(x, i, j))
            sum += x({at[0], at[1] / out * in + tap[0], i, j}) * w({at[1], tap[0], tap[1], tap[2]});
        });
        return sum;
      });
  p.expect(wanted, attributes, 1e-4);
}

void check_conv_transpose(Problem& p) {
  const std::int64_t groups = p.draw(1, 2), in = p.draw(1, 3), out = p.draw(1, 3);
  Axis a = draw_axis(p), b = draw_axis(p);
  const Array x = p.floats({p.draw(1, 2), groups * in, p.draw(2, 6), p.draw(2, 6)}),
              w = p.floats({groups * in, out, a.size, b.size}), bias = p.floats({groups * out});
  CompositeAttributes attributes = attributes_of(a, b);
  attributes.emplace("groups", groups);
  const auto length = [](const Axis& axis, std::int64_t input) {
    return (input - 1) * axis.stride + axis.extent() - axis.low - axis.high;
  };
  Array wanted({x.size(0), groups * out, length(a, x.size(2)), length(b, x.size(3))});
  if (wanted.size(2) < 1 || wanted.size(3) < 1) return;  // everything is cut
  each(wanted.sizes, [&](const Integers& at) { wanted(at) = bias({at[1]}); });
  each(x.sizes, [&](const Integers& from) {  // each element is spread over a window
    each({out, a.size, b.size}, [&](const Integers& tap) {
      const std::int64_t i = a.at(from[2], tap[1]), j = b.at(from[3], tap[2]);
      if (is_inside(wanted, i, j))
        wanted({from[0], from[1] / in * out + tap[0], i, j}) += x(from) * w({from[1], tap[0], tap[1], tap[2]});
    });
  });
  p.expect(wanted, attributes, 1e-4);
}

enum class Pool { largest, position, mean };

Check pool(Pool kind) {
  return [=](Problem& p) {
    const Axis a = draw_axis(p), b = draw_axis(p);
    const Array x = p.floats(draw_image(p, p.draw(1, 3)));
    CompositeAttributes attributes = attributes_of(a, b);
    attributes.emplace("sizes", Integers{a.size, b.size});
    const bool counts_padding = kind == Pool::mean && p.random.chance(50);
    if (counts_padding) attributes.emplace("count_padding", std::int64_t{1});
    const Array wanted =
        made({x.size(0), x.size(1), a.windows(x.size(2)), b.windows(x.size(3))}, [&](const Integers& at) {
          double largest = -INFINITY, sum = 0, count = 0, position = 0;
          each({a.size, b.size}, [&](const Integers& tap) {
            const std::int64_t i = a.at(at[2], tap[0]), j = b.at(at[3], tap[1]);
            count += counts_padding || is_inside(x, i, j) ? 1 : 0;
            if (!is_inside(x, i, j)) return;
            const double one = x({at[0], at[1], i, j});
            sum += one;
            if (one > largest)
              position = static_cast<double>(((at[0] * x.size(1) + at[1]) * x.size(2) + i) * x.size(3) + j);
            largest = std::max(largest, one);
          });
          return kind == Pool::largest ? largest : kind == Pool::position ? position : sum / std::max(count, 1.0);
        });
    p.expect(wanted, attributes);
  };
}

double cubic_weight(double distance) {
  const double d = std::abs(distance), a = -0.75;
  return d <= 1 ? (a + 2) * d * d * d - (a + 3) * d * d + 1 : d < 2 ? a * (d * d * d - 5 * d * d + 8 * d - 4) : 0;
}

void check_interpolate(Problem& p) {
  const Array x = p.floats({p.draw(1, 3), p.draw(2, 9), p.draw(1, 4)});
  const std::int64_t input = x.size(1), output = p.draw(1, 20);
  const std::string mode = p.random.pick(std::vector<std::string>{"nearest", "linear", "cubic"});
  const bool corners = output > 1 && p.random.chance(40);
  const double scale = static_cast<double>(output) / static_cast<double>(input);
  const Array wanted = made({x.size(0), output, x.size(2)}, [&](const Integers& at) {
    const auto o = static_cast<double>(at[1]);
    const double place =
        corners ? o * static_cast<double>(input - 1) / static_cast<double>(output - 1) : (o + 0.5) / scale - 0.5;
    const auto element = [&](double i) {
      return x({at[0], std::clamp<std::int64_t>(static_cast<std::int64_t>(i), 0, input - 1), at[2]});
    };
    if (mode == "nearest") return element(std::clamp(std::ceil(place - 0.5), 0.0, static_cast<double>(input - 1)));
    const double first = std::floor(place), clamped = std::clamp(place, 0.0, static_cast<double>(input - 1));
    if (mode == "linear") {
      const double low = std::floor(clamped);
      return element(low) * (low + 1 - clamped) + element(low + 1) * (clamped - low);
    }
    double sum = 0;
    for (int i = -1; i <= 2; ++i) sum += element(first + i) * cubic_weight(place - first - i);
    return sum;
  });
  p.expect(wanted, {{"axes", Integers{1}},
                    {"sizes", Integers{output}},
                    {"mode", mode},
                    {"coordinates", std::string(corners ? "align_corners" : "half_pixel")}});
  p.expect_kernels(0, 1);  // none where nothing changes
}

void check_rotary(Problem& p) {
  const std::int64_t size = 2 * p.draw(1, 6), turned = p.random.chance(50) ? size : 2 * p.draw(1, size / 2);
  const Integers sizes{p.draw(1, 2), p.draw(1, 3), p.draw(1, 5), size};
  const Array x = p.floats(sizes), c = p.floats({sizes[2], turned / 2}), s = p.floats({sizes[2], turned / 2});
  const bool interleaved = p.random.chance(50);
  const Array wanted = made(sizes, [&](const Integers& at) {
    if (at[3] >= turned) return x(at);
    const std::int64_t pair = interleaved ? at[3] / 2 : at[3] % (turned / 2);
    const bool is_first = interleaved ? at[3] % 2 == 0 : at[3] < turned / 2;
    const double a = x(with(at, 3, interleaved ? 2 * pair : pair)),
                 b = x(with(at, 3, interleaved ? 2 * pair + 1 : pair + turned / 2));
    return is_first ? a * c({at[2], pair}) - b * s({at[2], pair}) : a * s({at[2], pair}) + b * c({at[2], pair});
  });
  p.expect(wanted, {{"size", turned}, {"interleaved", std::int64_t{interleaved ? 1 : 0}}});
}

/// Grouped heads, a mask of either kind, causal or not.
Check attention_as(bool as_sums) {
  return [=](Problem& p) {
    const std::int64_t batch = p.draw(1, 2), key_heads = p.draw(1, 2), group = p.draw(1, 3), queries = p.draw(1, 6),
                       keys = p.draw(queries, 9), size = p.draw(1, 8), width = p.draw(1, 5);
    const Array q = p.floats({batch, key_heads * group, queries, size}), k = p.floats({batch, key_heads, keys, size});
    const Array v = as_sums ? Array() : p.floats({batch, key_heads, keys, width});
    const std::size_t masked = p.random.below(3);
    const Array mask = masked == 1   ? p.booleans({queries, keys})
                       : masked == 2 ? p.floats({queries, keys})
                                     : Array({queries, keys});
    const bool causal = p.random.chance(50);
    const std::int64_t first = causal ? keys - queries : 0;
    const auto weight = [&](const Integers& at, std::int64_t key) {
      double score = 0;
      for (std::int64_t i = 0; i < size; ++i)
        score += q({at[0], at[1], at[2], i}) * k({at[0], at[1] / group, key, i}) / std::sqrt(static_cast<double>(size));
      if (masked == 2) score += mask({at[2], key});
      const bool hidden = (masked == 1 && mask({at[2], key}) == 0) || (causal && key > at[2] + first);
      return hidden ? 0.0 : std::exp(score);
    };
    Integers sizes{batch, key_heads * group, queries};
    if (!as_sums) sizes.push_back(width);
    const Array wanted = made(sizes, [&](const Integers& at) {
      double sum = 0, result = 0;
      for (std::int64_t key = 0; key < keys; ++key) {
        sum += weight(at, key);
        if (!as_sums) result += weight(at, key) * v({at[0], at[1] / group, key, at[3]});
      }
      return as_sums ? std::log(sum) : result / sum;
    });
    p.expect(wanted, {{"causal", std::int64_t{causal ? 1 : 0}}, {"first_query", first}}, 1e-4);
    p.expect_kernels(0, as_sums ? 2 : 3);
  };
}

void check_cross_entropy(Problem& p) {
  const std::int64_t rows = p.draw(1, 9), classes = p.draw(1, 40);
  const Array x = p.floats({rows, classes}), labels = p.integers({rows}, 0, classes - 1);
  p.expect(made({rows}, [&](const Integers& at) {
    std::vector<double> all;
    for (std::int64_t c = 0; c < classes; ++c) all.push_back(x({at[0], c}));
    return std::log(sum_of_exp(all)) - x({at[0], static_cast<std::int64_t>(labels(at))});
  }));
  p.expect_one_kernel();
}

// --- positions ---

void check_embedding(Problem& p) {
  const Array table = p.floats({p.draw(1, 20), p.draw(1, 9)});
  const Array indices = p.integers(p.draw_sizes(1, 2), 0, table.size(0) - 1);
  Integers sizes = indices.sizes;
  sizes.push_back(table.size(1));
  p.expect(made(sizes, [&](const Integers& at) {
    const Integers index(at.begin(), at.end() - 1);
    return table({static_cast<std::int64_t>(indices(index)), at.back()});
  }));
}

void check_one_hot(Problem& p) {
  const std::int64_t depth = p.draw(1, 9);
  const Array indices = p.integers(p.draw_sizes(1, 3), -depth - 2, depth + 1), on = p.floats({}), off = p.floats({});
  const auto axis = static_cast<std::size_t>(p.draw(0, static_cast<std::int64_t>(indices.sizes.size())));
  Integers sizes = indices.sizes;
  sizes.insert(sizes.begin() + static_cast<int>(axis), depth);
  const Array wanted = made(sizes, [&](const Integers& at) {
    Integers index = at;
    index.erase(index.begin() + static_cast<int>(axis));
    const auto stated = static_cast<std::int64_t>(indices(index));
    return (stated < 0 ? stated + depth : stated) == at[axis] ? on({}) : off({});
  });
  p.expect(wanted, {{"depth", depth}, {"axis", static_cast<std::int64_t>(axis)}});
  p.expect_one_kernel();
}

void check_scatter_along(Problem& p) {
  const Array x = p.floats(p.draw_sizes(1, 3));
  const auto axis = static_cast<std::size_t>(p.draw(0, static_cast<std::int64_t>(x.sizes.size()) - 1));
  Integers sizes = x.sizes;
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = p.draw(1, i == axis ? 2 * sizes[i] : sizes[i]);
  const std::int64_t length = x.sizes[axis];
  const Array indices = p.integers(sizes, -length - 2, length + 1), updates = p.floats(sizes);
  const std::string mode = p.random.pick(std::vector<std::string>{"set", "add", "mul", "max", "min"});
  Array wanted = x;
  each(sizes, [&](const Integers& at) {
    auto index = static_cast<std::int64_t>(indices(at));
    if (index < 0) index += length;
    if (index < 0 || index >= length) return;
    double& element = wanted(with(at, axis, index));
    const double update = updates(at);
    element = mode == "set"   ? update
              : mode == "add" ? element + update
              : mode == "mul" ? element * update
              : mode == "max" ? std::max(element, update)
                              : std::min(element, update);
  });
  p.expect(wanted, {{"axis", static_cast<std::int64_t>(axis)}, {"mode", mode}}, 1e-4);
}

/// Grouped heads from any start on, in parts or not, with a window or not.
void check_cached_attention(Problem& p) {
  const std::int64_t batch = p.draw(1, 3), key_heads = p.draw(1, 2), group = p.draw(1, 3), queries = p.draw(1, 4),
                     part = p.draw(2, 9), capacity = part * p.draw(1, 4) + (queries > part ? 2 * part : 0),
                     size = p.draw(1, 8), width = p.draw(1, 5), window = p.random.chance(50) ? 0 : p.draw(1, capacity);
  const Array q = p.floats({batch, key_heads * group, queries, size}), k = p.floats({batch, key_heads, capacity, size}),
              v = p.floats({batch, key_heads, capacity, width});
  const Array starts = p.integers({batch}, -1, capacity - queries);
  const bool causal = p.random.chance(70);
  const Array wanted = made({batch, key_heads * group, queries, width}, [&](const Integers& at) {
    const std::int64_t start = std::max<std::int64_t>(static_cast<std::int64_t>(starts({at[0]})), 0),
                       own = start + at[2];
    const std::int64_t last = causal ? own : start + queries - 1;
    double sum = 0, result = 0;
    for (std::int64_t key = window > 0 ? std::max<std::int64_t>(0, own - window + 1) : 0; key <= last; ++key) {
      double score = 0;
      for (std::int64_t i = 0; i < size; ++i)
        score += q({at[0], at[1], at[2], i}) * k({at[0], at[1] / group, key, i}) / std::sqrt(static_cast<double>(size));
      const double weight = std::exp(3 * std::tanh(score / 3));
      sum += weight;
      result += weight * v({at[0], at[1] / group, key, at[3]});
    }
    return result / sum;
  });
  p.expect(wanted,
           {{"softcap", 3.0},
            {"causal", std::int64_t{causal ? 1 : 0}},
            {"window", window},
            {"part", p.random.chance(70) ? part : std::int64_t{0}}},
           1e-4);
  p.expect_kernels(1, 4);
}

/// Pages that are handed out in any order, some of which there are not.
Array draw_table(Problem& p, std::int64_t batch, std::int64_t pages, std::int64_t all, bool whole) {
  return p.integers({batch, pages}, whole ? 0 : -2, all - 1);
}

void check_page_rows(Problem& p) {
  const std::int64_t batch = p.draw(1, 4), pages = p.draw(1, 6), page = p.draw(1, 9), count = p.draw(1, 12);
  const Array table = draw_table(p, batch, pages, 20, false);
  const Array starts = p.integers({batch}, -2, pages * page + 3);
  p.expect(made({batch, count},
                [&](const Integers& at) {
                  const auto position = std::max<std::int64_t>(static_cast<std::int64_t>(starts({at[0]})), 0) + at[1];
                  if (position >= pages * page) return -1.0;
                  const double entry = table({at[0], position / page});
                  return entry < 0 ? -1.0 : entry * static_cast<double>(page) + static_cast<double>(position % page);
                }),
           {{"count", count}, {"page", page}});
}

/// As in caches of each sequence that are gathered first.
void check_paged_attention(Problem& p) {
  const std::int64_t batch = p.draw(1, 3), key_heads = p.draw(1, 2), group = p.draw(1, 3), page = p.draw(1, 8),
                     pages = p.draw(1, 5), capacity = page * pages,
                     queries = p.draw(1, std::min<std::int64_t>(capacity, 3)), all = p.draw(1, 9), size = p.draw(1, 8),
                     width = p.draw(1, 5);
  const Array q = p.floats({batch, key_heads * group, queries, size}), k = p.floats({all * page, key_heads, size}),
              v = p.floats({all * page, key_heads, width});
  const Array table = draw_table(p, batch, pages, all, true), starts = p.integers({batch}, -1, capacity - queries);
  const auto row_of = [&](std::int64_t sequence, std::int64_t key) {
    return static_cast<std::int64_t>(table({sequence, key / page})) * page + key % page;
  };
  const Array wanted = made({batch, key_heads * group, queries, width}, [&](const Integers& at) {
    const std::int64_t last = std::max<std::int64_t>(static_cast<std::int64_t>(starts({at[0]})), 0) + at[2];
    double sum = 0, result = 0;
    for (std::int64_t key = 0; key <= last; ++key) {
      double score = 0;
      for (std::int64_t i = 0; i < size; ++i)
        score += q({at[0], at[1], at[2], i}) * k({row_of(at[0], key), at[1] / group, i}) /
                 std::sqrt(static_cast<double>(size));
      sum += std::exp(score);
      result += std::exp(score) * v({row_of(at[0], key), at[1] / group, at[3]});
    }
    return result / sum;
  });
  p.expect(wanted, {{"page", page}, {"part", p.random.chance(50) && page > 1 ? page : std::int64_t{0}}}, 1e-4);
  p.expect_kernels(1, 4);
}

/// Experts of any balance, also ones that nobody has chosen; more choices than experts, and fewer.
void check_mixture_of_experts(Problem& p) {
  const std::int64_t tokens = p.draw(1, 40), experts = p.draw(1, 9), chosen = p.draw(1, 3), width = p.draw(1, 20),
                     inner = p.draw(1, 17), out = p.draw(1, 20), last = p.draw(0, experts - 1);
  const Array x = p.floats({tokens, width}, -1, 1), choice = p.integers({tokens, chosen}, -1, last),
              shares = p.floats({tokens, chosen}, 0, 1), up = p.floats({experts, width, inner}, -1, 1),
              down = p.floats({experts, inner, out}, -1, 1), gate = p.floats({experts, width, inner}, -1, 1);
  const auto product = [](const Array& w, std::int64_t expert, const std::vector<double>& row) {
    std::vector<double> y(static_cast<std::size_t>(w.size(2)), 0);
    for (std::size_t i = 0; i < row.size(); ++i) {
      for (std::size_t k = 0; k < y.size(); ++k)
        y[k] += row[i] * w({expert, static_cast<std::int64_t>(i), static_cast<std::int64_t>(k)});
    }
    return y;
  };
  Array wanted({tokens, out});
  each({tokens, chosen}, [&](const Integers& at) {
    const auto expert = std::max<std::int64_t>(static_cast<std::int64_t>(choice(at)), 0);
    std::vector<double> row;
    for (std::int64_t i = 0; i < width; ++i) row.push_back(x({at[0], i}));
    std::vector<double> hidden = product(up, expert, row);
    const std::vector<double> gated = product(gate, expert, row);
    for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] *= gated[i] * sigmoid(gated[i]);
    const std::vector<double> y = product(down, expert, hidden);
    for (std::int64_t i = 0; i < out; ++i) wanted({at[0], i}) += shares(at) * y[static_cast<std::size_t>(i)];
  });
  p.expect(wanted, {{"rows", p.random.chance(40) ? p.draw(1, 20) : std::int64_t{0}}}, 1e-4);
}

void check_repetition_penalty(Problem& p) {
  const Array x = p.floats({p.draw(1, 3), p.draw(1, 40)}), seen = p.booleans(x.sizes);
  p.expect(made(x.sizes,
                [&](const Integers& at) { return seen(at) == 0 ? x(at)
                                                 : x(at) > 0   ? x(at) / 1.25
                                                               : x(at) * 1.25; }),
           {{"penalty", 1.25}});
  p.expect_one_kernel();
}

void check_greedy(Problem& p) {
  const Array x = p.whole({p.draw(1, 4), p.draw(1, 60)}, -5, 5);
  p.expect(made({x.sizes[0]}, [&](const Integers& at) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < x.size(1); ++i) best = x({at[0], i}) > x({at[0], best}) ? i : best;
    return static_cast<double>(best);
  }));
  p.expect_one_kernel();
}

/// The number of a float8_e4m3fn: sign, 4 bits of an exponent, 3 of a fraction.
double e4m3_number(int code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  const double size = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return (code & 127) == 127 ? NAN : code < 128 ? size : -size;
}

void check_decode_float(Problem& p) {
  const Array codes = p.bytes(p.draw_sizes(1, 3), 0, 255);
  p.expect(made(codes.sizes, [&](const Integers& at) { return e4m3_number(static_cast<int>(codes(at))); }));
  p.expect_one_kernel();
}

void check_encode_float(Problem& p) {
  const Array x = p.floats(p.draw_sizes(1, 3), -500, 500);
  p.expect(made(x.sizes,
                [&](const Integers& at) {
                  int best = 0;  // of equally near ones the even one
                  for (int code = 0; code < 127; ++code) {
                    const double off = std::abs(e4m3_number(code) - std::abs(x(at)));
                    const double least = std::abs(e4m3_number(best) - std::abs(x(at)));
                    if (off < least || (off == least && code % 2 == 0)) best = code;
                  }
                  return static_cast<double>(std::signbit(x(at)) ? best + 128 : best);
                }),
           {}, 0);
  p.expect_one_kernel();
}

void check_unpack_int4(Problem& p) {
  const Array bytes = p.bytes(p.draw_sizes(1, 3), 0, 255);
  Integers sizes = bytes.sizes;
  sizes.back() *= 2;
  const bool is_signed = p.random.chance(50);
  const Array wanted = made(sizes, [&](const Integers& at) {
    const auto byte = static_cast<int>(bytes(with(at, at.size() - 1, at.back() / 2)));
    const int field = at.back() % 2 == 0 ? byte % 16 : byte / 16;
    return static_cast<double>(is_signed && field >= 8 ? field - 16 : field);
  });
  p.expect(wanted, {{"is_signed", std::int64_t{is_signed}}}, 0);
  p.expect_one_kernel();
}

void check_dequantize(Problem& p) {
  const Array x = p.integers(p.draw_sizes(1, 3), -128, 127);
  const std::int64_t group = p.draw(1, 5);
  const auto axis = static_cast<std::size_t>(p.draw(0, static_cast<std::int64_t>(x.sizes.size()) - 1));
  const Integers groups = with(x.sizes, axis, (x.sizes[axis] - 1) / group + 1);
  const Array scale = p.floats(groups), zero_point = p.integers(groups, -9, 9);
  const Array wanted = made(x.sizes, [&](const Integers& at) {
    const Integers of = with(at, axis, at[axis] / group);
    return (x(at) - zero_point(of)) * scale(of);
  });
  p.expect(wanted, {{"axis", static_cast<std::int64_t>(axis)}, {"group", group}});
  p.expect_one_kernel();
}

const std::map<std::string_view, Check>& checks() {
  static const std::map<std::string_view, Check> by_name = {
      {"gelu",
       [](Problem& p) {
         if (p.random.chance(50)) {
           of_elements([](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); })(p);
         } else {
           const auto by_tanh = [](double x) {
             return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
           };
           of_elements(by_tanh, {{"form", std::string("tanh")}})(p);
         }
       }},
      {"silu", of_elements([](double x) { return x * sigmoid(x); })},
      {"softplus", of_elements([](double x) { return std::log1p(std::exp(x)); })},
      {"mish", of_elements([](double x) { return x * std::tanh(std::log1p(std::exp(x))); })},
      {"hard_sigmoid",
       of_elements([](double x) { return std::clamp(0.3 * x + 0.25, 0.0, 1.0); }, {{"alpha", 0.3}, {"beta", 0.25}})},
      {"hard_swish", of_elements([](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); })},
      {"elu", of_elements([](double x) { return x >= 0 ? x : 1.5 * (std::exp(x) - 1); }, {{"alpha", 1.5}})},
      {"leaky_relu", of_elements([](double x) { return x >= 0 ? x : 0.125 * x; }, {{"slope", 0.125}})},
      {"softmax", along_axis([](const auto& all, double x) { return std::exp(x) / sum_of_exp(all); })},
      {"log_softmax", along_axis([](const auto& all, double x) { return x - std::log(sum_of_exp(all)); })},
      {"log_sum_exp", check_log_sum_exp},
      {"layer_norm", norm_of_rows(true)},
      {"rms_norm", norm_of_rows(false)},
      {"group_norm", check_group_norm},
      {"instance_norm", check_instance_norm},
      {"batch_norm", check_batch_norm},
      {"linear", check_linear},
      {"conv", check_conv},
      {"conv_transpose", check_conv_transpose},
      {"max_pool", pool(Pool::largest)},
      {"max_pool_positions", pool(Pool::position)},
      {"average_pool", pool(Pool::mean)},
      {"interpolate", check_interpolate},
      {"rotary", check_rotary},
      {"attention", attention_as(false)},
      {"attention_log_sum_exp", attention_as(true)},
      {"cross_entropy", check_cross_entropy},
      {"embedding", check_embedding},
      {"one_hot", check_one_hot},
      {"scatter_along", check_scatter_along},
      {"cached_attention", check_cached_attention},
      {"page_rows", check_page_rows},
      {"paged_attention", check_paged_attention},
      {"mixture_of_experts", check_mixture_of_experts},
      {"repetition_penalty", check_repetition_penalty},
      {"greedy", check_greedy},
      {"decode_float", check_decode_float},
      {"encode_float", check_encode_float},
      {"unpack_int4", check_unpack_int4},
      {"dequantize", check_dequantize},
  };
  return by_name;
}

class Composites : public testing::TestWithParam<std::string_view> {};

TEST_P(Composites, AreWhatLoopsCompute) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Problem problem(GetParam(), seed);
    checks().at(GetParam())(problem);
    if (HasFatalFailure()) return;
  }
}

std::vector<std::string_view> checked_names() {
  std::vector<std::string_view> names;
  for (const auto& entry : checks()) names.push_back(entry.first);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, Composites, testing::ValuesIn(checked_names()),
                         [](const auto& one) { return std::string(one.param); });

/// Random numbers have tests of their own, below; samples in generation_test.cpp.
TEST(CompositeTable, HasACheckForEachComposite) {
  const std::set<std::string_view> random = {"random_words", "random_uniform", "random_normal", "dropout", "sample"};
  for (const api::Composite& one : api::composites())
    EXPECT_TRUE(checks().contains(one.name) || random.contains(one.name)) << one.name;
}

/// Slices of a symbolic axis within what is promised of it are there at every size, and a run below it is refused.
TEST(SymbolicSlices, AreWhatTheLeastSizePromises) {
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n", {.min = 5}), 2});
  const Tensor part = x.slice(0, 1, 5, 2), one = x.select(0, 4);
  ASSERT_TRUE(part.valid() && one.valid());
  EXPECT_FALSE(x.slice(0, 1, 6).valid());
  EXPECT_FALSE(x.slice(0, 1, -1).valid());
  EXPECT_FALSE(x.slice(0, -3, 5).valid());
  EXPECT_FALSE(x.select(0, 5).valid());
  const Executable program = must(compile(device(), {part, one}, {}));
  for (const std::int64_t n : {5, 6, 19}) {
    std::vector<float> numbers(static_cast<std::size_t>(2 * n));
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    const Outputs outputs = must(program.run({{"x", HostView(numbers, {n, 2})}}));
    const auto sliced = outputs.at("y").as<float>(), selected = outputs.at("y1").as<float>();
    EXPECT_EQ(std::vector<float>(sliced.begin(), sliced.end()), (std::vector<float>{2, 3, 6, 7}));
    EXPECT_EQ(std::vector<float>(selected.begin(), selected.end()), (std::vector<float>{8, 9}));
  }
  const std::vector<float> few(8);
  EXPECT_FALSE(program.run({{"x", HostView(few, {4, 2})}}).ok());
}

// --- random numbers ---

/// What one program draws of several seeds.
class Draws {
 public:
  Draws(std::string_view name, const Integers& sizes, DType seed_dtype = DType::i64)
      : dtype_(seed_dtype),
        program_(must(compile(
            device(), {apply_composite(name, {Tensor::input("seed", seed_dtype, {1})}, {{"shape", sizes}})}, {}))) {}

  template <typename T>
  std::vector<T> of(std::int64_t seed) const {
    std::vector<std::byte> bytes;
    ir::encode_int(dtype_, seed, bytes);
    const Outputs outputs = must(program_.run({{"seed", HostView(bytes)}}));
    const auto elements = outputs.at("y").as<T>();
    return {elements.begin(), elements.end()};
  }
  [[nodiscard]] int kernels() const { return program_.kernel_count(); }

 private:
  DType dtype_;
  Executable program_;
};

TEST(RandomNumbers, FollowTheSeedOfTheRun) {
  const Draws draws("random_words", {4096});
  EXPECT_EQ(draws.kernels(), 1);
  const auto first = draws.of<std::uint32_t>(7);
  EXPECT_EQ(first, draws.of<std::uint32_t>(7));
  // Seeds that are neighbours, and that differ in the upper half alone, share nothing: of 2^17 bits half are equal,
  // with a deviation of 181.
  for (const std::int64_t other :
       {std::int64_t{8}, std::int64_t{6}, std::int64_t{7} + (std::int64_t{1} << 40), std::int64_t{-7}}) {
    const auto second = draws.of<std::uint32_t>(other);
    int equal_bits = 0;
    for (std::size_t i = 0; i < first.size(); ++i) equal_bits += 32 - std::popcount(first[i] ^ second[i]);
    EXPECT_NEAR(equal_bits, 65536, 1100) << other;
  }
  EXPECT_NE(Draws("random_words", {64}, DType::u8).of<std::uint32_t>(1),
            Draws("random_words", {64}, DType::u8).of<std::uint32_t>(2));
}

TEST(RandomNumbers, AreSpreadAsTheySay) {
  const Draws uniform("random_uniform", {1 << 15}), normal("random_normal", {1 << 15});
  for (const std::int64_t seed : {0, 1, 123456789}) {
    const auto numbers = uniform.of<float>(seed);
    std::vector<int> bins(16);
    for (const float x : numbers) {
      ASSERT_TRUE(x >= 0 && x < 1) << x;
      ++bins[static_cast<std::size_t>(x * 16)];
    }
    for (const int bin : bins) EXPECT_NEAR(bin, 2048, 250);  // 5.7 deviations
    const auto normals = normal.of<float>(seed);
    double mean = 0, square = 0, within = 0;
    for (const float x : normals) {
      mean += x / 32768.0;
      square += static_cast<double>(x) * x / 32768.0;
      within += std::abs(x) < 1 ? 1 / 32768.0 : 0;
    }
    EXPECT_NEAR(mean, 0, 0.03);
    EXPECT_NEAR(square, 1, 0.05);
    EXPECT_NEAR(within, 0.6827, 0.015);
  }
}

TEST(RandomNumbers, DropWithTheSeedOfTheRun) {
  const Tensor x = Tensor::input("x", DType::f32, {1 << 14});
  const Tensor dropped = apply_composite("dropout", {x, Tensor::input("seed", DType::i32, {})}, {{"keep", 0.75}});
  const Executable program = must(compile(device(), {dropped}, {}));
  EXPECT_EQ(program.kernel_count(), 1);
  const std::vector<float> ones(1 << 14, 3.0F);
  std::vector<std::vector<float>> results;
  for (const std::int32_t seed : {1, 2, 1}) {
    const std::vector<std::int32_t> seeds = {seed};
    const Outputs outputs = must(program.run({{"x", HostView(ones)}, {"seed", HostView(seeds)}}));
    const auto elements = outputs.at("y").as<float>();
    results.emplace_back(elements.begin(), elements.end());
    const auto kept = std::ranges::count(results.back(), 4.0F), lost = std::ranges::count(results.back(), 0.0F);
    EXPECT_EQ(kept + lost, 1 << 14);
    EXPECT_NEAR(static_cast<double>(kept), 0.75 * (1 << 14), 300);
  }
  EXPECT_NE(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace vkfuse::test

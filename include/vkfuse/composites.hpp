// What networks are made of, written with the primitives: no op of the graph knows these names, and kernels are found
// by structure. softmax, normalize, cross_entropy and others are in tensor.hpp; products, convolutions and attention in
// contractions.hpp. docs/composites.md lists those that go by a name, for C and for hosts.
//
// Wrong operands make an invalid tensor, as everywhere: its error names what was given.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "vkfuse/contractions.hpp"
#include "vkfuse/tensor.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

// Activations, of floats. No intermediate overflows where the result does not.

enum class GeluForm : std::uint8_t {
  erf,   ///< x/2 * (1 + erf(x / sqrt(2)))
  tanh,  ///< x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))): Hendrycks and Gimpel, 2016
};
Tensor gelu(const Tensor& x, GeluForm form = GeluForm::erf);
/// log(1 + exp(x)).
Tensor softplus(const Tensor& x);
/// x * tanh(softplus(x)).
Tensor mish(const Tensor& x);
/// min(1, max(0, alpha x + beta)).
Tensor hard_sigmoid(const Tensor& x, double alpha = 0.2, double beta = 0.5);
/// x * hard_sigmoid(x, 1/6, 1/2).
Tensor hard_swish(const Tensor& x);
/// x where it is not negative, else alpha * (exp(x) - 1).
Tensor elu(const Tensor& x, double alpha = 1);
/// x where it is not negative, else slope * x.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);

// Norms. Scale and bias are multiplied and added in x's dtype.

/// Over some axes, which stay as 1. The variance is that of the deviations: the difference of the squares' mean and the
/// mean's square would cancel where the mean is large.
struct Moments {
  Tensor mean, deviation, variance;
};
Moments moments(const Tensor& x, const std::vector<int>& axes);

struct NormOptions {
  double epsilon = 1e-5;  ///< added to the variance
  std::optional<Tensor> scale, bias;
  std::optional<DType> statistics;  ///< what is computed in this dtype; absent: f32, and f64 for f64
};

/// A tensor normalised, and what by.
struct LayerNorm {
  Tensor result, mean, inverse_deviation;
};
/// (x - mean) / sqrt(variance + epsilon) over the axes from `axis` on, which stay as 1 in the statistics. Scale and
/// bias broadcast to x.
LayerNorm layer_norm_and_statistics(const Tensor& x, int axis = -1, const NormOptions& options = {});
Tensor layer_norm(const Tensor& x, int axis = -1, const NormOptions& options = {});
/// x / sqrt(mean(x^2) + epsilon) over the axes from `axis` on: Zhang and Sennrich, 2019.
Tensor rms_norm(const Tensor& x, int axis = -1, const NormOptions& options = {});
/// x [batch, channels, any...] normalised over each of `groups` groups of channels, which divide them; scale and bias
/// are [channels].
Tensor group_norm(const Tensor& x, std::int64_t groups, const NormOptions& options = {});
/// x [batch, channels, any...] normalised over what follows the channels; scale and bias are [channels].
Tensor instance_norm(const Tensor& x, const NormOptions& options = {});
/// (x - mean) / sqrt(variance + epsilon) * scale + bias with one number of each for every channel of x [batch,
/// channels, any...]: inference. Scale and bias may be left out.
Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& variance, const NormOptions& options = {});

// Layers.

/// x [..., in] times w [in, out], and a bias [out].
Tensor linear(const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias = {});
/// Rows of a table [count, any...] at integer indices: [indices..., any...].
Tensor embedding(const Tensor& table, const Tensor& indices);

struct RotaryOptions {
  std::int64_t size = 0;     ///< elements of the last axis that are turned, an even number; 0: all
  bool interleaved = false;  ///< pairs are neighbours, else an element of each half
};
/// Turns pairs of elements of the last axis of x by angles whose cosine and sine broadcast to [..., size / 2]: Su et
/// al., 2021.
Tensor rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine, const RotaryOptions& options = {});

/// log(sum(exp(x))) along an axis; -infinity where all are.
Tensor log_sum_exp(const Tensor& x, int axis = -1, bool keep_dims = false);

/// attention, and the logarithm of what its softmax divides by [batch, heads, queries], by which results over parts of
/// the keys are put together: Dao et al., 2022. Without attention sinks.
struct AttentionParts {
  Tensor result, log_sum_exp;
};
AttentionParts attention_and_log_sum_exp(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const AttentionOptions& options = {});

// Pooling of x [batch, channels, spatial...]. Spatial sizes are numbers.

struct PoolOptions {
  std::vector<std::int64_t> sizes;                 ///< of a window, one number for each spatial axis
  std::vector<std::int64_t> strides;               ///< 1 where empty
  std::vector<std::int64_t> low, high, dilations;  ///< padding before and after; distance of neighbours in a window
  bool round_up = false;       ///< the last window may hang over what `high` pads, if it starts before it
  bool count_padding = false;  ///< averages count what is padded
  bool column_major = false;   ///< of MaxPool::positions: the last spatial axis has the largest strides
};
/// The largest elements, and where the first of each window is, as i64: counted through x, row-major.
struct MaxPool {
  Tensor result, positions;
};
MaxPool max_pool_and_positions(const Tensor& x, const PoolOptions& options);
Tensor max_pool(const Tensor& x, const PoolOptions& options);
/// Sums in f32 (f64 for f64), rounded to x's dtype.
Tensor average_pool(const Tensor& x, const PoolOptions& options);

// Interpolation.

enum class Interpolation : std::uint8_t { nearest, linear, cubic };
/// Which position p of an axis of `input` elements position x of `output` elements stands for, with scale = output /
/// input: ONNX's Resize.
enum class Coordinates : std::uint8_t {
  half_pixel,            ///< (x + 1/2) / scale - 1/2
  half_pixel_symmetric,  ///< the same, with the middle kept where a stated scale is rounded
  pytorch_half_pixel,    ///< the same, and 0 for a single element
  tf_half_pixel_for_nn,  ///< (x + 1/2) / scale
  align_corners,         ///< x * (input - 1) / (output - 1)
  asymmetric,            ///< x / scale
  tf_crop_and_resize,    ///< of a part of the axis; of ONNX models alone
};
enum class Rounding : std::uint8_t { prefer_floor, prefer_ceil, floor, ceil };

struct InterpolateOptions {
  Interpolation mode = Interpolation::nearest;
  Coordinates coordinates = Coordinates::half_pixel;
  Rounding rounding = Rounding::prefer_floor;  ///< of nearest
  double cubic = -0.75;                        ///< the free coefficient of the cubic kernel: Keys, 1981
  bool exclude_outside = false;                ///< taps outside the axis have no weight, instead of that of its edge
  bool antialias = false;                      ///< kernels are stretched when an axis shrinks
};
/// x with `sizes[i]` elements along axis `axes[i]`, one axis after another. Sizes of these axes are numbers. Linear and
/// cubic sums are in f32 (f64 for f64), rounded to x's dtype.
Tensor interpolate(const Tensor& x, const std::vector<int>& axes, const std::vector<std::int64_t>& sizes,
                   const InterpolateOptions& options = {});

// Positions that are data.

/// `on` where the position along a new axis `axis` of `depth` elements is the index, else `off`; an index below 0
/// counts from the end, and one out of range is nowhere. On and off are one element each, of one dtype.
Tensor one_hot(const Tensor& indices, std::int64_t depth, const Tensor& on, const Tensor& off, int axis = -1);
/// x with updates joined onto the elements whose index along `axis` is `indices`, in the order of the updates: mode is
/// "set", "add", "mul", "max" or "min". Indices and updates have one shape, of x's rank, that fits x on the other axes;
/// an index below 0 counts from the end, and one out of range is left out. All sizes are numbers.
Tensor scatter_along(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis,
                     std::string_view mode = "set");

// Random numbers, of a counter: equal seeds draw equal numbers, on every device. A seed that is a tensor, one integer,
// is an operand: runs with other seeds draw other numbers from one program.

using Seed = std::variant<std::uint64_t, Tensor>;
/// One random u32 word per element; of a number, Tensor::random.
Tensor random_words(const Shape& shape, const Seed& seed);
/// f32 of [0, 1), of 24 bits each.
Tensor random_uniform(const Shape& shape, const Seed& seed);
/// f32 of mean 0 and deviation 1: Box and Muller, 1958.
Tensor random_normal(const Shape& shape, const Seed& seed);
/// dropout of tensor.hpp with such a seed.
Tensor dropout(const Tensor& x, double keep, const Tensor& seed);

// By name.

using CompositeAttribute = std::variant<std::int64_t, double, std::vector<std::int64_t>, std::string>;
using CompositeAttributes = std::map<std::string, CompositeAttribute, std::less<>>;
/// A composite of docs/composites.md. Attributes that are left out have their default; what it does not have, or has of
/// another kind, is an error.
///
///     Tensor y = apply_composite("layer_norm", {x, scale, bias}, {{"epsilon", 1e-6}});
Tensor apply_composite(std::string_view name, std::span<const Tensor> operands,
                       const CompositeAttributes& attributes = {});
Tensor apply_composite(std::string_view name, std::initializer_list<Tensor> operands,
                       const CompositeAttributes& attributes = {});
/// docs/composites.md.
std::string composites_markdown();

}  // namespace VKFUSE_PUBLIC

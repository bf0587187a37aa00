// Sums of products and what is written with them: matrix products, convolutions, attention, and weights that are
// stored as small integers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "vkfuse/tensor.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// Which axes of two tensors go together. Axes count from 0, or from -1 backwards; each pair has one size.
struct DotAxes {
  std::vector<int> contract_a, contract_b;  ///< multiplied and summed over
  std::vector<int> batch_a, batch_b;        ///< kept once: one product for each position
};

/// The sum of a * b over the contracted axes. The result has the batch axes in the order given, then what is left
/// of a, then what is left of b. Both have one dtype; 16-bit floats are added up in f32, integers wrap (cast first
/// to add up in more bits: the cast is part of the load). Nothing to add up gives 0.
///
///     dot_general(a, b, {.contract_a = {2}, .contract_b = {1}, .batch_a = {0}, .batch_b = {0}})  // [n,m,k] [n,k,p]
Tensor dot_general(const Tensor& a, const Tensor& b, const DotAxes& axes);

/// The matrix product by NumPy's rules: [..., m, k] times [..., k, n] is [..., m, n], dimensions before the last two
/// broadcast, and a tensor of one axis is a row on the left, a column on the right, without that axis in the result.
Tensor matmul(const Tensor& a, const Tensor& b);

/// Of a convolution, one number per spatial axis; an empty list stands for the default everywhere.
struct ConvOptions {
  std::vector<std::int64_t> strides;    ///< 1
  std::vector<std::int64_t> low, high;  ///< elements of zeros before and after the axis: 0; negative ones cut
  std::vector<std::int64_t> dilations;  ///< 1: distance of neighbouring taps of the kernel
  std::int64_t groups = 1;              ///< channels in as many independent parts; as many as channels: depthwise
};

/// Cross-correlation of x [batch, channels, spatial...] with w [channels out, channels / groups, kernel...], over any
/// number of spatial axes: [batch, channels out, spatial out...]. Spatial sizes are numbers, not symbols. Padding
/// holds zeros, which are multiplied like any element: a NaN in the kernel shows at the edges too.
Tensor conv(const Tensor& x, const Tensor& w, const ConvOptions& options = {});

/// The transpose of conv as a map: x [batch, channels, spatial...] with w [channels, channels out / groups, kernel...]
/// gives (size - 1) * stride + (kernel - 1) * dilation + 1 - low - high elements along an axis. `low` and `high`
/// cut; a negative `high` appends (what others call output padding).
Tensor conv_transpose(const Tensor& x, const Tensor& w, const ConvOptions& options = {});

struct AttentionOptions {
  /// Scores are multiplied by this; 1 / sqrt(head size) if absent.
  std::optional<double> scale;
  /// Above 0: scores become softcap * tanh(score / softcap), before anything is added to them.
  double softcap = 0;
  /// Added to the scores, in their dtype; broadcasts to [batch, heads, queries, keys].
  std::optional<Tensor> bias;
  /// Booleans that broadcast likewise: keys that are false are left out.
  std::optional<Tensor> mask;
  /// Each head's slope [heads]: slope * (key - query) is added, by position.
  std::optional<Tensor> alibi_slopes;
  /// Leaves out keys behind the query.
  bool causal = false;
  /// Leaves out keys more than this many positions before (after) the query.
  std::optional<std::int64_t> window_before, window_after;
  /// The position of the first query, counted as keys are: the length of a cache before it.
  std::int64_t first_query = 0;
  /// Each head's attention sink [heads]: a score that takes part in the softmax and has no value, so that the weights
  /// of a query add up to less than 1. Zeros give the "smooth softmax". A query that may look at no key then gets
  /// zeros.
  std::optional<Tensor> sink;
  /// Softmax is computed in this dtype; absent: that of q.
  std::optional<DType> softmax_dtype;
};

/// softmax(q k^T * scale + ...) v for q [batch, heads, queries, size], k [batch, key heads, keys, size] and
/// v [batch, key heads, keys, value size]: [batch, heads, queries, value size]. Key heads divide heads; each serves as
/// many neighbouring heads. A query that may look at no key at all gets NaN.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

/// The scores before softmax and after it, [batch, heads, queries, keys], for those who want to see them: the steps of
/// `attention`, which is `attention_output(softmax(attention_scores(q, k, options)), v)`.
Tensor attention_scores(const Tensor& q, const Tensor& k, const AttentionOptions& options = {});
Tensor attention_output(const Tensor& weights, const Tensor& v);

/// How numbers are kept as integers: real = (integer - zero_point) * scale; and as floats of few bits, which
/// float_codes.hpp decodes: real = float * scale.
struct Quantization {
  /// One number; or, with `axis`, [size of the axis]; or, with `group`, of the integers' shape, but with one number
  /// for every `group` neighbours along the axis (the last group may be short).
  Tensor scale;
  /// Integers of the scale's shape; absent: 0. Of integers alone.
  std::optional<Tensor> zero_point;
  int axis = 0;
  std::int64_t group = 0;
};

/// The real numbers, in the dtype of the scale, of integers up to i32 or of floats. Views and arithmetic only: in front
/// of a matmul it is part of the load.
Tensor dequantize(const Tensor& integers, const Quantization& how);

/// u8 [..., n] whose bytes hold two 4-bit integers each, the first in the low bits, as [..., 2n]: u8 of 0 to 15, or,
/// where signed, i8 of -8 to 7.
Tensor unpack_int4(const Tensor& bytes, bool is_signed);

}  // namespace VKFUSE_PUBLIC

// Convolutions and pools: windows of images, with a bias and an activation.
#include <limits>

#include "row_groups.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::bench {

namespace {

Tensor hard_gate(const Tensor& x) {
  return clamp(x + 3.0, Tensor::scalar(x.dtype(), 0), Tensor::scalar(x.dtype(), 6)) * (1.0 / 6);
}

/// A convolution of [batch, channels, height, width], with a bias and an activation.
struct ConvForm {
  std::int64_t taps = 3;
  std::int64_t stride = 1;
  std::int64_t features = 0;   ///< channels that come out; 0: as many as go in
  bool depthwise = false;      ///< and with hard swish in place of ReLU
  bool channels_last = false;  ///< [batch, height, width, channels] is what is read and written
  bool patches = false;        ///< windows side by side, without padding
  bool residual = false;       ///< added before the activation
  bool batch_inside = false;   ///< channels are the outermost axis of what is read and written, as a convolution before
                               ///< this one leaves them
};

Tensor image(DType dtype, const Shape& shape, const ConvForm& form) {
  if (form.batch_inside)
    return Tensor::input("x", dtype, {shape[1], shape[0], shape[2], shape[3]}).permute({1, 0, 2, 3});
  if (form.channels_last)
    return Tensor::input("x", dtype, {shape[0], shape[2], shape[3], shape[1]}).permute({0, 3, 1, 2});
  return Tensor::input("x", dtype, shape);
}

Built conv_of(DType dtype, const Shape& shape, const ConvForm& form) {
  const std::int64_t channels = shape[1].size();
  const std::int64_t features = form.features == 0 ? channels : form.features;
  const std::int64_t around = form.patches ? 0 : form.taps / 2;
  const Tensor w = Tensor::input("w", dtype, {features, form.depthwise ? 1 : channels, form.taps, form.taps});
  const Tensor sum = conv(image(dtype, shape, form), w,
                          {.strides = {form.stride, form.stride},
                           .low = {around, around},
                           .high = {around, around},
                           .groups = form.depthwise ? channels : 1});
  const Tensor biased = sum * 0.0625 + Tensor::input("bias", dtype, {features, 1, 1});
  if (form.residual) {
    const Tensor added = biased + Tensor::input("residual", dtype, biased.shape());
    return framework_ops({relu(added)}, {sum, biased, added});
  }
  const Tensor activated = form.depthwise ? biased * hard_gate(biased) : relu(biased);
  if (form.channels_last) return framework_ops({activated.permute({0, 2, 3, 1})}, {sum, biased});
  return framework_ops({form.batch_inside ? activated.permute({1, 0, 2, 3}) : activated}, {sum, biased});
}

/// Windows of the last two axes as two more axes.
Tensor windows(const Tensor& x, std::int64_t taps, double around) {
  const std::int64_t pad = (taps - 1) / 2;
  return x.pad({0, 0, pad, pad}, {0, 0, pad, pad}, around).unfold(2, taps, 2).unfold(3, taps, 2);
}

/// As between the first two convolutions of a residual network.
Built max_pool_3x3(DType dtype, const Shape& shape) {
  const Tensor x = Tensor::input("x", dtype, shape);
  return framework_ops({windows(x, 3, -std::numeric_limits<double>::infinity()).max({4, 5})});
}

Built max_pool_2x2(DType dtype, const Shape& shape) {
  return framework_ops({windows(Tensor::input("x", dtype, shape), 2, 0).max({4, 5})});
}

Built average_pool_3x3(DType dtype, const Shape& shape) {
  return framework_ops({windows(Tensor::input("x", dtype, shape), 3, 0).mean({4, 5})});
}

Built average_pool_2x2(DType dtype, const Shape& shape) {
  return framework_ops({windows(Tensor::input("x", dtype, shape), 2, 0).mean({4, 5})});
}

struct Convolution {
  const char* name;
  std::vector<std::int64_t> shape;
  ConvForm form;
  DType dtype = DType::f16;
};

const Convolution kConvolutions[] = {
    {"conv 3x3 f16", {64, 128, 56, 56}, {}},
    {"conv 1x1 f16", {64, 128, 56, 56}, {.taps = 1}},
    {"conv depthwise f16", {64, 128, 56, 56}, {.depthwise = true}},
    {"conv 3x3 batch inside f16", {64, 128, 56, 56}, {.batch_inside = true}},
    {"conv 3x3 strided f16", {64, 128, 56, 56}, {.stride = 2}},
    {"conv 7x7 strided f16", {64, 3, 224, 224}, {.taps = 7, .stride = 2, .features = 64}},
    {"conv 1x1 residual f16", {64, 64, 56, 56}, {.taps = 1, .features = 256, .residual = true}},
    {"depthwise 3x3 strided f16", {32, 128, 56, 56}, {.stride = 2, .depthwise = true}},
    {"depthwise 5x5 f16", {32, 128, 56, 56}, {.taps = 5, .depthwise = true}},
    {"depthwise 5x5 strided f16", {32, 128, 56, 56}, {.taps = 5, .stride = 2, .depthwise = true}},
    {"depthwise 7x7 f16", {32, 128, 56, 56}, {.taps = 7, .depthwise = true}},
    {"depthwise 7x7 bf16", {32, 128, 56, 56}, {.taps = 7, .depthwise = true}, DType::bf16},
    {"depthwise 7x7 f32", {32, 128, 56, 56}, {.taps = 7, .depthwise = true}, DType::f32},
    {"depthwise 7x7 small f16", {32, 512, 14, 14}, {.taps = 7, .depthwise = true}},
    {"depthwise 7x7 odd f16", {32, 192, 47, 47}, {.taps = 7, .depthwise = true}},
    {"depthwise 7x7 channels last f16", {32, 128, 56, 56}, {.taps = 7, .depthwise = true, .channels_last = true}},
    {"depthwise 9x9 f16", {32, 128, 56, 56}, {.taps = 9, .depthwise = true}},
    {"stem 3x3 f16", {32, 3, 224, 224}, {.taps = 3, .stride = 2, .features = 48}},
    {"stem 4x4 f16", {32, 3, 224, 224}, {.taps = 4, .stride = 4, .features = 128, .patches = true}},
    {"stem one channel f16", {64, 1, 128, 128}, {.taps = 3, .features = 32}}};

}  // namespace

std::vector<Row> conv_rows() {
  std::vector<Row> all;
  for (const Convolution& one : kConvolutions) {
    const auto build = [form = one.form](DType dtype, const Shape& shape) { return conv_of(dtype, shape, form); };
    all.push_back({one.name, "conv", one.dtype, one.shape, build, {.divide = {0}, .sweep = true}});
  }
  all.push_back({"max pool f16", "conv", DType::f16, {64, 64, 112, 112}, max_pool_3x3, {.divide = {0}}});
  all.push_back({"max pool 2x2 f16", "conv", DType::f16, {64, 64, 112, 112}, max_pool_2x2, {.divide = {0}}});
  all.push_back({"average pool f16", "conv", DType::f16, {64, 64, 112, 112}, average_pool_3x3, {.divide = {0}}});
  all.push_back({"average pool 2x2 f16", "conv", DType::f16, {64, 64, 112, 112}, average_pool_2x2, {.divide = {0}}});
  return all;
}

}  // namespace vkfuse::bench

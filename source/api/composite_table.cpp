// The composites that go by a name: one table for C, for hosts, for the documentation and for tests.
#include <algorithm>

#include "api/composite_table.hpp"
#include "api/composites.hpp"
#include "api/tensor_node.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/experts.hpp"
#include "vkfuse/float_codes.hpp"
#include "vkfuse/generation.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::api {

namespace {

using Operands = std::span<const Tensor>;
using Integers = std::vector<std::int64_t>;

Tensor unnamed(std::string_view composite, std::string_view attribute, const std::string& value,
               std::string_view values) {
  return Tensor::failed(
      invalid("The attribute '{}' of '{}' is '{}'; it must be one of: {}.", attribute, composite, value, values));
}

std::optional<Tensor> optional_at(Operands operands, std::size_t index) {
  return index < operands.size() ? std::optional(operands[index]) : std::nullopt;
}

NormOptions norm_options(Operands operands, const CompositeCall& call, std::size_t first) {
  NormOptions options;
  options.epsilon = call.real("epsilon");
  options.scale = optional_at(operands, first);
  options.bias = optional_at(operands, first + 1);
  return options;
}

PoolOptions pool_options(const CompositeCall& call) {
  return {.sizes = call.integers("sizes"),
          .strides = call.integers("strides"),
          .low = call.integers("low"),
          .high = call.integers("high"),
          .dilations = call.integers("dilations"),
          .round_up = call.flag("round_up")};
}

ConvOptions conv_options(const CompositeCall& call) {
  return {.strides = call.integers("strides"),
          .low = call.integers("low"),
          .high = call.integers("high"),
          .dilations = call.integers("dilations"),
          .groups = call.integer("groups")};
}

/// A bias for each channel of [batch, channels, spatial...].
Tensor with_channel_bias(const Tensor& result, Operands operands, std::size_t index) {
  if (index >= operands.size() || !result.valid()) return result;
  if (!operands[index].valid()) return operands[index];
  if (operands[index].shape() != Shape{result.shape()[1]}) {
    return Tensor::failed(invalid("A bias of a convolution is one number for each of {} channels, but it is {}.",
                                  result.shape()[1].text(), text_of_type(operands[index])));
  }
  Shape shape(result.shape().size() - 1, Dim(1));
  shape[0] = result.shape()[1];
  return result + operands[index].reshape(std::move(shape));
}

/// The operand after the keys and values is a mask of booleans, or is added.
AttentionOptions attention_options(Operands operands, const CompositeCall& call, std::size_t mask) {
  AttentionOptions options;
  if (call.real("scale") != 0) options.scale = call.real("scale");
  options.softcap = call.real("softcap");
  options.causal = call.flag("causal");
  if (call.integer("window_before") >= 0) options.window_before = call.integer("window_before");
  if (call.integer("window_after") >= 0) options.window_after = call.integer("window_after");
  options.first_query = call.integer("first_query");
  if (operands.size() > mask) {
    const bool is_mask = operands[mask].dtype() == DType::boolean;
    (is_mask ? options.mask : options.bias) = operands[mask];
  }
  return options;
}

Tensor made_interpolation(Operands x, const CompositeCall& call) {
  InterpolateOptions options;
  const std::string &mode = call.text("mode"), &coordinates = call.text("coordinates");
  if (mode == "linear") {
    options.mode = Interpolation::linear;
  } else if (mode == "cubic") {
    options.mode = Interpolation::cubic;
  } else if (mode != "nearest") {
    return unnamed("interpolate", "mode", mode, "nearest, linear, cubic");
  }
  if (coordinates == "align_corners") {
    options.coordinates = Coordinates::align_corners;
  } else if (coordinates == "asymmetric") {
    options.coordinates = Coordinates::asymmetric;
  } else if (coordinates != "half_pixel") {
    return unnamed("interpolate", "coordinates", coordinates, "half_pixel, align_corners, asymmetric");
  }
  options.antialias = call.flag("antialias");
  std::vector<int> axes;
  for (const std::int64_t axis : call.integers("axes"))
    axes.push_back(static_cast<int>(std::clamp<std::int64_t>(axis, INT32_MIN, INT32_MAX)));
  return interpolate(x[0], axes, call.integers("sizes"), options);
}

/// The shape of random numbers: the attribute's.
Result<Shape> stated_shape(const CompositeCall& call) {
  Shape shape;
  for (const std::int64_t size : call.integers("shape")) {
    if (size < 0) return invalid("A tensor of random numbers has a size of {}; sizes are not negative.", size);
    shape.emplace_back(size);
  }
  return shape;
}

Tensor drawn(Operands seed, const CompositeCall& call, Tensor (*draw)(const Shape&, const Seed&)) {
  Result<Shape> shape = stated_shape(call);
  return shape ? draw(*shape, seed[0]) : Tensor::failed(std::move(shape).error());
}

using Attributes = std::vector<NamedAttribute>;

Attributes axis_of(std::int64_t axis = -1) { return {{"axis", axis}}; }

Attributes operator+(Attributes attributes, NamedAttribute more) {
  attributes.push_back(std::move(more));
  return attributes;
}

Attributes windows() {
  return {{"strides", Integers{}}, {"low", Integers{}}, {"high", Integers{}}, {"dilations", Integers{}}};
}

Attributes pool() {
  return windows() + NamedAttribute{"sizes", Integers{}} + NamedAttribute{"round_up", std::int64_t{0}};
}

Attributes norm(std::int64_t axis) { return axis_of(axis) + NamedAttribute{"epsilon", 1e-5}; }

Attributes attention_attributes() {
  return {{"scale", 0.0},
          {"softcap", 0.0},
          {"causal", std::int64_t{0}},
          {"window_before", std::int64_t{-1}},
          {"window_after", std::int64_t{-1}},
          {"first_query", std::int64_t{0}}};
}

std::vector<Composite> activation_rows() {
  return {
      {"gelu",
       "x",
       {{"form", std::string("erf")}},
       "x times the normal distribution up to x; form: erf, or tanh",
       [](Operands x, const CompositeCall& call) {
         const std::string& form = call.text("form");
         if (form != "erf" && form != "tanh") return unnamed("gelu", "form", form, "erf, tanh");
         return gelu(x[0], form == "erf" ? GeluForm::erf : GeluForm::tanh);
       }},
      {"silu", "x", {}, "x * sigmoid(x)", [](Operands x, const CompositeCall&) { return silu(x[0]); }},
      {"softplus", "x", {}, "log(1 + exp(x))", [](Operands x, const CompositeCall&) { return softplus(x[0]); }},
      {"mish", "x", {}, "x * tanh(softplus(x))", [](Operands x, const CompositeCall&) { return mish(x[0]); }},
      {"hard_sigmoid",
       "x",
       {{"alpha", 0.2}, {"beta", 0.5}},
       "min(1, max(0, alpha x + beta))",
       [](Operands x, const CompositeCall& call) { return hard_sigmoid(x[0], call.real("alpha"), call.real("beta")); }},
      {"hard_swish",
       "x",
       {},
       "x * min(1, max(0, x/6 + 1/2))",
       [](Operands x, const CompositeCall&) { return hard_swish(x[0]); }},
      {"elu",
       "x",
       {{"alpha", 1.0}},
       "x, or alpha * (exp(x) - 1) below 0",
       [](Operands x, const CompositeCall& call) { return elu(x[0], call.real("alpha")); }},
      {"leaky_relu",
       "x",
       {{"slope", 0.01}},
       "x, or slope * x below 0",
       [](Operands x, const CompositeCall& call) { return leaky_relu(x[0], call.real("slope")); }},
  };
}

std::vector<Composite> softmax_rows() {
  return {
      {"softmax", "x", axis_of(), "exp(x) over its sum along an axis",
       [](Operands x, const CompositeCall& call) { return softmax(x[0], call.axis()); }},
      {"log_softmax", "x", axis_of(), "its logarithm",
       [](Operands x, const CompositeCall& call) { return log_softmax(x[0], call.axis()); }},
      {"log_sum_exp", "x", axis_of(), "log(sum(exp(x))) along an axis, which goes away",
       [](Operands x, const CompositeCall& call) { return log_sum_exp(x[0], call.axis()); }},
  };
}

std::vector<Composite> norm_rows() {
  return {
      {"layer_norm", "x scale? bias?", norm(-1), "normalised over the axes from `axis` on",
       [](Operands x, const CompositeCall& call) { return layer_norm(x[0], call.axis(), norm_options(x, call, 1)); }},
      {"rms_norm", "x scale? bias?", norm(-1), "x over its root mean square over the axes from `axis` on",
       [](Operands x, const CompositeCall& call) { return rms_norm(x[0], call.axis(), norm_options(x, call, 1)); }},
      {"group_norm",
       "x scale? bias?",
       {{"groups", std::int64_t{1}}, {"epsilon", 1e-5}},
       "x [batch, channels, any...] normalised over groups of channels",
       [](Operands x, const CompositeCall& call) {
         return group_norm(x[0], call.integer("groups"), norm_options(x, call, 1));
       }},
      {"instance_norm",
       "x scale? bias?",
       {{"epsilon", 1e-5}},
       "x [batch, channels, any...] normalised over what follows",
       [](Operands x, const CompositeCall& call) { return instance_norm(x[0], norm_options(x, call, 1)); }},
      {"batch_norm",
       "x mean variance scale? bias?",
       {{"epsilon", 1e-5}},
       "x [batch, channels, any...] normalised by what is given of each channel",
       [](Operands x, const CompositeCall& call) { return batch_norm(x[0], x[1], x[2], norm_options(x, call, 3)); }},
  };
}

std::vector<Composite> layer_rows() {
  return {
      {"linear",
       "x w bias?",
       {},
       "x [..., in] times w [in, out], and a bias [out]",
       [](Operands x, const CompositeCall&) { return linear(x[0], x[1], optional_at(x, 2)); }},
      {"conv", "x w bias?", windows() + NamedAttribute{"groups", std::int64_t{1}},
       "x [batch, channels, spatial...] with w [out, channels / groups, kernel...], and a bias [out]",
       [](Operands x, const CompositeCall& call) {
         return with_channel_bias(conv(x[0], x[1], conv_options(call)), x, 2);
       }},
      {"conv_transpose", "x w bias?", windows() + NamedAttribute{"groups", std::int64_t{1}},
       "its transpose: w [channels, out / groups, kernel...]; a negative `high` appends",
       [](Operands x, const CompositeCall& call) {
         return with_channel_bias(conv_transpose(x[0], x[1], conv_options(call)), x, 2);
       }},
  };
}

std::vector<Composite> window_rows() {
  return {
      {"max_pool", "x", pool(), "the largest elements of windows over x [batch, channels, spatial...]",
       [](Operands x, const CompositeCall& call) { return max_pool(x[0], pool_options(call)); }},
      {"max_pool_positions", "x", pool(), "where the first of them is, counted through x: i64",
       [](Operands x, const CompositeCall& call) {
         return max_pool_and_positions(x[0], pool_options(call)).positions;
       }},
      {"average_pool", "x", pool() + NamedAttribute{"count_padding", std::int64_t{0}}, "the means of such windows",
       [](Operands x, const CompositeCall& call) {
         PoolOptions options = pool_options(call);
         options.count_padding = call.flag("count_padding");
         return average_pool(x[0], options);
       }},
      {"interpolate",
       "x",
       {{"axes", Integers{}},
        {"sizes", Integers{}},
        {"mode", std::string("nearest")},
        {"coordinates", std::string("half_pixel")},
        {"antialias", std::int64_t{0}}},
       "axes resized; mode: nearest, linear, cubic; coordinates: half_pixel, align_corners, asymmetric",
       made_interpolation},
  };
}

std::vector<Composite> attention_rows() {
  return {
      {"rotary",
       "x cosine sine",
       {{"size", std::int64_t{0}}, {"interleaved", std::int64_t{0}}},
       "pairs of elements of the last axis turned by angles [..., size / 2]",
       [](Operands x, const CompositeCall& call) {
         return rotary(x[0], x[1], x[2], {call.integer("size"), call.flag("interleaved")});
       }},
      {"attention", "q k v mask?", attention_attributes(),
       "softmax(q k^T * scale) v of [batch, heads, positions, size]; a mask of booleans leaves out, one of floats is "
       "added; scale 0: 1 / sqrt(size); windows of -1: all",
       [](Operands x, const CompositeCall& call) {
         return attention(x[0], x[1], x[2], attention_options(x, call, 3));
       }},
      {"attention_log_sum_exp", "q k mask?", attention_attributes(),
       "the logarithm of what its softmax divides by: [batch, heads, queries]",
       [](Operands x, const CompositeCall& call) {
         return log_sum_exp(attention_scores(x[0], x[1], attention_options(x, call, 2)));
       }},
      {"cross_entropy",
       "logits labels",
       {},
       "-log_softmax(logits) at the labels: [rows, classes] and [rows]",
       [](Operands x, const CompositeCall&) { return cross_entropy(x[0], x[1]); }},
  };
}

/// What the options are read from, after some that come first.
Attributes cached_attention_attributes(Attributes attributes) {
  const Attributes own = {{"scale", 0.0},
                          {"softcap", 0.0},
                          {"causal", std::int64_t{1}},
                          {"window", std::int64_t{0}},
                          {"part", std::int64_t{0}}};
  attributes.insert(attributes.end(), own.begin(), own.end());
  return attributes;
}

CachedAttentionOptions cached_attention_options(Operands operands, const CompositeCall& call, std::size_t bias) {
  CachedAttentionOptions options;
  if (call.real("scale") != 0) options.scale = call.real("scale");
  options.softcap = call.real("softcap");
  options.causal = call.flag("causal");
  if (call.integer("window") != 0) options.window = call.integer("window");
  if (call.integer("part") != 0) options.part = call.integer("part");
  options.bias = optional_at(operands, bias);
  return options;
}

std::vector<Composite> paged_rows() {
  return {
      {"page_rows",
       "table starts",
       {{"count", std::int64_t{1}}, {"page", std::int64_t{16}}},
       "the rows of a pool of pages for the positions from `starts` on, `count` of each sequence, by its table [batch, "
       "pages]: i32 [batch, count], -1 where there is no page",
       [](Operands x, const CompositeCall& call) {
         return page_rows({x[0], x[1], call.integer("page")}, call.integer("count"));
       }},
      {"paged_attention", "q keys values table starts bias?", cached_attention_attributes({{"page", std::int64_t{16}}}),
       "cached_attention against a pool of pages: keys and values are [rows, key heads, size], and a table [batch, "
       "pages] has the pages of each sequence",
       [](Operands x, const CompositeCall& call) {
         return paged_attention(x[0], x[1], x[2], {x[3], x[4], call.integer("page")},
                                cached_attention_options(x, call, 5));
       }},
  };
}

Tensor made_mixture(Operands x, const CompositeCall& call) {
  ExpertsOptions options;
  options.gate = optional_at(x, 5);
  if (call.integer("rows") != 0) options.rows = call.integer("rows");
  const std::string& activation = call.text("activation");
  if (activation == "gelu") {
    options.activation = [](const Tensor& value) { return gelu(value); };
  } else if (activation == "gelu_tanh") {
    options.activation = [](const Tensor& value) { return gelu(value, GeluForm::tanh); };
  } else if (activation == "relu") {
    options.activation = [](const Tensor& value) { return relu(value); };
  } else if (activation != "silu") {
    return unnamed("mixture_of_experts", "activation", activation, "silu, gelu, gelu_tanh, relu");
  }
  return mixture_of_experts(x[0], {x[1], x[2]}, x[3], x[4], options);
}

std::vector<Composite> expert_rows() {
  return {
      {"mixture_of_experts",
       "x experts shares up down gate?",
       {{"activation", std::string("silu")}, {"rows", std::int64_t{0}}},
       "x [tokens, width] through the networks of the experts that each token has chosen, i32 [tokens, chosen], times "
       "its shares: up and gate [experts, width, inner], down [experts, inner, width out]; activation(x gate) * (x "
       "up), or activation(x up); activation: silu, gelu, gelu_tanh or relu; rows 0: see ExpertBlocks in "
       "vkfuse/experts.hpp",
       made_mixture},
  };
}

std::vector<Composite> generation_rows() {
  return {
      {"cached_attention", "q keys values starts bias?", cached_attention_attributes({}),
       "attention of q [batch, heads, queries, size] from the positions `starts` on against caches [batch, key heads, "
       "capacity, size] that hold no more: keys after the last query are not read; scale 0: 1 / sqrt(size); window 0: "
       "all keys",
       [](Operands x, const CompositeCall& call) {
         return cached_attention(x[0], x[1], x[2], x[3], cached_attention_options(x, call, 4));
       }},
      {"repetition_penalty",
       "logits seen",
       {{"penalty", 1.0}},
       "logits [batch, tokens] of the tokens that are seen, booleans, divided by the penalty, or times it below 0",
       [](Operands x, const CompositeCall& call) { return repetition_penalty(x[0], x[1], call.real("penalty")); }},
      {"sample",
       "logits seed",
       {{"temperature", 1.0}, {"top_k", std::int64_t{0}}, {"top_p", 1.0}, {"min_p", 0.0}},
       "a token of each row of logits [batch, tokens], drawn among those that are left: i32; the seed is one integer",
       [](Operands x, const CompositeCall& call) {
         return sample(x[0], x[1],
                       {call.real("temperature"), call.integer("top_k"), call.real("top_p"), call.real("min_p")});
       }},
      {"greedy",
       "logits",
       {},
       "the first token with the largest logit of each row: i32",
       [](Operands x, const CompositeCall&) { return greedy(x[0]); }},
  };
}

Tensor unnamed_format(std::string_view composite, const std::string& format) {
  std::string names;
  for (int i = 0; i < kFloatFormatCount; ++i)
    names += fmt::format("{}{}", i == 0 ? "" : ", ", name_of(static_cast<FloatFormat>(i)));
  return unnamed(composite, "format", format, names);
}

Tensor made_decoded(Operands x, const CompositeCall& call) {
  const std::optional<FloatFormat> format = float_format_named(call.text("format"));
  if (!format) return unnamed_format("decode_float", call.text("format"));
  const std::optional<DType> dtype = dtype_named(call.text("dtype"));
  if (!dtype || !is_float(*dtype)) return unnamed("decode_float", "dtype", call.text("dtype"), "f32, f16, bf16, f64");
  return decode_float(x[0], *format, *dtype);
}

Tensor made_encoded(Operands x, const CompositeCall& call) {
  const std::optional<FloatFormat> format = float_format_named(call.text("format"));
  if (!format) return unnamed_format("encode_float", call.text("format"));
  EncodeFloatOptions options{.saturates = call.flag("saturates")};
  const std::string& rounding = call.text("power_rounding");
  if (rounding == "down") {
    options.power_rounding = PowerRounding::down;
  } else if (rounding == "nearest") {
    options.power_rounding = PowerRounding::nearest;
  } else if (rounding != "up") {
    return unnamed("encode_float", "power_rounding", rounding, "up, down, nearest");
  }
  return encode_float(x[0], *format, options);
}

std::vector<Composite> quantization_rows() {
  return {
      {"decode_float",
       "codes",
       {{"format", std::string("float8_e4m3fn")}, {"dtype", std::string("f32")}},
       "the numbers of codes of 8, 6 or 4 bits, in u8; vkfuse/float_format.hpp has the formats",
       made_decoded},
      {"encode_float",
       "x",
       {{"format", std::string("float8_e4m3fn")},
        {"saturates", std::int64_t{1}},
        {"power_rounding", std::string("up")}},
       "the nearest codes, u8; without saturation, numbers beyond the largest become infinity or NaN; "
       "power_rounding, of float8_e8m0fnu: up, down, nearest",
       made_encoded},
      {"unpack_int4",
       "bytes",
       {{"is_signed", std::int64_t{0}}},
       "u8 [..., n] that hold two integers of 4 bits each, the first in the low bits, as [..., 2n]",
       [](Operands x, const CompositeCall& call) { return unpack_int4(x[0], call.flag("is_signed")); }},
      {"dequantize",
       "x scale zero_point?",
       {{"axis", std::int64_t{0}}, {"group", std::int64_t{0}}},
       "(x - zero_point) * scale of integers, x * scale of floats; the scale is one number, one for each position "
       "along the axis, or one for each `group` neighbours along it",
       [](Operands x, const CompositeCall& call) {
         return dequantize(
             x[0],
             {.scale = x[1], .zero_point = optional_at(x, 2), .axis = call.axis(), .group = call.integer("group")});
       }},
  };
}

std::vector<Composite> position_rows() {
  return {
      {"embedding",
       "table indices",
       {},
       "rows of a table at integer indices",
       [](Operands x, const CompositeCall&) { return embedding(x[0], x[1]); }},
      {"one_hot", "indices on off", axis_of() + NamedAttribute{"depth", std::int64_t{0}},
       "on where the position along a new axis is the index, else off",
       [](Operands x, const CompositeCall& call) {
         return one_hot(x[0], call.integer("depth"), x[1], x[2], call.axis());
       }},
      {"scatter_along", "x indices updates", axis_of(0) + NamedAttribute{"mode", std::string("set")},
       "x with updates joined at indices along an axis; mode: set, add, mul, max, min",
       [](Operands x, const CompositeCall& call) {
         return scatter_along(x[0], x[1], x[2], call.axis(), call.text("mode"));
       }},
      {"random_words",
       "seed",
       {{"shape", Integers{}}},
       "u32: all bits random; the seed is one integer",
       [](Operands x, const CompositeCall& call) { return drawn(x, call, random_words); }},
      {"random_uniform",
       "seed",
       {{"shape", Integers{}}},
       "f32 of [0, 1)",
       [](Operands x, const CompositeCall& call) { return drawn(x, call, random_uniform); }},
      {"random_normal",
       "seed",
       {{"shape", Integers{}}},
       "f32 of mean 0 and deviation 1",
       [](Operands x, const CompositeCall& call) { return drawn(x, call, random_normal); }},
      {"dropout",
       "x seed",
       {{"keep", 0.5}},
       "x / keep with probability `keep`, else 0",
       [](Operands x, const CompositeCall& call) { return dropout(x[0], call.real("keep"), x[1]); }},
  };
}

std::string_view kind_of(const CompositeAttribute& value) {
  constexpr std::string_view names[] = {"an integer", "a real number", "a list of integers", "a text"};
  return names[value.index()];
}

std::string text_of(const CompositeAttribute& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return fmt::format("[{}]", fmt::join(std::get<Integers>(value), ", "));
}

Result<Tensor> applied(std::string_view name, Operands operands, const CompositeAttributes& given) {
  const Composite* composite = find_composite(name);
  if (composite == nullptr) return invalid("'{}' is not the name of a composite.", name);
  if (operands.size() < composite->least_operands() || operands.size() > composite->most_operands()) {
    return invalid("'{}' takes the operands {}, but {} {} given.", name, composite->operands, operands.size(),
                   operands.size() == 1 ? "is" : "are");
  }
  for (const Tensor& operand : operands) {
    if (!operand.valid()) return operand;
  }
  for (const auto& [attribute, value] : given) {
    const auto found = std::ranges::find(composite->attributes, attribute, &NamedAttribute::name);
    if (found == composite->attributes.end()) return invalid("'{}' has no attribute '{}'.", name, attribute);
    if (value.index() != found->otherwise.index()) {
      return invalid("The attribute '{}' of '{}' is {}, but it must be {}.", attribute, name, kind_of(value),
                     kind_of(found->otherwise));
    }
  }
  return composite->make(operands, {composite->attributes, given});
}

}  // namespace

int CompositeCall::axis() const {
  return static_cast<int>(std::clamp<std::int64_t>(integer("axis"), INT32_MIN, INT32_MAX));
}

const CompositeAttribute& CompositeCall::value(std::string_view name) const {
  if (const auto found = given_.find(name); found != given_.end()) return found->second;
  return std::ranges::find(attributes_, name, &NamedAttribute::name)->otherwise;
}

std::size_t Composite::most_operands() const { return static_cast<std::size_t>(std::ranges::count(operands, ' ')) + 1; }
std::size_t Composite::least_operands() const {
  return most_operands() - static_cast<std::size_t>(std::ranges::count(operands, '?'));
}

std::span<const Composite> composites() {
  static const std::vector<Composite> table = [] {
    std::vector<Composite> all;
    for (std::vector<Composite>& rows :
         std::vector{activation_rows(), softmax_rows(), norm_rows(), layer_rows(), window_rows(), attention_rows(),
                     generation_rows(), paged_rows(), expert_rows(), quantization_rows(), position_rows()})
      std::ranges::move(rows, std::back_inserter(all));
    std::ranges::sort(all, {}, &Composite::name);
    return all;
  }();
  return table;
}

const Composite* find_composite(std::string_view name) {
  const std::span<const Composite> all = composites();
  const auto found = std::ranges::lower_bound(all, name, {}, &Composite::name);
  return found != all.end() && found->name == name ? &*found : nullptr;
}

Result<ir::NodeId> append_composite(ir::Graph& graph, std::string_view name, std::span<const ir::NodeId> operands,
                                    const CompositeAttributes& attributes, std::vector<ir::NodeId>* constants) {
  // On inputs in place of the operands.
  std::vector<Tensor> inputs;
  NodeIds ids;
  for (const ir::NodeId operand : operands) {
    const TensorType& type = graph.node(operand).type;
    inputs.push_back(Tensor::input(std::to_string(inputs.size()), type.dtype, type.shape));
    ids[inputs.back().node().get()] = operand;
  }
  VKF_TRY(result, applied(name, inputs, attributes));
  VKF_TRY(id, append(graph, result, ids));
  for (const auto& [node, made] : ids) {
    if (constants != nullptr && node->gradient != nullptr && node->gradient->operands.empty())
      constants->push_back(made);
  }
  return id;
}

}  // namespace vkfuse::api

namespace vkfuse {

Tensor apply_composite(std::string_view name, std::span<const Tensor> operands, const CompositeAttributes& attributes) {
  return api::or_failed(api::applied(name, operands, attributes));
}

Tensor apply_composite(std::string_view name, std::initializer_list<Tensor> operands,
                       const CompositeAttributes& attributes) {
  return apply_composite(name, std::span<const Tensor>(operands.begin(), operands.size()), attributes);
}

std::string composites_markdown() {
  std::string text =
      "# Composites\n\n"
      "What networks are made of, by name: `apply_composite` in C++, and in C `vkf_apply` and `vkf_tensor_apply`, "
      "which\n"
      "take these names where they take an op's. Each is written with the ops of [ops.md](ops.md), and kernels are "
      "found\n"
      "by structure. [composites.hpp](../include/vkfuse/composites.hpp), tensor.hpp and contractions.hpp have the same "
      "as\n"
      "functions, with what they take. Written by `composites_markdown()`; a test compares this file with it.\n\n"
      "An operand with `?` may be left out, as may attributes, whose defaults are listed. An empty list is 1 "
      "everywhere,\n"
      "or 0 for padding (`low`, `high`).\n\n"
      "| name | operands | attributes | result |\n| --- | --- | --- | --- |\n";
  for (const api::Composite& one : api::composites()) {
    std::string attributes;
    for (const api::NamedAttribute& attribute : one.attributes)
      attributes +=
          fmt::format("{}{} = {}", attributes.empty() ? "" : "; ", attribute.name, api::text_of(attribute.otherwise));
    text += fmt::format("| {} | {} | {} | {} |\n", one.name, one.operands, attributes.empty() ? "none" : attributes,
                        one.documentation);
  }
  return text;
}

}  // namespace vkfuse

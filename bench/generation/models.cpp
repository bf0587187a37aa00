#include "generation/models.hpp"

#include <fmt/format.h>

#include <cmath>

namespace vkfuse::bench {

namespace {

constexpr LanguageModel kModels[] = {
    {.name = "llama-8b",
     .layers = 32,
     .width = 4096,
     .heads = 32,
     .key_heads = 8,
     .inner = 14336,
     .vocabulary = 128256},
    {.name = "qwen3-4b",
     .layers = 36,
     .width = 2560,
     .heads = 32,
     .key_heads = 8,
     .inner = 9728,
     .vocabulary = 151936,
     .norms_heads = true},
    {.name = "gemma2-9b",
     .layers = 42,
     .width = 3584,
     .heads = 16,
     .key_heads = 8,
     .head_size = 256,
     .inner = 14336,
     .vocabulary = 256000,
     .norms_results = true,
     .gelu = true,
     .softcap = 50,
     .last_softcap = 30},
    {.name = "qwen3-30b-a3b",
     .layers = 48,
     .width = 2048,
     .heads = 32,
     .key_heads = 4,
     .inner = 768,
     .vocabulary = 151936,
     .experts = 128,
     .chosen = 8,
     .norms_heads = true},
};

constexpr std::int64_t kInt4Group = 128, kMxGroup = 32;
/// Root mean squares of random codes: -8 to 7; -128 to 127; float8_e4m3fn without NaN; float4_e2m1fn.
constexpr double kInt4Size = 4.6, kInt8Size = 73.9, kFloat8Size = 107, kFloat4Size = 2.9;

class Writer {
 public:
  Writer(const LanguageModel& model, WeightFormat weights, const StepSizes& sizes)
      : model_(model),
        weights_(weights),
        sizes_(sizes),
        start_(input("start", {DType::i32, {sizes.sequences}, Filling::positioned, 0, false})),
        cosine_(angles("cosine", Filling::cosine)),
        sine_(angles("sine", Filling::sine)) {}

  ModelStep step();

 private:
  Tensor input(const std::string& name, ModelInput input) {
    const Tensor made = Tensor::input(name, input.dtype, input.shape);
    step_.inputs.insert_or_assign(name, std::move(input));
    return made;
  }
  /// At the positions of the tokens: [sequences, 1, count, pairs].
  Tensor angles(const char* name, Filling filling) {
    const Tensor table = input(name, {DType::f32, {sizes_.capacity, model_.head_size / 2}, filling, 0, false});
    const Tensor positions = start_.unsqueeze(1) + Tensor::iota(DType::i32, {Dim(sizes_.count)}, 0);
    return table.gather(positions, 0).unsqueeze(1);
  }
  void output(const std::string& name, const Tensor& value) {
    step_.outputs.push_back(value);
    step_.names.push_back(name);
  }

  Tensor matrix(const std::string& name, Shape shape);
  Tensor product(const Tensor& x, const std::string& name, std::int64_t results) {
    return matmul(x, matrix(name, {results, x.shape().back().size()}).transpose());
  }
  Tensor norm(const Tensor& x, const std::string& name) {
    const Tensor scale = input(name, {DType::f16, {x.shape().back()}, Filling::near_one});
    return rms_norm(x.cast(DType::f32)).cast(DType::f16) * scale;
  }
  Tensor heads(const Tensor& x, const std::string& name, std::int64_t many, bool turns);
  Tensor cache(const Tensor& x, const std::string& name, bool turns);
  Tensor attended(const Tensor& x, const std::string& layer);
  Tensor gated(const Tensor& x, const std::string& layer);
  Tensor mixture(const Tensor& x, const std::string& layer);
  Tensor added(const Tensor& x, const Tensor& y, const std::string& name) {
    return x + (model_.norms_results ? norm(y, name) : y);
  }

  const LanguageModel& model_;
  WeightFormat weights_;
  StepSizes sizes_;
  ModelStep step_;
  Tensor start_, cosine_, sine_;
};

/// A matrix, or one of each expert, with a row for each result as models are stored.
Tensor Writer::matrix(const std::string& name, Shape shape) {
  const std::int64_t columns = shape.back().size();
  const double deviation = 1 / std::sqrt(static_cast<double>(columns));
  const auto scaled_shape = [&](std::int64_t size) {
    Shape scaled = shape;
    scaled.back() = Dim(size);
    return scaled;
  };
  const auto scale = [&](double size, std::int64_t groups) {
    return input(name + " scale", {DType::f16, scaled_shape(groups), Filling::constant, deviation / size});
  };
  const auto in_groups = [&](const Tensor& numbers, const Tensor& scales, std::int64_t group) {
    return dequantize(numbers, {.scale = scales, .axis = -1, .group = group});
  };
  switch (weights_) {
    case WeightFormat::f16: return input(name, {DType::f16, shape, Filling::normal, deviation});
    case WeightFormat::int8:
      return input(name, {DType::i8, shape, Filling::any_bits}).cast(DType::f16) * scale(kInt8Size, 1);
    case WeightFormat::float8:
      return decode_float(input(name, {DType::u8, shape, Filling::no_nan}), FloatFormat::float8_e4m3fn, DType::f16) *
             scale(kFloat8Size, 1);
    case WeightFormat::int4: {
      const Tensor bytes = input(name, {DType::u8, scaled_shape(columns / 2), Filling::any_bits});
      const std::int64_t group = std::min(kInt4Group, columns);
      return in_groups(unpack_int4(bytes, true), scale(kInt4Size, (columns - 1) / group + 1), group);
    }
    case WeightFormat::mxfp4: break;
  }
  const Tensor bytes = input(name, {DType::u8, scaled_shape(columns / 2), Filling::any_bits});
  const double power = std::round(std::log2(deviation / kFloat4Size)) + 127;
  const Tensor powers =
      input(name + " scale", {DType::u8, scaled_shape((columns - 1) / kMxGroup + 1), Filling::constant, power});
  return in_groups(decode_float(unpack_int4(bytes, false), FloatFormat::float4_e2m1fn, DType::f16),
                   decode_float(powers, FloatFormat::float8_e8m0fnu, DType::f16), kMxGroup);
}

/// Of x [sequences * count, width]: [sequences, many, count, head size].
Tensor Writer::heads(const Tensor& x, const std::string& name, std::int64_t many, bool turns) {
  Tensor each = product(x, name, many * model_.head_size)
                    .reshape({sizes_.sequences, sizes_.count, many, model_.head_size})
                    .permute({0, 2, 1, 3});
  if (turns && model_.norms_heads) each = norm(each, name + " norm");
  return turns ? rotary(each.cast(DType::f32), cosine_, sine_).cast(DType::f16) : each;
}

Tensor Writer::cache(const Tensor& x, const std::string& name, bool turns) {
  const Shape shape = {sizes_.sequences, model_.key_heads, sizes_.capacity, model_.head_size};
  const Tensor held = input(name, {DType::f16, shape, Filling::cache, 0, false})
                          .update_rows(start_, heads(x, name + " weights", model_.key_heads, turns), 2);
  output(name + "'", held);
  return held;
}

Tensor Writer::attended(const Tensor& x, const std::string& layer) {
  const Tensor q = heads(x, layer + "queries", model_.heads, true);
  const Tensor keys = cache(x, layer + "keys", true), values = cache(x, layer + "values", false);
  const Tensor seen = cached_attention(q, keys, values, start_, {.softcap = model_.softcap});
  const std::int64_t rows = sizes_.sequences * sizes_.count;
  return product(seen.permute({0, 2, 1, 3}).reshape({rows, model_.heads * model_.head_size}), layer + "mixed",
                 model_.width);
}

Tensor Writer::gated(const Tensor& x, const std::string& layer) {
  const Tensor gate = product(x, layer + "gate", model_.inner), up = product(x, layer + "up", model_.inner);
  return product((model_.gelu ? gelu(gate, GeluForm::tanh) : silu(gate)) * up, layer + "down", model_.width);
}

Tensor Writer::mixture(const Tensor& x, const std::string& layer) {
  const double deviation = 2 / std::sqrt(static_cast<double>(model_.width));
  const Tensor router =
      input(layer + "router", {DType::f16, {model_.experts, model_.width}, Filling::normal, deviation});
  const auto of_experts = [&](const char* name, std::int64_t results, std::int64_t columns) {
    return matrix(layer + name, {model_.experts, results, columns}).permute({0, 2, 1});
  };
  const Tensor gate = of_experts("gate", model_.inner, model_.width), up = of_experts("up", model_.inner, model_.width);
  const ExpertChoice choice = choose_experts(matmul(x, router.transpose()), model_.chosen);
  return mixture_of_experts(x, choice, up, of_experts("down", model_.width, model_.inner), {.gate = gate});
}

ModelStep Writer::step() {
  const std::int64_t rows = sizes_.sequences * sizes_.count;
  const Tensor tokens = input("tokens", {DType::i32, {sizes_.sequences, sizes_.count}, Filling::positioned, 0, false});
  const Shape words = {model_.vocabulary, model_.width};
  Tensor x = input("embedding", {DType::f16, words, Filling::normal, 1, false}).gather(tokens.reshape({rows}), 0);
  for (std::int64_t i = 0; i < model_.layers; ++i) {
    const std::string layer = std::to_string(i) + " ";
    x = added(x, attended(norm(x, layer + "first norm"), layer), layer + "norm of attention");
    const Tensor y = norm(x, layer + "second norm");
    x = added(x, model_.experts > 0 ? mixture(y, layer) : gated(y, layer), layer + "norm of network");
  }
  const Tensor last = x.reshape({sizes_.sequences, sizes_.count, model_.width}).select(1, sizes_.count - 1);
  Tensor logits = product(norm(last, "last norm"), "logits", model_.vocabulary).cast(DType::f32);
  if (model_.last_softcap > 0) logits = tanh(logits / model_.last_softcap) * model_.last_softcap;
  output("token", greedy(logits));
  output("start'", start_ + Tensor::scalar(DType::i32, static_cast<double>(sizes_.count)));
  return std::move(step_);
}

}  // namespace

std::span<const LanguageModel> language_models() { return kModels; }

ModelStep model_step(const LanguageModel& model, WeightFormat weights, const StepSizes& sizes) {
  return Writer(model, weights, sizes).step();
}

std::uint64_t bytes_of(const ModelInput& input) {
  auto bytes = static_cast<std::uint64_t>(size_of(input.dtype));
  for (const Dim& dim : input.shape) bytes *= static_cast<std::uint64_t>(dim.size());
  return bytes;
}

}  // namespace vkfuse::bench

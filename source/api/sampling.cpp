// The choice of a token from logits.
#include <cmath>
#include <limits>

#include "api/composites.hpp"
#include "api/tensor_node.hpp"
#include "vkfuse/generation.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

DType wide_of(const Tensor& logits) { return logits.dtype() == DType::f64 ? DType::f64 : DType::f32; }

Result<void> check_logits(const Tensor& logits, std::string_view composite) {
  const Shape& shape = logits.shape();
  if (is_float(logits.dtype()) && shape.size() == 2 && !shape[0].is_symbol() && !shape[1].is_symbol() &&
      shape[1].size() > 0)
    return {};
  return invalid("'{}' takes logits of [batch, tokens], floats, but it was given {}.", composite,
                 api::text_of_type(logits));
}

Result<void> check_options(const SampleOptions& options, std::int64_t tokens) {
  if (!(options.temperature > 0) || std::isinf(options.temperature))
    return invalid("'sample' divides by a temperature above 0, but it is {}.", options.temperature);
  if (options.top_k < 0 || options.top_k > tokens)
    return invalid("'sample' of {} tokens keeps 1 to {}, or with 0 all, but top_k is {}.", tokens, tokens,
                   options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1))
    return invalid("'sample' keeps a probability above 0 and up to 1, but top_p is {}.", options.top_p);
  if (!(options.min_p >= 0 && options.min_p <= 1))
    return invalid("'sample' takes a least probability of 0 to 1 times the largest, but min_p is {}.", options.min_p);
  return {};
}

/// Of uniform numbers of 24 bits: -log(-log(u)). 0 is taken for half of the least one.
Tensor gumbel_noise(const Shape& shape, const Tensor& seed, DType dtype) {
  const Tensor uniform = max(random_uniform(shape, seed), Tensor::scalar(DType::f32, 0x1p-25)).cast(dtype);
  return -log(-log(uniform));
}

/// Logits in descending order, and the token of each; as they are where nothing asks for an order.
struct Ranked {
  Tensor logits;
  std::optional<Tensor> tokens;
};
Ranked ranked(const Tensor& logits, const SampleOptions& options) {
  const std::int64_t tokens = logits.shape()[1].size();
  if (options.top_k == 0 && options.top_p >= 1) return {logits, std::nullopt};
  const Tensor order = logits.argsort(1, true, options.top_k == 0 ? tokens : options.top_k);
  return {logits.take_along(order, 1), order};
}

/// -infinity for all but the first ones, whose probabilities reach p: those before it have not.
Tensor within_top_p(const Tensor& ranked, double p) {
  const Tensor before = softmax(ranked).cumsum(1, true);
  return select(lt(before, Tensor::scalar(ranked.dtype(), p)), ranked, Tensor::scalar(ranked.dtype(), -kInfinity));
}

}  // namespace

Tensor repetition_penalty(const Tensor& logits, const Tensor& seen, double penalty) {
  if (!logits.valid()) return logits;
  if (!seen.valid()) return seen;
  if (const auto checked = check_logits(logits, "repetition_penalty"); !checked) return Tensor::failed(checked.error());
  if (seen.dtype() != DType::boolean || seen.shape() != logits.shape())
    return Tensor::failed(invalid("'repetition_penalty' of logits {} takes a boolean for each, but they are {}.",
                                  api::text_of_type(logits), api::text_of_type(seen)));
  if (!(penalty > 0) || std::isinf(penalty))
    return Tensor::failed(invalid("'repetition_penalty' takes a penalty above 0, but it is {}.", penalty));
  const Tensor wide = logits.cast(wide_of(logits));
  const Tensor less = select(gt(wide, Tensor::scalar(wide.dtype(), 0)), wide / penalty, wide * penalty);
  return select(seen, less, wide);
}

Tensor greedy(const Tensor& logits) {
  if (!logits.valid()) return logits;
  if (const auto checked = check_logits(logits, "greedy"); !checked) return Tensor::failed(checked.error());
  return logits.argmax(1);
}

Tensor sample(const Tensor& logits, const Tensor& seed, const SampleOptions& options) {
  if (!logits.valid()) return logits;
  if (const auto checked = check_logits(logits, "sample"); !checked) return Tensor::failed(checked.error());
  if (const auto checked = check_options(options, logits.shape()[1].size()); !checked)
    return Tensor::failed(checked.error());
  const Tensor wide = logits.cast(wide_of(logits));
  const Ranked all = ranked(options.temperature == 1 ? wide : wide / options.temperature, options);
  Tensor kept = all.logits;
  if (options.top_p < 1) kept = within_top_p(kept, options.top_p);
  if (options.min_p > 0) {
    const Tensor least = all.logits.max({1}, true) + std::log(options.min_p);
    kept = select(ge(all.logits, least), kept, Tensor::scalar(kept.dtype(), -kInfinity));
  }
  const Tensor drawn = (kept + gumbel_noise(kept.shape(), seed, kept.dtype())).argmax(1);
  return all.tokens ? all.tokens->take_along(drawn.unsqueeze(1), 1).reshape({kept.shape()[0]}) : drawn;
}

}  // namespace vkfuse

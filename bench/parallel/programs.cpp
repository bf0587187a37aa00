#include "parallel/programs.hpp"

#include <fmt/format.h>

#include "ops/op.hpp"

namespace vkfuse::bench {

namespace {

class Llama {
 public:
  Llama(const LlamaSizes& sizes, const LlamaDivision& division)
      : sizes_(sizes),
        division_(division),
        cosine_(input("cosine", {sizes.tokens, sizes.head_size / 2})),
        sine_(input("sine", {sizes.tokens, sizes.head_size / 2})) {}

  Tensor run() {
    Tensor x = input("x", {sizes_.batch, sizes_.tokens, sizes_.width});
    if (division_.batch >= 0) x = shard(x, 0, division_.batch);
    for (std::int64_t i = 0; i < sizes_.layers; ++i) x = layer(x, fmt::format("layer{}.", i));
    return division_.batch >= 0 ? shard(x, 0, division_.batch) : x;
  }

  [[nodiscard]] const std::vector<Tensor>& weights() const { return weights_; }

 private:
  static Tensor input(const std::string& name, Shape shape) {
    return Tensor::input(name, DType::f16, std::move(shape));
  }

  /// A weight [rows, columns] of which `axis` is divided where heads are.
  Tensor weight(const std::string& name, std::int64_t rows, std::int64_t columns, int axis) {
    const Tensor w = input(name, {rows, columns});
    weights_.push_back(w);
    return division_.heads >= 0 ? shard(w, axis, division_.heads) : w;
  }

  Tensor heads_of(const Tensor& x, const std::string& name, std::int64_t heads) {
    const std::int64_t size = sizes_.head_size;
    const Tensor projected = matmul(x, weight(name, sizes_.width, heads * size, 1));
    return projected.reshape({sizes_.batch, sizes_.tokens, heads, size}).permute({0, 2, 1, 3});
  }

  Tensor layer(const Tensor& x, const std::string& prefix) {
    const Tensor normal = rms_norm(x);
    const Tensor q = rotary(heads_of(normal, prefix + "wq", sizes_.heads), cosine_, sine_);
    const Tensor k = rotary(heads_of(normal, prefix + "wk", sizes_.key_heads), cosine_, sine_);
    const Tensor v = heads_of(normal, prefix + "wv", sizes_.key_heads);
    AttentionOptions options;
    options.causal = true;
    const Tensor mixed = attention(q, k, v, options).permute({0, 2, 1, 3});
    const Tensor joined = mixed.reshape({sizes_.batch, sizes_.tokens, sizes_.heads * sizes_.head_size});
    const Tensor wo = weight(prefix + "wo", sizes_.heads * sizes_.head_size, sizes_.width, 0);
    const Tensor middle = x + matmul(joined, wo);
    const Tensor after = rms_norm(middle);
    const Tensor gate = silu(matmul(after, weight(prefix + "w1", sizes_.width, sizes_.hidden, 1)));
    const Tensor up = matmul(after, weight(prefix + "w3", sizes_.width, sizes_.hidden, 1));
    return middle + matmul(gate * up, weight(prefix + "w2", sizes_.hidden, sizes_.width, 0));
  }

  LlamaSizes sizes_;
  LlamaDivision division_;
  Tensor cosine_, sine_;
  std::vector<Tensor> weights_;
};

}  // namespace

Tensor sums_in_a_row(std::int64_t elements, int ranks, int times) {
  Tensor x = Tensor::input("x", DType::f16, {elements});
  for (int i = 0; i < times; ++i) x = all_reduce(x, Join::sum, {ranks, 1}) * (1.0 / ranks);
  return x;
}

Tensor llama(const LlamaSizes& sizes, const LlamaDivision& division) { return Llama(sizes, division).run(); }

std::vector<Tensor> llama_step(const LlamaSizes& sizes, const LlamaDivision& division) {
  Llama model(sizes, division);
  const Tensor y = model.run().cast(DType::f32);
  const Tensor loss = (y * y).mean();
  // Gradients of f16 are scaled, so that they do not round to 0.
  constexpr double kScale = 4096, kRate = 0.1;
  const std::vector<Tensor> wrt = model.weights();
  const Tensor scaled = loss * kScale;
  const std::vector<Tensor> slopes = gradients(std::span(&scaled, 1), wrt);
  std::vector<Tensor> results = {loss};
  for (std::size_t i = 0; i < wrt.size(); ++i) results.push_back(wrt[i] - slopes[i] * (kRate / kScale));
  return results;
}

std::map<std::string, std::vector<std::uint16_t>> f16_inputs(const std::vector<Port>& ports) {
  std::map<std::string, std::vector<std::uint16_t>> made;
  // Numbers of three bits after the sign, so that sums of two are exact, and weights whose products stay about 1.
  std::vector<std::uint16_t> large, small;
  for (int i = 0; i < 4096; ++i) {
    const int step = i * 7919 % 251 % 16 - 8;
    large.push_back(ops::f16_from(step / 8.0));
    small.push_back(ops::f16_from(step / 256.0));
  }
  for (const Port& port : ports) {
    std::size_t count = 1;
    for (const Dim& dim : port.shape) count *= static_cast<std::size_t>(dim.size());
    const std::vector<std::uint16_t>& cycle = port.name.starts_with("layer") ? small : large;
    std::vector<std::uint16_t>& elements = made[port.name];
    elements.resize(count);
    // A cycle that no row is a multiple of, so that rows differ.
    for (std::size_t i = 0; i < count; ++i) elements[i] = cycle[(i * 5 + i / 4093) % 4096];
  }
  return made;
}

}  // namespace vkfuse::bench

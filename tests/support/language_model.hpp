// Small language models of several families, with random weights: the graph of a step against caches, and the same in
// double precision by loops that share nothing with it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "vkfuse/generation.hpp"

namespace vkfuse::test {

/// What tells families apart. Sequences are one; positions are at most `capacity`.
struct ModelFamily {
  std::string name;
  std::int64_t layers = 2, width = 48, heads = 4, key_heads = 2, head = 16, inner = 64, tokens = 96, capacity = 96;
  std::int64_t turned = 16;              ///< elements of a head that the rotary embedding turns
  bool norms_queries_and_keys = false;   ///< each head's, before they are turned
  bool norms_results = false;            ///< of attention and of the network, before they are added
  bool scales_embedding = false;         ///< by the root of the width
  bool gelu = false;                     ///< gates by GELU (its tanh form), else by SiLU
  double softcap = 0, last_softcap = 0;  ///< of scores, and of logits
  std::optional<std::int64_t> window;
  std::int64_t experts = 0, chosen = 0;  ///< of each token, renormalised
  std::int64_t page = 0;                 ///< above 0: caches are pools of such pages, in an order that a table has
  friend void PrintTo(const ModelFamily& family, std::ostream* out) { *out << family.name; }
};

/// Llama, Qwen3, Gemma, Phi, Mistral, mixtures of few experts and of many, and Llama with caches in pages.
const std::vector<ModelFamily>& model_families();

class LanguageModel {
 public:
  /// Weights are the same everywhere.
  explicit LanguageModel(ModelFamily family);

  [[nodiscard]] const ModelFamily& family() const { return family_; }
  /// By name, row-major.
  [[nodiscard]] const std::map<std::string, std::vector<float>>& weights() const { return weights_; }
  [[nodiscard]] std::vector<std::string> caches() const;
  [[nodiscard]] std::int64_t cache_elements() const { return family_.key_heads * family_.capacity * family_.head; }
  /// Where pages are in the pool: from the last to the first, by way of data alone.
  [[nodiscard]] std::vector<std::int32_t> table() const;

  /// A step of so many tokens: inputs are the weights, the caches, `tokens` [count], `start` [1], with pages `table`
  /// [1, pages], and `last` [1], which of the tokens is the last; outputs `CACHE'`, `token` [1] and `logits` [1,
  /// tokens].
  struct Step {
    std::vector<Tensor> outputs;
    std::vector<std::string> names;
  };
  [[nodiscard]] Step step(std::int64_t count) const;

  /// The logits after the token that comes next in the sequence that was given so far.
  std::vector<double> next_logits(std::int32_t token);

 private:
  using Vector = std::vector<double>;
  [[nodiscard]] Tensor weight(const std::string& name) const;
  [[nodiscard]] Tensor norm(const Tensor& x, const std::string& scale) const;
  [[nodiscard]] Tensor network(const Tensor& x, const std::string& layer) const;
  [[nodiscard]] Tensor gated(const Tensor& x, const std::string& network) const;
  /// How much caches hold, and where.
  struct Held {
    Tensor start;
    std::optional<Tensor> table;
  };
  [[nodiscard]] Tensor with_rows(const std::string& name, const Held& held, const Tensor& rows) const;
  [[nodiscard]] Tensor attended(const Tensor& q, const Tensor& keys, const Tensor& values, const Held& held) const;
  void add(const std::string& name, Shape shape, double deviation, double mean = 0);
  void add_network(const std::string& name);

  [[nodiscard]] Vector product(const Vector& x, const std::string& name, std::size_t expert = 0) const;
  [[nodiscard]] Vector normed(Vector x, const std::string& scale) const;
  [[nodiscard]] Vector turned(Vector head, std::int64_t position) const;
  [[nodiscard]] Vector heads_of(const Vector& x, const std::string& layer, const std::string& name, std::int64_t count,
                                std::int64_t position) const;
  [[nodiscard]] Vector attended(const Vector& x, const std::string& layer, std::int64_t position);
  [[nodiscard]] Vector gated(const Vector& x, const std::string& network, std::size_t expert = 0) const;
  [[nodiscard]] Vector network(const Vector& x, const std::string& layer) const;

  ModelFamily family_;
  std::map<std::string, Shape> shapes_;
  std::map<std::string, std::vector<float>> weights_;
  std::map<std::string, std::vector<Vector>> held_;  ///< of the reference: keys and values by position
  std::int64_t position_ = 0;
};

}  // namespace vkfuse::test

#include "support/language_model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {

namespace {

constexpr double kEpsilon = 1e-5;

double root(std::int64_t value) { return std::sqrt(static_cast<double>(value)); }

double gate(double x, bool gelu) {
  if (!gelu) return x / (1 + std::exp(-x));
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

/// The angle of a pair at a position, as the tables have it.
double angle(std::int64_t position, std::int64_t pair, std::int64_t turned) {
  return static_cast<double>(position) *
         std::pow(10000.0, -2 * static_cast<double>(pair) / static_cast<double>(turned));
}

}  // namespace

const std::vector<ModelFamily>& model_families() {
  static const std::vector<ModelFamily> all = {
      {.name = "Llama"},
      {.name = "Qwen3", .key_heads = 1, .norms_queries_and_keys = true},
      {.name = "Gemma", .norms_results = true, .scales_embedding = true, .gelu = true, .softcap = 5, .last_softcap = 8},
      {.name = "Phi", .key_heads = 4, .turned = 8},
      {.name = "Mistral", .window = 12},
      {.name = "Mixture", .inner = 32, .experts = 4, .chosen = 2},
      {.name = "MixtureOfMany", .inner = 16, .experts = 32, .chosen = 4},
      {.name = "Paged", .page = 8},
  };
  return all;
}

void LanguageModel::add(const std::string& name, Shape shape, double deviation, double mean) {
  std::size_t count = 1;
  for (const Dim& dim : shape) count *= static_cast<std::size_t>(dim.size());
  std::uint64_t seed = 14695981039346656037ULL;
  for (const char letter : family_.name + name) seed = (seed ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  std::mt19937_64 random(seed);
  // Two sums of uniform numbers, which are the same in every standard library.
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(mean + deviation * 1.7 * (uniform() + uniform() - 1) * 1.44);
  weights_[name] = std::move(values);
  shapes_[name] = std::move(shape);
}

void LanguageModel::add_network(const std::string& name) {
  const auto shape = [&](std::int64_t from, std::int64_t to) {
    return family_.experts > 0 ? Shape{family_.experts, from, to} : Shape{from, to};
  };
  add(name + "gate", shape(family_.width, family_.inner), 1 / root(family_.width));
  add(name + "up", shape(family_.width, family_.inner), 1 / root(family_.width));
  add(name + "down", shape(family_.inner, family_.width), 1 / root(family_.inner));
}

LanguageModel::LanguageModel(ModelFamily family) : family_(std::move(family)) {
  const ModelFamily& f = family_;
  add("embedding", {f.tokens, f.width}, f.scales_embedding ? 1 / root(f.width) : 1);
  for (std::int64_t i = 0; i < f.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i) + ".";
    for (const char* norm : {"before", "before network"}) add(layer + norm, {f.width}, 0.2, 1);
    for (const char* norm : {"after", "after network"}) {
      if (f.norms_results) add(layer + norm, {f.width}, 0.2, 1);
    }
    add(layer + "query", {f.width, f.heads * f.head}, 2 / root(f.width));
    add(layer + "key", {f.width, f.key_heads * f.head}, 2 / root(f.width));
    add(layer + "value", {f.width, f.key_heads * f.head}, 1 / root(f.width));
    for (const char* norm : {"query norm", "key norm"}) {
      if (f.norms_queries_and_keys) add(layer + norm, {f.head}, 0.2, 1);
    }
    add(layer + "output", {f.heads * f.head, f.width}, 1 / root(f.heads * f.head));
    if (f.experts > 0) add(layer + "router", {f.width, f.experts}, 2 / root(f.width));
    add_network(layer);
  }
  add("final", {f.width}, 0.2, 1);
  add("head", {f.width, f.tokens}, 3 / root(f.width));
  for (const bool sine : {false, true}) {
    const std::string name = sine ? "sine" : "cosine";
    shapes_[name] = {f.capacity, f.turned / 2};
    for (std::int64_t position = 0; position < f.capacity; ++position) {
      for (std::int64_t pair = 0; pair < f.turned / 2; ++pair) {
        const double at = angle(position, pair, f.turned);
        weights_[name].push_back(static_cast<float>(sine ? std::sin(at) : std::cos(at)));
      }
    }
  }
}

std::vector<std::string> LanguageModel::caches() const {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < family_.layers; ++i) {
    for (const char* what : {"keys", "values"}) names.push_back("layer" + std::to_string(i) + "." + what);
  }
  return names;
}

// --- the graph ---

Tensor LanguageModel::weight(const std::string& name) const {
  return Tensor::input(name, DType::f32, shapes_.at(name));
}

Tensor LanguageModel::norm(const Tensor& x, const std::string& scale) const {
  return rms_norm(x, -1, {.epsilon = kEpsilon, .scale = weight(scale)});
}

Tensor LanguageModel::gated(const Tensor& x, const std::string& network) const {
  const Tensor through = matmul(x, weight(network + "gate"));
  return matmul((family_.gelu ? gelu(through, GeluForm::tanh) : silu(through)) * matmul(x, weight(network + "up")),
                weight(network + "down"));
}

Tensor LanguageModel::network(const Tensor& x, const std::string& layer) const {
  if (family_.experts == 0) return gated(x, layer);
  const ExpertChoice choice = choose_experts(matmul(x, weight(layer + "router")), family_.chosen);
  return mixture_of_experts(x, choice, weight(layer + "up"), weight(layer + "down"), {.gate = weight(layer + "gate")});
}

std::vector<std::int32_t> LanguageModel::table() const {
  std::vector<std::int32_t> pages(static_cast<std::size_t>(family_.capacity / family_.page));
  std::iota(pages.rbegin(), pages.rend(), 0);
  return pages;
}

/// The cache with rows [1, key heads, count, head].
Tensor LanguageModel::with_rows(const std::string& name, const Held& held, const Tensor& rows) const {
  const ModelFamily& f = family_;
  if (f.page == 0) {
    const Tensor cache = Tensor::input(name, DType::f32, {1, f.key_heads, f.capacity, f.head});
    return cache.update_rows(held.start.reshape({}), rows, 2);
  }
  const std::int64_t count = rows.shape()[2].size();
  const Tensor at = page_rows({*held.table, held.start, f.page}, count).reshape({count});
  return Tensor::input(name, DType::f32, {f.capacity, f.key_heads, f.head})
      .update_rows(at, rows.squeeze(0).permute({1, 0, 2}), 0);
}

Tensor LanguageModel::attended(const Tensor& q, const Tensor& keys, const Tensor& values, const Held& held) const {
  const CachedAttentionOptions options{.softcap = family_.softcap, .window = family_.window, .part = 16};
  if (family_.page == 0) return cached_attention(q, keys, values, held.start, options);
  return paged_attention(q, keys, values, {*held.table, held.start, family_.page}, options);
}

LanguageModel::Step LanguageModel::step(std::int64_t count) const {
  const ModelFamily& f = family_;
  const Tensor start = Tensor::input("start", DType::i32, {1});
  Held held{start, std::nullopt};
  if (f.page > 0) held.table = Tensor::input("table", DType::i32, {1, f.capacity / f.page});
  const Tensor position = start + Tensor::iota(DType::i32, {Dim(count)}, 0);
  const Tensor cosine = weight("cosine").gather(position, 0).unsqueeze(1);
  const Tensor sine = weight("sine").gather(position, 0).unsqueeze(1);
  Tensor x = weight("embedding").gather(Tensor::input("tokens", DType::i32, {Dim(count)}), 0);
  if (f.scales_embedding) x = x * root(f.width);
  Step step;
  const auto add_output = [&](std::string output, const Tensor& tensor) {
    step.names.push_back(std::move(output));
    step.outputs.push_back(tensor);
    return tensor;
  };
  for (std::int64_t i = 0; i < f.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i) + ".";
    const Tensor before = norm(x, layer + "before");
    const auto heads = [&](const std::string& name, std::int64_t of, bool turns) {
      Tensor each = matmul(before, weight(layer + name)).reshape({count, of, f.head});
      if (turns && f.norms_queries_and_keys) each = norm(each, layer + name + " norm");
      if (turns) each = rotary(each, cosine, sine, {.size = f.turned});
      return each.permute({1, 0, 2}).unsqueeze(0);
    };
    const auto written = [&](const std::string& name, const Tensor& rows) {
      return add_output(layer + name + "'", with_rows(layer + name, held, rows));
    };
    const Tensor keys = written("keys", heads("key", f.key_heads, true));
    const Tensor values = written("values", heads("value", f.key_heads, false));
    const Tensor seen = attended(heads("query", f.heads, true), keys, values, held);
    Tensor made = matmul(seen.permute({0, 2, 1, 3}).reshape({count, f.heads * f.head}), weight(layer + "output"));
    x = x + (f.norms_results ? norm(made, layer + "after") : made);
    made = network(norm(x, layer + "before network"), layer);
    x = x + (f.norms_results ? norm(made, layer + "after network") : made);
  }
  const Tensor last = x.gather(Tensor::input("last", DType::i32, {1}), 0);
  Tensor logits = matmul(norm(last, "final"), weight("head"));
  if (f.last_softcap > 0) logits = tanh(logits / f.last_softcap) * f.last_softcap;
  add_output("token", greedy(logits));
  add_output("logits", logits);
  return step;
}

// --- the reference ---

LanguageModel::Vector LanguageModel::product(const Vector& x, const std::string& name, std::size_t expert) const {
  const auto columns = static_cast<std::size_t>(shapes_.at(name).back().size());
  const std::span<const float> w = std::span(weights_.at(name)).subspan(expert * x.size() * columns);
  Vector y(columns, 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t k = 0; k < columns; ++k) y[k] += x[i] * static_cast<double>(w[i * columns + k]);
  }
  return y;
}

LanguageModel::Vector LanguageModel::normed(Vector x, const std::string& scale) const {
  double squares = 0;
  for (const double one : x) squares += one * one / static_cast<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] *= static_cast<double>(weights_.at(scale)[i]) / std::sqrt(squares + kEpsilon);
  return x;
}

LanguageModel::Vector LanguageModel::turned(Vector head, std::int64_t position) const {
  const auto half = static_cast<std::size_t>(family_.turned / 2);
  for (std::size_t i = 0; i < half; ++i) {
    const double at = angle(position, static_cast<std::int64_t>(i), family_.turned);
    const double a = head[i], b = head[i + half];
    head[i] = a * std::cos(at) - b * std::sin(at);
    head[i + half] = a * std::sin(at) + b * std::cos(at);
  }
  return head;
}

/// Heads one after the other; queries and keys with their norm and turned.
LanguageModel::Vector LanguageModel::heads_of(const Vector& x, const std::string& layer, const std::string& name,
                                              std::int64_t count, std::int64_t position) const {
  const Vector all = product(x, layer + name);
  Vector made;
  for (std::int64_t h = 0; h < count; ++h) {
    Vector head(all.begin() + h * family_.head, all.begin() + (h + 1) * family_.head);
    if (name != "value" && family_.norms_queries_and_keys) head = normed(std::move(head), layer + name + " norm");
    if (name != "value") head = turned(std::move(head), position);
    made.insert(made.end(), head.begin(), head.end());
  }
  return made;
}

LanguageModel::Vector LanguageModel::attended(const Vector& x, const std::string& layer, std::int64_t position) {
  const ModelFamily& f = family_;
  std::vector<Vector>&keys = held_[layer + "keys"], &values = held_[layer + "values"];
  keys.push_back(heads_of(x, layer, "key", f.key_heads, position));
  values.push_back(heads_of(x, layer, "value", f.key_heads, position));
  const Vector queries = heads_of(x, layer, "query", f.heads, position);
  Vector result(queries.size(), 0);
  const std::int64_t first = f.window ? std::max<std::int64_t>(0, position - *f.window + 1) : 0;
  for (std::int64_t h = 0; h < f.heads; ++h) {
    const auto own = static_cast<std::size_t>(h * f.head),
               shared = static_cast<std::size_t>(h / (f.heads / f.key_heads) * f.head);
    Vector weight;
    for (std::int64_t k = first; k <= position; ++k) {
      double score = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(f.head); ++i)
        score += queries[own + i] * keys[static_cast<std::size_t>(k)][shared + i] / root(f.head);
      weight.push_back(std::exp(f.softcap > 0 ? f.softcap * std::tanh(score / f.softcap) : score));
    }
    const double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
    for (std::size_t k = 0; k < weight.size(); ++k) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(f.head); ++i)
        result[own + i] += weight[k] / sum * values[static_cast<std::size_t>(first) + k][shared + i];
    }
  }
  return result;
}

LanguageModel::Vector LanguageModel::gated(const Vector& x, const std::string& network, std::size_t expert) const {
  Vector through = product(x, network + "gate", expert);
  const Vector up = product(x, network + "up", expert);
  for (std::size_t i = 0; i < up.size(); ++i) through[i] = gate(through[i], family_.gelu) * up[i];
  return product(through, network + "down", expert);
}

LanguageModel::Vector LanguageModel::network(const Vector& x, const std::string& layer) const {
  if (family_.experts == 0) return gated(x, layer);
  const Vector logits = product(x, layer + "router");
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  order.resize(static_cast<std::size_t>(family_.chosen));
  double sum = 0;
  for (const std::size_t e : order) sum += std::exp(logits[e]);
  Vector result(x.size(), 0);
  for (const std::size_t e : order) {
    const Vector part = gated(x, layer, e);
    for (std::size_t i = 0; i < x.size(); ++i) result[i] += std::exp(logits[e]) / sum * part[i];
  }
  return result;
}

std::vector<double> LanguageModel::next_logits(std::int32_t token) {
  const ModelFamily& f = family_;
  const std::vector<float>& table = weights_.at("embedding");
  const auto first = table.begin() + token * f.width;
  Vector x(first, first + f.width);
  for (double& one : x) one *= f.scales_embedding ? root(f.width) : 1;
  const auto add_to = [&](const Vector& part) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += part[i];
  };
  for (std::int64_t i = 0; i < f.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i) + ".";
    Vector made = product(attended(normed(x, layer + "before"), layer, position_), layer + "output");
    add_to(f.norms_results ? normed(std::move(made), layer + "after") : made);
    made = network(normed(x, layer + "before network"), layer);
    add_to(f.norms_results ? normed(std::move(made), layer + "after network") : made);
  }
  ++position_;
  Vector logits = product(normed(x, "final"), "head");
  for (double& one : logits) one = f.last_softcap > 0 ? f.last_softcap * std::tanh(one / f.last_softcap) : one;
  return logits;
}

}  // namespace vkfuse::test

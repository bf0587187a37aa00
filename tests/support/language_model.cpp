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
  add(name + "gate", {family_.width, family_.inner}, 1 / root(family_.width));
  add(name + "up", {family_.width, family_.inner}, 1 / root(family_.width));
  add(name + "down", {family_.inner, family_.width}, 1 / root(family_.inner));
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
    for (std::int64_t e = 0; e < std::max<std::int64_t>(1, f.experts); ++e)
      add_network(layer + std::to_string(e) + ".");
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
  if (family_.experts == 0) return gated(x, layer + "0.");
  const Tensor logits = matmul(x, weight(layer + "router"));
  const Tensor best = logits.argsort(1, true, family_.chosen);
  const Tensor shares = softmax(logits.take_along(best, 1));
  std::optional<Tensor> sum;
  for (std::int64_t e = 0; e < family_.experts; ++e) {
    const Tensor is_own = eq(best, Tensor::scalar_int(DType::i32, e));
    const Tensor share = select(is_own, shares, Tensor::scalar(DType::f32, 0)).sum({1}, true);
    const Tensor part = share * gated(x, layer + std::to_string(e) + ".");
    sum = sum ? *sum + part : part;
  }
  return *sum;
}

LanguageModel::Step LanguageModel::step(std::int64_t count) const {
  const ModelFamily& f = family_;
  const Tensor start = Tensor::input("start", DType::i32, {1});
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
      const Tensor cache = Tensor::input(layer + name, DType::f32, {1, f.key_heads, f.capacity, f.head});
      return add_output(layer + name + "'", cache.update_rows(start.reshape({}), rows, 2));
    };
    const Tensor keys = written("keys", heads("key", f.key_heads, true));
    const Tensor values = written("values", heads("value", f.key_heads, false));
    const Tensor seen = cached_attention(heads("query", f.heads, true), keys, values, start,
                                         {.softcap = f.softcap, .window = f.window, .part = 16});
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

LanguageModel::Vector LanguageModel::product(const Vector& x, const std::string& name) const {
  const std::vector<float>& w = weights_.at(name);
  const std::size_t columns = w.size() / x.size();
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

LanguageModel::Vector LanguageModel::gated(const Vector& x, const std::string& network) const {
  Vector through = product(x, network + "gate");
  const Vector up = product(x, network + "up");
  for (std::size_t i = 0; i < up.size(); ++i) through[i] = gate(through[i], family_.gelu) * up[i];
  return product(through, network + "down");
}

LanguageModel::Vector LanguageModel::network(const Vector& x, const std::string& layer) const {
  if (family_.experts == 0) return gated(x, layer + "0.");
  const Vector logits = product(x, layer + "router");
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  order.resize(static_cast<std::size_t>(family_.chosen));
  double sum = 0;
  for (const std::size_t e : order) sum += std::exp(logits[e]);
  Vector result(x.size(), 0);
  for (const std::size_t e : order) {
    const Vector part = gated(x, layer + std::to_string(e) + ".");
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

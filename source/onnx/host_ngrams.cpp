// TfIdfVectorizer: how often a text has each of some runs of words.
#include <algorithm>
#include <map>

#include "ir/graph.hpp"
#include "onnx/host_operators.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/operands.hpp"
#include "onnx/positions.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

using List = std::vector<std::int64_t>;

struct Grams {
  std::int64_t shortest = 1, longest = 1, most_skipped = 0;
  bool counts = true, weighs = false;   ///< TF, IDF or both
  std::map<List, std::size_t> entries;  ///< which entry of the pool a run of words is
  List places;                          ///< where the result has the number of an entry
  std::vector<double> weights;          ///< of entries
  std::int64_t size = 0;                ///< of the result
};

/// The pool has all runs of one word, then those of two, and so on; `begins` says where each length begins.
Result<void> add_entries(Grams& grams, const List& pool, const List& begins) {
  const auto end = static_cast<std::int64_t>(pool.size());
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const std::int64_t from = begins[i], to = i + 1 < begins.size() ? begins[i + 1] : end;
    const auto length = static_cast<std::int64_t>(i) + 1;
    if (from < 0 || to < from || to > end || (to - from) % length != 0) {
      return invalid(
          "Attribute 'ngram_counts' is [{}]; it must cut the {} words of the pool into runs of 1, 2 and more.",
          fmt::join(begins, ", "), end);
    }
    for (std::int64_t at = from; at < to; at += length) {
      const std::size_t next = grams.entries.size();
      if (!grams.entries.emplace(List(pool.begin() + at, pool.begin() + at + length), next).second) {
        return invalid("Attribute 'pool_int64s' has a run of {} words twice.", length);
      }
    }
  }
  return {};
}

/// Where the result counts each entry of the pool, and with what weight; fails where there is not one of each.
Result<void> add_places(Grams& grams, List places, std::vector<double> weights) {
  if (places.size() != grams.entries.size())
    return invalid("Attribute 'ngram_indexes' has {} entries; the pool has {} runs.", places.size(),
                   grams.entries.size());
  if (!weights.empty() && weights.size() != places.size())
    return invalid("Attribute 'weights' has {} entries; the pool has {} runs.", weights.size(), places.size());
  for (const std::int64_t place : places) {
    if (place < 0 || place >= kMostPositions)
      return invalid("Attribute 'ngram_indexes' holds {}; it must be 0 to {}.", place, kMostPositions - 1);
    grams.size = std::max(grams.size, place + 1);
  }
  grams.places = std::move(places);
  grams.weights = std::move(weights);
  return {};
}

Result<Grams> grams_of(const NodeContext& node) {
  const Attributes& attributes = node.attributes();
  Grams grams;
  if (attributes.has("pool_strings")) return unsupported("A TfIdfVectorizer of strings is not supported.");
  for (const char* name : {"max_gram_length", "max_skip_count", "min_gram_length", "mode", "ngram_counts",
                           "ngram_indexes", "pool_int64s"}) {
    if (!attributes.has(name)) return invalid("Attribute '{}' is missing.", name);
  }
  VKF_TRY(shortest, attributes.integer("min_gram_length", 1));
  VKF_TRY(longest, attributes.integer("max_gram_length", 1));
  VKF_TRY(skipped, attributes.integer("max_skip_count", 0));
  VKF_TRY(mode, attributes.text("mode", ""));
  VKF_TRY(pool, attributes.integers("pool_int64s"));
  VKF_TRY(begins, attributes.integers("ngram_counts"));
  VKF_TRY(places, attributes.integers("ngram_indexes"));
  VKF_TRY(weights, attributes.reals("weights"));
  if (shortest < 1 || longest < shortest || skipped < 0) {
    return invalid("Runs of {} to {} words with up to {} skipped between them do not exist.", shortest, longest,
                   skipped);
  }
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    return invalid("Attribute 'mode' is {}; it must be 'TF', 'IDF' or 'TFIDF'.", in_quotes(mode));
  grams.shortest = shortest;
  grams.longest = std::min(longest, static_cast<std::int64_t>(begins.size()));  // there are no longer ones
  grams.most_skipped = skipped;
  grams.counts = mode != "IDF";
  grams.weighs = mode != "TF";
  VKF_CHECK_OK(add_entries(grams, pool, begins));
  VKF_CHECK_OK(add_places(grams, std::move(places), std::move(weights)));
  return grams;
}

/// Adds one for every run of `words` in the pool, at its place.
void count_runs(const Grams& grams, std::span<const std::int64_t> words, std::vector<double>& numbers) {
  const auto size = static_cast<std::int64_t>(words.size());
  List run;
  for (std::int64_t length = grams.shortest; length <= grams.longest; ++length) {
    const std::int64_t most = length == 1 ? 0 : std::min(grams.most_skipped, size);
    for (std::int64_t stride = 1; stride <= most + 1; ++stride) {
      for (std::int64_t start = 0; start + (length - 1) * stride < size; ++start) {
        run.clear();
        for (std::int64_t i = 0; i < length; ++i) run.push_back(words[static_cast<std::size_t>(start + i * stride)]);
        const auto found = grams.entries.find(run);
        if (found == grams.entries.end()) continue;
        const double weight = grams.weighs && !grams.weights.empty() ? grams.weights[found->second] : 1;
        double& number = numbers[static_cast<std::size_t>(grams.places[found->second])];
        number = grams.counts ? number + weight : weight;
      }
    }
  }
}

Result<Sizes> result_sizes(const Sizes& words, const Grams& grams) {
  if (words.size() != 1 && words.size() != 2)
    return invalid("The words have rank {}; they must be a list, or one per row.", words.size());
  if (words.size() == 1) return Sizes{grams.size};
  return Sizes{words[0], grams.size};
}

}  // namespace

Result<HostResults> tf_idf_vectorizer(const NodeContext& node) {
  VKF_TRY(grams, grams_of(node));
  const TensorData& x = node.data(0);
  VKF_TRY(sizes, result_sizes(x.sizes, grams));
  VKF_TRY(bytes, byte_count(DType::f32, sizes));
  static_cast<void>(bytes);
  const std::size_t rows = x.sizes.size() == 2 ? static_cast<std::size_t>(x.sizes[0]) : 1;
  const auto length = static_cast<std::size_t>(x.sizes.back());
  TensorData result{{}, DType::f32, std::move(sizes), {}};
  List words(length);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < length; ++i) words[i] = element_int(x, row * length + i);
    std::vector<double> numbers(static_cast<std::size_t>(grams.size));
    count_runs(grams, words, numbers);
    for (const double number : numbers) ir::encode(DType::f32, number, result.bytes);
  }
  return HostResults{std::move(result)};
}

Result<HostTypes> most_of_tf_idf_vectorizer(const NodeContext& node) {
  VKF_TRY(grams, grams_of(node));
  VKF_TRY(words, static_sizes(node.tensor(0).shape()));
  VKF_TRY(sizes, result_sizes(words, grams));
  return HostTypes{{DType::f32, std::move(sizes)}};
}

}  // namespace vkfuse::onnx

// Any bytes as a saved plan, and any change of one by somebody who knows how to make the digest: a sentence, or a plan
// that is valid: it is written and read as itself, and each of its kernels has a text.
#include <nlohmann/json.hpp>

#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "plan/file.hpp"
#include "runtime/shape_buckets.hpp"
#include "support/device.hpp"
#include "support/fuzzer.hpp"
#include "support/planner_graphs.hpp"

namespace vkfuse::test {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<ir::Graph>& graphs() {
  static const std::vector<ir::Graph> all = [] {
    std::vector<ir::Graph> made;
    for (const std::uint64_t seed : {1, 2, 3, 4})
      made.push_back(must(passes::run_pipeline(random_planner_graph(seed, 4 + 4 * static_cast<int>(seed)))));
    return made;
  }();
  return all;
}

/// The first byte says whether the digest is left as it is.
std::vector<std::string> files() {
  std::vector<std::string> all;
  for (const ir::Graph& graph : graphs()) {
    const std::string file = must(plan::to_file(must(plan::make_plan(graph, discrete_gpu()))));
    all.push_back("d" + file);
    all.push_back("f" + file);
  }
  return all;
}

/// A value of the document, any of them as likely as any other of its depth.
Json& any_value(Json& root, std::mt19937_64& random) {
  Json* at = &root;
  while (at->is_structured() && !at->empty() && random() % 5 != 0) {
    auto next = at->begin();
    std::advance(next, static_cast<std::ptrdiff_t>(random() % at->size()));
    at = &*next;
  }
  return *at;
}

std::string mutated_file(const std::string& bytes, const std::string& other, std::mt19937_64& random) {
  const std::string first = bytes.substr(0, 1);
  Json json = Json::parse(bytes.begin() + (bytes.empty() ? 0 : 1), bytes.end(), nullptr, false);
  if (random() % 8 == 0 || json.is_discarded()) return mutated_bytes(bytes, other, random);
  for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
    Json& value = any_value(json, random);
    static const std::vector<Json> words = {
        0,          1,   2,     3,  7,     -1,   100000,  4294967296,    INT64_MAX,     INT64_MIN,
        UINT64_MAX, 0.5, 1e300, "", "f32", true, nullptr, Json::array(), Json::object()};
    switch (random() % 6) {
      case 0: value = words[random() % words.size()]; break;
      case 1:
        if (value.is_number_integer())
          value = value.get<std::uint64_t>() + (random() % 2 == 0 ? 1U : ~std::uint64_t{0});
        break;
      case 2: value = Json(any_value(json, random)); break;
      case 3:
        if (value.is_array()) value.push_back(Json(any_value(json, random)));
        break;
      case 4:
        if (value.is_array() && !value.empty()) value.erase(random() % value.size());
        break;
      default:
        if (value.is_array() && value.size() > 1)
          std::swap(value[random() % value.size()], value[random() % value.size()]);
    }
  }
  return first + json.dump(1, ' ', false, Json::error_handler_t::replace);
}

void expect_sentence(const Error& error) {
  const bool sentence = error.message.ends_with(".") && error.message.find('\n') == std::string::npos &&
                        error.code != ErrorCode::internal;
  if (!sentence) fault(fmt::format("No sentence: {}", error.text()));
}

bool is_plan_of(const std::string& file, const ir::Graph& graph) {
  const auto plan = plan::from_file(file, graph, discrete_gpu());
  if (!plan) {
    expect_sentence(plan.error());
    return false;
  }
  const std::string written = must(plan::to_file(*plan));
  if (must(plan::to_file(must(plan::from_file(written, graph, discrete_gpu())))) != written)
    fault("What was written is read as another plan.");
  const auto steps = must(plan::schedule_all(*plan, {}));
  for (std::size_t i = 0; i < steps.size(); ++i) must(runtime::write_kernels(*plan, i, steps[i], {}));
  return true;
}

bool is_plan(const std::string& bytes) {
  if (bytes.empty()) return false;
  std::string file = bytes.substr(1);
  Json json = Json::parse(file, nullptr, false);
  if (bytes[0] != 'd' && json.is_object()) {
    json.erase("digest");
    json["digest"] = plan::file_digest(json.dump(-1, ' ', false, Json::error_handler_t::replace));
    file = json.dump(1, ' ', false, Json::error_handler_t::replace);
  }
  bool accepted = false;
  for (const ir::Graph& graph : graphs()) accepted |= is_plan_of(file, graph);
  return accepted;
}

}  // namespace
}  // namespace vkfuse::test

VKFUSE_FUZZER(PlanFile, vkfuse::test::is_plan, vkfuse::test::files, 2000, vkfuse::test::mutated_file)

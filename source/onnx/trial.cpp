#include "onnx/trial.hpp"

#include <algorithm>
#include <exception>

#include "onnx/graph_import.hpp"
#include "onnx/proto_file.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

/// What symbols are taken to be where an import asks for numbers: halves, quarters and thirds of it are whole.
constexpr std::int64_t kTriedSize = 24;

bool is_of_what_a_run_gives(const Error& error) {
  return error.code == ErrorCode::unsupported || error.code == ErrorCode::invalid_argument;
}

/// The sizes of inputs, with a number for every symbol; empty where none has one.
std::map<std::string, std::vector<std::int64_t>, std::less<>> tried_sizes(const std::vector<Port>& inputs) {
  std::map<std::string, std::vector<std::int64_t>, std::less<>> sizes;
  bool has_symbols = false;
  for (const Port& port : inputs) {
    for (const Dim& dim : port.shape) {
      has_symbols = has_symbols || dim.is_symbol();
      sizes[port.name].push_back(dim.is_symbol() ? std::min(kTriedSize, dim.facts().max) : dim.size());
    }
  }
  if (!has_symbols) sizes.clear();
  return sizes;
}

std::optional<Refusal> tried(const pb::ModelProto& model, const OnnxOptions& options) {
  const ExternalFiles files{{}, &options.external_data};
  Result<ModelImport> loaded = ModelImport::load(model, files, options, HostUse::allowed);
  if (!loaded) return Refusal{std::move(loaded).error(), {}};
  ModelImport import = *loaded;
  const Result<void> begun = import.begin();
  if (begun || !import.deciding_inputs().empty()) return std::nullopt;
  Refusal refusal{begun.error(), import.failed_node()};
  if (!is_of_what_a_run_gives(refusal.error)) return refusal;
  const Result<std::vector<Port>> inputs = loaded->stated_inputs();
  if (!inputs) return Refusal{inputs.error(), {}};
  const auto sizes = tried_sizes(*inputs);
  if (sizes.empty()) return refusal;
  ModelImport sized = *loaded;
  const Result<void> again = sized.begin(sizes);
  if (again || !sized.deciding_inputs().empty()) return std::nullopt;
  // What these numbers make invalid, others may not.
  if (again.error().code == ErrorCode::invalid_argument && again.error().message != refusal.error.message)
    return std::nullopt;
  return Refusal{again.error(), sized.failed_node()};
}

}  // namespace

Result<void> check_operator(std::string_view domain, std::string_view name, std::int64_t opset) {
  if (find_operator(normalised(domain), name, opset) != nullptr) return {};
  const std::string opsets = opsets_of(normalised(domain), name);
  return unsupported("Operator {} (domain {}, opset {}) is not supported{}.", in_quotes(name),
                     in_quotes(normalised(domain)), opset,
                     opsets.empty() ? "" : fmt::format("; it is in opsets {}", opsets));
}

std::optional<Refusal> try_import(std::span<const std::byte> model, const OnnxOptions& options) try {
  const Result<pb::ModelProto> parsed = parse_model(model, "the model in memory");
  if (!parsed) return Refusal{parsed.error(), {}};
  return tried(*parsed, options);
} catch (const std::exception& failure) {
  return Refusal{{ErrorCode::internal, failure.what(), {}}, {}};
}

}  // namespace vkfuse::onnx

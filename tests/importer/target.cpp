// The bytes of a model, through the importer to a graph, as load_onnx takes a file with no folder beside it: a
// sentence, or a sound model.
#include <new>

#include "api/tensor_node.hpp"
#include "importer/mutate.hpp"
#include "onnx/graph_import.hpp"
#include "onnx/proto_file.hpp"
#include "support/fuzzer.hpp"

namespace vkfuse::onnx {

namespace {

Result<void> to_graph_of(const std::string& bytes) {
  VKF_TRY(message, parse_model(std::as_bytes(std::span(bytes)), "the bytes"));
  VKF_TRY(model, import_model(message, {}, {}));
  VKF_TRY(graph, api::to_graph(model.outputs, model.output_names, model.name));
  static_cast<void>(graph);
  return {};
}

/// What the host may have read: small numbers, others after every part.
HostResults small_values(const HostTypes& types, int part) {
  HostResults values;
  for (const auto& [dtype, sizes] : types) {
    const auto each = static_cast<std::size_t>(size_of(dtype));
    std::size_t count = 1;
    for (const std::int64_t size : sizes) count *= static_cast<std::size_t>(size);
    TensorData value{{}, dtype, sizes, std::vector<std::byte>(count * each)};
    for (std::size_t i = 0; i < count; ++i)
      value.bytes[i * each] = static_cast<std::byte>((i + static_cast<std::size_t>(part)) % 3);
    values.push_back(std::move(value));
  }
  return values;
}

/// The parts of a model that runs on the host between them, for the largest results; a few of them.
Result<void> to_parts_of(const std::string& bytes) {
  VKF_TRY(message, parse_model(std::as_bytes(std::span(bytes)), "the bytes"));
  VKF_TRY(import, ModelImport::load(message, {}, {}, HostUse::allowed));
  VKF_CHECK_OK(import.begin());
  for (int parts = 0; !import.is_finished() && parts < 8; ++parts) {
    std::vector<StepResults> results;
    for (const PlacedStep& placed : import.part().steps) {
      VKF_TRY(types, largest_results(placed.step));
      HostResults values = placed.step.reads ? small_values(types, parts) : HostResults();
      results.push_back({std::move(types), std::move(values)});
    }
    VKF_CHECK_OK(import.resume(results));
  }
  return {};
}

/// Whether there was nothing to object to.
bool is_sound(const Result<void>& done) {
  if (done) return true;
  const Error& error = done.error();
  if (error.code == ErrorCode::internal || error.message.empty()) vkfuse::test::fault(error.text());
  return false;
}

bool import_bytes(const std::string& bytes) try {
  const Result<void> done = to_graph_of(bytes);
  if (is_sound(done)) return true;
  // What is refused for the host's sake is imported once more, with it.
  const std::string& message = done.error().message;
  if (message.find("on the host") == std::string::npos && message.find("when the program runs") == std::string::npos)
    return false;
  return is_sound(to_parts_of(bytes));
} catch (const std::bad_alloc&) {
  vkfuse::test::fault("The importer asks for memory that the model does not state.");
}

}  // namespace
}  // namespace vkfuse::onnx

VKFUSE_FUZZER(Onnx, vkfuse::onnx::import_bytes, vkfuse::onnx::seed_models, 300000, vkfuse::onnx::mutated)

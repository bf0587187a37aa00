#include "importer/target.hpp"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "api/tensor_node.hpp"
#include "onnx/graph_import.hpp"
#include "onnx/proto_file.hpp"

namespace vkfuse::onnx {

namespace {

Result<void> to_graph_of(const std::string& bytes) {
  VKF_TRY(message, parse_model(bytes, "the bytes"));
  VKF_TRY(model, import_model(message, {}, {}));
  VKF_TRY(graph, api::to_graph(model.outputs, model.output_names, model.name));
  static_cast<void>(graph);
  return {};
}

[[noreturn]] void fault(const std::string& what) {
  std::fprintf(stderr, "A fault of the importer: %s\n", what.c_str());
  std::abort();
}

}  // namespace

bool import_bytes(const std::string& bytes) try {
  const Result<void> done = to_graph_of(bytes);
  if (done) return true;
  const Error& error = done.error();
  if (error.code == ErrorCode::internal || error.message.empty()) fault(error.text());
  return false;
} catch (const std::bad_alloc&) {
  fault("memory that the model does not state");
} catch (const std::exception& failure) {
  fault(failure.what());
}

}  // namespace vkfuse::onnx

/// The entry point of libFuzzer.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  vkfuse::onnx::import_bytes({reinterpret_cast<const char*>(data), size});
  return 0;
}

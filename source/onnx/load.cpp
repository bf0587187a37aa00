// The entry point: file to model, and no exception past it.
#include <exception>
#include <new>

#include "onnx/graph_import.hpp"
#include "onnx/proto_file.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {

Result<OnnxModel> load_onnx(const std::filesystem::path& path, const OnnxOptions& options) try {
  VKF_TRY(model, read_model_file(path));
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  Result<OnnxModel> imported = import_model(model, folder, options);
  if (imported) return imported;
  return std::move(imported).error().within(fmt::format("importing {}", in_quotes(path.string())));
} catch (const std::bad_alloc&) {
  return make_error(ErrorCode::out_of_memory, "There is not enough host memory to import {}.",
                    in_quotes(path.string()));
} catch (const std::exception& failure) {
  return make_error(ErrorCode::internal, "Importing {} failed: {}.", in_quotes(path.string()), failure.what());
}

}  // namespace vkfuse::onnx

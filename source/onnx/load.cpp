// The entry point: file to model, and no exception past it.
#include "onnx/load.hpp"

#include <exception>
#include <new>
#include <set>

#include "onnx/graph_import.hpp"
#include "onnx/model_source.hpp"
#include "onnx/proto_file.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {

namespace {

Result<OnnxModel> load(const ModelSource& source, const OnnxOptions& options, HostUse host) try {
  VKF_TRY(model, source.read());
  Result<OnnxModel> imported = import_model(model, source.files(options), options, host);
  if (imported) return imported;
  return std::move(imported).error().within(fmt::format("importing {}", source.name()));
} catch (const std::bad_alloc&) {
  return make_error(ErrorCode::out_of_memory, "There is not enough host memory to import {}.", source.name());
} catch (const std::exception& failure) {
  return make_error(ErrorCode::internal, "Importing {} failed: {}.", source.name(), failure.what());
}

}  // namespace

Result<pb::ModelProto> ModelSource::read() const {
  return path_ ? read_model_file(*path_) : parse_model(bytes_, name_);
}

ExternalFiles ModelSource::files(const OnnxOptions& options) const {
  if (!path_) return {{}, &options.external_data};
  return {path_->has_parent_path() ? path_->parent_path() : std::filesystem::path("."), &options.external_data};
}

Result<OnnxModel> load_onnx(const std::filesystem::path& path, const OnnxOptions& options) {
  return load(path, options, HostUse::never);
}

Result<OnnxModel> load_onnx(std::span<const std::byte> model, const OnnxOptions& options) {
  return load(model, options, HostUse::never);
}

Result<OnnxModel> load_before_host(const std::filesystem::path& path, const OnnxOptions& options) {
  return load(path, options, HostUse::later);
}

Result<std::vector<std::string>> input_names_of(const std::filesystem::path& path) {
  VKF_TRY(model, read_model_file(path));
  std::set<std::string_view> initialisers;
  for (const pb::TensorProto& tensor : model.graph().initializer()) initialisers.insert(tensor.name());
  std::vector<std::string> names;
  for (const pb::ValueInfoProto& info : model.graph().input()) {
    if (!initialisers.contains(info.name())) names.push_back(info.name());
  }
  return names;
}

}  // namespace vkfuse::onnx

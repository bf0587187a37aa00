// Imports that take sizes and elements of inputs where they cannot do without.
#include <algorithm>

#include "onnx/graph_import.hpp"
#include "onnx/host_tensor.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

/// What is invalid of symbols may be sound of sizes, and what is unsupported may be supported.
bool may_be_mended(const Error& error) {
  return error.code == ErrorCode::unsupported || error.code == ErrorCode::invalid_argument;
}

/// The error of an import with what could be given to mend it.
Error with_deciding(Error error, const std::vector<std::string>& deciding) {
  if (deciding.empty() || error.code != ErrorCode::unsupported) return error;
  std::vector<std::string> names;
  for (const std::string& name : deciding) names.push_back(in_quotes(name));
  error.message += fmt::format(" The value of input {} decides it, and may be given.", fmt::join(names, ", "));
  return error;
}

/// Goes on from `loaded` with one constant more after the other until the import begins, by `begin`.
template <typename Begin>
Result<ModelImport> begin_with_constants(const ModelImport& loaded, const GivenInputs& given,
                                         std::vector<std::string>* missing, Begin begin) {
  ModelImport with_constants = loaded;
  for (;;) {
    ModelImport tried = with_constants;
    Result<void> begun = begin(tried);
    if (begun) return tried;
    if (!may_be_mended(begun.error())) return std::move(begun).error();
    const std::vector<std::string> deciding = tried.deciding_inputs();
    bool is_changed = false;
    for (const std::string& name : deciding) {
      const TensorData* value = given.few(name);
      if (value == nullptr) continue;
      with_constants.freeze(name, *value);
      is_changed = true;
    }
    if (is_changed) continue;
    if (missing != nullptr) *missing = deciding;
    return with_deciding(std::move(begun).error(), deciding);
  }
}

}  // namespace

GivenInputs::GivenInputs(const std::map<std::string, TensorData, std::less<>>& values) {
  for (const auto& [name, value] : values) add(name, value.dtype, value.sizes, value.bytes);
}

void GivenInputs::add(const std::string& name, DType dtype, const std::vector<std::int64_t>& sizes,
                      std::span<const std::byte> bytes) {
  sizes_.insert_or_assign(name, sizes);
  if (bytes.size() > kMaxComputedElements * static_cast<std::size_t>(size_of(dtype))) return;
  few_.insert_or_assign(name, TensorData{name, dtype, sizes, {bytes.begin(), bytes.end()}});
}

const TensorData* GivenInputs::few(const std::string& name) const {
  const auto found = few_.find(name);
  return found != few_.end() ? &found->second : nullptr;
}

Result<ModelImport> begin_sized(const ModelImport& loaded, const GivenInputs& given,
                                std::vector<std::string>* deciding) {
  return begin_with_constants(loaded, given, deciding,
                              [&](ModelImport& import) { return import.begin(given.sizes()); });
}

Result<ModelImport> begin_given(const ModelImport& loaded, const GivenInputs& given) {
  return begin_with_constants(loaded, given, nullptr, [&](ModelImport& import) {
    const ModelImport before = import;
    Result<void> begun = import.begin();
    const bool is_done =
        begun ? import.agrees_with(given.sizes()) : given.sizes().empty() || !may_be_mended(begun.error());
    if (is_done) return begun;
    import = before;
    return import.begin(given.sizes());
  });
}

Result<OnnxModel> import_model(const pb::ModelProto& model, const ExternalFiles& files, const OnnxOptions& options,
                               HostUse host) {
  VKF_TRY(loaded, ModelImport::load(model, files, options, host));
  VKF_TRY(import, begin_given(loaded, GivenInputs(options.input_values)));
  return import.model();
}

}  // namespace vkfuse::onnx

// ONNX's own conformance data as models and tensors.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "onnx/host_tensor.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

namespace fs = std::filesystem;

/// Where package libonnx-testdata has them; VKFUSE_ONNX_DATA names those of another release.
inline fs::path data_folder() {
  const char* named = std::getenv("VKFUSE_ONNX_DATA");
  return named != nullptr ? named : "/usr/share/libonnx-testdata/data";
}

inline const fs::path kData = data_folder();

struct Case {
  std::string name;
  OnnxModel model;
  std::vector<TensorData> inputs, outputs;
};

inline std::vector<TensorData> read_all(const fs::path& folder, const std::string& stem) {
  std::vector<TensorData> tensors;
  for (int i = 0;; ++i) {
    Result<TensorData> tensor = read_tensor_proto(folder / fmt::format("{}_{}.pb", stem, i));
    if (!tensor) return tensors;
    tensors.push_back(*std::move(tensor));
  }
}

/// Scalars and lists: what may be a shape, a bound or a ratio.
inline OnnxOptions small_inputs_known(const std::vector<TensorData>& inputs) {
  OnnxOptions options;
  for (const TensorData& input : inputs) {
    if (input.sizes.size() <= 1) options.known_inputs[input.name] = input;
  }
  return options;
}

inline Result<Case> load_case(const fs::path& folder) {
  Case result{folder.filename().string(),
              {},
              read_all(folder / "test_data_set_0", "input"),
              read_all(folder / "test_data_set_0", "output")};
  Result<OnnxModel> model = load_onnx(folder / "model.onnx");
  if (!model && model.error().code == ErrorCode::unsupported) {
    Error first = model.error();
    model = load_onnx(folder / "model.onnx", small_inputs_known(result.inputs));
    if (!model) return first;
  }
  if (!model) return std::move(model).error();
  result.model = *std::move(model);
  // Some files do not carry the input's name, or another: they are in its place.
  const std::vector<std::string>& names = result.model.input_names;
  for (std::size_t i = 0; i < result.inputs.size() && i < names.size(); ++i) {
    if (std::ranges::find(names, result.inputs[i].name) == names.end()) result.inputs[i].name = names[i];
  }
  return result;
}

inline std::vector<fs::path> case_folders(const fs::path& kind) {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(kind, ignored)) folders.push_back(entry.path());
  std::ranges::sort(folders);
  return folders;
}

}  // namespace vkfuse::onnx

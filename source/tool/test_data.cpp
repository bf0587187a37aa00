#include "tool/test_data.hpp"

#include <algorithm>
#include <cstdlib>

#include "onnx/load.hpp"

namespace vkfuse::tool {

namespace fs = std::filesystem;

std::vector<fs::path> numbered_paths(const fs::path& folder, std::string_view prefix) {
  std::vector<std::pair<long, fs::path>> found;
  std::error_code failed_to_list;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed_to_list)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix))
      found.emplace_back(std::strtol(name.c_str() + prefix.size(), nullptr, 10), entry.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  for (auto& entry : found) paths.push_back(std::move(entry.second));
  return paths;
}

Result<std::vector<onnx::TensorData>> read_tensors(const fs::path& folder, std::string_view prefix) {
  std::vector<onnx::TensorData> all;
  for (const fs::path& path : numbered_paths(folder, prefix)) {
    auto tensor = onnx::read_tensor_proto(path);
    if (!tensor) return std::move(tensor).error().within("reading " + path.string());
    all.push_back(*std::move(tensor));
  }
  return all;
}

Result<void> name_inputs(const fs::path& model, std::vector<onnx::TensorData>& inputs) {
  VKF_TRY(names, onnx::input_names_of(model));
  const auto is_given = [&](const std::string& name) {
    return std::ranges::find(inputs, name, &onnx::TensorData::name) != inputs.end();
  };
  for (std::size_t i = 0; i < inputs.size() && i < names.size(); ++i) {
    const bool is_known = std::ranges::find(names, inputs[i].name) != names.end();
    if (!is_known && !is_given(names[i])) inputs[i].name = names[i];
  }
  return {};
}

ModelOptions with_values(ModelOptions options, const std::vector<onnx::TensorData>& inputs) {
  for (const onnx::TensorData& tensor : inputs) {
    if (!tensor.name.empty()) options.values.insert_or_assign(tensor.name, tensor);
  }
  return options;
}

HostTensor host_tensor(onnx::TensorData data, DType requested, const std::optional<DType>& floats) {
  const DType dtype = requested == DType::bf16 && data.dtype == DType::u16 ? requested : data.dtype;
  HostTensor tensor{dtype, std::move(data.sizes), std::move(data.bytes)};
  return floats && tensor.dtype == DType::f32 && requested == *floats ? converted(tensor, requested) : tensor;
}

std::vector<std::optional<HostTensor>> comparable(const std::vector<onnx::TensorData>& files,
                                                  const std::optional<DType>& floats) {
  std::vector<std::optional<HostTensor>> all;
  for (const onnx::TensorData& file : files) {
    all.emplace_back();
    if (!floats || file.dtype != DType::f32) all.back() = host_tensor(file, file.dtype);
  }
  return all;
}

std::vector<bool> random_outputs(const ir::Graph& graph) {
  std::vector<bool> is_random(graph.size());  // operands come before what reads them
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const ir::Node& node = graph.nodes()[i];
    is_random[i] = std::holds_alternative<ir::RandomPayload>(node.payload) ||
                   std::ranges::any_of(node.operands, [&](ir::NodeId id) { return is_random[id]; });
  }
  std::vector<bool> outputs;
  for (const ir::Output& output : graph.outputs()) outputs.push_back(is_random[output.value]);
  return outputs;
}

void drop_random(const ir::Graph& graph, std::vector<std::optional<HostTensor>>& files) {
  const std::vector<bool> random = random_outputs(graph);
  for (std::size_t i = 0; i < files.size() && i < random.size(); ++i) {
    if (random[i]) files[i].reset();
  }
}

}  // namespace vkfuse::tool

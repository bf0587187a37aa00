// ONNX test data: the files of a data set, as inputs of a model and as what its outputs should be.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "tool/model.hpp"

namespace vkfuse::tool {

/// The tensors of one folder test_data_set_*.
struct DataSet {
  std::vector<onnx::TensorData> inputs;   ///< named by name_inputs
  std::vector<onnx::TensorData> outputs;  ///< in the order of the model's
};

/// Entries of a folder whose names are `prefix` and a number, by number.
std::vector<std::filesystem::path> numbered_paths(const std::filesystem::path& folder, std::string_view prefix);

/// The tensors in those files.
Result<std::vector<onnx::TensorData>> read_tensors(const std::filesystem::path& folder, std::string_view prefix);

/// Files carry the input's name; those without, or with one that the model has not, go by position.
Result<void> name_inputs(const std::filesystem::path& model, std::vector<onnx::TensorData>& inputs);

/// How a case is read: as the command says, with the data of its inputs.
ModelOptions with_values(ModelOptions options, const std::vector<onnx::TensorData>& inputs);

/// The test data stores bfloat16 as u16: the graph says which it is. A model whose floats are converted takes its data
/// so.
HostTensor host_tensor(onnx::TensorData data, DType requested, const std::optional<DType>& floats = {});

/// The files of outputs, without those of f32 where the model computes in another dtype: rounding would be compared,
/// not the device.
std::vector<std::optional<HostTensor>> comparable(const std::vector<onnx::TensorData>& files,
                                                  const std::optional<DType>& floats);

/// Which outputs of a graph random numbers decide.
std::vector<bool> random_outputs(const ir::Graph& graph);

/// Drops the files of such outputs: whose numbers those are ONNX leaves open, so that they are compared with
/// the reference alone.
void drop_random(const ir::Graph& graph, std::vector<std::optional<HostTensor>>& files);

}  // namespace vkfuse::tool

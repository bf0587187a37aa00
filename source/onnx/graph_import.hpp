// ModelProto -> Tensors.
#pragma once

#include <filesystem>
#include <map>

#include "base/error.hpp"
#include "onnx/node_import.hpp"
#include "onnx/schema.hpp"
#include "vkfuse/executable.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

/// A step of the host, and under which names a run finds its operands; a known one has none.
struct PlacedStep {
  HostStep step;
  std::vector<std::string> operands;
};

/// What the kernels between two rounds of the host store, and what the host does then.
struct PartPlan {
  std::vector<std::pair<std::string, Tensor>> outputs;  ///< by the names of later parts' inputs
  std::vector<PlacedStep> steps;                        ///< none in the last part
  std::vector<std::pair<std::string, std::string>> results;  ///< in the last part: the model's outputs, and where they are
};

/// The import of a model, which may stop where the host must compute the sizes of what follows. A copy goes on from there
/// by itself, as often as there are other sizes. The model must outlive all of them.
///
///     VKF_TRY(import, ModelImport::load(model, folder, {}, true));
///     VKF_CHECK_OK(import.begin());
///     while (!import.is_finished()) VKF_CHECK_OK(import.resume(sizes of the results of import.part().steps));
class ModelImport {
 public:
  /// Functions and weights. `folder` is where external data may lie; empty refuses it. Where the host is not allowed,
  /// operators that need it are unsupported.
  static Result<ModelImport> load(const pb::ModelProto& model, const std::filesystem::path& folder, const OnnxOptions& options, bool host_allowed);
  /// Gives symbols the sizes that the options state for inputs; begin() does so too.
  Result<void> take_input_sizes();
  /// Inputs, of these sizes where they are named, and all that does not wait for the host.
  Result<void> begin(const std::map<std::string, std::vector<std::int64_t>, std::less<>>& sizes = {});
  /// The next part, for results of the steps of this one that have these dtypes and sizes.
  Result<void> resume(const std::vector<HostTypes>& results);

  /// The inputs as the graph states them, without those that are known.
  [[nodiscard]] Result<std::vector<Port>> stated_inputs() const;

  [[nodiscard]] bool is_finished() const { return is_finished_; }
  [[nodiscard]] const PartPlan& part() const { return part_; }
  /// How later parts call result `output` of step `step` of this one.
  [[nodiscard]] std::string result_name(int step, int output) const;
  /// Inputs; and, of a model without steps of the host, everything.
  [[nodiscard]] const OnnxModel& model() const { return result_; }

 private:
  static constexpr int kMain = 0;

  ModelImport(const pb::ModelProto& model, const OnnxOptions& options, NodeImport nodes) : graph_(&model.graph()), sized_(options), nodes_(std::move(nodes)) {}

  [[nodiscard]] Result<void> check_known_names() const;
  Result<void> import_initialisers(const std::filesystem::path& folder);
  [[nodiscard]] Result<Value> converted_from(const pb::TensorProto& initialiser, const std::filesystem::path& folder) const;
  Result<void> import_inputs();
  Result<void> define_known_input(const pb::ValueInfoProto& info, const TensorType& type, const TensorData& data);
  Result<void> begin_once();
  Result<void> advance();
  Result<void> import_outputs();
  std::string place(const Tensor& tensor, int part);
  void keep(const Value& value);

  const pb::GraphProto* graph_;
  OnnxOptions sized_;  ///< with a size for every symbol that the sizes of inputs decide
  NodeImport nodes_;
  OnnxModel result_;
  PartPlan part_;
  std::string prefix_;
  std::map<std::string, std::int64_t, std::less<>> largest_;  ///< what is promised of symbols
  struct Place {
    Tensor tensor;
    std::string name;
  };
  std::map<const Tensor::Node*, Place> places_;  ///< of values that a part stores
  bool is_finished_ = false;
};

/// Imports a parsed model that needs no host. `folder` as above.
Result<OnnxModel> import_model(const pb::ModelProto& model, const std::filesystem::path& folder,
                               const OnnxOptions& options);

}  // namespace vkfuse::onnx

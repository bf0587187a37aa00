// ModelProto -> Tensors.
#pragma once

#include <map>
#include <span>

#include "base/error.hpp"
#include "onnx/external_data.hpp"
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
  std::vector<std::pair<std::string, std::string>>
      results;  ///< in the last part: the model's outputs, and where they are
};

/// The import of a model, which may stop where the host must compute the sizes of what follows. A copy goes on from
/// there by itself, as often as there are other sizes. The model must outlive all of them.
///
///     VKF_TRY(import, ModelImport::load(model, folder, {}, true));
///     VKF_CHECK_OK(import.begin());
///     while (!import.is_finished()) VKF_CHECK_OK(import.resume(the results of import.part().steps));
class ModelImport {
 public:
  /// Functions and weights. `files` is where external data may lie. Where the host is not allowed,
  /// operators that need it are unsupported.
  static Result<ModelImport> load(const pb::ModelProto& model, const ExternalFiles& files, const OnnxOptions& options,
                                  HostUse host);
  /// Gives symbols the sizes that the options state for inputs; begin() does so too.
  Result<void> take_input_sizes();
  /// Inputs, of these sizes where they are named, and all that does not wait for the host.
  Result<void> begin(const std::map<std::string, std::vector<std::int64_t>, std::less<>>& sizes = {});
  /// The next part, for results of the steps of this one that have these dtypes and sizes, and values where they were
  /// read.
  Result<void> resume(const std::vector<StepResults>& results);

  /// After an error: inputs whose elements would decide what the import asked for and did not know. Named are those
  /// that may become constants for it: integers and booleans, and floats that are one number, or are asked for as they
  /// are; up to kMaxComputedElements of them. Floats that something was computed from are data, which is the device's.
  [[nodiscard]] std::vector<std::string> deciding_inputs() const;
  /// After an error: the position of the graph's node that failed, if one did.
  [[nodiscard]] std::optional<int> failed_node() const;
  /// Makes an input a constant, before begin().
  void freeze(const std::string& name, TensorData value);
  /// Whether the sizes of given inputs agree about every symbol.
  [[nodiscard]] bool agrees_with(const std::map<std::string, std::vector<std::int64_t>, std::less<>>& sizes) const;

  /// The inputs as the graph states them, without those that are known.
  [[nodiscard]] Result<std::vector<Port>> stated_inputs() const;

  [[nodiscard]] bool is_finished() const { return is_finished_; }
  [[nodiscard]] const PartPlan& part() const { return part_; }
  /// The options, with a size for every symbol that the sizes of inputs decide.
  [[nodiscard]] const OnnxOptions& sized() const { return sized_; }
  /// How later parts call result `output` of step `step` of this one.
  [[nodiscard]] std::string result_name(int step, int output) const;
  /// Inputs; and, of a model without steps of the host, everything.
  [[nodiscard]] const OnnxModel& model() const { return result_; }

 private:
  static constexpr int kMain = 0;

  ModelImport(const pb::ModelProto& model, OnnxOptions options, NodeImport nodes)
      : graph_(&model.graph()), sized_(std::move(options)), fixed_dims_(sized_.dims), nodes_(std::move(nodes)) {}

  [[nodiscard]] Result<void> check_given_names(const OnnxOptions& options);
  void note(const std::vector<std::string>& sentences);
  Result<void> import_initialisers(const ExternalFiles& files);
  [[nodiscard]] Result<Value> converted_from(const pb::TensorProto& initialiser, const ExternalFiles& files) const;
  Result<void> import_inputs();
  Result<void> define_known_input(const pb::ValueInfoProto& info, const TensorType& type, const TensorData& data);
  Result<void> begin_once();
  Result<void> advance();
  Result<void> import_outputs();
  std::string place(const Tensor& tensor, int part);
  void keep(const Value& value);

  const pb::GraphProto* graph_;
  OnnxOptions sized_;
  std::map<std::string, std::int64_t, std::less<>> fixed_dims_;  ///< sizes of symbols that the caller has stated
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

/// Elements and sizes that inputs will have.
class GivenInputs {
 public:
  GivenInputs() = default;
  explicit GivenInputs(const std::map<std::string, TensorData, std::less<>>& values);
  void add(const std::string& name, DType dtype, const std::vector<std::int64_t>& sizes,
           std::span<const std::byte> bytes);
  /// Of an input whose elements stay as they are given, if they are.
  void set_sizes(const std::string& name, std::vector<std::int64_t> sizes) {
    sizes_.insert_or_assign(name, std::move(sizes));
  }
  [[nodiscard]] const std::map<std::string, std::vector<std::int64_t>, std::less<>>& sizes() const { return sizes_; }
  /// Null where they are not given, or too many to decide anything.
  [[nodiscard]] const TensorData* few(const std::string& name) const;

 private:
  std::map<std::string, std::vector<std::int64_t>, std::less<>> sizes_;
  std::map<std::string, TensorData, std::less<>> few_;
};

/// Begins the import of a model with the sizes of what is given; and where elements decide what has to be known, with
/// the inputs that do as constants. Where nothing does, `deciding` (may be null) gets the inputs whose values are
/// missing.
Result<ModelImport> begin_sized(const ModelImport& loaded, const GivenInputs& given,
                                std::vector<std::string>* deciding = nullptr);
/// The same as the file states the inputs, wherever that can be; only then are sizes taken.
Result<ModelImport> begin_given(const ModelImport& loaded, const GivenInputs& given);

/// Imports a parsed model that needs no host. `files` as above.
Result<OnnxModel> import_model(const pb::ModelProto& model, const ExternalFiles& files, const OnnxOptions& options,
                               HostUse host = HostUse::never);

}  // namespace vkfuse::onnx

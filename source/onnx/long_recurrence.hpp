// Recurrences over more steps than are planned at once: kernels for a few steps, run again and again between parts.
#pragma once

#include "ir/graph.hpp"
#include "onnx/operator_table.hpp"
#include "onnx/schema.hpp"
#include "vkfuse/executable.hpp"

namespace vkfuse::onnx {

namespace recurrent_operand {
/// Operands of RNN, GRU and LSTM; behind those of DynamicQuantizeLSTM, of a round of one: the least and the largest
/// element of the whole input, which it rounds by.
enum Operand { kInput, kWeights, kRecurrence, kBias, kLengths, kHidden, kCell, kPeepholes, kLeast = 12, kLargest };
}  // namespace recurrent_operand

/// Steps that compile_onnx plans as parts of one graph; longer sequences are run in rounds.
inline constexpr std::int64_t kMostStepsAtOnce = 64;

/// A node of RNN, GRU or LSTM whose sequence is run in rounds of equally many steps, and a last one of what is left.
/// Planning takes as long for any length.
class LongRecurrence {
 public:
  /// The kernels of one direction: for rounds of all steps, and for the last one, which may have fewer.
  struct Rounds {
    Executable full;
    std::optional<Executable> rest;
  };

  /// Fails as the operator's import does for few steps, where sizes are not known, and where there are no steps.
  /// `proto` is the node that `node` is of, `caller` as of Attributes.
  static Result<std::shared_ptr<const LongRecurrence>> make(const NodeContext& node, const pb::NodeProto& proto,
                                                            const Attributes* caller);

  /// Whether a run reads an operand's elements; of the others, its kernels hold them.
  [[nodiscard]] bool reads(int operand) const { return reads_[static_cast<std::size_t>(operand)]; }
  /// Of the results: all steps' states, and the last.
  [[nodiscard]] const HostTypes& types() const { return types_; }
  /// "32 steps, 18 times, and 24 steps"
  [[nodiscard]] std::string text() const;

  [[nodiscard]] Result<std::vector<Rounds>> compile(const Device& device, const CompileOptions& options) const;
  /// Operands that are read have their elements.
  [[nodiscard]] Result<HostResults> run(const std::vector<Rounds>& rounds,
                                        const std::vector<std::optional<Value>>& operands) const;

 private:
  struct Direction {
    bool is_reversed = false;
    ir::Graph full;
    std::optional<ir::Graph> rest;
  };
  /// What a round begins with, and leaves.
  struct States {
    TensorData h;
    std::optional<TensorData> c;
  };

  Result<void> take_sizes(const NodeContext& node);
  Result<ir::Graph> graph_of(const NodeContext& node, const pb::NodeProto& proto, const Attributes* caller,
                             std::int64_t number, std::int64_t steps) const;
  Result<Value> operand_of(const NodeContext& node, int operand, std::int64_t number, std::int64_t steps) const;
  [[nodiscard]] States initial(const std::vector<std::optional<Value>>& operands, std::int64_t number) const;
  Result<TensorData> run_direction(const Rounds& rounds, const std::vector<std::optional<Value>>& operands,
                                   std::int64_t number, States& states) const;
  [[nodiscard]] std::int64_t longest(const std::vector<std::optional<Value>>& operands) const;
  [[nodiscard]] vkfuse::Inputs inputs_of(const std::vector<std::optional<Value>>& operands) const;

  std::vector<Direction> directions_;
  std::vector<bool> reads_;
  HostTypes types_;
  DType dtype_ = DType::f32;
  std::int64_t steps_ = 0, batch_ = 0, hidden_ = 0;
  bool batch_first_ = false, has_cell_ = false, rounds_ = false;
};

}  // namespace vkfuse::onnx

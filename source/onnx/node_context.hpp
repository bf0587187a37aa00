// What an operator's import function sees of its node.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "onnx/attributes.hpp"
#include "onnx/value.hpp"

namespace vkfuse::onnx {

struct OperatorRow;

/// One node: its row, opset, attributes and operands. The importer has already checked the number
/// of operands, their dtype against the row, and that the row knows every attribute.
class NodeContext {
 public:
  NodeContext(const OperatorRow& row, std::int64_t opset, int outputs, Attributes attributes,
              std::vector<const Value*> inputs)
      : row_(row), opset_(opset), outputs_(outputs), attributes_(std::move(attributes)), inputs_(std::move(inputs)) {}

  [[nodiscard]] const OperatorRow& row() const { return row_; }
  [[nodiscard]] std::int64_t opset() const { return opset_; }
  /// How many outputs the node names, counting gaps.
  [[nodiscard]] int outputs() const { return outputs_; }
  [[nodiscard]] const Attributes& attributes() const { return attributes_; }

  [[nodiscard]] int inputs() const { return static_cast<int>(inputs_.size()); }
  /// Whether an optional operand is given.
  [[nodiscard]] bool has(int i) const { return i < inputs() && inputs_[static_cast<std::size_t>(i)] != nullptr; }
  /// Precondition: has(i).
  [[nodiscard]] const Value& value(int i) const { return *inputs_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] const Tensor& tensor(int i) const { return value(i).tensor; }
  [[nodiscard]] DType dtype(int i = 0) const { return tensor(i).dtype(); }

  /// Where random numbers start that state no seed: from the node's name, so that every run gives the same.
  [[nodiscard]] std::uint64_t own_seed() const { return own_seed_; }
  void set_own_seed(std::uint64_t seed) { own_seed_ = seed; }

  /// Recurrences over longer sequences are not imported.
  [[nodiscard]] std::int64_t most_steps() const { return most_steps_; }
  void set_most_steps(std::int64_t steps) { most_steps_ = steps; }

  /// Caches have their full length: OnnxOptions::shared_caches.
  [[nodiscard]] bool shared_caches() const { return shared_caches_; }
  void set_shared_caches(bool shared) { shared_caches_ = shared; }

  /// Where operands go whose elements are asked for and not known; it must outlive the node. None: nowhere.
  void note_asked(std::vector<Tensor>* asked) { asked_ = asked; }

  /// The elements of an operand that is known. Precondition: value(i).known.
  [[nodiscard]] const TensorData& data(int i) const { return *value(i).known; }
  /// The operand's elements; an error that names it when they are only known when the program runs.
  [[nodiscard]] Result<TensorData> known(int i, std::string_view what) const;
  /// The same for a list of sizes or axes (integers of rank 0 or 1).
  [[nodiscard]] Result<std::vector<std::int64_t>> known_list(int i, std::string_view what) const;

  /// The same where sizes of inputs that are symbols may stand among the numbers; nothing for what is neither.
  [[nodiscard]] Result<std::vector<std::optional<Dim>>> known_dims(int i, std::string_view what) const;

  /// Every operand, for variadic operators.
  [[nodiscard]] std::vector<Tensor> tensors() const;

 private:
  void ask(int i) const;

  const OperatorRow& row_;
  std::int64_t opset_;
  int outputs_;
  Attributes attributes_;
  std::vector<const Value*> inputs_;
  std::vector<Tensor>* asked_ = nullptr;
  std::uint64_t own_seed_ = 0;
  bool shared_caches_ = false;
  std::int64_t most_steps_ = 512;  // every step adds nodes, and waits for the step before
};

}  // namespace vkfuse::onnx

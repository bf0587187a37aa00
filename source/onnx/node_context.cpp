#include "onnx/node_context.hpp"

#include <algorithm>

#include "onnx/host_tensor.hpp"
#include "onnx/symbolic_sizes.hpp"

namespace vkfuse::onnx {

void NodeContext::ask(int i) const {
  if (asked_ != nullptr && !value(i).known && !value(i).sequence) asked_->push_back(tensor(i));
}

Result<TensorData> NodeContext::known(int i, std::string_view what) const {
  ask(i);
  if (!value(i).known) {
    return unsupported(
        "The {} (operand {}) is only known when the program runs; it must be a constant, or be given "
        "as a known input.",
        what, i);
  }
  return *value(i).known;
}

Result<std::vector<std::optional<Dim>>> NodeContext::known_dims(int i, std::string_view what) const {
  using Dims = std::vector<std::optional<Dim>>;
  ask(i);  // an operator that takes a part of the elements may miss the others
  if (!value(i).known && is_integer(dtype(i))) {
    Dims elements = symbolic_elements(tensor(i));
    if (std::ranges::any_of(elements, [](const std::optional<Dim>& dim) { return dim.has_value(); })) return elements;
  }
  VKF_TRY(list, known_list(i, what));
  return Dims(list.begin(), list.end());
}

Result<std::vector<std::int64_t>> NodeContext::known_list(int i, std::string_view what) const {
  if (!value(i).known && is_integer(dtype(i))) {
    // Sizes that are symbols may have cancelled each other out.
    const std::vector<std::optional<Dim>> elements = symbolic_elements(tensor(i));
    const auto is_number = [](const std::optional<Dim>& dim) { return dim && !dim->is_symbol(); };
    if (!elements.empty() && std::ranges::all_of(elements, is_number)) {
      std::vector<std::int64_t> values;
      for (const std::optional<Dim>& dim : elements) values.push_back(dim->size());
      return values;
    }
  }
  VKF_TRY(data, known(i, what));
  if (!is_integer(data.dtype) || data.sizes.size() > 1) {
    return invalid("The {} (operand {}) must be a list of integers; it is {} of rank {}.", what, i, name_of(data.dtype),
                   data.sizes.size());
  }
  std::vector<std::int64_t> values(element_count(data));
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = element_int(data, k);
  return values;
}

std::vector<Tensor> NodeContext::tensors() const {
  std::vector<Tensor> result;
  for (const Value* input : inputs_) {
    if (input != nullptr) result.push_back(input->tensor);
  }
  return result;
}

}  // namespace vkfuse::onnx

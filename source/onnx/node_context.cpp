#include "onnx/node_context.hpp"

#include "onnx/host_tensor.hpp"

namespace vkfuse::onnx {

Result<TensorData> NodeContext::known(int i, std::string_view what) const {
  if (!value(i).known) {
    return unsupported(
        "The {} (operand {}) is only known when the program runs; it must be a constant, or be given "
        "as a known input.",
        what, i);
  }
  return *value(i).known;
}

Result<std::vector<std::int64_t>> NodeContext::known_list(int i, std::string_view what) const {
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

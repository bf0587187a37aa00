// Gradients through C.
#include <algorithm>
#include <memory>

#include "autodiff/graph_gradients.hpp"
#include "c/handles.hpp"
#include "vkfuse/gradients.hpp"

using namespace vkfuse;  // NOLINT: this file is the C side

vkf_status vkf_gradients(vkf_graph* graph, const vkf_gradient_request* request, vkf_value* gradients) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(graph, "graph"));
    VKF_CHECK_OK(c::need(request, "request"));
    VKF_TRY(outputs, c::list(request->outputs, request->output_count, "outputs"));
    VKF_TRY(wrt, c::list(request->wrt, request->wrt_count, "values that gradients are with respect to"));
    VKF_TRY(cotangents, c::list(request->cotangents, request->cotangent_count, "cotangents"));
    VKF_TRY(stated, c::list(request->constants, request->constant_count, "constants"));
    if (!wrt.empty()) VKF_CHECK_OK(c::need(gradients, "place for the gradients"));
    std::vector<ir::NodeId> constants(stated.begin(), stated.end());
    constants.insert(constants.end(), graph->constants.begin(), graph->constants.end());
    VKF_TRY(made, autodiff::append_gradients(graph->graph, {outputs, wrt, cotangents, constants}));
    std::copy(made.begin(), made.end(), gradients);
    return {};
  });
}

vkf_status vkf_tensor_gradients(const vkf_tensor_gradient_request* request, vkf_tensor** made) {
  if (request != nullptr && made != nullptr) std::fill_n(made, request->wrt_count, nullptr);
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(request, "request"));
    VKF_TRY(outputs, c::to_tensors(request->outputs, request->output_count, "outputs"));
    VKF_TRY(wrt, c::to_tensors(request->wrt, request->wrt_count, "tensors that gradients are with respect to"));
    VKF_TRY(cotangents, c::to_tensors(request->cotangents, request->cotangent_count, "cotangents"));
    if (!wrt.empty()) VKF_CHECK_OK(c::need(made, "place for the gradients"));
    std::vector<std::unique_ptr<vkf_tensor>> all;
    for (Tensor& one : gradients(outputs, wrt, cotangents)) {
      if (!one.valid()) return Error(one.error());
      all.emplace_back(new vkf_tensor{std::move(one)});  // clang 14 initialises no aggregate in parentheses
    }
    for (std::size_t i = 0; i < all.size(); ++i) made[i] = all[i].release();
    return {};
  });
}

vkf_status vkf_tensor_stop_gradient(const vkf_tensor* tensor, vkf_tensor** made) {
  return c::make(made, "tensor", [&]() -> Result<vkf_tensor> {
    VKF_CHECK_OK(c::need(tensor, "tensor"));
    return vkf_tensor{stop_gradient(tensor->tensor)};
  });
}

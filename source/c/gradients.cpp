// Gradients through C.
#include "autodiff/graph_gradients.hpp"
#include "c/handles.hpp"

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

#include "ort/compute.hpp"

#include <algorithm>

namespace vkfuse::ort {

struct Compute::Callbacks {
  static OrtStatus* create_state(OrtNodeComputeInfo* self, OrtNodeComputeContext*, void** state) noexcept {
    *state = self;  // runs share all there is
    return nullptr;
  }
  static OrtStatus* compute(OrtNodeComputeInfo* self, void*, OrtKernelContext* context) noexcept {
    const auto& node = *static_cast<Compute*>(self);
    return guarded(node.host_, [&] { return node.run(context); });
  }
  static void release_state(OrtNodeComputeInfo*, void*) noexcept {}
};

Compute::Compute(const Host& host, std::shared_ptr<const Provider::Group> group, Places places)
    : OrtNodeComputeInfo{}, host_(host), group_(std::move(group)), places_(std::move(places)) {
  ort_version_supported = kApiVersion;
  CreateState = Callbacks::create_state;
  Compute::OrtNodeComputeInfo::Compute = Callbacks::compute;
  ReleaseState = Callbacks::release_state;
}

Result<void> Compute::run(OrtKernelContext* context) const {
  Inputs inputs;
  for (const auto& [name, at] : places_.inputs) {
    const OrtValue* value = nullptr;
    VKF_CHECK_OK(taken(host_, host_.api->KernelContext_GetInput(context, at, &value)));
    if (value == nullptr) return invalid("Input '{}' of a group of nodes is not given.", name);
    VKF_TRY(elements, elements_of(host_, value));
    inputs.emplace(name, HostView(elements.bytes, std::move(elements.sizes)));
  }
  VKF_TRY(results, group_->program.run(inputs));
  for (const auto& [name, at] : places_.outputs) {
    const HostTensor& result = results.at(name);
    OrtValue* value = nullptr;
    VKF_CHECK_OK(taken(
        host_, host_.api->KernelContext_GetOutput(context, at, result.sizes.data(), result.sizes.size(), &value)));
    if (value == nullptr) continue;  // nobody reads it
    void* data = nullptr;
    std::size_t bytes = 0;
    VKF_CHECK_OK(taken(host_, host_.api->GetTensorMutableData(value, &data)));
    VKF_CHECK_OK(taken(host_, host_.api->GetTensorSizeInBytes(value, &bytes)));
    if (bytes != result.bytes.size())
      return make_error(ErrorCode::internal, "Output '{}' has {} bytes here and {} in ONNX Runtime.", name,
                        result.bytes.size(), bytes);
    std::ranges::copy(result.bytes, static_cast<std::byte*>(data));
  }
  return {};
}

}  // namespace vkfuse::ort

#include "ort/compute.hpp"
#include "base/host_memory.hpp"

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

Compute::Compute(const Host& host, const Blocks& blocks, Device device, std::shared_ptr<const Provider::Group> group,
                 Places places)
    : OrtNodeComputeInfo{},
      host_(host),
      blocks_(blocks),
      device_(std::move(device)),
      group_(std::move(group)),
      places_(std::move(places)) {
  ort_version_supported = kApiVersion;
  CreateState = Callbacks::create_state;
  Compute::OrtNodeComputeInfo::Compute = Callbacks::compute;
  ReleaseState = Callbacks::release_state;
}

std::optional<Buffer> Compute::bindable(const Blocks::Window& window, std::size_t bytes) const {
  if (window.device.state() != device_.state() || window.buffer.vulkan_handle() == 0) return std::nullopt;
  if (window.offset == 0) return window.buffer;
  // ONNX Runtime packs values into one block; it places them at multiples of 256.
  const Result<Buffer> made = device_.wrap(window.buffer.vulkan_handle(), (bytes + 15) / 16 * 16, window.offset);
  return made ? std::optional(*made) : std::nullopt;
}

Result<onnx::RunInput> Compute::input(OrtKernelContext* context, std::size_t at, std::vector<std::byte>& held) const {
  const OrtValue* value = nullptr;
  VKF_CHECK_OK(taken(host_, host_.api->KernelContext_GetInput(context, at, &value)));
  if (value == nullptr) return invalid("Input {} of a group of nodes is not given.", at);
  VKF_TRY(elements, elements_of(host_, value));
  const auto window = blocks_.find(elements.bytes.data());
  if (!window) return onnx::RunInput(HostView(elements.bytes, std::move(elements.sizes)));
  if (auto buffer = bindable(*window, elements.bytes.size()))
    return onnx::RunInput(onnx::DeviceTensor{*std::move(buffer), std::move(elements.sizes)});
  held = zero_bytes(elements.bytes.size());
  VKF_CHECK_OK(window->buffer.read(held, window->offset));
  return onnx::RunInput(HostView(std::span<const std::byte>(held), std::move(elements.sizes)));
}

Result<std::span<std::byte>> Compute::memory_of_output(OrtKernelContext* context, std::string_view name,
                                                       std::span<const std::int64_t> sizes) const {
  const auto output =
      std::ranges::find(places_.outputs, name, [](const auto& place) { return std::string_view(place.first); });
  if (output == places_.outputs.end()) return std::span<std::byte>();
  OrtValue* value = nullptr;
  VKF_CHECK_OK(
      taken(host_, host_.api->KernelContext_GetOutput(context, output->second, sizes.data(), sizes.size(), &value)));
  return value == nullptr ? std::span<std::byte>() : memory_of(host_, value);
}

Result<void> Compute::run(OrtKernelContext* context) const {
  onnx::RunInputs inputs;
  std::vector<std::vector<std::byte>> held(places_.inputs.size());
  for (std::size_t i = 0; i < places_.inputs.size(); ++i) {
    VKF_TRY(given, input(context, places_.inputs[i].second, held[i]));
    inputs.emplace(places_.inputs[i].first, std::move(given));
  }
  /// Results for blocks that kernels cannot be bound to.
  std::vector<std::pair<Blocks::Window, std::vector<std::byte>>> copied;
  copied.reserve(places_.outputs.size());
  VKF_CHECK_OK(group_->program.run_placed(
      inputs, [&](std::string_view name, DType, std::span<const std::int64_t> sizes) -> Result<onnx::ResultPlace> {
        VKF_TRY(memory, memory_of_output(context, name, sizes));
        if (memory.empty()) return onnx::ResultPlace();
        const auto window = blocks_.find(memory.data());
        if (!window) return onnx::ResultPlace(memory);
        if (auto buffer = bindable(*window, memory.size())) return onnx::ResultPlace(*std::move(buffer));
        copied.emplace_back(*window, zero_bytes(memory.size()));
        return onnx::ResultPlace(std::span(copied.back().second));
      }));
  for (const auto& [window, bytes] : copied) VKF_CHECK_OK(window.buffer.write(bytes, window.offset));
  return {};
}

}  // namespace vkfuse::ort

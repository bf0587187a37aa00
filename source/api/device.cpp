#include <algorithm>

#include "api/states.hpp"
#include "base/mutations.hpp"
#include "runtime/caps.hpp"
#include "spirv/compile.hpp"

namespace vkfuse {

namespace {

/// "yes", or why a feature tier of the open device is not used.
Result<std::map<std::string, std::string>> tier_sentences(runtime::FeatureTiers& tiers) {
  std::map<std::string, std::string> all;
  for (int i = 0; i < kFeatureTierCount; ++i) {
    const FeatureTier tier = static_cast<FeatureTier>(i);
    VKF_TRY(reason, tiers.missing(tier));
    std::string& text = all[std::string(name_of(tier))];
    text = reason.empty() ? "yes" : reason;
    if (tier == FeatureTier::cooperative_matrix && reason.empty()) {
      VKF_TRY(matrices, tiers.matrices().describe());
      text = "yes (" + matrices + ")";
    }
  }
  return all;
}

}  // namespace

namespace api {

void EarlyBytes::set(runtime::EarlyCopy copy) {
  const std::lock_guard<std::mutex> lock(mutex_);
  copy_ = std::move(copy);
}

void EarlyBytes::forget() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (VKF_PLANT(early_copy_never_forgotten, true, false)) copy_.reset();
}

std::optional<std::uint64_t> EarlyBytes::made_by() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return copy_ ? std::optional(copy_->made.value()) : std::nullopt;
}

Result<bool> EarlyBytes::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  std::optional<runtime::EarlyCopy> copy;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    copy = copy_;
  }
  if (!copy) return false;
  VKF_CHECK_OK(copy->made.wait());
  copy->slot->read(offset, bytes);
  return true;
}

}  // namespace api

std::uint64_t Buffer::size() const { return state_ ? state_->bytes : 0; }

namespace {

Result<void> check_window(const Buffer& buffer, std::uint64_t offset, std::size_t bytes) {
  if (buffer.state() == nullptr) return invalid("The buffer is empty: allocate one with Device::allocate.");
  if (offset > buffer.size() || bytes > buffer.size() - offset) {
    return invalid("{} bytes at offset {} do not fit a buffer of {} bytes.", bytes, offset, buffer.size());
  }
  return {};
}

}  // namespace

Result<void> Buffer::write(std::span<const std::byte> bytes, std::uint64_t offset) const {
  return api::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(check_window(*this, offset, bytes.size()));
    state_->may_change();
    VKF_CHECK_OK(state_->context->device()->wait_idle());  // a host program may use the buffer in other ways
    return state_->context->transfer().upload(state_->buffer, state_->offset + offset, bytes);
  });
}

Result<void> Buffer::read(std::span<std::byte> bytes, std::uint64_t offset) const {
  return api::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(check_window(*this, offset, bytes.size()));
    VKF_TRY(is_read, state_->early.read(offset, bytes));
    if (is_read) return {};
    return state_->context->transfer().download(state_->buffer, state_->offset + offset, bytes);
  });
}

Result<Device> Device::open(const DeviceOptions& options) {
  return api::guarded([&]() -> Result<Device> {
    VKF_TRY(context, runtime::Context::open(options));
    return Device(std::make_shared<State>(State{std::move(context)}));
  });
}

Result<std::vector<DeviceDescription>> Device::list(bool self_test) {
  return api::guarded([&]() -> Result<std::vector<DeviceDescription>> {
    VKF_TRY(devices, runtime::Context::devices());
    std::vector<DeviceDescription> all;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const vulkan::DeviceInfo& info = devices[i];
      all.push_back(runtime::describe(static_cast<int>(i), info, info.caps));
      if (!self_test) continue;
      DeviceOptions options;
      options.name = std::to_string(i);
      auto context = runtime::Context::open(options);
      if (!context) {
        all.back().feature_tiers["T0"] = "The device cannot be opened: " + context.error().message;
        continue;
      }
      VKF_TRY(feature_tiers, tier_sentences((*context)->tiers()));
      all.back().feature_tiers = std::move(feature_tiers);
      VKF_TRY(costs, (*context)->tiers().costs());
      if (costs) {
        all.back().costs = {{"copy_gb_per_s", costs->copy_gb_per_s},
                            {"launch_us", costs->launch_us},
                            {"gflops", costs->gflops},
                            {"accesses_per_us", costs->accesses_per_us},
                            {"compute_units", costs->compute_units}};
      }
    }
    return all;
  });
}

DeviceDescription Device::description() const {
  const vulkan::DeviceInfo& info = state_->context->device()->info();
  return runtime::describe(state_->context->opened().index(), info, info.caps);
}

StoreReport Device::store() const {
  const store::Store& store = state_->context->opened().store();
  return {store.path(), store.off(), store.loaded(), store.missed(), store.saved(), spirv::compiler_calls()};
}

namespace {

Result<Buffer> allocate_rows(const std::shared_ptr<runtime::Context>& context, std::uint64_t bytes,
                             std::int64_t element_bytes, std::span<const std::int64_t> sizes) {
  const std::int64_t each =
      schedule::bytes_of_each_buffer(element_bytes, sizes, context->opened().caps().memory.max_allocation);
  // Of several pieces the first ones would be taken for nothing.
  const std::uint64_t left = context->memory().left(vulkan::BufferKind::device);
  if (bytes > left && bytes > static_cast<std::uint64_t>(each)) {
    return make_error(ErrorCode::out_of_memory, "A buffer of {} bytes does not fit the device '{}', which has {} left.",
                      bytes, context->device()->info().name, left);
  }
  VKF_TRY(buffer, context->make_buffer(bytes, static_cast<std::uint64_t>(each)));
  return Buffer(std::make_shared<Buffer::State>(context, std::move(buffer), bytes));
}

/// Memory for a tensor of these sizes.
Result<Buffer> allocate_tensor(const std::shared_ptr<runtime::Context>& context, DType dtype,
                               std::span<const std::int64_t> sizes) {
  VKF_CHECK_OK(check_dtype(dtype));
  const auto negative = std::find_if(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 0; });
  if (negative != sizes.end()) return invalid("A buffer is asked for a tensor with the size {}.", *negative);
  VKF_TRY(bytes, byte_count(dtype, sizes));
  return allocate_rows(context, static_cast<std::uint64_t>(bytes), size_of(dtype), sizes);
}

}  // namespace

Result<Buffer> Device::allocate(std::uint64_t bytes) const {
  return api::guarded([&]() -> Result<Buffer> {
    const std::int64_t sizes[] = {static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, INT64_MAX))};
    return allocate_rows(state_->context, bytes, 1, sizes);
  });
}

Result<Buffer> Device::allocate(DType dtype, std::span<const std::int64_t> sizes) const {
  return api::guarded([&]() -> Result<Buffer> { return allocate_tensor(state_->context, dtype, sizes); });
}

Result<Buffer> Device::upload(DType dtype, std::span<const std::int64_t> sizes,
                              std::span<const std::byte> elements) const {
  return api::guarded([&]() -> Result<Buffer> {
    VKF_TRY(buffer, allocate_tensor(state_->context, dtype, sizes));
    if (elements.size() != buffer.size())
      return invalid("A tensor of type {} takes {} bytes, and {} were given.",
                     to_text(TensorType{dtype, Shape(sizes.begin(), sizes.end())}), buffer.size(), elements.size());
    Buffer::State& made = *buffer.state();
    VKF_CHECK_OK(state_->context->transfer().fill(made.buffer, made.offset, elements, made.filled));
    return buffer;
  });
}

}  // namespace vkfuse

#include "runtime/context.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "runtime/caps.hpp"

namespace vkfuse::runtime {

namespace {

int preference(DeviceType type) {
  switch (type) {
    case DeviceType::discrete: return 0;
    case DeviceType::integrated: return 1;
    case DeviceType::virtualized: return 2;
    case DeviceType::cpu: return 3;
    case DeviceType::other: return 4;
  }
  return 5;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// The device meant by an index, a UUID or a part of a name; the best one for an empty string.
Result<std::size_t> choose(const std::vector<vulkan::DeviceInfo>& devices, const std::string& requested) {
  if (requested.empty()) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < devices.size(); ++i) {
      if (preference(devices[i].type) < preference(devices[best].type)) best = i;
    }
    return best;
  }
  const bool number =
      std::all_of(requested.begin(), requested.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (number && requested.size() < 6 && std::stoul(requested) < devices.size())
    return std::size_t{std::stoul(requested)};
  std::string names;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (lower(requested) == vulkan::to_text(devices[i].device_uuid) ||
        lower(devices[i].name).find(lower(requested)) != std::string::npos)
      return i;
    names += (i == 0 ? "" : ", ") + std::to_string(i) + ": " + devices[i].name;
  }
  return make_error(ErrorCode::not_found, "No Vulkan device matches '{}'; there are {}.", requested, names);
}

/// One Vulkan instance for the process: SwiftShader leaks thread-local keys each time the loader
/// unloads it, and dies after some hundred times. It is never destroyed: at exit NVIDIA's driver may be
/// gone before us, and calling into it crashes.
Result<std::shared_ptr<vulkan::Instance>> process_instance() {
  static std::mutex mutex;
  static auto& kept = *new std::shared_ptr<vulkan::Instance>();
  const std::lock_guard<std::mutex> lock(mutex);
  if (kept == nullptr) {
    VKF_TRY(instance, vulkan::Instance::create());
    kept = std::move(instance);
  }
  return kept;
}

}  // namespace

Result<std::vector<vulkan::DeviceInfo>> Context::devices() {
  VKF_TRY(instance, process_instance());
  return instance->devices();
}

Result<std::shared_ptr<Context>> Context::open(const DeviceOptions& options, const vulkan::DeviceOptions& without) {
  VKF_TRY(instance, process_instance());
  std::string requested = options.name;
  const char* environment = std::getenv("VKFUSE_DEVICE");
  if (requested.empty() && environment != nullptr) requested = environment;
  VKF_TRY(index, choose(instance->devices(), requested));
  Caps caps = instance->devices()[index].caps;
  VKF_CHECK_OK(restrict_caps(options, caps));
  VKF_TRY(device, vulkan::Device::create(instance, index, without));
  return over(device, index, caps, options);
}

Result<std::shared_ptr<Context>> Context::adopt(std::shared_ptr<const vulkan::Instance> instance,
                                                const vulkan::ExternalDevice& external, const DeviceOptions& options) {
  VKF_TRY(index, instance->index_of(external.physical_device));
  VKF_TRY(device, vulkan::Device::adopt(std::move(instance), external));
  Caps caps = device->caps();
  VKF_CHECK_OK(restrict_caps(options, caps));
  return over(device, index, caps, options);
}

namespace {

/// Those of all contexts of the process, which may be of one GPU. Never destroyed: a context may outlive main().
struct AllSpares {
  std::mutex mutex;
  std::vector<std::weak_ptr<SpareBuffers>> of_contexts;
};
AllSpares& all_spares() {
  static auto* const all = new AllSpares();
  return *all;
}

void add_spares(const std::shared_ptr<SpareBuffers>& spares) {
  AllSpares& all = all_spares();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::erase_if(all.of_contexts, [](const auto& one) { return one.expired(); });
  all.of_contexts.push_back(spares);
}

bool free_all_spares() {
  AllSpares& all = all_spares();
  std::vector<std::shared_ptr<SpareBuffers>> alive;  // let go after the lock is
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    for (const auto& one : all.of_contexts) {
      if (auto spares = one.lock()) alive.push_back(std::move(spares));
    }
  }
  bool any = false;
  for (const auto& spares : alive) any = spares->forget() || any;
  return any;
}

}  // namespace

Context::Context(const std::shared_ptr<vulkan::Device>& device, std::size_t index, const Caps& caps,
                 const DeviceOptions& options, std::uint64_t memory_limit)
    : opened_(device, index, caps, options), tiers_(opened_), kernels_(opened_), memory_(device, memory_limit) {
  add_spares(memory_.spares());
  device->keep_spare_memory(free_all_spares);
  const char* const requested = std::getenv("VKFUSE_SELF_CHECK");
  self_checks_ = options.self_check.value_or(requested != nullptr && std::string_view(requested) == "1");
}

Result<vulkan::Buffer> Context::make_buffer(std::uint64_t bytes, std::uint64_t each) {
  if (each == 0 || bytes <= each) {
    const std::uint64_t padded = std::max<std::uint64_t>((bytes + 15) / 16, 1) * 16;
    if (auto spare = memory_.spares()->take(padded)) return *std::move(spare);
  }
  memory_.make_room(bytes);
  return vulkan::Buffer::create(device(), bytes, vulkan::BufferKind::device, each);
}

Result<std::shared_ptr<Context>> Context::over(const std::shared_ptr<vulkan::Device>& device, std::size_t index,
                                               const Caps& caps, const DeviceOptions& options) {
  const std::uint64_t heap = vulkan::expected_placement(*device, vulkan::BufferKind::device).heap_bytes;
  VKF_TRY(memory, restrict_memory(options, heap));
  return std::shared_ptr<Context>(new Context(device, index, caps, options, memory));
}

std::shared_ptr<const ReadbackSlots::Slot> Context::take_readback_slot() {
  std::call_once(made_slots_, [&] {
    if (auto made = ReadbackSlots::create(device())) slots_ = *std::move(made);
  });
  return slots_ ? ReadbackSlots::take(slots_) : nullptr;
}

}  // namespace vkfuse::runtime

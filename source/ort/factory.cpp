#include "ort/factory.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

namespace vkfuse::ort {
namespace {

/// How ONNX Runtime begins the keys of a provider's options in a session's.
std::string option_prefix() {
  std::string prefix = std::string("ep.") + kProviderName + ".";
  std::ranges::transform(prefix, prefix.begin(), [](char c) { return static_cast<char>(std::tolower(c)); });
  return prefix;
}

Result<std::map<std::string, std::string, std::less<>>> options_of(const Host& host, const OrtSessionOptions* session) {
  OrtKeyValuePairs* pairs = nullptr;
  VKF_CHECK_OK(taken(host, host.api->GetSessionOptionsConfigEntries(session, &pairs)));
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  std::size_t count = 0;
  host.api->GetKeyValuePairs(pairs, &keys, &values, &count);
  const std::string prefix = option_prefix();
  std::map<std::string, std::string, std::less<>> options;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view key = keys[i];
    if (key.starts_with(prefix)) options.emplace(key.substr(prefix.size()), values[i]);
  }
  host.api->ReleaseKeyValuePairs(pairs);
  return options;
}

}  // namespace

struct Factory::Callbacks {
  static Factory& of(OrtEpFactory* self) { return *static_cast<Factory*>(self); }

  static const char* get_name(const OrtEpFactory*) noexcept { return kProviderName; }
  static const char* get_vendor(const OrtEpFactory*) noexcept { return "vkfuse"; }
  static std::uint32_t get_vendor_id(const OrtEpFactory*) noexcept { return kVendor; }
  static const char* get_version(const OrtEpFactory*) noexcept { return VKFUSE_VERSION; }
  static bool is_stream_aware(const OrtEpFactory*) noexcept { return false; }

  static OrtStatus* create(OrtEpFactory* self, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*,
                           std::size_t, const OrtSessionOptions* options, const OrtLogger* logger,
                           OrtEp** made) noexcept {
    Factory& factory = of(self);
    *made = nullptr;
    return guarded(factory.host_, [&]() -> Result<void> {
      VKF_TRY(provider, factory.make(options, logger));
      *made = provider.release();
      return {};
    });
  }
  static void release(OrtEpFactory*, OrtEp* provider) noexcept { delete static_cast<Provider*>(provider); }

  static OrtStatus* create_allocator(OrtEpFactory* self, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                                     OrtAllocator** allocator) noexcept {
    Factory& factory = of(self);
    *allocator = nullptr;
    return guarded(factory.host_, [&]() -> Result<void> {
      *allocator = new Allocator(factory.blocks_, [&factory] { return factory.shared_device(); });
      return {};
    });
  }
  static void release_allocator(OrtEpFactory* self, OrtAllocator* allocator) noexcept {
    delete static_cast<Allocator*>(allocator);
    of(self).blocks_.drop_idle();
  }
  static OrtStatus* create_transfer(OrtEpFactory* self, OrtDataTransferImpl** transfer) noexcept {
    Factory& factory = of(self);
    *transfer = nullptr;
    return guarded(factory.host_, [&]() -> Result<void> {
      *transfer = new Transfer(factory.host_, factory.blocks_);
      return {};
    });
  }
};

Result<std::unique_ptr<Factory>> Factory::create(const Host& host) {
  OrtMemoryInfo* memory = nullptr;
  // Without an alignment: one that is stated is part of what makes two devices of Python the same.
  VKF_CHECK_OK(taken(host, host.api->CreateMemoryInfo_V2("vkfuse", OrtMemoryInfoDeviceType_GPU, kVendor, 0,
                                                         OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator, &memory)));
  return std::unique_ptr<Factory>(new Factory(host, memory));
}

Factory::Factory(const Host& host, const OrtMemoryInfo* memory) : OrtEpFactory{}, host_(host), blocks_(memory) {
  ort_version_supported = kApiVersion;
  GetName = Callbacks::get_name;
  GetVendor = Callbacks::get_vendor;
  GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const* devices, std::size_t count,
                           OrtEpDevice** offered, std::size_t most, std::size_t* made) noexcept -> OrtStatus* {
    Factory& factory = Callbacks::of(self);
    *made = 0;
    return guarded(factory.host_, [&] { return factory.offer({devices, count}, {offered, most}, *made); });
  };
  CreateEp = Callbacks::create;
  ReleaseEp = Callbacks::release;
  GetVendorId = Callbacks::get_vendor_id;
  GetVersion = Callbacks::get_version;
  CreateAllocator = Callbacks::create_allocator;
  ReleaseAllocator = Callbacks::release_allocator;
  CreateDataTransfer = Callbacks::create_transfer;
  IsStreamAware = Callbacks::is_stream_aware;
}

/// One device: the first GPU that ONNX Runtime lists, or the processor where it lists none, as in containers. Which
/// Vulkan device works is the session's to say (option "device").
Result<void> Factory::offer(std::span<const OrtHardwareDevice* const> devices, std::span<OrtEpDevice*> offered,
                            std::size_t& count) {
  const auto is = [&](OrtHardwareDeviceType type) {
    return [&, type](const OrtHardwareDevice* device) { return host_.api->HardwareDevice_Type(device) == type; };
  };
  auto found = std::ranges::find_if(devices, is(OrtHardwareDeviceType_GPU));
  if (found == devices.end()) found = std::ranges::find_if(devices, is(OrtHardwareDeviceType_CPU));
  if (found == devices.end() || offered.empty()) return {};
  VKF_CHECK_OK(taken(host_, host_.ep_api->CreateEpDevice(this, *found, nullptr, nullptr, &offered[0])));
  VKF_CHECK_OK(taken(host_, host_.ep_api->EpDevice_AddAllocatorInfo(offered[0], blocks_.info())));
  count = 1;
  return {};
}

Result<std::unique_ptr<Provider>> Factory::make(const OrtSessionOptions* session, const OrtLogger* logger) {
  VKF_TRY(given, options_of(host_, session));
  VKF_TRY(options, parse_options(given));
  VKF_TRY(device, open(options, logger));
  VKF_TRY(contexts, read_context_options(host_, session));
  options.contexts = std::move(contexts);
  return std::make_unique<Provider>(host_, blocks_, std::move(device), std::move(options), logger);
}

Result<Device> Factory::shared_device() {
  {
    const std::scoped_lock lock(mutex_);
    if (auto state = last_.lock()) return Device(std::move(state));
  }
  return open({}, nullptr);
}

Result<Device> Factory::open(const ProviderOptions& options, const OrtLogger*) {
  const std::scoped_lock lock(mutex_);
  std::weak_ptr<Device::State>& known =
      devices_[fmt::format("{}\n{}\n{}", options.device, options.store.enabled, options.store.folder)];
  if (auto state = known.lock()) {
    last_ = state;
    return Device(std::move(state));
  }
  DeviceOptions device_options;
  device_options.name = options.device;
  device_options.store = options.store;
  VKF_TRY(device, Device::open(device_options));
  last_ = known = device.state();
  return device;
}

}  // namespace vkfuse::ort

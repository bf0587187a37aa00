// Devices through C, and those of a host program.
#include <algorithm>

#include "c/handles.hpp"
#include "vkfuse/interop.hpp"

namespace vkfuse::c {

namespace {

Result<DeviceOptions> to_device_options(const vkf_device_options* given) {
  VKF_TRY(known, options(given, "device options"));
  DeviceOptions made;
  if (known.name != nullptr) made.name = known.name;
  VKF_TRY(disable, list(known.disable, known.disable_count, "names to disable"));
  for (const char* name : disable) {
    VKF_CHECK_OK(need(name, "name to disable"));
    made.disable.emplace_back(name);
  }
  if (known.cache != nullptr) {
    made.store.enabled = std::string_view(known.cache) != "off";
    made.store.folder = known.cache;
  }
  if (known.cache_limit != 0) made.store.limit_bytes = known.cache_limit;
  VKF_TRY(limits, list(known.limits, known.limit_count, "limits"));
  for (const vkf_limit& limit : limits) {
    VKF_CHECK_OK(need(limit.name, "name of a limit"));
    made.limits[limit.name] = limit.value;
  }
  if (known.log != nullptr) {
    made.log = [log = known.log, user = known.log_user](LogLevel level, std::string_view sentence) {
      log(user, static_cast<vkf_log_level>(level), std::string(sentence).c_str());
    };
  }
  if (known.self_check != 0) made.self_check = true;
  return made;
}

vkf_device opened(Device device) {
  std::string name = device.description().name;
  StoreReport store = device.store();
  return vkf_device{std::move(device), std::move(name), std::move(store.folder), std::move(store.off)};
}

Result<HostDevice> to_host(const vkf_host_device* given) {
  VKF_CHECK_OK(need(given, "host's device"));
  VKF_TRY(known, options(given, "members of the host's device"));
  HostDevice host;
  host.get_instance_proc_addr = known.get_instance_proc_addr;
  host.instance = known.instance;
  host.physical_device = known.physical_device;
  host.device = known.device;
  host.queue = known.queue;
  host.queue_family = known.queue_family;
  host.api_version = known.api_version;
  host.create_info = known.create_info;
  if (known.lock_queue != nullptr) host.lock_queue = [known] { known.lock_queue(known.user); };
  if (known.unlock_queue != nullptr) host.unlock_queue = [known] { known.unlock_queue(known.user); };
  if (known.allocate != nullptr) {
    host.allocator.allocate = [known](std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type, bool mapped) {
      const vkf_host_memory block = known.allocate(known.user, bytes, alignment, type, mapped ? 1 : 0);
      return HostMemory{block.memory, block.offset, block.mapped};
    };
  }
  if (known.release != nullptr) {
    host.allocator.release = [known](const HostMemory& block) {
      const vkf_host_memory back{block.memory, block.offset, block.mapped};
      known.release(known.user, &back);
    };
  }
  return host;
}

}  // namespace

}  // namespace vkfuse::c

static_assert(static_cast<int>(vkfuse::LogLevel::warning) == VKF_LOG_WARNING,
              "levels have the same numbers in both languages");

using namespace vkfuse;  // NOLINT: this file is the C side

vkf_status vkf_device_open(const vkf_device_options* options, vkf_device** made) {
  return c::make(made, "device", [&]() -> Result<vkf_device> {
    VKF_TRY(requested, c::to_device_options(options));
    VKF_TRY(device, Device::open(requested));
    return c::opened(std::move(device));
  });
}

vkf_status vkf_device_adopt(const vkf_host_device* host, const vkf_device_options* options, vkf_device** made) {
  return c::make(made, "device", [&]() -> Result<vkf_device> {
    VKF_TRY(external, c::to_host(host));
    VKF_TRY(requested, c::to_device_options(options));
    VKF_TRY(device, Device::adopt(external, requested));
    return c::opened(std::move(device));
  });
}

void vkf_device_free(vkf_device* device) { delete device; }

const char* vkf_device_name(const vkf_device* device) { return device == nullptr ? nullptr : device->name.c_str(); }

vkf_status vkf_device_describe(const vkf_device* device, char** made) {
  if (made != nullptr) *made = nullptr;
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(device, "device"));
    return c::hand_out(to_json(device->device.description()), made);
  });
}

vkf_status vkf_device_list(int self_test, char** made) {
  if (made != nullptr) *made = nullptr;
  return c::guarded([&]() -> Result<void> {
    VKF_TRY(devices, Device::list(self_test != 0));
    std::string all;
    for (const DeviceDescription& one : devices) all += (all.empty() ? "" : ",\n") + to_json(one);
    return c::hand_out("[" + all + "]", made);
  });
}

vkf_status vkf_device_limit(const vkf_device* device, const char* name, uint64_t* value) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(device, "device"));
    VKF_CHECK_OK(c::need(name, "name of the limit"));
    VKF_CHECK_OK(c::need(value, "place for the limit"));
    const DeviceDescription description = device->device.description();
    const auto found = description.limits.find(name);
    if (found == description.limits.end())
      return make_error(ErrorCode::not_found, "There is no limit named '{}'; 'vkfuse devices' lists them.", name);
    *value = found->second;
    return {};
  });
}

vkf_status vkf_device_feature(const vkf_device* device, const char* name, int* has) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(device, "device"));
    VKF_CHECK_OK(c::need(name, "name of the feature"));
    VKF_CHECK_OK(c::need(has, "place for the answer"));
    const std::vector<std::string> features = device->device.description().features;
    *has = std::find(features.begin(), features.end(), name) != features.end() ? 1 : 0;
    return {};
  });
}

vkf_status vkf_device_store(const vkf_device* device, vkf_store_report* report) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(device, "device"));
    VKF_CHECK_OK(c::need(report, "store report"));
    VKF_TRY(known, c::options(report, "members of the store report"));
    const StoreReport store = device->device.store();
    known.loaded = store.loaded;
    known.missed = store.missed;
    known.saved = store.saved;
    known.compiler_calls = store.compiler_calls;
    known.folder = device->folder.c_str();
    known.off = device->off.c_str();
    known.size = report->size;
    std::memcpy(report, &known, std::min(report->size, sizeof known));
    return {};
  });
}

vkf_status vkf_buffer_wrap(const vkf_device* device, uint64_t vk_buffer, uint64_t bytes, uint64_t offset,
                           vkf_buffer** made) {
  return c::make(made, "buffer", [&]() -> Result<vkf_buffer> {
    VKF_CHECK_OK(c::need(device, "device"));
    VKF_TRY(buffer, device->device.wrap(vk_buffer, bytes, offset));
    return vkf_buffer{std::move(buffer)};
  });
}

uint64_t vkf_buffer_vulkan_handle(const vkf_buffer* buffer) {
  return buffer == nullptr ? 0 : buffer->buffer.vulkan_handle();
}

vkf_status vkf_record(const vkf_program* program, void* command_buffer, const vkf_bindings* bindings,
                      vkf_recording** made) {
  return c::make(made, "recording", [&]() -> Result<vkf_recording> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_TRY(bound, c::to_bindings(*program, bindings));
    if (!bound.donated.empty())
      return invalid("The input '{}' is donated to a recording, which may be submitted again.", *bound.donated.begin());
    VKF_TRY(recording, program->executable.record(command_buffer, bound));
    return vkf_recording{std::move(recording)};
  });
}

void vkf_recording_free(vkf_recording* recording) { delete recording; }

// A host program with Vulkan of its own: its device, its buffers, its memory, its command buffers.
#include "api/states.hpp"
#include "runtime/host_run.hpp"
#include "support/device.hpp"
#include "support/folder.hpp"
#include "vkfuse/vkfuse.hpp"
#include "vulkan/command_buffer.hpp"
#include "vulkan/query.hpp"
#include "vulkan/timeline.hpp"

#include <algorithm>
#include <cstring>
#include <set>

namespace vkfuse::test {
namespace {

using vulkan::DeviceFunctions;
using vulkan::FeatureChain;

/// One for the process: a software driver dies after some hundred instances.
const std::shared_ptr<vulkan::Instance>& host_instance() {
  static auto& kept = *new std::shared_ptr<vulkan::Instance>(must(vulkan::Instance::create()));
  return kept;
}

/// A program with a VkDevice. What it makes goes when it does.
struct Host {
  VkPhysicalDevice physical = host_instance()->physical_device(0);
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  std::uint32_t family = 0;
  DeviceFunctions vk;
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  VkDeviceQueueCreateInfo queues{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  float priority = 1;
  VkCommandPool pool = VK_NULL_HANDLE;
  VkCommandBuffer commands = VK_NULL_HANDLE;

  explicit Host(const void* chain = nullptr, const std::vector<const char*>& extensions = {},
                const VkPhysicalDeviceFeatures* core = nullptr) {
    const auto& functions = host_instance()->functions();
    family = must(vulkan::choose_queue_family(functions, physical)).index;
    queues.queueFamilyIndex = family;
    queues.queueCount = 1;
    queues.pQueuePriorities = &priority;
    info.pNext = chain;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queues;
    info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    info.pEnabledFeatures = core;
    must(functions.call(functions.CreateDevice, physical, &info, nullptr, &device));
    must(vk.load(functions, device));
    vk.GetDeviceQueue(device, family, 0u, &queue);
    VkCommandPoolCreateInfo of_pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    of_pool.queueFamilyIndex = family;
    must(vk.call(vk.CreateCommandPool, device, &of_pool, nullptr, &pool));
    VkCommandBufferAllocateInfo of_commands{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool,
                                            VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    must(vk.call(vk.AllocateCommandBuffers, device, &of_commands, &commands));
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() {
    vk.DestroyCommandPool(device, pool, nullptr);
    vk.DestroyDevice(device, nullptr);
  }

  [[nodiscard]] HostDevice lend() const {
    HostDevice external;
    external.instance = host_instance()->handle();
    external.get_instance_proc_addr = reinterpret_cast<void (*)()>(host_instance()->functions().get_instance_proc_addr);
    external.physical_device = physical;
    external.device = device;
    external.queue = queue;
    external.queue_family = family;
    external.api_version = VK_API_VERSION_1_3;
    external.create_info = &info;
    return external;
  }

  void begin() {
    const VkCommandBufferBeginInfo blank{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    must(vk.call(vk.BeginCommandBuffer, commands, &blank));
  }
  void submit_and_wait(int times) {
    must(vk.call(vk.EndCommandBuffer, commands));
    VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands;
    for (int i = 0; i < times; ++i) {
      must(vk.call(vk.QueueSubmit, queue, 1u, &submit, VkFence(VK_NULL_HANDLE)));
      must(vk.call(vk.QueueWaitIdle, queue));
    }
  }
};

/// Memory of the host that the tests look into: one VkBuffer, mapped.
struct HostBuffer {
  Host& host;
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  std::uint8_t* bytes = nullptr;

  HostBuffer(Host& owner, std::uint64_t size) : host(owner) {
    VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.size = size;
    info.usage =
        VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    must(host.vk.call(host.vk.CreateBuffer, host.device, &info, nullptr, &buffer));
    VkMemoryRequirements needs{};
    host.vk.GetBufferMemoryRequirements(host.device, buffer, &needs);
    VkPhysicalDeviceMemoryProperties memories{};
    host_instance()->functions().GetPhysicalDeviceMemoryProperties(host.physical, &memories);
    constexpr VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    std::uint32_t type = 0;
    while ((needs.memoryTypeBits >> type & 1u) == 0 || (memories.memoryTypes[type].propertyFlags & wanted) != wanted)
      ++type;
    const VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, needs.size, type};
    must(host.vk.call(host.vk.AllocateMemory, host.device, &allocate, nullptr, &memory));
    must(host.vk.call(host.vk.BindBufferMemory, host.device, buffer, memory, VkDeviceSize{0}));
    void* view = nullptr;
    must(host.vk.call(host.vk.MapMemory, host.device, memory, VkDeviceSize{0}, VkDeviceSize{VK_WHOLE_SIZE},
                      VkMemoryMapFlags{0}, &view));
    bytes = static_cast<std::uint8_t*>(view);
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  ~HostBuffer() {
    host.vk.DestroyBuffer(host.device, buffer, nullptr);
    host.vk.FreeMemory(host.device, memory, nullptr);
  }
  [[nodiscard]] std::uint64_t number() const { return (std::uint64_t)buffer; }
};

DeviceOptions no_store() {
  DeviceOptions options;
  options.store.enabled = false;
  return options;
}

std::vector<float> floats(std::size_t count, float first) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = first + static_cast<float>(i);
  return all;
}

/// y = x / sum(x) + x[reversed]: two kernels at least without fusion, with an intermediate value between them.
Result<Executable> program_on(const Device& device, int n) {
  const Tensor x = Tensor::input("x", DType::f32, {n});
  CompileOptions options;
  options.fusion = false;
  return compile(device, {x / x.sum({0}, true) + x.reverse({0})}, options);
}

std::vector<float> expected(const std::vector<float>& x) {
  double sum = 0;
  for (const float one : x) sum += one;
  std::vector<float> y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(static_cast<float>(x[i] / sum) + x[x.size() - 1 - i]);
  return y;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5F * std::abs(want[i])) << i;
}

TEST(Interop, RecordsIntoAHostsCommandBufferOnWindowsOfItsBuffer) {
  Host host;
  constexpr int n = 45;  // 180 bytes, of which the last vector holds one element
  HostBuffer memory(host, 1024);
  std::memset(memory.bytes, 0xAB, 1024);
  const std::vector<float> x = floats(n, 1);
  {
    const Device device = must(Device::adopt(host.lend(), no_store()));
    const Executable program = must(program_on(device, n));
    ASSERT_GT(program.kernel_count(), 1);
    const Buffer in = must(device.wrap(memory.number(), 192, 256));
    const Buffer out = must(device.wrap(memory.number(), 192, 512));
    EXPECT_EQ(in.size(), 192U);
    EXPECT_EQ(in.vulkan_handle(), memory.number());
    host.begin();
    const Recording kept = must(program.record(host.commands, {{{"x", in}}, {{"y", out}}, {}}));
    std::memcpy(memory.bytes + 256, x.data(), n * sizeof(float));
    host.submit_and_wait(3);
  }
  std::vector<float> y(n);
  std::memcpy(y.data(), memory.bytes + 512, n * sizeof(float));
  expect_near(y, expected(x));
  for (std::size_t i = 0; i < 1024; ++i) {
    const bool ours = (i >= 256 && i < 448) || (i >= 512 && i < 704);
    ASSERT_TRUE(ours || memory.bytes[i] == 0xAB) << "byte " << i << " is not vkfuse's";
  }
}

TEST(Interop, AProgramRunsOnADeviceWithNothingEnabledAndLocksTheQueue) {
  Host host;
  int locks = 0;
  int held = 0;
  HostDevice external = host.lend();
  external.create_info = nullptr;
  external.api_version = 0;
  external.get_instance_proc_addr = nullptr;
  external.lock_queue = [&] {
    ++locks;
    EXPECT_EQ(++held, 1);
  };
  external.unlock_queue = [&] { EXPECT_EQ(--held, 0); };
  {
    const Device device = must(Device::adopt(external, no_store()));
    EXPECT_EQ(device.description().name, host_instance()->devices()[0].name);
    for (const char* name : {"storage_16bit", "float16", "int64", "float64", "subgroup_size_control"}) {
      for (const std::string& feature : device.description().features) EXPECT_NE(feature, name);
    }
    const Executable program = must(program_on(device, 100));
    const std::vector<float> x = floats(100, -3);
    const int before = locks;
    const Outputs outputs = must(program.run({{"x", HostView(x)}}));
    EXPECT_GT(locks, before);
    const auto got = outputs.at("y").as<float>();
    expect_near({got.begin(), got.end()}, expected(x));
    HostBuffer memory(host, 1024);
    const Buffer in = must(device.wrap(memory.number(), 400, 0));
    const Buffer out = must(device.wrap(memory.number(), 400, 512));
    const int submitted = locks;
    host.begin();
    const Recording kept = must(program.record(host.commands, {{{"x", in}}, {{"y", out}}, {}}));
    EXPECT_EQ(locks, submitted) << "recording does not use the queue";
    host.submit_and_wait(1);
  }
  EXPECT_EQ(held, 0);
}

TEST(Interop, UsesTheFeaturesThatTheHostHasEnabledAndNoOthers) {
  FeatureChain all;
  must(all.query(host_instance()->functions(), host_instance()->physical_device(0)));
  // In the structures of a version, and the two ways in which features of 1.0 are enabled.
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  v12.shaderFloat16 = all.float16_int8.shaderFloat16;
  v12.timelineSemaphore = VK_TRUE;
  VkPhysicalDeviceFeatures core{};
  core.shaderInt64 = all.core.features.shaderInt64;
  const auto features_of = [](const Host& host) {
    const std::vector<std::string> names = must(Device::adopt(host.lend(), no_store())).description().features;
    return std::set<std::string>(names.begin(), names.end());
  };
  const auto of_device = [&] {
    const std::vector<std::string> names = device().description().features;
    return std::set<std::string>(names.begin(), names.end());
  }();
  const std::set<std::string> togglable{"storage_16bit", "storage_8bit", "float16", "int8",
                                        "int16",         "int64",        "float64", "subgroup_size_control",
                                        "full_subgroups"};
  const auto enabled_of = [&](const std::set<std::string>& names) {
    std::set<std::string> kept;
    for (const std::string& name : names) {
      if (togglable.count(name) != 0) kept.insert(name);
    }
    return kept;
  };
  const auto offered = [&](std::set<std::string> names) {
    std::erase_if(names, [&](const std::string& name) { return of_device.count(name) == 0; });
    return names;
  };
  {
    const Host host(&v12, {}, &core);
    EXPECT_EQ(enabled_of(features_of(host)), offered({"float16", "int64"}));
    EXPECT_TRUE(must(Device::adopt(host.lend(), no_store())).state()->context->device()->has_timeline());
  }
  {
    VkPhysicalDeviceFeatures2 second{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    second.features.shaderFloat64 = all.core.features.shaderFloat64;
    VkPhysicalDevice16BitStorageFeatures halves{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
    halves.storageBuffer16BitAccess = all.storage16.storageBuffer16BitAccess;
    second.pNext = &halves;
    const Host host(&second);
    EXPECT_EQ(enabled_of(features_of(host)), offered({"float64", "storage_16bit"}));
    EXPECT_FALSE(must(Device::adopt(host.lend(), no_store())).state()->context->device()->has_timeline());
  }
  {
    const Host host(&all.core, all.extensions);
    EXPECT_EQ(features_of(host), of_device);
  }
}

TEST(Interop, MemoryComesFromTheHostsAllocatorAndGoesBack) {
  Host host;
  struct Block {
    VkDeviceMemory memory;
    std::uint64_t offset;
  };
  std::set<std::uint64_t> lent_blocks;
  int mapped_blocks = 0;
  HostDevice external = host.lend();
  bool exhausted = false;
  external.allocator.allocate = [&](std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type, bool mapped) {
    if (exhausted) return HostMemory{};
    const std::uint64_t offset = 3 * alignment;  // as from a larger block
    const VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, bytes + offset, type};
    HostMemory block;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    must(host.vk.call(host.vk.AllocateMemory, host.device, &info, nullptr, &memory));
    block.memory = (std::uint64_t)memory;
    block.offset = offset;
    if (mapped) {
      ++mapped_blocks;
      void* view = nullptr;
      must(host.vk.call(host.vk.MapMemory, host.device, memory, VkDeviceSize{offset}, VkDeviceSize{bytes},
                        VkMemoryMapFlags{0}, &view));
      block.mapped = view;
    }
    lent_blocks.insert(block.memory);
    return block;
  };
  external.allocator.release = [&](const HostMemory& block) {
    EXPECT_EQ(lent_blocks.erase(block.memory), 1U);
    host.vk.FreeMemory(host.device, (VkDeviceMemory)block.memory, nullptr);
  };
  {
    const Device device = must(Device::adopt(external, no_store()));
    const Executable program = must(program_on(device, 64));
    const std::vector<float> x = floats(64, 2);
    const auto outputs = must(program.run({{"x", HostView(x)}}));
    const auto got = outputs.at("y").as<float>();
    expect_near({got.begin(), got.end()}, expected(x));
    EXPECT_FALSE(lent_blocks.empty());
    EXPECT_GT(mapped_blocks, 0) << "what is copied through must be mapped";
    exhausted = true;
    const auto refused = device.allocate(4096);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
    EXPECT_NE(refused.error().message.find("The host's allocator has no 4096 bytes"), std::string::npos)
        << refused.error().text();
  }
  EXPECT_TRUE(lent_blocks.empty());
}

/// What is recorded, as seen by an entry point of the host's that stands in front of the driver's.
struct Seen {
  struct Call {
    bool barrier = false;
    VkPipelineStageFlags before = 0, after = 0;
    VkAccessFlags written = 0, read = 0;
  };
  std::vector<Call> calls;
  PFN_vkGetInstanceProcAddr instance = nullptr;
  PFN_vkGetDeviceProcAddr device = nullptr;
  PFN_vkCmdDispatch dispatch = nullptr;
  PFN_vkCmdPipelineBarrier barrier = nullptr;
};
Seen seen;

VKAPI_ATTR void VKAPI_CALL see_dispatch(VkCommandBuffer commands, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  seen.calls.push_back({});
  seen.dispatch(commands, x, y, z);
}
VKAPI_ATTR void VKAPI_CALL see_barrier(VkCommandBuffer commands, VkPipelineStageFlags before,
                                       VkPipelineStageFlags after, VkDependencyFlags flags, std::uint32_t count,
                                       const VkMemoryBarrier* barriers, std::uint32_t buffers,
                                       const VkBufferMemoryBarrier* of_buffers, std::uint32_t images,
                                       const VkImageMemoryBarrier* of_images) {
  seen.calls.push_back({true, before, after, barriers->srcAccessMask, barriers->dstAccessMask});
  seen.barrier(commands, before, after, flags, count, barriers, buffers, of_buffers, images, of_images);
}
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL see_device(VkDevice device, const char* name) {
  const PFN_vkVoidFunction found = seen.device(device, name);
  if (std::strcmp(name, "vkCmdDispatch") == 0) {
    seen.dispatch = reinterpret_cast<PFN_vkCmdDispatch>(found);
    return reinterpret_cast<PFN_vkVoidFunction>(see_dispatch);
  }
  if (std::strcmp(name, "vkCmdPipelineBarrier") != 0) return found;
  seen.barrier = reinterpret_cast<PFN_vkCmdPipelineBarrier>(found);
  return reinterpret_cast<PFN_vkVoidFunction>(see_barrier);
}
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL see_instance(VkInstance instance, const char* name) {
  const PFN_vkVoidFunction found = seen.instance(instance, name);
  if (std::strcmp(name, "vkGetDeviceProcAddr") != 0) return found;
  seen.device = reinterpret_cast<PFN_vkGetDeviceProcAddr>(found);
  return reinterpret_cast<PFN_vkVoidFunction>(see_device);
}

TEST(Interop, CallsGoThroughTheHostsEntryPointAndARecordingHasItsBarriers) {
  Host host;
  HostBuffer memory(host, 1024);
  seen.instance = host_instance()->functions().get_instance_proc_addr;
  HostDevice external = host.lend();
  external.get_instance_proc_addr = reinterpret_cast<void (*)()>(see_instance);
  const Device device = must(Device::adopt(external, no_store()));
  const Executable program = must(program_on(device, 45));
  const Buffer in = must(device.wrap(memory.number(), 192, 256));
  const Buffer out = must(device.wrap(memory.number(), 192, 512));
  host.begin();
  seen.calls.clear();
  must(program.record(host.commands, {{{"x", in}}, {{"y", out}}, {}}));
  const auto& calls = seen.calls;
  constexpr VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                 transfer = VK_PIPELINE_STAGE_TRANSFER_BIT, of_host = VK_PIPELINE_STAGE_HOST_BIT;
  ASSERT_GE(calls.size(), 5U);
  EXPECT_TRUE(calls.front().barrier && calls.front().before == (compute | transfer) && calls.front().after == compute);
  EXPECT_EQ(calls.front().written, VkAccessFlags{VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT});
  EXPECT_EQ(calls.front().read, VkAccessFlags{VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT});
  EXPECT_TRUE(calls.back().barrier && calls.back().before == compute &&
              calls.back().after == (compute | transfer | of_host));
  EXPECT_EQ(calls.back().written, VkAccessFlags{VK_ACCESS_SHADER_WRITE_BIT});
  EXPECT_NE(calls.back().read & VK_ACCESS_HOST_READ_BIT, 0U);
  EXPECT_EQ(std::count_if(calls.begin(), calls.end(), [](const Seen::Call& call) { return !call.barrier; }),
            program.kernel_count());
}

TEST(Interop, TwoWindowsOfOneBufferAreKnownToBeOne) {
  Host host;
  HostBuffer memory(host, 2048);
  const Device device = must(Device::adopt(host.lend(), no_store()));
  const Tensor x = Tensor::input("x", DType::f32, {256});
  const Executable program = must(compile(device, {x.reverse({0}) + 1.0}));
  const Buffer one = must(device.wrap(memory.number(), 1024, 0));
  const Buffer same = must(device.wrap(memory.number(), 1024, 256));
  const Buffer apart = must(device.wrap(memory.number(), 1024, 1024));
  host.begin();
  const auto shared = program.record(host.commands, {{{"x", one}}, {{"y", same}}, {}});
  ASSERT_FALSE(shared.ok());
  EXPECT_NE(shared.error().message.find("shares memory"), std::string::npos) << shared.error().text();
  must(program.record(host.commands, {{{"x", one}}, {{"y", apart}}, {}}));
}

void expect_refused(const Result<void>& result, const char* words, ErrorCode code = ErrorCode::invalid_argument) {
  ASSERT_FALSE(result.ok()) << words;
  EXPECT_EQ(result.error().code, code);
  EXPECT_NE(result.error().text().find(words), std::string::npos) << result.error().text();
}
template <typename T>
Result<void> outcome(const Result<T>& result) {
  return result.ok() ? Result<void>() : Result<void>(result.error());
}

TEST(Interop, WrongHandlesAreSentences) {
  Host host;
  HostBuffer memory(host, 1024);
  HostDevice external = host.lend();
  external.queue = nullptr;
  expect_refused(outcome(Device::adopt(external)), "null physical device, device or queue");
  external = host.lend();
  external.instance = nullptr;
  expect_refused(outcome(Device::adopt(external)), "A VkInstance to adopt is null.");
  external = host.lend();
  external.physical_device = host.device;
  expect_refused(outcome(Device::adopt(external)), "none of its instance");
  external = host.lend();
  external.queue_family = 77;
  expect_refused(outcome(Device::adopt(external)), "Queue family 77");
  external = host.lend();
  external.lock_queue = [] {};
  expect_refused(outcome(Device::adopt(external)), "only one of the two functions that lock and unlock it");
  external = host.lend();
  external.allocator.release = [](const HostMemory&) {};
  expect_refused(outcome(Device::adopt(external)), "only one of the two functions that allocate and release it");
  DeviceOptions nonsense = no_store();
  nonsense.disable = {"T9"};
  expect_refused(outcome(Device::adopt(host.lend(), nonsense)), "'T9'");

  const Device device = must(Device::adopt(host.lend(), no_store()));
  expect_refused(outcome(device.wrap(0, 16)), "null");
  expect_refused(outcome(device.wrap(memory.number(), 0)), "0 bytes");
  expect_refused(outcome(device.wrap(memory.number(), 16, 3)), "from offset 3");
  expect_refused(outcome(device.wrap(memory.number(), UINT64_MAX, 256)), "which no buffer has");
  const Executable program = must(program_on(device, 45));
  const Buffer whole = must(device.wrap(memory.number(), 192, 0));
  const Buffer bare = must(device.wrap(memory.number(), 180, 256));
  expect_refused(outcome(program.record(nullptr, {{{"x", whole}}, {{"y", whole}}, {}})),
                 "The command buffer to append to is null.");
  host.begin();
  expect_refused(outcome(program.record(host.commands, {{{"x", whole}}, {{"y", bare}}, {}})),
                 "192 bytes at offset 256 are not inside a buffer of 436 bytes");
  const Buffer elsewhere = must(test::device().allocate(192));
  expect_refused(outcome(program.record(host.commands, {{{"x", whole}}, {{"y", elsewhere}}, {}})),
                 "is of another device than the program.");
}

TEST(Interop, TheLogHearsWhatErrorsDoNotSay) {
  Host host;
  std::mutex mutex;
  std::vector<std::pair<LogLevel, std::string>> heard;
  DeviceOptions options;
  options.store.folder = (tests_folder() / "CMakeLists.txt" / "below a file").string();
  options.log = [&](LogLevel level, std::string_view sentence) {
    const std::lock_guard<std::mutex> lock(mutex);
    heard.emplace_back(level, sentence);
  };
  const Device device = must(Device::adopt(host.lend(), options));
  must(program_on(device, 17));
  const auto count = [&](LogLevel level, const char* words) {
    return std::count_if(heard.begin(), heard.end(), [&](const auto& one) {
      return one.first == level && one.second.find(words) != std::string::npos;
    });
  };
  EXPECT_EQ(count(LogLevel::info, "is open"), 1);
  EXPECT_EQ(count(LogLevel::warning, "Compiled kernels are not kept"), 1);
  EXPECT_GE(count(LogLevel::debug, "ms to SPIR-V"), 2);
}

/// What a run wrote to memory that is shared, as another VkDevice of the process reads it.
TEST(Interop, MemoryIsSharedWithAnotherDevice) {
  const Device device = must(Device::open(no_store()));
  if (!device.shares_memory()) {
    expect_refused(outcome(device.allocate_shared(16)), "does not share memory", ErrorCode::unsupported);
    return;
  }
  constexpr std::uint64_t bytes = 45 * sizeof(float);
  const Buffer shared = must(device.allocate_shared(bytes));
  const std::vector<float> x = floats(45, 1);
  const Buffer input = must(device.allocate(bytes));
  must(input.write(std::as_bytes(std::span(x))));
  must(must(must(program_on(device, 45)).submit({.inputs = {{"x", input}}, .outputs = {{"y", shared}}})).wait());

  const ExportedMemory memory = must(shared.export_memory());
  EXPECT_GE(memory.bytes, bytes);
  const std::vector<const char*> extensions = {"VK_KHR_external_memory_fd"};  // the host keeps a reference
  Host host(nullptr, extensions);
  VkExternalMemoryBufferCreateInfo external{VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO};
  external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, &external};
  info.size = (bytes + 15) / 16 * 16;
  info.usage = vulkan::kBufferUsage;
  VkBuffer buffer = VK_NULL_HANDLE;
  must(host.vk.call(host.vk.CreateBuffer, host.device, &info, nullptr, &buffer));
  VkMemoryRequirements needs{};
  host.vk.GetBufferMemoryRequirements(host.device, buffer, &needs);
  VkMemoryDedicatedAllocateInfo dedicated{VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO};
  dedicated.buffer = buffer;
  VkImportMemoryFdInfoKHR import{VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR};
  import.pNext = memory.dedicated ? &dedicated : nullptr;
  import.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  import.fd = memory.fd;
  std::uint32_t type = 0;
  while ((needs.memoryTypeBits >> type & 1u) == 0) ++type;
  const VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &import, memory.bytes, type};
  VkDeviceMemory imported = VK_NULL_HANDLE;
  must(host.vk.call(host.vk.AllocateMemory, host.device, &allocate, nullptr, &imported));
  must(host.vk.call(host.vk.BindBufferMemory, host.device, buffer, imported, VkDeviceSize{0}));
  std::vector<float> read_there(45);
  {
    const Device other = must(Device::adopt(host.lend(), no_store()));
    must(must(other.wrap((std::uint64_t)buffer, bytes)).read(std::as_writable_bytes(std::span(read_there))));
  }
  expect_near(read_there, expected(x));
  host.vk.DestroyBuffer(host.device, buffer, nullptr);
  host.vk.FreeMemory(host.device, imported, nullptr);
  expect_refused(outcome(input.export_memory()), "not allocated to be shared");
  expect_refused(outcome(Buffer().export_memory()), "An empty buffer");
}

TEST(Interop, MemoryOfAHostsAllocatorIsNotShared) {
  const std::vector<const char*> extensions = {"VK_KHR_external_memory_fd"};  // the host keeps a reference
  Host host(nullptr, extensions);
  HostDevice external = host.lend();
  external.allocator.allocate = [](auto...) { return HostMemory(); };
  external.allocator.release = [](const HostMemory&) {};
  const Device device = must(Device::adopt(external, no_store()));
  EXPECT_FALSE(device.shares_memory());
  expect_refused(outcome(device.allocate_shared(16)), "a host program's", ErrorCode::unsupported);
}

TEST(Interop, APartOfABufferKeepsTheWhole) {
  const Device& device = test::device();
  const std::vector<float> x = floats(45, 1);
  std::vector<float> y(45);
  std::vector<std::byte> around(1024);
  Buffer whole = must(device.allocate(1024));
  must(whole.write(std::vector<std::byte>(1024, std::byte{0x77})));
  {
    const Buffer first = must(whole.part(256, 180));
    const Buffer second = must(must(whole.part(512, 512)).part(256, 180));
    EXPECT_EQ(second.size(), 180u);
    must(first.write(std::as_bytes(std::span(x))));
    must(must(must(program_on(device, 45)).submit({.inputs = {{"x", first}}, .outputs = {{"y", second}}})).wait());
    must(whole.read(around));
    whole = Buffer();
    must(second.read(std::as_writable_bytes(std::span(y))));
  }
  expect_near(y, expected(x));
  for (std::size_t i = 0; i < around.size(); ++i) {
    const bool inside = (i >= 256 && i < 436) || (i >= 768 && i < 960);  // results fill whole 16 bytes
    EXPECT_TRUE(inside || around[i] == std::byte{0x77}) << i;
  }
  const Buffer other = must(device.allocate(1024));
  expect_refused(outcome(other.part(3, 16)), "taken from offset 3");
  expect_refused(outcome(other.part(512, 513)), "no part of a buffer of 1024 bytes");
  expect_refused(outcome(other.part(2048, 1)), "no part");
  expect_refused(outcome(Buffer().part(0, 1)), "an empty buffer");
}

TEST(Interop, APartWithoutBytesSharesNone) {
  // In front of what lies at its place, and at the end, behind which there is nothing to bind.
  const Device& device = test::device();
  const Buffer whole = must(device.allocate(1024));
  const Tensor rows = Tensor::input("x", DType::f32, {45}), more = Tensor::input("z", DType::f32, {Dim::any("n"), 45});
  const Executable program = must(compile(device, {rows + more.sum({0}) + 1.0}));
  const std::vector<float> x = floats(45, 1);
  for (const std::uint64_t at : {0U, 256U, 512U, 1024U}) {
    Bindings bindings;
    bindings.symbols["n"] = 0;
    bindings.inputs["x"] = must(whole.part(512, 180));
    bindings.inputs["z"] = must(whole.part(at, 0));
    bindings.outputs["y"] = must(whole.part(256, 180));
    EXPECT_EQ(bindings.inputs["z"].size(), 0U);
    EXPECT_NE(bindings.inputs["z"].vulkan_handle(), whole.vulkan_handle());
    must(bindings.inputs["x"].write(std::as_bytes(std::span(x))));
    must(must(program.submit(bindings)).wait());
    std::vector<float> y(45);
    must(bindings.outputs["y"].read(std::as_writable_bytes(std::span(y))));
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], x[i] + 1.0F) << at;
  }
}

TEST(Interop, RunsWaitForTimelinesAndSignalThem) {
  const Device& device = test::device();
  const Timeline before = must(Timeline::create(device));
  const Timeline after = must(Timeline::create(device));
  const std::vector<float> x = floats(45, 1);
  const Buffer input = must(device.allocate(180)), output = must(device.allocate(180));
  must(input.write(std::as_bytes(std::span(x))));
  const Executable program = must(program_on(device, 45));
  for (const std::uint64_t value : {3, 4}) {  // the second is the first, recorded
    const Submission run = must(program.submit({.inputs = {{"x", input}},
                                                .outputs = {{"y", output}},
                                                .symbols = {},
                                                .donated = {},
                                                .wait_for = {{before, value}},
                                                .signal = {{after, value}}}));
    EXPECT_FALSE(must(after.wait(value, std::chrono::milliseconds(50))));
    EXPECT_FALSE(run.done());
    must(before.signal(value));
    EXPECT_TRUE(must(after.wait(value, std::chrono::seconds(60))));
    EXPECT_EQ(must(after.value()), value);
    must(run.wait());
    std::vector<float> y(45);
    must(output.read(std::as_writable_bytes(std::span(y))));
    expect_near(y, expected(x));
  }
}

/// Of a run in several submissions the first waits, and the last signals.
TEST(Interop, PartsOfARunWaitAndSignalOnce) {
  const std::shared_ptr<vulkan::Device>& device = test::device().state()->context->device();
  const vulkan::Timeline before = must(vulkan::Timeline::create(device));
  const vulkan::Timeline after = must(vulkan::Timeline::create(device));
  std::vector<vulkan::CommandBuffer> parts;
  for (int i = 0; i < 3; ++i) {
    parts.push_back(must(vulkan::CommandBuffer::create(device)));
    must(parts.back().begin());
    must(parts.back().end());
  }
  const vulkan::SubmissionPoints points{{{before.handle(), 1}}, {{after.handle(), 1}}};
  const vulkan::Submission run = must(runtime::submit_all(*device, parts, points)).back();
  EXPECT_FALSE(must(after.wait(1, std::chrono::milliseconds(50))));
  must(before.signal(1));
  must(run.wait());
  EXPECT_EQ(must(after.value()), 1u);
}

TEST(Interop, TimelinesOnlyGrow) {
  const Device& device = test::device();
  const Timeline timeline = must(Timeline::create(device));
  const Buffer memory = must(device.allocate(180)), output = must(device.allocate(180));
  const Executable program = must(program_on(device, 45));
  Bindings bindings{.inputs = {{"x", memory}}, .outputs = {{"y", output}}, .symbols = {}, .donated = {}};
  must(timeline.signal(3));
  expect_refused(outcome(timeline.signal(3)), "has reached 3 and cannot be set to 3");
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{3}}) {
    bindings.signal = {{timeline, value}};
    expect_refused(outcome(program.submit(bindings)), "a timeline that has reached 3, and timelines only grow");
  }
  bindings.signal = {{timeline, 4}, {timeline, 5}};
  expect_refused(outcome(program.submit(bindings)), "signal one timeline twice");
  bindings.signal = {{timeline, 4}};
  must(must(program.submit(bindings)).wait());
  EXPECT_EQ(must(timeline.value()), 4u);
}

TEST(Interop, TimelinesOfAnotherDeviceAreRefused) {
  Host host;
  const Device adopted = must(Device::adopt(host.lend(), no_store()));
  expect_refused(outcome(Timeline::create(adopted)), "has no timeline semaphores",
                 ErrorCode::unsupported);  // the host has not enabled them
  const Device other = must(Device::open(no_store()));
  const Timeline timeline = must(Timeline::create(other));
  if (!other.shares_timelines())
    expect_refused(outcome(timeline.export_fd()), "does not share timeline semaphores", ErrorCode::unsupported);
  const Device& device = test::device();
  const Buffer memory = must(device.allocate(180)), output = must(device.allocate(180));
  Bindings bindings{.inputs = {{"x", memory}}, .outputs = {{"y", output}}, .symbols = {}, .donated = {}};
  bindings.signal = {{timeline, 1}};
  const Executable program = must(program_on(device, 45));
  expect_refused(outcome(program.submit(bindings)), "another device than the program's");
  int commands = 0;
  expect_refused(outcome(program.record(&commands, bindings)), "who submits the command buffer");
}

}  // namespace
}  // namespace vkfuse::test

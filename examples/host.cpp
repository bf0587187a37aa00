// A program with Vulkan and a graph of its own. vkfuse computes the ops that it supports, on this program's device and
// buffers and inside its command buffer; the others stay where they were. Ends with 0 if the numbers are right.
#define VULKAN_HPP_NO_CONSTRUCTORS
#include <vkfuse/vkfuse.hpp>
#include <vulkan/vulkan_raii.hpp>

#include <cmath>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// The host's graph: a chain of ops on one vector. "rotate" is an op of this program, which vkfuse has never heard of.
constexpr int kCount = 1024;
constexpr vk::DeviceSize kBytes = kCount * sizeof(float);
const std::vector<std::string> kOps = {"exp", "sqrt", "rotate", "neg", "sigmoid"};

/// The value, or an exception with the error's sentence.
template <typename T>
T must(vkfuse::Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return *std::move(result);
}

/// This program's Vulkan. vkfuse borrows the device, so it is declared last and goes first.
struct Host {
  vk::raii::Context loader;
  vk::raii::Instance instance = nullptr;
  vk::raii::PhysicalDevice physical = nullptr;
  vk::raii::Device device = nullptr;
  vk::raii::Queue queue = nullptr;
  vk::raii::Semaphore timeline = nullptr;
  vk::raii::CommandPool pool = nullptr;
  vk::raii::CommandBuffer commands = nullptr;
  vk::raii::DeviceMemory memory = nullptr;
  vk::raii::Buffer buffer = nullptr;  ///< two vectors: what an op reads and what it writes, by turns
  float* elements = nullptr;
  std::optional<vkfuse::Device> external;
};

/// The device is made as this program wants it, and lent with the same vk::DeviceCreateInfo.
void open(Host& host) {
  const vk::ApplicationInfo application{.apiVersion = VK_API_VERSION_1_2};
  host.instance = {host.loader, vk::InstanceCreateInfo{.pApplicationInfo = &application}};
  host.physical = vk::raii::PhysicalDevices(host.instance).front();
  std::uint32_t family = 0;
  while (!(host.physical.getQueueFamilyProperties().at(family).queueFlags & vk::QueueFlagBits::eCompute)) ++family;
  const float priority = 1;
  const vk::DeviceQueueCreateInfo queue{.queueFamilyIndex = family, .queueCount = 1, .pQueuePriorities = &priority};
  const vk::PhysicalDeviceVulkan12Features features{.timelineSemaphore = true};
  const vk::DeviceCreateInfo info{.pNext = &features, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue};
  host.device = {host.physical, info};
  host.queue = host.device.getQueue(family, 0);
  const vk::SemaphoreTypeCreateInfo timeline{.semaphoreType = vk::SemaphoreType::eTimeline};
  host.timeline = {host.device, vk::SemaphoreCreateInfo{.pNext = &timeline}};
  host.pool = {host.device, vk::CommandPoolCreateInfo{.queueFamilyIndex = family}};
  host.commands =
      std::move(vk::raii::CommandBuffers(host.device, {.commandPool = *host.pool, .commandBufferCount = 1}).front());
  vkfuse::HostDevice mine;
  mine.instance = static_cast<VkInstance>(*host.instance);
  mine.physical_device = static_cast<VkPhysicalDevice>(*host.physical);
  mine.device = static_cast<VkDevice>(*host.device);
  mine.queue = static_cast<VkQueue>(*host.queue);
  mine.queue_family = family;
  mine.api_version = application.apiVersion;
  mine.create_info = &info;
  host.external = must(vkfuse::Device::adopt(mine));
}

void allocate(Host& host) {
  constexpr auto usage = vk::BufferUsageFlagBits::eStorageBuffer | vk::BufferUsageFlagBits::eTransferSrc |
                         vk::BufferUsageFlagBits::eTransferDst;
  host.buffer = {host.device, vk::BufferCreateInfo{.size = 2 * kBytes, .usage = usage}};
  const vk::MemoryRequirements needs = host.buffer.getMemoryRequirements();
  const vk::PhysicalDeviceMemoryProperties types = host.physical.getMemoryProperties();
  constexpr auto mapped = vk::MemoryPropertyFlagBits::eHostVisible | vk::MemoryPropertyFlagBits::eHostCoherent;
  std::uint32_t type = 0;
  while ((needs.memoryTypeBits >> type & 1) == 0 || (types.memoryTypes.at(type).propertyFlags & mapped) != mapped)
    ++type;
  host.memory = {host.device, vk::MemoryAllocateInfo{.allocationSize = needs.size, .memoryTypeIndex = type}};
  host.buffer.bindMemory(*host.memory, 0);
  host.elements = static_cast<float*>(host.memory.mapMemory(0, VK_WHOLE_SIZE));
}

/// The op that vkfuse does not have: element i becomes element i + 1. The barriers of record() are for transfers too.
void rotate(const Host& host, vk::DeviceSize from, vk::DeviceSize to) {
  const vk::BufferCopy rest{.srcOffset = from + sizeof(float), .dstOffset = to, .size = kBytes - sizeof(float)};
  const vk::BufferCopy first{.srcOffset = from, .dstOffset = to + kBytes - sizeof(float), .size = sizeof(float)};
  host.commands.copyBuffer(*host.buffer, *host.buffer, {rest, first});
}

/// Records the graph: of ops that vkfuse supports, as long a part at a time as there is, which is one program. Returns
/// which half of the buffer has the result. `recordings` live until the commands have run.
int record(const Host& host, std::vector<vkfuse::Recording>& recordings) {
  const auto handle = (std::uint64_t) static_cast<VkBuffer>(*host.buffer);
  const vkfuse::Buffer halves[] = {must(host.external->wrap(handle, kBytes)),
                                   must(host.external->wrap(handle, kBytes, kBytes))};
  int now = 0;
  for (std::size_t i = 0; i < kOps.size(); now = 1 - now) {
    vkfuse::Tensor part = vkfuse::Tensor::input("x", vkfuse::DType::f32, {kCount});
    const std::size_t first = i;
    for (; i < kOps.size(); ++i) {
      const vkfuse::Tensor longer = vkfuse::Tensor::apply(kOps[i], {part});
      if (!vkfuse::supports(*host.external, {&longer, 1})) break;
      part = longer;
    }
    if (i > first) {
      const vkfuse::Executable program = must(vkfuse::compile(*host.external, {part}));
      std::printf("%s to %s: vkfuse, %d kernel\n", kOps[first].c_str(), kOps[i - 1].c_str(), program.kernel_count());
      const auto commands = static_cast<VkCommandBuffer>(*host.commands);
      recordings.push_back(
          must(program.record(commands, {.inputs = {{"x", halves[now]}}, .outputs = {{"y", halves[1 - now]}}})));
    } else {
      if (kOps[i] != "rotate") throw std::runtime_error("Nobody computes '" + kOps[i] + "'.");
      std::printf("%s: this program\n", kOps[i++].c_str());
      rotate(host, now * kBytes, (1 - now) * kBytes);
    }
  }
  return now;
}

/// This program submits, and waits in its own way.
void submit_and_wait(const Host& host) {
  const std::uint64_t done = 1;
  const vk::TimelineSemaphoreSubmitInfo value{.signalSemaphoreValueCount = 1, .pSignalSemaphoreValues = &done};
  host.queue.submit(vk::SubmitInfo{.pNext = &value,
                                   .commandBufferCount = 1,
                                   .pCommandBuffers = &*host.commands,
                                   .signalSemaphoreCount = 1,
                                   .pSignalSemaphores = &*host.timeline});
  const auto waited =
      host.device.waitSemaphores({.semaphoreCount = 1, .pSemaphores = &*host.timeline, .pValues = &done}, UINT64_MAX);
  if (waited != vk::Result::eSuccess) throw std::runtime_error("The device did not come to an end.");
}

}  // namespace

int main() {
  Host host;
  open(host);
  allocate(host);
  for (int i = 0; i < kCount; ++i) host.elements[i] = static_cast<float>(i) * 0.001F;
  std::vector<vkfuse::Recording> recordings;
  host.commands.begin({});
  const int half = record(host, recordings);
  host.commands.end();
  submit_and_wait(host);
  int wrong = 0;
  for (int i = 0; i < kCount; ++i) {
    const double expected = 1 / (1 + std::exp(std::sqrt(std::exp((i + 1) % kCount * 0.001))));
    wrong += !(std::fabs(host.elements[half * kCount + i] - expected) <= 1e-5 * expected);
  }
  std::printf("%d of %d elements are wrong\n", wrong, kCount);
  return wrong == 0 ? 0 : 1;
}

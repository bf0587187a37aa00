// A program with Vulkan and a graph of its own. vkfuse computes the ops that it supports, on this program's device and
// buffers and inside its command buffer; the others stay where they were. Ends with 0 if the numbers are right.
#include <vkfuse/vkfuse.h>
#include <vulkan/vulkan.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

void check(VkResult result, const char* call) {
  if (result == VK_SUCCESS) return;
  std::fprintf(stderr, "%s failed with %d.\n", call, result);
  std::exit(1);
}
void check(vkf_status status) {
  if (status == VKF_OK) return;
  std::fprintf(stderr, "%s\n", vkf_last_error());
  std::exit(1);
}
#define VK(call) check(call, #call)

// The host's graph: a chain of ops on one vector. "rotate" is an op of this program, which vkfuse has never heard of.
constexpr int kCount = 1024;
constexpr VkDeviceSize kBytes = kCount * sizeof(float);
const std::vector<std::string> kOps = {"exp", "sqrt", "rotate", "neg", "sigmoid"};

struct Vulkan {
  VkInstance instance;
  VkPhysicalDevice physical;
  VkDevice device;
  std::uint32_t family = 0;
  VkQueue queue;
  VkSemaphore timeline;
  VkCommandPool pool;
  VkCommandBuffer commands;
};

/// The device is made as this program wants it, and adopted with the same VkDeviceCreateInfo.
Vulkan start(vkf_device** adopted) {
  Vulkan vk{};
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo instance{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  instance.pApplicationInfo = &application;
  VK(vkCreateInstance(&instance, nullptr, &vk.instance));
  std::uint32_t one = 1;
  const VkResult found = vkEnumeratePhysicalDevices(vk.instance, &one, &vk.physical);
  check(found == VK_INCOMPLETE ? VK_SUCCESS : found, "vkEnumeratePhysicalDevices");
  std::uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(vk.physical, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(vk.physical, &count, families.data());
  while ((families.at(vk.family).queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) ++vk.family;
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, nullptr, 0, vk.family, 1, &priority};
  VkPhysicalDeviceVulkan12Features features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  features.timelineSemaphore = VK_TRUE;
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &features};
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  VK(vkCreateDevice(vk.physical, &info, nullptr, &vk.device));
  vkGetDeviceQueue(vk.device, vk.family, 0, &vk.queue);
  VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, nullptr, VK_SEMAPHORE_TYPE_TIMELINE, 0};
  VkSemaphoreCreateInfo semaphore{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type};
  VK(vkCreateSemaphore(vk.device, &semaphore, nullptr, &vk.timeline));
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, 0, vk.family};
  VK(vkCreateCommandPool(vk.device, &pool, nullptr, &vk.pool));
  VkCommandBufferAllocateInfo commands{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, vk.pool, VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
  VK(vkAllocateCommandBuffers(vk.device, &commands, &vk.commands));

  vkf_host_device host{};
  host.size = sizeof host;
  host.get_instance_proc_addr = reinterpret_cast<void (*)()>(vkGetInstanceProcAddr);
  host.instance = vk.instance;
  host.physical_device = vk.physical;
  host.device = vk.device;
  host.queue = vk.queue;
  host.queue_family = vk.family;
  host.api_version = application.apiVersion;
  host.create_info = &info;
  check(vkf_device_adopt(&host, nullptr, adopted));
  return vk;
}

struct Memory {
  VkBuffer buffer;
  VkDeviceMemory memory;
  float* elements;
  vkf_buffer* wrapped;
};

Memory allocate(const Vulkan& vk, const vkf_device* device) {
  Memory made{};
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, nullptr, 0, kBytes};
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VK(vkCreateBuffer(vk.device, &info, nullptr, &made.buffer));
  VkMemoryRequirements needs;
  vkGetBufferMemoryRequirements(vk.device, made.buffer, &needs);
  VkPhysicalDeviceMemoryProperties types;
  vkGetPhysicalDeviceMemoryProperties(vk.physical, &types);
  constexpr VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  std::uint32_t type = 0;
  while ((needs.memoryTypeBits >> type & 1) == 0 || (types.memoryTypes[type].propertyFlags & visible) != visible) ++type;
  VkMemoryAllocateInfo memory{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, needs.size, type};
  VK(vkAllocateMemory(vk.device, &memory, nullptr, &made.memory));
  VK(vkBindBufferMemory(vk.device, made.buffer, made.memory, 0));
  VK(vkMapMemory(vk.device, made.memory, 0, VK_WHOLE_SIZE, 0, reinterpret_cast<void**>(&made.elements)));
  check(vkf_buffer_wrap(device, (std::uint64_t)made.buffer, kBytes, 0, &made.wrapped));
  return made;
}

/// Ops `first` to `last` become one program, with one kernel.
vkf_program* compile_part(const vkf_device* device, std::size_t first, std::size_t last) {
  vkf_graph* graph = nullptr;
  vkf_value value = 0;
  const vkf_dim shape = vkf_size(kCount);
  check(vkf_graph_create("part", &graph));
  check(vkf_input(graph, "x", VKF_F32, &shape, 1, &value));
  for (std::size_t i = first; i < last; ++i) check(vkf_apply(graph, kOps[i].c_str(), &value, 1, nullptr, 0, &value));
  check(vkf_output(graph, "y", value));
  vkf_program* program = nullptr;
  check(vkf_compile(device, graph, nullptr, &program));
  vkf_graph_free(graph);
  return program;
}

/// The op that vkfuse does not have: element i becomes element i + 1. The barriers of vkf_record() are for transfers too.
void rotate(VkCommandBuffer commands, const Memory& from, const Memory& to) {
  const VkBufferCopy regions[] = {{sizeof(float), 0, kBytes - sizeof(float)}, {0, kBytes - sizeof(float), sizeof(float)}};
  vkCmdCopyBuffer(commands, from.buffer, to.buffer, 2, regions);
}

float expected(int i) {
  const double x = std::sqrt(std::exp(((i + 1) % kCount) * 0.001));
  return static_cast<float>(1 / (1 + std::exp(x)));
}

}  // namespace

int main() {
  vkf_device* device = nullptr;
  Vulkan vk = start(&device);
  Memory memory[2] = {allocate(vk, device), allocate(vk, device)};
  for (int i = 0; i < kCount; ++i) memory[0].elements[i] = static_cast<float>(i) * 0.001F;

  // One command buffer: ops that vkfuse supports are handed over as long a part at a time as there is.
  VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  VK(vkBeginCommandBuffer(vk.commands, &begin));
  std::vector<vkf_program*> programs;
  std::vector<vkf_recording*> recordings;
  const vkf_dim shape = vkf_size(kCount);
  const vkf_type type = {VKF_F32, &shape, 1};
  std::size_t now = 0;  // which memory has the value
  for (std::size_t i = 0; i < kOps.size(); now = 1 - now) {
    std::size_t end = i;
    while (end < kOps.size() && vkf_supports_op(device, kOps[end].c_str(), &type, 1, nullptr, 0) == VKF_OK) ++end;
    if (end == i) {
      if (kOps[i] != "rotate") check(VKF_UNSUPPORTED);  // nobody has it
      std::printf("%s: this program (%s)\n", kOps[i++].c_str(), vkf_last_error());
      rotate(vk.commands, memory[now], memory[1 - now]);
      continue;
    }
    programs.push_back(compile_part(device, i, end));
    std::printf("%s to %s: vkfuse, %zu kernel\n", kOps[i].c_str(), kOps[end - 1].c_str(), vkf_program_kernel_count(programs.back()));
    const vkf_binding in = {"x", memory[now].wrapped};
    const vkf_binding out = {"y", memory[1 - now].wrapped};
    recordings.push_back(nullptr);
    check(vkf_record(programs.back(), vk.commands, &in, 1, &out, 1, nullptr, 0, &recordings.back()));
    i = end;
  }
  VK(vkEndCommandBuffer(vk.commands));

  // This program submits, and waits in its own way.
  const std::uint64_t done = 1;
  VkTimelineSemaphoreSubmitInfo value{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
  value.signalSemaphoreValueCount = 1;
  value.pSignalSemaphoreValues = &done;
  VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO, &value};
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &vk.commands;
  submit.signalSemaphoreCount = 1;
  submit.pSignalSemaphores = &vk.timeline;
  VK(vkQueueSubmit(vk.queue, 1, &submit, VK_NULL_HANDLE));
  VkSemaphoreWaitInfo wait{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, nullptr, 0, 1, &vk.timeline, &done};
  VK(vkWaitSemaphores(vk.device, &wait, UINT64_MAX));

  int wrong = 0;
  for (int i = 0; i < kCount; ++i) wrong += !(std::fabs(memory[now].elements[i] - expected(i)) <= 1e-5F * expected(i));
  std::printf("%d of %d elements are wrong\n", wrong, kCount);

  // What vkfuse has goes before the device does.
  for (vkf_recording* one : recordings) vkf_recording_free(one);
  for (vkf_program* one : programs) vkf_program_free(one);
  for (Memory& one : memory) vkf_buffer_free(one.wrapped);
  vkf_device_free(device);
  for (Memory& one : memory) {
    vkDestroyBuffer(vk.device, one.buffer, nullptr);
    vkFreeMemory(vk.device, one.memory, nullptr);
  }
  vkDestroyCommandPool(vk.device, vk.pool, nullptr);
  vkDestroySemaphore(vk.device, vk.timeline, nullptr);
  vkDestroyDevice(vk.device, nullptr);
  vkDestroyInstance(vk.instance, nullptr);
  return wrong == 0 ? 0 : 1;
}

#include "runtime/self_test/known_answer.hpp"

#include "vulkan/command_buffer.hpp"

namespace vkfuse::runtime {

namespace {

Result<std::vector<std::uint32_t>> run(OpenDevice& opened, const KnownAnswer& test) {
  const std::shared_ptr<vulkan::Device>& device = opened.device();
  VKF_TRY(pipeline, make_pipeline(opened, test.kernel));
  VKF_TRY(in, vulkan::Buffer::create(device, test.input.size() * 4, vulkan::BufferKind::device));
  VKF_TRY(out, vulkan::Buffer::create(device, test.output_words * 4, vulkan::BufferKind::device));
  VKF_CHECK_OK(opened.transfer().upload(in, 0, std::as_bytes(std::span(test.input))));
  VKF_TRY(commands, vulkan::CommandBuffer::create(device));
  VKF_CHECK_OK(commands.begin());
  commands.bind(pipeline);
  const vulkan::BufferRange ranges[] = {{&in, 0, 0}, {&out, 0, 0}};
  commands.bind_buffers(ranges);
  commands.dispatch(test.workgroups);
  commands.barrier(vulkan::Access::compute, vulkan::Access::transfer | vulkan::Access::host);
  VKF_CHECK_OK(commands.end());
  VKF_TRY(submission, device->submit(commands));
  VKF_CHECK_OK(submission.wait());
  std::vector<std::uint32_t> result(test.output_words);
  VKF_CHECK_OK(opened.transfer().download(out, 0, std::as_writable_bytes(std::span(result))));
  return result;
}

}  // namespace

Result<std::string> check_known_answer(OpenDevice& opened, const KnownAnswer& test, const FindFault& find_fault) {
  std::uint64_t input = 14695981039346656037u;  // FNV-1a by words
  for (const std::uint32_t word : test.input) input = (input ^ word) * 1099511628211u;
  const std::string key = fmt::format("{} {} {} {} {:x}\n{}", opened.driver_key(), test.workgroups,
                                      test.kernel.workgroup, test.kernel.subgroup, input, shader_key(test.kernel.glsl));
  if (opened.store().load(store::Kind::passed, key)) return std::string();
  VKF_TRY(results, run(opened, test));
  std::string fault = find_fault(results);
  if (fault.empty()) opened.store().save(store::Kind::passed, key, {});
  return fault;
}

}  // namespace vkfuse::runtime

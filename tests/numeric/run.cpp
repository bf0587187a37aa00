#include "numeric/run.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <span>
#include <stdexcept>

#include "runtime/context.hpp"
#include "spirv/compile.hpp"
#include "vulkan/command_buffer.hpp"

namespace vkfuse::numeric {
namespace {

constexpr std::size_t kJobsPerKernel = 12;  // more save little and make drivers compile for long
constexpr std::size_t kOperands = 3;
constexpr std::uint32_t kWorkgroup = 64;

template <typename T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().text());
  return *std::move(result);
}
void must(Result<void> result) {
  if (!result.ok()) throw std::runtime_error(result.error().text());
}

std::uint64_t encode(DType dtype, const Value& value) {
  switch (ops::register_type_of(dtype)) {
    case ops::RegisterType::f32: return std::bit_cast<std::uint32_t>(static_cast<float>(value.real));
    case ops::RegisterType::f64: return std::bit_cast<std::uint64_t>(value.real);
    default: return static_cast<std::uint64_t>(value.integer);
  }
}

Value decode(DType dtype, std::uint64_t words) {
  const auto low = static_cast<std::uint32_t>(words);
  switch (ops::register_type_of(dtype)) {
    case ops::RegisterType::f32: return {std::bit_cast<float>(low), 0};
    case ops::RegisterType::f64: return {std::bit_cast<double>(words), 0};
    case ops::RegisterType::i32: return {0, static_cast<std::int32_t>(low)};
    case ops::RegisterType::u32:
    case ops::RegisterType::boolean: return {0, low};
    default: return {0, static_cast<std::int64_t>(words)};
  }
}

/// GLSL that makes a register from two words, and two words from a register.
std::string from_words(DType dtype, bool native, const std::string& words) {
  switch (ops::register_type_of(dtype)) {
    case ops::RegisterType::f32: return "uintBitsToFloat(" + words + ".x)";
    case ops::RegisterType::f64: return "packDouble2x32(" + words + ")";
    case ops::RegisterType::i32: return "int(" + words + ".x)";
    case ops::RegisterType::u32: return words + ".x";
    case ops::RegisterType::boolean: return words + ".x != 0u";
    case ops::RegisterType::i64: return native ? "packInt2x32(ivec2(" + words + "))" : words;
    case ops::RegisterType::u64: return native ? "packUint2x32(" + words + ")" : words;
  }
  return words;
}

std::string to_words(DType dtype, bool native, const std::string& name) {
  switch (ops::register_type_of(dtype)) {
    case ops::RegisterType::f32: return "uvec2(floatBitsToUint(" + name + "), 0u)";
    case ops::RegisterType::f64: return "unpackDouble2x32(" + name + ")";
    case ops::RegisterType::i64: return native ? "uvec2(unpackInt2x32(" + name + "))" : name;
    case ops::RegisterType::u64: return native ? "unpackUint2x32(" + name + ")" : name;
    default: return "uvec2(uint(" + name + "), 0u)";
  }
}

std::string glsl_of(std::span<const Job> jobs, bool native, bool keeps_nan) {
  std::string body;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const Job& job = jobs[j];
    body += fmt::format("  {{  // {}\n", job.name);
    for (std::size_t k = 0; k < job.operands.size(); ++k) {
      const std::string words = fmt::format("given.words[{} * count + i]", j * kOperands + k);
      body += fmt::format("    {} x{} = {};\n", ops::glsl_type(ops::register_type_of(job.operand_dtypes[k]), native), k,
                          from_words(job.operand_dtypes[k], native, words));
    }
    const bool rounds = is_float(job.result_dtype);
    body += fmt::format("    {}{} y = {};\n", rounds ? "precise " : "",
                        ops::glsl_type(ops::register_type_of(job.result_dtype), native), job.expression);
    body += fmt::format("    made.words[{} * count + i] = {};\n  }}\n", j, to_words(job.result_dtype, native, "y"));
  }
  return fmt::format(
      "#version 450\n{}{}layout(local_size_x = {}) in;\n"
      "layout(set = 0, binding = 0) readonly buffer Given {{ uvec2 words[]; }} given;\n"
      "layout(set = 0, binding = 1) writeonly buffer Made {{ uvec2 words[]; }} made;\n\n{}\n"
      "void main() {{\n  uint i = gl_GlobalInvocationID.x;\n  uint count = gl_NumWorkGroups.x * {}u;\n{}}}\n",
      native ? "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n" : "",
      keeps_nan ? "#extension GL_EXT_spirv_intrinsics : require\n"
                  "spirv_execution_mode(extensions = [\"SPV_KHR_float_controls\"], capabilities = [4466], 4461, 32);\n"
                : "",
      kWorkgroup, ops::prelude_for(body), kWorkgroup, body);
}

void run_batch(std::span<Job> jobs, bool native, bool keeps_nan) {
  const auto gpu = device();
  const std::size_t count = jobs[0].operands[0].size();
  const std::size_t padded = (count + kWorkgroup - 1) / kWorkgroup * kWorkgroup;
  std::vector<std::uint64_t> given(jobs.size() * kOperands * padded);
  std::vector<std::uint64_t> made(jobs.size() * padded);
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    for (std::size_t k = 0; k < jobs[j].operands.size(); ++k) {
      std::uint64_t* at = given.data() + (j * kOperands + k) * padded;
      for (const Value& value : jobs[j].operands[k]) *at++ = encode(jobs[j].operand_dtypes[k], value);
    }
  }
  const std::string glsl = glsl_of(jobs, native, keeps_nan);
  const auto module = must(spirv::compile_glsl(glsl, jobs[0].name));
  vulkan::PipelineInfo info;
  info.name = jobs[0].name;
  info.spirv = module;
  info.buffers = 2;
  const auto pipeline = must(vulkan::ComputePipeline::create(gpu, info));
  const std::uint64_t given_bytes = given.size() * sizeof given[0];
  const std::uint64_t made_bytes = made.size() * sizeof made[0];
  const auto upload = must(vulkan::Buffer::create(gpu, given_bytes, vulkan::BufferKind::upload));
  const auto input = must(vulkan::Buffer::create(gpu, given_bytes, vulkan::BufferKind::device));
  const auto output = must(vulkan::Buffer::create(gpu, made_bytes, vulkan::BufferKind::device));
  const auto readback = must(vulkan::Buffer::create(gpu, made_bytes, vulkan::BufferKind::readback));
  std::memcpy(upload.mapped(), given.data(), given_bytes);

  auto commands = must(vulkan::CommandBuffer::create(gpu));
  must(commands.begin());
  commands.copy({&upload, 0, given_bytes}, {&input});
  commands.barrier(vulkan::Access::transfer, vulkan::Access::compute);
  commands.bind(pipeline);
  const vulkan::BufferRange ranges[] = {{&input}, {&output}};
  commands.bind_buffers(ranges);
  commands.dispatch(static_cast<std::uint32_t>(padded / kWorkgroup));
  commands.barrier(vulkan::Access::compute, vulkan::Access::transfer);
  commands.copy({&output, 0, made_bytes}, {&readback});
  commands.barrier(vulkan::Access::transfer, vulkan::Access::host);
  must(commands.end());
  must(must(gpu->submit(commands)).wait());
  std::memcpy(made.data(), readback.mapped(), made_bytes);
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    for (std::size_t i = 0; i < count; ++i)
      jobs[j].results.push_back(decode(jobs[j].result_dtype, made[j * padded + i]));
  }
}

}  // namespace

std::shared_ptr<vulkan::Device> device() {
  static const auto opened = must(vulkan::Device::create(must(vulkan::Instance::create({})), 0));
  return opened;
}

bool offers(DType dtype, bool native_int64) {
  if (native_int64 && !device()->caps().arithmetic.int64) return false;
  return dtype != DType::f64 || device()->caps().arithmetic.float64;
}

bool keeps_nan_in_exp() {
  static const bool keeps = must(must(runtime::Context::open({}))->tiers().exp_of_nan());
  return keeps;
}

void run(std::vector<Job>& jobs, bool native_int64, bool keeps_nan) {
  for (std::size_t first = 0; first < jobs.size(); first += kJobsPerKernel) {
    const std::size_t count = std::min(kJobsPerKernel, jobs.size() - first);
    run_batch(std::span(jobs).subspan(first, count), native_int64, keeps_nan);
  }
}

}  // namespace vkfuse::numeric

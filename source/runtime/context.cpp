#include "runtime/context.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/mutations.hpp"
#include "vulkan/command_buffer.hpp"

namespace vkfuse::runtime {

namespace {

constexpr std::size_t kMostStaged = std::size_t{1} << 28;  // bytes that cross from host to device, or back, at a time

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

DriverWorkarounds workarounds_of(const vulkan::DeviceInfo& info) {
  DriverWorkarounds workarounds;
  if (info.driver_name != "llvmpipe") return workarounds;
  workarounds.folds_nan_away = true;
  // Of 65,535, some of which count twice.
  workarounds.leaves_loops_after = VKF_PLANT(loops_left_early, 32'000, std::numeric_limits<std::int64_t>::max());
  return workarounds;
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
  return over(std::move(device), index, caps, options);
}

Result<std::shared_ptr<Context>> Context::adopt(std::shared_ptr<const vulkan::Instance> instance,
                                                const vulkan::ExternalDevice& external, const DeviceOptions& options) {
  VKF_TRY(index, instance->index_of(external.physical_device));
  VKF_TRY(device, vulkan::Device::adopt(std::move(instance), external));
  Caps caps = device->caps();
  VKF_CHECK_OK(restrict_caps(options, caps));
  return over(std::move(device), index, caps, options);
}

Result<std::shared_ptr<Context>> Context::over(std::shared_ptr<vulkan::Device> device, std::size_t index,
                                               const Caps& caps, const DeviceOptions& options) {
  auto context = std::shared_ptr<Context>(new Context());
  context->index_ = static_cast<int>(index);
  context->disabled_ = options.disable;
  context->log_ = options.log;
  const char* const requested = std::getenv("VKFUSE_SELF_CHECK");
  context->self_checks_ = options.self_check.value_or(requested != nullptr && std::string_view(requested) == "1");
  context->device_ = device;
  VKF_TRY(memory, restrict_memory(options, vulkan::expected_placement(*device, vulkan::BufferKind::device).heap_bytes));
  context->memory_limit_ = memory;
  context->store_ = std::make_unique<store::Store>(options.store);
  context->shaders_ = std::make_unique<Shaders>(*context->store_);
  context->base_.name = device->info().name;
  context->base_.type = device->info().type;
  context->base_.caps = caps;
  context->base_.workarounds = workarounds_of(device->info());
  const bool controls = context->shaders_->can_compile(spirv::GlslExtension::spirv_intrinsics);
  context->base_.caps.keep_nan_f32 = caps.keep_nan_f32 && controls;
  context->base_.caps.keep_nan_f64 = caps.keep_nan_f64 && controls;
  context->base_.caps.int64 = caps.int64 && context->shaders_->can_compile(spirv::GlslExtension::arithmetic_int64);
  context->log(LogLevel::info, fmt::format("The device '{}' is open ({}, Vulkan {}).", device->info().name,
                                           device->info().driver_info, device->info().api_version));
  if (options.store.enabled && !context->store_->off().empty())
    context->log(LogLevel::warning, "Compiled kernels are not kept: " + context->store_->off());
  return context;
}

void Context::log(LogLevel level, const std::string& sentence) const {
  if (log_) log_(level, sentence);
}

std::uint32_t Context::next_poison() { return kPoison[poisoned_runs_++ % kPoison.size()]; }

std::uint64_t Context::memory_left(vulkan::BufferKind kind) const {
  const vulkan::Placement main = vulkan::expected_placement(*device_, vulkan::BufferKind::device);
  const vulkan::Placement place = vulkan::expected_placement(*device_, kind);
  const std::uint64_t limit = place.heap == main.heap ? memory_limit_ : place.heap_bytes;
  return limit - std::min(limit, device_->allocated(place.heap));
}

Result<Target> Context::target(std::span<const FeatureTier> requested, std::span<const DType> whole, bool sub_byte) {
  Target target = base_;
  target.caps.matrix2_workgroup_scope = target.caps.matrix2_workgroup_scope && !whole.empty();
  for (const FeatureTier tier : requested) {
    VKF_TRY(reason, missing(tier));
    target.tiers[static_cast<std::size_t>(tier)] = reason.empty();
    if (tier == FeatureTier::cooperative_matrix && reason.empty()) {
      VKF_TRY(shapes, tested_matrices());
      target.caps.matrix_shapes = shapes;
      if (sub_byte) {
        VKF_TRY(unit, matrix_sub_byte());
        target.caps.matrix_sub_byte = unit;
      }
    }
    if (tier == FeatureTier::cooperative_matrix2 && reason.empty()) {
      for (const DType dtype : whole) {
        VKF_TRY(passed, workgroup_tiles(dtype));
        target.caps.matrix2_workgroup_scope = target.caps.matrix2_workgroup_scope && passed;
      }
    }
  }
  VKF_TRY(keeps_nan, exp_of_nan());
  target.caps.exp_of_nan = keeps_nan;
  VKF_TRY(measured, costs());
  target.costs = measured;
  return target;
}

Result<Context::MissingMatrices> Context::missing_matrices() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (missing_matrices_) return *missing_matrices_;
  }
  MissingMatrices missing;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const MatrixKind& kind = kMatrixKinds[i];
    const auto shape = matrix_of(base_.caps, kind.operands, kind.sums);
    if (!shape || (kind.operands == DType::bf16 && !base_.caps.matrix_bf16)) {
      missing[i] = "not offered";
    } else if (kind.operands == DType::bf16 && !shaders_->can_compile(spirv::GlslExtension::bfloat16)) {
      missing[i] = "the linked shaderc cannot compile GL_EXT_bfloat16";
    } else if (kind.operands != DType::f16 || kind.sums != DType::f32) {  // those are the test of T4 itself
      VKF_TRY(wrong, self_test_matrices(*this, *shape));
      missing[i] = wrong;
      if (wrong.empty()) {
        VKF_TRY(slow, compare_matrices(*this, *shape));
        missing[i] = slow;
      }
      if (!missing[i].empty())
        log(LogLevel::warning, fmt::format("Matrices of {} are not multiplied by cooperative matrices on '{}': {}",
                                           name_of(kind.operands), base_.name, missing[i]));
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  missing_matrices_ = missing;
  return missing;
}

/// Of the products that the device offers, those that T4 uses and that have passed its test.
Result<std::vector<MatrixShape>> Context::tested_matrices() {
  VKF_TRY(missing, missing_matrices());
  std::vector<MatrixShape> passed;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (missing[i].empty()) passed.push_back(*matrix_of(base_.caps, kMatrixKinds[i].operands, kMatrixKinds[i].sums));
  }
  return passed;
}

/// Whether a workgroup multiplies tiles of that dtype, as a test has shown.
Result<bool> Context::workgroup_tiles(DType dtype) {
  if (!base_.caps.matrix2_workgroup_tiles() || base_.caps.subgroup_size != 32 || base_.type == DeviceType::cpu)
    return false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto tested = workgroup_tiles_.find(dtype); tested != workgroup_tiles_.end()) return tested->second;
  }
  VKF_TRY(shapes, tested_matrices());
  const bool offered = std::any_of(shapes.begin(), shapes.end(),
                                   [&](const MatrixShape& shape) { return shape.a == dtype && shape.c == DType::f32; });
  std::string wrong;
  if (offered) {
    VKF_TRY(found, self_test_workgroup_tiles(*this, dtype));
    wrong = found;
  }
  if (!wrong.empty())
    log(LogLevel::warning,
        fmt::format("Tiles of {} are not multiplied by workgroups on '{}': {}", name_of(dtype), base_.name, wrong));
  const std::lock_guard<std::mutex> lock(mutex_);
  return workgroup_tiles_[dtype] = offered && wrong.empty();
}

/// The product for weights of four bits, whose test has shown that bits of any kind pass through its fragments.
Result<std::optional<MatrixShape>> Context::matrix_sub_byte() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (matrix_sub_byte_) return *matrix_sub_byte_;
  }
  std::optional<MatrixShape> unit = thin_matrix_of(base_.caps, DType::f16, DType::f32);
  if (unit) {
    VKF_TRY(wrong, self_test_sub_byte(*this, *unit));
    if (!wrong.empty()) {
      log(LogLevel::warning, fmt::format("Weights of four bits are not multiplied by cooperative matrices on '{}': {}",
                                         base_.name, wrong));
      unit.reset();
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  matrix_sub_byte_ = unit;
  return unit;
}

Result<std::string> Context::matrices() {
  VKF_TRY(missing, missing_matrices());
  std::string text;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const MatrixKind& kind = kMatrixKinds[i];
    const auto shape = matrix_of(base_.caps, kind.operands, kind.sums);
    const std::string size = shape ? fmt::format("{} x {} x {}", shape->m, shape->n, shape->k) : "";
    text += fmt::format("{}{} with sums of {}: {}", text.empty() ? "" : "; ", name_of(kind.operands),
                        name_of(kind.sums), missing[i].empty() ? size : missing[i]);
  }
  return text;
}

Result<std::optional<CostModel>> Context::costs() {
  const bool off = std::find(disabled_.begin(), disabled_.end(), "calibration") != disabled_.end();
  if (off || base_.type == DeviceType::cpu) return std::optional<CostModel>();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (costs_) return *costs_;
  }
  VKF_TRY(measured, calibrate(*this));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!costs_) costs_ = measured;  // else another thread was first, and its plans are made
  return *costs_;
}

Result<bool> Context::exp_of_nan() {
  // A driver that folds NaN away does so where a test cannot see it.
  if (!base_.caps.keep_nan_f32 || base_.workarounds.folds_nan_away) return false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (exp_of_nan_) return *exp_of_nan_;
  }
  VKF_TRY(tested, test_exp_of_nan(*this));
  const std::lock_guard<std::mutex> lock(mutex_);
  exp_of_nan_ = tested;
  return tested;
}

Result<std::string> Context::missing(FeatureTier tier) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = missing_.find(tier);
    if (known != missing_.end()) return known->second;
  }
  const Caps& caps = base_.caps;
  std::string reason;
  if (std::find(disabled_.begin(), disabled_.end(), name_of(tier)) != disabled_.end()) {
    reason = "It is switched off.";
  } else if (tier == FeatureTier::subgroup && !caps.subgroup_shuffle) {
    reason = "The device has no subgroup shuffles in compute shaders.";
  } else if (tier == FeatureTier::subgroup && !caps.full_subgroups) {
    reason = "The device does not promise full subgroups.";
  } else if (tier == FeatureTier::float16 && !(caps.float16 && caps.storage_16bit)) {
    reason = fmt::format("The device has no {}.", caps.float16 ? "16-bit storage" : "float16 arithmetic");
  } else if (tier == FeatureTier::subgroup && !shaders_->can_compile(spirv::GlslExtension::subgroup_shuffle)) {
    reason = "The linked shaderc cannot compile GL_KHR_shader_subgroup_shuffle.";
  } else if (tier == FeatureTier::float16 && !shaders_->can_compile(spirv::GlslExtension::arithmetic_float16)) {
    reason = "The linked shaderc cannot compile GL_EXT_shader_explicit_arithmetic_types_float16.";
  } else if (tier == FeatureTier::dot_product && !caps.dot_product_i8) {
    reason = "The device multiplies no four bytes at once.";
  } else if (tier == FeatureTier::dot_product && !shaders_->can_compile(spirv::GlslExtension::spirv_intrinsics)) {
    reason = "The linked shaderc cannot compile GL_EXT_spirv_intrinsics.";
  } else if (tier == FeatureTier::cooperative_matrix && !matrix_of(caps, DType::f16, DType::f32)) {
    reason = "The device multiplies no matrices of f16 with f32 sums.";
  } else if (tier == FeatureTier::cooperative_matrix && !caps.full_subgroups) {
    reason = "The device does not promise full subgroups.";
  } else if (tier == FeatureTier::cooperative_matrix &&
             !shaders_->can_compile(spirv::GlslExtension::khr_cooperative_matrix)) {
    reason = "The linked shaderc cannot compile GL_KHR_cooperative_matrix.";
  } else if (tier == FeatureTier::cooperative_matrix2 &&
             !(caps.matrix2_reductions && caps.matrix2_conversions && caps.matrix2_per_element)) {
    reason = "The device does not reduce and convert cooperative matrices and take them through functions.";
  } else if (tier == FeatureTier::cooperative_matrix2 &&
             !shaders_->can_compile(spirv::GlslExtension::nv_cooperative_matrix2)) {
    reason = "The linked shaderc cannot compile GL_NV_cooperative_matrix2.";
  } else if (tier == FeatureTier::cooperative_matrix2) {
    VKF_TRY(below, missing(FeatureTier::cooperative_matrix));
    if (!below.empty()) reason = "It stands on T4. " + below;
  } else if (tier == FeatureTier::cooperative_matrix) {  // factors are made halves as T2 does it
    VKF_TRY(below, missing(FeatureTier::float16));
    if (!below.empty()) reason = "It stands on T2. " + below;
  }
  if (reason.empty() && tier != FeatureTier::baseline) {
    VKF_TRY(wrong, self_test(*this, tier));
    reason = VKF_PLANT(wrong_tier_in_use, wrong, std::string());
    if (reason.empty() && (tier == FeatureTier::dot_product || tier == FeatureTier::cooperative_matrix)) {
      auto slow = tier == FeatureTier::dot_product ? compare_integer_dot(*this)
                                                   : compare_matrices(*this, *matrix_of(caps, DType::f16, DType::f32));
      if (!slow) return slow.error();
      reason = *slow;
    }
    if (!reason.empty())
      log(LogLevel::warning, fmt::format("{} is not used on '{}': {}", name_of(tier), base_.name, reason));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  missing_[tier] = reason;
  return reason;
}

Result<void> Context::upload(const vulkan::Buffer& to, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (to.is_mapped()) {
    to.write(offset, bytes);
    return {};
  }
  if (bytes.size() > kMostStaged) {
    VKF_CHECK_OK(upload(to, offset, bytes.first(kMostStaged)));
    return upload(to, offset + kMostStaged, bytes.subspan(kMostStaged));
  }
  VKF_TRY(staging, vulkan::Buffer::create(device_, bytes.size(), vulkan::BufferKind::upload));
  std::memcpy(staging.mapped(), bytes.data(), bytes.size());
  VKF_TRY(commands, vulkan::CommandBuffer::create(device_));
  VKF_CHECK_OK(commands.begin());
  commands.copy({&staging, 0, bytes.size()}, {&to, offset, bytes.size()});
  commands.barrier(vulkan::Access::transfer, vulkan::Access::compute | vulkan::Access::transfer);
  VKF_CHECK_OK(commands.end());
  VKF_TRY(submission, device_->submit(commands));
  return submission.wait();
}

Result<void> Context::download(const vulkan::Buffer& from, std::uint64_t offset, std::span<std::byte> bytes) {
  if (bytes.empty()) return {};
  if (from.is_mapped() && from.host_cached()) {
    VKF_CHECK_OK(device_->wait_idle());
    from.read(offset, bytes);
    return {};
  }
  if (bytes.size() > kMostStaged) {
    VKF_CHECK_OK(download(from, offset, bytes.first(kMostStaged)));
    return download(from, offset + kMostStaged, bytes.subspan(kMostStaged));
  }
  VKF_TRY(staging, vulkan::Buffer::create(device_, bytes.size(), vulkan::BufferKind::readback));
  VKF_TRY(commands, vulkan::CommandBuffer::create(device_));
  VKF_CHECK_OK(commands.begin());
  commands.barrier(vulkan::Access::compute | vulkan::Access::transfer, vulkan::Access::transfer);
  commands.copy({&from, offset, bytes.size()}, {&staging, 0, bytes.size()});
  commands.barrier(vulkan::Access::transfer, vulkan::Access::host);
  VKF_CHECK_OK(commands.end());
  VKF_TRY(submission, device_->submit(commands));
  VKF_CHECK_OK(submission.wait());
  std::memcpy(bytes.data(), staging.mapped(), bytes.size());
  return {};
}

Result<vulkan::ComputePipeline> Context::words_pipeline(const std::string& glsl, const std::string& name,
                                                        std::uint32_t workgroup, std::uint32_t subgroup) {
  VKF_TRY(words, shaders_->compile(glsl, name, 2));
  vulkan::PipelineInfo info;
  info.name = name;
  info.spirv = words;
  info.buffers = 2;
  info.constants = {{0, workgroup}};
  info.full_subgroups = subgroup > 0;
  if (base_.caps.subgroup_size_control) info.subgroup_size = subgroup;
  return vulkan::ComputePipeline::create(device_, info);
}

Result<std::string> Context::known_answer(
    const KnownAnswer& test, const std::function<std::string(const std::vector<std::uint32_t>& results)>& wrong) {
  std::uint64_t input = 14695981039346656037u;  // FNV-1a by words
  for (const std::uint32_t word : test.input) input = (input ^ word) * 1099511628211u;
  const std::string key = fmt::format("{} {} {} {} {:x}\n{}", driver_key(), test.workgroups, test.workgroup,
                                      test.subgroup, input, shader_key(test.glsl));
  if (store_->load(store::Kind::passed, key)) return std::string();
  VKF_TRY(results, run_words(test));
  std::string sentence = wrong(results);
  if (sentence.empty()) store_->save(store::Kind::passed, key, {});
  return sentence;
}

Result<std::vector<std::uint32_t>> Context::run_words(const KnownAnswer& test) {
  VKF_TRY(pipeline, words_pipeline(test.glsl, test.name, test.workgroup, test.subgroup));
  VKF_TRY(in, vulkan::Buffer::create(device_, test.input.size() * 4, vulkan::BufferKind::device));
  VKF_TRY(out, vulkan::Buffer::create(device_, test.output_words * 4, vulkan::BufferKind::device));
  VKF_CHECK_OK(upload(in, 0, std::as_bytes(std::span(test.input))));
  VKF_TRY(commands, vulkan::CommandBuffer::create(device_));
  VKF_CHECK_OK(commands.begin());
  commands.bind(pipeline);
  const vulkan::BufferRange ranges[] = {{&in, 0, 0}, {&out, 0, 0}};
  commands.bind_buffers(ranges);
  commands.dispatch(test.workgroups);
  commands.barrier(vulkan::Access::compute, vulkan::Access::transfer | vulkan::Access::host);
  VKF_CHECK_OK(commands.end());
  VKF_TRY(submission, device_->submit(commands));
  VKF_CHECK_OK(submission.wait());
  std::vector<std::uint32_t> result(test.output_words);
  VKF_CHECK_OK(download(out, 0, std::as_writable_bytes(std::span(result))));
  return result;
}

}  // namespace vkfuse::runtime

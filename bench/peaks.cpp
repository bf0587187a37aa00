#include "peaks.hpp"

#include <algorithm>
#include <cmath>
#include <thread>

#include "api/states.hpp"
#include "api/tensor_node.hpp"
#include "batch.hpp"
#include "interrupt.hpp"
#include "runtime/two_buffer_kernel.hpp"
#include "vulkan/command_buffer.hpp"

namespace vkfuse::bench {

namespace {

using vulkan::Access;

/// Of a run that counts: long beside what a timestamp and the start of a kernel cost.
constexpr double kRunUs = 4e3;
constexpr std::uint32_t kPoison = 0x9e3779b9;

/// A kernel that runs: its pipeline and its buffers.
class Runner {
 public:
  /// A spoiled one makes fewer products than it should.
  static Result<Runner> create(const Session& session, const PeakKernel& kernel, bool spoiled) {
    const std::shared_ptr<vulkan::Device>& device = session.context->device();
    const std::uint32_t most = device->caps().workgroup.max_groups_per_axis;
    VKF_TRY(pipeline, runtime::make_pipeline(session.context->opened(),
                                             {kernel.glsl, "peak, " + kernel.text, kernel.workgroup, kernel.subgroup}));
    VKF_TRY(from, vulkan::Buffer::create(device, kernel.input.size() * 4, vulkan::BufferKind::device));
    VKF_TRY(to, vulkan::Buffer::create(device, std::uint64_t{most} * 4, vulkan::BufferKind::device));
    std::vector<std::uint32_t> input = kernel.input;
    if (spoiled) --input.front();
    VKF_CHECK_OK(session.context->transfer().upload(from, 0, std::as_bytes(std::span(input))));
    Runner runner(session.context->opened(), std::move(pipeline), std::move(from), std::move(to));
    runner.most_ = most;
    runner.expected_ = kernel.expected;
    return runner;
  }

  /// Microseconds of as many runs of so many workgroups.
  Result<std::vector<double>> run(std::uint32_t workgroups, std::uint32_t runs) {
    VKF_TRY(stamps, vulkan::TimestampPool::create(device_, 2 * runs));
    VKF_TRY(commands, vulkan::CommandBuffer::create(device_));
    VKF_CHECK_OK(commands.begin());
    commands.reset_timestamps(stamps);
    commands.fill({&to_, 0, 0}, kPoison);
    commands.bind(pipeline_);
    const vulkan::BufferRange ranges[] = {{&from_, 0, 0}, {&to_, 0, 0}};
    commands.bind_buffers(ranges);
    for (std::uint32_t i = 0; i < runs; ++i) {
      commands.barrier(Access::compute | Access::transfer, Access::compute);
      commands.write_timestamp(stamps, 2 * i);
      commands.dispatch(workgroups);
      commands.write_timestamp(stamps, 2 * i + 1);
    }
    commands.barrier(Access::compute, Access::transfer | Access::host);
    VKF_CHECK_OK(commands.end());
    VKF_TRY(submission, device_->submit(commands));
    VKF_CHECK_OK(submission.wait());
    VKF_TRY(at, stamps.nanoseconds());
    std::vector<double> times;
    for (std::size_t i = 0; i < runs; ++i) times.push_back(std::max((at[2 * i + 1] - at[2 * i]) * 1e-3, 1e-3));
    return times;
  }

  /// What the last run stored, if it is wrong.
  Result<std::string> fault(std::uint32_t workgroups) {
    std::vector<std::uint32_t> got(workgroups);
    VKF_CHECK_OK(transfer_->download(to_, 0, std::as_writable_bytes(std::span(got))));
    for (std::uint32_t i = 0; i < workgroups; ++i) {
      if (got[i] != expected_)
        return fmt::format("Workgroup {} of {} stored {} instead of {}.", i, workgroups, got[i], expected_);
    }
    return std::string();
  }

  [[nodiscard]] std::uint32_t most() const { return most_; }

 private:
  Runner(runtime::OpenDevice& opened, vulkan::ComputePipeline pipeline, vulkan::Buffer from, vulkan::Buffer to)
      : device_(opened.device()),
        transfer_(&opened.transfer()),
        pipeline_(std::move(pipeline)),
        from_(std::move(from)),
        to_(std::move(to)) {}

  std::shared_ptr<vulkan::Device> device_;
  runtime::Transfer* transfer_;  ///< the context's, which the session keeps
  vulkan::ComputePipeline pipeline_;
  vulkan::Buffer from_, to_;
  std::uint32_t most_ = 0;
  std::uint32_t expected_ = 0;
};

/// A kernel at the size that it is timed at.
struct Sized {
  std::optional<Runner> runner;
  std::uint32_t workgroups = 8;
  double run_us = 0;
  double operations = 0;  ///< of a run
  std::string text;

  [[nodiscard]] double rate() const { return operations / run_us; }
};

/// Doubles the workgroups until a run is long enough.
Result<Sized> at_its_size(const Session& session, const PeakKernel& kernel, bool spoiled) {
  Sized sized;
  sized.text = kernel.text;
  VKF_TRY(runner, Runner::create(session, kernel, spoiled));
  sized.runner = std::move(runner);
  if (session.on_cpu()) sized.workgroups = std::max(2u, std::thread::hardware_concurrency());
  while (true) {
    VKF_TRY(times, sized.runner->run(sized.workgroups, 3));
    sized.run_us = *std::min_element(times.begin(), times.end());
    sized.operations = kernel.operations * sized.workgroups;
    if (sized.run_us > kRunUs / 2 || sized.workgroups == sized.runner->most()) return sized;
    const double by = std::clamp(kRunUs / sized.run_us, 2.0, 16.0);
    sized.workgroups =
        static_cast<std::uint32_t>(std::min<double>(sized.runner->most(), std::ceil(by * sized.workgroups)));
  }
}

std::optional<MatrixKind> matrices_of(Instruction instruction) {
  switch (instruction) {
    case Instruction::matrix_f16: return MatrixKind{DType::f16, DType::f32};
    case Instruction::matrix_f16_f16: return MatrixKind{DType::f16, DType::f16};
    case Instruction::matrix_bf16: return MatrixKind{DType::bf16, DType::f32};
    case Instruction::matrix_i8: return MatrixKind{DType::i8, DType::i32};
    default: return std::nullopt;
  }
}

/// Why the device is not asked for an instruction; empty: it is.
Result<std::string> missing(runtime::Context& context, Instruction instruction) {
  switch (instruction) {
    case Instruction::fma_f32:
    case Instruction::mad_i32: return std::string();
    case Instruction::fma_f16x2: return context.tiers().missing(FeatureTier::float16);
    case Instruction::dot_i8x4: return context.tiers().missing(FeatureTier::dot_product);
    default: break;
  }
  VKF_TRY(reason, context.tiers().missing(FeatureTier::cooperative_matrix));
  if (!reason.empty()) return reason;
  return context.tiers().matrices().missing(*matrices_of(instruction));
}

/// All products of a kind, the largest first and not more than a few: smaller ones are seldom faster.
std::vector<MatrixShape> shapes_of(const Caps& caps, Instruction instruction) {
  const std::optional<MatrixKind> kind = matrices_of(instruction);
  std::vector<MatrixShape> shapes;
  if (!kind) return shapes;
  for (const MatrixShape& shape : caps.matrix.shapes) {
    const bool is_kind =
        shape.a == kind->operands && shape.b == kind->operands && shape.c == kind->sums && shape.result == kind->sums;
    if (is_kind && shape.m % 8 == 0 && shape.n % 8 == 0 && shape.k % 8 == 0) shapes.push_back(shape);
  }
  const auto size = [](const MatrixShape& shape) { return shape.m * shape.n * shape.k; };
  std::stable_sort(shapes.begin(), shapes.end(),
                   [&](const MatrixShape& a, const MatrixShape& b) { return size(a) > size(b); });
  constexpr std::size_t kMost = 3;
  shapes.resize(std::min(kMost, shapes.size()));
  return shapes;
}

/// The dtype whose products a graph sums up: that of the operands, or the row's where these are bytes made wider.
std::optional<DType> contracted(const Row& row, const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op->cls != ops::OpClass::contraction) continue;
    const DType operands = graph.node(node.operands[0]).type.dtype;
    return is_float(operands) ? operands : row.dtype;
  }
  return std::nullopt;
}

}  // namespace

struct PeakRun::State {
  const Session& session;
  PeakResult result;
  Sized kernel;

  Result<void> first();
  Result<void> time();

 private:
  Result<void> warm_up();
};

Result<void> PeakRun::State::first() {
  runtime::Context& context = *session.context;
  VKF_TRY(reason, missing(context, result.instruction));
  if (!reason.empty()) {
    result.outcome = Outcome::skipped;
    result.detail = reason;
    return {};
  }
  const Caps& caps = context.opened().caps();
  const std::vector<MatrixShape> shapes = shapes_of(caps, result.instruction);
  // A CPU driver may make an instruction of many, and starts threads for next to nothing.
  const std::uint32_t steps = most_steps(result.instruction) / (session.on_cpu() ? 8 : 1);
  for (const PeakKernel& one : peak_kernels(result.instruction, caps, shapes, steps)) {
    VKF_TRY(sized, at_its_size(session, one, session.spoil == name_of(result.instruction)));
    VKF_TRY(fault, sized.runner->fault(sized.workgroups));
    if (!fault.empty()) {
      result.outcome = Outcome::wrong;
      result.detail = fmt::format("{}: {}", one.text, fault);
      return {};
    }
    if (!kernel.runner || sized.rate() > kernel.rate()) kernel = std::move(sized);
    if (interrupted()) return {};
  }
  if (!kernel.runner) {
    result.outcome = Outcome::skipped;
    result.detail = "No kernel of it fits the limits of the device.";
    return {};
  }
  result.kernel = kernel.text;
  result.operations = kernel.operations;
  if (session.check_only) {
    result.outcome = Outcome::checked;
    return {};
  }
  VKF_CHECK_OK(warm_up());
  return time();
}

Result<void> PeakRun::State::warm_up() {
  const Clock::time_point start = Clock::now();
  const auto runs = static_cast<std::uint32_t>(std::clamp(20e3 / kernel.run_us, 1.0, 16.0));
  while (seconds_since(start) < session.timing().warm_seconds && !interrupted())
    VKF_CHECK_OK(kernel.runner->run(kernel.workgroups, runs));
  return {};
}

Result<void> PeakRun::State::time() {
  const auto runs = static_cast<std::uint32_t>(session.on_cpu() ? 6 : 25);
  VKF_TRY(times, kernel.runner->run(kernel.workgroups, runs));
  VKF_TRY(fault, kernel.runner->fault(kernel.workgroups));
  if (interrupted()) return {};
  if (!fault.empty()) {
    result.outcome = Outcome::wrong;
    result.detail = fmt::format("{}: {}", kernel.text, fault);
    return {};
  }
  add_samples(result.times, summarise(std::move(times)));
  ++result.visits;
  result.outcome = Outcome::measured;
  return {};
}

PeakRun::PeakRun(const Session& session, Instruction instruction) : state_(new State{.session = session}) {
  state_->result.instruction = instruction;
}
PeakRun::~PeakRun() = default;
PeakRun::PeakRun(PeakRun&&) noexcept = default;
PeakRun& PeakRun::operator=(PeakRun&&) noexcept = default;

const PeakResult& PeakRun::result() const { return state_->result; }

bool PeakRun::wants_more() const {
  return state_->result.outcome == Outcome::measured && state_->result.visits < state_->session.timing().visits;
}

void PeakRun::visit() {
  PeakResult& result = state_->result;
  const Clock::time_point start = Clock::now();
  const Result<void> ran = api::guarded([&] { return result.visits == 0 ? state_->first() : state_->time(); });
  result.seconds += seconds_since(start);
  if (ran.ok()) return;
  result.outcome = Outcome::failed;
  result.detail = ran.error().message;
}

std::vector<Instruction> instructions_of(const Row& row, const ir::Graph& graph) {
  const std::optional<DType> dtype = contracted(row, graph);
  if (!dtype) {
    if (is_float(row.dtype) && row.dtype != DType::f64) return {Instruction::fma_f32};
    return {};
  }
  switch (*dtype) {
    case DType::f32: return {Instruction::fma_f32};
    case DType::f16: return {Instruction::matrix_f16, Instruction::fma_f32};
    case DType::bf16: return {Instruction::matrix_bf16, Instruction::fma_f32};
    case DType::i8: return {Instruction::matrix_i8, Instruction::dot_i8x4, Instruction::mad_i32};
    default: return {};
  }
}

std::vector<Instruction> instructions_of(std::span<const Request> requests) {
  std::vector<Instruction> used, all;
  for (const Request& request : requests) {
    Shape shape;
    for (std::int64_t size : request.sizes.empty() ? request.row->full : request.sizes) shape.emplace_back(size);
    const auto graph = api::to_graph(request.row->build(request.row->dtype, shape).outputs, {}, request.row->name);
    if (!graph) continue;  // measuring the row says why
    const std::vector<Instruction> some = instructions_of(*request.row, *graph);
    used.insert(used.end(), some.begin(), some.end());
  }
  std::copy_if(std::begin(kInstructions), std::end(kInstructions), std::back_inserter(all),
               [&](Instruction one) { return std::find(used.begin(), used.end(), one) != used.end(); });
  return all;
}

}  // namespace vkfuse::bench

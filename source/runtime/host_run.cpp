#include "runtime/host_run.hpp"

#include <algorithm>
#include <chrono>
#include <set>

namespace vkfuse::runtime {

Result<std::vector<vulkan::Submission>> submit_all(vulkan::Device& device,
                                                   const std::vector<vulkan::CommandBuffer>& parts,
                                                   const vulkan::SubmissionPoints& points) {
  std::vector<vulkan::Submission> submitted;
  for (const vulkan::CommandBuffer& part : parts) {
    const vulkan::CommandBuffer* one = &part;
    vulkan::SubmissionPoints of_part;
    if (one == &parts.front()) of_part.wait_for = points.wait_for;
    if (one == &parts.back()) of_part.signal = points.signal;
    auto submission = device.submit(std::span(&one, 1), of_part);
    if (!submission) {
      if (!submitted.empty()) static_cast<void>(submitted.back().wait());  // the caller frees what these parts use
      return std::move(submission).error();
    }
    submitted.push_back(*std::move(submission));
  }
  return submitted;
}

Result<void> HostRun::add_port(ir::NodeId value, vulkan::BufferKind staging, std::vector<Port>& ports) {
  VKF_TRY(bytes, program_->bytes_of(value, specialization_->symbols));
  VKF_TRY(buffer, program_->make_buffer(value, specialization_->symbols, vulkan::BufferKind::device));
  Port port{value, bytes, std::move(buffer), std::nullopt};
  const bool direct = port.buffer.is_mapped() && (staging == vulkan::BufferKind::upload || port.buffer.host_cached());
  if (!direct) {
    VKF_TRY(made, program_->make_buffer(value, specialization_->symbols, staging));
    port.staging = std::move(made);
  }
  ports.push_back(std::move(port));
  return {};
}

Result<std::unique_ptr<HostRun>> HostRun::create(std::shared_ptr<Program> program,
                                                 std::shared_ptr<const Specialization> specialization) {
  auto run = std::unique_ptr<HostRun>(new HostRun());
  run->program_ = std::move(program);
  run->specialization_ = std::move(specialization);
  VKF_CHECK_OK(run->program_->check_memory(*run->specialization_, run->specialization_->memory, /*ports=*/true));
  const ir::Graph& graph = run->program_->plan().graph;
  for (ir::NodeId id : graph.inputs()) VKF_CHECK_OK(run->add_port(id, vulkan::BufferKind::upload, run->inputs_));
  VKF_CHECK_OK(run->add_windows());
  std::set<ir::NodeId> seen;
  for (const Window& window : run->windows_) seen.insert(window.value);
  for (const ir::Output& output : graph.outputs()) {
    if (seen.insert(output.value).second)
      VKF_CHECK_OK(run->add_port(output.value, vulkan::BufferKind::readback, run->outputs_));
  }
  VKF_TRY(constants, run->program_->constant_ranges());
  run->ranges_ = std::move(constants);
  VKF_TRY(arena, make_arena(run->program_->context()->device(), run->specialization_->memory));
  run->arena_ = std::move(arena);
  add_arena(run->specialization_->memory, run->arena_, run->ranges_);
  for (const Port& port : run->inputs_) run->ranges_[port.value] = {&port.buffer, 0, port.buffer.size()};
  for (const Port& port : run->outputs_) run->ranges_[port.value] = {&port.buffer, 0, port.buffer.size()};
  for (const Window& window : run->windows_) {
    vulkan::BufferRange range = run->ranges_.at(window.alias.of);
    range.offset += static_cast<std::uint64_t>(window.alias.offset);
    range.bytes = std::min<std::uint64_t>(range.bytes - static_cast<std::uint64_t>(window.alias.offset),
                                          static_cast<std::uint64_t>(window.bytes + 15) / 16 * 16);
    run->ranges_[window.value] = range;
  }
  VKF_CHECK_OK(run->record());
  return run;
}

Result<void> HostRun::add_windows() {
  // A run that checks itself stores views and constants as a run with device buffers does: by kernels.
  if (program_->context()->self_checks()) return {};
  for (const plan::ScheduledKernel& step : specialization_->steps) {
    if (!step.alias) continue;
    const ir::NodeId value = step.loops.stores[0].node;
    VKF_TRY(bytes, program_->bytes_of(value, specialization_->symbols));
    windows_.push_back({value, *step.alias, bytes});
  }
  return {};
}

void HostRun::record_uploads(vulkan::CommandBuffer& commands) const {
  bool uploads = false;
  for (const Port& port : inputs_) {
    if (!port.staging || port.bytes == 0) continue;
    commands.copy({&*port.staging, 0, port.buffer.size()}, {&port.buffer, 0, port.buffer.size()});
    uploads = true;
  }
  if (uploads) commands.barrier(vulkan::Access::transfer, vulkan::Access::compute);
}

void HostRun::record_downloads(vulkan::CommandBuffer& commands) const {
  using vulkan::Access;
  commands.barrier(Access::compute, Access::transfer | Access::host);
  bool downloads = false;
  for (const Port& port : outputs_) {
    if (!port.staging || port.bytes == 0) continue;
    commands.copy({&port.buffer, 0, port.buffer.size()}, {&*port.staging, 0, port.buffer.size()});
    downloads = true;
  }
  if (downloads) commands.barrier(Access::transfer, Access::host);
}

Result<void> HostRun::record() {
  const std::vector<Part> parts = program_->parts(*specialization_);
  commands_.clear();
  recorded_for_us_ = specialization_->expected_us();
  for (const Part& part : parts) {
    VKF_TRY(commands, vulkan::CommandBuffer::create(program_->context()->device()));
    VKF_CHECK_OK(commands.begin());
    if (&part == &parts.front()) {
      record_uploads(commands);
    } else {
      commands.barrier(vulkan::Access::compute, vulkan::Access::compute);
    }
    VKF_CHECK_OK(program_->record_part(commands, *specialization_, ranges_, part));
    if (&part == &parts.back()) record_downloads(commands);
    VKF_CHECK_OK(commands.end());
    commands_.push_back(std::move(commands));
  }
  return {};
}

Result<void> HostRun::run(const Inputs& inputs, const Sink& sink) {
  // Cut anew where the runs so far show that it should have been cut otherwise.
  const double limit = program_->options().longest_submission_us;
  const double expected = specialization_->expected_us();
  const bool too_long = expected > limit && expected > 1.2 * recorded_for_us_;
  const bool cut_for_nothing = commands_.size() > 1 && expected < 0.8 * recorded_for_us_;
  if (too_long || cut_for_nothing) VKF_CHECK_OK(record());
  for (Port& port : inputs_) {
    const std::span<const std::byte> bytes = inputs.at(port.value);
    (port.staging ? *port.staging : port.buffer).write(0, bytes);
  }
  VKF_CHECK_OK(program_->context()->self_checks() ? check_itself(inputs) : run_once());
  hand_over(inputs, sink);
  return {};
}

Result<void> HostRun::check_itself(const Inputs& inputs) {
  std::map<ir::NodeId, std::vector<std::byte>> results[2];
  for (std::size_t i = 0; i < 2; ++i) {
    VKF_CHECK_OK(poison(kPoison[i]));
    VKF_CHECK_OK(run_once());
    hand_over(inputs, [&](ir::NodeId value, std::span<const std::byte> piece) {
      results[i][value].insert(results[i][value].end(), piece.begin(), piece.end());
    });
  }
  for (const ir::Output& output : program_->plan().graph.outputs()) {
    const std::vector<std::byte>& one = results[0][output.value];
    const std::vector<std::byte>& other = results[1][output.value];
    const auto [at, there] = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
    if (at == one.end()) continue;
    return Error{ErrorCode::internal,
                 fmt::format("A defect in vkfuse: output '{}' of '{}' depends on memory that no kernel wrote. Its byte "
                             "{} is 0x{:02x} after memory was filled with 0xa5, "
                             "and 0x{:02x} after 0x5a.",
                             output.name, program_->plan().graph.name, at - one.begin(), std::to_integer<int>(*at),
                             std::to_integer<int>(*there)),
                 {}};
  }
  return {};
}

Result<void> HostRun::poison(std::uint32_t word) const {
  const std::shared_ptr<vulkan::Device>& device = program_->context()->device();
  VKF_TRY(commands, vulkan::CommandBuffer::create(device));
  VKF_CHECK_OK(commands.begin());
  for (const Port& port : outputs_) record_fill(commands, port.buffer, word);
  record_poison(commands, arena_, word);
  record_cleared_counters(commands, specialization_->memory, arena_);
  VKF_CHECK_OK(commands.end());
  VKF_TRY(submission, device->submit(commands));
  return submission.wait();
}

Result<void> HostRun::run_once() {
  const auto start = std::chrono::steady_clock::now();
  VKF_TRY(submitted, submit_all(*program_->context()->device(), commands_));
  VKF_CHECK_OK(specialization_->pace.wait_for(submitted.back()));
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  const bool first = !std::exchange(ran_, true) && specialization_->pace.shortest_us == 0;
  if (tells_pace(us, first, specialization_->modelled_us(), program_->options().longest_submission_us))
    specialization_->pace.note(us);
  return {};
}

namespace {

/// Bytes `first` to `first + bytes` of a mapped buffer, piece by piece.
template <typename Take>
void read_pieces(const vulkan::Buffer& from, std::int64_t first, std::int64_t bytes, const Take& take) {
  for (const vulkan::Buffer& piece : from.pieces()) {
    const auto own = static_cast<std::int64_t>(from.piece_bytes() > 0 ? from.piece_bytes() : piece.size());
    const std::int64_t here = std::min(own - first, bytes);
    if (here > 0) take(std::span<const std::byte>(piece.mapped() + first, static_cast<std::size_t>(here)));
    bytes -= std::max<std::int64_t>(here, 0);
    first = std::max<std::int64_t>(first - own, 0);
  }
}

}  // namespace

void HostRun::hand_over(const Inputs& inputs, const Sink& sink) const {
  const auto stored = [&](ir::NodeId value, const Port& port, std::int64_t first, std::int64_t bytes) {
    const vulkan::Buffer& from = port.staging ? *port.staging : port.buffer;
    read_pieces(from, first, bytes, [&](std::span<const std::byte> piece) { sink(value, piece); });
  };
  for (const Port& port : outputs_) stored(port.value, port, 0, port.bytes);
  for (const Window& window : windows_) {
    const auto [of, offset] = window.alias;
    const auto port = std::ranges::find(outputs_, of, &Port::value);
    if (port != outputs_.end()) {
      stored(window.value, *port, offset, window.bytes);
      continue;
    }
    const auto given = inputs.find(of);
    const std::span<const std::byte> all =
        given != inputs.end()
            ? given->second
            : std::span<const std::byte>(*std::get<ir::ConstantPayload>(program_->plan().graph.node(of).payload).bytes);
    sink(window.value, all.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(window.bytes)));
  }
}

bool tells_pace(double us, bool first, double modelled_us, double limit_us) {
  constexpr double kTimes = 4;
  constexpr double kBelieved = 1000;  // no model is off as far
  const bool too_long_to_compile = us > kTimes * limit_us && us < kBelieved * modelled_us;
  return !first || us <= limit_us || too_long_to_compile || modelled_us > limit_us;
}

Result<std::vector<StepTime>> HostRun::profile() { return profile_runs(*program_, *specialization_, ranges_); }

Result<double> HostRun::replay_us() { return runtime::replay_us(*program_, *specialization_, ranges_); }

}  // namespace vkfuse::runtime

#include "runtime/host_run.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

namespace vkfuse::runtime {

Result<Arena> make_arena(const std::shared_ptr<vulkan::Device>& device, const plan::Memory& memory) {
  Arena arena;
  for (const std::int64_t bytes : memory.pieces) {
    VKF_TRY(piece, vulkan::Buffer::create(device, static_cast<std::uint64_t>(bytes), vulkan::BufferKind::device));
    arena.push_back(std::move(piece));
  }
  return arena;
}

void add_arena(const plan::Memory& memory, const Arena& arena, Ranges& ranges) {
  for (const plan::Slot& slot : memory.slots) {
    const vulkan::Buffer& piece = arena[static_cast<std::size_t>(slot.offset / memory.piece_bytes)];
    ranges[slot.value] = {&piece, static_cast<std::uint64_t>(slot.offset % memory.piece_bytes), static_cast<std::uint64_t>(slot.bytes)};
  }
}

Result<vulkan::Ticket> submit_all(vulkan::Device& device, const std::vector<vulkan::CommandBuffer>& parts) {
  vulkan::Ticket last;
  for (const vulkan::CommandBuffer& part : parts) {
    auto ticket = device.submit(part);
    if (!ticket) {
      static_cast<void>(last.wait());  // the caller frees what the parts before use
      return ticket;
    }
    last = *std::move(ticket);
  }
  return last;
}

Result<void> HostRun::add_port(ir::NodeId value, vulkan::BufferKind staging, std::vector<Port>& ports) {
  VKF_TRY(bytes, program_->bytes_of(value, variant_->symbols));
  VKF_TRY(buffer, vulkan::Buffer::create(program_->context()->device(), static_cast<std::uint64_t>(bytes), vulkan::BufferKind::device));
  Port port{value, bytes, std::move(buffer), std::nullopt};
  const bool direct = port.buffer.mapped() != nullptr && (staging == vulkan::BufferKind::upload || port.buffer.host_cached());
  if (!direct) {
    VKF_TRY(made, vulkan::Buffer::create(program_->context()->device(), static_cast<std::uint64_t>(bytes), staging));
    port.staging = std::move(made);
  }
  ports.push_back(std::move(port));
  return {};
}

Result<std::unique_ptr<HostRun>> HostRun::create(std::shared_ptr<Program> program, std::shared_ptr<const Variant> variant) {
  auto run = std::unique_ptr<HostRun>(new HostRun());
  run->program_ = std::move(program);
  run->variant_ = std::move(variant);
  VKF_CHECK_OK(run->program_->check_memory(*run->variant_, run->variant_->memory, /*ports=*/true));
  const ir::Graph& graph = run->program_->plan().graph;
  for (ir::NodeId id : graph.inputs()) VKF_CHECK_OK(run->add_port(id, vulkan::BufferKind::upload, run->inputs_));
  VKF_CHECK_OK(run->add_windows());
  std::set<ir::NodeId> seen;
  for (const Window& window : run->windows_) seen.insert(window.value);
  for (const ir::Output& output : graph.outputs()) {
    if (seen.insert(output.value).second) VKF_CHECK_OK(run->add_port(output.value, vulkan::BufferKind::readback, run->outputs_));
  }
  VKF_TRY(constants, run->program_->constant_ranges());
  run->ranges_ = std::move(constants);
  VKF_TRY(arena, make_arena(run->program_->context()->device(), run->variant_->memory));
  run->arena_ = std::move(arena);
  add_arena(run->variant_->memory, run->arena_, run->ranges_);
  for (const Port& port : run->inputs_) run->ranges_[port.value] = {&port.buffer, 0, port.buffer.size()};
  for (const Port& port : run->outputs_) run->ranges_[port.value] = {&port.buffer, 0, port.buffer.size()};
  for (const Window& window : run->windows_) {
    vulkan::BufferRange range = run->ranges_.at(window.alias.of);
    range.offset += static_cast<std::uint64_t>(window.alias.offset);
    range.bytes = std::min<std::uint64_t>(range.bytes - static_cast<std::uint64_t>(window.alias.offset), static_cast<std::uint64_t>(window.bytes + 15) / 16 * 16);
    run->ranges_[window.value] = range;
  }
  VKF_CHECK_OK(run->record());
  return run;
}

Result<void> HostRun::add_windows() {
  for (const plan::Scheduled& step : variant_->steps) {
    if (!step.alias) continue;
    const ir::NodeId value = step.loops.stores[0].node;
    VKF_TRY(bytes, program_->bytes_of(value, variant_->symbols));
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
  const std::vector<Part> parts = program_->parts(*variant_);
  commands_.clear();
  recorded_for_us_ = variant_->expected_us();
  for (const Part& part : parts) {
    VKF_TRY(commands, vulkan::CommandBuffer::create(program_->context()->device()));
    VKF_CHECK_OK(commands.begin());
    if (&part == &parts.front()) {
      record_uploads(commands);
    } else {
      commands.barrier(vulkan::Access::compute, vulkan::Access::compute);
    }
    VKF_CHECK_OK(program_->record_part(commands, *variant_, ranges_, part));
    if (&part == &parts.back()) record_downloads(commands);
    VKF_CHECK_OK(commands.end());
    commands_.push_back(std::move(commands));
  }
  return {};
}

Result<std::map<ir::NodeId, std::vector<std::byte>>> HostRun::run(const std::map<ir::NodeId, std::span<const std::byte>>& inputs) {
  // Cut anew where the runs so far show that it should have been cut otherwise.
  const double limit = program_->options().longest_submission_us;
  const double expected = variant_->expected_us();
  const bool too_long = expected > limit && expected > 1.2 * recorded_for_us_;
  const bool cut_for_nothing = commands_.size() > 1 && expected < 0.8 * recorded_for_us_;
  if (too_long || cut_for_nothing) VKF_CHECK_OK(record());
  for (Port& port : inputs_) {
    const std::span<const std::byte> bytes = inputs.at(port.value);
    if (bytes.empty()) continue;
    std::memcpy(port.staging ? port.staging->mapped() : port.buffer.mapped(), bytes.data(), bytes.size());
  }
  const auto start = std::chrono::steady_clock::now();
  VKF_TRY(ticket, submit_all(*program_->context()->device(), commands_));
  VKF_CHECK_OK(ticket.wait());
  variant_->pace.note(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  std::map<ir::NodeId, std::vector<std::byte>> results;
  for (const Port& port : outputs_) {
    const std::byte* from = port.staging ? port.staging->mapped() : port.buffer.mapped();
    results[port.value].assign(from, from + port.bytes);
  }
  for (const Window& window : windows_) {
    const auto given = inputs.find(window.alias.of);
    const auto* constant = std::get_if<ir::ConstantPayload>(&program_->plan().graph.node(window.alias.of).payload);
    const std::span<const std::byte> behind = given != inputs.end() ? given->second
                                              : constant != nullptr ? std::span<const std::byte>(*constant->bytes)
                                                                    : std::span<const std::byte>(results.at(window.alias.of));
    const auto from = behind.begin() + window.alias.offset;
    results[window.value].assign(from, from + window.bytes);
  }
  return results;
}

Result<std::vector<StepTime>> HostRun::profile() {
  // A device that waits lowers its clocks: one recording is queued while the other runs, for 0.3 s before samples count.
  constexpr std::size_t fewest = 9, most = 99;
  constexpr double settle_us = 0.3e6, patience_us = 2e6;
  struct Recording {
    vulkan::TimestampPool times;
    vulkan::CommandBuffer commands;
    vulkan::Ticket ticket;
  };
  const auto& device = program_->context()->device();
  const std::size_t steps = variant_->kernels.size();
  std::vector<Recording> recordings;
  for (int i = 0; i < 2; ++i) {
    VKF_TRY(times, vulkan::TimestampPool::create(device, static_cast<std::uint32_t>(steps) + 1));
    VKF_TRY(commands, vulkan::CommandBuffer::create(device));
    VKF_CHECK_OK(commands.begin());
    commands.barrier(vulkan::Access::compute, vulkan::Access::compute);
    VKF_CHECK_OK(program_->record(commands, *variant_, ranges_, &times));
    VKF_CHECK_OK(commands.end());
    recordings.push_back({std::move(times), std::move(commands), {}});
  }
  std::vector<std::vector<double>> samples(steps);  // nanoseconds
  double passed_us = 0;
  const auto enough = [&] {
    const std::size_t taken = steps == 0 ? most : samples.front().size();
    return taken >= most || passed_us > patience_us || (taken >= fewest && passed_us > settle_us);
  };
  // Whatever ends this, nothing is freed that the device still works on.
  struct Waits {
    std::vector<Recording>& all;
    ~Waits() {
      for (const Recording& one : all) static_cast<void>(one.ticket.wait());
    }
  } const waits{recordings};
  for (Recording& recording : recordings) {
    VKF_TRY(ticket, device->submit(recording.commands));
    recording.ticket = ticket;
  }
  for (std::size_t turn = 0, queued = recordings.size(); queued > 0; ++turn) {
    Recording& recording = recordings[turn % recordings.size()];
    VKF_CHECK_OK(recording.ticket.wait());
    --queued;
    VKF_TRY(times, recording.times.nanoseconds());
    if (passed_us < settle_us) {
      for (auto& of_step : samples) of_step.clear();  // the clocks were still rising
    }
    passed_us += times.back() * 1e-3;
    for (std::size_t i = 0; i < steps; ++i) samples[i].push_back(times[i + 1] - times[i]);
    if (enough()) continue;
    VKF_TRY(ticket, device->submit(recording.commands));
    recording.ticket = ticket;
    ++queued;
  }
  std::vector<StepTime> result;
  for (std::size_t i = 0; i < steps; ++i) {
    const auto middle = samples[i].begin() + static_cast<std::ptrdiff_t>(samples[i].size() / 2);
    std::nth_element(samples[i].begin(), middle, samples[i].end());
    result.push_back({variant_->kernels[i].front().name, *middle * 1e-3, variant_->bytes_moved(i)});
  }
  return result;
}

}  // namespace vkfuse::runtime

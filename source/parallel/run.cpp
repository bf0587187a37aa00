#include "parallel/run.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/mutations.hpp"
#include "parallel/agreement.hpp"
#include "parallel/exchange.hpp"
#include "parallel/waiting.hpp"

namespace vkfuse::parallel {

namespace {

/// Buffers are bound whole 16 bytes at a time.
std::uint64_t padded(std::int64_t bytes) { return std::max<std::uint64_t>(static_cast<std::uint64_t>(bytes), 16); }

/// What parts of buffers begin at a multiple of, on every device.
constexpr std::int64_t kPartAlignment = 256;

}  // namespace

std::chrono::milliseconds Run::timeout() const {
  return VKF_PLANT(late_deadline, state_.timeout, state_.timeout + std::chrono::seconds(7));
}

std::string Run::at(ir::NodeId collective) const {
  const auto number = std::ranges::find(state_.collectives, collective) - state_.collectives.begin();
  return fmt::format("'{}' %{}, collective {} of the program, with a timeout of {} ms",
                     state_.sharded.graph.node(collective).op->name, collective, number, state_.timeout.count());
}

Result<void> Run::run() {
  VKF_CHECK_OK(begin());
  for (std::size_t part = 0; part < state_.programs.size(); ++part) {
    VKF_CHECK_OK(run_part(part));
    VKF_CHECK_OK(finish_exchanges());
    if (part == state_.cut.steps.size()) break;
    for (const Step& step : state_.cut.steps[part]) VKF_CHECK_OK(run_step(step));
  }
  return finish();
}

Result<Sizes> Run::sizes_of(const Shape& shape) const { return resolve(shape, symbols_); }

Result<Buffer> Run::buffer_for(const std::string& name, std::int64_t bytes, bool clears) {
  const auto kept = state_.buffers.find(name);
  if (kept != state_.buffers.end() && kept->second.size() == padded(bytes)) return kept->second;
  VKF_TRY(buffer, new_buffer(name, bytes));
  if (clears) VKF_CHECK_OK(buffer.write(std::vector<std::byte>(padded(bytes))));
  state_.buffers.insert_or_assign(name, buffer);
  return buffer;
}

Result<Buffer> Run::new_buffer(const std::string& name, std::int64_t bytes) {
  const auto place = state_.places.find(name);
  if (place != state_.places.end() && bytes > 0 && bytes % kPartAlignment == 0) {
    const Step& step = *place->second;
    VKF_TRY(members, members_of(*ir::group_of(step.node), state_.transport->rank(), state_.transport->size()));
    VKF_TRY(whole, buffer_for(step.result, bytes * members.count()));
    return whole.part(static_cast<std::uint64_t>(bytes * members.self), static_cast<std::uint64_t>(bytes));
  }
  return state_.linked.contains(name) ? state_.link->allocate(padded(bytes)) : state_.device.allocate(padded(bytes));
}

Result<void> Run::upload(std::map<std::string, std::vector<std::byte>, std::less<>> values) {
  for (const auto& [name, bytes] : values) {
    VKF_CHECK_OK(keep_result(name));
    VKF_TRY(buffer, buffer_for(name, static_cast<std::int64_t>(bytes.size())));
    if (!bytes.empty()) VKF_CHECK_OK(buffer.write(bytes));
    state_.placed_since = true;
  }
  return {};
}

Result<void> Run::keep_result(const std::string& name) {
  if (!state_.last) return {};
  const auto result = state_.last->results.find(name);
  const auto placed = state_.buffers.find(name);
  if (result == state_.last->results.end() || placed == state_.buffers.end() ||
      placed->second.state() != result->second.state())
    return {};
  std::vector<std::byte> bytes(result->second.size());
  VKF_CHECK_OK(result->second.read(bytes));
  VKF_TRY(copy, state_.device.allocate(bytes.size()));
  VKF_CHECK_OK(copy.write(bytes));
  result->second = std::move(copy);
  return {};
}

Result<void> Run::begin() {
  if (state_.collectives.empty()) return {};
  auto agreed = agree_about_run(*state_.transport, {state_.number, symbols_}, deadline_after(timeout()));
  if (agreed) return {};
  return std::move(agreed).error().within(fmt::format("beginning a run, before {}", at(state_.collectives.front())));
}

Result<Bindings> Run::bindings_of(const Executable& program) {
  Bindings bindings;
  const auto note_symbols = [&](const Shape& shape) {
    for (const Dim& dim : shape) {
      if (dim.is_symbol())
        bindings.symbols.insert_or_assign(std::string(dim.name()), symbols_.at(std::string(dim.name())));
    }
  };
  for (const Port& port : program.inputs()) {
    bindings.inputs.emplace(port.name, state_.buffers.at(port.name));
    note_symbols(port.shape);
  }
  for (const Port& port : program.outputs()) {
    VKF_TRY(sizes, sizes_of(port.shape));
    VKF_TRY(bytes, byte_count(port.dtype, sizes));
    VKF_TRY(buffer, buffer_for(port.name, bytes));
    bindings.outputs.emplace(port.name, buffer);
    note_symbols(port.shape);
  }
  return bindings;
}

Result<void> Run::run_part(std::size_t part) {
  if (!state_.programs[part]) return {};
  const Executable& program = *state_.programs[part];
  VKF_TRY(bindings, bindings_of(program));
  if (state_.link != nullptr) {
    if (!flights_.empty()) bindings.wait_for = {{state_.exchanged->timeline, state_.exchanged->value}};
    bindings.signal = {{state_.computed->timeline, state_.computed->value + 1}};
  }
  VKF_TRY(submission, program.submit(bindings));
  if (state_.link != nullptr) ++state_.computed->value;
  submissions_.push_back(std::move(submission));
  return {};
}

Result<std::vector<KernelTime>> Run::profile() {
  std::vector<KernelTime> all;
  for (std::size_t part = 0; part < state_.programs.size(); ++part) {
    if (!state_.programs[part]) continue;
    VKF_TRY(bindings, bindings_of(*state_.programs[part]));
    VKF_TRY(times, state_.programs[part]->profile(bindings));
    for (KernelTime& time : times) {
      time.kernel = fmt::format("part {}, {}", part, time.kernel);
      all.push_back(std::move(time));
    }
  }
  return all;
}

Result<void> Run::run_step(const Step& step) {
  VKF_TRY(sizes, sizes_of(step.operand_type.shape));
  VKF_TRY(bytes, byte_count(step.operand_type.dtype, sizes));
  VKF_TRY(result_sizes, sizes_of(step.node.type.shape));
  VKF_TRY(result_bytes, byte_count(step.node.type.dtype, result_sizes));
  VKF_TRY(members, members_of(*ir::group_of(step.node), state_.transport->rank(), state_.transport->size()));
  auto messages = messages_of(step.node, members, static_cast<std::uint64_t>(bytes));
  if (!step.role.sends) messages.sends.clear();
  if (!step.role.receives) messages.receives.clear();
  Counter& computed = *state_.computed;
  Counter& exchanged = *state_.exchanged;
  DeviceExchange exchange{{},
                          {},
                          std::move(messages.sends),
                          std::move(messages.receives),
                          messages.bytes,
                          {computed.timeline, computed.value},
                          {exchanged.timeline, exchanged.value + 1},
                          timeout()};
  if (step.role.receives) {
    VKF_TRY(result, buffer_for(step.result, result_bytes, exchange.receives.empty()));
    exchange.from = exchange.to = std::move(result);
  }
  if (exchange.sends.empty() && exchange.receives.empty()) return state_.link->exchange(exchange);
  if (step.role.sends) exchange.from = state_.buffers.at(step.operand);
  if (!step.role.receives) exchange.to = exchange.from;
  auto begun = state_.link->exchange(exchange);
  if (!begun) return lost(std::move(begun).error()).within(fmt::format("running {}", at(step.origin)));
  flights_.push_back({&step, computed.value, ++exchanged.value});
  return {};
}

Result<void> Run::finish_exchanges() {
  if (state_.link == nullptr || flights_.empty()) return {};
  auto finished = state_.link->finish();
  if (finished) return {};
  const auto reached = state_.exchanged->timeline.value();
  const auto is_late = [&](const Flight& flight) { return reached && flight.done > *reached; };
  const auto late = std::ranges::find_if(flights_, is_late);
  const Step& step = late == flights_.end() ? *flights_.back().step : *late->step;
  return lost(std::move(finished).error()).within(fmt::format("running {}", at(step.origin)));
}

Error Run::lost(Error error) {
  if (error.code != ErrorCode::io) return error;
  const std::chrono::milliseconds patience = std::min<std::chrono::milliseconds>(timeout(), std::chrono::seconds(2));
  auto heard = agree(*state_.transport, {"lost"}, deadline_after(patience));
  return heard ? error : std::move(heard).error();
}

Result<void> Run::finish() {
  for (const Flight& flight : flights_) {
    VKF_CHECK_OK(wait_for({state_.computed->timeline, flight.after}));
    VKF_TRY(has_come, wait_until(state_.exchanged->timeline, flight.done, deadline_after(timeout())));
    if (has_come) continue;
    Error late = make_error(ErrorCode::io, "What ranks sent to rank {} has not come until the timeout.",
                            state_.transport->rank());
    return lost(std::move(late)).within(fmt::format("running {}", at(flight.step->origin)));
  }
  for (const Submission& submission : submissions_) VKF_CHECK_OK(submission.wait());
  LastRun last{symbols_, {}};
  for (const Cut::Result& output : state_.cut.outputs)
    last.results.insert_or_assign(output.value, state_.buffers.at(output.value));
  state_.last = std::move(last);
  state_.placed_since = false;
  return {};
}

Result<Outputs> Run::download() {
  Outputs outputs;
  for (const Cut::Result& output : state_.cut.outputs) {
    VKF_TRY(sizes, sizes_of(output.type.shape));
    VKF_TRY(count, byte_count(output.type.dtype, sizes));
    std::vector<std::byte> bytes(static_cast<std::size_t>(count));
    if (count > 0) VKF_CHECK_OK(state_.last->results.at(output.value).read(bytes));
    outputs[output.name] = {output.type.dtype, std::move(sizes), std::move(bytes)};
  }
  return outputs;
}

}  // namespace vkfuse::parallel

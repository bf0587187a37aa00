// What is behind the public handles.
#pragma once

#include <functional>
#include <mutex>

#include "base/background.hpp"
#include "runtime/arena.hpp"
#include "runtime/early_results.hpp"
#include "runtime/program.hpp"
#include "runtime/run_pool.hpp"
#include "runtime/tune.hpp"
#include "vkfuse/executable.hpp"
#include "vulkan/timeline.hpp"

namespace vkfuse {

namespace api {

/// The bytes of a buffer as the run that made them copied them to the host, as long as they cannot have changed.
/// Thread-safe.
class EarlyBytes {
 public:
  void set(runtime::EarlyCopy copy);
  void forget();
  /// The value of the submission that makes it; nothing where there is no copy.
  [[nodiscard]] std::optional<std::uint64_t> made_by() const;
  /// Waits for the copy and takes bytes of it; false where there is none.
  Result<bool> read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  mutable std::mutex mutex_;
  std::optional<runtime::EarlyCopy> copy_;
};

}  // namespace api

struct Buffer::State {
  std::shared_ptr<runtime::Context> context;
  vulkan::Buffer buffer;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;                ///< where they begin, in a host's buffer or in another one
  std::shared_ptr<Buffer::State> whole{};  ///< of a part
  vulkan::Submission filled{};             ///< the copy that brought its first bytes
  api::EarlyBytes early{};                 ///< of a small result

  State(std::shared_ptr<runtime::Context> on, vulkan::Buffer memory, std::uint64_t used, std::uint64_t from = 0)
      : context(std::move(on)), buffer(std::move(memory)), bytes(used), offset(from) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  /// Whoever used it last is done with it.
  ~State() {
    const auto is_filled = filled.done();
    if (!is_filled || *is_filled)
      context->memory().spares()->keep(std::move(buffer));
    else
      context->transfer().free_after(std::move(buffer), std::move(filled));
  }
  /// Of the memory, be it a part of another's: what the host and other queues wait for.
  [[nodiscard]] Result<void> wait_until_filled() const { return whole ? whole->wait_until_filled() : filled.wait(); }
  /// Something may write to it from now on, or to what it is a part of.
  void may_change() {
    early.forget();
    if (whole) whole->may_change();
  }
};

struct Device::State {
  std::shared_ptr<runtime::Context> context;
};

struct Timeline::State {
  vulkan::Timeline timeline;
};

struct Submission::State {
  vulkan::Submission submission;
  // Alive until the work is done.
  std::vector<std::shared_ptr<Buffer::State>> buffers;
  std::shared_ptr<runtime::Program> program;
  std::shared_ptr<const runtime::Specialization> specialization;
  std::vector<std::shared_ptr<const Timeline::State>> timelines;  ///< that it waits for and signals
  std::vector<runtime::BoundMemory> bound;                        ///< to the program's ports
  std::set<std::string, std::less<>> given_away;                  ///< inputs
  std::map<std::string, Buffer> results;                          ///< outputs in memory that the run allocated
  std::vector<runtime::EarlyResult> early;                        ///< of these, those that it copies to the host
  std::shared_ptr<const plan::Memory> donated;                    ///< the memory of a run that inputs are given away to
  runtime::Arena arena;
  std::vector<vulkan::CommandBuffer> commands;
  std::optional<vulkan::CommandBuffer> clearing;  ///< before them, of a run whose workgroups count
  std::shared_ptr<runtime::SpentRuns> spent;      ///< where the arena and the commands go afterwards, if set
  std::map<std::string, Buffer, std::less<>> outputs;
  /// Whether the commands may be submitted again: what is cut into parts may be cut otherwise next time, and what reads
  /// the clock writes to timestamps that end with this run.
  bool may_repeat = false;
  std::optional<vulkan::TimestampPool> clock;  ///< at the start and the end, where nobody knows how long the run takes
  std::once_flag read_clock;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  /// Waits: what is in flight must not be freed.
  ~State();

  /// Of work that has ended: how long it took is known from now on.
  void note_time();
};

struct Executable::State {
  explicit State(std::shared_ptr<runtime::Program> made) : program(std::move(made)), runs(program) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  /// Begins the search in the background, once, if the options ask for it.
  void tune_later(const SymbolValues& symbols);

  std::shared_ptr<runtime::Program> program;
  runtime::RunPool runs;
  std::shared_ptr<runtime::SpentRuns> spent = std::make_shared<runtime::SpentRuns>();
  runtime::TuneOptions background;  ///< of a budget above 0: to be begun
  std::once_flag begun;
  /// Destroyed first. A search in the background then ends after the measurement that it is at.
  BackgroundThread tuner;
};

namespace api {

/// Turns a broken invariant, memory exhaustion on the host, or what a function of the caller throws, into an error
/// value.
template <typename Call>
auto guarded(Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const InternalError& broken) {
    return Error{
        ErrorCode::internal, fmt::format("A defect in vkfuse: an invariant does not hold: {}.", broken.what()), {}};
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::out_of_memory, "The host has no memory left.", {}};
  } catch (const std::length_error&) {
    return Error{ErrorCode::out_of_memory, "The host cannot hold a container this large.", {}};
  } catch (const std::exception& other) {
    return Error{
        ErrorCode::internal,
        fmt::format("'{}' was thrown by a function that the caller gave, or by a defect in vkfuse.", other.what()),
        {}};
  } catch (...) {
    return Error{
        ErrorCode::internal, "What is no exception of the standard was thrown by a function that the caller gave.", {}};
  }
}

inline const std::string& input_name(const ir::Graph& graph, ir::NodeId id) {
  return std::get<ir::InputPayload>(graph.node(id).payload).name;
}

}  // namespace api
}  // namespace vkfuse

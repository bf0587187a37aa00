// One run of a rank's program.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parallel/cut.hpp"
#include "parallel/local_inputs.hpp"
#include "vkfuse/parallel.hpp"

namespace vkfuse {

namespace parallel {

/// A timeline, and the value that it will have reached.
struct Counter {
  Timeline timeline;
  std::uint64_t value = 0;
};

/// What is left of a run.
struct LastRun {
  SymbolValues symbols;
  /// What outputs are in, by the values that they are. One that is an input is copied when another is placed: what a
  /// link exchanges stays in its place, which all ranks know.
  std::map<std::string, Buffer, std::less<>> results;
};

}  // namespace parallel

struct ParallelProgram::State {
  State(Device on, std::shared_ptr<Transport> over) : device(std::move(on)), transport(std::move(over)) {}

  Device device;
  std::shared_ptr<Transport> transport;
  std::chrono::milliseconds timeout{};
  std::vector<int> mesh;
  std::uint64_t number = 0;             ///< of this program among those of the transport, on every rank
  ir::Graph graph;                      ///< as it was given
  parallel::Sharded sharded;            ///< its graph is that of this rank
  std::vector<ir::NodeId> collectives;  ///< of that graph, in the order of which ranks speak
  parallel::Cut cut;
  std::vector<std::optional<Executable>> programs;  ///< of parts; none where a part computes nothing
  std::optional<Error> failure;                     ///< of an earlier run: ranks are no longer in step

  // --- of programs that have collectives ---
  std::shared_ptr<DeviceLink> link;
  std::set<std::string, std::less<>> linked;                         ///< values that it sends or receives
  std::map<std::string, const parallel::Step*, std::less<>> places;  ///< operands that are part of a step's result
  std::optional<parallel::Counter> computed;                         ///< by the device, after each part
  std::optional<parallel::Counter> exchanged;                        ///< by the link, after each exchange

  // --- between runs ---
  std::map<std::string, Buffer, std::less<>> buffers;  ///< of values
  parallel::WholeSizes placed;                         ///< inputs that later runs have, too
  std::optional<parallel::LastRun> last;               ///< that has ended
  bool placed_since = false;                           ///< whether inputs were placed after it
};

namespace parallel {

using State = ParallelProgram::State;

/// A run of this rank: values by name, on the device. Parts and exchanges are begun one after the other, and wait for
/// each other on the device.
class Run {
 public:
  Run(State& state, SymbolValues symbols) : state_(state), symbols_(std::move(symbols)) {}

  Result<void> run();
  Result<void> upload(std::map<std::string, std::vector<std::byte>, std::less<>> values);
  Result<Outputs> download();
  Result<std::vector<KernelTime>> profile();

 private:
  /// Ranks that are in step know that they are.
  Result<void> begin();
  [[nodiscard]] std::chrono::milliseconds timeout() const;
  /// What a rank that fails in this collective was at.
  [[nodiscard]] std::string at(ir::NodeId collective) const;
  Result<Bindings> bindings_of(const Executable& program);
  /// Of the last run, which an input of this name is about to be written over.
  Result<void> keep_result(const std::string& name);
  Result<void> run_part(std::size_t part);
  Result<void> run_step(const Step& step);
  /// When the part that reads what they bring has been submitted.
  Result<void> finish_exchanges();
  Result<void> finish();
  /// After values that have not come: names the ranks that do not answer, where some do not.
  Error lost(Error error);
  Result<Sizes> sizes_of(const Shape& shape) const;
  /// Of a value of this name, kept since an earlier run if that was of this size; a new one is of zeros, if asked for.
  Result<Buffer> buffer_for(const std::string& name, std::int64_t bytes, bool clears = false);
  Result<Buffer> new_buffer(const std::string& name, std::int64_t bytes);

  struct Flight {
    const Step* step;
    std::uint64_t after, done;
  };

  State& state_;
  SymbolValues symbols_;
  std::vector<Submission> submissions_;
  std::vector<Flight> flights_;
};

}  // namespace parallel
}  // namespace vkfuse

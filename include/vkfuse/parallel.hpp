// Programs of several ranks: each rank compiles and runs its own, on its own device, and collectives are between them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vkfuse/collectives.hpp"
#include "vkfuse/executable.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

struct Send {
  int to = 0;
  std::span<const std::byte> bytes;
};
struct Receive {
  int from = 0;
  std::span<std::byte> bytes;
};
/// Messages between this rank and others, all in flight at once. The n-th message to a rank is the n-th that it
/// receives from this one in its exchange of the same number.
struct Exchange {
  std::uint64_t number = 0;  ///< counts up, and names the same exchange on every rank
  std::vector<Send> sends;
  std::vector<Receive> receives;
  std::chrono::steady_clock::time_point deadline;
  /// Owns the bytes. A transport keeps it as long as a message may still be read or written, after an error, too.
  std::shared_ptr<void> memory;
  /// Told the index of each receive that is complete, in the order of arrival, by the thread that exchanges. May be
  /// empty.
  std::function<void(std::size_t receive)> received;
};

/// Bytes of a buffer that go to a rank or come from one.
struct BufferPart {
  int rank = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
/// Values between the devices of ranks, all in flight at once. The n-th part for a rank is the n-th that it receives
/// from this one in the exchange that it begins as the same one. What a rank sends to itself is copied. Where a rank
/// has no parts the exchange is between others: nothing is waited for or reached.
struct DeviceExchange {
  Buffer from, to;                   ///< of DeviceLink::allocate()
  std::vector<BufferPart> sends;     ///< of `from`
  std::vector<BufferPart> receives;  ///< into `to`; what no part covers stays
  std::uint64_t message_bytes = 0;   ///< of every part, on every rank of the job
  TimelinePoint after;               ///< reached when `from` has its values and `to` is not used any more
  TimelinePoint done;  ///< to be reached when `to` has its values and `from` is not used any more, after that of every
                       ///< exchange before
  std::chrono::milliseconds timeout{};  ///< from `after` on, for a link that waits
};

/// Carries values between devices: each rank's is its own, as kernels wait on its queue for what other ranks send.
/// Exchanges follow each other in the order in which they are begun, which is the same
/// on every rank.
class DeviceLink {
 public:
  DeviceLink() = default;
  DeviceLink(const DeviceLink&) = delete;
  DeviceLink& operator=(const DeviceLink&) = delete;
  virtual ~DeviceLink() = default;

  /// Device memory that exchanges take.
  virtual Result<Buffer> allocate(std::uint64_t bytes) = 0;
  /// Begins an exchange, and may return before it has ended. Nothing that waits for its `done` is on the
  /// device's queue yet.
  virtual Result<void> exchange(const DeviceExchange& exchange) = 0;
  /// Does what exchanges still need of this thread. Work that waits for their `done` may have been submitted by then.
  virtual Result<void> finish() = 0;
  /// After an error, or where another rank is not heard of: what is in flight comes to an end, whatever it leaves in
  /// its buffers, and its `done` is reached. No exchange is begun afterwards.
  virtual void abandon() = 0;
};

/// Carries bytes between the ranks of a job. One thread of a rank uses it at a time: programs hold turn() while they
/// compile and run.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// Returns when everything has arrived and what is sent may be overwritten. ErrorCode::io at the deadline, with the
  /// ranks that are silent; at once where a rank is known to have failed. After an error every exchange fails with it.
  virtual Result<void> exchange(const Exchange& exchange) = 0;
  /// Tells the other ranks that this one goes no further, so that they need not wait. Does not wait, and may not
  /// arrive.
  virtual void fail(std::string_view sentence) = 0;
  /// What carries values between devices without the host's messages, for this device; every rank calls it, with the
  /// device that its programs run on. Null, as here: values go through the host, by exchange().
  virtual Result<std::shared_ptr<DeviceLink>> link(const Device& device);

  /// The first of so many numbers for exchanges, which this rank has used for nothing else. Ranks that use their
  /// transports for the same things in the same order have the same numbers.
  std::uint64_t take_numbers(std::uint64_t count) { return std::exchange(next_number_, next_number_ + count); }
  /// Held by the thread that uses the transport and its numbers.
  std::mutex& turn() { return turn_; }

 private:
  std::mutex turn_;
  std::uint64_t next_number_ = 0;
};

/// Transports of ranks that are threads of this process, one for each: several devices, or several openings of one.
/// ErrorCode::invalid_argument for fewer than 1 or more than 1,024 ranks.
Result<std::vector<std::shared_ptr<Transport>>> thread_transports(int ranks);

/// How ranks are laid out: axis i has sizes[i] of them, and ranks count along the last axis first. Empty: programs are
/// not divided, each rank runs what it is given.
struct Mesh {
  std::vector<int> sizes;
};

struct ParallelOptions {
  CompileOptions compile;
  /// How long a rank waits in one collective for the others before its run is an error.
  std::chrono::milliseconds timeout{10'000};
  /// The same in compile_parallel(), where one rank may compile longer than another.
  std::chrono::milliseconds compile_timeout{120'000};
  Mesh mesh;
  /// Into how many parts micro_batch() divides values; 1: not at all. The same on every rank, 1 to 1,024.
  int micro_batches = 1;
};

/// A program of this rank. Copies share it. Of the programs of one transport one runs at a time: another thread's
/// waits.
class ParallelProgram {
 public:
  // Copied where it could be moved, so that none is ever empty.
  ParallelProgram(const ParallelProgram&) = default;
  ParallelProgram& operator=(const ParallelProgram&) = default;

  /// Uploads, runs with the other ranks, downloads. Every rank runs the same programs in the same order, with the same
  /// sizes of symbols: where one does not, the run is an error on each. Of a program that was divided over a mesh,
  /// inputs are whole on every rank, which uploads its part; an output that is annotated is this rank's part, and any
  /// other is whole. Inputs that upload() has placed may be left out, and those that the stages of other ranks alone
  /// read. An error is an error of the job: the other ranks get one, too, within the timeout, and no later run
  /// succeeds.
  [[nodiscard]] Result<Outputs> run(const Inputs& inputs) const;
  /// Places inputs, as run() takes them, on the device for every later run: weights cross once. One that is given to a
  /// run has those values in that run, and has to be placed again for later ones. Does not speak with other ranks.
  [[nodiscard]] Result<void> upload(const Inputs& inputs) const;
  /// A run on inputs that were all placed, whose results stay on the device. Returns when they are there.
  [[nodiscard]] Result<void> execute() const;
  /// The results of the last run. ErrorCode::invalid_argument before the first.
  [[nodiscard]] Result<Outputs> download() const;
  /// Device time of each kernel of this rank on the values of the last run, as of Executable::profile(), named by its
  /// part: "part 2, segment 0". Does not speak with other ranks. ErrorCode::invalid_argument before the first run, and
  /// where inputs were placed since the last.
  [[nodiscard]] Result<std::vector<KernelTime>> profile() const;
  /// The parts with their kernels and the collectives between them, with their bytes and why each is there.
  [[nodiscard]] std::string explain() const;
  /// As run() takes and gives them, in the order in which the program was written down. Inputs are those of all
  /// stages; outputs that stay on other stages are not among them.
  [[nodiscard]] std::vector<Port> inputs() const;
  [[nodiscard]] std::vector<Port> outputs() const;
  /// Of this rank in one run.
  [[nodiscard]] int kernel_count() const;
  [[nodiscard]] int collective_count() const;

  struct State;  // internal
  explicit ParallelProgram(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// Compiles this rank's program; every rank calls it. ErrorCode::invalid_argument on every rank where two have other
/// collectives: the sentence names the rank and the first collective that differs.
///
///     auto transports = thread_transports(2);
///     Result<ParallelProgram> program = compile_parallel(*device, (*transports)[rank], {y});
Result<ParallelProgram> compile_parallel(const Device& device, std::shared_ptr<Transport> transport,
                                         std::span<const Tensor> outputs, const ParallelOptions& options = {});
Result<ParallelProgram> compile_parallel(const Device& device, std::shared_ptr<Transport> transport,
                                         std::initializer_list<Tensor> outputs, const ParallelOptions& options = {});
/// The same of a program in the text form of docs/text-ir.md.
Result<ParallelProgram> compile_parallel_text(const Device& device, std::shared_ptr<Transport> transport,
                                              std::string_view text, const ParallelOptions& options = {});

}  // namespace VKFUSE_PUBLIC

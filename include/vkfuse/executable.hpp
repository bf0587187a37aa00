// Programs compiled for a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vkfuse/device.hpp"
#include "vkfuse/tensor.hpp"
#include "vkfuse/timeline.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// How 16-bit floats are rounded.
enum class Numerics : std::uint8_t {
  standard,  ///< computed in f32 through a kernel; explicit casts and stored values are rounded
  strict,    ///< every op rounds to its dtype; fused and unfused runs of elementwise ops and views are bit-identical
  /// Standard, but products of f16 matrices may be added up in f16 where cooperative matrices do so (T4): up to half
  /// the registers. A sum of n products is then off by up to n * 2^-11 of the sum of their magnitudes, and infinite
  /// beyond 65504.
  f16_accumulation,
};

/// How far a search for faster schedules has come.
struct TuneProgress {
  int segment = 0;     ///< kernels that have been looked at; of those that repeat, one
  int segments = 0;    ///< that there are
  int candidates = 0;  ///< schedules that were compiled and checked
  int adopted = 0;     ///< of `segment`, those that run another way from now on
  double spent_ms = 0;
  double budget_ms = 0;
};

/// When schedules are measured, instead of the model being believed. What was found is kept in the device's store: the
/// next process that may tune takes it from there, whatever its budget is.
enum class Tune : std::uint8_t {
  off,         ///< never; what the store knows is not used either
  on,          ///< in compile(), which takes up to `tune_ms` longer
  background,  ///< beside the runs that follow the first one, which begins at once; what is faster serves the runs
               ///< after it was found
};

struct CompileOptions {
  Numerics numerics = Numerics::standard;
  bool fusion = true;  ///< off: one kernel per op, for comparison
  /// Mechanisms of the planner to do without, by name: docs/command-line.md has them.
  std::vector<std::string> without;
  /// Who decides what is stored: "bytes", or for comparison "store-all", "recompute-all" or "greedy-io".
  std::string planner = "bytes";
  /// The most bytes of device memory that the intermediate values of one run may take (MemoryUse::arena); 0: any
  /// number. Where the plan takes more, kernels run in another order, and some run again rather than keeping what they
  /// have computed. ErrorCode::out_of_memory, with the fewest bytes that were found, where no plan fits. With symbolic
  /// sizes the choice is made for sizes that stand for them, and a run at sizes that need more is an error, before it
  /// begins.
  std::int64_t memory_budget = 0;
  /// What Executable::save_plan() gave: the program is made as it says, and nothing is planned. It must be of an equal
  /// graph (weights may be others) that was compiled with the same `identities` and `reorder`, on a device of equal
  /// limits and features; else compile() says in one sentence what is not so. Text that was changed is refused, too.
  std::string plan;
  /// For compile_text: the text may hold ops whose GLSL it states (custom, custom_kernel). What they say runs on the
  /// device as it is: allow it for texts that are trusted as a program is.
  bool allow_custom = false;
  std::string name = "graph";             ///< appears in plans and shaders
  std::vector<std::string> output_names;  ///< default "y", "y1", ...
  Tune tune = Tune::off;
  double tune_ms = 1000;  ///< what measuring may take, about, compilation of candidates included
  std::function<void(const TuneProgress&)> on_tune;  ///< told after each kernel, in the background by another thread;
                                                     ///< must not call vkfuse; what it throws ends the search
};

/// A dense tensor in host memory that somebody else owns; it must stay alive until the run returns.
struct HostView {
  std::span<const std::byte> bytes;
  /// Sizes of the dimensions. May be left empty when the input's shape is static, or has one symbol
  /// whose size follows from the byte count.
  std::vector<std::int64_t> sizes;

  HostView(std::span<const std::byte> data, std::vector<std::int64_t> shape = {})
      : bytes(data), sizes(std::move(shape)) {}
  template <typename T>
  HostView(const std::vector<T>& data, std::vector<std::int64_t> shape = {})
      : bytes(std::as_bytes(std::span<const T>(data))), sizes(std::move(shape)) {}
};

/// A dense tensor in host memory.
struct HostTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;
  std::vector<std::byte> bytes;

  /// The elements as T; an empty span if sizeof(T) is not the element's size.
  template <typename T>
  [[nodiscard]] std::span<const T> as() const {
    if (sizeof(T) != static_cast<std::size_t>(size_of(dtype))) return {};
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

using Inputs = std::map<std::string, HostView, std::less<>>;
using Outputs = std::map<std::string, HostTensor, std::less<>>;

/// Gives memory of the host for a result: asked once for each output, by the thread that runs, when its sizes are known
/// and before its elements are. The memory has as many bytes as the tensor, must stay alive until the run returns, and
/// does not overlap that of other results; an empty span leaves the result out. An error ends the run, which
/// returns it.
using OutputMemory = std::function<Result<std::span<std::byte>>(std::string_view name, DType dtype,
                                                                std::span<const std::int64_t> sizes)>;

/// Sizes of symbolic dimensions by name.
using Symbols = std::map<std::string, std::int64_t, std::less<>>;

/// Device buffers by input and output name, with the sizes of symbolic dimensions.
struct Bindings {
  std::map<std::string, Buffer, std::less<>> inputs;
  std::map<std::string, Buffer, std::less<>> outputs;
  Symbols symbols;  ///< every one of the program, and no other
  /// Inputs that nobody needs after the run: their buffers, each bound to this input alone, may take results and
  /// intermediate values once the input has been read for the last time, and hold nothing in particular afterwards.
  /// Where one is donated, outputs may be left unbound: they take such a buffer if one fits, else a new one;
  /// Submission::outputs() has them.
  std::set<std::string, std::less<>> donated;
  /// The run begins when each of these timelines has reached its value. A value that is never reached is never the end
  /// of a wait for this run, nor for what is submitted after it.
  std::vector<TimelinePoint> wait_for;
  /// Reached at the end of the run.
  std::vector<TimelinePoint> signal;
};

/// Memory of one run in bytes, as buffers are padded.
struct MemoryUse {
  std::uint64_t arena = 0;  ///< intermediate values, packed by lifetime; one arena per run in flight
  std::uint64_t constants =
      0;                     ///< uploaded at the first run, and shared by the programs of a device that have equal ones
  std::uint64_t inputs = 0;  ///< of run(): one set per run in flight; of submit(): what the caller has allocated
  std::uint64_t outputs = 0;  ///< likewise; none for a result that lies inside an input or another result
  std::uint64_t staging = 0;  ///< host memory that run() copies through; 0 where the device's memory is the host's

  [[nodiscard]] std::uint64_t total() const { return arena + constants + inputs + outputs + staging; }
};

/// Device time of one segment of a plan in one run.
struct KernelTime {
  std::string kernel;
  double microseconds = 0;
  std::uint64_t bytes = 0;  ///< that it reads and writes, each element once
};

/// Work handed to the device.
class Submission {
 public:
  // Copied where it could be moved, so that none is ever empty.
  Submission(const Submission&) = default;
  Submission& operator=(const Submission&) = default;

  /// Blocks until the work is done, or the device is lost.
  Result<void> wait() const;
  /// Whether it is done, without blocking.
  [[nodiscard]] bool done() const;
  /// The buffer of every output by name: as bound, that of a donated input, or a new one. The result is at its start.
  [[nodiscard]] const std::map<std::string, Buffer, std::less<>>& outputs() const;

  struct State;  // internal
  explicit Submission(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// Device times for plans to show beside the modelled ones, as profile() and profile_host() give them; a plan that
/// symbols are part of is shown at sizes that stand for them, whatever sizes these were measured at.
struct MeasuredTimes {
  std::vector<KernelTime> fused;    ///< of this program
  std::vector<KernelTime> unfused;  ///< of the same program compiled without fusion; may be empty
};

class Recording;  // interop.hpp

/// A named input or output of a program.
struct Port {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

enum class Stage : std::uint8_t { graph, plan, json, glsl, spirv, msl, hlsl, html };

/// A compiled program. Immutable; copies share it; thread-safe: runs of several threads overlap, each with memory of
/// its own, up to four at a time.
class Executable {
 public:
  // Copied where it could be moved, so that none is ever empty.
  Executable(const Executable&) = default;
  Executable& operator=(const Executable&) = default;

  /// Uploads, runs, downloads. Sizes that were not seen before only re-record. ErrorCode::out_of_memory, before
  /// anything is allocated, if the device's memory does not hold what memory() says.
  [[nodiscard]] Result<Outputs> run(const Inputs& inputs) const;
  /// The same into memory of the caller, to which each result is copied once. After an error nothing in particular is
  /// in it. ErrorCode::invalid_argument if the memory for an output has another size than the output.
  ///
  ///     std::vector<float> y(256 * 1024);
  ///     auto done = exe->run({{"x", x}}, [&](auto...) { return std::as_writable_bytes(std::span(y)); });
  [[nodiscard]] Result<void> run(const Inputs& inputs, const OutputMemory& memory) const;
  /// Runs on device buffers without waiting; the buffers stay alive until the submission is done. An
  /// output may be the same buffer as an input of the same size that feeds it element by element. One that is a
  /// view of an input, in order, is copied unless it is bound to the input's buffer.
  [[nodiscard]] Result<Submission> submit(const Bindings& bindings) const;
  /// Appends one run to a host's VkCommandBuffer, which is recording, outside of a render pass, from a pool of the
  /// adopted queue's family; the host submits it, as often as it likes. The compute pipeline, the descriptor set 0 of
  /// that bind point and push constants are others afterwards. Two memory barriers are recorded: what compute shaders
  /// and transfers wrote before, on this queue, is visible to the kernels (and their reads are over before kernels
  /// write); what the kernels wrote is visible to compute shaders, transfers and the host after. Every other stage is
  /// the host's to wait for. After an error the command buffer must be reset: it may have half of a run.
  [[nodiscard]] Result<Recording> record(void* command_buffer, const Bindings& bindings) const;
  /// What a run at these sizes takes; every symbol has one. Nothing is compiled or allocated.
  ///
  ///     Result<MemoryUse> use = exe->memory({{"n", 4096}});
  [[nodiscard]] Result<MemoryUse> memory(const Symbols& symbols = {}) const;
  /// Device time per kernel of a run on these buffers, in running order: medians of up to 99 runs, after 0.3 s of them
  /// (a device that was idle runs slower), the queue kept full, for 2 s at most unless one run takes longer. Buffers
  /// that are read and written, as those of donated inputs are, hold afterwards what so many runs leave in them.
  /// Unsupported where the queue has no timestamps.
  [[nodiscard]] Result<std::vector<KernelTime>> profile(const Bindings& bindings) const;
  /// The same with inputs from the host.
  [[nodiscard]] Result<std::vector<KernelTime>> profile_host(const Inputs& inputs) const;
  /// Device time of one replay of a run with these inputs, in microseconds: its recording as one submission, between a
  /// timestamp before the first kernel and one after the last, without the copies from and to the host. The median of
  /// runs as profile() makes them. It is less than the sum of the kernels' times where kernels overlap, and more where
  /// the device waits between them. Unsupported where the queue has no timestamps.
  [[nodiscard]] Result<double> replay_us(const Inputs& inputs) const;

  /// Measures other schedules of the kernels for these sizes (nominal ones if none are given), those that take longest
  /// first, and runs what is faster beyond noise from now on. Each is checked first: a schedule whose results are not
  /// those of the kernel it would replace is never used. Ends after `budget_ms`, about; what was not reached stays as
  /// it is. Runs of other threads go on meanwhile, and disturb the measurement. ErrorCode::unsupported where the queue
  /// has no timestamps.
  [[nodiscard]] Result<TuneProgress> tune(double budget_ms, const Symbols& symbols = {},
                                          const std::function<void(const TuneProgress&)>& progress = {}) const;

  /// The graph, the plan (text, JSON, or a page for a browser), or the code of every kernel, or of segment `segment`.
  [[nodiscard]] Result<std::string> explain(Stage stage, std::optional<int> segment = {}) const;
  /// The plan (text, JSON, or a page) with times that were measured. ErrorCode::invalid_argument if `times.fused` are
  /// not as many as the plan has segments.
  [[nodiscard]] Result<std::string> explain(Stage stage, const MeasuredTimes& times) const;
  /// The plan as JSON, for CompileOptions::plan of another process or another machine with such a device: its segments,
  /// how each is scheduled, and the costs that decided it. Shaders are not part of it; the kernel store keeps those.
  [[nodiscard]] Result<std::string> save_plan() const;
  /// In the order in which the program was written down.
  [[nodiscard]] std::vector<Port> inputs() const;
  [[nodiscard]] std::vector<Port> outputs() const;
  /// Dispatches of one run(). Results that are views of inputs take none.
  [[nodiscard]] int kernel_count() const;

  struct State;  // internal
  explicit Executable(std::shared_ptr<State> state) : state_(std::move(state)) {}
  [[nodiscard]] const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

/// Compiles the program that computes these results.
///
///     Result<Executable> exe = compile(*device, {y});
Result<Executable> compile(const Device& device, std::span<const Tensor> outputs, const CompileOptions& options = {});
Result<Executable> compile(const Device& device, std::initializer_list<Tensor> outputs,
                           const CompileOptions& options = {});

/// Whether compile() takes these results on this device, in a fraction of its time: everything up to the text of the
/// kernels is done, and no shader is compiled. The error is the one that compile() would give.
Result<void> supports(const Device& device, std::span<const Tensor> outputs, const CompileOptions& options = {});

/// Compiles a program in the text form of docs/text-ir.md.
Result<Executable> compile_text(const Device& device, std::string_view text, const CompileOptions& options = {});

}  // namespace VKFUSE_PUBLIC

// Runs with inputs and outputs on the host: buffers, staging and commands kept for one set of sizes.
#pragma once

#include "runtime/arena.hpp"
#include "runtime/program.hpp"

namespace vkfuse::runtime {

/// Submits the parts of a run one after the other. The first part waits for what the points name, the last one signals
/// what they name.
Result<std::vector<vulkan::Submission>> submit_all(vulkan::Device& device,
                                                   const std::vector<vulkan::CommandBuffer>& parts,
                                                   const vulkan::SubmissionPoints& points = {});

/// Device time of each kernel of runs on these buffers: medians of up to 99 runs or 2 s, the queue kept full. What the
/// runs leave in the buffers is what so many runs leave there.
Result<std::vector<StepTime>> profile_runs(const Program& program, const Specialization& specialization,
                                           const Ranges& ranges);

/// Device time of a run as a whole, in microseconds: the median of as many.
Result<double> replay_us(const Program& program, const Specialization& specialization, const Ranges& ranges);

class HostRun {
 public:
  /// Allocates everything and records it once.
  static Result<std::unique_ptr<HostRun>> create(std::shared_ptr<Program> program,
                                                 std::shared_ptr<const Specialization> specialization);

  /// Bytes of every input by node.
  using Inputs = std::map<ir::NodeId, std::span<const std::byte>>;
  /// Takes the bytes of the outputs, by node: those of one node in their order, piece by piece.
  using Sink = std::function<void(ir::NodeId, std::span<const std::byte>)>;
  /// `sink` reads results where the device has put them, so that they are copied once. One run at a time: see RunPool.
  Result<void> run(const Inputs& inputs, const Sink& sink);

  [[nodiscard]] const std::shared_ptr<const Specialization>& specialization() const { return specialization_; }

  /// Device time of each kernel on what the last run uploaded: medians of up to 99 runs or 2 s, the queue kept full.
  Result<std::vector<StepTime>> profile();
  /// The same of the run as a whole, in microseconds: between a timestamp before its first kernel and one after its
  /// last.
  Result<double> replay_us();

 private:
  /// One input or output: where kernels see it, and how the host reaches it.
  struct Port {
    ir::NodeId value = 0;
    std::int64_t bytes = 0;
    vulkan::Buffer buffer;
    std::optional<vulkan::Buffer> staging;  // none where the buffer itself is mapped
  };
  HostRun() = default;
  /// An output that lies in another value's bytes: it has no buffer, and nothing is downloaded for it.
  struct Window {
    ir::NodeId value = 0;
    plan::Alias alias;
    std::int64_t bytes = 0;
  };
  Result<void> add_windows();
  Result<void> add_port(ir::NodeId value, vulkan::BufferKind staging, std::vector<Port>& ports);
  Result<void> record();
  /// Fills what the run writes.
  [[nodiscard]] Result<void> poison(std::uint32_t word) const;
  /// Submits and waits. The inputs have been written to their buffers.
  [[nodiscard]] Result<void> run_once();
  void hand_over(const Inputs& inputs, const Sink& sink) const;
  /// Runs again where other bytes were in memory before: the results must be the same.
  [[nodiscard]] Result<void> check_itself(const Inputs& inputs);
  void record_uploads(vulkan::CommandBuffer& commands) const;
  void record_downloads(vulkan::CommandBuffer& commands) const;

  std::shared_ptr<Program> program_;
  std::shared_ptr<const Specialization> specialization_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::vector<Window> windows_;
  Arena arena_;
  Ranges ranges_;
  std::vector<vulkan::CommandBuffer> commands_;  ///< one per submission
  double recorded_for_us_ = 0;                   ///< what the run was expected to take when it was cut into those
  bool ran_ = false;
};

/// Whether the time of a run says what the next one takes. Many drivers compile while they run a kernel for the first
/// time: a first run that is a few times over the limit, where the model expects one below it, or a thousand times over
/// what the model expects, may be that, and cutting the next one into parts would only make them compile more.
[[nodiscard]] bool tells_pace(double us, bool first, double modelled_us, double limit_us);

}  // namespace vkfuse::runtime

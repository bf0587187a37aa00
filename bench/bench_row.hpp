// One row: compiled, checked, timed.
#pragma once

#include <memory>

#include "session.hpp"
#include "verify.hpp"

namespace vkfuse::bench {

/// What it takes until a program has run for the first time.
struct Start {
  double compile_ms = 0;   ///< GLSL to SPIR-V, or reading it from the store and checking it; of every distinct kernel
  double pipeline_ms = 0;  ///< in the driver
  double create_ms =
      0;  ///< from the graph to a program that can run: planning and all of the above that was not done before
  double first_run_ms = 0;  ///< from submission to end: drivers do the rest of their compiling here
  std::uint64_t compiler_calls = 0;

  [[nodiscard]] double ms() const { return create_ms + first_run_ms; }
};

/// One way of running a row.
struct Measured {
  Timing timing;
  int kernels = 0;
  Start cold;                 ///< nothing of its kernels is in the store
  std::optional<Start> warm;  ///< all of them are; of the fused program alone
  std::int64_t arena_bytes = 0;
  std::int64_t moved_bytes = 0;  ///< that its kernels load and store

  [[nodiscard]] double us() const { return timing.alone.median; }
};

enum class Outcome : std::uint8_t { measured, checked, wrong, skipped, failed };

/// What runs when a framework runs one kernel for each of its own ops.
enum class Framework : std::uint8_t {
  own,      ///< `framework` is a program of its own
  fused,    ///< the row is one op of a framework
  unfused,  ///< a framework's ops are the graph's
};

/// The fastest of the instructions that may make most of a row's operations.
struct Peak {
  Instruction instruction = Instruction::fma_f32;
  double gops = 0;
};

/// What a row cannot be faster than.
enum class Limit : std::uint8_t { memory, arithmetic, launch };

struct RowResult {
  const Row* row = nullptr;
  Outcome outcome = Outcome::failed;
  std::string detail;  ///< why it is wrong, skipped or failed; why there is no unfused time
  std::string size;
  std::string name_of_case;
  std::int64_t bytes = 0;
  std::int64_t copy_bytes = 0;
  double operations = 0;                  ///< arithmetic, of the graph
  std::vector<Instruction> instructions;  ///< see instructions_of
  std::optional<Peak> peak;               ///< of those that were measured
  int sets = 1;
  Measured fused;
  std::optional<Measured> unfused;  ///< none where its intermediate values do not fit the device
  Framework framework_is = Framework::unfused;
  std::optional<Measured> own_framework;
  Measured copy;
  /// What the row is timed beside, where that fits the device: its case and its arithmetic.
  std::optional<Measured> beside;
  std::string name_of_beside;
  double operations_beside = 0;
  double max_ratio = 0;
  std::int64_t samples = 0;
  int visits = 0;  ///< in which its samples were taken
  double warm_seconds = 0;
  bool steady = false;  ///< in every visit
  double seconds = 0;   ///< that the row took, all in all

  [[nodiscard]] const std::optional<Measured>& framework() const {
    return framework_is == Framework::own ? own_framework : unfused;
  }
  [[nodiscard]] double gb_s() const { return static_cast<double>(bytes) / fused.us() * 1e-3; }
  [[nodiscard]] double copy_gb_s() const { return static_cast<double>(copy_bytes) / copy.us() * 1e-3; }
  [[nodiscard]] double copy_percent() const { return 100 * gb_s() / copy_gb_s(); }
  /// Nothing without a peak.
  [[nodiscard]] std::optional<double> peak_percent() const;
  /// Operations a second, as part of those of what it is timed beside.
  [[nodiscard]] std::optional<double> beside_percent() const;
  /// Which takes longer: a copy of its bytes, or its operations at the peak.
  [[nodiscard]] std::optional<Limit> limit() const;
  /// Its time over the fused one's: the median of neighbouring runs' ratios, in which a spell that slows both cancels.
  [[nodiscard]] double gain_over(const Measured& other) const;
  /// Bytes that its own kernels move, as part of what the copy moves in the time.
  [[nodiscard]] double own_copy_percent(const Measured& one) const {
    return 100 * static_cast<double>(one.moved_bytes) / one.us() * 1e-3 / copy_gb_s();
  }
};

/// One row in visits (TimingOptions::visits). The first finds the size that runs here, compiles, and compares with the
/// reference; each times, and adds its samples to those before. Between them the row has programs, and no buffers.
class RowRun {
 public:
  /// `session` outlives it.
  RowRun(const Session& session, const Request& request);
  ~RowRun();
  RowRun(RowRun&&) noexcept;
  RowRun& operator=(RowRun&&) noexcept;

  /// Nothing is added where an interrupt (interrupt.hpp) cuts it short.
  void visit();
  /// Not where the row is wrong, failed, or is not timed.
  [[nodiscard]] bool wants_more() const;
  [[nodiscard]] const RowResult& result() const;
  /// Beside the session's peaks as they are now: they may be measured again after the row is.
  void put_beside_peaks();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A program, checked and ready to be timed. Used by the sweep too.
struct Prepared {
  std::vector<std::shared_ptr<runtime::Program>> programs;
  std::unique_ptr<Bound> bound;
  Measured measured;
};
/// Several graphs run one after the other.
Result<Prepared> prepare(const Session& session, std::span<const ir::Graph> graphs, const BufferSets& sets,
                         const runtime::ProgramOptions& options);

/// The buffers of a case and what its outputs must be. A spoiled row's first input differs between device and host.
struct Loaded {
  BufferSets sets;
  Expected expected;
};
Result<Loaded> load(const Session& session, const Case& one);

}  // namespace vkfuse::bench

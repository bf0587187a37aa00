// One row: compiled, checked, timed.
#pragma once

#include "session.hpp"
#include "verify.hpp"

namespace vkfuse::bench {

/// One way of running a row.
struct Measured {
  Times times;
  int kernels = 0;
  double compile_ms = 0;   ///< GLSL to SPIR-V, of every distinct kernel
  double pipeline_ms = 0;  ///< in the driver
  double create_ms = 0;    ///< from the graph to a program that can run: planning and all of the above
  std::int64_t arena_bytes = 0;
};

enum class Outcome : std::uint8_t { measured, checked, wrong, skipped, failed };

struct RowResult {
  const Row* row = nullptr;
  Outcome outcome = Outcome::failed;
  std::string detail;  ///< why it is wrong, skipped or failed; why there is no unfused time
  std::string size;
  std::int64_t bytes = 0;
  std::int64_t copy_bytes = 0;
  int sets = 1;
  Measured fused;
  std::optional<Measured> unfused;  ///< none where its intermediate values do not fit the device
  Measured copy;
  double max_ratio = 0;
  std::int64_t samples = 0;
  double seconds = 0;  ///< that the row took, all in all

  [[nodiscard]] double gb_s() const { return static_cast<double>(bytes) / fused.times.median * 1e-3; }
  [[nodiscard]] double copy_gb_s() const { return static_cast<double>(copy_bytes) / copy.times.median * 1e-3; }
  [[nodiscard]] double copy_percent() const { return 100 * gb_s() / copy_gb_s(); }
};

RowResult bench_row(const Session& session, const Row& row);

/// A program, checked and ready to be timed. Used by the sweep too.
struct Prepared {
  std::unique_ptr<Bound> bound;
  Measured measured;
};
Result<Prepared> prepare(const Session& session, const Case& one, const BufferSets& sets, const runtime::ProgramOptions& options);

/// The buffers of a case and what its outputs must be. A spoiled row's first input differs between device and host.
struct Loaded {
  BufferSets sets;
  Expected expected;
};
Result<Loaded> load(const Session& session, const Case& one);

}  // namespace vkfuse::bench

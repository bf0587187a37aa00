// Instruction peaks: how many products a second the device makes in registers, beside which the rows' own are put.
#pragma once

#include <memory>
#include <span>

#include "bench_row.hpp"
#include "peak_kernels.hpp"

namespace vkfuse::bench {

struct PeakResult {
  Instruction instruction = Instruction::fma_f32;
  Outcome outcome = Outcome::failed;
  std::string detail;     ///< why it is wrong, skipped or failed
  std::string kernel;     ///< which of the ways was the fastest
  double operations = 0;  ///< of a run
  Times times;
  int visits = 0;
  double seconds = 0;

  [[nodiscard]] double gops() const { return operations / times.median * 1e-3; }
};

/// Measures one instruction in visits, as RowRun does a row: the first finds the fastest kernel and its size; each
/// compares what every workgroup has stored with the products that it was to make.
class PeakRun {
 public:
  /// `session` outlives it.
  PeakRun(const Session& session, Instruction instruction);
  ~PeakRun();
  PeakRun(PeakRun&&) noexcept;
  PeakRun& operator=(PeakRun&&) noexcept;

  void visit();
  [[nodiscard]] bool wants_more() const;
  [[nodiscard]] const PeakResult& result() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The instructions of which one may make most of a row's operations: products of the dtype that it contracts, with
/// sums that are as wide as a graph's, or multiply-adds of f32, in which elementwise work on floats is done. Empty
/// where no rate of them is measured (f64, integers).
std::vector<Instruction> instructions_of(const Row& row, const ir::Graph& graph);

/// Those of several rows, each once, in the order of kInstructions.
std::vector<Instruction> instructions_of(std::span<const Request> requests);

}  // namespace vkfuse::bench

// A language model of random weights on a device: it reads prompts and generates tokens.
#pragma once

#include "generation/buffers.hpp"

namespace vkfuse::bench {

/// A model, and what its rows share.
struct Job {
  LanguageModel model;
  WeightFormat weights = WeightFormat::f16;
  StepSizes step;
  std::int64_t chunk = 0;
  std::uint64_t weight_bytes = 0, cache_bytes = 0;
};

/// One of two places for a token and its position, which take turns: no step writes what it reads.
struct Turn {
  Buffer token, start;
};

/// The step of `count` tokens, with so many layers.
Result<Executable> compile_step(const Device& device, const Job& job, std::int64_t count, std::int64_t layers);

class ModelRun {
 public:
  static Result<ModelRun> create(const Device& device, const Job& job);

  /// From position 0 on. Seconds.
  Result<double> read_prompt(std::int64_t tokens);
  /// `tokens` steps of one token from a position on. `ahead`: the host waits for the step before the one that it has
  /// submitted last; else it reads each token. Seconds.
  Result<double> generate(std::int64_t start, std::int64_t tokens, bool ahead);
  /// How far caches that steps of one token have written are off those of a prompt, of the largest element: the median
  /// over positions. `spoil`: the steps are one position late.
  Result<double> difference(std::int64_t positions, bool spoil = false);

  [[nodiscard]] int kernels() const { return step_.kernel_count(); }
  Result<std::vector<KernelTime>> profile(std::int64_t start);

 private:
  ModelRun(Device device, Job job, Executable prompt, Executable step)
      : device_(std::move(device)), job_(std::move(job)), prompt_(std::move(prompt)), step_(std::move(step)) {}

  Result<void> allocate(const ModelStep& step);
  [[nodiscard]] Bindings bindings(const Buffer& tokens, const Buffer& start, const Turn& to) const;
  Result<void> put(std::int64_t token, std::int64_t start);
  Result<std::vector<std::vector<double>>> rows_of_caches(std::int64_t positions) const;

  Device device_;
  Job job_;
  Executable prompt_, step_;
  Buffers inputs_, caches_;
  Turn turns_[2];
};

}  // namespace vkfuse::bench

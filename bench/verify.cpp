#include "verify.hpp"

#include <algorithm>

#include "backward_slice.hpp"
#include "batch.hpp"
#include "reference/evaluation.hpp"
#include "reference/output_comparison.hpp"
#include "reference/tolerance.hpp"

namespace vkfuse::bench {

namespace {

using vulkan::Access;

constexpr std::int64_t kWindow = 64;     // consecutive elements: neighbouring lanes are compared together
constexpr std::int64_t kSamples = 4096;  // of all outputs together, about

/// How many windows of how many elements.
struct Sampling {
  std::int64_t windows = 1;
  std::int64_t length = 1;
};

/// The longest windows, then as many of them, as stay below `work`; two if that is possible at any length.
Result<Sampling> choose_sampling(const ir::Graph& graph, ir::NodeId value, std::int64_t elements,
                                 std::int64_t most_windows, double work) {
  VKF_TRY(whole, backward_slice_elements(graph, value, elements));
  for (std::int64_t length = std::min(kWindow, elements);; length = (length + 1) / 2) {
    VKF_TRY(cost, backward_slice_elements(graph, value, length));
    // One window may need nearly everything, as in a scan of one line: then more of them cost no more.
    if (whole <= std::max(work, 2 * cost)) return Sampling{most_windows, length};
    if (length > 1 && 2 * cost > work) continue;
    const auto affordable = static_cast<std::int64_t>(std::min(work / cost, 1e9));
    return Sampling{std::clamp<std::int64_t>(affordable, 1, most_windows), length};
  }
}

/// Starts of windows: the first, the last, and random ones between. One window is a random one.
std::vector<std::int64_t> window_starts(std::int64_t elements, const Sampling& sampling, std::uint64_t seed) {
  const std::int64_t last = std::max<std::int64_t>(0, elements - sampling.length);
  std::vector<std::int64_t> starts;
  if (sampling.windows > 1) starts = {0, last};
  for (std::int64_t i = static_cast<std::int64_t>(starts.size()); i < sampling.windows; ++i) {
    const auto counter = static_cast<std::uint64_t>(2 * i);
    const std::uint64_t high = ops::philox(seed, counter);
    const std::uint64_t random = high << 32 | ops::philox(seed, counter + 1);
    starts.push_back(static_cast<std::int64_t>(random % static_cast<std::uint64_t>(last + 1)));
  }
  // In order: what windows share stays in the evaluator's reach.
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return starts;
}

/// Which elements of every output are compared; their columns are empty.
Result<std::vector<Expected::Samples>> choose_samples(const ir::Graph& graph, const CheckOptions& options) {
  const auto outputs = static_cast<std::int64_t>(graph.outputs().size());
  const std::int64_t most_windows = std::max<std::int64_t>(2, kSamples / kWindow / outputs);
  std::vector<Expected::Samples> all;
  for (const ir::Output& output : graph.outputs()) {
    const TensorType& type = graph.node(output.value).type;
    VKF_TRY(sizes, resolve(type.shape, {}));
    VKF_TRY(elements, element_count(sizes));
    Sampling sampling{most_windows, std::min(kWindow, elements)};
    if (!options.whole) {
      VKF_TRY(affordable, choose_sampling(graph, output.value, elements, most_windows, options.work));
      sampling = affordable;
    }
    all.push_back({.output = output.name,
                   .dtype = type.dtype,
                   .elements = static_cast<std::size_t>(elements),
                   .starts = window_starts(elements, sampling, output.value),
                   .length = sampling.length});
  }
  return all;
}

std::vector<std::int64_t> elements_of(const Expected::Samples& samples) {
  std::vector<std::int64_t> elements;
  for (const std::int64_t start : samples.starts) {
    for (std::int64_t i = 0; i < samples.length; ++i) elements.push_back(start + i);
  }
  return elements;
}

/// Of a graph's outputs, in their order.
std::vector<reference::Request> requests_of(const ir::Graph& graph, const std::vector<Expected::Samples>& samples) {
  std::vector<reference::Request> requests;
  for (std::size_t i = 0; i < samples.size(); ++i)
    requests.push_back({graph.outputs()[i].value, elements_of(samples[i])});
  return requests;
}

/// Records, submits and waits. The milliseconds of the submission.
template <typename Record>
Result<double> submit_once(runtime::Context& context, Record&& record) {
  VKF_TRY(commands, vulkan::CommandBuffer::create(context.device()));
  VKF_CHECK_OK(commands.begin());
  VKF_CHECK_OK(record(commands));
  VKF_CHECK_OK(commands.end());
  const Clock::time_point start = Clock::now();
  VKF_TRY(submission, context.device()->submit(commands));
  VKF_CHECK_OK(submission.wait());
  return 1e3 * seconds_since(start);
}

Result<double> run_once(const Bound& bound, const BufferSet& set) {
  VKF_TRY(filled, submit_once(bound.context(), [&](vulkan::CommandBuffer& commands) -> Result<void> {
            for (const auto& output : set.outputs) commands.fill(output.second, 0xFFFFFFFF);
            commands.barrier(Access::transfer, Access::compute);
            return {};
          }));
  static_cast<void>(filled);
  return submit_once(bound.context(), [&](vulkan::CommandBuffer& commands) -> Result<void> {
    VKF_CHECK_OK(bound.record(commands, 0));
    commands.barrier(Access::compute, Access::transfer | Access::host);
    return {};
  });
}

Result<std::vector<std::byte>> whole_output(const Bound& bound, const Expected::Samples& samples,
                                            const BufferSet& set) {
  std::vector<std::byte> bytes(samples.elements * static_cast<std::size_t>(size_of(samples.dtype)));
  VKF_CHECK_OK(bound.context().transfer().download(*set.outputs.find(samples.output)->second.buffer, 0, bytes));
  return bytes;
}

/// The first sample with one kernel per op that is further off than values of files may be, in a sentence; empty: none.
std::string beyond_tolerance(const Expected::Samples& samples) {
  const reference::Tolerance tolerance = reference::tolerance_for(samples.dtype, samples.column.value);
  const auto width = static_cast<std::size_t>(size_of(samples.dtype));
  const std::vector<std::int64_t> elements = elements_of(samples);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto element = static_cast<std::size_t>(elements[i]);
    const double got = ir::decode(samples.dtype, samples.unfused->data() + element * width);
    const double want = samples.column.value[i];
    if (reference::agrees(got, want, tolerance, samples.column.bound[i])) continue;
    return fmt::format("With one kernel per op, element {} of output '{}' is {}, but {} is right.", element,
                       samples.output, got, want);
  }
  return {};
}

/// By the reference and by what one kernel per op is off by. What neither says anything of is undecided.
Result<reference::Comparison> compare_beside_unfused(const Bound& bound, const Expected::Samples& samples,
                                                     const BufferSet& set) {
  VKF_TRY(got, whole_output(bound, samples, set));
  const std::vector<std::int64_t> elements = elements_of(samples);
  const reference::OutputComparison found =
      reference::compare_with_bounds(samples.dtype, got, {samples.column, elements, *samples.unfused});
  reference::Comparison result;
  result.elements = found.elements;
  result.undecided = found.elements - found.by_reference.compared;
  result.wrong = found.by_reference.wrong;
  result.max_ratio = found.by_reference.max_ratio;
  result.first_wrong = found.by_reference.first_wrong;
  return result;
}

Result<reference::Comparison> compare_output(const Bound& bound, const Expected::Samples& samples,
                                             const BufferSet& set) {
  if (samples.unfused) return compare_beside_unfused(bound, samples, set);
  const auto width = static_cast<std::uint64_t>(size_of(samples.dtype));
  const vulkan::BufferRange& range = set.outputs.find(samples.output)->second;
  std::vector<std::byte> got(samples.starts.size() * static_cast<std::size_t>(samples.length) * width);
  std::span<std::byte> left = got;
  for (std::int64_t start : samples.starts) {
    const std::size_t bytes = static_cast<std::size_t>(samples.length) * width;
    VKF_CHECK_OK(bound.context().transfer().download(*range.buffer, static_cast<std::uint64_t>(start) * width,
                                                     left.first(bytes)));
    left = left.subspan(bytes);
  }
  return reference::compare(samples.dtype, got, samples.column);
}

}  // namespace

Result<double> core_seconds_of_reference(const ir::Graph& graph) {
  VKF_TRY(samples, choose_samples(graph, {.whole = true}));
  VKF_TRY(plan, reference::plan_evaluation(graph, requests_of(graph, samples), {}, kReferenceBytes));
  return plan.nanoseconds * 1e-9;
}

Result<Expected> expect(const ir::Graph& graph, const HostData& data, const CheckOptions& options) {
  VKF_TRY(samples, choose_samples(graph, options));
  Expected expected{std::move(samples)};
  const std::vector<reference::Request> requests = requests_of(graph, expected.outputs);
  // What outputs share is then computed once, but held until the last of them.
  const std::size_t together = options.whole ? requests.size() : 1;
  reference::EvaluateOptions how;
  if (options.whole) how.memory_bytes = kReferenceBytes;
  for (std::size_t first = 0; first < requests.size(); first += together) {
    VKF_TRY(columns,
            reference::evaluate_each(graph, std::span(requests).subspan(first, together), data.input_bindings(), how));
    for (std::size_t i = 0; i < together; ++i) expected.outputs[first + i].column = std::move(columns[i]);
  }
  if (!options.exact) return expected;
  for (Expected::Samples& one : expected.outputs) std::fill(one.column.bound.begin(), one.column.bound.end(), 0.0);
  return expected;
}

Result<void> keep_unfused(const Bound& unfused, const BufferSets& sets, Expected& expected) {
  VKF_TRY(run_ms, run_once(unfused, sets.sets.front()));
  static_cast<void>(run_ms);
  for (Expected::Samples& samples : expected.outputs) {
    VKF_TRY(bytes, whole_output(unfused, samples, sets.sets.front()));
    samples.unfused = std::move(bytes);
    if (expected.wrong.empty()) expected.wrong = beyond_tolerance(samples);
  }
  return {};
}

Result<Verdict> verify(const Bound& bound, const Expected& expected, const BufferSets& sets) {
  const BufferSet& set = sets.sets.front();
  Verdict verdict;
  verdict.wrong = expected.wrong;
  if (!verdict.wrong.empty()) return verdict;
  VKF_TRY(run_ms, run_once(bound, set));
  verdict.run_ms = run_ms;
  for (const Expected::Samples& samples : expected.outputs) {
    VKF_TRY(found, compare_output(bound, samples, set));
    verdict.max_ratio = std::max(verdict.max_ratio, found.max_ratio);
    verdict.samples += found.elements;
    if (found.ok()) continue;
    verdict.wrong = found.wrong > 0 ? fmt::format("{} of {} samples of output '{}': {}", found.wrong, found.elements,
                                                  samples.output, found.first_wrong)
                                    : fmt::format("{} of {} samples of output '{}' are undecided.", found.undecided,
                                                  found.elements, samples.output);
    break;
  }
  return verdict;
}

}  // namespace vkfuse::bench

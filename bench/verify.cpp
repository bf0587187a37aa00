#include "verify.hpp"

#include <algorithm>

namespace vkfuse::bench {

namespace {

using vulkan::Access;

constexpr std::int64_t kWindow = 64;    // consecutive elements: neighbouring lanes are compared together
constexpr std::int64_t kSamples = 4096;  // of all outputs together, about

/// Starts of windows: the first, the last, and random ones between.
std::vector<std::int64_t> window_starts(std::int64_t elements, std::int64_t windows, std::uint64_t seed) {
  std::vector<std::int64_t> starts = {0};
  const std::int64_t last = std::max<std::int64_t>(0, elements - kWindow);
  for (std::int64_t i = 2; i < windows; ++i) {
    const auto counter = static_cast<std::uint64_t>(2 * i);
    const std::uint64_t high = ops::philox(seed, counter);
    const std::uint64_t random = high << 32 | ops::philox(seed, counter + 1);
    starts.push_back(static_cast<std::int64_t>(random % static_cast<std::uint64_t>(last + 1)));
  }
  starts.push_back(last);
  return starts;
}

Result<void> run_once(const Bound& bound, const BufferSet& set) {
  const std::shared_ptr<vulkan::Device>& device = bound.program->context()->device();
  VKF_TRY(commands, vulkan::CommandBuffer::create(device));
  VKF_CHECK_OK(commands.begin());
  for (const auto& output : set.outputs) commands.fill(output.second, 0xFFFFFFFF);
  commands.barrier(Access::transfer, Access::compute);
  VKF_CHECK_OK(bound.program->record(commands, *bound.variant, bound.sets.front()));
  commands.barrier(Access::compute, Access::transfer | Access::host);
  VKF_CHECK_OK(commands.end());
  VKF_TRY(ticket, device->submit(commands));
  return ticket.wait();
}

Result<reference::Comparison> compare_output(const Bound& bound, const ir::Graph& graph, const ir::Output& output,
                                             const reference::Feeds& feeds, const BufferSet& set, std::int64_t windows) {
  const TensorType& type = graph.node(output.value).type;
  VKF_TRY(sizes, resolve(type.shape, {}));
  VKF_TRY(elements, element_count(sizes));
  const std::int64_t length = std::min(kWindow, elements);
  const auto width = static_cast<std::uint64_t>(size_of(type.dtype));
  std::vector<std::int64_t> indices;
  std::vector<std::byte> got;
  for (std::int64_t start : window_starts(elements, windows, output.value)) {
    for (std::int64_t i = 0; i < length; ++i) indices.push_back(start + i);
    const std::size_t at = got.size();
    got.resize(at + static_cast<std::size_t>(length) * width);
    const vulkan::BufferRange& range = set.outputs.find(output.name)->second;
    VKF_CHECK_OK(bound.program->context()->download(*range.buffer, static_cast<std::uint64_t>(start) * width, std::span(got).subspan(at)));
  }
  VKF_TRY(column, reference::evaluate_at(graph, output.value, indices, feeds));
  return reference::compare(type.dtype, got, column);
}

}  // namespace

Result<Verdict> verify(const Bound& bound, const ir::Graph& graph, const HostData& data, const BufferSets& sets) {
  const BufferSet& set = sets.sets.front();
  VKF_CHECK_OK(run_once(bound, set));
  const reference::Feeds feeds = data.feeds();
  const auto outputs = static_cast<std::int64_t>(graph.outputs().size());
  const std::int64_t windows = std::max<std::int64_t>(2, kSamples / kWindow / outputs);
  Verdict verdict;
  for (const ir::Output& output : graph.outputs()) {
    VKF_TRY(found, compare_output(bound, graph, output, feeds, set, windows));
    verdict.max_ratio = std::max(verdict.max_ratio, found.max_ratio);
    verdict.samples += found.elements;
    if (found.ok()) continue;
    verdict.wrong = found.wrong > 0 ? fmt::format("{} of {} samples of output '{}': {}", found.wrong, found.elements, output.name, found.first_wrong)
                                    : fmt::format("{} of {} samples of output '{}' are undecided.", found.undecided, found.elements, output.name);
    break;
  }
  return verdict;
}

}  // namespace vkfuse::bench

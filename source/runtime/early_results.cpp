#include "runtime/early_results.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace vkfuse::runtime {

namespace {

/// They are submitted before the rest is recorded; and as many must follow a cut for it to pay.
constexpr std::size_t kFirstKernels = 64;

/// The parts and their kernels after which results are complete, counted from 1.
using Completed = std::map<std::pair<std::size_t, std::size_t>, std::vector<ir::NodeId>>;
Completed completed(const plan::Plan& plan, const std::vector<Part>& run, const std::vector<ir::NodeId>& results) {
  std::map<ir::NodeId, std::pair<std::size_t, std::size_t>> last;
  for (std::size_t part = 0; part < run.size(); ++part) {
    for (std::size_t i = 0; i < run[part].size(); ++i) {
      for (const ir::NodeId stored : plan.steps[run[part][i].step].segment.stores) {
        if (std::find(results.begin(), results.end(), stored) != results.end()) last[stored] = {part, i + 1};
      }
    }
  }
  Completed after;
  for (const auto& [result, kernel] : last) after[kernel].push_back(result);
  return after;
}

}  // namespace

std::vector<EarlyPart> cut_early(const plan::Plan& plan, const std::vector<Part>& run,
                                 const std::vector<ir::NodeId>& results) {
  Completed after = completed(plan, run, results);
  after.try_emplace({0, kFirstKernels});
  std::vector<EarlyPart> parts;
  for (std::size_t part = 0; part < run.size(); ++part) {
    const bool is_last = part + 1 == run.size();
    std::size_t begin = 0;
    const auto kernels = [&](std::size_t end) {
      const auto at = [&](std::size_t i) { return run[part].begin() + static_cast<std::ptrdiff_t>(i); };
      return Part(at(std::exchange(begin, end)), at(end));
    };
    for (auto one = after.lower_bound({part, 0}); one != after.end() && one->first.first == part; ++one) {
      const std::size_t end = one->first.second;
      if (end + (is_last ? kFirstKernels : 0) <= run[part].size())
        parts.push_back({kernels(end), std::move(one->second)});
    }
    if (begin < run[part].size()) parts.push_back({kernels(run[part].size()), {}});
  }
  return parts;
}

}  // namespace vkfuse::runtime

// What is kept and what is computed again is a minimum cut: at the position where most is alive, of everything that was
// computed before and is needed later, each value is kept at the cost of its bytes, or its step runs again at the cost
// of its time and needs what it reads in turn. How many bytes a microsecond is worth is varied until what is alive fits
// the budget. Steps run again as late as can be, and the position with most bytes may then be another one.
//   Chen, Xu, Zhang, Guestrin: Training Deep Nets with Sublinear Memory Cost (2016).
//   He, Yu: Transcending Runtime-Memory Tradeoffs in Checkpointing by being Fusion Aware (2023).
#include "plan/recomputation.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.hpp"
#include "base/flow_network.hpp"
#include "base/mutations.hpp"

namespace vkfuse::plan {

std::vector<std::size_t> writers_of(const StepCosts& costs, const StepSequence& sequence) {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<std::size_t> first(costs.steps.size(), kNone), last = first, writers;
  for (std::size_t at = 0; at < sequence.size(); ++at) {
    for (const std::size_t value : costs.steps[sequence[at]].reads) {
      const StepCosts::Value& read = costs.values[value];
      writers.push_back((read.is_output ? first : last)[read.writer]);
      check(writers.back() != kNone, "a step reads what was computed before");
    }
    last[sequence[at]] = at;
    if (first[sequence[at]] == kNone) first[sequence[at]] = at;
  }
  return writers;
}

std::vector<std::int64_t> live_bytes(const StepCosts& costs, const StepSequence& sequence) {
  // Of each value the run that counts by now, and its last reader. Readers come in order, so that a run is over when
  // the next one begins.
  struct Run {
    std::size_t first = 0, last = 0;
  };
  std::vector<std::optional<Run>> runs(costs.values.size());
  std::vector<std::int64_t> change(sequence.size() + 1, 0), live;
  const auto end = [&](std::size_t value) {
    const std::optional<Run>& run = runs[value];
    if (!run || run->last == run->first) return;  // nothing reads it: it is an output, or not stored this time
    change[run->first] += costs.values[value].bytes;
    change[run->last + 1] -= costs.values[value].bytes;
  };
  for (std::size_t at = 0; at < sequence.size(); ++at) {
    for (const std::size_t value : costs.steps[sequence[at]].reads) runs[value]->last = at;
    for (const std::size_t value : costs.steps[sequence[at]].stores) {
      end(value);
      runs[value] = Run{at, at};
    }
  }
  for (std::size_t value = 0; value < costs.values.size(); ++value) end(value);
  std::int64_t sum = 0;
  for (std::size_t at = 0; at < sequence.size(); ++at) {
    sum += change[at];
    live.push_back(sum + costs.steps[sequence[at]].scratch_bytes);
  }
  return live;
}

double modelled_us(const StepCosts& costs, const StepSequence& sequence) {
  double sum = 0;
  for (const std::size_t step : sequence) sum += costs.steps[step].microseconds;
  return sum;
}

namespace {

/// Steps in an order that is made one by one.
class FreeingOrder {
 public:
  explicit FreeingOrder(const StepCosts& costs)
      : costs_(costs),
        readers_(costs.values.size()),
        left_(costs.values.size(), 0),
        waiting_(costs.steps.size(), 0),
        ran_(costs.steps.size(), false) {
    for (std::size_t step = 0; step < costs.steps.size(); ++step) {
      waiting_[step] = costs.steps[step].reads.size();
      for (const std::size_t value : costs.steps[step].reads) {
        readers_[value].push_back(step);
        ++left_[value];
      }
    }
  }

  StepSequence run() && {
    for (std::size_t step = 0; step < costs_.steps.size(); ++step) {
      if (ran_[step]) continue;
      take(step);
      for (auto group = best_group(); !group.empty(); group = best_group()) {
        for (const std::size_t one : group) take(one);
      }
    }
    return std::move(sequence_);
  }

 private:
  void take(std::size_t step) {
    ran_[step] = true;
    sequence_.push_back(step);
    for (const std::size_t value : costs_.steps[step].reads) {
      if (--left_[value] == 0) std::erase(live_, value);
    }
    for (const std::size_t value : costs_.steps[step].stores) {
      for (const std::size_t reader : readers_[value]) --waiting_[reader];
      if (costs_.values[value].bytes > 0 && left_[value] > 0) live_.push_back(value);
    }
  }

  /// The readers that a value waits for; none where one of them waits for something else.
  [[nodiscard]] std::vector<std::size_t> readers_left(std::size_t value) const {
    std::vector<std::size_t> group;
    for (const std::size_t reader : readers_[value]) {
      if (ran_[reader]) continue;
      if (waiting_[reader] > 0) return {};
      group.push_back(reader);
    }
    return group;
  }

  /// Bytes that these steps free, less those that they make.
  [[nodiscard]] std::int64_t freed_by(const std::vector<std::size_t>& group) const {
    std::int64_t freed = 0;
    std::vector<std::size_t> reads;
    for (const std::size_t step : group) {
      reads.insert(reads.end(), costs_.steps[step].reads.begin(), costs_.steps[step].reads.end());
      for (const std::size_t value : costs_.steps[step].stores)
        freed -= readers_[value].empty() ? 0 : costs_.values[value].bytes;
    }
    std::sort(reads.begin(), reads.end());
    for (auto at = reads.begin(); at != reads.end();) {
      const auto end = std::upper_bound(at, reads.end(), *at);
      if (static_cast<std::size_t>(end - at) == left_[*at]) freed += costs_.values[*at].bytes;
      at = end;
    }
    return freed;
  }

  [[nodiscard]] std::vector<std::size_t> best_group() const {
    std::vector<std::size_t> best;
    std::int64_t most = -1;
    for (const std::size_t value : live_) {
      std::vector<std::size_t> group = readers_left(value);
      const std::int64_t freed = group.empty() ? -1 : freed_by(group);
      if (freed > most) {
        most = freed;
        best = std::move(group);
      }
    }
    return best;
  }

  const StepCosts& costs_;
  std::vector<std::vector<std::size_t>> readers_;  ///< of each value
  std::vector<std::size_t> left_;                  ///< readers of each value that have not run
  std::vector<std::size_t> waiting_;               ///< values that each step waits for
  std::vector<bool> ran_;
  std::vector<std::size_t> live_;  ///< values in the arena
  StepSequence sequence_;
};

/// Without runs whose values nothing reads, as long as another run of the step is left.
StepSequence without_unread(const StepCosts& costs, StepSequence sequence) {
  std::vector<std::size_t> runs(costs.steps.size(), 0);
  for (const std::size_t step : sequence) ++runs[step];
  for (;;) {
    std::vector<bool> is_read(sequence.size(), false);
    for (const std::size_t writer : writers_of(costs, sequence)) is_read[writer] = true;
    StepSequence left;
    for (std::size_t at = 0; at < sequence.size(); ++at) {
      if (is_read[at] || runs[sequence[at]] == 1) {
        left.push_back(sequence[at]);
      } else {
        --runs[sequence[at]];
      }
    }
    if (left.size() == sequence.size()) return left;
    sequence = std::move(left);
  }
}

/// The steps that run again after a position of a sequence.
class KeptValues {
 public:
  KeptValues(const StepCosts& costs, const StepSequence& sequence, std::size_t position)
      : costs_(costs), step_vertex_(costs.steps.size()), value_vertex_(costs.values.size()) {
    std::vector<bool> before(costs.steps.size(), false), after = before;
    for (std::size_t at = 0; at <= position; ++at) before[sequence[at]] = true;
    for (std::size_t at = position + 1; at < sequence.size(); ++at) {
      for (const std::size_t value : costs.steps[sequence[at]].reads) {
        const std::size_t writer = costs.values[value].writer;
        if (before[writer] && !after[writer]) needed_.push_back(value);
      }
      after[sequence[at]] = true;
    }
    std::sort(needed_.begin(), needed_.end());
    needed_.erase(std::unique(needed_.begin(), needed_.end()), needed_.end());
    note_slice();
  }

  /// At so many bytes for a microsecond, where some values are kept for nothing.
  [[nodiscard]] std::vector<std::size_t> run_again(double bytes_per_us, const std::vector<bool>& is_checkpoint) const {
    const std::size_t source = steps_.size() + values_.size(), sink = source + 1;
    FlowNetwork network(sink + 1);
    for (const std::size_t step : steps_) {
      const double cost = std::min(1 + costs_.steps[step].microseconds * bytes_per_us, 1e15);
      network.connect(source, *step_vertex_[step],
                      costs_.steps[step].once ? FlowNetwork::kInfinite : static_cast<std::int64_t>(cost));
      for (const std::size_t value : costs_.steps[step].reads)
        network.connect(*value_vertex_[value], *step_vertex_[step], FlowNetwork::kInfinite);
    }
    for (const std::size_t value : values_) {
      network.connect(*step_vertex_[costs_.values[value].writer], *value_vertex_[value],
                      is_checkpoint[value] ? 0 : costs_.values[value].bytes);
    }
    for (const std::size_t value : needed_) network.connect(*value_vertex_[value], sink, FlowNetwork::kInfinite);
    const auto reached = network.cut(source, sink);
    check(reached.has_value(), "every value can be kept");
    std::vector<std::size_t> again;
    for (const std::size_t step : steps_) {
      if (!(*reached)[*step_vertex_[step]]) again.push_back(step);
    }
    return again;
  }

 private:
  /// What is needed, and what that is computed from.
  void note_slice() {
    std::vector<std::size_t> open = needed_;
    while (!open.empty()) {
      const std::size_t value = open.back();
      open.pop_back();
      if (value_vertex_[value]) continue;
      value_vertex_[value] = steps_.size() + values_.size();
      values_.push_back(value);
      const std::size_t writer = costs_.values[value].writer;
      if (step_vertex_[writer]) continue;
      step_vertex_[writer] = steps_.size() + values_.size();
      steps_.push_back(writer);
      open.insert(open.end(), costs_.steps[writer].reads.begin(), costs_.steps[writer].reads.end());
    }
  }

  const StepCosts& costs_;
  std::vector<std::size_t> needed_;          ///< values that were computed before and are read after
  std::vector<std::size_t> values_, steps_;  ///< in what these are computed from
  std::vector<std::optional<std::size_t>> step_vertex_, value_vertex_;  ///< in the network
};

/// Values that divide what runs up to a position into parts of about as much time: all that one part needs of those
/// before it. Each lies where these are few bytes.
std::vector<bool> checkpoints(const StepCosts& costs, const StepSequence& sequence, std::size_t position, int parts) {
  std::vector<bool> is_checkpoint(costs.values.size(), false);
  const StepSequence before(sequence.begin(), sequence.begin() + static_cast<std::ptrdiff_t>(position) + 1);
  const std::vector<std::int64_t> live = live_bytes(costs, before);
  const double all = modelled_us(costs, before);
  std::vector<std::size_t> ends(static_cast<std::size_t>(parts), before.size());  // of each part, the best so far
  double time = 0;
  for (std::size_t at = 0; at < before.size(); ++at) {
    time += costs.steps[before[at]].microseconds;
    const double share = time / std::max(all, 1e-9) * parts;  // parts that are over, counted in time
    const auto part = static_cast<std::size_t>(std::lround(share));
    if (part == 0 || part >= ends.size() || std::abs(share - static_cast<double>(part)) > 0.4) continue;
    if (ends[part] == before.size() || live[at] <= live[ends[part]]) ends[part] = at;
  }
  const std::vector<std::size_t> writers = writers_of(costs, before);
  std::size_t next = 0;
  for (std::size_t at = 0; at < before.size(); ++at) {
    for (const std::size_t value : costs.steps[before[at]].reads) {
      const std::size_t writer = writers[next++];
      const auto divides = [&](std::size_t end) { return writer <= end && end < at; };
      if (std::any_of(ends.begin(), ends.end(), divides)) is_checkpoint[value] = true;
    }
  }
  return is_checkpoint;
}

/// The sequence with steps that run again after a position, each right before the first that needs it.
StepSequence with_runs(const StepCosts& costs, const StepSequence& sequence, std::size_t position,
                       const std::vector<std::size_t>& again) {
  std::vector<bool> waits(costs.steps.size(), false);
  for (const std::size_t step : again) waits[step] = true;
  const auto begin = sequence.begin(), after = begin + static_cast<std::ptrdiff_t>(position) + 1;
  StepSequence made(begin, after);
  std::vector<std::pair<std::size_t, bool>> stack;
  for (auto at = after; at != sequence.end(); ++at) {
    stack.emplace_back(*at, false);
    waits[*at] = true;
    while (!stack.empty()) {
      const auto [step, has_operands] = stack.back();
      stack.pop_back();
      if (has_operands) {
        made.push_back(step);
        continue;
      }
      if (!waits[step]) continue;
      waits[step] = false;
      stack.emplace_back(step, true);
      for (const std::size_t value : costs.steps[step].reads) {
        const std::size_t writer = costs.values[value].writer;
        if (waits[writer]) stack.emplace_back(writer, false);
      }
    }
  }
  return made;
}

/// A sequence that was looked at.
struct Candidate {
  StepSequence sequence;
  std::int64_t largest = 0;  ///< bytes at the position with most
  double excess = 0;         ///< bytes over the budget, summed up over all positions
  double microseconds = 0;
};

/// How the next sequence is chosen where none of them is within the budget yet: neither is best for all graphs.
enum class Choice : std::uint8_t { best_ratio, fewest_bytes };

class Search {
 public:
  Search(const StepCosts& costs, std::int64_t budget, std::int64_t left_free)
      : costs_(costs), budget_(budget), left_free_(left_free) {}

  Recomputation run(const StepSequence& sequence) && {
    smallest_ = candidate(sequence);
    for (const Choice choice : {Choice::best_ratio, Choice::fewest_bytes}) follow(candidate(sequence), choice);
    Recomputation found{std::nullopt, std::move(smallest_.sequence)};
    if (fastest_) found.within = with_fewer_runs(*std::move(fastest_)).sequence;
    return found;
  }

 private:
  /// A turn takes time in proportion to the steps: of long sequences there are fewer.
  [[nodiscard]] int most_turns() const {
    constexpr std::size_t kMost = 60, kFewest = 6, kSteps = 24000;
    return static_cast<int>(std::clamp(kSteps / std::max<std::size_t>(costs_.steps.size(), 1), kFewest, kMost));
  }

  [[nodiscard]] Candidate candidate(StepSequence sequence) const {
    Candidate made;
    for (const std::int64_t bytes : live_bytes(costs_, sequence)) {
      made.largest = std::max(made.largest, bytes);
      made.excess += static_cast<double>(std::max<std::int64_t>(bytes - budget_, 0));
    }
    made.microseconds = modelled_us(costs_, sequence);
    made.sequence = std::move(sequence);
    return made;
  }

  void note(const Candidate& one) {
    if (one.largest < smallest_.largest) smallest_ = one;
    if (one.largest <= budget_ && (!fastest_ || one.microseconds < fastest_->microseconds)) fastest_ = one;
  }

  /// Until a sequence is within the budget, or none has less above it.
  void follow(Candidate at, Choice choice) {
    note(at);
    for (int turn = 0; turn < most_turns() && at.largest > budget_; ++turn) {
      std::vector<Candidate> all = candidates(at);
      const Candidate* best = nullptr;
      for (const Candidate& one : all) {
        note(one);
        if (one.excess < at.excess && (best == nullptr || is_better(one, *best, at, choice))) best = &one;
      }
      if (best == nullptr || best->excess >= 0.9999 * at.excess) return;
      at = *best;
    }
  }

  /// Positions of steps that have run before, those first that take longest.
  [[nodiscard]] std::vector<std::size_t> runs_again(const StepSequence& sequence) const {
    std::vector<std::size_t> again;
    std::vector<bool> ran(costs_.steps.size(), false);
    for (std::size_t at = 0; at < sequence.size(); ++at) {
      if (ran[sequence[at]]) again.push_back(at);
      ran[sequence[at]] = true;
    }
    std::stable_sort(again.begin(), again.end(), [&](std::size_t a, std::size_t b) {
      return costs_.steps[sequence[a]].microseconds > costs_.steps[sequence[b]].microseconds;
    });
    return again;
  }

  /// Without runs that the budget has room to do without: where layers are alike, a cut computes something again in all
  /// of them or in none.
  [[nodiscard]] Candidate with_fewer_runs(Candidate from) const {
    const std::int64_t most = std::max(from.largest, budget_ - left_free_);
    std::vector<std::size_t> again = runs_again(from.sequence);
    for (std::size_t i = 0; i < again.size();) {
      StepSequence fewer = from.sequence;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(again[i]));
      Candidate made = candidate(without_unread(costs_, std::move(fewer)));
      if (made.largest > most) {
        ++i;
        continue;
      }
      from = std::move(made);
      again = runs_again(from.sequence);
    }
    return from;
  }

  [[nodiscard]] static bool is_better(const Candidate& one, const Candidate& other, const Candidate& before,
                                      Choice choice) {
    if ((one.excess == 0) != (other.excess == 0)) return one.excess == 0;
    const auto ratio = [&](const Candidate& each) {
      return (before.excess - each.excess) / std::max(each.microseconds - before.microseconds, 1e-3);
    };
    if (one.excess == 0) return one.microseconds < other.microseconds;
    if (choice == Choice::best_ratio) return ratio(one) > ratio(other);
    return one.excess < other.excess || (one.excess == other.excess && one.microseconds < other.microseconds);
  }

  /// What becomes of a sequence as a microsecond is worth fewer and fewer bytes at the position with most. Where all
  /// steps are alike, a cut keeps all values or none: checkpoints divide them.
  [[nodiscard]] std::vector<Candidate> candidates(const Candidate& from) const {
    struct Family {
      int parts, values;
    };
    constexpr Family kFamilies[] = {{1, 127}, {2, 13}, {3, 13}, {4, 13}, {6, 13}, {9, 13}, {14, 13}, {24, 13}};
    constexpr double kMost = 7, kLeast = -2;  // powers of ten
    const std::vector<std::int64_t> live = live_bytes(costs_, from.sequence);
    const auto position = static_cast<std::size_t>(std::max_element(live.begin(), live.end()) - live.begin());
    const KeptValues kept(costs_, from.sequence, position);
    std::set<std::vector<std::size_t>> known{{}};
    std::vector<Candidate> all;
    for (const Family& family : kFamilies) {
      const std::vector<bool> is_checkpoint = checkpoints(costs_, from.sequence, position, family.parts);
      for (int i = 0; i < family.values; ++i) {
        const double bytes_per_us = std::pow(10.0, kMost + (kLeast - kMost) * i / (family.values - 1));
        std::vector<std::size_t> again = kept.run_again(bytes_per_us, is_checkpoint);
        std::sort(again.begin(), again.end());
        if (!known.insert(again).second) continue;
        all.push_back(candidate(without_unread(costs_, with_runs(costs_, from.sequence, position, again))));
      }
    }
    return all;
  }

  const StepCosts& costs_;
  const std::int64_t budget_, left_free_;
  Candidate smallest_;
  std::optional<Candidate> fastest_;
};

}  // namespace

StepSequence freeing_order(const StepCosts& costs) { return FreeingOrder(costs).run(); }

Recomputation recompute_within(const StepCosts& costs, const StepSequence& sequence, std::int64_t budget,
                               std::int64_t left_free) {
  return Search(costs, budget, left_free).run(sequence);
}

}  // namespace vkfuse::plan

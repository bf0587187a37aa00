#include "plan/run_order.hpp"

#include <algorithm>

#include "base/mutations.hpp"

namespace vkfuse::plan {

namespace {

/// What a program may have, as many times what it has without a budget: nobody's file asks for endless work.
constexpr std::size_t kMostRuns = 64;

class Ordered {
 public:
  Ordered(const ir::Graph& graph, std::span<const segment::Segment> segments, const StepOrder& order)
      : graph_(graph),
        segments_(segments),
        order_(order),
        is_output_(graph.size(), false),
        is_stored_(graph.size(), false),
        at_(graph.size()) {
    made_.places.resize(graph.size());
    for (const ir::Output& output : graph.outputs()) is_output_[output.value] = true;
  }

  Result<OrderedSteps> run() && {
    VKF_CHECK_OK(find_stores());
    made_.graph.name = graph_.name;
    VKF_CHECK_OK(copy_resident());
    for (std::size_t run = 0; run < order_.kernels.size(); ++run) VKF_CHECK_OK(copy_run(run));
    for (const ir::Output& output : graph_.outputs()) {
      if (!is_stored_[output.value]) return invalid("No kernel stores the output '{}'.", output.name);
      VKF_CHECK_OK(made_.graph.add_output(output.name, *made_.places[output.value]));
    }
    make_segments();
    return std::move(made_);
  }

 private:
  /// What each run stores: outputs, the first time, and what a later run reads.
  Result<void> find_stores() {
    if (order_.kernels.size() > kMostRuns * segments_.size())
      return invalid("There are {} runs of {} kernels.", order_.kernels.size(), segments_.size());
    std::vector<std::size_t> writer(graph_.size(), kNone);
    std::vector<bool> ran(segments_.size(), false);
    stores_.resize(order_.kernels.size());
    for (std::size_t run = 0; run < order_.kernels.size(); ++run) {
      if (order_.kernels[run] >= segments_.size()) return invalid("There is no kernel {} to run.", order_.kernels[run]);
      const segment::Segment& segment = segments_[order_.kernels[run]];
      for (const ir::NodeId value : segment.reads) {
        if (segment::is_resident(graph_, value)) continue;
        if (writer[value] == kNone) return invalid("A kernel reads %{}, which none before it stores.", value);
        stores_[writer[value]].push_back(value);
      }
      for (const ir::NodeId value : segment.stores) {
        if (is_output_[value] && ran[order_.kernels[run]]) continue;  // it is in memory from its first run on
        writer[value] = run;
        if (is_output_[value] || order_.whole.count(run) != 0) stores_[run].push_back(value);
      }
      ran[order_.kernels[run]] = true;
    }
    for (std::size_t run = 0; run < order_.kernels.size(); ++run) {
      std::sort(stores_[run].begin(), stores_[run].end());
      stores_[run].erase(std::unique(stores_[run].begin(), stores_[run].end()), stores_[run].end());
      if (stores_[run].empty()) return invalid("Nothing reads what run {} of a kernel stores.", run);
    }
    return {};
  }

  /// Inputs, whether they are read or not, and constants come first.
  Result<void> copy_resident() {
    for (ir::NodeId id = 0; id < graph_.size(); ++id) {
      if (!segment::is_resident(graph_, id) && !segment::is_literal(graph_, id)) continue;
      VKF_TRY(made, ir::append_copy(made_.graph, graph_.node(id), {}));
      at_[id] = made_.places[id] = made;
    }
    return {};
  }

  /// The members that a run needs for what it stores, in order.
  [[nodiscard]] std::vector<ir::NodeId> needed_members(std::size_t run) const {
    const std::vector<ir::NodeId>& members = segments_[order_.kernels[run]].members;
    std::vector<bool> is_needed(members.size(), false);
    const auto need = [&](ir::NodeId id) {
      const auto at = std::lower_bound(members.begin(), members.end(), id);
      if (at != members.end() && *at == id) is_needed[static_cast<std::size_t>(at - members.begin())] = true;
    };
    for (const ir::NodeId id : stores_[run]) need(id);
    std::vector<ir::NodeId> needed;
    for (std::size_t i = members.size(); i-- > 0;) {
      if (!is_needed[i]) continue;
      needed.push_back(members[i]);
      for (const ir::NodeId operand : graph_.node(members[i]).operands) need(operand);
    }
    std::reverse(needed.begin(), needed.end());
    return needed;
  }

  Result<void> copy_run(std::size_t run) {
    const std::vector<ir::NodeId> members = needed_members(run);
    std::vector<std::optional<ir::NodeId>> before;  // what is read where other kernels need the value of a member
    for (const ir::NodeId id : members) before.push_back(at_[id]);
    std::vector<ir::NodeId> own;
    for (const ir::NodeId id : members) {
      std::vector<ir::NodeId> operands;
      for (const ir::NodeId operand : graph_.node(id).operands) {
        if (!at_[operand]) return invalid("A kernel reads %{}, which none before it stores.", operand);
        operands.push_back(*at_[operand]);
      }
      VKF_TRY(made, ir::append_copy(made_.graph, graph_.node(id), std::move(operands)));
      at_[id] = made;
      own.push_back(made);
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      const bool is_stored = std::binary_search(stores_[run].begin(), stores_[run].end(), members[i]);
      if (!made_.places[members[i]] || (is_stored && !is_stored_[members[i]])) made_.places[members[i]] = own[i];
      if (is_stored) {
        escapes_.push_back(own[i]);
        is_stored_[members[i]] = true;
      } else {
        at_[members[i]] = before[i];
      }
    }
    members_.push_back(std::move(own));
    return {};
  }

  void make_segments() {
    std::vector<bool> escapes(made_.graph.size(), false);
    for (const ir::NodeId id : escapes_) escapes[id] = true;
    VisitedSet visited(made_.graph.size());
    for (std::vector<ir::NodeId>& members : members_)
      made_.segments.push_back(segment::build_segment(made_.graph, std::move(members), escapes, visited));
  }

  static constexpr std::size_t kNone = ~std::size_t{0};

  const ir::Graph& graph_;
  const std::span<const segment::Segment> segments_;
  const StepOrder& order_;
  std::vector<bool> is_output_, is_stored_;       ///< each node; `is_stored_`: by now
  std::vector<std::vector<ir::NodeId>> stores_;   ///< of each run
  std::vector<std::optional<ir::NodeId>> at_;     ///< of each node, where its value is by now
  std::vector<std::vector<ir::NodeId>> members_;  ///< of each run, in the graph that is made
  std::vector<ir::NodeId> escapes_;               ///< what runs store
  OrderedSteps made_;
};

}  // namespace

Result<OrderedSteps> run_in_order(const ir::Graph& graph, std::span<const segment::Segment> segments,
                                  const StepOrder& order) {
  return Ordered(graph, segments, order).run();
}

}  // namespace vkfuse::plan

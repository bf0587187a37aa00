// Which memory the caller may give to several values of a run.
#include <algorithm>
#include <unordered_map>

#include "base/mutations.hpp"
#include "runtime/program.hpp"

namespace vkfuse::runtime {

namespace {

/// Looks for outputs whose memory something else is still read from, or written to. What shares a buffer is found by
/// the buffer: to compare all pairs would take longer than a step of training with hundreds of parameters.
class SharingCheck {
 public:
  SharingCheck(const Program& program, const Specialization& specialization, const Ranges& ranges)
      : program_(program),
        graph_(program.plan().graph),
        specialization_(specialization),
        steps_(program.plan_of(specialization).steps),
        ranges_(ranges) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const std::vector<ir::NodeId>& reads = steps_[i].segment.reads;
      for (std::size_t k = 0; k < reads.size(); ++k) readers_[reads[k]].push_back({i, k});
    }
    for (const auto& one : readers_) list(one.first, in_buffer_);
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const ir::NodeId value = graph_.outputs()[i].value;
      if (first_output_.emplace(value, i).second) list(value, outputs_in_buffer_);
    }
  }

  Result<void> run() const {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (program_.is_in_place(specialization_, ranges_, i)) continue;  // nothing is written
      for (const ir::NodeId stored : steps_[i].segment.stores) {
        if (first_output_.contains(stored)) VKF_CHECK_OK(check(i, stored));
      }
    }
    return {};
  }

 private:
  /// A read: of a step, which of those that it makes.
  using Place = std::pair<std::size_t, std::size_t>;
  using InBuffer = std::unordered_map<std::uint64_t, std::vector<ir::NodeId>>;

  void list(ir::NodeId id, InBuffer& lists) const {
    const auto range = ranges_.find(id);
    if (range != ranges_.end()) lists[range->second.buffer->number()].push_back(id);
  }

  [[nodiscard]] std::string output_name(ir::NodeId id) const { return graph_.outputs()[first_output_.at(id)].name; }

  /// Of the values of a list, those that lie in bytes of this one.
  [[nodiscard]] std::vector<ir::NodeId> sharing(ir::NodeId stored, const InBuffer& lists) const {
    const vulkan::BufferRange& range = ranges_.at(stored);
    std::vector<ir::NodeId> all;
    const auto list = lists.find(range.buffer->number());
    if (list == lists.end()) return all;
    std::copy_if(list->second.begin(), list->second.end(), std::back_inserter(all),
                 [&](ir::NodeId other) { return overlap(range, ranges_.at(other)); });
    return all;
  }

  /// Whether the step that stores a value reads the same bytes at the same place, and no others of them.
  [[nodiscard]] bool reads_same_place(std::size_t step, ir::NodeId stored, ir::NodeId read) const {
    return plan::reads_own_place(program_.plan_of(specialization_), specialization_.steps, step, read, stored) &&
           ranges_.at(stored).offset == ranges_.at(read).offset &&
           size_of(graph_.node(stored).type.dtype) == size_of(graph_.node(read).type.dtype);
  }

  /// The first read of other bytes than its own by the step that stores an output, or by a later one of anything that
  /// this step has not stored.
  [[nodiscard]] std::optional<Place> first_conflict(std::size_t writer, ir::NodeId stored) const {
    const std::vector<ir::NodeId>& own = steps_[writer].segment.stores;
    std::optional<Place> first;
    for (const ir::NodeId read : sharing(stored, in_buffer_)) {
      const bool produced = std::find(own.begin(), own.end(), read) != own.end();
      for (const Place& place : readers_.at(read)) {
        if (place.first < writer || (first && *first < place)) continue;
        const bool same_place = place.first == writer && reads_same_place(writer, stored, read);
        if (VKF_PLANT(shared_output, same_place, true) || (place.first > writer && produced)) continue;
        first = place;
      }
    }
    return first;
  }

  Result<void> check(std::size_t writer, ir::NodeId stored) const {
    if (const auto place = first_conflict(writer, stored)) {
      return invalid("Output '{}' shares memory with %{}, which is still read when the output is written.",
                     output_name(stored), steps_[place->first].segment.reads[place->second]);
    }
    for (const ir::NodeId other : sharing(stored, outputs_in_buffer_)) {
      if (other != stored)
        return invalid("Outputs '{}' and '{}' share memory.", output_name(stored), output_name(other));
    }
    return {};
  }

  const Program& program_;
  const ir::Graph& graph_;
  const Specialization& specialization_;
  const std::vector<plan::PlannedKernel>& steps_;
  const Ranges& ranges_;
  std::unordered_map<ir::NodeId, std::vector<Place>> readers_;
  InBuffer in_buffer_, outputs_in_buffer_;  ///< of values that are read, and of outputs
  std::unordered_map<ir::NodeId, std::size_t> first_output_;
};

}  // namespace

Result<void> Program::check_sharing(const Specialization& specialization, const Ranges& ranges) const {
  return SharingCheck(*this, specialization, ranges).run();
}

}  // namespace vkfuse::runtime

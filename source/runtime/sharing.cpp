// Which memory the caller may give to several values of a run.
#include <algorithm>

#include "base/mutations.hpp"
#include "runtime/program.hpp"

namespace vkfuse::runtime {

namespace {

/// Looks for outputs whose memory something else is still read from, or written to.
class SharingCheck {
 public:
  SharingCheck(const Program& program, const Specialization& specialization, const Ranges& ranges)
      : program_(program),
        graph_(program.plan().graph),
        specialization_(specialization),
        steps_(program.plan_of(specialization).steps),
        ranges_(ranges) {}

  Result<void> run() const {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (program_.is_in_place(specialization_, ranges_, i)) continue;  // nothing is written
      for (const ir::NodeId stored : steps_[i].segment.stores) VKF_CHECK_OK(check(i, stored));
    }
    return {};
  }

 private:
  [[nodiscard]] bool share(ir::NodeId a, ir::NodeId b) const { return overlap(ranges_.at(a), ranges_.at(b)); }

  /// Of the output that a value is; empty for any other value.
  [[nodiscard]] std::string output_name(ir::NodeId id) const {
    for (const ir::Output& output : graph_.outputs()) {
      if (output.value == id) return output.name;
    }
    return {};
  }

  /// Whether the step that stores a value reads the same bytes at the same place, and no others of them.
  [[nodiscard]] bool reads_same_place(std::size_t step, ir::NodeId stored, ir::NodeId read) const {
    return plan::reads_own_place(specialization_.steps, step, read, stored) &&
           ranges_.at(stored).offset == ranges_.at(read).offset &&
           size_of(graph_.node(stored).type.dtype) == size_of(graph_.node(read).type.dtype);
  }

  Result<void> check(std::size_t writer, ir::NodeId stored) const {
    const std::string output = output_name(stored);
    if (output.empty()) return {};
    const std::vector<ir::NodeId>& own = steps_[writer].segment.stores;
    for (std::size_t k = writer; k < steps_.size(); ++k) {
      for (const ir::NodeId read : steps_[k].segment.reads) {
        if (!share(stored, read)) continue;
        const bool produced = std::find(own.begin(), own.end(), read) != own.end();
        const bool same_place = k == writer && reads_same_place(k, stored, read);
        if (VKF_PLANT(shared_output, same_place, true) || (k > writer && produced)) continue;
        return invalid("Output '{}' shares memory with %{}, which is still read when the output is written.", output,
                       read);
      }
    }
    for (const ir::Output& other : graph_.outputs()) {
      if (other.value != stored && share(stored, other.value))
        return invalid("Outputs '{}' and '{}' share memory.", output, other.name);
    }
    return {};
  }

  const Program& program_;
  const ir::Graph& graph_;
  const Specialization& specialization_;
  const std::vector<plan::PlannedKernel>& steps_;
  const Ranges& ranges_;
};

}  // namespace

Result<void> Program::check_sharing(const Specialization& specialization, const Ranges& ranges) const {
  return SharingCheck(*this, specialization, ranges).run();
}

}  // namespace vkfuse::runtime

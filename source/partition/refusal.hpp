// Why kernels are not fused and why a value is not computed again, as values. plan/report.cpp words them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "ir/graph.hpp"

namespace vkfuse::partition {

enum class RefusalKind : std::uint8_t {
  stated,                  ///< in the words of the loops, the schedule, the budget or a plan file: `stated`
  fusion_off,              ///< fusion is switched off
  best_of_all,             ///< all partitions were looked at
  not_fused,               ///< nothing else is known
  several_readers,         ///< the policy stores what several ops read
  frozen,                  ///< all clusters are as they were in another form of the graph
  kernel_between,          ///< another kernel must run between
  one_moves_more,          ///< counts: bytes of one kernel, of several
  one_is_slower,           ///< counts: how many kernels; microseconds: of one kernel, of those
  never_computed_twice,    ///< op
  again_moves_more,        ///< counts: readers, bytes if computed again, bytes now
  again_is_slower,         ///< counts: readers; microseconds: if computed again, now
  stored_by_none,          ///< nodes: what some kernel would read
  unread,                  ///< nobody reads what the kernel computes
  some_results_empty,      ///< and others not
  some_results_may_empty,  ///< at sizes at which others are not
  refused_by_compiler,     ///< nodes: what shares a kernel with no other op
  too_many_ops,            ///< counts: ops, the most of a kernel
  too_many_statements,     ///< counts: statements, the most of a kernel
};

struct Refusal {
  RefusalKind kind = RefusalKind::stated;
  std::vector<ir::NodeId> nodes = {};
  std::vector<std::int64_t> counts = {};
  std::vector<double> microseconds = {};
  std::string op = {};
  Error stated = {};

  friend bool operator==(const Refusal& a, const Refusal& b) {
    return a.kind == b.kind && a.nodes == b.nodes && a.counts == b.counts && a.microseconds == b.microseconds &&
           a.op == b.op && a.stated.message == b.stated.message;
  }
};

/// What somebody else has put in words.
inline Refusal stated_refusal(Error error) { return {.stated = std::move(error)}; }

/// The same of other nodes: with another number for each that it has, in the text as "%number".
Refusal renumbered(Refusal refusal, const std::function<ir::NodeId(ir::NodeId)>& number);

/// A value, or why there is none. VKF_TRY takes it as it takes a Result.
template <typename T>
class [[nodiscard]] OrRefusal {
 public:
  OrRefusal(T value) : value_(std::move(value)) {}              // NOLINT(google-explicit-constructor)
  OrRefusal(Refusal refusal) : refusal_(std::move(refusal)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }

  /// Precondition: ok().
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

  /// Precondition: !ok().
  [[nodiscard]] const Refusal& error() const& { return refusal_; }
  [[nodiscard]] Refusal&& error() && { return std::move(refusal_); }

 private:
  std::optional<T> value_;
  Refusal refusal_;
};

}  // namespace vkfuse::partition

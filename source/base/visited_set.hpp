// A set of small numbers that is emptied in no time, for what is asked of sets of nodes again and again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace vkfuse {

/// Of the numbers 0 .. size-1.
class VisitedSet {
 public:
  explicit VisitedSet(std::size_t size = 0) : visited_(size, 0) {}

  /// Never to less.
  void resize(std::size_t size) { visited_.resize(std::max(size, visited_.size()), 0); }
  void clear() {
    if (++round_ == 0) std::fill(visited_.begin(), visited_.end(), round_++);
  }
  /// Whether it was not there yet.
  bool insert(std::uint32_t number) {
    const bool is_new = visited_[number] != round_;
    visited_[number] = round_;
    return is_new;
  }
  [[nodiscard]] bool contains(std::uint32_t number) const { return visited_[number] == round_; }

 private:
  std::vector<std::uint32_t> visited_;  ///< the last round in which it was
  std::uint32_t round_ = 1;
};

}  // namespace vkfuse

// Names of a kernel: no two of them are the same.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "kernel/code.hpp"

namespace vkfuse::lowering {

class Names {
 public:
  /// The name is not given to anything else.
  void take(std::string_view name) { taken_.emplace(name); }
  /// The name that is asked for, or with a number where it is taken or one that templates give.
  Code unique(const Code& requested);

 private:
  bool may_take(const std::string& name);

  std::set<std::string> taken_;
};

}  // namespace vkfuse::lowering

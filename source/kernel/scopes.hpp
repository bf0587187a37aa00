// The blocks of a kernel's code, and in which of them its names are used.
#pragma once

#include <vector>

#include "kernel/code.hpp"

namespace vkfuse::lowering {

/// Blocks form a tree, whose root, block 0, is the text of the kernel outside of functions.
class Scopes {
 public:
  /// Of a kernel with so many names.
  Scopes(const Code& code, std::size_t names);

  static constexpr int kUnused = -1;
  /// The innermost block with all uses of the name, or kUnused.
  [[nodiscard]] int of_name(std::size_t name) const { return of_names_[name]; }
  /// Whether a block is the other one or inside it, or the other way round: a name of one would hide that of the other.
  [[nodiscard]] bool overlap(int a, int b) const;

 private:
  struct Block {
    int parent = 0;
    int depth = 0;
  };
  void use_names(const Code& code, int block);
  [[nodiscard]] int innermost_with(int a, int b) const;

  std::vector<Block> blocks_ = {{}};
  std::vector<int> of_names_;
};

}  // namespace vkfuse::lowering

// Names of a kernel. A name is a symbol in code until it is printed: it depends on the blocks in which it is used, and
// a kernel is printed twice, with names of the graph, to be read, and with names by order alone, by which equal kernels
// have equal text.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "kernel/code.hpp"

namespace vkfuse::lowering {

enum class Naming : std::uint8_t { of_graph, by_order };

class Names {
 public:
  /// A name that is given, in each naming. No other name of the kernel equals it.
  Code given(std::string of_graph, std::string by_order);
  /// The name that is asked for, or with a number where, in a block around its uses or inside it, that is another name,
  /// or where it is a variable of the vocabulary that the kernel has.
  Code unique(const Code& requested);
  /// The texts of all names of a kernel, whose code this is: what Printer takes.
  [[nodiscard]] std::vector<std::string> texts(Naming naming, const Code& code) const;

 private:
  struct Name {
    std::array<std::string, 2> given;
    Code requested;  ///< empty where it is given
  };
  std::vector<Name> names_;
};

}  // namespace vkfuse::lowering

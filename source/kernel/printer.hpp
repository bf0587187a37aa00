// Code becomes text: once, with everything bound that was not known while it was written.
#pragma once

#include <string>
#include <vector>

#include "kernel/code.hpp"

namespace vkfuse::lowering {

class SizeBinding;

class Printer {
 public:
  /// `names` are those of Names, in one of its namings. Without `sizes`, places of sizes are printed as such: equal
  /// texts are then of kernels that differ in numbers alone. `of_part` prints a part of a dispatch, whose first
  /// workgroup two push constants tell.
  Printer(const std::vector<std::string>& names, const SizeBinding* sizes, bool of_part = false)
      : names_(names), sizes_(sizes), of_part_(of_part) {}

  [[nodiscard]] std::string text(const Code& code) const;

 private:
  void print(const Symbol& symbol, std::string_view replaced, std::string& text) const;
  void print_division(const Symbol& symbol, std::string& text) const;

  const std::vector<std::string>& names_;
  const SizeBinding* sizes_;
  bool of_part_;
};

}  // namespace vkfuse::lowering

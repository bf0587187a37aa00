// Dimensions and shapes. A dimension is a number, or a symbol whose number is known when the
// program runs: one compiled kernel then serves every size.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// What is promised of a symbolic dimension. A run that breaks a promise is refused. At least one size keeps all of it;
/// `min` is 0 to 2^62, `multiple_of` 1 to 2^30.
struct DimFacts {
  std::int64_t min = 0;
  std::int64_t max = INT64_MAX;
  std::int64_t multiple_of = 1;
  friend bool operator==(const DimFacts&, const DimFacts&) = default;
};

/// One dimension: a size in elements, or a named symbol. Symbols are equal when their names are.
class Dim {
 public:
  Dim(std::int64_t size) : size_(size) {}  // NOLINT(google-explicit-constructor)
  Dim(int size) : size_(size) {}           // NOLINT(google-explicit-constructor)

  /// A symbol: `Dim::any("n")`, `Dim::any("n", {.min = 1, .multiple_of = 8})`.
  static Dim any(std::string name, DimFacts facts = {});

  [[nodiscard]] bool is_symbol() const { return symbol_ != nullptr; }
  /// The size; 0 for a symbol.
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// The symbol's name; empty for a number.
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] DimFacts facts() const;
  /// "n" or "4096".
  [[nodiscard]] std::string text() const;

  friend bool operator==(const Dim& a, const Dim& b) {
    return a.is_symbol() == b.is_symbol() && (a.is_symbol() ? a.name() == b.name() : a.size_ == b.size_);
  }

 private:
  struct Symbol {
    std::string name;
    DimFacts facts;
  };
  std::int64_t size_ = 0;
  std::shared_ptr<const Symbol> symbol_;
};

/// Outermost dimension first; row-major; an empty shape is one element.
using Shape = std::vector<Dim>;

/// "[n, 4096]".
std::string to_text(const Shape& shape);

}  // namespace VKFUSE_PUBLIC

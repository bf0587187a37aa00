// Every limit and feature of Caps by name: what 'vkfuse devices' prints, what --limit and --disable may lower, and what
// a stored plan or kernel depends on. A new member of a group of Caps is a row here, and an assignment in
// vulkan/query.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/target.hpp"

namespace vkfuse {

/// Who sees a row.
enum class Visibility : std::uint8_t {
  user,      ///< printed, and may be lowered or disabled by name
  internal,  ///< neither
};

struct LimitRow {
  std::string_view name;
  std::uint64_t (*value)(const Caps& caps);
  void (*set)(Caps& caps, std::uint64_t value);
  Visibility visibility = Visibility::user;
};

struct FeatureRow {
  std::string_view name;
  bool (*value)(const Caps& caps);
  void (*set)(Caps& caps, bool value);
  Visibility visibility = Visibility::user;
  bool shapes_kernels = true;  ///< whether plans or kernels depend on it
};

std::span<const LimitRow> limit_rows();
std::span<const FeatureRow> feature_rows();

/// All of it that plans and kernels depend on, as text: equal where both are.
std::string capabilities_text(const Caps& caps);

}  // namespace vkfuse

#pragma once

#include <set>

#include <fmt/format.h>

#include "base/error.hpp"

namespace vkfuse::parallel {

/// The error of a rank whose exchange has not ended at its deadline: of whom something is missing, and who has not
/// taken what was sent. Each rank is named by itself, as 'rank 2'.
inline Error silence(int rank, const std::set<int>& silent, const std::set<int>& deaf) {
  const auto named = [](const std::set<int>& ranks) {
    std::string text;
    std::size_t left = ranks.size();
    for (const int one : ranks) {
      text += fmt::format("{}rank {}", text.empty() ? "" : left == 1 ? " and " : ", ", one);
      --left;
    }
    return text;
  };
  if (silent.empty())
    return make_error(ErrorCode::io, "What rank {} sent to {} was not taken until the timeout.", rank, named(deaf));
  return make_error(ErrorCode::io, "Rank {} heard nothing from {} until the timeout.", rank, named(silent));
}

}  // namespace vkfuse::parallel

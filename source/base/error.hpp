// Making errors, and the two macros that a function cannot be.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "vkfuse/result.hpp"

namespace vkfuse {

template <typename... Args>
Error make_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...), {}};
}
template <typename... Args>
Error invalid(fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...), {}};
}
template <typename... Args>
Error unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorCode::unsupported, fmt::format(format, std::forward<Args>(args)...), {}};
}

/// Thrown when an invariant of vkfuse itself does not hold; the API turns it into ErrorCode::internal.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

/// Stays on in release builds: a broken invariant must never become a wrong number.
inline void check(bool condition, const char* what) {
  if (!condition) throw InternalError(what);
}

}  // namespace vkfuse

#define VKF_CONCAT_(a, b) a##b
#define VKF_CONCAT(a, b) VKF_CONCAT_(a, b)

/// VKF_TRY(value, expression): declares `value`, or returns the expression's error.
#define VKF_TRY(name, ...)                                                                                  \
  auto VKF_CONCAT(vkf_result_, __LINE__) = (__VA_ARGS__);                                                   \
  if (!VKF_CONCAT(vkf_result_, __LINE__).ok()) return std::move(VKF_CONCAT(vkf_result_, __LINE__)).error(); \
  auto name = *std::move(VKF_CONCAT(vkf_result_, __LINE__))

/// The same for a Result<void>.
#define VKF_CHECK_OK(...) \
  if (auto vkf_status = (__VA_ARGS__); !vkf_status.ok()) return std::move(vkf_status).error()

// Error values. No vkfuse call throws or ends the process: what can fail returns a Result.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// What kind of thing went wrong; the message says which value it was.
enum class ErrorCode {
  invalid_argument,  ///< the caller's graph, shape, file or option is wrong
  unsupported,       ///< it is valid, but neither vkfuse nor this device offers it
  not_found,         ///< no such file, device or name
  no_device,         ///< no Vulkan loader, or no Vulkan device
  device_error,      ///< a Vulkan call failed
  device_lost,       ///< the device was reset; open it again
  out_of_memory,     ///< host or device memory is exhausted, or a limit would be exceeded
  io,                ///< a file could not be read or written
  internal,          ///< a defect of vkfuse itself
};

/// The name of an error code, for logs: "invalid_argument".
const char* name_of(ErrorCode code);

/// One full sentence that names the offending value, and the chain of what was being done.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  std::vector<std::string> context;  ///< innermost first, each printed as "  while ..."

  /// The message followed by one "while ..." line per context entry.
  [[nodiscard]] std::string text() const;
  /// The same error with one more line of context: `error.within("compiling segment 3")`.
  [[nodiscard]] Error within(std::string doing) &&;
};

/// A value of type T, or the Error that explains why there is none. Like std::expected, which
/// C++20 does not have; kept to the parts that vkfuse uses.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }

  /// Precondition: ok().
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

  /// Precondition: !ok().
  [[nodiscard]] const Error& error() const& { return error_; }
  [[nodiscard]] Error&& error() && { return std::move(error_); }

 private:
  std::optional<T> value_;
  Error error_;
};

/// Success without a value.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const& { return *error_; }
  [[nodiscard]] Error&& error() && { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace VKFUSE_PUBLIC

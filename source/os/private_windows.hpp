// Who may change a file or folder of Windows; included by the *_windows.cpp of this folder alone.
#pragma once

#include <optional>
#include <string>

#include "os/windows.hpp"

namespace vkfuse::os {

/// A security descriptor that lets this user, the system and administrators in, and nobody else.
class PrivateSecurity {
 public:
  PrivateSecurity();
  ~PrivateSecurity();
  PrivateSecurity(const PrivateSecurity&) = delete;
  PrivateSecurity& operator=(const PrivateSecurity&) = delete;
  [[nodiscard]] bool is_valid() const { return descriptor_ != nullptr; }
  [[nodiscard]] PSECURITY_DESCRIPTOR descriptor() const { return descriptor_; }

 private:
  PSECURITY_DESCRIPTOR descriptor_ = nullptr;
};

/// A sentence about who else might change what is in a folder; nothing where only this user, the system and
/// administrators can.
std::optional<std::string> objection_to(HANDLE folder, const std::string& path);

}  // namespace vkfuse::os

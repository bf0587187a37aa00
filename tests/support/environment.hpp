// Variables of the process's environment, on every system.
#pragma once

#include <optional>
#include <string>

namespace vkfuse::test {

/// Nothing removes it.
void set_variable(const char* name, const std::optional<std::string>& value);

/// A variable for the length of a test; nothing is none.
class Variable {
 public:
  Variable(const char* name, const std::optional<std::string>& value);
  ~Variable() { set_variable(name_, before_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace vkfuse::test

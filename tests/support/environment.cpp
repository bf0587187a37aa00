#include "support/environment.hpp"

#include <cstdlib>

namespace vkfuse::test {

Variable::Variable(const char* name, const std::optional<std::string>& value) : name_(name) {
  if (const char* const before = std::getenv(name)) before_ = before;
  set_variable(name, value);
}

}  // namespace vkfuse::test

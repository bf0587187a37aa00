#include <cstdlib>

#include "support/environment.hpp"

namespace vkfuse::test {

void set_variable(const char* name, const std::optional<std::string>& value) {
  value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
}

}  // namespace vkfuse::test

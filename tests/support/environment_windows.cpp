#include <cstdlib>

#include "support/environment.hpp"

namespace vkfuse::test {

// An empty value removes it: there are no empty variables.
void set_variable(const char* name, const std::optional<std::string>& value) {
  ::_putenv_s(name, value.value_or("").c_str());
}

}  // namespace vkfuse::test

// Inputs of a run, as a caller in Python gives them.
#pragma once

#include <functional>

#include "convert.hpp"

namespace vkfuse::python {

/// Inputs on the host, alive as long as this is.
class GivenInputs {
 public:
  void add(const Port& port, nb::handle object);
  [[nodiscard]] const Inputs& inputs() const { return inputs_; }

 private:
  std::vector<HostArray> held_;
  Inputs inputs_;
};

/// Which argument is which input: in their order, then by name. Each is given once.
std::vector<std::pair<const Port*, nb::handle>> match_inputs(const std::vector<Port>& ports, const nb::args& positional,
                                                             const nb::kwargs& by_name);

/// A dict of NumPy arrays, in the order of these names.
nb::object run_on_host(const GivenInputs& given, const std::vector<std::string>& output_names,
                       const std::function<Result<Outputs>(const Inputs&)>& run);

}  // namespace vkfuse::python

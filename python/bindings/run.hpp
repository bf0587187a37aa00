// What a caller in Python gives: inputs of a run, and outputs of a program.
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

/// Which argument is which input: in their order, then by name. Each is given once, or, if `needs_all` is false, once
/// at most.
std::vector<std::pair<const Port*, nb::handle>> match_inputs(const std::vector<Port>& ports, const nb::args& positional,
                                                             const nb::kwargs& by_name, bool needs_all = true);

/// Outputs as tensors, and their names where they have some.
struct Results {
  std::vector<Tensor> tensors;
  std::vector<std::string> names;
};
/// Of a tensor, a sequence of them, or a dict of them by name.
Results to_results(nb::handle outputs);

/// A dict of NumPy arrays, in the order of these names.
nb::object run_on_host(const GivenInputs& given, const std::vector<std::string>& output_names,
                       const std::function<Result<Outputs>(const Inputs&)>& run);

}  // namespace vkfuse::python

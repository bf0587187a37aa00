// A test of the device: a kernel written by hand whose results are known.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/two_buffer_kernel.hpp"

namespace vkfuse::runtime {

struct KnownAnswer {
  TwoBufferKernel kernel;
  std::vector<std::uint32_t> input;
  std::size_t output_words = 0;
  std::uint32_t workgroups = 1;
};

/// What is wrong with the results: one sentence, or nothing.
using FindFault = std::function<std::string(const std::vector<std::uint32_t>& results)>;

/// What `find_fault` says of the results. That nothing is wrong is kept in the store for the next process with this
/// driver; what is wrong is looked at again each time.
Result<std::string> check_known_answer(OpenDevice& opened, const KnownAnswer& test, const FindFault& find_fault);

}  // namespace vkfuse::runtime

// One group of nodes at work (OrtNodeComputeInfo).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ort/provider.hpp"

namespace vkfuse::ort {

/// Where a run finds what a program reads, and puts what it computes: positions among the fused node's.
struct Places {
  std::vector<std::pair<std::string, std::size_t>> inputs, outputs;
};

/// Runs a group. Thread-safe, as its program is.
class Compute : public OrtNodeComputeInfo {
 public:
  Compute(const Host& host, std::shared_ptr<const Provider::Group> group, Places places);

 private:
  struct Callbacks;
  Result<void> run(OrtKernelContext* context) const;

  Host host_;
  std::shared_ptr<const Provider::Group> group_;
  Places places_;
};

}  // namespace vkfuse::ort

// Transports that a program in another language brings, as functions.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "vkfuse/parallel.hpp"

namespace vkfuse::parallel {

struct TransportFunctions {
  int rank = 0;
  int size = 1;
  /// Returns when everything has arrived and what is sent may be overwritten. Not called after an error.
  std::function<Result<void>(const Exchange& exchange)> exchange;
  /// Tells the other ranks that this one has failed. Called once at most. Empty: they wait until their timeout.
  std::function<void(std::string_view sentence)> fail;
};

/// ErrorCode::invalid_argument where the rank is none of the job's.
Result<std::shared_ptr<Transport>> transport_of(TransportFunctions functions);

}  // namespace vkfuse::parallel

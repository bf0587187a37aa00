#include "base/error.hpp"

namespace vkfuse {

const char* name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::no_device: return "no_device";
    case ErrorCode::device_error: return "device_error";
    case ErrorCode::device_lost: return "device_lost";
    case ErrorCode::out_of_memory: return "out_of_memory";
    case ErrorCode::io: return "io";
    case ErrorCode::internal: return "internal";
  }
  return "unknown";
}

std::string Error::text() const {
  std::string all = message;
  for (const std::string& doing : context) all += "\n  while " + doing;
  return all;
}

Error Error::within(std::string doing) && {
  context.push_back(std::move(doing));
  return std::move(*this);
}

}  // namespace vkfuse

#include "ort/host.hpp"

namespace vkfuse::ort {

Result<void> taken(const Host& host, OrtStatus* status) {
  if (status == nullptr) return {};
  Error error = make_error(ErrorCode::internal, "ONNX Runtime says: {}", host.api->GetErrorMessage(status));
  host.api->ReleaseStatus(status);
  return error;
}

OrtStatus* status_of(const Host& host, const Error& error) noexcept {
  try {
    return host.api->CreateStatus(ORT_FAIL, error.text().c_str());
  } catch (const std::exception&) {
    return host.api->CreateStatus(ORT_FAIL, "There is no memory to say what has failed.");
  }
}

void log(const Host& host, const OrtLogger* logger, OrtLoggingLevel level, const std::string& sentence) {
  if (logger == nullptr) return;
  OrtStatus* status = host.api->Logger_LogMessage(logger, level, sentence.c_str(), ORT_TSTR("vkfuse"), 0, "vkfuse");
  if (status != nullptr) host.api->ReleaseStatus(status);  // a log that takes nothing is no reason to fail
}

}  // namespace vkfuse::ort

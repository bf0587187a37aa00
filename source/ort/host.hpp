// ONNX Runtime, in whose process the provider runs: its tables of functions, and errors across its C interface.
#pragma once

#include <onnxruntime_c_api.h>

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace vkfuse::ort {

/// The version of the interface that is asked for, the first that has providers in libraries: every later ONNX Runtime
/// offers it, whatever the headers that were compiled against.
inline constexpr std::uint32_t kApiVersion = 23;

/// How ONNX Runtime calls the provider; also the domain of the nodes that it makes of groups.
inline constexpr const char* kProviderName = "VkfuseExecutionProvider";

/// What tells the memory of vkfuse's devices from that of other providers, in place of a vendor's number: which device
/// it is on is not known when ONNX Runtime asks, and to it memory of vendor 0 is nobody's. ("vkf".)
inline constexpr std::uint32_t kVendor = 0x766b66;

/// Tables of functions, which live as long as the process.
struct Host {
  const OrtApi* api = nullptr;
  const OrtEpApi* ep_api = nullptr;
};

/// What a status says, as an error; it is released.
Result<void> taken(const Host& host, OrtStatus* status);

/// An error as a status: always ORT_FAIL. After ORT_EP_FAIL Python's run() makes the session again without the
/// provider, and the error would be lost.
OrtStatus* status_of(const Host& host, const Error& error) noexcept;

/// Runs `body`, which returns a Result<void>: ONNX Runtime's callbacks must not throw.
template <typename Body>
OrtStatus* guarded(const Host& host, Body body) noexcept {
  try {
    const Result<void> done = body();
    return done ? nullptr : status_of(host, done.error());
  } catch (const std::bad_alloc&) {
    return host.api->CreateStatus(ORT_FAIL, "There is not enough host memory for the execution provider of vkfuse.");
  } catch (const std::exception& failure) {
    return status_of(host, {ErrorCode::internal, failure.what(), {}});
  } catch (...) {
    return host.api->CreateStatus(ORT_FAIL, "The execution provider of vkfuse has failed and states no reason.");
  }
}

/// Writes one line to the log of a session, or to ONNX Runtime's own.
void log(const Host& host, const OrtLogger* logger, OrtLoggingLevel level, const std::string& sentence);

}  // namespace vkfuse::ort

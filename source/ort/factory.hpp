// What ONNX Runtime gets from the library (OrtEpFactory): devices, and providers for sessions.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ort/memory.hpp"
#include "ort/options.hpp"
#include "ort/provider.hpp"

namespace vkfuse::ort {

/// The factory of one registration. It is never destroyed: ONNX Runtime may let go of the library first, and of
/// sessions and what they have from the factory afterwards.
class Factory : public OrtEpFactory {
 public:
  static Result<std::unique_ptr<Factory>> create(const Host& host);

 private:
  struct Callbacks;
  Factory(const Host& host, const OrtMemoryInfo* memory);

  Result<void> offer(std::span<const OrtHardwareDevice* const> devices, std::span<OrtEpDevice*> offered,
                     std::size_t& count);
  Result<std::unique_ptr<Provider>> make(const OrtSessionOptions* options, const OrtLogger* logger);
  Result<Device> open(const ProviderOptions& options, const OrtLogger* logger);

  /// The device that values made outside of sessions go to: of the session that was made last, if one lives, else the
  /// one that is opened without options.
  Result<Device> shared_device();

  Host host_;
  Blocks blocks_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Device::State>> devices_;  ///< that sessions have open, by what they asked for
  std::weak_ptr<Device::State> last_;
};

}  // namespace vkfuse::ort

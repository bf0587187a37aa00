// The two functions that ONNX Runtime looks for in the library.
#include "ort/factory.hpp"

#define VKFUSE_ORT_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

/// A status without a table of functions that could make one: ONNX Runtime before 1.23 asks for it with its own table.
OrtStatus* too_old(const OrtApiBase* base) {
  const OrtApi* oldest = base->GetApi(1);
  if (oldest == nullptr) return nullptr;
  return oldest->CreateStatus(ORT_FAIL, "vkfuse's execution provider needs ONNX Runtime 1.23 or newer.");
}

}  // namespace

VKFUSE_ORT_EXPORT OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*,
                                               OrtEpFactory** factories, std::size_t most, std::size_t* count) {
  *count = 0;
  vkfuse::ort::Host host;
  host.api = base->GetApi(vkfuse::ort::kApiVersion);
  if (host.api == nullptr) return too_old(base);
  return vkfuse::ort::guarded(host, [&]() -> vkfuse::Result<void> {
    host.ep_api = host.api->GetEpApi();
    if (most == 0) return vkfuse::invalid("ONNX Runtime has room for 0 providers of a library; vkfuse has one.");
    VKF_TRY(factory, vkfuse::ort::Factory::create(host));
    factories[0] = factory.release();
    *count = 1;
    return {};
  });
}

VKFUSE_ORT_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory*) {
  return nullptr;  // sessions that live may still ask for what the factory made, and are let go through it
}

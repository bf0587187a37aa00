#include <nlohmann/json.hpp>

#include "vkfuse/device.hpp"

namespace vkfuse {

std::string to_json(const DeviceDescription& device) {
  const nlohmann::ordered_json json = {{"index", device.index},
                                       {"name", device.name},
                                       {"uuid", device.uuid},
                                       {"driver", device.driver},
                                       {"api", device.api},
                                       {"type", device.type},
                                       {"memory_bytes", device.memory_bytes},
                                       {"limits", device.limits},
                                       {"feature_tiers", device.feature_tiers},
                                       {"features", device.features},
                                       {"costs", device.costs}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace vkfuse

#include <nlohmann/json.hpp>

#include "vkfuse/device.hpp"

namespace vkfuse {

std::string to_json(const DeviceDescription& device) {
  nlohmann::ordered_json json = {{"index", device.index},
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
  json["architecture"] = device.architecture;
  nlohmann::ordered_json& figures = json["architecture_figures"] = nlohmann::ordered_json::array();
  for (const ArchitectureFigure& figure : device.figures) {
    figures.push_back(
        {{"name", figure.name}, {"value", figure.value}, {"unit", figure.unit}, {"source", figure.source}});
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace vkfuse

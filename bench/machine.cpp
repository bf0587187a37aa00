#include "machine.hpp"

#include <fmt/chrono.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "nvml.hpp"
#include "os/system.hpp"

namespace vkfuse::bench {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint32_t kNvidia = 0x10de;

std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<double> number(const std::string& text) {
  double value = 0;
  const std::size_t start = text.find_first_not_of(' ');
  if (start == std::string::npos) return std::nullopt;
  if (std::from_chars(text.data() + start, text.data() + text.size(), value).ec != std::errc()) return std::nullopt;
  return value;
}

void add_file(json& all, const char* key, const fs::path& path, double scale) {
  const auto line = first_line(path);
  const auto value = line ? number(*line) : std::nullopt;
  if (value) all[key] = *value * scale;
}

/// The value of a line "key : value" or "key: value unit" of a file.
std::optional<std::string> field(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const std::size_t start = line.find_first_not_of(' ', colon + 1);
    return start == std::string::npos ? std::string() : line.substr(start);
  }
  return std::nullopt;
}

bool is_id(const fs::path& path, std::uint32_t id) {
  const auto line = first_line(path);
  return line && *line == fmt::format("0x{:04x}", id);
}

/// The folder of the card with the device's PCI numbers. Nothing where two have them: which is the device is not known.
std::optional<fs::path> card_of(const vulkan::DeviceInfo& info, const fs::path& root) {
  std::vector<fs::path> cards;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root / "sys/class/drm", ignored)) {
    const std::string name = entry.path().filename().string();
    // "card0", and not its connectors, "card0-DP-1".
    if (!name.starts_with("card") || name.find('-') != std::string::npos) continue;
    const fs::path device = entry.path() / "device";
    if (is_id(device / "vendor", info.vendor_id) && is_id(device / "device", info.device_id))
      cards.push_back(entry.path());
  }
  return cards.size() == 1 ? std::optional(cards.front()) : std::nullopt;
}

/// Drivers of the kernel. Units are hwmon's: millidegrees, microwatts, microjoules, hertz.
json from_sysfs(const vulkan::DeviceInfo& info, const fs::path& root) {
  json all = json::object();
  const std::optional<fs::path> card = card_of(info, root);
  if (!card) return all;
  add_file(all, "core_mhz", *card / "gt_cur_freq_mhz", 1);
  add_file(all, "core_mhz", *card / "gt_act_freq_mhz", 1);
  add_file(all, "core_mhz", *card / "device/tile0/gt0/freq0/act_freq", 1);
  std::error_code ignored;
  for (const auto& monitor : fs::directory_iterator(*card / "device/hwmon", ignored)) {
    add_file(all, "celsius", monitor.path() / "temp1_input", 1e-3);
    add_file(all, "watts", monitor.path() / "power1_average", 1e-6);
    add_file(all, "watts", monitor.path() / "power1_input", 1e-6);
    add_file(all, "joules", monitor.path() / "energy1_input", 1e-6);
    add_file(all, "core_mhz", monitor.path() / "freq1_input", 1e-6);
    add_file(all, "memory_mhz", monitor.path() / "freq2_input", 1e-6);
  }
  return all;
}

/// The Vulkan UUID of an NVIDIA device is the one of its tool.
json from_nvidia_smi(const vulkan::DeviceInfo& info) {
  json all = json::object();
  const std::string command = fmt::format(
      "nvidia-smi -i {} --query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw --format=csv,noheader,nounits",
      nvidia_uuid(vulkan::to_text(info.device_uuid)));
  const auto line = os::first_line_of(command);
  if (!line) return all;
  std::istringstream parts(*line);
  for (const char* key : {"core_mhz", "memory_mhz", "celsius", "watts"}) {
    std::string part;
    if (!std::getline(parts, part, ',')) break;
    if (const auto value = number(part)) all[key] = *value;
  }
  return all;
}

json from_nvml(const vulkan::DeviceInfo& info) {
  json all = json::object();
  const std::optional<Readings> readings = nvml_readings(vulkan::to_text(info.device_uuid));
  if (!readings) return all;
  const auto add = [&](const char* key, const std::optional<double>& value) {
    if (value) all[key] = *value;
  };
  add("core_mhz", readings->core_mhz);
  add("memory_mhz", readings->memory_mhz);
  add("celsius", readings->celsius);
  add("watts", readings->watts);
  return all;
}

json from_nvidia(const vulkan::DeviceInfo& info) {
  const json all = from_nvml(info);
  return all.empty() ? from_nvidia_smi(info) : all;
}

json from_processor() {
  json all = json::object();
  if (const auto mhz = field("/proc/cpuinfo", "cpu MHz")) {
    if (const auto value = number(*mhz)) all["core_mhz"] = *value;
  }
  add_file(all, "core_mhz", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", 1e-3);
  add_file(all, "celsius", "/sys/class/thermal/thermal_zone0/temp", 1e-3);
  return all;
}

}  // namespace

json host_facts() {
  json all = json::object();
  const os::Machine machine = os::machine();
  if (machine.processor) all["processor"] = *machine.processor;
  all["threads"] = std::thread::hardware_concurrency();
  if (machine.memory_bytes) all["memory_bytes"] = *machine.memory_bytes;
  if (machine.system) all["system"] = *machine.system;
  if (machine.architecture) all["machine"] = *machine.architecture;
  return all;
}

json sensors(const vulkan::DeviceInfo& info, const fs::path& root) {
  json all = {{"core_mhz", nullptr}, {"memory_mhz", nullptr}, {"celsius", nullptr}, {"watts", nullptr}};
  all.update(info.type == DeviceType::cpu ? from_processor()
             : info.vendor_id == kNvidia  ? from_nvidia(info)
                                          : from_sysfs(info, root));
  add_file(all, "load", "/proc/loadavg", 1);
  all["time"] = utc_time();
  return all;
}

std::string utc_time() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

}  // namespace vkfuse::bench

#include "machine.hpp"

#include <fmt/chrono.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

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

/// Drivers of the kernel: the card with the device's PCI numbers. Units are hwmon's: millidegrees, microwatts, hertz.
json from_sysfs(const vulkan::DeviceInfo& info) {
  json all = json::object();
  std::error_code ignored;
  for (const auto& card : fs::directory_iterator("/sys/class/drm", ignored)) {
    const fs::path device = card.path() / "device";
    if (!is_id(device / "vendor", info.vendor_id) || !is_id(device / "device", info.device_id)) continue;
    add_file(all, "core_mhz", card.path() / "gt_cur_freq_mhz", 1);
    for (const auto& monitor : fs::directory_iterator(device / "hwmon", ignored)) {
      add_file(all, "celsius", monitor.path() / "temp1_input", 1e-3);
      add_file(all, "watts", monitor.path() / "power1_average", 1e-6);
      add_file(all, "watts", monitor.path() / "power1_input", 1e-6);
      add_file(all, "core_mhz", monitor.path() / "freq1_input", 1e-6);
      add_file(all, "memory_mhz", monitor.path() / "freq2_input", 1e-6);
    }
  }
  return all;
}

/// The Vulkan UUID of an NVIDIA device is the one of its tool.
json from_nvidia_smi(const vulkan::DeviceInfo& info) {
  json all = json::object();
  const std::string id = vulkan::to_text(info.device_uuid);
  const std::string command = fmt::format(
      "nvidia-smi -i GPU-{}-{}-{}-{}-{} --query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw "
      "--format=csv,noheader,nounits",
      id.substr(0, 8), id.substr(8, 4), id.substr(12, 4), id.substr(16, 4), id.substr(20));
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

json sensors(const vulkan::DeviceInfo& info) {
  json all = info.type == DeviceType::cpu ? from_processor()
             : info.vendor_id == kNvidia  ? from_nvidia_smi(info)
                                          : from_sysfs(info);
  add_file(all, "load", "/proc/loadavg", 1);
  all["time"] = utc_time();
  return all;
}

std::string utc_time() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

}  // namespace vkfuse::bench

#include "tool/output_names.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

namespace vkfuse::tool {

namespace {

constexpr std::size_t kLongest = 100;  ///< of the 255 bytes that file systems take

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// What Windows takes for a device in every folder, whatever ending follows.
bool is_device_of_windows(const std::string& name) {
  constexpr std::string_view kDevices[] = {"con", "prn", "aux", "nul"}, kNumbered[] = {"com", "lpt"};
  const std::string lowered = lower(name);
  if (std::find(std::begin(kDevices), std::end(kDevices), lowered) != std::end(kDevices)) return true;
  return lowered.size() == 4 && std::isdigit(static_cast<unsigned char>(lowered[3])) != 0 &&
         std::find(std::begin(kNumbered), std::end(kNumbered), lowered.substr(0, 3)) != std::end(kNumbered);
}

/// Whatever the graph calls an output, its file stays inside the folder, on every system that files are carried to.
std::string made_safe(const std::string& name) {
  std::string safe = name.substr(0, kLongest);
  std::replace_if(
      safe.begin(), safe.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '-'; }, '_');
  if (is_device_of_windows(safe)) safe += '_';
  return safe.empty() ? "output" : safe;
}

}  // namespace

std::map<std::string, std::string> file_stems(const std::set<std::string>& outputs) {
  std::map<std::string, std::string> stems;
  std::set<std::string> taken;
  for (const std::string& name : outputs) {
    if (made_safe(name) == name && taken.insert(lower(name)).second) stems[name] = name;
  }
  for (const std::string& name : outputs) {
    if (stems.count(name) != 0) continue;
    const std::string safe = made_safe(name);
    std::string stem = safe;
    for (int i = 2; !taken.insert(lower(stem)).second; ++i) stem = safe + "_" + std::to_string(i);
    stems[name] = stem;
  }
  return stems;
}

}  // namespace vkfuse::tool

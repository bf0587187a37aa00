#include "tool/output_names.hpp"

#include <algorithm>
#include <cctype>

namespace vkfuse::tool {

namespace {

constexpr std::size_t kLongest = 100;  ///< of the 255 bytes that file systems take

/// Whatever the graph calls an output, its file stays inside the folder.
std::string made_safe(const std::string& name) {
  std::string safe = name.substr(0, kLongest);
  std::replace_if(
      safe.begin(), safe.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '-'; }, '_');
  return safe.empty() ? "output" : safe;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
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

#include "support/described_device.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <vector>

#include "base/capabilities.hpp"
#include "base/error.hpp"

namespace vkfuse::test {
namespace {

using vulkan::DeviceInfo;

struct TextRow {
  std::string_view name;
  std::string DeviceInfo::*member;
};
constexpr TextRow kTexts[] = {{"name", &DeviceInfo::name},
                              {"driver", &DeviceInfo::driver_name},
                              {"driver_info", &DeviceInfo::driver_info},
                              {"api_version", &DeviceInfo::api_version}};

struct NumberRow {
  std::string_view name;
  std::uint32_t DeviceInfo::*member;
};
constexpr NumberRow kNumbers[] = {{"vendor_id", &DeviceInfo::vendor_id},
                                  {"device_id", &DeviceInfo::device_id},
                                  {"compute_units", &DeviceInfo::compute_units}};

constexpr DeviceType kTypes[] = {DeviceType::discrete, DeviceType::integrated, DeviceType::virtualized, DeviceType::cpu,
                                 DeviceType::other};

std::string text_of(const MatrixShape& shape) {
  return fmt::format("{} {} {} {} {} {} {}", shape.m, shape.n, shape.k, name_of(shape.a), name_of(shape.b),
                     name_of(shape.c), name_of(shape.result));
}

template <typename T>
std::optional<T> number_from(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::optional<MatrixShape> shape_from(std::string_view text) {
  const std::vector<std::string> words = words_of(text);
  if (words.size() != 7) return std::nullopt;
  std::uint32_t sizes[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const auto size = number_from<std::uint32_t>(words[i]);
    if (!size) return std::nullopt;
    sizes[i] = *size;
  }
  DType dtypes[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const auto dtype = dtype_named(words[3 + i]);
    if (!dtype) return std::nullopt;
    dtypes[i] = *dtype;
  }
  return MatrixShape{sizes[0], sizes[1], sizes[2], dtypes[0], dtypes[1], dtypes[2], dtypes[3]};
}

bool read_type(DeviceInfo& info, std::string_view value) {
  const auto* const found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](DeviceType type) { return name_of(type) == value; });
  if (found == std::end(kTypes)) return false;
  info.type = *found;
  return true;
}

bool read_heap(DeviceInfo& info, std::string_view name, std::string_view value) {
  const auto bytes = number_from<std::uint64_t>(value);
  if (bytes) info.heaps.push_back({*bytes, name == "device_memory"});
  return bytes.has_value();
}

bool read_matrix(DeviceInfo& info, std::string_view value) {
  const auto shape = shape_from(value);
  if (shape) info.caps.matrix.shapes.push_back(*shape);
  return shape.has_value();
}

/// Whether the line is one of a device.
bool read_line(DeviceInfo& info, std::string_view name, std::string_view value) {
  for (const TextRow& row : kTexts) {
    if (row.name == name) return info.*row.member = value, true;
  }
  if (name == "type") return read_type(info, value);
  if (name == "matrix") return read_matrix(info, value);
  if (name == "device_memory" || name == "other_memory") return read_heap(info, name, value);
  for (const FeatureRow& row : feature_rows()) {
    if (row.name == name) return row.set(info.caps, true), value.empty();
  }
  const auto number = number_from<std::uint64_t>(value);
  if (!number) return false;
  for (const NumberRow& row : kNumbers) {
    if (row.name == name) return info.*row.member = static_cast<std::uint32_t>(*number), true;
  }
  for (const LimitRow& row : limit_rows()) {
    if (row.name == name) return row.set(info.caps, *number), true;
  }
  return false;
}

}  // namespace

std::string to_text(const DeviceInfo& info) {
  std::string text;
  for (const TextRow& row : kTexts) text += fmt::format("{} {}\n", row.name, info.*row.member);
  text += fmt::format("type {}\n", name_of(info.type));
  for (const NumberRow& row : kNumbers) text += fmt::format("{} {}\n", row.name, info.*row.member);
  for (const vulkan::MemoryHeap& heap : info.heaps)
    text += fmt::format("{} {}\n", heap.device_local ? "device_memory" : "other_memory", heap.bytes);
  for (const LimitRow& row : limit_rows()) text += fmt::format("{} {}\n", row.name, row.value(info.caps));
  for (const FeatureRow& row : feature_rows()) {
    if (row.value(info.caps)) text += fmt::format("{}\n", row.name);
  }
  for (const MatrixShape& shape : info.caps.matrix.shapes) text += fmt::format("matrix {}\n", text_of(shape));
  return text;
}

Result<DeviceInfo> parse_device(std::string_view text) {
  DeviceInfo info;
  for (const FeatureRow& row : feature_rows()) row.set(info.caps, false);  // what it has is listed
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t space = std::min(line.find(' '), line.size());
    if (!read_line(info, line.substr(0, space), line.substr(std::min(space + 1, line.size()))))
      return invalid("No device has the line '{}'.", line);
  }
  return info;
}

}  // namespace vkfuse::test

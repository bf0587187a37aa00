#include "ort/options.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

namespace vkfuse::ort {
namespace {

template <typename T>
using Names = std::initializer_list<std::pair<std::string_view, T>>;

template <typename T>
Result<void> take_named(std::string_view option, const std::string& value, Names<T> names, T& to) {
  std::vector<std::string_view> known;
  for (const auto& [name, meaning] : names) {
    if (name == value) {
      to = meaning;
      return {};
    }
    known.push_back(name);
  }
  return invalid("The option '{}' of vkfuse's execution provider is '{}'; it is one of {}.", option, value,
                 fmt::join(known, ", "));
}

Result<void> take_device(ProviderOptions& options, const std::string& value) {
  options.device = value;
  return {};
}

Result<void> take_numerics(ProviderOptions& options, const std::string& value) {
  return take_named<Numerics>("numerics", value,
                              {{"standard", Numerics::standard},
                               {"strict", Numerics::strict},
                               {"f16_accumulation", Numerics::f16_accumulation}},
                              options.numerics);
}

Result<void> take_cache(ProviderOptions& options, const std::string& value) {
  if (value == "off") {
    options.store.enabled = false;
  } else {
    options.store.folder = value;
  }
  return {};
}

Result<void> take_tune(ProviderOptions& options, const std::string& value) {
  return take_named<Tune>("tune", value, {{"off", Tune::off}, {"on", Tune::on}, {"background", Tune::background}},
                          options.tune);
}

Result<void> take_tune_ms(ProviderOptions& options, const std::string& value) {
  double milliseconds = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), milliseconds);
  if (read.ec != std::errc() || read.ptr != value.data() + value.size() || !(milliseconds >= 0))
    return invalid("The option 'tune_ms' of vkfuse's execution provider is '{}', which is no time in milliseconds.",
                   value);
  options.tune_ms = milliseconds;
  return {};
}

Result<void> take_fusion(ProviderOptions& options, const std::string& value) {
  return take_named<bool>("fusion", value, {{"on", true}, {"off", false}}, options.fusion);
}

Result<void> take_dump(ProviderOptions& options, const std::string& value) {
  options.dump = value;
  return {};
}

constexpr OptionRow kRows[] = {
    {"device", "an index, a UUID or a part of a name", "the Vulkan device; else $VKFUSE_DEVICE, else the best one",
     take_device},
    {"numerics", "standard, strict, f16_accumulation", "how 16-bit floats are rounded", take_numerics},
    {"cache", "a folder, or off", "where compiled kernels and plans are kept; else $VKFUSE_CACHE", take_cache},
    {"tune", "off, on, background", "whether schedules are measured", take_tune},
    {"tune_ms", "milliseconds", "what measuring may take", take_tune_ms},
    {"fusion", "on, off", "off: a kernel for each op, for comparison", take_fusion},
    {"dump", "a folder", "gets the model (.onnx) and the plan (.txt) of every group of nodes", take_dump},
};

}  // namespace

std::span<const OptionRow> option_table() { return kRows; }

Result<ProviderOptions> parse_options(const std::map<std::string, std::string, std::less<>>& given) {
  ProviderOptions options;
  for (const auto& [name, value] : given) {
    const auto* row = std::ranges::find(kRows, std::string_view(name), &OptionRow::name);
    if (row == std::end(kRows)) {
      std::vector<std::string_view> known;
      for (const OptionRow& one : kRows) known.push_back(one.name);
      return invalid("vkfuse's execution provider has no option '{}'; it has {}.", name, fmt::join(known, ", "));
    }
    VKF_CHECK_OK(row->take(options, value));
  }
  return options;
}

}  // namespace vkfuse::ort

// What a session may ask of the provider.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "vkfuse/device.hpp"
#include "vkfuse/executable.hpp"

namespace vkfuse::ort {

/// What a session says of precompiled models, by the keys ep.context_enable, ep.context_embed_mode and
/// ep.context_file_path of its options.
struct ContextOptions {
  bool is_written = false;  ///< ONNX Runtime writes a model of EPContext nodes
  bool is_inside = false;   ///< that holds the groups itself; else each is a file beside it
  std::string path;         ///< where ONNX Runtime writes it; empty: beside the model that is read
};

/// Provider options, by the names that docs/onnxruntime.md lists.
struct ProviderOptions {
  std::string device;  ///< DeviceOptions::name
  Numerics numerics = Numerics::standard;
  StoreOptions store;
  Tune tune = Tune::off;
  double tune_ms = 1000;
  bool fusion = true;
  std::string dump;         ///< a folder for the model and the plan of every group; empty: none
  ContextOptions contexts;  ///< which are the session's own, and no provider's
};

/// One option: how it is spelt and what it does, for errors and for the documentation.
struct OptionRow {
  std::string_view name;
  std::string_view values;
  std::string_view meaning;
  Result<void> (*take)(ProviderOptions& options, const std::string& value) = nullptr;
};

std::span<const OptionRow> option_table();

/// Reads what a session gives. Errors name the option, the value and what is allowed.
Result<ProviderOptions> parse_options(const std::map<std::string, std::string, std::less<>>& given);

}  // namespace vkfuse::ort

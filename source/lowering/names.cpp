#include "lowering/names.hpp"

#include <algorithm>
#include <cctype>
#include <set>

namespace vkfuse::lowering {

namespace {

/// Letters and digits of `name`, at most 24, with single underscores between: GLSL reserves doubled
/// ones, and the prefix keeps clear of keywords.
std::string made_safe(std::string_view prefix, std::string_view name) {
  std::string safe(prefix);
  for (char c : name.substr(0, 24)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      safe += c;
    } else if (safe.back() != '_') {
      safe += '_';
    }
  }
  if (safe == prefix) safe += "value";
  while (safe.back() == '_') safe.pop_back();
  return safe;
}

/// Whether a name ends like those that kernels make from a value's: in_x_w0, out_y_1, in_x_at, ...
bool is_derived(std::string_view name) {
  const std::size_t last = name.rfind('_');
  if (last == std::string_view::npos || last <= 3) return false;  // "in_x", "out_1" and "v7" themselves
  const std::string_view ending = name.substr(last + 1);
  for (const std::string_view suffix : {"s", "e", "i", "at", "base", "result"}) {
    if (ending == suffix) return true;
  }
  const std::string_view digits = ending.substr(ending.starts_with('w') || ending.starts_with('v') ? 1 : 0);
  return std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

NodeNames identifiers(const ir::Graph& graph, std::span<const ir::NodeId> nodes) {
  NodeNames names;
  for (ir::NodeId id : nodes) names[id];
  std::set<std::string> taken;
  const auto give = [&](ir::NodeId id, std::string& own, std::string name) {
    if (!own.empty()) return;
    // No name ends like this of itself, so the longer one is free.
    if (is_derived(name) || !taken.insert(name).second) name += "_v" + std::to_string(id);
    own = std::move(name);
  };
  for (auto& [id, own] : names) {
    const auto* input = std::get_if<ir::InputPayload>(&graph.node(id).payload);
    if (input != nullptr) give(id, own, made_safe("in_", input->name));
  }
  for (const ir::Output& output : graph.outputs()) {
    const auto own = names.find(output.value);
    if (own != names.end()) give(output.value, own->second, made_safe("out_", output.name));
  }
  for (auto& [id, own] : names) give(id, own, "v" + std::to_string(id));
  return names;
}

std::string comment_text(std::string_view text) {
  std::string safe;
  for (char c : text.substr(0, 96)) {
    const bool plain = std::isprint(static_cast<unsigned char>(c)) != 0 && c != '\\' && c != '{' && c != '}';
    safe += plain ? c : '?';
  }
  return safe;
}

}  // namespace vkfuse::lowering

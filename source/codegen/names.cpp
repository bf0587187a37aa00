#include "codegen/names.hpp"

#include <algorithm>
#include <cctype>
#include <set>

namespace vkfuse::codegen {

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
  while (safe.back() == '_') safe.pop_back();
  return safe;
}

}  // namespace

std::vector<std::string> identifiers(const ir::Graph& graph) {
  std::vector<std::string> names(graph.size());
  std::set<std::string> taken;
  const auto give = [&](ir::NodeId id, std::string name) {
    if (!names[id].empty()) return;
    if (!taken.insert(name).second) {
      name += "_v" + std::to_string(id);
      taken.insert(name);
    }
    names[id] = std::move(name);
  };
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    const auto* input = std::get_if<ir::InputPayload>(&graph.node(id).payload);
    if (input != nullptr) give(id, made_safe("in_", input->name));
  }
  for (const ir::Output& output : graph.outputs()) give(output.value, made_safe("out_", output.name));
  for (ir::NodeId id = 0; id < graph.size(); ++id) give(id, "v" + std::to_string(id));
  return names;
}

std::string comment_text(std::string_view text) {
  std::string safe;
  for (char c : text.substr(0, 96)) {
    const bool plain = std::isprint(static_cast<unsigned char>(c)) != 0 && c != '\\';
    safe += plain ? c : '?';
  }
  return safe;
}

}  // namespace vkfuse::codegen

#include "runtime/custom.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "lowering/custom_function.hpp"
#include "lowering/packing.hpp"

namespace vkfuse::runtime {

namespace {

/// The text of a line, counted from 1.
std::string_view line_of(std::string_view text, int number) {
  for (int i = 1; i < number && !text.empty(); ++i) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  text = text.substr(0, text.find('\n'));
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  return text;
}

}  // namespace

Error error_in_user_code(const std::string& what, const std::string& file, const std::string& code, int code_begins,
                         const Error& error) {
  // "FILE:LINE: error: TEXT", the first of possibly several.
  std::string_view message = error.message;
  for (std::size_t at = message.find(file + ":"); at != std::string_view::npos; at = message.find(file + ":", at + 1)) {
    std::string_view rest = message.substr(at + file.size() + 1);
    int line = 0;
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), line);
    if (parsed.ec != std::errc{}) continue;
    rest.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest.data()));
    rest = rest.substr(0, rest.find('\n'));
    const std::size_t text = rest.find("error: ");
    if (text == std::string_view::npos) continue;
    rest.remove_prefix(text + 7);
    const int lines = static_cast<int>(std::count(code.begin(), code.end(), '\n')) + 1;
    const int own = std::clamp(line - code_begins + 1, 1, lines);
    return invalid("{} does not compile: line {}, '{}': {}.", what, own, line_of(code, own).substr(0, 200), rest);
  }
  return invalid("{} does not compile: {}", what, message.substr(0, message.find('\n')));
}

Result<void> check_custom_code(OpenDevice& opened, const ir::Graph& graph) {
  const Caps& caps = opened.device()->caps();
  std::set<std::string> checked;
  for (const ir::Node& node : graph.nodes()) {
    const auto* custom = std::get_if<ir::CustomPayload>(&node.payload);
    if (custom == nullptr) continue;
    VKF_TRY(function, lowering::custom_function(graph, node, caps.arithmetic.int64));
    if (!checked.insert(function.name).second) continue;
    if (function.text.find("double") != std::string::npos && !caps.arithmetic.float64) {
      return unsupported("The code of the custom op '{}' has a double, and the device has no 64-bit floats.",
                         custom->name);
    }
    if (function.text.find("int64_t") != std::string::npos && !caps.arithmetic.int64) {
      return unsupported("The code of the custom op '{}' has a 64-bit integer, and the device has none.", custom->name);
    }
    const lowering::Kernel kernel = lowering::custom_check(function);
    auto compiled = opened.shaders().compile(kernel);
    if (compiled) continue;
    return error_in_user_code(fmt::format("The code of the custom op '{}'", custom->name), kernel.name, custom->code,
                              lowering::custom_check_line(function), compiled.error());
  }
  return {};
}

}  // namespace vkfuse::runtime

// Rules of ops whose code the user gives: what can be said of the code without a compiler.
#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "ir/structured.hpp"

namespace vkfuse::ir {

namespace {

constexpr std::size_t kLongestName = 48;
/// Compilers of shaders call themselves for what is nested, and take time and memory beyond all proportion for it:
/// 4,000 nested sin() took more than 20 s. These are far more than an element needs.
constexpr std::size_t kLongestCode = std::size_t{1} << 14, kLongestKernel = std::size_t{1} << 18;
constexpr std::size_t kDeepest = 64;
constexpr int kMostBranches = 256;

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The beginning of a text as an error quotes it: on one line.
std::string shown(const std::string& text) {
  constexpr std::size_t kMostShown = 200;
  std::string part = text.substr(0, kMostShown);
  std::replace_if(
      part.begin(), part.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return part;
}

Result<void> check_name(const Call& call, const std::string& name) {
  const bool word = !name.empty() && std::all_of(name.begin(), name.end(), in_word) &&
                    std::isdigit(static_cast<unsigned char>(name[0])) == 0;
  if (!word || name.size() > kLongestName || name.find("__") != std::string::npos) {
    return invalid(
        "'{}' has the name '{}', which is not a word of letters, digits and single underscores, {} at most, that "
        "begins with a letter.",
        call.op.name, shown(name.substr(0, kLongestName)), kLongestName);
  }
  return {};
}

/// The code without its comments; lines stay where they are.
std::string without_comments(const std::string& code) {
  std::string all;
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code.compare(i, 2, "//") == 0) {
      while (i < code.size() && code[i] != '\n') ++i;
      if (i < code.size()) all += '\n';
    } else if (code.compare(i, 2, "/*") == 0) {
      const std::size_t end = code.find("*/", i + 2);
      for (; i < code.size() && (end == std::string::npos || i < end + 1); ++i) {
        if (code[i] == '\n') all += '\n';
      }
      all += ' ';
    } else {
      all += code[i];
    }
  }
  return all;
}

Error too_deep(const std::string& name) {
  return invalid("The code of the custom op '{}' nests brackets, or branches and loops, more than {} deep.", name,
                 kDeepest);
}

/// Fails where compilers would have to go too deep. Macros may leave brackets of a kernel open: those are not counted
/// exactly.
Result<void> check_nesting(const std::string& name, const std::string& code) {
  std::size_t depth = 0;
  for (const char c : without_comments(code)) {
    if (c == '(' || c == '[' || c == '{') ++depth;
    if ((c == ')' || c == ']' || c == '}') && depth > 0) --depth;
    if (depth > kDeepest) return too_deep(name);
  }
  return {};
}

/// The same of branches and loops without brackets: so many may follow one another before a statement ends.
Result<void> check_branches(const CustomPayload& custom) {
  constexpr std::array<std::string_view, 5> kWords = {"if", "for", "while", "do", "switch"};
  const std::string code = without_comments(custom.code);
  int branches = 0, parentheses = 0;
  std::size_t open = 0;  // branches whose statement is still to come
  for (std::size_t i = 0; i < code.size();) {
    std::size_t end = i;
    while (end < code.size() && in_word(code[end])) ++end;
    const std::string_view word = std::string_view(code).substr(i, end - i);
    const bool is_branch = code[i] == '?' || std::find(kWords.begin(), kWords.end(), word) != kWords.end();
    if (is_branch) ++branches, ++open;
    if (code[i] == '(') ++parentheses;
    if (code[i] == ')') --parentheses;
    if ((code[i] == ';' && parentheses <= 0) || code[i] == '{' || code[i] == '}') open = 0;
    if (open > kDeepest) return too_deep(custom.name);
    i = std::max(end, i + 1);
  }
  if (branches <= kMostBranches) return {};
  return invalid("The code of the custom op '{}' has {} branches and loops; it may have {}.", custom.name, branches,
                 kMostBranches);
}

/// Fails where brackets do not match: what follows would be read as part of something else.
Result<void> check_brackets(const CustomPayload& custom) {
  std::string open;
  for (const char c : without_comments(custom.code)) {
    if (c == '(' || c == '[' || c == '{') open += c;
    if (c != ')' && c != ']' && c != '}') continue;
    const char requested = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (open.empty() || open.back() != requested)
      return invalid("The code of the custom op '{}' has a '{}' that closes nothing: '{}'.", custom.name, c,
                     shown(custom.code));
    open.pop_back();
  }
  if (open.empty()) return {};
  return invalid("The code of the custom op '{}' has a '{}' that nothing closes: '{}'.", custom.name, open.back(),
                 shown(custom.code));
}

/// An element is a function of its operands' elements: it does not ask which invocation computes it, nor wait for
/// others.
Result<void> check_words(const CustomPayload& custom) {
  const std::string code = without_comments(custom.code);
  if (code.find('#') != std::string::npos)
    return invalid("The code of the custom op '{}' has a '#': it is part of a shader, and no directive fits there.",
                   custom.name);
  if (code.find('\\') != std::string::npos || code.find('\0') != std::string::npos)
    return invalid("The code of the custom op '{}' has a backslash or a zero byte.", custom.name);
  for (std::size_t i = 0; i < code.size();) {
    if (!in_word(code[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < code.size() && in_word(code[end])) ++end;
    const std::string_view word = std::string_view(code).substr(i, end - i);
    const bool elsewhere = word.starts_with("gl_") || word.starts_with("atomic") || word.starts_with("subgroup") ||
                           word.find("arrier") != std::string_view::npos;
    if (elsewhere)
      return invalid("The code of the custom op '{}' names '{}', but an element is a function of its operands alone.",
                     custom.name, word);
    i = end;
  }
  return {};
}

}  // namespace

bool is_function_body(const std::string& code) {
  const std::string plain = without_comments(code);
  for (std::size_t at = plain.find("return"); at != std::string::npos; at = plain.find("return", at + 1)) {
    const bool begins = at == 0 || !in_word(plain[at - 1]);
    const bool ends = at + 6 >= plain.size() || !in_word(plain[at + 6]);
    if (begins && ends) return true;
  }
  return false;
}

Result<Shape> custom_shape(const Call& call) {
  const auto& custom = call.attributes<CustomPayload>();
  VKF_CHECK_OK(check_name(call, custom.name));
  if (custom.code.size() > kLongestCode)
    return invalid("The code of the custom op '{}' has {} bytes; it may have {}.", custom.name, custom.code.size(),
                   kLongestCode);
  const std::string plain = without_comments(custom.code);
  if (std::all_of(plain.begin(), plain.end(), [](unsigned char c) { return std::isspace(c) != 0; }))
    return invalid("The custom op '{}' has no code.", custom.name);
  if (custom.ulps < 0 || custom.ulps > 1 << 20)
    return invalid("The custom op '{}' is off by {} units in the last place; it may be 0 to {}.", custom.name,
                   custom.ulps, 1 << 20);
  if (custom.cost < 0 || custom.cost > 1 << 20)
    return invalid("The custom op '{}' costs {} multiply-adds; it may be 0 to {}.", custom.name, custom.cost, 1 << 20);
  VKF_CHECK_OK(check_brackets(custom));
  VKF_CHECK_OK(check_nesting(custom.name, custom.code));
  VKF_CHECK_OK(check_branches(custom));
  VKF_CHECK_OK(check_words(custom));
  Shape shape;
  for (const TensorType& type : call.operands) {
    auto joined = broadcast(shape, type.shape);
    if (!joined)
      return std::move(joined).error().within(fmt::format("inferring the shape of the custom op '{}'", custom.name));
    shape = *std::move(joined);
  }
  return shape;
}

Result<Shape> kernel_shape(const Call& call) {
  const auto& kernel = call.attributes<KernelPayload>();
  VKF_CHECK_OK(check_name(call, kernel.name));
  if (kernel.code.empty() || kernel.code.size() > kLongestKernel || kernel.code.find('\0') != std::string::npos) {
    return invalid("The code of the custom kernel '{}' has {} bytes, or a zero among them; it may have 1 to {}.",
                   kernel.name, kernel.code.size(), kLongestKernel);
  }
  VKF_CHECK_OK(check_nesting(kernel.name, kernel.code));
  if (kernel.workgroup < 1 || kernel.workgroup > 1 << 16)
    return invalid("The custom kernel '{}' has workgroups of {} invocations.", kernel.name, kernel.workgroup);
  if (kernel.tile.size() != call.shape.size()) {
    return invalid("The custom kernel '{}' has a tile of {} sizes, but its result {} has {} axes.", kernel.name,
                   kernel.tile.size(), to_text(call.shape), call.shape.size());
  }
  for (const std::int64_t size : kernel.tile) {
    if (size < 1)
      return invalid("The custom kernel '{}' has a tile of [{}], but sizes are 1 or more.", kernel.name,
                     fmt::join(kernel.tile, ", "));
  }
  return call.shape;
}

}  // namespace vkfuse::ir

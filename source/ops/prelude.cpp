// Finds the functions of shaders/ that a piece of GLSL needs.
//
// The files hold functions and nothing else. A function starts in column 0 with its return type and
// ends with the first line that closes a brace there, or on its own line; the // lines right above
// belong to it. Overloads of a name are kept together.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "base/shaders.hpp"
#include "ops/op.hpp"
#include "ops/pattern.hpp"
#include "ops/prelude.hpp"

namespace vkfuse::ops {
namespace {

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// Every name in the text that an opening parenthesis follows, in order.
std::vector<std::string_view> calls_in(std::string_view text) {
  std::vector<std::string_view> names;
  for (std::size_t at = 0; at < text.size();) {
    if (!in_name(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && in_name(text[end])) ++end;
    if (starts_name(text[at]) && end < text.size() && text[end] == '(') names.push_back(text.substr(at, end - at));
    at = end;
  }
  return names;
}

struct Function {
  std::string comment;
  std::string text;  ///< without the comment; overloads one after the other, with theirs
};
using Functions = std::map<std::string, Function, std::less<>>;

void add_function(Functions& functions, std::string comment, std::string text) {
  const auto names = calls_in(std::string_view(text).substr(0, text.find('\n')));
  check(!names.empty(), "a prelude function has no name followed by its parameters");
  Function& function = functions[std::string(names.front())];
  if (function.text.empty()) {
    function = {std::move(comment), std::move(text)};
  } else {
    function.text += comment + text;
  }
}

void add_file(Functions& functions, std::string_view source) {
  std::string comment;
  std::string body;  // of the function being read; empty between functions
  while (!source.empty()) {
    const std::size_t newline = source.find('\n');
    const std::string line(source.substr(0, newline));
    source.remove_prefix(newline == std::string_view::npos ? source.size() : newline + 1);
    if (body.empty() && line.empty()) {
      comment.clear();
    } else if (body.empty() && line.starts_with("//")) {
      comment += line + "\n";
    } else {
      const bool first = body.empty();
      check(!first || starts_name(line[0]), "a line of a shader file is neither a comment nor a function");
      body += line + "\n";
      if (!(first ? line.ends_with("}") : line.starts_with("}"))) continue;
      add_function(functions, std::move(comment), std::move(body));
      comment = body = {};
    }
  }
  check(body.empty(), "the last function of a shader file is not closed");
}

const Functions& functions() {
  static const Functions all = [] {
    Functions read;
    for (const EmbeddedShader& file : embedded_shaders()) add_file(read, file.text);
    return read;
  }();
  return all;
}

void append_needed(std::span<const std::string_view> calls, std::set<std::string_view>& done, std::string& result) {
  for (const std::string_view name : calls) {
    const auto found = functions().find(name);
    if (found == functions().end() || !done.insert(found->first).second) continue;
    append_needed(calls_in(found->second.text), done, result);
    if (!result.empty()) result += "\n";
    result += found->second.comment + found->second.text;
  }
}

constexpr int kStatementsOfBranch = 16;
/// lavapipe takes 0.6 s for 16 inlined loops, 3 s for 32 and 30 s for 64 (docs/results.md).
constexpr int kStatementsOfLoop = 150;

int occurrences(std::string_view text, std::string_view word) {
  int count = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

int own_statements(std::string_view text) {
  return static_cast<int>(std::count(text.begin(), text.end(), ';')) + kStatementsOfBranch * occurrences(text, "if (") +
         kStatementsOfLoop * (occurrences(text, "for (") + occurrences(text, "while ("));
}

/// Of one function, with those that it calls. Functions do not recurse.
int statements_of(std::string_view name) {
  static std::map<std::string_view, int> known;
  static std::mutex mutex;
  const auto found = functions().find(name);
  if (found == functions().end()) return 0;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (const auto one = known.find(name); one != known.end()) return one->second;
  }
  const std::string_view text = found->second.text;
  const std::string_view body = text.substr(std::min(text.find('{'), text.size()));
  int count = own_statements(body);
  for (const std::string_view called : calls_in(body)) count += called == name ? 0 : statements_of(called);
  const std::lock_guard<std::mutex> lock(mutex);
  known.emplace(found->first, count);
  return count;
}

}  // namespace

int inlined_statements(std::string_view text) {
  int count = 1 + own_statements(text);
  for (const std::string_view name : calls_in(text)) count += statements_of(name);
  return count;
}

std::string prelude_for(std::string_view text) { return prelude_of(calls_in(text)); }

std::string prelude_of(std::span<const std::string_view> functions) {
  std::set<std::string_view> done;
  std::string result;
  append_needed(functions, done, result);
  return result;
}

std::vector<std::string_view> prelude_functions() {
  std::vector<std::string_view> names;
  for (const auto& function : functions()) names.push_back(function.first);
  return names;
}

}  // namespace vkfuse::ops

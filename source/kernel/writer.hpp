// Indented text, line by line.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace vkfuse::lowering {

class Writer {
 public:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_.append(static_cast<std::size_t>(depth_) * 2, ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  void indent() { ++depth_; }
  void blank() { text_ += '\n'; }
  void raw(std::string_view text) { text_ += text; }
  /// A line that ends in "{"; close() ends the block.
  template <typename... Args>
  void open(fmt::format_string<Args...> format, Args&&... args) {
    line(format, std::forward<Args>(args)...);
    ++depth_;
  }
  void close(std::string_view after = {}) {
    --depth_;
    line("}}{}", after);
  }
  /// Ends the block of an `if` and begins the other one.
  void otherwise() {
    --depth_;
    open("}} else {{");
  }
  std::string take() { return std::move(text_); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  int depth_ = 0;
};

/// Whether a text uses an identifier.
inline bool mentions(std::string_view text, std::string_view name) {
  const auto in_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const bool begins = at == 0 || !(in_word(text[at - 1]) || text[at - 1] == '.');
    const std::size_t end = at + name.size();
    if (begins && (end == text.size() || !in_word(text[end]))) return true;
  }
  return false;
}

}  // namespace vkfuse::lowering

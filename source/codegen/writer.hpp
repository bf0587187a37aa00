// Indented text, line by line.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace vkfuse::codegen {

class Writer {
 public:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_.append(static_cast<std::size_t>(depth_) * 2, ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
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

}  // namespace vkfuse::codegen

// Indented code, line by line.
#pragma once

#include <utility>

#include "kernel/code.hpp"

namespace vkfuse::lowering {

class Writer {
 public:
  template <typename... Args>
  void line(fmt::format_string<detail::Formatted<Args>...> format, const Args&... args) {
    for (int i = 0; i < depth_; ++i) code_ += "  ";
    code_.print(format, args...);
    code_ += "\n";
  }
  void indent() { ++depth_; }
  void blank() { code_ += "\n"; }
  void raw(const Code& code) { code_ += code; }
  /// A line that ends in "{"; close() ends the block.
  template <typename... Args>
  void open(fmt::format_string<detail::Formatted<Args>...> format, const Args&... args) {
    line(format, args...);
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
  Code take() { return std::move(code_); }

 private:
  Code code_;
  int depth_ = 0;
};

}  // namespace vkfuse::lowering

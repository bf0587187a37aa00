// Indented code, line by line.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernel/code.hpp"

namespace vkfuse::lowering {

class Writer {
 public:
  Writer() = default;
  /// With `written_out`, what a compiler unrolls elsewhere is written turn by turn.
  explicit Writer(bool written_out) : written_out_(written_out) {}

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
    if (!unrolled_.empty() && unrolled_.back().depth == depth_) return write_turns();
    line("}}{}", after);
  }
  /// A loop over so many turns that is unrolled, because its counter tells registers apart; close() ends it.
  void open_unrolled(std::string_view counter, std::int64_t count) {
    if (!written_out_) return open("[[unroll]] for (uint {0} = 0u; {0} < {1}u; ++{0}) {{", counter, count);
    open_written_out(counter, count);
  }
  /// The same where a compiler would not: loops in it have too many turns.
  void open_written_out(std::string_view counter, std::int64_t count) {
    unrolled_.push_back({std::string(counter), count, depth_, std::exchange(code_, Code())});
    ++depth_;
  }
  /// The same of one statement.
  void unrolled(std::string_view counter, std::int64_t count, const Code& statement) {
    if (!written_out_) return line("[[unroll]] for (uint {0} = 0u; {0} < {1}u; ++{0}) {2}", counter, count, statement);
    open_unrolled(counter, count);
    line("{}", statement);
    close();
  }
  /// Ends the block of an `if` and begins the other one.
  void otherwise() {
    --depth_;
    open("}} else {{");
  }
  Code take() { return std::move(code_); }

 private:
  /// A loop that is written out, and what was written before it.
  struct Unrolled {
    std::string counter;
    std::int64_t count = 0;
    int depth = 0;
    Code before;
  };
  void write_turns() {
    const Unrolled loop = std::move(unrolled_.back());
    unrolled_.pop_back();
    const Code body = std::exchange(code_, loop.before);
    for (std::int64_t turn = 0; turn < loop.count; ++turn) {
      open("{{");
      line("const uint {} = {}u;", loop.counter, turn);
      code_ += body;
      --depth_;
      line("}}");
    }
  }

  Code code_;
  int depth_ = 0;
  bool written_out_ = false;
  std::vector<Unrolled> unrolled_;  ///< that are open
};

}  // namespace vkfuse::lowering

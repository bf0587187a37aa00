// Standard input and output.
#pragma once

#include <string>
#include <string_view>

namespace vkfuse::os {

enum class Standard { input, output, error };
bool is_terminal(Standard stream);
/// The width of the terminal that standard output is; nothing that is one has 80.
int terminal_columns();

/// At the start of a program. A file that is opened later would take the number of a standard stream that is closed,
/// and what is printed would be written into it: writing to such a stream fails instead. Lines end as they were
/// printed.
void prepare_standard_streams();

/// Text on its way to a standard stream: what a filter makes of each piece is written.
class OutputFilter {
 public:
  explicit OutputFilter(Standard stream) : stream_(stream) {}
  virtual ~OutputFilter() = default;
  virtual std::string filtered(std::string_view text) = 0;
  /// Writes all of it, after `filtered`.
  bool write(std::string_view text);
  /// errno of the first write that failed; 0 where none did.
  [[nodiscard]] int failure() const { return failure_; }
  [[nodiscard]] Standard stream() const { return stream_; }

 private:
  Standard stream_;
  int failure_ = 0;
};
/// From now on what is printed goes through the filter, which lives as long as the process, with setvbuf's `buffering`.
/// Without effect where the C library has no streams with functions.
void print_through(OutputFilter& filter, int buffering);

}  // namespace vkfuse::os

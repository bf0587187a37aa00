#include "base/command_main.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "os/system.hpp"
#include "os/terminal.hpp"

namespace vkfuse {

namespace {

/// Writes control characters but `kept` as \xHH. Both are never destroyed: streams are flushed after statics have gone.
class WithoutControls : public os::OutputFilter {
 public:
  WithoutControls(os::Standard stream, std::string_view kept) : OutputFilter(stream), kept_(kept) {}
  std::string filtered(std::string_view text) override;

 private:
  std::string_view kept_;
  bool follows_c2_ = false;  ///< the last byte of the piece before begins a character of two bytes, U+0080 to U+00BF
};

std::string WithoutControls::filtered(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string clean;
  clean.reserve(text.size());
  const auto escape = [&](unsigned char byte) { (clean += "\\x") += {kDigits[byte >> 4], kDigits[byte & 15]}; };
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::exchange(follows_c2_, byte == 0xc2)) {
      if (byte >= 0x80 && byte < 0xa0) {
        escape(byte);
        continue;
      }
      clean += '\xc2';
    }
    if (byte == 0xc2) continue;
    if ((byte < 0x20 && kept_.find(c) == std::string_view::npos) || byte == 0x7f) {
      escape(byte);
    } else {
      clean += c;
    }
  }
  return clean;
}

WithoutControls& output() {
  static WithoutControls& filter = *new WithoutControls(os::Standard::output, "\n\t");
  return filter;
}

void filter_streams() {
  static WithoutControls& errors = *new WithoutControls(os::Standard::error, "\n\t\r");  // progress is written over
  os::print_through(output(), os::is_terminal(os::Standard::output) ? _IOLBF : _IOFBF);
  os::print_through(errors, _IONBF);
}

int guarded(const char* name, const std::function<int()>& command) {
  try {
    return command();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: The host has no memory left.\n", name);
  } catch (const std::length_error&) {
    std::fprintf(stderr, "%s: The host cannot hold a container this large.\n", name);
  } catch (const std::exception& other) {
    if (std::ferror(stdout) == 0)
      std::fprintf(stderr, "%s: A defect in vkfuse: '%s' was thrown.\n", name, other.what());
  } catch (...) {
    std::fprintf(stderr, "%s: A defect in vkfuse: what is no exception of the standard was thrown.\n", name);
  }
  return 2;
}

}  // namespace

int command_main(const char* name, const std::function<int()>& command) {
  os::prepare_standard_streams();
  os::ignore_closed_pipes();
  FILE* const plain = stdout;  // which std::cout writes to
  filter_streams();
  const int status = guarded(name, command);
  // A failure in between leaves the mark at the stream, whoever printed.
  const bool failed_before = std::ferror(stdout) != 0 || std::ferror(plain) != 0;
  errno = 0;
  const bool arrived = std::fflush(stdout) == 0;
  if (std::fflush(plain) == 0 && arrived && !failed_before) return status;
  const int number = output().failure() != 0 ? output().failure() : errno;
  const std::string why = number == 0 ? "" : ": " + std::generic_category().message(number);
  std::fprintf(stderr, "%s: Standard output could not be written%s.\n", name, why.c_str());
  return status == 0 || failed_before ? 1 : status;
}

}  // namespace vkfuse

#include "base/command_main.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

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

namespace vkfuse {

namespace {

/// What a file opened later would take the number of, and what is printed would be written into. A write to it fails.
void keep_numbers_taken() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    static_cast<void>(
        ::open("/dev/null", number == STDERR_FILENO ? O_WRONLY : O_RDONLY));  // the lowest number that is free
  }
}

#ifdef __GLIBC__
/// Between a stream and its descriptor.
struct Filter {
  int descriptor;
  std::string_view kept;    ///< control characters that stay
  int failure = 0;          ///< errno of the first write that failed
  bool follows_c2 = false;  ///< the last byte of the piece before begins a character of two bytes, U+0080 to U+00BF
};

std::string without_controls(Filter& filter, std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string clean;
  clean.reserve(text.size());
  const auto escape = [&](unsigned char byte) { (clean += "\\x") += {kDigits[byte >> 4], kDigits[byte & 15]}; };
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::exchange(filter.follows_c2, byte == 0xc2)) {
      if (byte >= 0x80 && byte < 0xa0) {
        escape(byte);
        continue;
      }
      clean += '\xc2';
    }
    if (byte == 0xc2) continue;
    if ((byte < 0x20 && filter.kept.find(c) == std::string_view::npos) || byte == 0x7f) {
      escape(byte);
    } else {
      clean += c;
    }
  }
  return clean;
}

ssize_t write_clean(void* cookie, const char* bytes, size_t count) {
  auto& filter = *static_cast<Filter*>(cookie);
  const std::string clean = without_controls(filter, {bytes, count});
  for (std::string_view rest = clean; !rest.empty();) {
    const ssize_t put = ::write(filter.descriptor, rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      if (filter.failure == 0) filter.failure = errno;
      return 0;  // an error, to the stream
    }
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
  return static_cast<ssize_t>(count);
}

/// The stream in place of `of`, or that where there is none. Lives until the process ends.
FILE* filtered(FILE* of, Filter& filter, int mode) {
  FILE* stream = ::fopencookie(&filter, "w", {nullptr, write_clean, nullptr, nullptr});
  if (stream == nullptr) return of;
  std::setvbuf(stream, nullptr, mode, BUFSIZ);
  return stream;
}

Filter output{STDOUT_FILENO, "\n\t"};

int failure_of_output() { return output.failure; }

void filter_streams() {
  static Filter errors{STDERR_FILENO, "\n\t\r"};  // progress is written over
  stdout = filtered(stdout, output, ::isatty(STDOUT_FILENO) != 0 ? _IOLBF : _IOFBF);
  stderr = filtered(stderr, errors, _IONBF);
}
#else
int failure_of_output() { return 0; }
void filter_streams() {}
#endif

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
  keep_numbers_taken();
  ::signal(SIGPIPE, SIG_IGN);
  FILE* const plain = stdout;  // which std::cout writes to
  filter_streams();
  const int status = guarded(name, command);
  // A failure in between leaves the mark at the stream, whoever printed.
  const bool failed_before = std::ferror(stdout) != 0 || std::ferror(plain) != 0;
  errno = 0;
  const bool arrived = std::fflush(stdout) == 0;
  if (std::fflush(plain) == 0 && arrived && !failed_before) return status;
  const int number = failure_of_output() != 0 ? failure_of_output() : errno;
  const std::string why = number == 0 ? "" : ": " + std::generic_category().message(number);
  std::fprintf(stderr, "%s: Standard output could not be written%s.\n", name, why.c_str());
  return status == 0 || failed_before ? 1 : status;
}

}  // namespace vkfuse

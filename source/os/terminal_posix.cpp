#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "os/terminal.hpp"

namespace vkfuse::os {

namespace {

int number_of(Standard stream) {
  switch (stream) {
    case Standard::input: return STDIN_FILENO;
    case Standard::output: return STDOUT_FILENO;
    case Standard::error: return STDERR_FILENO;
  }
  return STDERR_FILENO;
}

}  // namespace

bool is_terminal(Standard stream) { return ::isatty(number_of(stream)) != 0; }

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void prepare_standard_streams() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    static_cast<void>(
        ::open("/dev/null", number == STDERR_FILENO ? O_WRONLY : O_RDONLY));  // the lowest number that is free
  }
}

bool OutputFilter::write(std::string_view text) {
  const std::string clean = filtered(text);
  for (std::string_view rest = clean; !rest.empty();) {
    const ssize_t put = ::write(number_of(stream_), rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      if (failure_ == 0) failure_ = errno;
      return false;
    }
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace vkfuse::os

#include <fcntl.h>
#include <io.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "os/terminal.hpp"
#include "os/windows.hpp"

namespace vkfuse::os {

namespace {

FILE* stream_of(Standard stream) {
  switch (stream) {
    case Standard::input: return stdin;
    case Standard::output: return stdout;
    case Standard::error: return stderr;
  }
  return stderr;
}

/// What the console was like, for the process's end: it is the user's.
struct ConsoleBefore {
  UINT code_page = 0;
  HANDLE output = nullptr;
  DWORD mode = 0;
};
ConsoleBefore before;

/// What is printed is UTF-8, and escape sequences, which a model's names may bring along, are shown and not obeyed.
void prepare_console() {
  before.code_page = ::GetConsoleOutputCP();
  before.output = ::GetStdHandle(STD_OUTPUT_HANDLE);
  if (!::GetConsoleMode(before.output, &before.mode)) return;
  ::SetConsoleOutputCP(CP_UTF8);
  ::SetConsoleMode(before.output, before.mode & ~static_cast<DWORD>(ENABLE_VIRTUAL_TERMINAL_PROCESSING));
  std::atexit([] {
    ::SetConsoleMode(before.output, before.mode);
    ::SetConsoleOutputCP(before.code_page);
  });
}

}  // namespace

bool is_terminal(Standard stream) {
  DWORD mode = 0;  // _isatty takes NUL for a terminal, too
  const auto handle = reinterpret_cast<HANDLE>(::_get_osfhandle(::_fileno(stream_of(stream))));
  return ::GetConsoleMode(handle, &mode) != 0;
}

int terminal_columns() {
  CONSOLE_SCREEN_BUFFER_INFO facts{};
  const int columns = ::GetConsoleScreenBufferInfo(::GetStdHandle(STD_OUTPUT_HANDLE), &facts)
                          ? facts.srWindow.Right - facts.srWindow.Left + 1
                          : 0;
  return columns > 0 ? columns : 80;
}

// Files are opened by handles, which no closed stream leaves a number to.
void prepare_standard_streams() {
  for (const Standard stream : {Standard::input, Standard::output, Standard::error})
    ::_setmode(::_fileno(stream_of(stream)), _O_BINARY);
  prepare_console();
}

bool OutputFilter::write(std::string_view text) {
  const std::string clean = filtered(text);
  if (std::fwrite(clean.data(), 1, clean.size(), stream_of(stream_)) == clean.size()) return true;
  if (failure_ == 0) failure_ = errno;
  return false;
}

void print_through(OutputFilter&, int) {}  // the C library has no streams with functions

}  // namespace vkfuse::os

// The vkfuse command: arguments in, sentences and exit statuses out. docs/command-line.md describes it.
#pragma once

namespace vkfuse::tool {

/// What main() of the command does; a function, so that other programs (the Python package) have the command too.
/// `argv[0]` is not looked at. Returns the exit status.
int command_line(int argc, const char* const* argv);

}  // namespace vkfuse::tool

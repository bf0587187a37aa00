// What main() of a command does besides its work.
#pragma once

#include <functional>

namespace vkfuse {

/// Runs `command` and returns its exit status. What escapes from it is one sentence on standard error and status 2;
/// where standard output could not be written, a sentence and status 1 in place of 0. A reader that closes its end of a
/// pipe ends the command in that way, and not by a signal. Control characters that a model's names may bring along are
/// written as \xHH; on Windows they are written as they are, and a console does not obey them.
int command_main(const char* name, const std::function<int()>& command);

}  // namespace vkfuse

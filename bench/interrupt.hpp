// Ctrl-C: the first one ends the run with what was measured, a second one ends the process.
#pragma once

namespace vkfuse::bench {

void catch_interrupts();
/// Whether one was caught.
bool interrupted();

}  // namespace vkfuse::bench

// vkfuse-bench --suite generation: prompts and tokens a second of language models with random weights.
#pragma once

namespace vkfuse::bench {

/// The command line without `--suite generation`. The exit status: 0, 1 if steps of one token write other caches than
/// prompts do, 2 for what cannot be run, which is said.
int run_generation_command(int argc, const char* const* argv);

}  // namespace vkfuse::bench

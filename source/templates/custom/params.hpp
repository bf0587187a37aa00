// What is chosen of a kernel that the user wrote.
#pragma once

namespace vkfuse::schedule {

/// Nothing: workgroups and tiles are the user's.
struct CustomParams {};

}  // namespace vkfuse::schedule

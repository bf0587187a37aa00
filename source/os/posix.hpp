// What POSIX systems name differently; included by the *_posix.cpp of this folder alone.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace vkfuse::os {

/// The time of a file's last change, since 1970.
std::int64_t changed_ns(const struct stat& facts);

}  // namespace vkfuse::os

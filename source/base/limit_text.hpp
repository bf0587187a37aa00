// Limits as a user writes them: the one parser of --limit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "vkfuse/result.hpp"

namespace vkfuse {

/// "storage_range=128MiB" as its name and its number. The number is decimal digits, and KiB, MiB, GiB or TiB may follow
/// them; else the error quotes `text`, and so it does where 64 bits do not hold the number. Whether a device has such a
/// limit is asked when it is opened.
Result<std::pair<std::string, std::uint64_t>> parse_limit(std::string_view text);

}  // namespace vkfuse

// Random networks of layers, written with the public API.
#pragma once

#include "support/cases.hpp"

namespace vkfuse::test {

/// One to four layers over a sequence [batch, positions, channels], the first two of which are symbols or numbers.
Case random_layers(std::uint64_t seed);

}  // namespace vkfuse::test

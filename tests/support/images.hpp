// Random networks over images, written with the public API.
#pragma once

#include "support/cases.hpp"

namespace vkfuse::test {

/// Up to six layers over images [batch, channels, rows, columns], of which the batch is a symbol or a number: what
/// convolutional networks are made of, in sizes that few people would choose.
Case random_images(std::uint64_t seed);

}  // namespace vkfuse::test

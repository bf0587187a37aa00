// Device memory of a language model of random weights.
#pragma once

#include "generation/models.hpp"

namespace vkfuse::bench {

using Buffers = std::map<std::string, Buffer, std::less<>>;

/// A buffer for each input that steps of any size share: all but those of Filling::positioned.
Result<Buffers> fill_inputs(const Device& device, const std::map<std::string, ModelInput>& inputs);

}  // namespace vkfuse::bench

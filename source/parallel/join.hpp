// Elements of several ranks joined into one, on the host.
#pragma once

#include <span>
#include <string_view>

#include "vkfuse/dtype.hpp"

namespace vkfuse::parallel {

/// into[i] = values[0][i] joined with values[1][i] and so on, in that order: every rank that joins the same values has
/// the same bits. `join` is the row of ops::Reduction: "add", "max" or "min". Values have the bytes of `into`, which
/// may be one of them. f16 and bf16 are added up in f32 and rounded once; integers wrap; a NaN stays.
void join_elements(std::string_view join, DType dtype, std::span<const std::span<const std::byte>> values,
                   std::span<std::byte> into);

}  // namespace vkfuse::parallel

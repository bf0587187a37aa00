// Asking whether a model is taken, before anything is planned or compiled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

/// Why compile_onnx would not take a model.
struct Refusal {
  Error error;
  std::optional<int> node;  ///< the position of the node of the main graph that is to blame, if one is
};

/// Imports the bytes of a model and compiles nothing. Nothing comes back where the import goes through, and where only
/// a run tells whether it does: of what follows a step of the host, and where sizes, or elements of inputs that a run
/// gives, decide. No device is needed.
///
///     if (const auto refusal = onnx::try_import(bytes)) log(refusal->error.message);
std::optional<Refusal> try_import(std::span<const std::byte> model, const OnnxOptions& options = {});

/// Whether there is an operator of this name in this opset of its domain; the error says in which there is one.
Result<void> check_operator(std::string_view domain, std::string_view name, std::int64_t opset);

}  // namespace vkfuse::onnx

// The types that graph inputs and outputs state.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "onnx/schema.hpp"
#include "onnx/value.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

/// The dtype and shape of a graph input, or of an output as messages then call it (`role`). A dim_param becomes a
/// symbol of that name, or the size that the options give it; an unknown dimension, or one of a negative size, becomes
/// the symbol "<input>.<axis>". An input whose sizes the options state has those.
Result<TensorType> input_type(const pb::ValueInfoProto& info, const OnnxOptions& options,
                              std::string_view role = "Input");
/// The type of an input that its dtype only holds, or null.
const NarrowType* narrow_type(const pb::ValueInfoProto& info);

/// Whether it states a sequence, or an optional one.
bool states_sequence(const pb::ValueInfoProto& info);

/// A sentence for each size that an input states and that is ignored.
std::vector<std::string> ignored_sizes(const pb::ValueInfoProto& info);

/// Gives the symbols of an input the sizes that the options state for it, if they do; an error where the rank or a size
/// differs, or where the symbol is among `fixed`, which the caller has given sizes. A second size for one symbol is
/// that of its dimension alone, as with ONNX Runtime, and adds a sentence to `notes`.
Result<void> take_sizes(const pb::ValueInfoProto& info, const std::map<std::string, std::int64_t, std::less<>>& fixed,
                        OnnxOptions& options, std::vector<std::string>& notes);

/// Compares what the graph computes with what it states of an output: an error where the dtype differs. A rank or size
/// that differs is ignored, as with ONNX Runtime, and adds a sentence to `notes`. What is not stated, or symbolic on
/// either side, agrees. `floats` is what f32 has become.
Result<void> check_output(const pb::ValueInfoProto& info, const Value& value, const std::optional<DType>& floats,
                          std::vector<std::string>& notes);

}  // namespace vkfuse::onnx

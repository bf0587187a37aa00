// Operators whose results have shapes that depend on data: the host computes them, between compiled parts.
#pragma once

#include "onnx/operator_table.hpp"

namespace vkfuse::onnx {

// What each computes from operands whose elements are all known, and the most elements that can come of it:
// host_selection.cpp
Result<HostResults> non_zero(const NodeContext&);
Result<HostTypes> most_of_non_zero(const NodeContext&);
Result<HostResults> compress(const NodeContext&);
Result<HostTypes> most_of_compress(const NodeContext&);
Result<HostResults> unique(const NodeContext&);
Result<HostTypes> most_of_unique(const NodeContext&);
// host_boxes.cpp
Result<HostResults> non_max_suppression(const NodeContext&);
Result<HostTypes> most_of_non_max_suppression(const NodeContext&);
// host_ngrams.cpp
Result<HostResults> tf_idf_vectorizer(const NodeContext&);
Result<HostTypes> most_of_tf_idf_vectorizer(const NodeContext&);

// host_selection.cpp
/// The row of no operator: its results are its operands, which decide what follows.
const OperatorRow& reading_row();

}  // namespace vkfuse::onnx

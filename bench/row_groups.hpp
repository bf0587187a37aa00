// The rows by what they stress; one file each.
#pragma once

#include "rows.hpp"

namespace vkfuse::bench {

std::vector<Row> chain_rows();
std::vector<Row> view_rows();
std::vector<Row> norm_rows();    ///< softmax and norms: reductions with work around them
std::vector<Row> reduce_rows();  ///< sums, losses, positions
std::vector<Row> scan_rows();
std::vector<Row> gather_rows();
std::vector<Row> matmul_rows();
std::vector<Row> conv_rows();         ///< windows of images
std::vector<Row> odd_rows();          ///< products and attention at sizes that no tile divides
std::vector<Row> epilogue_rows();     ///< products with what follows them in a network
std::vector<Row> mask_rows();         ///< attention whose causal mask is spelled as exporters do
std::vector<Row> transformer_rows();  ///< one or two layers of a transformer
std::vector<Row> network_rows();      ///< blocks of convolutional networks
std::vector<Row> training_rows();     ///< forward, backward and optimiser in one program
std::vector<Row> planner_rows();      ///< what to store and what to compute again
std::vector<Row> law_rows();          ///< chains by length; how fast this device computes

}  // namespace vkfuse::bench

// Graphs that planners are compared on: folds, products, broadcasts, transposes and elementwise ops over shared values.
#pragma once

#include <string>

#include "ir/graph.hpp"

namespace vkfuse::test {

/// A valid graph of exactly `ops` nodes that some kernel has to compute, views not counted.
ir::Graph random_planner_graph(std::uint64_t seed, int ops);

/// Layers of a transformer, one after the other, each with weights of its own: 27 nodes and some views a layer.
ir::Graph layered_graph(int layers);

// Graphs that have another form.

/// Two projections of `rows` vectors: they can be one product.
std::string projections_text(int rows);

/// Its statistics can come in parts.
inline constexpr const char* kNormBetweenProducts = R"(graph "a norm between products" {
  %0 = input "x" : f32[384, 768]
  %1 = input "a" : f32[768, 768]
  %2 = input "b" : f32[768, 768]
  %3 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %1 : f32[384, 768]
  %4 = reduce_mean axes=[1] %3 : f32[384]
  %5 = reshape %4 : f32[384, 1]
  %6 = sub %3 %5 : f32[384, 768]
  %7 = mul %6 %6 : f32[384, 768]
  %8 = reduce_mean axes=[1] %7 : f32[384]
  %9 = reshape %8 : f32[384, 1]
  %10 = sqrt %9 : f32[384, 1]
  %11 = div %6 %10 : f32[384, 768]
  %12 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %11 %2 : f32[384, 768]
  output "y" = %12
})";

}  // namespace vkfuse::test

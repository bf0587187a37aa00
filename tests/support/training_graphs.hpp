// Steps of training: a forward pass of several layers, its gradients, and what the parameters become.
#pragma once

#include <cstdint>
#include <string>

#include "support/run.hpp"

namespace vkfuse::test {

struct TrainingShape {
  int layers = 6;
  std::int64_t batch = 2, positions = 32, width = 32;
  bool attention = false;   ///< layers of a transformer, else of a perceptron
  bool dropout = false;     ///< in each layer
  std::string symbol = {};  ///< the batch is this symbol
};

/// Outputs are the loss and each parameter after a step of gradient descent.
ir::Graph training_graph(const TrainingShape& shape);

/// A forward pass of random layers with values that skip some of them, and its gradients.
ir::Graph random_training_graph(std::uint64_t seed);

/// Elements for every input: floats are small, integers count.
Data training_data(const ir::Graph& graph, const SymbolValues& symbols = {});

}  // namespace vkfuse::test

// Programs that the suite of several ranks times.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "vkfuse/vkfuse.hpp"

namespace vkfuse::bench {

/// `times` sums over all ranks, one after the other, each divided by their number: where ranks have equal elements, the
/// result has them, too. A kernel between two sums divides.
Tensor sums_in_a_row(std::int64_t elements, int ranks, int times);

/// Sizes of a model of Llama's form.
struct LlamaSizes {
  std::int64_t layers = 4, batch = 1, tokens = 2048;
  std::int64_t width = 4096, heads = 32, key_heads = 8, head_size = 128, hidden = 14336;
};

/// Which axis of the mesh divides what; -1: nothing.
struct LlamaDivision {
  int heads = -1;  ///< heads and the hidden units: weights are divided, each layer has two sums
  int batch = -1;  ///< sequences: inputs and results are divided
};

/// f16: x [batch, tokens, width] through the layers, without words. Inputs are "x", "cosine", "sine" and the weights.
Tensor llama(const LlamaSizes& sizes, const LlamaDivision& division);
/// The weights after a step of plain gradient descent on the mean square of the result, and that: the loss is output 0.
std::vector<Tensor> llama_step(const LlamaSizes& sizes, const LlamaDivision& division);

/// Elements for every input of some results; equal on every rank.
std::map<std::string, std::vector<std::uint16_t>> f16_inputs(const std::vector<Port>& ports);

}  // namespace vkfuse::bench

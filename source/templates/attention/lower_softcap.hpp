// Softcaps: outer * tanh(x * inner), of which nothing but an exponential is
// taken. The cap is computed in one step, and times log2(e), so that what is
// taken of it is a power of 2.
#pragma once

#include <optional>

#include "lowering/value_forms.hpp"
#include "templates/attention/params.hpp"

namespace vkfuse::lowering {

struct Softcap {
  segment::ValueId softcapped = 0, tanh = 0;
  std::optional<segment::ValueId> scaled;  ///< x divided by a literal; nobody else reads it, nor the tanh
  double inner = 1, outer = 1;
};

struct SoftcapInput {
  const ir::Graph& graph;
  const segment::Loops& loops;
  const schedule::AttentionParams& tile;
};

/// The softcap that the scores are, if they are one.
std::optional<Softcap> find_softcap(const SoftcapInput& in);
/// The pass: the values that it is made of become one step.
void compute_at_once(const Softcap& softcap, const segment::Loops& loops, ValueForms& forms);

}  // namespace vkfuse::lowering

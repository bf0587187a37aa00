#include <functional>

#include "passes/rewriter.hpp"

namespace vkfuse::passes {

namespace {

/// In debug builds.
Result<void> verify_after([[maybe_unused]] const char* pass, [[maybe_unused]] const ir::Graph& graph) {
#ifndef NDEBUG
  auto verified = ir::verify(graph);
  if (!verified) return std::move(verified).error().within(std::string("verifying after the pass ") + pass);
#endif
  return {};
}

}  // namespace

Result<ir::Graph> run_pipeline(const ir::Graph& graph, const Options& options) {
  VKF_CHECK_OK(ir::verify(graph));
  using Pass = std::function<Result<ir::Graph>(const ir::Graph&)>;
  struct Step {
    const char* name;
    Pass pass;
  };
  const Step steps[] = {
      {"drop_single_ranks", drop_single_ranks},  // before all: no other pass knows what is between ranks
      {"remove_dead", remove_dead},              // early: the others then look at less
      {"decompose",
       [&](const ir::Graph& one) {
         return decompose(one, options.most_scatter_comparisons);
       }},                                         // before folding and merging: it makes literals and equal parts
      {"order_dot_operands", order_dot_operands},  // before dropping: it makes two permutes in a row
      {"drop_identities",
       [&](const ir::Graph& one) {
         return options.identities ? drop_identities(one) : one;
       }},                                       // before folding: literals come through
      {"fold_literals", fold_literals},          // before merging: it makes equal literals
      {"write_out_updates", write_out_updates},  // after folding: it makes literals
      {"name_positions", name_positions},        // after folding: where positions begin may have been computed
      {"name_means", name_means},                // after folding: the number of elements may have been computed
      {"unguard_sums", unguard_sums},            // after folding: it makes literals of guards
      {"pack_factors",
       [](const ir::Graph& one) { return pack_factors(one); }},  // before merging: equal factors become one again
      {"canonicalize", [&](const ir::Graph& one) { return canonicalize(one, options.reorder); }},
      {"copy_views", copy_views},              // after merging: equal permutes have one copy
      {"store_operands", store_operands},      // after the last pass that drops copies
      {"separate_outputs", separate_outputs},  // last: the views must not be merged away
  };
  ir::Graph current = graph;
  for (const Step& step : steps) {
    auto next = step.pass(current);
    if (!next) return std::move(next).error().within(std::string("running the pass ") + step.name);
    current = *std::move(next);
    VKF_CHECK_OK(verify_after(step.name, current));
  }
  return current;
}

Result<std::optional<Rewritten>> split_rows(const ir::Graph& graph) {
  VKF_TRY(norms, partial_statistics(graph));
  VKF_TRY(both, split_softmax(norms ? norms->graph : graph));
  if (norms && both) return std::optional(behind(*norms, *std::move(both)));
  return both ? std::move(both) : std::move(norms);
}

std::vector<ir::Graph> alternative_graphs(const ir::Graph& graph, std::uint32_t buffers) {
  std::vector<ir::Graph> forms{graph};
  for (const auto rewrite : {recompute_products, put_channels_last, merge_matmuls, split_rows, pad_rows}) {
    for (std::size_t i = 0, known = forms.size(); i < known; ++i) {
      auto form = limit_concats_of(rewrite(forms[i]), buffers);
      if (form && *form) forms.push_back(std::move((*form)->graph));
    }
  }
  forms.erase(forms.begin());
  return forms;
}

}  // namespace vkfuse::passes

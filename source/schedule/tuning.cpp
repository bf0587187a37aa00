#include "schedule/tuning.hpp"

#include <fmt/format.h>

namespace vkfuse::schedule {

std::string to_text(const Tuning& tuning) {
  std::string text;
  const auto add = [&](std::string_view name, const auto& value) {
    if (value) text += fmt::format("{}={} ", name, static_cast<int>(*value));
  };
  add("workgroup", tuning.workgroup);
  add("vector_bytes", tuning.vector_bytes);
  add("unroll_factor", tuning.unroll_factor);
  add("reduction_threads", tuning.reduction_threads);
  add("online", tuning.online);
  add("persistent", tuning.persistent);
  add("register_block_rows", tuning.register_block_rows);
  add("splits", tuning.splits);
  add("block", tuning.block);
  add("matmul", tuning.matmul);
  add("elements", tuning.elements);
  add("lazy_rescaling", tuning.lazy_rescaling);
  add("matrix_scope", tuning.matrix_scope);
  add("cooperative_matrix", tuning.cooperative_matrix);
  add("integer_dot", tuning.integer_dot);
  add("tiled", tuning.tiled);
  if (tuning.tile)
    text += fmt::format("tile={},{},{},{},{},{} ", tuning.tile->m, tuning.tile->n, tuning.tile->k,
                        tuning.tile->thread_m, tuning.tile->thread_n, tuning.tile->threads);
  if (const auto& form = tuning.attention) {
    text += fmt::format("attention={},{},{},{},{},{},{},{},{}", form->threads_m, form->threads_k, form->rows,
                        form->keys, static_cast<int>(form->slices), form->subgroups, form->key_fragments,
                        static_cast<int>(form->pipelined_scores), form->lanes);
    // Tunings that a store has kept are told by what they were before there was this.
    text += form->reloaded == 0 ? std::string(" ") : fmt::format(",{} ", form->reloaded);
  }
  if (const auto& shape = tuning.stencil)
    text += fmt::format("stencil={},{},{} ", shape->elements, shape->rows, shape->planes);
  return text;
}

}  // namespace vkfuse::schedule

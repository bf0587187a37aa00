#include "schedule/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/numerics.hpp"
#include "schedule/access.hpp"

namespace vkfuse::schedule {

namespace {

int largest_workgroup(const Caps& caps) { return static_cast<int>(std::min(usable_invocations(caps), 1024u)); }

std::vector<Tuning> pointwise_tunings(const Caps& caps) {
  std::vector<Tuning> all;
  for (int workgroup = 64; workgroup <= largest_workgroup(caps); workgroup *= 2) {
    for (int vector_bytes : {4, 8, 16}) {
      for (int chunks : {1, 2, 4}) {
        all.push_back({.workgroup = workgroup, .vector_bytes = vector_bytes, .unroll_factor = chunks, .tiled = false});
      }
      all.push_back({.workgroup = workgroup, .vector_bytes = vector_bytes, .tiled = true});
    }
  }
  return all;
}

/// Around the threads of the default: threads and workgroups with rows kept or read again, at the two wider accesses;
/// loads in flight, with folds in one pass and without; then parts.
std::vector<Tuning> reduction_tunings(const Caps& caps, int standard) {
  std::vector<Tuning> all;
  const int largest = largest_workgroup(caps);
  for (int threads = std::max(1, standard / 4); threads <= std::min(4 * standard, largest); threads *= 2) {
    for (int workgroup = std::max(64, threads); workgroup <= std::min(largest, std::max(512, threads));
         workgroup *= 2) {
      for (int vector_bytes : {8, 16}) {
        for (bool persistent : {true, false}) {
          all.push_back({.workgroup = workgroup,
                         .vector_bytes = vector_bytes,
                         .reduction_threads = threads,
                         .persistent = persistent});
        }
      }
    }
    for (bool online : {true, false}) {
      for (int chunks : {1, 2, 4})
        all.push_back({.unroll_factor = chunks, .reduction_threads = threads, .online = online, .persistent = false});
      all.push_back({.reduction_threads = threads, .online = online, .persistent = true});
    }
  }
  for (int parts = 1; parts <= 512; parts *= 2) all.push_back({.parts = parts});
  return all;
}

/// Every tile of a few sizes, and what computes one result per group of threads.
std::vector<Tuning> matmul_tunings(const Caps& caps) {
  std::vector<Tuning> all = {{.matmul = false}};
  for (int thread_m : {4, 8}) {
    for (int thread_n : {4, 8}) {
      for (int m : {16, 32, 64, 128, 256}) {
        for (int n : {16, 32, 64, 128, 256}) {
          for (int k : {16, 32}) {
            const TileShape shape{m, n, k, thread_m, thread_n};
            if (shape.workgroup() >= 8 && shape.workgroup() <= largest_workgroup(caps))
              all.push_back({.matmul = true, .tile = shape});
          }
        }
      }
    }
  }
  return all;
}

/// Parts of a subgroup of 16 x 16 products, which are most of what cooperative matrices offer.
std::vector<Tuning> cooperative_matrix_tunings(const Caps& caps, int threads) {
  std::vector<Tuning> all = {{.cooperative_matrix = false}};
  for (int own_m : {32, 64, 128}) {
    for (int own_n : {32, 64, 128}) {
      for (int m : {64, 128, 256}) {
        for (int n : {64, 128, 256}) {
          for (int k : {32, 64}) {
            const TileShape shape{m, n, k, own_m, own_n, threads};
            const bool whole = m % own_m == 0 && n % own_n == 0 && own_m * own_n <= 8192;
            if (whole && shape.owners() >= 4 && shape.owners() <= 8 && shape.workgroup() <= largest_workgroup(caps))
              all.push_back({.matmul = true, .tile = shape, .cooperative_matrix = true});
          }
        }
      }
    }
  }
  return all;
}

/// Tiles of threads, and those of cooperative matrices where the default has them.
std::vector<Tuning> attention_tunings(const Caps& caps, bool units) {
  std::vector<Tuning> all;
  for (int threads_m = 1; threads_m <= 16; threads_m *= 2) {
    for (int threads_k = 2; threads_k <= 16; threads_k *= 2) {
      if (threads_m * threads_k <= largest_workgroup(caps))
        all.push_back(
            {.attention = AttentionShape{.threads_m = threads_m, .threads_k = threads_k}, .cooperative_matrix = false});
    }
  }
  if (!units) return all;
  for (const AttentionShape& form : cooperative_attention_shapes())
    all.push_back({.attention = form, .cooperative_matrix = true});
  return all;
}

/// What threads do with the same rows.
std::vector<Tuning> packed_tunings(const Caps& caps) {
  std::vector<Tuning> all = reduction_tunings(caps, static_cast<int>(caps.subgroup_size));
  all.push_back({});
  for (Tuning& tuning : all) tuning.cooperative_matrix = false;
  return all;
}

/// Keys that a workgroup sorts at a time, and its threads.
std::vector<Tuning> sort_tunings(const Caps& caps, std::int64_t keys) {
  std::vector<Tuning> all;
  for (int workgroup = 32; workgroup <= largest_workgroup(caps); workgroup *= 2) {
    all.push_back({.workgroup = workgroup});
    for (int block = 256; block < std::min<std::int64_t>(keys, 8192); block *= 2)
      all.push_back({.workgroup = workgroup, .block = block});
  }
  return all;
}

}  // namespace

std::vector<Tuning> tunings_near(const Schedule& standard, const Caps& caps) {
  switch (standard.kind) {
    case Template::matmul:
      return standard.matmul.mma ? cooperative_matrix_tunings(caps, standard.matmul.shape.threads)
                                 : matmul_tunings(caps);
    case Template::reduction:
      return standard.packed ? packed_tunings(caps) : reduction_tunings(caps, standard.reduction_threads);
    case Template::sort: return sort_tunings(caps, standard.keys);
    case Template::attention: return attention_tunings(caps, standard.attention.mma.has_value());
    case Template::custom: return {};
    default: return pointwise_tunings(caps);
  }
}

bool keeps_chains_short(const segment::Loops& loops, const Schedule& schedule) {
  if (schedule.kind != Template::reduction) return true;
  const std::int64_t per_chunk = schedule.vector_rows ? 1 : schedule.chunk_size;
  return schedule.iterations / schedule.parts * per_chunk <= longest_sum_chain(loops.reduction_count());
}

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
  add("splits", tuning.parts);
  add("block", tuning.block);
  add("matmul", tuning.matmul);
  add("cooperative_matrix", tuning.cooperative_matrix);
  add("integer_dot", tuning.integer_dot);
  add("tiled", tuning.tiled);
  if (tuning.tile)
    text += fmt::format("tile={},{},{},{},{},{} ", tuning.tile->m, tuning.tile->n, tuning.tile->k,
                        tuning.tile->thread_m, tuning.tile->thread_n, tuning.tile->threads);
  if (const auto& form = tuning.attention)
    text += fmt::format("attention={},{},{},{},{} ", form->threads_m, form->threads_k, form->subgroups,
                        form->key_fragments, static_cast<int>(form->pipelined_scores));
  return text;
}

}  // namespace vkfuse::schedule

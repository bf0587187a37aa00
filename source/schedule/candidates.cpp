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
      for (int items : {1, 2, 4}) {
        all.push_back({.workgroup = workgroup, .vector_bytes = vector_bytes, .items_in_flight = items, .tiled = false});
      }
      all.push_back({.workgroup = workgroup, .vector_bytes = vector_bytes, .tiled = true});
    }
  }
  return all;
}

/// Around the lanes of the default: lanes and workgroups with rows kept or read again, at the two wider accesses; loads
/// in flight, with folds in one pass and without; then parts.
std::vector<Tuning> row_tunings(const Caps& caps, int standard) {
  std::vector<Tuning> all;
  const int largest = largest_workgroup(caps);
  for (int lanes = std::max(1, standard / 4); lanes <= std::min(4 * standard, largest); lanes *= 2) {
    for (int workgroup = std::max(64, lanes); workgroup <= std::min(largest, std::max(512, lanes)); workgroup *= 2) {
      for (int vector_bytes : {8, 16}) {
        for (bool persistent : {true, false}) {
          all.push_back(
              {.workgroup = workgroup, .vector_bytes = vector_bytes, .column_lanes = lanes, .persistent = persistent});
        }
      }
    }
    for (bool online : {true, false}) {
      for (int items : {1, 2, 4})
        all.push_back({.items_in_flight = items, .column_lanes = lanes, .online = online, .persistent = false});
      all.push_back({.column_lanes = lanes, .online = online, .persistent = true});
    }
  }
  for (int parts = 1; parts <= 512; parts *= 2) all.push_back({.parts = parts});
  return all;
}

/// Every tile of a few sizes, and what computes one result per group of lanes.
std::vector<Tuning> matrix_tunings(const Caps& caps) {
  std::vector<Tuning> all = {{.matrix = false}};
  for (int lane_m : {4, 8}) {
    for (int lane_n : {4, 8}) {
      for (int m : {16, 32, 64, 128, 256}) {
        for (int n : {16, 32, 64, 128, 256}) {
          for (int k : {16, 32}) {
            const TileShape shape{m, n, k, lane_m, lane_n};
            if (shape.workgroup() >= 8 && shape.workgroup() <= largest_workgroup(caps))
              all.push_back({.matrix = true, .tile = shape});
          }
        }
      }
    }
  }
  return all;
}

/// Parts of a subgroup of 16 x 16 products, which are most of what matrix units offer.
std::vector<Tuning> unit_tunings(const Caps& caps, int lanes) {
  std::vector<Tuning> all = {{.matrix_units = false}};
  for (int own_m : {32, 64, 128}) {
    for (int own_n : {32, 64, 128}) {
      for (int m : {64, 128, 256}) {
        for (int n : {64, 128, 256}) {
          for (int k : {32, 64}) {
            const TileShape shape{m, n, k, own_m, own_n, lanes};
            const bool whole = m % own_m == 0 && n % own_n == 0 && own_m * own_n <= 8192;
            if (whole && shape.owners() >= 4 && shape.owners() <= 8 && shape.workgroup() <= largest_workgroup(caps))
              all.push_back({.matrix = true, .tile = shape, .matrix_units = true});
          }
        }
      }
    }
  }
  return all;
}

/// Tiles of lanes, and those of matrix units where the default has them.
std::vector<Tuning> attention_tunings(const Caps& caps, bool units) {
  std::vector<Tuning> all;
  for (int lanes_m = 1; lanes_m <= 16; lanes_m *= 2) {
    for (int lanes_k = 2; lanes_k <= 16; lanes_k *= 2) {
      if (lanes_m * lanes_k <= largest_workgroup(caps))
        all.push_back({.attention = AttentionForm{.lanes_m = lanes_m, .lanes_k = lanes_k}, .matrix_units = false});
    }
  }
  if (!units) return all;
  for (const AttentionForm& form : unit_attention_forms()) all.push_back({.attention = form, .matrix_units = true});
  return all;
}

/// What lanes do with the same rows.
std::vector<Tuning> packed_tunings(const Caps& caps) {
  std::vector<Tuning> all = row_tunings(caps, static_cast<int>(caps.subgroup_size));
  all.push_back({});
  for (Tuning& tuning : all) tuning.matrix_units = false;
  return all;
}

/// Keys that a workgroup sorts at a time, and its lanes.
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
    case Template::matrix:
      return standard.matrix.unit ? unit_tunings(caps, standard.matrix.shape.lanes) : matrix_tunings(caps);
    case Template::rows: return standard.packed ? packed_tunings(caps) : row_tunings(caps, standard.column_lanes);
    case Template::sort: return sort_tunings(caps, standard.keys);
    case Template::attention: return attention_tunings(caps, standard.attention.unit.has_value());
    case Template::custom: return {};
    default: return pointwise_tunings(caps);
  }
}

bool keeps_chains_short(const segment::Loops& loops, const Schedule& schedule) {
  if (schedule.kind != Template::rows) return true;
  const std::int64_t per_item = schedule.vector_rows ? 1 : schedule.elements_per_item;
  return schedule.trips / schedule.parts * per_item <= longest_sum_chain(loops.column_count());
}

std::string to_text(const Tuning& tuning) {
  std::string text;
  const auto add = [&](std::string_view name, const auto& value) {
    if (value) text += fmt::format("{}={} ", name, static_cast<int>(*value));
  };
  add("workgroup", tuning.workgroup);
  add("vector_bytes", tuning.vector_bytes);
  add("items_in_flight", tuning.items_in_flight);
  add("column_lanes", tuning.column_lanes);
  add("online", tuning.online);
  add("persistent", tuning.persistent);
  add("rows_together", tuning.rows_together);
  add("parts", tuning.parts);
  add("block", tuning.block);
  add("matrix", tuning.matrix);
  add("matrix_units", tuning.matrix_units);
  add("dots", tuning.dots);
  add("tiled", tuning.tiled);
  if (tuning.tile)
    text += fmt::format("tile={},{},{},{},{},{} ", tuning.tile->m, tuning.tile->n, tuning.tile->k, tuning.tile->lane_m,
                        tuning.tile->lane_n, tuning.tile->lanes);
  if (const auto& form = tuning.attention)
    text += fmt::format("attention={},{},{},{},{} ", form->lanes_m, form->lanes_k, form->subgroups, form->unit_keys,
                        static_cast<int>(form->scores_ahead));
  return text;
}

}  // namespace vkfuse::schedule

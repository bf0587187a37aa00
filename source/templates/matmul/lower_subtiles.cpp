// The results of a matmul with cooperative matrices: they leave through shared memory, a subtile of a subgroup's at a
// time.
#include <algorithm>

#include "templates/matmul/lower_emitter.hpp"

namespace vkfuse::lowering {

namespace {

/// Chunks of results whose loads a thread has in flight at a time.
constexpr int kMostChunksInFlight = 8;

}  // namespace

/// What results are computed from besides sums is in flight while fragments are staged, a few chunks at a time, of the
/// next subtile before this one's are stored: a result may be written over what it is computed from, and loads that
/// wait for the stores before them leave memory idle.
MatmulEmitter::SubtileWalk MatmulEmitter::make_subtile_walk() const {
  SubtileWalk walk;
  const int columns = tile_.cooperative()->subtile;
  walk.elements = leaves_parts() ? 4 : tile_.elements;
  walk.row_chunks = columns / walk.elements;
  walk.chunks = static_cast<int>(tile_.mma()->m) * walk.row_chunks;
  walk.side_by_side = shape_.thread_n / columns;
  walk.iterations = fragment_rows() * walk.side_by_side;
  walk.together = std::min(walk.chunks / shape_.threads, kMostChunksInFlight);
  const auto waits = [&](ValueId id) { return !loops_.values[id].data.empty(); };  // for a load that says where it is
  const bool loads = !results_.vectors.empty() && std::none_of(results_.vectors.begin(), results_.vectors.end(), waits);
  walk.prefetched = !leaves_parts() && epilogues_.empty() && loads && walk.chunks % shape_.threads == 0 &&
                    walk.together > 1 && walk.chunks / shape_.threads % walk.together == 0;
  walk.at_once = walk.together * shape_.threads == walk.chunks;
  return walk;
}

/// Names chunk `g` of the subtile of an iteration; of the first where `iteration` is empty.
void MatmulEmitter::locate_in_subtile(const SubtileWalk& walk, bool stays_inside, const Code& iteration) {
  const Code subtile_row = walk.side_by_side > 1 ? code("{} / {}u", iteration, walk.side_by_side) : iteration;
  main_.line("uint row = g / {}u;", walk.row_chunks);
  main_.line("uint column = g % {}u;", walk.row_chunks);
  main_.line("uint in_tile = subgroup_m * {}u + {}row;", shape_.thread_m,
             fragment_rows() > 1 && !iteration.empty() ? code("{} * {}u + ", subtile_row, tile_.mma()->m) : "");
  const Code m = code("tile_m * {}u + in_tile", shape_.m);
  const Code in_row = walk.side_by_side > 1 && !iteration.empty()
                          ? code("{} % {}u * {}u + ", iteration, walk.side_by_side, walk.row_chunks)
                          : "";
  const Code chunk = code("tile_n * {}u + subgroup_n * {}u + {}column", shape_.n / walk.elements,
                          shape_.thread_n / walk.elements, in_row);
  main_.line("uint m = {};", stays_inside ? limited(m, extent(tile_.m), shape_.m) : m);
  main_.line("uint chunk = {};",
             stays_inside ? limited(chunk, extent(tile_.n) / walk.elements, shape_.n / walk.elements) : chunk);
}

void MatmulEmitter::declare_chunks_in_flight(int chunks) {
  for (ValueId id : results_.vectors) {
    for (const Code& name : raw_names(id))
      main_.line("{} {}[{}];", word_type(schedule_.loads[id].vector_bytes), name, chunks);
  }
}

void MatmulEmitter::prefetch_chunks(const SubtileWalk& walk, const Code& start, const Code& register_index,
                                    const Code& iteration) {
  main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", walk.together);
  main_.line("uint g = {} + u * {}u;", start, shape_.threads);
  locate_in_subtile(walk, true, iteration);
  Scope scope = part_scope(results_);
  for (ValueId id : results_.vectors) load_vectors(scope, id, register_index);
  main_.close();
}

void MatmulEmitter::put_subtile(const SubtileWalk& walk) {
  const auto un = static_cast<int>(tile_.mma()->n);
  const int fragments = tile_.cooperative()->subtile / un;
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    for (int f = 0; f < fragments; ++f) {
      Code sums = code("{}[{}{}u]", sums_[s], walk.iterations > 1 ? code("i * {}u + ", fragments) : "", f);
      if (tile_.mma()->c == DType::f16)
        sums = code("{}({})", fragment(DType::f32, tile_.mma()->m, tile_.mma()->n, "Accumulator"), sums);
      main_.line("coopMatStore({}, {}, own + {}u, {}u, gl_CooperativeMatrixLayoutRowMajor);", sums, subtiles_[s],
                 f * un / 4, subtile_vec4s());
    }
  }
}

/// Opens the loops over a thread's chunks of a subtile; begins the loads of the next ones.
void MatmulEmitter::open_subtile_chunks(const SubtileWalk& walk) {
  if (!walk.prefetched) {
    main_.open("for (uint g = gl_SubgroupInvocationID; g < {}u; g += {}u) {{", walk.chunks, shape_.threads);
    return;
  }
  if (!walk.at_once) {
    main_.open("for (uint start = gl_SubgroupInvocationID; start < {}u; start += {}u) {{", walk.chunks,
               walk.together * shape_.threads);
    declare_chunks_in_flight(walk.together);
    prefetch_chunks(walk, "start", "[u]", "i");
  }
  if (walk.in_turns()) {
    main_.open("if (i + 1u < {}u) {{", walk.iterations);
    main_.line("uint next = i + 1u;");
    prefetch_chunks(walk, "gl_SubgroupInvocationID", code("[next % 2u * {}u + u]", walk.together), "next");
    main_.close();
  }
  main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", walk.together);
  main_.line("uint g = {} + u * {}u;", walk.at_once ? "gl_SubgroupInvocationID" : "start", shape_.threads);
}

Result<void> MatmulEmitter::store_chunks_of_subtile(const SubtileWalk& walk) {
  open_subtile_chunks(walk);
  locate_in_subtile(walk, false, "i");
  const int per_vec4 = 4 / walk.elements;
  std::vector<Code> vec4s;
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    vec4s.push_back(unique(names_.values[tile_.sums[s].reduction] + "_four"));
    main_.line("{} {} = {}[own + row * {}u + column{}];", sums_vec4(s), vec4s.back(), subtiles_[s], subtile_vec4s(),
               per_vec4 == 1 ? "" : code(" / {}u", per_vec4));
  }
  const auto sum_of = [&](std::size_t s, int e) {
    if (per_vec4 == 1) return code("{}.{}", vec4s[s], "xyzw"[e]);
    return code("{}[column % {}u{}]", vec4s[s], per_vec4,
                tile_.elements == 1 ? "" : code(" * {}u + {}u", tile_.elements, e));
  };
  const auto known = [&](ValueId id, int e) { return known_name(id, "in_tile", e, sum_of); };
  const Code register_index = walk.in_turns() ? code("[i % 2u * {}u + u]", walk.together) : "[u]";
  VKF_CHECK_OK(leaves_parts() ? leave_partial([&](std::size_t s) { return vec4s[s]; })
                              : store_one(known, walk.prefetched ? register_index : ""));
  main_.close();
  if (walk.prefetched && !walk.at_once) main_.close();
  return {};
}

/// Which thread has which element of a fragment is the device's secret: rows of fragments are staged in shared memory,
/// and every thread takes chunks from there.
Result<void> MatmulEmitter::store_subtiles() {
  use_chunks_of(results_);
  const SubtileWalk walk = make_subtile_walk();
  main_.line("uint own = subgroup * {}u;", static_cast<int>(tile_.mma()->m) * subtile_vec4s());
  if (walk.prefetched && walk.at_once) {
    declare_chunks_in_flight(walk.in_turns() ? 2 * walk.together : walk.together);
    prefetch_chunks(walk, "gl_SubgroupInvocationID", "[u]", "");
  }
  // One loop, whose counter alone numbers the fragments: what a compiler does not unroll lives in memory.
  if (walk.iterations > 1) main_.open("[[unroll]] for (uint i = 0u; i < {}u; ++i) {{", walk.iterations);
  put_subtile(walk);
  main_.line("{}", kSubgroupBarrier);
  VKF_CHECK_OK(epilogues_.empty() ? store_chunks_of_subtile(walk) : store_epilogues_of_subtile(walk));
  main_.line("{}", kSubgroupBarrier);
  if (walk.iterations > 1) main_.close();
  return {};
}

}  // namespace vkfuse::lowering

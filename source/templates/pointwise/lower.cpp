// The pointwise template: main() moves chunks, a function computes one element.
#include "templates/pointwise/lower.hpp"

#include <algorithm>

#include "base/mutations.hpp"
#include "lowering/chunks.hpp"

namespace vkfuse::lowering {

using index::Expr;

namespace {

class Pointwise : public ChunkEmitter {
 public:
  using ChunkEmitter::ChunkEmitter;

  Result<std::vector<RelocatableKernel>> run() {
    chunks_ = numbers_.named("chunks", static_cast<std::uint32_t>(schedule_.launch.chunks), "in the iteration space");
    if (!schedule_.full_chunks) {
      const std::int64_t last = schedule_.launch.elements - (schedule_.launch.chunks - 1) * chunk_.elements;
      last_ = numbers_.named("last", static_cast<std::uint32_t>(std::max<std::int64_t>(last, 0)),
                             "elements of the last chunk");
    }
    groups_x_ =
        numbers_.named("row", static_cast<std::uint32_t>(std::max<std::int64_t>(schedule_.launch.workgroups_x, 1)),
                       "workgroups in one row of the dispatch");
    find_products();
    sort_values();
    VKF_CHECK_OK(element_function());
    VKF_CHECK_OK(main_function());
    return finish_one(code("{} elements per chunk, {} chunk{} in flight per invocation{}{}", chunk_.elements,
                           schedule_.unroll_factor, schedule_.unroll_factor == 1 ? "" : "s",
                           schedule_.full_chunks ? "" : ", masked tail",
                           schedule_.crosses_rows && loops_.axes.size() > 1 ? ", chunks run across rows" : ""));
  }

 private:
  [[nodiscard]] AxisNames own_axes() const override {
    return {{kPosition, "position"}, {kChunk, "chunk"}, {kElement, "j"}};
  }

  [[nodiscard]] Code argument(const std::string& name, int element) const override {
    if (name == "j") return code("{}u", element);
    if (name == "chunk") return name;
    // Elements after the end are computed again at the last one.
    const Code at = element == 0 ? "start" : code("start + {}u", element);
    return schedule_.full_chunks || element == 0 ? at : code("min({}, end)", at);
  }

  [[nodiscard]] Code existence(int element) const override {
    if (schedule_.full_chunks) return {};
    return VKF_PLANT(stores_behind_the_end, element == 0, true) ? "true" : code("start + {}u <= end", element);
  }

  /// Loop axes in terms of the chunk, or of one element's position.
  void set_axes(Scope& scope, bool element) const override {
    Sizes sizes;
    for (const segment::Axis& axis : loops_.axes) sizes.push_back(axis.size);
    if (sizes.empty()) return;
    if (schedule_.crosses_rows) {
      const Expr at =
          element ? Expr::axis(kPosition, std::max<std::int64_t>(loops_.count(), 2))
                  : Expr::axis(kChunk, std::max<std::int64_t>(schedule::ceil_div(loops_.count(), chunk_.elements), 2)) *
                        chunk_.elements;
      const std::vector<Expr> coordinates = index::delinearize(at, sizes);
      for (std::size_t i = 0; i < sizes.size(); ++i) scope.axes.emplace(static_cast<int>(i), coordinates[i]);
      return;
    }
    const std::int64_t per_row = sizes.back() / chunk_.elements;
    sizes.back() = per_row;
    const Expr chunk = Expr::axis(kChunk, std::max<std::int64_t>(loops_.count() / chunk_.elements, 2));
    const std::vector<Expr> coordinates = index::delinearize(chunk, sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i) scope.axes.emplace(static_cast<int>(i), coordinates[i]);
    Expr& inner = scope.axes.at(static_cast<int>(sizes.size()) - 1);
    inner = inner * chunk_.elements;
    if (element && chunk_.elements > 1) inner = inner + Expr::axis(kElement, chunk_.elements);
  }

  Result<void> main_function() {
    main_.open("void main() {{");
    main_.line("uint workgroup = gl_WorkGroupID.y * {} + gl_WorkGroupID.x;",
               VKF_PLANT(lost_row_of_workgroups, groups_x_, "0u"));
    Scope scope = chunk_scope();
    const bool by_position = takes("position") || takes_existence();
    if (by_position && !schedule_.full_chunks)
      main_.line("uint end = ({} - 1u) * {}u + {} - 1u;", chunks_, chunk_.elements, last_);
    VKF_CHECK_OK(schedule_.unroll_factor == 1 ? one_chunk(scope, by_position) : chunks_in_flight(scope));
    main_.close();
    return {};
  }

  void leave_after_last_chunk() {
    main_.line("if (chunk {} {}) return;", VKF_PLANT(one_chunk_too_many, ">=", ">"), chunks_);
  }

  Result<void> one_chunk(Scope& scope, bool by_position) {
    main_.line("uint chunk = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;");
    leave_after_last_chunk();
    if (by_position) main_.line("uint start = chunk * {}u;", chunk_.elements);
    VKF_CHECK_OK(emit_values(scope, per_chunk_));
    for (ValueId id : vectors_) load_vectors(scope, id, "");
    compute(scope, "");
    store_chunks(scope);
    return {};
  }

  Result<void> chunks_in_flight(Scope& scope) {
    const int in_flight = schedule_.unroll_factor;
    main_.line("uint first = workgroup * (gl_WorkGroupSize.x * {}u) + gl_LocalInvocationID.x;", in_flight);
    for (ValueId id : vectors_) {
      for (int v = 0; v < vectors_of(id); ++v) {
        const int bytes = schedule_.loads[id].vector_bytes;
        main_.line("{} {}[{}];", bytes == 16 ? "uvec4" : bytes == 8 ? "uvec2" : "uint", raw_name(id, v), in_flight);
      }
    }
    main_.line("// Every load is issued before the first result is needed.");
    main_.open_unrolled("u", in_flight);
    main_.line("uint chunk = min(first + u * gl_WorkGroupSize.x, {} - 1u);", chunks_);
    Scope loading = scope;
    for (ValueId id : vectors_) load_vectors(loading, id, "[u]");
    main_.close();
    main_.open_unrolled("u", in_flight);
    main_.line("uint chunk = first + u * gl_WorkGroupSize.x;");
    leave_after_last_chunk();
    VKF_CHECK_OK(emit_values(scope, per_chunk_));
    compute(scope, "[u]");
    store_chunks(scope);
    main_.close();
    return {};
  }

  void store_chunks(Scope& scope) {
    const bool whole = VKF_PLANT(dropped_tail_mask, schedule_.full_chunks, true);
    store(scope, whole ? "" : code("chunk + 1u < {} || {} == {}u", chunks_, last_, chunk_.elements),
          whole ? "" : last_);
  }

  Code chunks_, last_, groups_x_;
};

}  // namespace

Result<std::vector<RelocatableKernel>> lower_pointwise(const LoweringInput& in) { return Pointwise(in).run(); }

}  // namespace vkfuse::lowering

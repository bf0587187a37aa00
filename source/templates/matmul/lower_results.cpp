// The results of a matmul whose threads own elements of the tile, and the partial sums of split-K.
#include <algorithm>
#include <utility>

#include "schedule/operands.hpp"
#include "templates/matmul/lower_emitter.hpp"

namespace vkfuse::lowering {

namespace {

/// Multiply-adds of a thread's results, beyond which a CPU's driver is not left to compile them once for each.
constexpr double kMostUnrolledOnCpu = 64;

}  // namespace

/// The condition under which `m` and `chunk` are in the matrix; empty where they always are.
Code MatmulEmitter::limits_of_results(int elements) {
  const Extent all_n = extent(tile_.n);
  const Extent chunks_n = {schedule::ceil_div(all_n.count, elements), schedule::ceil_div(all_n.decided, elements)};
  Code inside;
  if (!divides(shape_.m, extent(tile_.m))) inside = code("m < {}", numbers_.size(count(tile_.m)));
  if (!divides(shape_.n / elements, chunks_n))
    inside += code("{}chunk < {}", inside.empty() ? "" : " && ", numbers_.size(chunks_n.count));
  return inside;
}

Code MatmulEmitter::known_name(ValueId id, const Code& row, int e,
                               const std::function<Code(std::size_t sum, int e)>& sum_of) const {
  for (const RowReduction& reduction : row_reductions_) {
    if (reduction.id == id) return code("{}[{}]", reduction.finished, row);
  }
  for (std::size_t s = 0; s < tile_.sums.size(); ++s) {
    if (tile_.sums[s].reduction != id) continue;
    return sums_register(s) == register_of(id) ? sum_of(s, e)
                                               : code("{}({})", scalar_type(loops_.values[id].node), sum_of(s, e));
  }
  return code("{}[{}]", row_arrays_.at(id), row);
}

Result<void> MatmulEmitter::store_one(const std::function<Code(ValueId known, int e)>& name_of, const Code& loaded) {
  const Code inside = limits_of_results(tile_.elements);
  if (!inside.empty()) main_.open("if ({}) {{", inside);
  VKF_CHECK_OK(store_chunk(
      results_,
      [&](int e) {
        std::vector<Code> all;
        for (ValueId id : results_.known) all.push_back(name_of(id, e));
        return all;
      },
      loaded));
  if (!inside.empty()) main_.close();
  return {};
}

Code MatmulEmitter::partial_at(const Code& part, std::size_t sum, int per_vec4) {
  return code("partials.w[{}]", partial_position(part, sum, per_vec4));
}

Code MatmulEmitter::partial_position(const Code& part, std::size_t sum, int per_vec4) {
  const std::int64_t vec4s = schedule::ceil_div(count(tile_.n), 4);
  const std::int64_t matrix = count(tile_.m) * vec4s;
  Code at = code("m * {} + chunk{}", numbers_.size(vec4s), per_vec4 == 1 ? "" : code(" / {}u", per_vec4));
  if (!tile_.batch.empty()) at = code("batch * {} + {}", numbers_.size(matrix), at);
  const auto sums = static_cast<std::int64_t>(sums_.size());
  const Code number = sums == 1  ? part
                      : sum == 0 ? code("{} * {}u", part, sums)
                                 : code("({} * {}u + {}u)", part, sums, sum);
  return code("{} * {} + {}", number, numbers_.size(count(tile_.batch) * matrix), at);
}

/// `m` and `chunk`, of four elements, are known.
Result<void> MatmulEmitter::leave_partial(const std::function<Code(std::size_t sum)>& vec4_of) {
  const Code inside = limits_of_results(4);
  if (!inside.empty()) main_.open("if ({}) {{", inside);
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    const ops::RegisterType own = register_of(tile_.sums[s].reduction);
    const Code type = vec4(tile_.sums[s].reduction);
    const char* to_bits = own == ops::RegisterType::f32 ? "floatBitsToUint" : "uvec4";
    main_.line("{} = {}({});", partial_at("part", s, 1), to_bits,
               sums_register(s) == own ? vec4_of(s) : code("{}({})", type, vec4_of(s)));
  }
  if (!inside.empty()) main_.close();
  return {};
}

/// Every thread joins the partial sums of a chunk, in their order.
Result<void> MatmulEmitter::joining_main() {
  use_chunks_of(results_);
  const std::int64_t chunks_n = count(tile_.n) / tile_.elements;
  const int per_vec4 = 4 / tile_.elements;
  main_.open("void main() {{");
  locate_workgroup();
  main_.line("uint unit = workgroup * {}u + thread;", schedule_.workgroup);
  main_.line("if (unit >= {}) return;", numbers_.size(results_in_chunks()));
  main_.line("uint chunk = {};", numbers_.remainder("unit", chunks_n, false));
  main_.line("uint row = {};", numbers_.quotient("unit", chunks_n, false));
  main_.line("uint m = {};", tile_.batch.empty() ? "row" : numbers_.remainder("row", count(tile_.m), false));
  if (!tile_.batch.empty()) main_.line("uint batch = {};", numbers_.quotient("row", count(tile_.m), false));
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    const Code type = vec4(tile_.sums[s].reduction);
    const bool floats = register_of(tile_.sums[s].reduction) == ops::RegisterType::f32;
    const Code open = floats ? "uintBitsToFloat(" : type + "(";
    main_.line("{} {} = {}{});", type, sums_[s], open, partial_at("0u", s, per_vec4));
    main_.line("[[unroll]] for (uint part = 1u; part < {}u; ++part) {} += {}{});", schedule_.splits, sums_[s], open,
               partial_at("part", s, per_vec4));
  }
  VKF_CHECK_OK(store_chunk(results_, [&](int e) {
    const auto sum_of = [&](std::size_t s, int element) {
      const Code within = tile_.elements == 1 ? code("[chunk % {}u]", per_vec4)
                                              : code("[chunk % {}u * {}u + {}u]", per_vec4, tile_.elements, element);
      return per_vec4 == 1 ? code("{}.{}", sums_[s], "xyzw"[element]) : sums_[s] + within;
    };
    std::vector<Code> all;
    for (ValueId id : results_.known) all.push_back(known_name(id, {}, e, sum_of));
    return all;
  }));
  main_.close();
  return {};
}

/// On a CPU, what is made of the sums is written once, and loops go over them in memory: while they are added up, sums
/// stay in registers. Drivers otherwise compile an exponential 64 times, which takes them half a second.
void MatmulEmitter::lay_out_sums() {
  std::vector<ValueId> made;
  for (ValueId id : schedule::backward_slice_of_results(loops_)) made.push_back(id);
  const int elements = shape_.thread_m * shape_.thread_n;
  if (target_.type != DeviceType::cpu || schedule::cost_of(graph_, loops_, made) * elements <= kMostUnrolledOnCpu)
    return;
  // Loops over what epilogues fold store into arrays.
  if (target_.workarounds.aborts_on_indexed_stores && !epilogues_.empty()) return;
  for (std::size_t s = 0; s < sums_.size(); ++s) {
    const Code added_up = std::exchange(sums_[s], unique(names_.values[tile_.sums[s].reduction] + "_added_up"));
    main_.line("{} {}[{}];", sums_vec4(s), sums_[s], elements / 4);
    main_.unrolled("i", elements / 4, code("{}[i] = {}[i];", sums_[s], added_up));
  }
  unrolls_results_ = false;
}

void MatmulEmitter::open_over_results(std::string_view counter, int count) {
  if (unrolls_results_) return main_.open_unrolled(counter, count);
  main_.open("[[dont_unroll]] for (uint {0} = 0u; {0} < {1}u; ++{0}) {{", counter, count);
}

Result<void> MatmulEmitter::store_results() {
  use_chunks_of(results_);
  const int columns = shape_.thread_n / 4;
  const int threads_n = shape_.n / shape_.thread_n;
  const int per_vec4 = 4 / tile_.elements;
  if (!leaves_parts()) lay_out_sums();
  open_over_results("i", shape_.thread_m);
  main_.line("uint m = tile_m * {}u + thread_m * {}u + i;", shape_.m, shape_.thread_m);
  if (leaves_parts()) {
    main_.open_unrolled("g", columns);
    main_.line("uint chunk = tile_n * {}u + g * {}u + thread_n;", shape_.n / 4, threads_n);
    VKF_CHECK_OK(leave_partial([&](std::size_t s) { return code("{}[i * {}u + g]", sums_[s], columns); }));
    main_.close();
    main_.close();
    return {};
  }
  open_over_results("g", shape_.thread_n / tile_.elements);
  main_.line("uint chunk = {};", per_vec4 == 1 ? code("tile_n * {}u + g * {}u + thread_n", shape_.n / 4, threads_n)
                                               : code("tile_n * {0}u + (g / {1}u * {2}u + thread_n) * {1}u + g % {1}u",
                                                      shape_.n / tile_.elements, per_vec4, threads_n));
  const Code position = code("{}{}", columns == 1 ? "i" : code("i * {}u", columns),
                             columns == 1    ? ""
                             : per_vec4 == 1 ? " + g"
                                             : code(" + g / {}u", per_vec4));
  const auto sum_of = [&](std::size_t s, int e) {
    const Code within =
        tile_.elements == 1 ? code("[g % {}u]", per_vec4) : code("[g % {}u * {}u + {}u]", per_vec4, tile_.elements, e);
    return code("{}[{}]{}", sums_[s], position, per_vec4 == 1 ? code(".{}", "xyzw"[e]) : within);
  };
  VKF_CHECK_OK(store_one(
      [&](ValueId id, int e) { return known_name(id, code("thread_m * {}u + i", shape_.thread_m), e, sum_of); }));
  main_.close();
  main_.close();
  return {};
}

}  // namespace vkfuse::lowering

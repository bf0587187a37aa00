// How attention reaches the elements of cooperative matrices: through functions that the device calls
// (cooperative_matrix2), or by index and through shared memory, where a device has no more than products, loads and
// stores of matrices.
#include "lowering/packing.hpp"
#include "templates/attention/lower_cooperative.hpp"
#include "templates/attention/tiles.hpp"

namespace vkfuse::lowering {

/// A function of one element; by index, those that do not ask for positions are not passed any.
Result<void> CooperativeAttentionEmitter::value_function(const Code& name, const Code& parameters,
                                                         const std::function<Result<void>()>& body) {
  if (called_by_device()) return of_element(name, parameters, body);
  functions_.open("float {}({}) {{", name, parameters);
  std::swap(functions_, main_);
  const Result<void> done = body();
  std::swap(functions_, main_);
  functions_.close();
  functions_.blank();
  return done;
}

/// Takes every element of `target` through a function. Of the arguments, matrices are passed element by element.
void CooperativeAttentionEmitter::per_element(const Code& target, const ElementFunction& function) {
  std::vector<Code> passed;
  if (called_by_device()) {
    passed = {target};
    passed.insert(passed.end(), function.matrices.begin(), function.matrices.end());
    passed.insert(passed.begin() + 2, function.name);
    passed.insert(passed.end(), function.others.begin(), function.others.end());
    main_.line("coopMatPerElementNV({});", listed(passed));
    return;
  }
  if (function.positions) passed = {"place / columns", "place % columns"};
  for (const Code& matrix : function.matrices) passed.push_back(matrix + "[e]");
  passed.insert(passed.end(), function.others.begin(), function.others.end());
  const Code call = code("{}[e] = {}({});", target, function.name, listed(passed));
  if (!function.positions) {
    main_.line("[[unroll]] for (int e = 0; e < {}.length(); ++e) {}", target, call);
    return;
  }
  main_.open("[[unroll]] for (int e = 0; e < {}.length(); ++e) {{", target);
  main_.line("uint place = uint(places[e]);");
  main_.line("{}", call);
  main_.close();
}

/// Where a subgroup passes elements through shared memory, and the matrix that says which elements a thread has.
void CooperativeAttentionEmitter::locate_elements() {
  if (called_by_device()) return;
  const int vec4s = static_cast<int>(fragment_.n) / 4;
  const int row = schedule::sum_row_words(static_cast<int>(fragment_.n));
  main_.line("uint scratch = {}u + subgroup * {}u;",
             schedule_.shared_bytes / 16 - std::int64_t{mapping_.subgroups} * mapping_.scratch_words(),
             mapping_.scratch_words());
  main_.line("// Which elements a thread has is the device's own affair: their positions are loaded as a matrix is.");
  main_.line("const uint columns = {}u;", fragment_.n);
  main_.open("for (uint g = gl_SubgroupInvocationID; g < {}u; g += {}u) {{", static_cast<int>(fragment_.m) * vec4s,
             schedule_.subgroup);
  main_.line("{}[scratch + g / {}u * {}u + g % {}u] = floatBitsToUint(float(g * 4u) + vec4(0.0, 1.0, 2.0, 3.0));",
             tiles_, vec4s, row, vec4s);
  main_.close();
  main_.line("{}", kSubgroupBarrier);
  main_.line("{} places;", sum_type());
  main_.line("coopMatLoad(places, {}, scratch, {}u, gl_CooperativeMatrixLayoutRowMajor);", tiles_, row);
  main_.line("{}", kSubgroupBarrier);
}

/// `four`, the largest elements of row `r` in the scratch memory, four columns apart.
void CooperativeAttentionEmitter::find_largest(int row) {
  main_.line("vec4 four = uintBitsToFloat({}[scratch + r * {}u]);", tiles_, row);
  const Code other = code("uintBitsToFloat({}[scratch + r * {}u + c])", tiles_, row);
  if (!keeps_nan_) {
    main_.line("[[unroll]] for (uint c = 1u; c < {}u; ++c) four = max(four, {});", fragment_.n / 4, other);
    return;
  }
  main_.open("[[unroll]] for (uint c = 1u; c < {}u; ++c) {{", fragment_.n / 4);
  main_.line("vec4 more = {};", other);
  for (const char* const one : {"x", "y", "z", "w"})
    main_.line("four.{} = {};", one, larger(code("four.{}", one), code("more.{}", one)));
  main_.close();
}

/// Every element of `matrix` becomes the largest of its row.
void CooperativeAttentionEmitter::spread_largest(const Code& matrix) {
  if (called_by_device()) {
    main_.line("coopMatReduceNV({0}, {0}, gl_CooperativeMatrixReduceRowNV, larger);", matrix);
    return;
  }
  const int row = schedule::sum_row_words(static_cast<int>(fragment_.n));
  const Code largest = code("scratch + {}u", static_cast<int>(fragment_.m) * row);
  main_.line("coopMatStore({}, {}, scratch, {}u, gl_CooperativeMatrixLayoutRowMajor);", matrix, tiles_, row);
  main_.line("{}", kSubgroupBarrier);
  main_.line("// The largest of all rows are loaded as one column that every column is.");
  main_.open("for (uint r = gl_SubgroupInvocationID; r < {}u; r += {}u) {{", fragment_.m, schedule_.subgroup);
  find_largest(row);
  main_.line("{}[{} + r / 4u][r % 4u] = floatBitsToUint({});", tiles_, largest,
             larger(larger("four.x", "four.y"), larger("four.z", "four.w")));
  main_.close();
  main_.line("{}", kSubgroupBarrier);
  main_.line("coopMatLoad({}, {}, {}, 0u, gl_CooperativeMatrixLayoutColumnMajor);", matrix, tiles_, largest);
}

/// The j-th weights of a sum as an operand.
void CooperativeAttentionEmitter::load_weights(std::size_t which) {
  const Code operand = fragment(fragment_.a, fragment_.m, fragment_.k, "A");
  const Code name = of_sum(weights_, which), from = weights_of(which);
  if (called_by_device()) {
    main_.line("{0} {1} = {0}({2});", operand, name, from);
    return;
  }
  const int row = schedule::operand_row_words(static_cast<int>(fragment_.n));
  const int words = static_cast<int>(fragment_.m) * row;
  const auto several = sums_.size();
  // What was passed before this may still be loaded.
  Code at = code("scratch + j % 2u * {}u", words);
  if (several > 1 && several % 2 == 0)
    at = code("scratch + {}u", which % 2 * words);
  else if (several > 1)
    at = code("scratch + (j + {}u) % 2u * {}u", which, words);
  if (mapping_.elements == schedule::ElementAccess::shared_memory) {
    main_.line("coopMatStore({}({}), {}, {}, {}u, gl_CooperativeMatrixLayoutRowMajor);",
               fragment(DType::f16, fragment_.m, fragment_.n, "Accumulator"), from, tiles_, at, row);
  } else {
    at = code("scratch + {}u", fragment_.m * schedule::sum_row_words(static_cast<int>(fragment_.n)));
    round_weights(from, at, row);
  }
  main_.line("{}", kSubgroupBarrier);
  main_.line("{} {};", operand, name);
  main_.line("coopMatLoad({}, {}, {}, {}u, gl_CooperativeMatrixLayoutRowMajor);", name, tiles_, at, row);
}

/// Threads make 16-bit numbers of the f32 that a matrix stores.
void CooperativeAttentionEmitter::round_weights(const Code& weights, const Code& at, int operand_row) {
  const int row = schedule::sum_row_words(static_cast<int>(fragment_.n));
  const auto chunks = fragment_.n / 8;
  main_.line("coopMatStore({}, {}, scratch, {}u, gl_CooperativeMatrixLayoutRowMajor);", weights, tiles_, row);
  main_.line("{}", kSubgroupBarrier);
  main_.open("for (uint g = gl_SubgroupInvocationID; g < {}u; g += {}u) {{", fragment_.m * chunks, schedule_.subgroup);
  main_.line("uint from = scratch + g / {0}u * {1}u + g % {0}u * 2u;", chunks, row);
  main_.line("vec4 low = uintBitsToFloat({0}[from]), high = uintBitsToFloat({0}[from + 1u]);", tiles_);
  std::vector<Code> words = pack(fragment_.a, 4, "low", dialect_);
  for (Code& word : pack(fragment_.a, 4, "high", dialect_)) words.push_back(std::move(word));
  main_.line("{0}[{1} + g / {2}u * {3}u + g % {2}u] = uvec4({4});", tiles_, at, chunks, operand_row, listed(words));
  main_.close();
}

/// The total of row `row`, of matrices that were stored `at`, as `whole`.
void CooperativeAttentionEmitter::read_total(const Code& at, int row_words) {
  if (called_by_device()) {
    main_.line("float whole = uintBitsToFloat({}[{}].x);", tiles_, at);
    return;
  }
  main_.line("vec4 totals = uintBitsToFloat({}[{}]);", tiles_, at);
  main_.line("[[unroll]] for (uint c = 1u; c < {}u; ++c) totals += uintBitsToFloat({}[{} + c]);", row_words, tiles_,
             at);
  main_.line("float whole = totals.x + totals.y + totals.z + totals.w;");
}

}  // namespace vkfuse::lowering

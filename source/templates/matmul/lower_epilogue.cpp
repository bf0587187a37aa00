// The matmul template beside its sums: hoisted values of rows, as a norm's statistics of which others have left partial
// ones, and epilogue reductions, as partial statistics for a norm that follows.
#include <algorithm>
#include <bit>
#include <set>

#include "templates/matmul/lower_emitter.hpp"

namespace vkfuse::lowering {

bool MatmulEmitter::is_of_block(std::size_t store) const {
  const auto& over = tile_.epilogues;
  return !over.empty() && (loops_.stores[store].axes & loops_.values[over.front()].over) == 0;
}

void MatmulEmitter::join_function(ValueId id, bool in_parts, const Code& function) {
  const ir::Node& node = graph_.node(loops_.values[id].node);
  if (in_parts) {  // a mean's sum, in two parts
    functions_.open("vec2 {}(vec2 a, vec2 b) {{", function);
    functions_.line("f32_add_term(a.x, a.y, b.x);");
    functions_.line("precise float low = a.y + b.y;");
    functions_.line("return vec2(a.x, low);");
    functions_.close();
    functions_.blank();
    return;
  }
  const Code operands[] = {"a", "b"};
  const Code type = scalar_type(loops_.values[id].node);
  functions_.open("{0} {1}({0} a, {0} b) {{", type, function);
  functions_.line("{}{} both = {};", register_of(id) == ops::RegisterType::f32 ? "precise " : "", type,
                  expression(ops::row(node.op->reduction.join), node.type.dtype, dialect_, operands));
  functions_.line("return both;");
  functions_.close();
  functions_.blank();
}

std::vector<ValueId> MatmulEmitter::needed(const std::vector<ValueId>& values, const std::vector<ValueId>& requested,
                                           const std::vector<ValueId>& known) const {
  std::set<ValueId> asked(requested.begin(), requested.end());
  for (ValueId id : values) {
    asked.insert(loops_.values[id].operands.begin(), loops_.values[id].operands.end());
    asked.insert(loops_.values[id].data.begin(), loops_.values[id].data.end());
  }
  std::vector<ValueId> all;
  for (ValueId id : known) {
    if (asked.count(id) != 0 && std::find(all.begin(), all.end(), id) == all.end()) all.push_back(id);
  }
  return all;
}

MatmulEmitter::Reduction MatmulEmitter::make_reduction(ValueId id) const {
  Reduction reduction;
  reduction.id = id;
  reduction.type = scalar_type(loops_.values[id].node);
  return reduction;
}

void MatmulEmitter::make_hoisted() {
  std::vector<ValueId> before;
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    if (!loops_.values[id].hoisted) continue;
    if (loops_.values[id].kind == Value::Kind::nested) {
      Reduction reduction = make_reduction(id);
      reduction.function = unique(names_.values[id] + "_join");
      const ValueId operand = loops_.values[id].operands[0];
      const std::vector<ValueId> backward_slice = schedule::backward_slice_of(loops_, operand);
      reduction.operand = make_part({.name = unique(names_.values[id] + "_part"),
                                     .own = kHeadDim,
                                     .along = loops_.inner(),
                                     .elements = 1,
                                     .values = backward_slice,
                                     .requested = {operand},
                                     .known = needed(backward_slice, {operand}, before)});
      hoisted_.push_back(std::move(reduction));
    }
    before.push_back(id);
  }
}

void MatmulEmitter::make_epilogues(std::vector<ValueId>& known) {
  if (tile_.epilogues.empty()) return;
  const segment::AxisSet along = segment::AxisSet{1} << tile_.n.back();
  const auto make = [&](Code name, ValueId value, const std::vector<ValueId>& values) {
    return make_part({.name = std::move(name),
                      .own = kN,
                      .along = along,
                      .elements = tile_.elements,
                      .values = values,
                      .requested = {value},
                      .known = needed(values, {value}, known)});
  };
  kept_ =
      make(unique(names_.values[tile_.kept] + "_kept"), tile_.kept, schedule::backward_slice_of(loops_, tile_.kept));
  kept_array_ = unique(names_.values[tile_.kept] + "_of_lane");
  const ValueId stops[] = {tile_.kept};
  known.push_back(tile_.kept);
  for (ValueId id : tile_.epilogues) {
    Reduction reduction = make_reduction(id);
    reduction.function = unique(names_.values[id] + "_join");
    reduction.array = unique(names_.values[id] + "_of_lane");
    reduction.slots = unique(names_.values[id] + "_fours");
    const ValueId operand = loops_.values[id].operands[0];
    reduction.operand =
        make(unique(names_.values[id] + "_folded"), operand, schedule::backward_slice_of(loops_, operand, stops));
    epilogues_.push_back(std::move(reduction));
    known.push_back(id);
  }
  block_ = make_store_part(unique("block"), true, known);
}

MatmulEmitter::Part MatmulEmitter::make_store_part(Code name, bool of_block, const std::vector<ValueId>& known) const {
  std::vector<ValueId> stops;
  if (!tile_.epilogues.empty()) stops.push_back(tile_.kept);
  std::set<ValueId> values;
  std::vector<ValueId> requested;
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    if (is_of_block(i) != of_block) continue;
    for (ValueId id : schedule::backward_slice_of(loops_, loops_.stores[i].value, stops)) values.insert(id);
    requested.push_back(loops_.stores[i].value);
  }
  const std::vector<ValueId> all(values.begin(), values.end());
  return make_part({.name = std::move(name),
                    .own = kN,
                    .along = segment::AxisSet{1} << tile_.n.back(),
                    .elements = tile_.elements,
                    .values = all,
                    .requested = requested,
                    .known = needed(all, requested, known)});
}

Result<void> MatmulEmitter::reduction_functions() {
  const auto add = [&](Reduction& reduction, const char* what) -> Result<void> {
    join_function(reduction.id, false, reduction.function);
    functions_.line("// {}", what);
    return element_function(
        reduction.operand,
        [&](Scope& scope) { scope.out->line("reduced = {};", use(scope, loops_.values[reduction.id].operands[0])); },
        {"out " + scalar_type(loops_.values[loops_.values[reduction.id].operands[0]].node) + " reduced"});
  };
  for (Reduction& reduction : hoisted_) VKF_CHECK_OK(add(reduction, "One part of what is known of a row."));
  if (epilogues_.empty()) return {};
  functions_.line("// One element of what is reduced and stored.");
  VKF_CHECK_OK(element_function(kept_, [&](Scope& scope) { scope.out->line("kept = {};", use(scope, tile_.kept)); },
                                {"out " + scalar_type(loops_.values[tile_.kept].node) + " kept"}));
  for (Reduction& reduction : epilogues_)
    VKF_CHECK_OK(add(reduction, "One element of a fold over the results of a block."));
  return result_function(block_, [&](std::size_t store) { return is_of_block(store); });
}

void MatmulEmitter::compute(const Part& part, int element, const std::function<Code(ValueId)>& name_of,
                            const Code& result, const std::map<ValueId, Code>& groups) {
  Scope scope = part_scope(part);
  for (ValueId id : part.per_chunk) scope.names[id] = names_.values[id];
  std::vector<Code> passed = arguments(scope, part, element, groups);
  for (ValueId id : part.known) passed.push_back(name_of(id));
  passed.push_back(result);
  main_.line("{}_element({});", part.name, listed(passed));
}

Result<void> MatmulEmitter::compute_vec4(const Part& part, const std::function<Code(ValueId, int e)>& name_of,
                                         const Code& result) {
  Scope scope = part_scope(part);
  VKF_TRY(groups, load_chunk(scope, part));
  for (int e = 0; e < part.elements; ++e) {
    compute(
        part, e, [&](ValueId id) { return name_of(id, e); }, element_of(result, e, chunk_.group), groups);
  }
  return {};
}

/// A thread reduces over what others have left of its row.
Result<void> MatmulEmitter::reduce_hoisted(const Reduction& reduction) {
  const ValueId id = reduction.id;
  const Code& name = names_.values[id];
  const ir::Node& node = graph_.node(loops_.values[id].node);
  const std::int64_t parts = schedule::count_along(loops_, schedule::axes_in(loops_, loops_.inner()));
  use_chunks_of(reduction.operand);
  main_.line("{} {} = {};", reduction.type, name, reduction_identity(graph_, node, dialect_));
  if (in_two_parts(id)) main_.line("float {}_low = 0.0;", name);
  main_.open("for (uint chunk = 0u; chunk < {}; ++chunk) {{", numbers_.size(parts));
  Scope inside = part_scope(reduction.operand);
  for (ValueId known : reduction.operand.known) inside.names[known] = names_.values[known];
  VKF_TRY(groups, load_chunk(inside, reduction.operand));
  main_.line("{} reduced;", scalar_type(loops_.values[loops_.values[id].operands[0]].node));
  compute(
      reduction.operand, 0, [&](ValueId known) { return names_.values[known]; }, "reduced", groups);
  if (in_two_parts(id))
    main_.line("f32_add_term({0}, {0}_low, reduced);", name);
  else
    main_.line("{0} = {1}({0}, reduced);", name, reduction.function);
  main_.close();
  if (in_two_parts(id))
    main_.line("{0} = f32_mean({0}, {0}_low, {1});", name, numbers_.size(parts));
  else if (is_mean(id))
    main_.line("{0} = {0} / {1}({2});", name, reduction.type, numbers_.size(parts));
  return {};
}

/// Each thread finds out about some rows of the tile.
Result<void> MatmulEmitter::find_row_values() {
  if (row_arrays_.empty()) return {};
  for (const auto& [id, array] : row_arrays_)
    shared_.line("shared {} {}[{}];", scalar_type(loops_.values[id].node), array, shape_.m);
  main_.open("for (uint row = thread; row < {}u; row += {}u) {{", shape_.m, schedule_.workgroup);
  main_.line("uint m = {};", limited(code("tile_m * {}u + row", shape_.m), extent(tile_.m), shape_.m));
  std::set<ValueId> asked;
  for (ValueId id = static_cast<ValueId>(loops_.values.size()); id-- > 0;) {
    const Value& value = loops_.values[id];
    if (!value.hoisted && asked.count(id) == 0) continue;
    asked.insert(id);
    if (value.kind != Value::Kind::nested) asked.insert(value.operands.begin(), value.operands.end());
  }
  Part rows;
  rows.own = kHeadDim;
  Scope scope = part_scope(rows);
  for (ValueId id : asked) {
    const auto reduction =
        std::find_if(hoisted_.begin(), hoisted_.end(), [&](const Reduction& one) { return one.id == id; });
    if (reduction == hoisted_.end()) {
      VKF_CHECK_OK(emit_value(scope, id));
      continue;
    }
    VKF_CHECK_OK(reduce_hoisted(*reduction));
    scope.names[id] = names_.values[id];
  }
  for (const auto& [id, array] : row_arrays_) main_.line("{}[row] = {};", array, use(scope, id));
  main_.close();
  main_.line("barrier();");
  return {};
}

Code MatmulEmitter::joined_vec4(const Reduction& reduction, const Code& vec4) const {
  return code("{0}({0}({1}.x, {1}.y), {0}({1}.z, {1}.w))", reduction.function, vec4);
}

Code MatmulEmitter::mean_of_block(const Reduction& reduction, const Code& sum, const Code& low) const {
  if (!is_mean(reduction.id)) return sum;
  // Products with a power of two are exact.
  const bool power = std::has_single_bit(static_cast<unsigned>(tile_.block));
  if (!in_two_parts(reduction.id)) return code("{} / {}({})", sum, reduction.type, tile_.block);
  return power ? code("({} + {}) * {}", sum, low, 1.0 / tile_.block)
               : code("f32_mean({}, {}, {}u)", sum, low, tile_.block);
}

Result<void> MatmulEmitter::store_block(const std::function<Code(ValueId)>& name_of) {
  Scope scope = part_scope(block_);
  VKF_TRY(groups, load_chunk(scope, block_));
  std::vector<Code> passed = arguments(scope, block_, 0, groups);
  for (ValueId id : block_.known) passed.push_back(name_of(id));
  main_.line("{}_element({});", block_.name, listed(passed));
  return {};
}

Result<void> MatmulEmitter::reduce_epilogues(const EpilogueChunks& chunks) {
  use_chunks_of(results_);
  bool kept = false;  // may be a sum, which is asked for first
  // What main() passes for a known value of element e of a chunk.
  const auto name_of = [&](ValueId id, int e) -> Code {
    if (id == tile_.kept && kept) return code("{}[{}].{}", kept_array_, chunks.register_index, "xyzw"[e]);
    const auto epilogue =
        std::find_if(epilogues_.begin(), epilogues_.end(), [&](const Reduction& one) { return one.id == id; });
    return epilogue != epilogues_.end() ? code("{}[{}]", epilogue->array, chunks.register_index)
                                        : known_name(id, chunks.row, e, chunks.sum_of);
  };
  main_.line("{} {}[{}];", group_type_of(loops_.values[tile_.kept].node), kept_array_, chunks.count);
  chunks.open(true);
  VKF_CHECK_OK(compute_vec4(kept_, name_of, code("{}[{}]", kept_array_, chunks.register_index)));
  chunks.close();
  kept = true;
  for (const Reduction& epilogue : epilogues_) {
    main_.line("{} {}[{}];", epilogue.type, epilogue.array, chunks.count);
    chunks.open(true);
    main_.line("{} reduced;", group_type_of(loops_.values[loops_.values[epilogue.id].operands[0]].node));
    VKF_CHECK_OK(compute_vec4(epilogue.operand, name_of, "reduced"));
    chunks.leave(epilogue, joined_vec4(epilogue, "reduced"));
    chunks.close();
    chunks.join(epilogue);
  }
  chunks.open(false);
  VKF_CHECK_OK(store_one(name_of));
  const Code inside = limits_of_results(tile_.elements);
  main_.open("if ({}{} % {}u == 0u) {{", inside.empty() ? "" : inside + " && ", chunks.column, tile_.block / 4);
  VKF_CHECK_OK(store_block([&](ValueId id) { return name_of(id, 0); }));
  main_.close();
  chunks.close();
  return {};
}

void MatmulEmitter::open_thread_vec4s() {
  const int columns = shape_.thread_n / 4;
  open_over_results("i", shape_.thread_m);
  main_.line("uint in_tile = thread_m * {}u + i;", shape_.thread_m);
  if (columns > 1) open_over_results("g", columns);
  main_.line("uint place = {}thread_n;", columns == 1 ? "" : code("g * {}u + ", shape_.n / shape_.thread_n));
}

void MatmulEmitter::close_thread_vec4s() {
  if (shape_.thread_n / 4 > 1) main_.close();
  main_.close();
}

/// Every thread joins what the threads of a block's row have left.
void MatmulEmitter::join_block(const Reduction& epilogue, const Code& register_index) {
  main_.line("barrier();");
  open_thread_vec4s();
  main_.line("uint first = in_tile * {0}u + place / {1}u * {1}u;", shape_.n / 4, tile_.block / 4);
  main_.line("{} whole = {}[first];", epilogue.type, epilogue.slots);
  if (in_two_parts(epilogue.id)) {  // sums of four equal elements are exact
    main_.line("float low = 0.0;");
    main_.line("for (uint g = 1u; g < {}u; ++g) f32_add_term(whole, low, {}[first + g]);", tile_.block / 4,
               epilogue.slots);
  } else {
    main_.line("for (uint g = 1u; g < {}u; ++g) whole = {}(whole, {}[first + g]);", tile_.block / 4, epilogue.function,
               epilogue.slots);
  }
  main_.line("{}[{}] = {};", epilogue.array, register_index, mean_of_block(epilogue, "whole", "low"));
  close_thread_vec4s();
}

/// Every thread has rows of its own; the other vec4s of a block's row are other threads'.
Result<void> MatmulEmitter::store_epilogues() {
  const int columns = shape_.thread_n / 4;
  const int vec4s = shape_.n / 4;
  lay_out_sums();
  EpilogueChunks chunks;
  chunks.count = shape_.thread_m * columns;
  chunks.register_index = columns == 1 ? "i" : code("i * {}u + g", columns);
  chunks.row = "in_tile";
  chunks.column = "place";
  chunks.sum_of = [&](std::size_t s, int e) { return code("{}[{}].{}", sums_[s], chunks.register_index, "xyzw"[e]); };
  chunks.open = [&](bool stays_inside) {
    open_thread_vec4s();
    const Code m = code("tile_m * {}u + in_tile", shape_.m);
    const Code chunk = code("tile_n * {}u + place", vec4s);
    main_.line("uint m = {};", stays_inside ? limited(m, extent(tile_.m), shape_.m) : m);
    main_.line("uint chunk = {};", stays_inside ? limited(chunk, extent(tile_.n) / 4, vec4s) : chunk);
  };
  chunks.close = [&] { close_thread_vec4s(); };
  chunks.leave = [&](const Reduction& epilogue, const Code& joined) {
    shared_.line("shared {} {}[{}];", epilogue.type, epilogue.slots, shape_.m * vec4s);
    main_.line("{}[in_tile * {}u + place] = {};", epilogue.slots, vec4s, joined);
  };
  chunks.join = [&](const Reduction& epilogue) { join_block(epilogue, chunks.register_index); };
  return reduce_epilogues(chunks);
}

/// Threads beside each other have the vec4s of a row of the subtile.
Result<void> MatmulEmitter::store_epilogues_of_subtile(const SubtileWalk& walk) {
  const int thread_chunks = walk.chunks / shape_.threads;
  EpilogueChunks chunks;
  chunks.count = thread_chunks;
  chunks.register_index = "u";
  chunks.row = "in_tile";
  chunks.column = "column";
  std::vector<Code> vec4s;
  for (const schedule::MatmulParams::Sum& sum : tile_.sums)
    vec4s.push_back(unique(names_.values[sum.reduction] + "_four"));
  chunks.sum_of = [&](std::size_t s, int e) { return code("{}.{}", vec4s[s], "xyzw"[e]); };
  chunks.open = [&](bool stays_inside) {
    main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", thread_chunks);
    main_.line("uint g = gl_SubgroupInvocationID + u * {}u;", shape_.threads);
    locate_in_subtile(walk, stays_inside, "i");
    for (std::size_t s = 0; s < vec4s.size(); ++s)
      main_.line("{} {} = {}[own + row * {}u + column];", sums_vec4(s), vec4s[s], subtiles_[s], subtile_vec4s());
  };
  chunks.close = [&] { main_.close(); };
  chunks.leave = [&](const Reduction& epilogue, const Code& joined) {
    main_.line("{} whole = {};", epilogue.type, joined);
    for (int mask = 1; mask < tile_.block / 4; mask *= 2)
      main_.line("whole = {}(whole, subgroupShuffleXor(whole, {}u));", epilogue.function, mask);
    main_.line("{}[u] = {};", epilogue.array, mean_of_block(epilogue, "whole", "0.0"));
  };
  chunks.join = [](const Reduction&) {};
  return reduce_epilogues(chunks);
}

}  // namespace vkfuse::lowering

// The reduction template's loops over the chunks of a row: which ones a thread owns, in which order, and the calls for
// each.
#include <fmt/ranges.h>

#include <algorithm>

#include "templates/reduction/lower_emitter.hpp"
#include "templates/reduction/visited_columns.hpp"

namespace vkfuse::lowering {

using schedule::AccessKind;

/// Where a scan goes from the last chunk to the first, so does everything else in the kernel: what is kept
/// in registers is in that order too.
Code ReductionEmitter::column_of(const Code& step) {
  return loops_.backwards ? code("{} - {}", numbers_.size(schedule_.launch.reduction_chunks - 1), step.parenthesised())
                          : step;
}

void ReductionEmitter::load_kept() {
  std::vector<ValueId> loads;
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    if (kept(id) && loops_.values[id].data.empty()) loads.push_back(id);
  }
  if (loads.empty()) return;
  Scope scope = row_scope_;
  set_reduction_axes(scope, false);
  scope.axis_names[kColumn] = "column";
  resident_.insert(loads.begin(), loads.end());
  if (params_.iterations == 1) {
    if (!has_full_iterations()) {
      main_.line("uint nearest = min(column, {});", numbers_.size(schedule_.launch.reduction_chunks - 1));
      scope.axis_names[kColumn] = "nearest";
    }
    for (ValueId id : loads) load_vectors(scope, id, "");
    return;
  }
  for (ValueId id : loads) {
    for (const Code& name : raw_names(id))
      main_.line("{} {}[{}];", word_type(schedule_.loads[id].vector_bytes), name, params_.iterations);
  }
  main_.open_unrolled("t", params_.iterations);
  const Code step = code("t * {}u + reduction_thread", params_.reduction_threads);
  main_.line("uint column = {};",
             column_of(has_full_iterations()
                           ? step
                           : code("min({}, {})", step, numbers_.size(schedule_.launch.reduction_chunks - 1))));
  for (ValueId id : loads) load_vectors(scope, id, "[t]");
  main_.close();
}

Code ReductionEmitter::register_index_of(ValueId id) const {
  if (resident_.count(id) != 0) return iteration_index();
  return in_flight_.count(id) != 0 ? "[u]" : "";
}

void ReductionEmitter::find_visited_chunks() {
  const auto columns = schedule::visited_columns(graph_, loops_);
  if (!columns || (!split_ && params_.iterations == 1)) return;
  const int elements = params_.vector_rows ? 1 : chunk_.elements;
  const Code all = numbers_.size(loops_.reduction_count());
  const VisitedChunks chunks{unique("visited_begin"), unique("visited_end")};
  // A thread that owns several rows visits what one of them needs.
  const auto bound_of = [&](const schedule::ColumnBound& bound, const char* of_rows) {
    const Code value = use(row_scope_, bound.value);
    const bool owns_several = width() > 1 && varies(bound.value);
    Code text = owns_several ? at(value, 0) : value;
    for (int j = 1; owns_several && j < width(); ++j) text = code("{}({}, {})", of_rows, text, at(value, j));
    return bound.after ? code("uint(clamp({}, -1, int({}) - 1) + 1)", text, all)
                       : code("uint(clamp({}, 0, int({})))", text, all);
  };
  const auto declare_bound = [&](const Code& name, const std::vector<schedule::ColumnBound>& bounds, const Code& none,
                                 const char* of_bounds, const char* of_rows) {
    Code text = bounds.empty() ? none : bound_of(bounds[0], of_rows);
    for (std::size_t i = 1; i < bounds.size(); ++i)
      text = code("{}({}, {})", of_bounds, text, bound_of(bounds[i], of_rows));
    main_.line("uint {} = {};", name, text);
  };
  main_.line("// Data says which columns of a row are visited; what is reduced elsewhere changes nothing.");
  declare_bound(chunks.begin, columns->begin, "0u", "max", "min");
  declare_bound(chunks.end, columns->end, all, "min", "max");
  if (elements > 1) {
    main_.line("{} /= {}u;", chunks.begin, elements);
    main_.line("{0} = ({0} + {1}u) / {2}u;", chunks.end, elements - 1, elements);
  }
  if (split_) {
    main_.line("{0} = max({0}, part_begin);", chunks.begin);
    main_.line("{0} = min({0}, part_end);", chunks.end);
  }
  visited_ = chunks;
}

Code ReductionEmitter::first_chunk() {
  if (visited_) return visited_->begin + " + reduction_thread";
  return split_ ? "part_begin + reduction_thread" : "reduction_thread";
}

Code ReductionEmitter::end_of_chunks() {
  if (visited_) return visited_->end;
  return split_ ? "part_end" : reduction_chunks();
}

Result<void> ReductionEmitter::run_pass(int number) {
  Pass pass = make_pass(number);
  if (pass.empty()) return {};
  for (std::size_t i = 0; i < pass.bodies.size(); ++i) VKF_CHECK_OK(element_function(pass, i));
  declare_accumulators(number + 1);
  for (std::size_t i : pass.scans) begin_scan(scans_[i], pass);
  return pass.waits ? run_chunks_in_step(pass) : run_chunks(pass);
}

/// With splits, the carry is there already: what the workgroups before this one have seen.
void ReductionEmitter::begin_scan(const ScanText& scan, const Pass& pass) {
  const bool first = running_.insert(scan.reduction.id).second;
  if (pass.waits && first)
    WorkgroupScan(schedule_, Combine(schedule_, dialect_, width())).declare_shared(scan, shared_);
  if (split_) return;
  if (first) {
    declare(scan.reduction);
    return;
  }
  for (int j = 0; j < width(); ++j) main_.line("{} = {};", at(scan.carry(), j), scan.identity());
}

/// Each thread for itself.
Result<void> ReductionEmitter::run_chunks(Pass& pass) {
  const Code step = loops_.backwards ? "step" : "column";
  const auto inner = [&](const Code& begin, const Code& end) -> Result<void> {
    if (schedule_.unroll_factor > 1) return run_chunks_in_flight(pass, begin, end);
    main_.open("for (uint {0} = {1}; {0} < {2}; {0} += {3}u) {{", step, begin, end, params_.reduction_threads);
    if (loops_.backwards) main_.line("uint column = {};", column_of("step"));
    VKF_CHECK_OK(chunk(pass));
    main_.close();
    return {};
  };
  const Code begin = first_chunk(), end = end_of_chunks();
  if (!split_ && params_.iterations == 1 && !params_.packed) {
    // Backwards, what is no chunk has a number beyond all of them too.
    main_.open("{}{{", has_full_iterations() ? "" : code("if (column < {}) ", end));
    VKF_CHECK_OK(chunk(pass));
    main_.close();
  } else if (!split_ && params_.persistent) {
    main_.open_unrolled("t", params_.iterations);
    main_.line("uint column = {};", column_of(code("t * {}u + reduction_thread", params_.reduction_threads)));
    if (!has_full_iterations()) main_.open("if (column < {}) {{", end);
    VKF_CHECK_OK(chunk(pass));
    if (!has_full_iterations()) main_.close();
    main_.close();
  } else if (pass.blocks) {
    const int stride = params_.reduction_threads * params_.block;
    main_.open("for (uint block = {}; block < {}; block += {}u) {{", begin, end, stride);
    begin_block(pass);
    main_.line("uint block_end = min(block + {}u, {});", stride, end);
    VKF_CHECK_OK(inner("block", "block_end"));
    end_block(pass);
    main_.close();
  } else {
    return inner(begin, end);
  }
  return {};
}

/// What says where the vectors of a chunk are that are read at positions of data: values of the chunk, which are loaded
/// again when it is computed.
std::vector<ValueId> ReductionEmitter::positions_of_loads(const Pass& pass) const {
  std::vector<bool> needed(loops_.values.size(), false);
  for (const ValueId id : pass.vectors) {
    for (const ValueId data : loops_.values[id].data) needed[data] = true;
  }
  std::vector<ValueId> positions;
  for (auto id = pass.per_chunk.rbegin(); id != pass.per_chunk.rend(); ++id) {
    if (!needed[*id]) continue;
    positions.insert(positions.begin(), *id);
    for (const ValueId operand : loops_.values[*id].operands) needed[operand] = true;
    for (const ValueId data : loops_.values[*id].data) needed[data] = true;
  }
  return positions;
}

/// The loads of the chunks that are in flight together.
Result<void> ReductionEmitter::load_in_flight(const Pass& pass, const Code& step, const Code& end) {
  for (ValueId id : pass.vectors) {
    if (resident_.count(id) != 0) continue;
    in_flight_.insert(id);
    for (const Code& name : raw_names(id))
      main_.line("{} {}[{}];", word_type(schedule_.loads[id].vector_bytes), name, schedule_.unroll_factor);
  }
  if (in_flight_.empty()) return {};
  main_.open_unrolled("u", schedule_.unroll_factor);
  main_.line("uint column = {};", column_of(code("min({}, {} - 1u)", step, end)));
  Scope loading = row_scope_;
  set_reduction_axes(loading, false);
  loading.axis_names[kColumn] = "column";
  VKF_CHECK_OK(emit_values(loading, positions_of_loads(pass)));
  for (ValueId id : pass.vectors) {
    if (in_flight_.count(id) != 0) load_vectors(loading, id, "[u]");
  }
  main_.close();
  return {};
}

/// A loop that issues the loads of several chunks before it needs the first one.
Result<void> ReductionEmitter::run_chunks_in_flight(Pass& pass, const Code& begin, const Code& end) {
  const int count = schedule_.unroll_factor;
  main_.open("for (uint first = {}; first < {}; first += {}u) {{", begin, end, count * params_.reduction_threads);
  const Code step = code("first + u * {}u", params_.reduction_threads);
  VKF_CHECK_OK(load_in_flight(pass, step, end));
  main_.open_unrolled("u", count);
  if (loops_.backwards) main_.line("uint step = {};", step);
  main_.line("uint column = {};", loops_.backwards ? column_of("step") : step);
  main_.open("if ({} < {}) {{", loops_.backwards ? "step" : "column", end);
  VKF_CHECK_OK(chunk(pass));
  main_.close();
  main_.close();
  main_.close();
  in_flight_.clear();
  return {};
}

/// All threads of the workgroup have equally many iterations, those that have no chunk left with one of another thread.
Result<void> ReductionEmitter::run_chunks_in_step(Pass& pass) {
  const Code end = split_ ? "part_end" : reduction_chunks();
  const bool idle = may_be_idle(pass);
  Code step = "reduction_thread";
  if (!split_ && params_.iterations == 1) {
    main_.open("{{");
  } else if (!split_ && params_.persistent) {
    main_.open_unrolled("t", params_.iterations);
    step = code("t * {}u + reduction_thread", params_.reduction_threads);
  } else {
    main_.open("for (uint first = {0}; first < {1}; first += {2}u) {{", split_ ? "part_begin" : "0u", end,
               params_.reduction_threads);
    step = "first + reduction_thread";
  }
  if (idle) {
    main_.line("uint step = {};", step);
    main_.line("bool live = step < {};", end);
    step = code("min(step, {} - 1u)", end);
  }
  main_.line("uint column = {};", column_of(step));
  VKF_CHECK_OK(chunk(pass));
  main_.close();
  return {};
}

ReductionText ReductionEmitter::in_block(const Pass& pass, const ReductionText& reduction) const {
  ReductionText renamed = reduction;
  for (Accumulator& accumulator : renamed.accumulators) {
    if (pass.blocks) accumulator.name += "_block";
  }
  return renamed;
}

/// A block's reductions and scans begin with nothing and are joined when it is done: chains of additions stay short.
void ReductionEmitter::begin_block(const Pass& pass) {
  for (std::size_t i : pass.bodies.back().reductions) declare(in_block(pass, reductions_[i]));
  for (std::size_t i : pass.scans) declare(in_block(pass, scans_[i].reduction));
}

void ReductionEmitter::end_block(const Pass& pass) {
  const Combine combine(schedule_, dialect_, width());
  const auto join = [&](const ReductionText& reduction) {
    for (int j = 0; j < width(); ++j) {
      main_.line("{}", combine.join(reduction, j, [&](const Accumulator& accumulator) {
        return at(accumulator.name + "_block", j);
      }));
    }
  };
  for (std::size_t i : pass.bodies.back().reductions) join(reductions_[i]);
  for (std::size_t i : pass.scans) join(scans_[i].reduction);
}

Result<void> ReductionEmitter::chunk(Pass& pass) {
  Scope scope = row_scope_;
  set_reduction_axes(scope, false);
  scope.axis_names[kColumn] = "column";
  for (ValueId id : pass.vectors) {
    if (resident_.count(id) == 0 && in_flight_.count(id) == 0 && loops_.values[id].data.empty())
      load_vectors(scope, id, "");
  }
  VKF_CHECK_OK(emit_values(scope, pass.per_chunk));
  for (ValueId id : pass.vectors) {
    if (in_flight_.count(id) == 0 && !loops_.values[id].data.empty()) load_vectors(scope, id, "");
  }
  if (is_ragged()) {
    const Code left =
        code("min({}u, {} - column * {}u)", chunk_.elements, numbers_.size(loops_.reduction_count()), chunk_.elements);
    main_.line("uint valid = {};", may_be_idle(pass) ? code("live ? {} : 0u", left) : left);
  }
  Groups groups;
  for (const Body& body : pass.bodies) {
    for (std::size_t i : body.scans) {
      if (body.totals) begin_totals(scans_[i]);
    }
    call_each(pass, body, scope, groups);
    if (body.totals) end_totals(body);
  }
  store_chunks(pass, scope);
  return {};
}

/// The thread's own elements of this chunk.
void ReductionEmitter::begin_totals(const ScanText& scan) {
  main_.line("{} {} = {};", scan.reduction.type, scan.total, scan.identity());
  main_.line("{} {}[{}];", scan.reduction.type, names_.values[scan.reduction.id], chunk_.elements);
}

/// From the running reductions of each thread's elements to those of the row.
void ReductionEmitter::end_totals(const Body& body) {
  std::vector<const ScanText*> scans;
  for (std::size_t i : body.scans) scans.push_back(&scans_[i]);
  WorkgroupScan(schedule_, Combine(schedule_, dialect_, width())).across_threads(scans, main_);
  for (const ScanText* scan : scans) {
    const Code element = names_.values[scan->reduction.id] + "[j]";
    main_.line("{}({}, {});", scan->reduction.join, scan->before, scan->carry());
    main_.line("{}({}, {});", scan->reduction.join, scan->carry(), scan->total);
    main_.open_unrolled("j", chunk_.elements);
    main_.line("{}({}, {});", scan->reduction.join, element, scan->before);
    round_result(dtype_of(loops_.values[scan->reduction.id]), element);
    main_.close();
  }
}

Code ReductionEmitter::element_condition(const Pass& pass, int element) {
  if (is_ragged() && (element > 0 || may_be_idle(pass))) return code("if ({}u < valid) ", element);
  return may_be_idle(pass) ? "if (live) " : "";
}

/// Passes are blocks of their own, so all of them use one name.
Code ReductionEmitter::group_name(ValueId id, int group) {
  Code& name = group_names_[{id, group}];
  if (name.empty()) name = unique(code("{}{}_{}", names_.values[id], is_sub_byte(id) ? "_floats" : "", group));
  return name;
}

/// One for each reduction of the body whose weights have a scale that the chunk shares.
std::vector<ReductionEmitter::ScaledSum> ReductionEmitter::scaled_sums(const Pass& pass, const Body& body,
                                                                       const Scope& scope) const {
  std::vector<ScaledSum> sums;
  for (std::size_t k : body.reductions) {
    const auto found = scales_of_chunks_.find(reductions_[k].id);
    if (found != scales_of_chunks_.end())
      sums.push_back({in_block(pass, reductions_[k]).accumulators[0].name, use(scope, found->second.scale)});
  }
  return sums;
}

/// Declares what the calls of a group's elements take and leave: unpacked loads, results, elements to be added.
void ReductionEmitter::begin_group(const Body& body, int g, Groups& groups) {
  for (ValueId id : body.function_inputs) {
    if (!(is_vector(id) || is_sub_byte(id)) || !groups.insert({id, g}).second) continue;
    const Code values = is_sub_byte(id) ? sub_byte_group(id, g, register_index_of(found_.sub_byte_fields.at(id).load))
                                        : unpacked(id, g, register_index_of(id));
    main_.line("{} {} = {};", group_type_of(loops_.values[id].node), group_name(id, g), values);
  }
  for (std::size_t i : body.stores) {
    if (schedule_.stores[i].kind == AccessKind::vector)
      main_.line("{} {};", group_type_of(loops_.stores[i].node), result_group(i, g));
  }
  for (std::size_t k : body.reductions) {
    const char* lacking = reductions_[k].kind == ReductionText::Kind::mean ? "0.0" : "uintBitsToFloat(0xff800000u)";
    if (reductions_[k].vec4s)
      main_.line("vec4 {}_x_{}{};", reductions_[k].name, g, is_ragged() ? code(" = vec4({})", lacking) : "");
  }
}

/// Adds the elements of a group to reductions that take four at a time.
void ReductionEmitter::end_group(const Pass& pass, const Body& body, Scope& scope, int g) {
  for (std::size_t k : body.reductions) {
    const ReductionText& reduction = reductions_[k];
    if (!reduction.vec4s) continue;
    Code fields;
    for (const Accumulator& accumulator : in_block(pass, reduction).accumulators) fields += accumulator.name + ", ";
    Code first;
    if (reduction.kind == ReductionText::Kind::arg)
      first = ", " + position(scope, loops_.values[reduction.id].offset + index::Expr(g * chunk_.group));
    main_.line("{}({}{}_x_{}{});", Combine::add_four(reduction), fields, reduction.name, g, first);
  }
}

/// In the order in which scans walk.
void ReductionEmitter::call_each(const Pass& pass, const Body& body, Scope& scope, Groups& groups) {
  const bool reversed = loops_.backwards && !params_.vector_rows;
  for (const ScaledSum& scaled : scaled_sums(pass, body, scope)) main_.line("float {}_item = 0.0;", scaled.sum);
  for (int turn = 0; turn < chunk_.groups; ++turn) {
    const int g = reversed ? chunk_.groups - 1 - turn : turn;
    begin_group(body, g, groups);
    for (int i = 0; i < chunk_.group; ++i)
      call(pass, body, scope, g * chunk_.group + (reversed ? chunk_.group - 1 - i : i));
    end_group(pass, body, scope, g);
  }
  for (const ScaledSum& scaled : scaled_sums(pass, body, scope))
    main_.line("{0} = fma({0}_item, {1}, {0});", scaled.sum, scaled.scale);
}

/// A parameter of a body's function, for one element of the chunk.
Code ReductionEmitter::input_of(const Scope& scope, ValueId id, int element) {
  if (is_vector(id) || is_sub_byte(id))
    return element_of(group_name(id, element / chunk_.group), element % chunk_.group, chunk_.group);
  if (is_scan(id)) return code("{}[{}]", names_.values[id], element);
  return width() > 1 && varies(id) ? at(use(scope, id), element) : use(scope, id);
}

/// What a call hands over of a reduction: a component of the four elements to be added, or its accumulators.
void ReductionEmitter::add_accumulators(const Pass& pass, const ReductionText& reduction, int element,
                                        std::vector<Code>& arguments) const {
  if (reduction.vec4s) {
    arguments.push_back(code("{}_x_{}[{}]", reduction.name, element / chunk_.group, element % chunk_.group));
    return;
  }
  const Code suffix = scales_of_chunks_.count(reduction.id) != 0 ? "_item" : "";
  for (const Accumulator& accumulator : in_block(pass, reduction).accumulators)
    arguments.push_back(at(accumulator.name, width() == 1 ? 0 : element) + suffix);
}

/// The arguments in the order of value_parameters().
void ReductionEmitter::call(const Pass& pass, const Body& body, Scope& scope, int element) {
  std::vector<Code> arguments;
  for (const std::string& name : body.coordinates) arguments.push_back(name == "j" ? code("{}u", element) : Code(name));
  for (ValueId id : body.function_inputs) arguments.push_back(input_of(scope, id, element));
  for (ValueId id : body.lows) arguments.push_back(at(low_of(id), element));
  for (std::size_t i : body.scans) {
    if (body.totals) {
      arguments.push_back(scans_[i].total);
      arguments.push_back(code("{}[{}]", names_.values[scans_[i].reduction.id], element));
      continue;
    }
    if (pass.blocks) arguments.push_back(at(scans_[i].carry(), width() == 1 ? 0 : element));
    add_accumulators(pass, scans_[i].reduction, element, arguments);
  }
  for (std::size_t k : body.reductions) add_accumulators(pass, reductions_[k], element, arguments);
  for (std::size_t k : body.stores) {
    if (schedule_.stores[k].kind == AccessKind::vector)
      arguments.push_back(element_of(result_group(k, element / chunk_.group), element % chunk_.group, chunk_.group));
  }
  main_.line("{}{}({});", element_condition(pass, element), body.function, listed(arguments));
}

void ReductionEmitter::store_chunks(const Pass& pass, Scope& scope) {
  for (std::size_t i : pass.bodies.back().stores) {
    if (schedule_.stores[i].kind != AccessKind::vector) continue;
    main_.open("if (inside{}) {{", may_be_idle(pass) ? " && live" : "");
    Scope inner = scope;  // what a store needs of positions is named inside its own block
    store_vectors(inner, i, is_ragged() ? code("valid == {}u", chunk_.elements) : "", is_ragged() ? "valid" : "");
    main_.close();
  }
}

}  // namespace vkfuse::lowering

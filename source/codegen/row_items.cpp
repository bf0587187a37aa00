// The row template's loops over the columns: which items a lane owns, in which order, and the calls for each.
#include <algorithm>

#include "codegen/rows.hpp"

namespace vkfuse::codegen {

using schedule::AccessKind;

namespace {

std::string_view word_type(int bytes) { return bytes == 16 ? "uvec4" : bytes == 8 ? "uvec2" : "uint"; }

}  // namespace

/// Where a scan walks from the last column to the first, so does everything else in the kernel: what is kept
/// in registers is in that order too.
std::string Rows::column_of(const std::string& step) {
  return loops_.backwards ? fmt::format("{} - 1u - {}", column_items(), step) : step;
}

void Rows::load_kept() {
  std::vector<ValueId> loads;
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    if (kept(id) && loops_.values[id].data.empty()) loads.push_back(id);
  }
  if (loads.empty()) return;
  for (ValueId id : loads) {
    for (int v = 0; v < vectors_of(id); ++v) {
      main_.line("{} {}[{}];", word_type(schedule_.loads[id].vector_bytes), raw_name(id, v), schedule_.trips);
    }
    resident_.insert(id);
  }
  main_.open("[[unroll]] for (uint t = 0u; t < {}u; ++t) {{", schedule_.trips);
  main_.line("uint column = {};", column_of(fmt::format("min(t * {}u + column_lane, {} - 1u)", schedule_.column_lanes, column_items())));
  Scope scope = row_scope_;
  set_column_axes(scope, false);
  scope.axis_names[kColumn] = "column";
  for (ValueId id : loads) load_vectors(scope, id, "[t]");
  main_.close();
}

Result<void> Rows::run_pass(int number) {
  Pass pass = make_pass(number);
  if (pass.empty()) return {};
  for (std::size_t i = 0; i < pass.bodies.size(); ++i) VKF_CHECK_OK(element_function(pass, i));
  declare_accumulators(number + 1);
  for (std::size_t i : pass.scans) begin_scan(scans_[i], pass);
  const int braces = pass.waits ? open_columns_together() : open_columns(pass);
  VKF_CHECK_OK(item(pass));
  for (int i = 0; i < braces; ++i) main_.close();
  if (pass.blocks) close_block(pass);
  return {};
}

/// In parts, the carry is there already: what the workgroups before this one have seen.
void Rows::begin_scan(const ScanText& scan, const Pass& pass) {
  const bool first = running_.insert(scan.fold.id).second;
  if (pass.waits && first) LaneScan(schedule_, Combine(schedule_, dialect_, width())).declare_shared(scan, shared_);
  if (split_) return;
  if (first) {
    declare(scan.fold.type, scan.fold.accumulator, scan.fold.identity);
    return;
  }
  for (int j = 0; j < width(); ++j) main_.line("{} = {};", at(scan.fold.accumulator, j), scan.fold.identity);
}

/// Each lane for itself.
int Rows::open_columns(const Pass& pass) {
  const std::string step = loops_.backwards ? "step" : "column";
  const bool whole = schedule_.column_items % schedule_.column_lanes == 0 && !split_;
  int braces = 1;
  if (!split_ && (schedule_.trips == 1 || schedule_.persistent)) {
    if (schedule_.trips == 1) {
      main_.line("{{");
      main_.indent();
      main_.line("uint {} = column_lane;", step);
    } else {
      main_.open("[[unroll]] for (uint t = 0u; t < {}u; ++t) {{", schedule_.trips);
      main_.line("uint {} = t * {}u + column_lane;", step, schedule_.column_lanes);
    }
    if (!whole) {
      main_.open("if ({} < {}) {{", step, column_items());
      ++braces;
    }
  } else {
    std::string begin = split_ ? "part_begin + column_lane" : "column_lane";
    std::string end = split_ ? "part_end" : column_items();
    if (pass.blocks) {
      const int stride = schedule_.column_lanes * schedule_.block;
      main_.open("for (uint block = {}; block < {}; block += {}u) {{", begin, end, stride);
      begin_block(pass);
      begin = "block";
      end = fmt::format("min(block + {}u, {})", stride, end);
    }
    main_.open("for (uint {0} = {1}; {0} < {2}; {0} += {3}u) {{", step, begin, end, schedule_.column_lanes);
  }
  if (loops_.backwards) main_.line("uint column = {};", column_of("step"));
  return braces;
}

/// All lanes of the workgroup come round equally often, those that have no item left with one of another lane.
int Rows::open_columns_together() {
  const bool whole = schedule_.column_items % schedule_.column_lanes == 0;
  const std::string end = split_ ? "part_end" : column_items();
  if (split_ || (schedule_.trips > 1 && !schedule_.persistent)) {
    main_.open("for (uint first = {0}; first < {1}; first += {2}u) {{", split_ ? "part_begin" : "0u", end, schedule_.column_lanes);
    main_.line("uint step = first + column_lane;");
  } else if (schedule_.trips > 1) {
    main_.open("[[unroll]] for (uint t = 0u; t < {}u; ++t) {{", schedule_.trips);
    main_.line("uint step = t * {}u + column_lane;", schedule_.column_lanes);
  } else {
    main_.line("{{");
    main_.indent();
    main_.line("uint step = column_lane;");
  }
  if (!whole) main_.line("bool live = step < {};", end);
  main_.line("uint column = {};", column_of(whole ? "step" : fmt::format("min(step, {} - 1u)", end)));
  return 1;
}

/// A block's folds and scans begin with nothing and are joined when it is done: chains of additions stay short.
void Rows::begin_block(const Pass& pass) {
  for (std::size_t i : pass.bodies.back().folds) {
    declare(folds_[i].type, block_name(folds_[i].accumulator), folds_[i].identity);
    if (folds_[i].arg) declare("uint", block_name(folds_[i].index) + "_i", "0xffffffffu");
  }
  for (std::size_t i : pass.scans) declare(scans_[i].fold.type, block_name(scans_[i].fold.accumulator), scans_[i].fold.identity);
}

void Rows::close_block(const Pass& pass) {
  const auto join = [&](const FoldText& fold) {
    for (int j = 0; j < width(); ++j) {
      if (fold.arg) {
        main_.line("{}({}, {}, {}, {});", fold.join, at(fold.accumulator, j), at(fold.index + "_i", j), at(block_name(fold.accumulator), j),
                   at(block_name(fold.index) + "_i", j));
      } else {
        main_.line("{}({}, {});", fold.join, at(fold.accumulator, j), at(block_name(fold.accumulator), j));
      }
    }
  };
  for (std::size_t i : pass.bodies.back().folds) join(folds_[i]);
  for (std::size_t i : pass.scans) join(scans_[i].fold);
  main_.close();
}

Result<void> Rows::item(Pass& pass) {
  Scope scope = row_scope_;
  set_column_axes(scope, false);
  scope.axis_names[kColumn] = "column";
  for (ValueId id : pass.vectors) {
    if (resident_.count(id) == 0 && loops_.values[id].data.empty()) load_vectors(scope, id, "");
  }
  VKF_CHECK_OK(emit_values(scope, pass.per_item));
  for (ValueId id : pass.vectors) {
    if (!loops_.values[id].data.empty()) load_vectors(scope, id, "");
  }
  if (is_ragged()) {
    const std::string left = fmt::format("min({}u, {} - column * {}u)", elements_, numbers_.size(loops_.column_count()), elements_);
    main_.line("uint valid = {};", may_be_idle(pass) ? fmt::format("live ? {} : 0u", left) : left);
  }
  Groups groups;
  for (const Body& body : pass.bodies) {
    for (std::size_t i : body.scans) {
      if (body.totals) begin_totals(scans_[i]);
    }
    call_each(pass, body, scope, groups);
    if (body.totals) end_totals(body);
  }
  store_items(pass, scope);
  return {};
}

/// The lane's own elements of this item.
void Rows::begin_totals(const ScanText& scan) {
  main_.line("{} {} = {};", scan.fold.type, scan.total, scan.fold.identity);
  main_.line("{} {}[{}];", scan.fold.type, value_names_[scan.fold.id], elements_);
}

/// From the running folds of each lane's elements to those of the row.
void Rows::end_totals(const Body& body) {
  std::vector<const ScanText*> scans;
  for (std::size_t i : body.scans) scans.push_back(&scans_[i]);
  LaneScan(schedule_, Combine(schedule_, dialect_, width())).across_lanes(scans, main_);
  for (const ScanText* scan : scans) {
    const FoldText& fold = scan->fold;
    const std::string element = value_names_[fold.id] + "[j]";
    main_.line("{}({}, {});", fold.join, scan->before, fold.accumulator);
    main_.line("{}({}, {});", fold.join, fold.accumulator, scan->total);
    main_.open("[[unroll]] for (uint j = 0u; j < {}u; ++j) {{", elements_);
    main_.line("{}({}, {});", fold.join, element, scan->before);
    if (narrowed(fold.id, element) != element) main_.line("{} = {};", element, narrowed(fold.id, element));
    main_.close();
  }
}

std::string Rows::element_condition(const Pass& pass, int element) const {
  if (is_ragged() && (element > 0 || may_be_idle(pass))) return fmt::format("if ({}u < valid) ", element);
  return may_be_idle(pass) ? "if (live) " : "";
}

/// In the order in which scans walk.
void Rows::call_each(const Pass& pass, const Body& body, Scope& scope, Groups& groups) {
  const bool reversed = loops_.backwards && !schedule_.vector_rows;
  for (int turn = 0; turn < groups_; ++turn) {
    const int g = reversed ? groups_ - 1 - turn : turn;
    for (ValueId id : body.feeds) {
      if (!is_vector(id) || groups.count({id, g}) != 0) continue;
      const std::string name = unique(value_names_[id] + "_" + std::to_string(g));
      main_.line("{} {} = {};", group_type_of(loops_.values[id].node), name, unpacked(id, g, resident_.count(id) != 0 ? trip_slot() : ""));
      groups[{id, g}] = name;
    }
    for (std::size_t i : body.stores) {
      if (schedule_.stores[i].kind == AccessKind::vector) main_.line("{} {}_{};", group_type_of(loops_.stores[i].node), result_name(i), g);
    }
    for (int i = 0; i < group_; ++i) call(pass, body, scope, groups, g * group_ + (reversed ? group_ - 1 - i : i));
  }
}

void Rows::call(const Pass& pass, const Body& body, Scope& scope, const Groups& groups, int element) {
  const int g = element / group_;
  const int own = width() == 1 ? 0 : element;  // accumulator
  std::string arguments;
  const auto add = [&](const std::string& argument) { arguments += (arguments.empty() ? "" : ", ") + argument; };
  const auto in_block = [&](const std::string& name) { return pass.blocks ? block_name(name) : name; };
  for (const std::string& name : body.coordinates) add(name == "j" ? fmt::format("{}u", element) : name);
  for (ValueId id : body.feeds) {
    if (is_vector(id)) {
      add(element_of(groups.at({id, g}), element % group_, group_));
    } else if (is_scan(id)) {
      add(fmt::format("{}[{}]", value_names_[id], element));
    } else if (width() > 1 && !loops_.per_element(loops_.values[id])) {
      add(at(use(scope, id), element));
    } else {
      add(use(scope, id));
    }
  }
  for (std::size_t i : body.scans) {
    const std::string& carry = scans_[i].fold.accumulator;
    if (body.totals) {
      add(scans_[i].total);
      add(fmt::format("{}[{}]", value_names_[scans_[i].fold.id], element));
      continue;
    }
    if (pass.blocks) add(at(carry, own));
    add(at(in_block(carry), own));
  }
  for (std::size_t k : body.folds) {
    add(at(in_block(folds_[k].accumulator), own));
    if (folds_[k].arg) add(at(in_block(folds_[k].index) + "_i", own));
  }
  for (std::size_t k : body.stores) {
    if (schedule_.stores[k].kind == AccessKind::vector) add(element_of(fmt::format("{}_{}", result_name(k), g), element % group_, group_));
  }
  main_.line("{}{}({});", element_condition(pass, element), body.function, arguments);
}

void Rows::store_items(const Pass& pass, Scope& scope) {
  for (std::size_t i : pass.bodies.back().stores) {
    if (schedule_.stores[i].kind != AccessKind::vector) continue;
    main_.open("if (inside{}) {{", may_be_idle(pass) ? " && live" : "");
    store_vectors(scope, i, is_ragged() ? fmt::format("valid == {}u", elements_) : "", is_ragged() ? "valid" : "");
    main_.close();
  }
}

}  // namespace vkfuse::codegen

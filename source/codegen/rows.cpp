// The row template: lanes of a workgroup share the columns of a row. Pass by pass over the columns, every
// lane folds what it sees; between passes the lanes fold across each other and compute what the whole row
// shares.
#include <algorithm>

#include "codegen/combine.hpp"
#include "codegen/emitter.hpp"

namespace vkfuse::codegen {

using index::Expr;
using schedule::AccessKind;

namespace {

std::string_view word_type(int bytes) { return bytes == 16 ? "uvec4" : bytes == 8 ? "uvec2" : "uint"; }

class Rows : public Emitter {
 public:
  Rows(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops, const schedule::Schedule& schedule,
       const Target& target, const EmitOptions& options, std::vector<std::string> names, int dispatch)
      : Emitter(graph, segment, loops, schedule, target, options, std::move(names)), dispatch_(dispatch), split_(schedule.parts > 1) {
    for (ValueId id = 0; id < loops.values.size(); ++id) {
      const Value& value = loops.values[id];
      if (value.kind == Value::Kind::fold && !is_partner(id)) folds_.push_back(make_fold(id));
      // A lane that owns several rows has one accumulator for each.
      bool varies = schedule::varies_in_item(loops, schedule, value) || (schedule.vector_rows && elements_ > 1 && value.kind == Value::Kind::fold);
      if (schedule.vector_rows) {
        for (ValueId operand : value.operands) varies = varies || varies_[operand];
        for (ValueId data : value.data) varies = varies || varies_[data];
      }
      varies_.push_back(varies);
    }
    // What some element of the columns, or some fold, is computed from.
    for_columns_.assign(loops.values.size(), false);
    for (ValueId id = static_cast<ValueId>(loops.values.size()); id-- > 0;) {
      const Value& value = loops.values[id];
      if (!for_columns_[id] && !loops.per_element(value) && value.kind != Value::Kind::fold) continue;
      for (ValueId operand : value.operands) for_columns_[operand] = true;
      for (ValueId data : value.data) for_columns_[data] = true;
    }
  }

  Result<Kernel> run() {
    rows_ = numbers_.named("items", static_cast<std::uint32_t>(schedule_.row_items), schedule_.vector_rows ? "groups of rows" : "rows");
    groups_x_ = numbers_.named("row", static_cast<std::uint32_t>(std::max<std::int64_t>(workgroups_x(), 1)), "workgroups in one row of the dispatch");
    find_products();
    row_scope_.out = &main_;
    row_scope_.axis_names = {{kRow, "row"}};
    set_row_axes(row_scope_, false);
    VKF_CHECK_OK(main_function());
    std::string summary = fmt::format("{} lane{} per row, {} row{} per workgroup, {} elements per item, {} item{} per lane{}", schedule_.column_lanes,
                                      schedule_.column_lanes == 1 ? "" : "s", schedule_.row_lanes * (schedule_.vector_rows ? elements_ : 1),
                                      schedule_.row_lanes == 1 ? "" : "s", elements_, schedule_.trips, schedule_.trips == 1 ? "" : "s",
                                      schedule_.persistent ? ", kept in registers" : "");
    if (split_) summary += fmt::format(", {} workgroups share a row, dispatch {} of {}", schedule_.parts, dispatch_ + 1, schedule_.dispatches);
    VKF_TRY(kernel, finish(summary));
    kernel.groups_x = static_cast<std::uint32_t>(workgroups_x());
    kernel.groups_y = workgroups_x() == 0 ? 0 : static_cast<std::uint32_t>(schedule::ceil_div(workgroups(), workgroups_x()));
    return kernel;
  }

 private:
  // --- folds -----------------------------------------------------------------------------------------
  /// A fold that another one, its partner, brings along has no text of its own.
  [[nodiscard]] bool is_partner(ValueId id) const {
    return std::any_of(loops_.values.begin(), loops_.values.end(), [&](const Value& value) {
      return value.kind == Value::Kind::fold && value.online != Value::Online::no && value.partner == id;
    });
  }

  FoldText make_fold(ValueId id) {
    const Value& value = loops_.values[id];
    FoldText fold;
    fold.id = id;
    fold.stage = value.stage;
    fold.node = &graph_.node(value.node);
    fold.operand = dtype(fold.node->operands[0]);
    fold.name = value_names_[id];
    fold.type = std::string(ops::glsl_type(ops::lane_of(fold.operand), dialect_.native_int64));
    fold.join = unique(fold.name + "_join");
    const auto field = [&](const std::string& name, DType type, const std::string& identity) {
      const std::string text = std::string(ops::glsl_type(ops::lane_of(type), dialect_.native_int64));
      fold.fields.push_back({name, text, identity, unique(name + "_shared"), is_float(type) && type != DType::f64 ? DType::f32 : type});
    };
    const std::string identity = fold_identity(graph_, *fold.node, dialect_);
    if (value.online == Value::Online::softmax) {
      fold.kind = FoldText::Kind::softmax;
      field(value_names_[value.partner], DType::f32, "uintBitsToFloat(0xff800000u)");
      field(fold.name, DType::f32, "0.0");
    } else if (value.online == Value::Online::moments) {
      fold.kind = FoldText::Kind::moments;
      field(unique(fold.name + "_count"), DType::f32, "0.0");
      field(value_names_[value.partner], DType::f32, "0.0");
      field(fold.name, DType::f32, "0.0");
    } else if (fold.node->op->fold.kind == ops::Fold::Kind::arg) {
      fold.kind = FoldText::Kind::arg;
      field(unique(fold.name + "_best"), fold.operand, identity);
      field(unique(fold.name + "_at"), DType::u32, "0xffffffffu");
    } else {
      field(fold.name, fold.operand, identity);
    }
    return fold;
  }

  /// Lanes per row or row group: one accumulator, or one per row that the lane owns.
  [[nodiscard]] int width() const { return schedule_.vector_rows ? elements_ : 1; }
  [[nodiscard]] std::string at(const std::string& name, int j) const { return width() == 1 ? name : fmt::format("{}[{}]", name, j); }

  void declare_accumulators(int stage) {
    for (const FoldText& fold : folds_) {
      if (fold.stage != stage) continue;
      for (const FoldField& field : fold.fields) {
        if (width() == 1) {
          main_.line("{} {} = {};", field.type, field.name, field.identity);
          continue;
        }
        std::string all = field.identity;
        for (int j = 1; j < width(); ++j) all += ", " + field.identity;
        main_.line("{0} {1}[{2}] = {0}[{2}]({3});", field.type, field.name, width(), all);
      }
    }
  }

  /// The results of a stage's folds from their accumulators.
  void finish_folds(int stage) {
    const std::string count = numbers_.size(loops_.column_count());
    for (const FoldText& fold : folds_) {
      if (fold.stage != stage) continue;
      const Value& value = loops_.values[fold.id];
      const bool mean = fold.node->op->fold.kind == ops::Fold::Kind::mean;
      for (int j = 0; j < width(); ++j) {
        const std::string result = at(fold.name, j);
        if (fold.kind == FoldText::Kind::softmax) {
          // An infinite or undefined maximum leaves no number: x - infinity is NaN where x is infinite.
          main_.line("if (f32_magnitude_bits({}) >= 0x7f800000u) {} = uintBitsToFloat(0x7fc00000u);", at(fold.fields[0].name, j), result);
        }
        if (mean) main_.line("{0} = {0} / {1}({2});", result, fold.type, count);
        if (fold.kind == FoldText::Kind::arg) continue;
        round_result(fold.node->type.dtype, result);
        if (value.online != Value::Online::no) round_result(dtype_of(loops_.values[value.partner]), at(value_names_[value.partner], j));
      }
      if (fold.kind == FoldText::Kind::arg) {
        const std::string position = fold.fields[1].name;
        if (width() > 1) main_.line("int {}[{}];", fold.name, width());
        for (int j = 0; j < width(); ++j) main_.line("{}{} = int({});", width() == 1 ? "int " : "", at(fold.name, j), at(position, j));
      }
      row_scope_.names[fold.id] = fold.name;
      if (value.online != Value::Online::no) row_scope_.names[value.partner] = value_names_[value.partner];
    }
  }

  void round_result(DType type, const std::string& result) {
    if (is_float(type) && options_.numerics != Numerics::strict) return;
    const std::string narrowed = ops::narrow(type, result);
    if (narrowed != result) main_.line("{} = {};", result, narrowed);
  }

  // --- positions -------------------------------------------------------------------------------------
  void set_row_axes(Scope& scope, bool element) const {
    Sizes sizes;
    std::vector<int> ids;
    for (std::size_t i = 0; i < loops_.axes.size(); ++i) {
      if (loops_.axes[i].column) continue;
      sizes.push_back(loops_.axes[i].size);
      ids.push_back(static_cast<int>(i));
    }
    if (sizes.empty()) return;
    if (schedule_.vector_rows) sizes.back() /= elements_;
    const std::vector<Expr> coordinates = index::delinearize(Expr::axis(kRow, std::max<std::int64_t>(schedule_.row_items, 2)), sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i) scope.axes.emplace(ids[i], coordinates[i]);
    if (!schedule_.vector_rows) return;
    Expr& inner = scope.axes.at(ids.back());
    inner = inner * elements_;
    if (element && elements_ > 1) inner = inner + Expr::axis(kElement, elements_);
  }

  void set_column_axes(Scope& scope, bool element) const {
    Sizes sizes;
    std::vector<int> ids;
    for (std::size_t i = 0; i < loops_.axes.size(); ++i) {
      if (!loops_.axes[i].column) continue;
      sizes.push_back(loops_.axes[i].size);
      ids.push_back(static_cast<int>(i));
    }
    const bool vectors = !schedule_.vector_rows;
    if (vectors) sizes.back() = schedule::ceil_div(sizes.back(), elements_);
    const std::vector<Expr> coordinates = index::delinearize(Expr::axis(kColumn, std::max<std::int64_t>(schedule_.column_items, 2)), sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i) scope.axes.emplace(ids[i], coordinates[i]);
    if (!vectors) return;
    Expr& inner = scope.axes.at(ids.back());
    inner = inner * elements_;
    if (element && elements_ > 1) inner = inner + Expr::axis(kElement, elements_);
  }

  // --- what belongs where ----------------------------------------------------------------------------
  [[nodiscard]] bool is_vector(ValueId id) const {
    return loops_.values[id].kind == Value::Kind::load && schedule_.loads[id].kind == AccessKind::vector && loops_.per_element(loops_.values[id]);
  }
  /// Whether a value differs between the elements of an item, or the rows of a lane.
  [[nodiscard]] bool varies(ValueId id) const { return varies_[id]; }

  struct Pass {
    std::vector<ValueId> vectors;   ///< loaded as vectors for an item
    std::vector<ValueId> per_item;  ///< one for the item
    std::vector<ValueId> per_element;
    std::vector<ValueId> feeds;     ///< parameters of the element function
    std::vector<std::size_t> stores;
    std::vector<std::size_t> folds;  ///< in folds_
    std::string function;
    std::vector<std::string> coordinates;
    [[nodiscard]] bool empty() const { return stores.empty() && folds.empty(); }
  };

  Pass make_pass(int number) {
    Pass pass;
    const std::vector<bool> needed = segment::needed_in_pass(loops_, number);
    std::vector<bool> used(loops_.values.size(), false);
    for (ValueId id = 0; id < loops_.values.size(); ++id) {
      if (!needed[id] || is_literal(id)) continue;
      if (is_vector(id)) {
        pass.vectors.push_back(id);
      } else if (varies(id)) {
        pass.per_element.push_back(id);
      } else {
        pass.per_item.push_back(id);
      }
    }
    const auto use_operands = [&](ValueId id) {
      for (ValueId operand : loops_.values[id].operands) used[operand] = true;
      for (ValueId data : loops_.values[id].data) used[data] = true;
    };
    for (ValueId id : pass.per_element) use_operands(id);
    for (const auto& entry : contracted_) {
      if (needed[entry.first] && varies(entry.first)) use_operands(entry.first);
    }
    for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
      const segment::Store& store = loops_.stores[i];
      if ((store.axes & loops_.columns()) == 0 || segment::pass_of_store(loops_, store) != number) continue;
      pass.stores.push_back(i);
      used[store.value] = true;
    }
    for (std::size_t i = 0; i < folds_.size(); ++i) {
      if (folds_[i].stage - 1 != number) continue;
      pass.folds.push_back(i);
      used[loops_.values[folds_[i].id].operands[0]] = true;
    }
    const std::set<ValueId> inside(pass.per_element.begin(), pass.per_element.end());
    for (ValueId id = 0; id < loops_.values.size(); ++id) {
      if (used[id] && !is_literal(id) && inside.count(id) == 0 && !is_contracted(id)) pass.feeds.push_back(id);
    }
    return pass;
  }

  /// One more element for a fold's accumulators.
  void fold_element(Scope& scope, const FoldText& fold) {
    Writer& out = *scope.out;
    const Value& value = loops_.values[fold.id];
    const std::string operand = use(scope, value.operands[0]);
    const std::vector<FoldField>& fields = fold.fields;
    switch (fold.kind) {
      case FoldText::Kind::plain: out.line("{}({}, {});", fold.join, fields[0].name, operand); break;
      case FoldText::Kind::arg: out.line("{}({}, {}, {}, {});", fold.join, fields[0].name, fields[1].name, operand, position(scope, value.offset)); break;
      case FoldText::Kind::softmax: out.line("{}({}, {}, {});", Combine::add_element(fold), fields[0].name, fields[1].name, operand); break;
      case FoldText::Kind::moments:
        out.line("{}({}, {}, {}, 1.0, {}, 0.0);", fold.join, fields[0].name, fields[1].name, fields[2].name, operand);
        break;
    }
  }

  /// What the pass does to one element, as a function.
  Result<void> element_function(Pass& pass, int number) {
    pass.function = unique(fmt::format("pass{}", number));
    Scope scope;
    Writer body;
    scope.out = &body;
    set_row_axes(scope, true);
    set_column_axes(scope, true);
    scope.axis_names = {{kRow, "row"}, {kColumn, "column"}, {kElement, "j"}};
    for (ValueId id : pass.feeds) scope.names[id] = value_names_[id];
    body.indent();
    VKF_CHECK_OK(emit_values(scope, pass.per_element));
    for (std::size_t i : pass.folds) fold_element(scope, folds_[i]);
    for (std::size_t i : pass.stores) {
      const std::string value = use(scope, loops_.stores[i].value);
      if (schedule_.stores[i].kind == AccessKind::vector) {
        body.line("{} = {};", result_name(i), value);
      } else {
        body.open("if (inside) {{");
        Scope inner = scope;
        store_scalar(inner, i, value);
        body.close();
      }
    }
    const std::string text = body.take();
    std::string parameters;
    const auto add = [&](const std::string& parameter) { parameters += (parameters.empty() ? "" : ", ") + parameter; };
    for (const char* name : {"inside", "row", "column", "j"}) {
      if (!mentions(text, name)) continue;
      add((std::string_view(name) == "inside" ? "bool " : "uint ") + std::string(name));
      pass.coordinates.push_back(name);
    }
    for (ValueId id : pass.feeds) add(scalar_type(loops_.values[id].node) + " " + value_names_[id]);
    for (std::size_t i : pass.folds) {
      for (const FoldField& field : folds_[i].fields) add(fmt::format("inout {} {}", field.type, field.name));
    }
    for (std::size_t i : pass.stores) {
      if (schedule_.stores[i].kind == AccessKind::vector) add("out " + scalar_type(loops_.stores[i].node) + " " + result_name(i));
    }
    functions_.line("// One element of pass {}.", number);
    functions_.open("void {}({}) {{", pass.function, parameters);
    functions_.raw(text);
    functions_.close();
    functions_.blank();
    return {};
  }

  // --- rows ------------------------------------------------------------------------------------------

  /// Values of the row alone that become known after a stage's folds.
  Result<void> row_values(int stage) {
    std::vector<ValueId> own;
    for (ValueId id = 0; id < loops_.values.size(); ++id) {
      const Value& value = loops_.values[id];
      const bool folds = value.kind == Value::Kind::fold || value.kind == Value::Kind::sort;
      if (folds || is_literal(id) || is_contracted(id) || loops_.per_element(value) || value.stage != stage) continue;
      // What only stores of the row need is computed there, by the lane that stores: a gathered label waits for
      // two loads.
      if (width() == 1 && !for_columns_[id]) continue;
      if (width() == 1 || !varies(id)) {
        VKF_CHECK_OK(emit_value(row_scope_, id));
      } else {
        own.push_back(id);
      }
    }
    if (own.empty()) return {};
    // One function for each of the rows that a lane owns.
    Scope scope;
    Writer body;
    scope.out = &body;
    set_row_axes(scope, true);
    scope.axis_names = {{kRow, "row"}, {kElement, "j"}};
    std::vector<ValueId> feeds;
    const std::set<ValueId> inside(own.begin(), own.end());
    const auto feed = [&](ValueId id) {
      if (is_literal(id) || inside.count(id) != 0 || is_contracted(id)) return;
      if (std::find(feeds.begin(), feeds.end(), id) == feeds.end()) feeds.push_back(id);
    };
    for (ValueId id : own) {
      for (ValueId operand : loops_.values[id].operands) {
        feed(operand);
        if (!is_contracted(operand)) continue;
        for (ValueId factor : loops_.values[operand].operands) feed(factor);
      }
      for (ValueId data : loops_.values[id].data) feed(data);
    }
    for (ValueId id : feeds) scope.names[id] = value_names_[id];
    body.indent();
    VKF_CHECK_OK(emit_values(scope, own));
    const std::string function = unique(fmt::format("row{}", stage));
    std::string outs;
    for (ValueId id : own) {
      body.line("{}_row = {};", value_names_[id], value_names_[id]);
      outs += (outs.empty() ? "out " : ", out ") + scalar_type(loops_.values[id].node) + " " + value_names_[id] + "_row";
    }
    std::string parameters = "uint row, uint j";
    for (ValueId id : feeds) parameters += ", " + scalar_type(loops_.values[id].node) + " " + value_names_[id];
    functions_.line("// What one row knows after {} fold{}.", stage, stage == 1 ? "" : "s");
    functions_.open("void {}({}, {}) {{", function, parameters, outs);
    functions_.raw(body.take());
    functions_.close();
    functions_.blank();
    for (ValueId id : own) {
      main_.line("{} {}[{}];", scalar_type(loops_.values[id].node), value_names_[id], width());
      row_scope_.names[id] = value_names_[id];
    }
    for (int j = 0; j < width(); ++j) {
      std::string arguments = fmt::format("row, {}u", j);
      for (ValueId id : feeds) arguments += ", " + (varies(id) ? at(row_scope_.names.at(id), j) : row_scope_.names.at(id));
      for (ValueId id : own) arguments += ", " + at(value_names_[id], j);
      main_.line("{}({});", function, arguments);
    }
    return {};
  }

  /// Stores of the row alone whose value is known after this many stages.
  /// A value of the row and whatever it needs that has no name yet.
  Result<void> emit_cone(Scope& scope, ValueId root) {
    std::vector<bool> needed(loops_.values.size(), false);
    needed[root] = true;
    for (ValueId id = root + 1; id-- > 0;) {
      if (!needed[id] || scope.names.count(id) != 0) continue;
      for (ValueId operand : loops_.values[id].operands) needed[operand] = true;
      for (ValueId data : loops_.values[id].data) needed[data] = true;
    }
    for (ValueId id = 0; id <= root; ++id) {
      const bool folds = loops_.values[id].kind == Value::Kind::fold || loops_.values[id].kind == Value::Kind::sort;
      if (needed[id] && !folds) VKF_CHECK_OK(emit_value(scope, id));
    }
    return {};
  }

  Result<void> row_stores(int stage) {
    std::vector<std::size_t> own;
    for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
      const segment::Store& store = loops_.stores[i];
      if ((store.axes & loops_.columns()) == 0 && loops_.values[store.value].stage == stage) own.push_back(i);
    }
    if (own.empty()) return {};
    std::string who = "inside";
    if (schedule_.column_lanes > 1) who += " && column_lane == 0u";
    if (shares_rows()) who += " && part == 0u";
    main_.open("if ({}) {{", who);
    for (std::size_t i : own) {
      const segment::Store& store = loops_.stores[i];
      Scope scope = row_scope_;
      if (width() == 1) {
        VKF_CHECK_OK(emit_cone(scope, store.value));
        store_scalar(scope, i, use(scope, store.value));
        continue;
      }
      const std::string value = use(scope, store.value);
      const bool literal = is_literal(store.value) || !varies(store.value);
      if (schedule_.stores[i].kind == AccessKind::vector) {
        for (int g = 0; g < groups_; ++g) {
          std::string parts;
          for (int k = 0; k < group_; ++k) parts += (k == 0 ? "" : ", ") + (literal ? value : at(value, g * group_ + k));
          main_.line("{0} {1} = {0}({2});", group_type_of(store.node), result_group(i, g), parts);
        }
        store_vectors(scope, i, "", "");
      } else {
        for (int j = 0; j < width(); ++j) {
          Scope element = scope;
          set_row_element(element, j);
          store_scalar(element, i, literal ? value : at(value, j));
        }
      }
    }
    main_.close();
    return {};
  }

  void set_row_element(Scope& scope, int j) const {
    scope.axes.clear();
    scope.known.clear();
    set_row_axes(scope, true);
    for (auto& entry : scope.axes) entry.second = index::substitute(entry.second, {{kElement, Expr(j)}});
  }

  // --- passes ----------------------------------------------------------------------------------------

  [[nodiscard]] bool kept(ValueId id) const {
    if (!schedule_.persistent || !is_vector(id)) return false;
    int used = 0;
    for (int pass = 0; pass < loops_.passes; ++pass) used += segment::needed_in_pass(loops_, pass)[id] ? 1 : 0;
    return used > 1 || schedule_.trips > 1;
  }

  /// Loads everything that stays in registers, before anything waits for it.
  void load_kept() {
    std::vector<ValueId> loads;
    for (ValueId id = 0; id < loops_.values.size(); ++id) {
      if (kept(id) && loops_.values[id].data.empty()) loads.push_back(id);
    }
    if (loads.empty()) return;
    Scope scope = row_scope_;
    set_column_axes(scope, false);
    scope.axis_names[kColumn] = "column";
    resident_.insert(loads.begin(), loads.end());
    if (schedule_.trips == 1) {
      if (!whole()) {
        main_.line("uint nearest = min(column, {});", numbers_.size(schedule_.column_items - 1));
        scope.axis_names[kColumn] = "nearest";
      }
      for (ValueId id : loads) load_vectors(scope, id, "");
      return;
    }
    for (ValueId id : loads) {
      for (int v = 0; v < vectors_of(id); ++v) {
        main_.line("{} {}[{}];", word_type(schedule_.loads[id].vector_bytes), raw_name(id, v), schedule_.trips);
      }
    }
    main_.open("[[unroll]] for (uint t = 0u; t < {}u; ++t) {{", schedule_.trips);
    const std::string column = fmt::format("t * {}u + column_lane", schedule_.column_lanes);
    main_.line("uint column = {};", whole() ? column : fmt::format("min({}, {})", column, numbers_.size(schedule_.column_items - 1)));
    for (ValueId id : loads) load_vectors(scope, id, "[t]");
    main_.close();
  }

  /// Whether every lane has an item in every trip.
  [[nodiscard]] bool whole() const { return schedule_.column_items % schedule_.column_lanes == 0 && !split_; }

  Result<void> run_pass(int number) {
    Pass pass = make_pass(number);
    if (pass.empty()) return {};
    VKF_CHECK_OK(element_function(pass, number));
    declare_accumulators(number + 1);
    const bool unrolled = schedule_.persistent && schedule_.trips > 1 && !split_;
    const std::string begin = split_ ? "part_begin + column_lane" : "column_lane";
    const std::string end = split_ ? "part_end" : numbers_.size(schedule_.column_items);
    flying_.clear();
    if (!unrolled && schedule_.items_in_flight > 1 && schedule_.trips > 1) return run_in_flight(pass, begin, end);
    if (schedule_.trips == 1 && !split_ && whole()) {
      main_.open("{{");
    } else if (schedule_.trips == 1 && !split_) {
      main_.open("if (column < {}) {{", end);
    } else if (unrolled) {
      main_.open("[[unroll]] for (uint t = 0u; t < {}u; ++t) {{", schedule_.trips);
      main_.line("uint column = t * {}u + column_lane;", schedule_.column_lanes);
      if (!whole()) main_.open("if (column < {}) {{", end);
    } else {
      main_.open("for (uint column = {}; column < {}; column += {}u) {{", begin, end, schedule_.column_lanes);
    }
    VKF_CHECK_OK(item(pass));
    if (unrolled && !whole()) main_.close();
    main_.close();
    return {};
  }

  /// A loop that issues the loads of several items before it needs the first one.
  Result<void> run_in_flight(Pass& pass, const std::string& begin, const std::string& end) {
    const int count = schedule_.items_in_flight;
    main_.open("for (uint first = {}; first < {}; first += {}u) {{", begin, end, count * schedule_.column_lanes);
    for (ValueId id : pass.vectors) {
      if (resident_.count(id) != 0 || !loops_.values[id].data.empty()) continue;
      flying_.insert(id);
      for (int v = 0; v < vectors_of(id); ++v) main_.line("{} {}[{}];", word_type(schedule_.loads[id].vector_bytes), raw_name(id, v), count);
    }
    main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", count);
    main_.line("uint column = min(first + u * {}u, {} - 1u);", schedule_.column_lanes, end);
    Scope loading = row_scope_;
    set_column_axes(loading, false);
    loading.axis_names[kColumn] = "column";
    for (ValueId id : pass.vectors) {
      if (flying_.count(id) != 0) load_vectors(loading, id, "[u]");
    }
    main_.close();
    main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", count);
    main_.line("uint column = first + u * {}u;", schedule_.column_lanes);
    main_.open("if (column < {}) {{", end);
    VKF_CHECK_OK(item(pass));
    main_.close();
    main_.close();
    main_.close();
    flying_.clear();
    return {};
  }

  /// Where the raw vectors of a load are: an array of the row's items, of those in flight, or a variable.
  [[nodiscard]] std::string slot_of(ValueId id) const {
    if (resident_.count(id) != 0) return trip_slot();
    return flying_.count(id) != 0 ? "[u]" : "";
  }

  Result<void> item(Pass& pass) {
    Scope scope = row_scope_;
    set_column_axes(scope, false);
    scope.axis_names[kColumn] = "column";
    for (ValueId id : pass.vectors) {
      if (resident_.count(id) == 0 && flying_.count(id) == 0 && loops_.values[id].data.empty()) load_vectors(scope, id, "");
    }
    VKF_CHECK_OK(emit_values(scope, pass.per_item));
    for (ValueId id : pass.vectors) {
      if (!loops_.values[id].data.empty()) load_vectors(scope, id, "");
    }
    const bool ragged = !schedule_.exact && !schedule_.vector_rows;
    if (ragged) main_.line("uint valid = min({}u, {} - column * {}u);", elements_, numbers_.size(loops_.column_count()), elements_);
    for (int g = 0; g < groups_; ++g) {
      std::map<ValueId, std::string> groups;
      for (ValueId id : pass.feeds) {
        if (!is_vector(id)) continue;
        groups[id] = group_name(id, g);
        main_.line("{} {} = {};", group_type_of(loops_.values[id].node), groups[id], unpacked(id, g, slot_of(id)));
      }
      for (std::size_t i : pass.stores) {
        if (schedule_.stores[i].kind == AccessKind::vector) main_.line("{} {};", group_type_of(loops_.stores[i].node), result_group(i, g));
      }
      for (int i = 0; i < group_; ++i) call(pass, scope, groups, g, i, ragged);
    }
    for (std::size_t i : pass.stores) {
      if (schedule_.stores[i].kind != AccessKind::vector) continue;
      main_.open("if (inside) {{");
      store_vectors(scope, i, ragged ? fmt::format("valid == {}u", elements_) : "", ragged ? "valid" : "");
      main_.close();
    }
    return {};
  }

  /// Passes are blocks of their own, so all of them use one name.
  std::string group_name(ValueId id, int group) {
    std::string& name = group_names_[{id, group}];
    if (name.empty()) name = unique(fmt::format("{}_{}", value_names_[id], group));
    return name;
  }

  [[nodiscard]] std::string trip_slot() const { return schedule_.trips == 1 ? "" : "[t]"; }

  void call(const Pass& pass, Scope& scope, const std::map<ValueId, std::string>& groups, int g, int i, bool ragged) {
    const int element = g * group_ + i;
    std::string arguments;
    const auto add = [&](const std::string& argument) { arguments += (arguments.empty() ? "" : ", ") + argument; };
    for (const std::string& name : pass.coordinates) add(name == "j" ? fmt::format("{}u", element) : name);
    for (ValueId id : pass.feeds) {
      if (is_vector(id)) {
        add(element_of(groups.at(id), i, group_));
      } else if (width() > 1 && varies(id)) {
        add(at(use(scope, id), element));
      } else {
        add(use(scope, id));
      }
    }
    for (std::size_t k : pass.folds) {
      for (const FoldField& field : folds_[k].fields) add(at(field.name, width() == 1 ? 0 : element));
    }
    for (std::size_t k : pass.stores) {
      if (schedule_.stores[k].kind == AccessKind::vector) add(element_of(result_group(k, g), i, group_));
    }
    main_.line("{}{}({});", ragged && element > 0 ? fmt::format("if ({}u < valid) ", element) : "", pass.function, arguments);
  }

  // --- main ------------------------------------------------------------------------------------------

  /// Whether the workgroups of a row go over its columns together here; the last dispatch may only join what
  /// they have left.
  [[nodiscard]] bool shares_rows() const { return split_ && dispatch_ < loops_.passes; }
  [[nodiscard]] std::int64_t workgroups() const { return schedule_.workgroups / (split_ && !shares_rows() ? schedule_.parts : 1); }
  [[nodiscard]] std::int64_t workgroups_x() const { return std::min(schedule_.workgroups_x, workgroups()); }

  void begin() {
    const int lanes = schedule_.column_lanes;
    main_.open("void main() {{");
    main_.line("uint workgroup = gl_WorkGroupID.y * {} + gl_WorkGroupID.x;", groups_x_);
    if (shares_rows()) {
      main_.line("uint part = workgroup % {}u;", schedule_.parts);
      main_.line("workgroup /= {}u;", schedule_.parts);
    }
    const bool by_subgroup = schedule_.subgroup > 0 && lanes > 1;
    main_.line("uint lane = {};", by_subgroup ? "gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID" : "gl_LocalInvocationID.x");
    const int rows = schedule_.row_lanes;
    if (rows == 1) {
      main_.line("uint column_lane = lane;");
      main_.line("uint row = workgroup;");
    } else if (schedule_.vector_rows) {
      main_.line("uint column_lane = lane / {}u;", rows);
      main_.line("uint row = workgroup * {0}u + lane % {0}u;", rows);
    } else {
      main_.line("uint column_lane = lane % {}u;", lanes);
      main_.line("uint row = workgroup * {}u + lane / {}u;", rows, lanes);
    }
    main_.line("bool inside = row < {};", rows_);
    main_.line("row = min(row, {} - 1u);", rows_);
    if (schedule_.trips == 1 && !split_) main_.line("uint column = column_lane;");
    if (shares_rows()) {
      const std::int64_t share = schedule::ceil_div(schedule::ceil_div(schedule_.column_items, schedule_.parts), lanes) * lanes;
      main_.line("uint part_begin = part * {};", numbers_.size(share));
      main_.line("uint part_end = min(part_begin + {}, {});", numbers_.size(share), numbers_.size(schedule_.column_items));
    }
  }

  Result<void> main_function() {
    begin();
    Combine combine(schedule_, dialect_, width());
    for (const FoldText& fold : folds_) combine.join_function(fold, functions_);
    if (!split_) load_kept();  // before anything waits for a row's own loads
    VKF_CHECK_OK(row_values(0));
    if (!split_) {
      if (dispatch_ == 0) VKF_CHECK_OK(row_stores(0));
      for (int pass = 0; pass < loops_.passes; ++pass) {
        VKF_CHECK_OK(run_pass(pass));
        combine.across_lanes(folds_, pass + 1, main_, shared_);
        finish_folds(pass + 1);
        VKF_CHECK_OK(row_values(pass + 1));
        VKF_CHECK_OK(row_stores(pass + 1));
      }
    } else {
      // Earlier dispatches left partial results: every workgroup joins those of its row.
      if (dispatch_ == 0) VKF_CHECK_OK(row_stores(0));
      for (int stage = 1; stage <= dispatch_; ++stage) {
        declare_accumulators(stage);
        combine.from_parts(folds_, stage, loops_.row_count(), main_);
        combine.across_lanes(folds_, stage, main_, shared_);
        finish_folds(stage);
        VKF_CHECK_OK(row_values(stage));
        if (stage == dispatch_) VKF_CHECK_OK(row_stores(stage));
      }
      if (dispatch_ < loops_.passes) {
        VKF_CHECK_OK(run_pass(dispatch_));
        combine.across_lanes(folds_, dispatch_ + 1, main_, shared_);
        combine.to_parts(folds_, dispatch_ + 1, loops_.row_count(), main_);
      }
    }
    main_.close();
    return {};
  }

  int dispatch_;
  bool split_;
  std::string rows_, groups_x_;
  std::vector<FoldText> folds_;
  Scope row_scope_;
  std::set<ValueId> resident_;
  std::set<ValueId> flying_;  ///< loads of several items that are in flight together
  std::map<std::pair<ValueId, int>, std::string> group_names_;
  std::vector<bool> varies_;
  std::vector<bool> for_columns_;
};

}  // namespace

Result<std::vector<Kernel>> emit_rows(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops,
                                      const schedule::Schedule& schedule, const Target& target, const EmitOptions& options,
                                      const std::vector<std::string>& names) {
  std::vector<Kernel> kernels;
  for (int dispatch = 0; dispatch < schedule.dispatches; ++dispatch) {
    VKF_TRY(kernel, Rows(graph, segment, loops, schedule, target, options, names, dispatch).run());
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace vkfuse::codegen

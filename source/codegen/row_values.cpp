// What the row template knows of a row: its folds, what is computed from them, and what is stored once per row.
#include <algorithm>

#include "codegen/rows.hpp"

namespace vkfuse::codegen {

using index::Expr;
using schedule::AccessKind;

FoldText Rows::make_fold(ValueId id) {
  const Value& value = loops_.values[id];
  FoldText fold;
  fold.id = id;
  fold.stage = value.stage;
  fold.node = &graph_.node(value.node);
  fold.operand = dtype(fold.node->operands[0]);
  fold.name = value_names_[id];
  fold.arg = fold.node->op->fold.kind == ops::Fold::Kind::arg;
  fold.prefix = is_scan(id);
  fold.accumulator = fold.prefix ? unique(fold.name + "_carry") : fold.arg ? unique(fold.name + "_best") : fold.name;
  fold.index = fold.arg ? fold.name : std::string();
  fold.join = unique(fold.name + "_join");
  fold.shared = unique(fold.name + "_shared");
  if (fold.arg) fold.shared_index = unique(fold.name + "_shared_index");
  fold.type = std::string(ops::glsl_type(ops::lane_of(fold.operand), dialect_.native_int64));
  fold.identity = fold_identity(graph_, *fold.node, dialect_);
  fold.words = std::max(1, size_of(fold.operand) / 4);
  return fold;
}

void Rows::declare(const std::string& type, const std::string& name, const std::string& start) {
  if (width() == 1) {
    main_.line("{} {} = {};", type, name, start);
    return;
  }
  std::string all = start;
  for (int j = 1; j < width(); ++j) all += ", " + start;
  main_.line("{0} {1}[{2}] = {0}[{2}]({3});", type, name, width(), all);
}

void Rows::declare_accumulators(int stage) {
  for (const FoldText& fold : folds_) {
    if (fold.stage != stage) continue;
    declare(fold.type, fold.accumulator, fold.identity);
    if (fold.arg) declare("uint", fold.index + "_i", "0xffffffffu");
  }
}

std::string Rows::narrowed(ValueId id, const std::string& text) const {
  const DType type = dtype_of(loops_.values[id]);
  return !is_float(type) || options_.numerics == Numerics::strict ? ops::narrow(type, text) : text;
}

void Rows::finish_folds(int stage) {
  for (const FoldText& fold : folds_) {
    if (fold.stage != stage || fold.prefix) continue;
    for (int j = 0; j < width(); ++j) {
      const std::string accumulator = at(fold.accumulator, j);
      if (fold.node->op->fold.kind == ops::Fold::Kind::mean) {
        const std::string count = fmt::format("{}(float({}))", fold.type, numbers_.size(loops_.column_count()));
        main_.line("{0} = {0} / {1};", accumulator, fold.operand == DType::f64 ? fmt::format("double({})", numbers_.size(loops_.column_count())) : count);
      }
      if (!fold.arg && narrowed(fold.id, accumulator) != accumulator) main_.line("{} = {};", accumulator, narrowed(fold.id, accumulator));
    }
    if (fold.arg) {
      if (width() == 1) {
        main_.line("int {} = int({}_i);", fold.index, fold.index);
      } else {
        main_.line("int {}[{}];", fold.index, width());
        for (int j = 0; j < width(); ++j) main_.line("{0}[{1}] = int({0}_i[{1}]);", fold.index, j);
      }
    }
    row_scope_.names[fold.id] = fold.arg ? fold.index : fold.accumulator;
  }
}

void Rows::set_row_axes(Scope& scope, bool element) const {
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

void Rows::set_column_axes(Scope& scope, bool element) const {
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

void Rows::set_row_element(Scope& scope, int j) const {
  scope.axes.clear();
  scope.known.clear();
  set_row_axes(scope, true);
  for (auto& entry : scope.axes) entry.second = index::substitute(entry.second, {{kElement, Expr(j)}});
}

Result<void> Rows::row_values(int stage) {
  std::vector<ValueId> own;
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    const Value& value = loops_.values[id];
    const bool folds = value.kind == Value::Kind::fold || value.kind == Value::Kind::sort;
    if (!folds && !is_literal(id) && !is_contracted(id) && !loops_.per_element(value) && value.stage == stage) own.push_back(id);
  }
  if (own.empty()) return {};
  return width() == 1 ? emit_values(row_scope_, own) : values_of_each_row(stage, own);
}

/// One function for each of the rows that a lane owns.
Result<void> Rows::values_of_each_row(int stage, const std::vector<ValueId>& own) {
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
    for (ValueId id : feeds) arguments += ", " + at(row_scope_.names.at(id), j);
    for (ValueId id : own) arguments += ", " + at(value_names_[id], j);
    main_.line("{}({});", function, arguments);
  }
  return {};
}

void Rows::row_stores(int stage) {
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    const segment::Store& store = loops_.stores[i];
    if ((store.axes & loops_.columns()) == 0 && loops_.values[store.value].stage == stage) own.push_back(i);
  }
  if (own.empty()) return;
  std::string who = "inside";
  if (schedule_.column_lanes > 1) who += " && column_lane == 0u";
  if (split_) who += " && part == 0u";
  main_.open("if ({}) {{", who);
  for (std::size_t i : own) store_rows(i);
  main_.close();
}

void Rows::store_rows(std::size_t i) {
  const segment::Store& store = loops_.stores[i];
  Scope scope = row_scope_;
  const std::string value = use(scope, store.value);
  if (width() == 1) {
    store_scalar(scope, i, value);
    return;
  }
  const auto of_row = [&](int j) { return is_literal(store.value) ? value : at(value, j); };
  if (schedule_.stores[i].kind == AccessKind::vector) {
    for (int g = 0; g < groups_; ++g) {
      std::string parts;
      for (int k = 0; k < group_; ++k) parts += (k == 0 ? "" : ", ") + of_row(g * group_ + k);
      main_.line("{0} {1}_{2} = {0}({3});", group_type_of(store.node), result_name(i), g, parts);
    }
    store_vectors(scope, i, "", "");
    return;
  }
  for (int j = 0; j < width(); ++j) {
    Scope element = scope;
    set_row_element(element, j);
    store_scalar(element, i, of_row(j));
  }
}

}  // namespace vkfuse::codegen

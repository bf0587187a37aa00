// The pointwise template: main() moves items, a function computes one element.
#include <algorithm>

#include "codegen/emitter.hpp"

namespace vkfuse::codegen {

using index::Expr;
using schedule::AccessKind;

namespace {

class Pointwise : public Emitter {
 public:
  using Emitter::Emitter;

  Result<std::vector<Kernel>> run() {
    items_ = numbers_.named("items", static_cast<std::uint32_t>(schedule_.items), "in the iteration space");
    if (!schedule_.exact) {
      const std::int64_t last = schedule_.elements - (schedule_.items - 1) * elements_;
      last_ = numbers_.named("last", static_cast<std::uint32_t>(std::max<std::int64_t>(last, 0)), "elements of the last item");
    }
    groups_x_ = numbers_.named("row", static_cast<std::uint32_t>(std::max<std::int64_t>(schedule_.workgroups_x, 1)), "workgroups in one row of the dispatch");
    find_products();
    sort_values();
    VKF_CHECK_OK(element_function());
    VKF_CHECK_OK(main_function());
    VKF_TRY(kernel, finish(fmt::format("{} elements per item, {} item{} in flight per invocation{}{}", elements_, schedule_.items_in_flight,
                                       schedule_.items_in_flight == 1 ? "" : "s", schedule_.exact ? "" : ", masked tail",
                                       schedule_.straddles && loops_.axes.size() > 1 ? ", items run across rows" : "")));
    kernel.groups_x = static_cast<std::uint32_t>(schedule_.workgroups_x);
    kernel.groups_y = schedule_.workgroups_x == 0 ? 0 : static_cast<std::uint32_t>(schedule::ceil_div(schedule_.workgroups, schedule_.workgroups_x));
    std::vector<Kernel> kernels;
    kernels.push_back(std::move(kernel));
    return kernels;
  }

 private:
  [[nodiscard]] bool varies(ValueId id) const { return schedule::varies_in_item(loops_, schedule_, loops_.values[id]); }
  /// Loads that main() does for the whole item.
  [[nodiscard]] bool is_vector(ValueId id) const {
    return loops_.values[id].kind == Value::Kind::load && schedule_.loads[id].kind == AccessKind::vector;
  }

  /// Which values are computed in the element function, which once per item.
  void sort_values() {
    std::vector<bool> used_by_element(loops_.values.size(), false);
    for (ValueId id = 0; id < loops_.values.size(); ++id) {
      if (is_literal(id)) continue;
      if (is_vector(id)) {
        vectors_.push_back(id);
      } else if (varies(id)) {
        per_element_.push_back(id);
      } else {
        per_item_.push_back(id);
      }
    }
    for (ValueId id : per_element_) {
      for (ValueId operand : loops_.values[id].operands) used_by_element[operand] = true;
      for (ValueId data : loops_.values[id].data) used_by_element[data] = true;
    }
    for (const segment::Store& store : loops_.stores) used_by_element[store.value] = true;
    // A contracted product's factors are read by the sum.
    for (const auto& entry : contracted_) {
      for (ValueId factor : loops_.values[entry.first].operands) used_by_element[factor] = true;
    }
    for (ValueId id : vectors_) {
      if (used_by_element[id]) feeds_.push_back(id);
    }
    for (ValueId id : per_item_) {
      if (used_by_element[id] && !is_contracted(id)) feeds_.push_back(id);
    }
  }

  /// Loop axes in terms of the item, or of one element's position.
  void set_axes(Scope& scope, bool element) const {
    Sizes sizes;
    for (const segment::Axis& axis : loops_.axes) sizes.push_back(axis.size);
    if (sizes.empty()) return;
    if (schedule_.straddles) {
      const Expr at = element ? Expr::axis(kPosition, std::max<std::int64_t>(loops_.count(), 2))
                              : Expr::axis(kItem, std::max<std::int64_t>(schedule::ceil_div(loops_.count(), elements_), 2)) * elements_;
      const std::vector<Expr> coordinates = index::delinearize(at, sizes);
      for (std::size_t i = 0; i < sizes.size(); ++i) scope.axes.emplace(static_cast<int>(i), coordinates[i]);
      return;
    }
    const std::int64_t per_row = sizes.back() / elements_;
    sizes.back() = per_row;
    const Expr item = Expr::axis(kItem, std::max<std::int64_t>(loops_.count() / elements_, 2));
    const std::vector<Expr> coordinates = index::delinearize(item, sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i) scope.axes.emplace(static_cast<int>(i), coordinates[i]);
    Expr& inner = scope.axes.at(static_cast<int>(sizes.size()) - 1);
    inner = inner * elements_;
    if (element && elements_ > 1) inner = inner + Expr::axis(kElement, elements_);
  }

  Result<void> element_function() {
    Scope scope;
    Writer body;
    scope.out = &body;
    set_axes(scope, true);
    scope.axis_names = {{kItem, "item"}, {kElement, "j"}, {kPosition, "position"}};
    for (ValueId id : feeds_) scope.names[id] = value_names_[id];
    body.indent();
    VKF_CHECK_OK(emit_values(scope, per_element_));
    for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
      const std::string value = use(scope, loops_.stores[i].value);
      if (schedule_.stores[i].kind == AccessKind::vector) {
        body.line("{} = {};", result_name(i), value);
      } else {
        store_scalar(scope, i, value);
      }
    }
    const std::string text = body.take();
    std::string parameters;
    const auto add = [&](const std::string& parameter) { parameters += (parameters.empty() ? "" : ", ") + parameter; };
    for (const char* name : {"position", "item", "j"}) {
      if (!mentions(text, name)) continue;
      add(std::string("uint ") + name);
      coordinates_.push_back(name);
    }
    for (ValueId id : feeds_) add(scalar_type(loops_.values[id].node) + " " + value_names_[id]);
    for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
      if (schedule_.stores[i].kind == AccessKind::vector) add("out " + scalar_type(loops_.stores[i].node) + " " + result_name(i));
    }
    functions_.line("// One element.");
    functions_.open("void element({}) {{", parameters);
    functions_.raw(text);
    functions_.close();
    functions_.blank();
    return {};
  }

  Result<void> main_function() {
    const int in_flight = schedule_.items_in_flight;
    main_.open("void main() {{");
    main_.line("uint workgroup = gl_WorkGroupID.y * {} + gl_WorkGroupID.x;", groups_x_);
    Scope scope;
    scope.out = &main_;
    scope.axis_names = {{kItem, "item"}};
    set_axes(scope, false);
    const bool by_position = std::find(coordinates_.begin(), coordinates_.end(), "position") != coordinates_.end();
    if (by_position && !schedule_.exact) main_.line("uint end = ({} - 1u) * {}u + {} - 1u;", items_, elements_, last_);
    if (in_flight == 1) {
      main_.line("uint item = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;");
      main_.line("if (item >= {}) return;", items_);
      if (by_position) main_.line("uint start = item * {}u;", elements_);
      VKF_CHECK_OK(per_item(scope));
      for (ValueId id : vectors_) load_vectors(scope, id, "");
      VKF_CHECK_OK(compute(scope, ""));
    } else {
      main_.line("uint first = workgroup * (gl_WorkGroupSize.x * {}u) + gl_LocalInvocationID.x;", in_flight);
      for (ValueId id : vectors_) {
        for (int v = 0; v < vectors_of(id); ++v) {
          const int bytes = schedule_.loads[id].vector_bytes;
          main_.line("{} {}[{}];", bytes == 16 ? "uvec4" : bytes == 8 ? "uvec2" : "uint", raw_name(id, v), in_flight);
        }
      }
      main_.line("// Every load is issued before the first result is needed.");
      main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", in_flight);
      main_.line("uint item = min(first + u * gl_WorkGroupSize.x, {} - 1u);", items_);
      Scope loading = scope;
      for (ValueId id : vectors_) load_vectors(loading, id, "[u]");
      main_.close();
      main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", in_flight);
      main_.line("uint item = first + u * gl_WorkGroupSize.x;");
      main_.line("if (item >= {}) return;", items_);
      VKF_CHECK_OK(per_item(scope));
      VKF_CHECK_OK(compute(scope, "[u]"));
      main_.close();
    }
    main_.close();
    return {};
  }

  Result<void> per_item(Scope& scope) { return emit_values(scope, per_item_); }

  Result<void> compute(Scope& scope, const std::string& slot) {
    for (int g = 0; g < groups_; ++g) {
      std::map<ValueId, std::string> groups;
      for (ValueId id : feeds_) {
        if (!is_vector(id)) continue;
        groups[id] = unique(value_names_[id] + "_" + std::to_string(g));
        main_.line("{} {} = {};", group_type_of(loops_.values[id].node), groups[id], unpacked(id, g, slot));
      }
      for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
        if (schedule_.stores[i].kind == AccessKind::vector) main_.line("{} {};", group_type_of(loops_.stores[i].node), result_group(i, g));
      }
      for (int i = 0; i < group_; ++i) {
        const int element = g * group_ + i;
        std::string arguments;
        const auto pass = [&](const std::string& argument) { arguments += (arguments.empty() ? "" : ", ") + argument; };
        for (const std::string& name : coordinates_) {
          if (name == "position") {
            // Elements after the end are computed again at the last one.
            const std::string at = element == 0 ? "start" : fmt::format("start + {}u", element);
            pass(schedule_.exact || element == 0 ? at : fmt::format("min({}, end)", at));
          } else {
            pass(name == "j" ? fmt::format("{}u", element) : name);
          }
        }
        for (ValueId id : feeds_) pass(is_vector(id) ? element_of(groups[id], i, group_) : use(scope, id));
        for (std::size_t k = 0; k < loops_.stores.size(); ++k) {
          if (schedule_.stores[k].kind == AccessKind::vector) pass(element_of(result_group(k, g), i, group_));
        }
        main_.line("element({});", arguments);
      }
    }
    for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
      if (schedule_.stores[i].kind != AccessKind::vector) continue;
      store_vectors(scope, i, schedule_.exact ? "" : fmt::format("item + 1u < {} || {} == {}u", items_, last_, elements_), schedule_.exact ? "" : last_);
    }
    return {};
  }

  std::string items_, last_, groups_x_;
  std::vector<ValueId> vectors_, per_item_, per_element_, feeds_;
  std::vector<std::string> coordinates_;
};

}  // namespace

Result<std::vector<Kernel>> emit_pointwise(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops,
                                           const schedule::Schedule& schedule, const Target& target, const EmitOptions& options,
                                           const std::vector<std::string>& names) {
  return Pointwise(graph, segment, loops, schedule, target, options, names).run();
}

}  // namespace vkfuse::codegen

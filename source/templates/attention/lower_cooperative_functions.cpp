// What attention takes matrices through element by element: reductions of rows, the softmax, scores and weights, and
// what is loaded beside the scores.
#include "templates/attention/lower_cooperative.hpp"

namespace vkfuse::lowering {

Result<void> CooperativeAttentionEmitter::call(const Part& part, const Code& name, const std::vector<Code>& known) {
  use_chunks_of(part);
  Scope scope = part_scope(part);
  VKF_CHECK_OK(emit_values(scope, part.per_chunk));
  for (ValueId id : part.vectors) load_vectors(scope, id, "");
  const std::map<ValueId, Code> groups = unpack_group(part, 0, "");
  std::vector<Code> passed = arguments(scope, part, 0, groups);
  passed.insert(passed.end(), known.begin(), known.end());
  main_.line("float {};", name);
  passed.push_back(name);
  main_.line("{}_element({});", part.name, listed(passed));
  return {};
}

Result<void> CooperativeAttentionEmitter::reduction_functions() {
  if (!keeps_nan_) functions_.line("// A NaN may get lost here: its exponential is NaN, too, and so is the row's sum.");
  if (called_by_device()) {
    functions_.open("float larger(const in float a, const in float b) {{");
    functions_.line("return {};", larger("a", "b"));
    functions_.close();
    functions_.blank();
    functions_.open("float added(const in float a, const in float b) {{");
    functions_.line("return a + b;");
    functions_.close();
    functions_.blank();
  }
  return value_function("larger_of", "const in float a, const in float b", [&]() -> Result<void> {
    main_.line("return {};", larger("a", "b"));
    return {};
  });
}

Result<void> CooperativeAttentionEmitter::softmax_functions() {
  const bool finite =
      softcapped() && softcap_->softcapped == tile_.values.score && divides(tile_.tile_k(), extent(tile_.axes.k));
  if (!finite) functions_.line("// A row without a score above -infinity so far has nothing to be compared with.");
  VKF_CHECK_OK(value_function("base_of", "const in float top", [&]() -> Result<void> {
    main_.line("return {}top;", finite ? "" : "top == uintBitsToFloat(0xff800000u) ? 0.0 : ");
    return {};
  }));
  if (softcapped()) functions_.line("// Scores that are capped have the factor log2(e) already.");
  return value_function("power_of", "const in float score, const in float base", [&]() -> Result<void> {
    main_.line("precise float fallen = score - base;");
    main_.line("return {};", softcapped() ? "exp2(fallen)" : apply("exp", {"fallen"}));
    return {};
  });
}

Result<void> CooperativeAttentionEmitter::rounding_function() {
  if (!rounds_weights()) return {};
  if (!called_by_device()) {
    functions_.line(
        "// The bits of a bf16 as those of an f16: sums of that type, which weights pass through, are common.");
    return value_function("rounded", "const in float weight", [&]() -> Result<void> {
      main_.line("return unpackHalf2x16((floatBitsToUint(weight) + 0x8000u) >> 16).x;");
      return {};
    });
  }
  functions_.line(
      "// Where matrices are converted to bf16, bits may be cut off (NVIDIA, 580): half a unit more rounds.");
  return value_function("rounded", "const in float weight", [&]() -> Result<void> {
    if (!has_softmax()) {
      main_.line("if (f32_magnitude_bits(weight) > 0x7f800000u) return uintBitsToFloat(0x7fc00000u);");
      main_.line("return uintBitsToFloat((floatBitsToUint(weight) + 0x8000u) & 0xffff0000u);");
      return {};
    }
    main_.line(
        "return uintBitsToFloat((floatBitsToUint(weight) + 0x8000u) & 0xffff0000u);  // NaN is in the total already");
    return {};
  });
}

/// Names the element of the scores that is `row` and `column` of a fragment.
void CooperativeAttentionEmitter::locate_element() {
  main_.line("uint m = {};", limited("first_m + row", extent(tile_.axes.m), tile_.tile_m()));
  main_.line("uint chunk = {};", limited("first_k + column", extent(tile_.axes.k), tile_.tile_k()));
}

std::vector<CooperativeAttentionEmitter::Passed> CooperativeAttentionEmitter::passed_to(std::size_t which) const {
  std::vector<Passed> all;
  for (const ValueId id : score_parts_[which].known) {
    Passed passed{.id = id};
    for (std::size_t i = 0; i < products_.size(); ++i) {
      if (tile_.products[i].sum != id) continue;
      passed.matrix = (i == 0 ? scores_ : other_products_) + "[j]";
      passed.parameter = i == 0 ? "product" : "other_product";
    }
    for (std::size_t i = 0; i < which; ++i) {
      if (held_weight(tile_.sums[i]) != id) continue;
      passed.matrix = weights_of(i);
      passed.parameter = names_.values[id];
    }
    for (const Beside& beside : loads_beside_) {
      if (beside.id != id) continue;
      // NVIDIA's compiler (580) fails where a matrix of another component type is passed to a function.
      const bool converts = beside.halves && called_by_device();
      passed.matrix = converts ? code("{}({}[j])", sum_type(), beside.matrices) : beside.matrices + "[j]";
      passed.parameter = names_.values[id];
    }
    all.push_back(std::move(passed));
  }
  return all;
}

/// What a function of the scores is passed, of f32 that a matrix holds.
Code CooperativeAttentionEmitter::passed_element(const Passed& passed) const {
  const Value& value = loops_.values[passed.id];
  if (value.kind == Value::Kind::nested) return passed.parameter;
  if (dtype_of(value) == DType::boolean) return passed.parameter + " != 0.0";
  return ops::register_type_of(dtype(value.node)) == ops::RegisterType::f32
             ? passed.parameter
             : code("{}({})", scalar_type(value.node), passed.parameter);
}

Result<void> CooperativeAttentionEmitter::score_function(std::size_t which, const Code& where) {
  Code given = products_.empty() ? "const in float product, " : "";
  std::vector<Code> known;
  for (const Passed& passed : passed_to(which)) {
    given += code("const in float {}, ", passed.parameter);
    known.push_back(passed_element(passed));
  }
  const Part& part = score_parts_[which];
  return of_element(part.name + "_at", given + where, [&]() -> Result<void> {
    locate_element();
    VKF_CHECK_OK(call(part, "score", known));
    const Extent positions = extent(tile_.axes.k);
    main_.line("return {}score;",
               divides(tile_.tile_k(), positions)
                   ? ""
                   : code("first_k + column >= {} ? {} : ", numbers_.size(positions.count), score_beyond()));
    return {};
  });
}

Result<void> CooperativeAttentionEmitter::element_functions() {
  functions_.line("// What matrices are taken through: `row` and `column` are those of a fragment.");
  if (has_softmax()) {
    VKF_CHECK_OK(reduction_functions());
    VKF_CHECK_OK(softmax_functions());
  }
  VKF_CHECK_OK(rounding_function());
  const Code where =
      Code(tile_.axes.batch.empty() ? "" : "const in uint batch, ") + "const in uint first_m, const in uint first_k";
  for (Beside& beside : loads_beside_) VKF_CHECK_OK(beside_function(beside, where));
  for (std::size_t i = 0; i < score_parts_.size(); ++i) VKF_CHECK_OK(score_function(i, where));
  if (!changes_weight()) return {};
  return of_element("weight_at", "const in float power, " + where, [&]() -> Result<void> {
    locate_element();
    VKF_CHECK_OK(call(weight_, "weight", {"power"}));
    main_.line("return weight;");
    return {};
  });
}

CooperativeAttentionEmitter::Beside CooperativeAttentionEmitter::make_beside(ValueId id) {
  Beside beside;
  beside.id = id;
  beside.matrices = unique(names_.values[id] + "_beside");
  beside.part = make_part({.name = beside.matrices,
                           .own = kK,
                           .along = segment::AxisSet{1} << tile_.axes.k.back(),
                           .values = {id},
                           .requested = {id}});
  beside.stride = stride_of_fragments(id);
  beside.halves = beside.stride && dtype_of(loops_.values[id]) == DType::f16;
  return beside;
}

/// A matrix of f16 that is no operand is one of sums, which not every device has.
bool CooperativeAttentionEmitter::is_loaded_as_matrix(DType type) const {
  const bool has_f16_sums =
      called_by_device() || (fragment_.a == DType::f16 && mapping_.elements == schedule::ElementAccess::shared_memory);
  return type == DType::f32 || (type == DType::f16 && has_f16_sums);
}

/// Between a load's rows along m, where positions of k are neighbours: 0 where all rows are one, and not only those of
/// the innermost axis.
std::optional<std::int64_t> CooperativeAttentionEmitter::row_stride(const Value& load) const {
  const auto stride = index::stride_of(load.offset, tile_.axes.m.back());
  if (!stride || *stride < 0 || index::stride_of(load.offset, tile_.axes.k.back()) != 1) return std::nullopt;
  const bool depends =
      std::any_of(tile_.axes.m.begin(), tile_.axes.m.end(), [&](int axis) { return ((load.axes >> axis) & 1u) != 0; });
  return *stride == 0 && depends ? std::nullopt : stride;
}

/// Of rows in memory whose fragments a matrix can be loaded from: they are whole, lie side by side along k and begin at
/// multiples of 16 bytes. What depends on k alone is one such row, 0 elements from the next.
std::optional<std::int64_t> CooperativeAttentionEmitter::stride_of_fragments(ValueId id) const {
  const Value& load = loops_.values[id];
  const DType type = dtype_of(load);
  if (tile_.axes.m.empty() || options_.hoist_sizes)
    return std::nullopt;  // a text that serves several sizes knows no stride
  const int last_m = tile_.axes.m.back();
  const std::int64_t rows = loops_.axes[static_cast<std::size_t>(last_m)].size;
  const std::int64_t positions = count(tile_.axes.k);
  if (!is_loaded_as_matrix(type) || !load.predicates.empty() || tile_.axes.k.size() != 1) return std::nullopt;
  if (positions % tile_.tile_k() != 0 || count(tile_.axes.m) % tile_.tile_m() != 0 || rows % fragment_.m != 0)
    return std::nullopt;
  const auto stride = row_stride(load);
  if (!stride) return std::nullopt;
  const std::int64_t aligned = 16 / size_of(type);
  const index::Expr corner = index::substitute(
      load.offset,
      {{last_m, index::Expr::axis(last_m, rows / fragment_.m) * fragment_.m},
       {tile_.axes.k.back(), index::Expr::axis(tile_.axes.k.back(), positions / fragment_.n) * fragment_.n}});
  const bool begins = *stride % aligned == 0 && index::alignment_of(corner, aligned) >= aligned;
  return begins ? stride : std::nullopt;
}

/// What is loaded element by element: a function that gives one.
Result<void> CooperativeAttentionEmitter::beside_function(Beside& beside, const Code& where) {
  if (beside.stride) return {};
  return of_element(beside.matrices + "_at", "const in float before, " + where, [&]() -> Result<void> {
    locate_element();
    use_chunks_of(beside.part);
    Scope scope = part_scope(beside.part);
    VKF_CHECK_OK(emit_values(scope, beside.part.per_chunk));
    VKF_CHECK_OK(emit_values(scope, beside.part.per_element));
    for (ValueId id : beside.part.vectors) load_vectors(scope, id, "");
    const std::map<ValueId, Code> groups = unpack_group(beside.part, 0, "");
    main_.line("return float({});",
               groups.empty() ? use(scope, beside.id) : element_of(groups.at(beside.id), 0, chunk_.group));
    return {};
  });
}

}  // namespace vkfuse::lowering

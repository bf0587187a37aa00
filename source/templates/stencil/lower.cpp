#include "templates/stencil/lower.hpp"

#include <algorithm>

#include "schedule/means.hpp"
#include "templates/stencil/lower_emitter.hpp"

namespace vkfuse::lowering {

using index::Expr;

namespace {

/// The start of a block along an axis whose last block begins early, and the number of a chunk along that of a window.
constexpr index::AxisId kStart = 1 << 27, kChunkNumber = 1 << 28;

constexpr const char* kStartNames[] = {"first", "first_row", "first_plane"};
constexpr const char* kChunkNames[] = {"row", "plane"};

}  // namespace

StencilEmitter::StencilEmitter(const LoweringInput& in, const schedule::StencilBlocks& blocks)
    : ChunkEmitter(in), params_(schedule_.as<schedule::StencilParams>()), blocks_(blocks) {
  count_ = schedule::block_volume(params_);
  of_results_.assign(loops_.values.size(), false);
  for (ValueId id : schedule::backward_slice_of_results(loops_)) of_results_[id] = true;
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    if (loops_.values[id].kind != Value::Kind::reduction) continue;
    // The groups of a chunk's results have the name of what is stored.
    const bool is_stored = std::any_of(loops_.stores.begin(), loops_.stores.end(),
                                       [&](const segment::Store& store) { return store.value == id; });
    if (is_stored) names_.values[id] = unique(names_.values[id] + "_v");
    Sum sum{id, schedule::sums_in_two_parts(graph_, loops_, id), unique(names_.values[id] + "_of"), {}};
    if (sum.in_two_parts) sum.low = unique(names_.values[id] + "_low");
    sums_.push_back(std::move(sum));
    of_results_[id] = true;
  }
}

Result<std::vector<RelocatableKernel>> StencilEmitter::run() {
  const Code blocks =
      numbers_.named("chunks", static_cast<std::uint32_t>(schedule_.launch.chunks), "blocks of results");
  groups_x_ =
      numbers_.named("row", static_cast<std::uint32_t>(std::max<std::int64_t>(schedule_.launch.workgroups_x, 1)),
                     "workgroups in one row of the dispatch");
  find_products_of_sums();
  find_reads();
  find_inputs();
  find_arrays_of_fixed();
  VKF_CHECK_OK(tap_function());
  sort_values();
  VKF_CHECK_OK(element_function());
  main_.open("void main() {{");
  main_.line("uint workgroup = gl_WorkGroupID.y * {} + gl_WorkGroupID.x;", groups_x_);
  main_.line("uint block = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;");
  main_.line("if (block >= {}) return;", blocks);
  VKF_CHECK_OK(main_function());
  main_.close();
  Code windows;
  for (std::size_t w = 0; w < params_.windows.size(); ++w)
    windows += (w == 0 ? "" : " x ") + std::to_string(blocks_.taps(w));
  return finish_one(code("windows of {}, {} results per thread in chunks of {}", windows, count_, chunk_.elements));
}

// --- positions ------------------------------------------------------------------------------------------------

std::int64_t StencilEmitter::block_extent(std::size_t number) const {
  const int axis = window(number).position;
  return axis == params_.chunk_axis ? 1 : blocks_.extent(axis);
}

std::string_view StencilEmitter::chunk_name(std::size_t number) const {
  // The innermost window whose axis has several chunks counts rows.
  int after = 0;
  for (std::size_t w = number + 1; w < params_.windows.size(); ++w)
    after += window(w).position != params_.chunk_axis ? 1 : 0;
  return kChunkNames[after];
}

ChunkEmitter::AxisNames StencilEmitter::own_axes() const {
  AxisNames names{{kTile, "block"}, {kElement, "j"}};
  if (blocks_.axis(params_.chunk_axis).overlaps()) names.emplace_back(kStart + params_.chunk_axis, kStartNames[0]);
  for (std::size_t w = 0; w < params_.windows.size(); ++w) {
    const int axis = window(w).position;
    if (block_extent(w) == 1) continue;
    const std::string_view name = chunk_name(w);
    names.emplace_back(kChunkNumber + static_cast<int>(w), name);
    if (blocks_.axis(axis).overlaps())
      names.emplace_back(kStart + axis, name == kChunkNames[0] ? kStartNames[1] : kStartNames[2]);
  }
  return names;
}

Code StencilEmitter::argument(const std::string& name, int element) const {
  return name == "j" ? code("{}u", element) : Code(name);
}

std::vector<std::pair<int, Expr>> StencilEmitter::block_numbers() const {
  const std::vector<int> axes = blocks_.axes_in_memory();
  Sizes sizes;
  for (int axis : axes) sizes.push_back(blocks_.axis(axis).blocks);
  const std::vector<Expr> numbers =
      index::delinearize(Expr::axis(kTile, std::max<std::int64_t>(blocks_.count(), 2)), sizes);
  std::vector<std::pair<int, Expr>> all;
  for (std::size_t i = 0; i < axes.size(); ++i) all.emplace_back(axes[i], numbers[i]);
  return all;
}

void StencilEmitter::set_axes(Scope& scope, bool element) const {
  for (const auto& [loop_axis, number_along] : block_numbers()) {
    const schedule::BlockAxis& axis = blocks_.axis(loop_axis);
    scope.axes[loop_axis] = axis.overlaps() ? Expr::axis(kStart + loop_axis, axis.starts) : number_along;
  }
  if (chunk_.elements > 1)
    scope.axes[blocks_.local_axis(params_.chunk_axis)] = element ? Expr::axis(kElement, chunk_.elements) : Expr(0);
  for (std::size_t w = 0; w < params_.windows.size(); ++w) {
    if (block_extent(w) == 1) continue;
    scope.axes[blocks_.local_axis(window(w).position)] =
        Expr::axis(kChunkNumber + static_cast<int>(w), block_extent(w));
  }
}

/// Names for what depends on the block alone.
void StencilEmitter::locate_block(Scope& scope) {
  for (const auto& [loop_axis, number_along] : block_numbers()) {
    const schedule::BlockAxis& axis = blocks_.axis(loop_axis);
    const Code number = scoped(scope, number_along);
    if (!axis.overlaps()) continue;
    const Code name = scope.axis_names.at(kStart + loop_axis);
    main_.line("uint {} = min({}, {});", name,
               axis.block_steps == 1 ? number : code("{} * {}u", number.parenthesised(), axis.block_steps),
               numbers_.size(axis.starts - 1));
  }
}

Code StencilEmitter::place(const Code& element) const {
  Code at;
  std::int64_t stride = chunk_.elements;
  for (std::size_t w = params_.windows.size(); w-- > 0;) {
    if (block_extent(w) == 1) continue;
    at = code("{} * {}u{}{}", chunk_name(w), stride, at.empty() ? "" : " + ", at);
    stride *= block_extent(w);
  }
  if (element.is_zero() && !at.empty()) return at;
  return at.empty() ? element : code("{} + {}", at, element);
}

// --- results --------------------------------------------------------------------------------------------------

bool StencilEmitter::is_loaded_whole(ValueId id) const {
  return loops_.values[id].kind == Value::Kind::reduction || ChunkEmitter::is_loaded_whole(id);
}

Code StencilEmitter::loaded_group(ValueId id, int group, const Code& register_index) {
  const auto sum = std::find_if(sums_.begin(), sums_.end(), [&](const Sum& one) { return one.id == id; });
  if (sum == sums_.end()) return ChunkEmitter::loaded_group(id, group, register_index);
  Code all;
  for (int i = 0; i < chunk_.group; ++i) {
    const Code one = code("{}[{}]", sum->name, place(code("{}u", group * chunk_.group + i)));
    all += (all.empty() ? "" : ", ") + one;
  }
  return chunk_.group == 1 ? all : code("{}({})", group_type_of(loops_.values[id].node), all);
}

void StencilEmitter::declare_sums() {
  for (const Sum& sum : sums_) {
    const ir::Node& node = graph_.node(loops_.values[sum.id].node);
    const Code identity = reduction_identity(graph_, node, dialect_);
    for (const Code& name : {sum.name, sum.low}) {
      if (name.empty()) continue;
      main_.line("{} {}[{}];", scalar_type(node.operands[0]), name, count_);
      main_.unrolled("i", count_, code("{}[i] = {};", name, identity));
    }
  }
}

void StencilEmitter::finish_sums() {
  const Code taps = numbers_.size(loops_.reduction_count());
  for (const Sum& sum : sums_) {
    const ir::Node& node = graph_.node(loops_.values[sum.id].node);
    const bool narrowed =
        narrows(node.type.dtype) && (!is_float(node.type.dtype) || options_.numerics == Numerics::strict);
    const bool mean = node.op->reduction.kind == ops::Reduction::Kind::mean;
    if (sum.in_two_parts)
      main_.unrolled("i", count_, code("f32_mean_parts({}[i], {}[i], {});", sum.name, sum.low, taps));
    else if (mean)
      main_.unrolled("i", count_, code("{0}[i] = {0}[i] / {1}({2});", sum.name, scalar_type(node.operands[0]), taps));
    if (narrowed)
      main_.unrolled("i", count_, code("{}[i] = {};", sum.name, narrow(node.type.dtype, dialect_, sum.name + "[i]")));
  }
}

/// A chunk after the other.
Result<void> StencilEmitter::results(const Scope& scope) {
  std::vector<std::size_t> opened;
  for (std::size_t w = 0; w < params_.windows.size(); ++w) {
    if (block_extent(w) == 1) continue;
    main_.open_unrolled(chunk_name(w), block_extent(w));
    opened.push_back(w);
  }
  Scope inner = scope;
  VKF_CHECK_OK(emit_values(inner, per_chunk_));
  for (ValueId id : vectors_) load_vectors(inner, id, "");
  compute(inner, "");
  store(inner, "", "");
  for (std::size_t i = 0; i < opened.size(); ++i) main_.close();
  return {};
}

Result<void> StencilEmitter::main_function() {
  Scope scope = chunk_scope();
  locate_block(scope);
  declare_sums();
  Scope reading = scope;
  VKF_CHECK_OK(fixed_values(reading));
  VKF_CHECK_OK(serial_positions(reading));
  finish_sums();
  return results(reading);
}

Result<std::vector<RelocatableKernel>> lower_stencil(const LoweringInput& in) {
  const schedule::StencilBlocks blocks(in.loops, in.schedule.as<schedule::StencilParams>());
  return StencilEmitter(in.with(blocks.loops()), blocks).run();
}

}  // namespace vkfuse::lowering

// Workgroup-scope cooperative matrices: the workgroup multiplies a tile as one. The device brings operands from memory
// and takes results there, and how its subgroups share the work is its own; results are computed element by element
// where they are.
#include <algorithm>

#include "schedule/operands.hpp"
#include "templates/matmul/lower_emitter.hpp"
#include "templates/matmul/tiles.hpp"

namespace vkfuse::lowering {

namespace {

Code workgroup_matrix(DType dtype, int rows, int columns, const char* use) {
  return fragment(dtype, static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(columns), use, "Workgroup");
}

}  // namespace

Result<void> MatmulEmitter::result_of_workgroup_tile() {
  Code parameters = "const in float product";
  for (ValueId id : tile_.workgroup()->beside) parameters += code(", const in float {}", names_.values[id]);
  parameters +=
      code(", {}const in uint first_m, const in uint first_n", tile_.batch.empty() ? "" : "const in uint batch, ");
  return of_element("result_at", parameters, [&]() -> Result<void> {
    main_.line("uint m = first_m + row;");
    main_.line("uint chunk = first_n + column;");
    use_chunks_of(results_);
    Scope scope = part_scope(results_);
    VKF_TRY(groups, load_chunk(scope, results_));
    std::vector<Code> passed = arguments(scope, results_, 0, groups);
    for (ValueId id : results_.known) {
      const bool is_sum = id == tile_.sums[0].reduction;
      passed.push_back(is_sum ? known_name(id, {}, 0, [](std::size_t, int) { return "product"; }) : names_.values[id]);
    }
    passed.emplace_back("whole");
    main_.line("float whole;");
    main_.line("result_element({});", listed(passed));
    // Sums become bf16 as bits are cut off where matrices are converted (NVIDIA, 580).
    const DType stored = dtype(loops_.stores[0].node);
    main_.line("return {};", stored == DType::bf16 ? narrow(stored, dialect_, "whole") : "whole");
    return {};
  });
}

void MatmulEmitter::layout_of(const Code& name, const Code& rows, const Code& columns, std::int64_t stride,
                              bool clamped) {
  const char* mode = clamped ? ", gl_CooperativeMatrixClampModeConstantNV" : "";
  main_.line("tensorLayoutNV<2{1}> {0} = createTensorLayoutNV(2{1});", name, mode);
  main_.line("{0} = setTensorLayoutDimensionNV({0}, {1}, {2});", name, rows, columns);
  main_.line("{0} = setTensorLayoutStrideNV({0}, {1}, 1u);", name, numbers_.size(stride));
}

/// Of the sum, what a workgroup adds up, and where that begins, in chunks of so many elements.
std::int64_t MatmulEmitter::depth_of_part() const { return count(tile_.k) / (leaves_parts() ? schedule_.splits : 1); }
Code MatmulEmitter::first_k(int elements) {
  return leaves_parts() ? code("part * {}", numbers_.size(depth_of_part() / elements)) : "0u";
}

/// Names the layout of an operand's rows in memory, and where a tile's begin.
MatmulEmitter::TensorLoad MatmulEmitter::locate_rows(const TileOperand& tile_operand,
                                                     const schedule::TileOperand& planned) {
  const bool second = tile_operand.across == kN;
  const bool along_k = tile_operand.along_k();
  const ValueId id = schedule::sub32_value(graph_, loops_, tile_operand.value);
  const Value& load = loops_.values[id];
  const auto rows = schedule::rows_of_operand(loops_, tile_, planned, load.offset, dtype(load.node));
  TensorLoad piece = {.tile_operand = &tile_operand,
                      .buffer = names_.nodes.at(load.node),
                      .rows = unique(names_.values[id] + "_rows"),
                      .stride = rows->stride,
                      .found_by_step = rows->found_by_step,
                      .turned = along_k == second};  // a first operand is (m, k), a second one (k, n)
  layout_of_piece(piece, piece.rows, false);
  if (!piece.found_by_step) find_piece(piece, first_k(along_k ? tile_operand.part.elements : 1));
  return piece;
}

void MatmulEmitter::layout_of_piece(const TensorLoad& piece, const Code& name, bool clamped) {
  const bool along_k = piece.tile_operand->along_k();
  const Code own = code("{}u", piece.tile_operand->extent);
  const Code depth = piece.found_by_step ? code("{}u", shape_.k) : numbers_.size(depth_of_part());
  layout_of(name, along_k ? own : depth, along_k ? depth : own, piece.stride, clamped);
}

/// Where the tile's part of an operand begins at a position of k.
void MatmulEmitter::find_piece(const TensorLoad& piece, const Code& k) {
  const TileOperand& tile_operand = *piece.tile_operand;
  const bool second = tile_operand.across == kN;
  const Value& load = loops_.values[schedule::sub32_value(graph_, loops_, tile_operand.value)];
  const bool at_start = !piece.found_by_step;
  main_.line("uint {}_at;", piece.rows);
  main_.open("{{");
  if (tile_operand.along_k()) {
    main_.line("uint {} = {};", second ? "n" : "m", second ? "first_n" : "first_m");
    main_.line("uint chunk = {};", at_start ? k : code("{} / {}u", k, tile_operand.part.elements));
  } else {
    main_.line("uint chunk = {} / {}u;", second ? "first_n" : "first_m", tile_operand.part.elements);
    if (at_start) main_.line("uint k = {};", k);
  }
  use_chunks_of(tile_operand.part);
  Scope scope = part_scope(tile_operand.part);
  main_.line("{}_at = {};", piece.rows,
             scoped(scope, chunk_vector(scope, load.offset, buffer_bytes(load.node) / size_of(dtype(load.node)))));
  main_.close();
}

void MatmulEmitter::multiply_step(const std::vector<TensorLoad>& pieces, const std::vector<Code>& layouts) {
  Code names[2];
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const TensorLoad& piece = pieces[i];
    const TileOperand& tile_operand = *piece.tile_operand;
    const bool second = tile_operand.across == kN;
    names[second ? 1 : 0] = tile_operand.part.name;
    main_.line("{} {};",
               second ? workgroup_matrix(tile_.mma()->a, shape_.k, shape_.n, "B")
                      : workgroup_matrix(tile_.mma()->a, shape_.m, shape_.k, "A"),
               tile_operand.part.name);
    if (piece.found_by_step) find_piece(piece, leaves_parts() ? code("({} + k)", first_k(1)) : "k");
    const Code k = piece.found_by_step ? "0u" : "k";
    const Code slice = tile_operand.along_k() ? code("0u, {}u, {}, {}u", tile_operand.extent, k, shape_.k)
                                              : code("{}, {}u, 0u, {}u", k, shape_.k, tile_operand.extent);
    main_.line("coopMatLoadTensorNV({}, {}.w, {}_at, sliceTensorLayoutNV({}, {}){});", tile_operand.part.name,
               piece.buffer, piece.rows, layouts[i], slice, piece.turned ? ", turned" : "");
  }
  main_.line("{0} = coopMatMulAdd({1}, {2}, {0});", sums_[0], names[0], names[1]);
}

void MatmulEmitter::multiply_workgroup_tile(const std::vector<TensorLoad>& pieces) {
  main_.line("{0} {1} = {0}(0.0);", workgroup_matrix(tile_.mma()->c, shape_.m, shape_.n, "Accumulator"), sums_[0]);
  const Extent all = extent(tile_.k);
  const bool whole = divides(shape_.k, all);
  std::vector<Code> layouts;
  for (const TensorLoad& piece : pieces) layouts.push_back(piece.rows);
  if (leaves_parts()) {
    main_.open("for (uint k = 0u; k < {}; k += {}u) {{", numbers_.size(depth_of_part()), shape_.k);
    multiply_step(pieces, layouts);
    main_.close();
    return;
  }
  const std::int64_t steps = all.count / shape_.k;
  const std::int64_t decided = all.decided / shape_.k;
  Code end = numbers_.size(steps * shape_.k);
  if (!divides(schedule::kStepsOfWorkgroupTiles, {steps, decided})) {
    numbers_.named("depth", static_cast<std::uint32_t>(steps * shape_.k), "of the sums; not known to the compiler");
    end = "p.depth";
  }
  main_.open("for (uint k = 0u; k < {}; k += {}u) {{", end, shape_.k);
  multiply_step(pieces, layouts);
  main_.close();
  if (whole) return;
  main_.line("// The rest of the sums: what is beyond their end is read as zeros.");
  main_.open("{{");
  main_.line("uint k = {};", numbers_.size(all.count / shape_.k * shape_.k));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    layouts[i] = unique(pieces[i].rows + "_end");
    layout_of_piece(pieces[i], layouts[i], true);
  }
  multiply_step(pieces, layouts);
  main_.close();
}

/// Brings what lies along m and n; its name, as a matrix of f32.
Code MatmulEmitter::bring_beside(ValueId id) {
  const Value& load = loops_.values[id];
  const DType type = dtype(load.node);
  const Code& buffer = names_.nodes.at(load.node);
  const Code name = unique(names_.values[id] + "_tile");
  const Code rows = unique(names_.values[id] + "_rows");
  main_.line("{} {};", workgroup_matrix(type, shape_.m, shape_.n, "Accumulator"), name);
  layout_of(rows, code("{}u", shape_.m), code("{}u", shape_.n),
            *schedule::stride_of_results(loops_, tile_, load.offset, type), false);
  use_chunks_of(results_);
  Scope scope = part_scope(results_);
  main_.line("coopMatLoadTensorNV({}, {}.w, {}, sliceTensorLayoutNV({}, 0u, {}u, 0u, {}u));", name, buffer,
             scoped(scope, chunk_vector(scope, load.offset, buffer_bytes(load.node) / size_of(type))), rows, shape_.m,
             shape_.n);
  return type == DType::f32 ? name
                            : code("{}({})", workgroup_matrix(DType::f32, shape_.m, shape_.n, "Accumulator"), name);
}

/// As leave_partial does, all elements of the tile at once.
void MatmulEmitter::leave_workgroup_tile() {
  main_.line("uint m = first_m;");
  main_.line("uint chunk = first_n / 4u;");
  const std::int64_t row = schedule::ceil_div(count(tile_.n), 4);
  layout_of("partial_rows", code("{}u", shape_.m), code("{}u", shape_.n), 4 * row, false);
  main_.line("coopMatStoreTensorNV({}, partials.w, {}, sliceTensorLayoutNV(partial_rows, 0u, {}u, 0u, {}u));", sums_[0],
             partial_position("part", 0, 1), shape_.m, shape_.n);
}

void MatmulEmitter::store_workgroup_tile() {
  const segment::Store& store = loops_.stores[0];
  const DType stored = dtype(store.node);
  Code results = sums_[0];
  main_.line("uint m = first_m;");
  main_.line("uint chunk = first_n;");
  std::vector<Code> passed{results, results, "result_at"};
  for (ValueId id : tile_.workgroup()->beside) passed.push_back(bring_beside(id));
  if (!tile_.batch.empty()) passed.emplace_back("batch");
  passed.insert(passed.end(), {"first_m", "first_n"});
  main_.line("coopMatPerElementNV({});", listed(passed));
  if (stored != DType::f32) {
    const Code rounded = unique("rounded");
    main_.line("{0} {1} = {0}({2});", workgroup_matrix(stored, shape_.m, shape_.n, "Accumulator"), rounded, results);
    results = rounded;
  }
  const Code& buffer = names_.nodes.at(store.node);
  const Code rows = unique(buffer + "_rows");
  layout_of(rows, code("{}u", shape_.m), code("{}u", shape_.n),
            *schedule::stride_of_results(loops_, tile_, store.offset, stored), false);
  use_chunks_of(results_);
  Scope scope = part_scope(results_);
  main_.line("coopMatStoreTensorNV({}, {}.w, {}, sliceTensorLayoutNV({}, 0u, {}u, 0u, {}u));", results, buffer,
             scoped(scope, chunk_vector(scope, store.offset, buffer_bytes(store.node) / size_of(stored))), rows,
             shape_.m, shape_.n);
}

/// Where a tile begins: one that would stand out begins earlier, and its first results are found twice.
void MatmulEmitter::locate_first(const Code& first, const Code& tile, int piece, const std::vector<int>& axes) {
  if (divides(piece, extent(axes)))
    main_.line("uint {} = {} * {}u;", first, tile, piece);
  else
    main_.line("uint {} = min({} * {}u, {});", first, tile, piece, numbers_.size(count(axes) - piece));
}

Result<void> MatmulEmitter::workgroup_tile_main() {
  main_.open("void main() {{");
  locate_tile();
  locate_first("first_m", "tile_m", shape_.m, tile_.m);
  locate_first("first_n", "tile_n", shape_.n, tile_.n);
  std::vector<TensorLoad> pieces;
  for (std::size_t i = 0; i < tile_operands_.size(); ++i)
    pieces.push_back(locate_rows(tile_operands_[i], tile_.tile_operands[i]));
  if (std::any_of(pieces.begin(), pieces.end(), [](const TensorLoad& piece) { return piece.turned; }))
    main_.line("tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);");
  multiply_workgroup_tile(pieces);
  if (leaves_parts()) {
    leave_workgroup_tile();
  } else {
    store_workgroup_tile();
  }
  main_.close();
  return {};
}

}  // namespace vkfuse::lowering

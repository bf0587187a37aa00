// Workgroup-scope cooperative matrices: the workgroup multiplies a tile as one. The device brings operands from memory
// and takes results there, and how its subgroups share the work is its own; results are computed element by element
// where they are.
#include <algorithm>

#include "schedule/operands.hpp"
#include "templates/matmul/lower_emitter.hpp"

namespace vkfuse::lowering {

namespace {

Code workgroup_matrix(DType dtype, int rows, int columns, const char* use) {
  return fragment(dtype, static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(columns), use, "Workgroup");
}

}  // namespace

Result<void> MatmulEmitter::result_of_workgroup_tile() {
  const Code where =
      Code(tile_.batch.empty() ? "" : "const in uint batch, ") + "const in uint first_m, const in uint first_n";
  return of_element("result_at", "const in float product, " + where, [&]() -> Result<void> {
    main_.line("uint m = first_m + row;");
    main_.line("uint chunk = first_n + column;");
    use_chunks_of(results_);
    Scope scope = part_scope(results_);
    VKF_TRY(groups, load_chunk(scope, results_));
    std::vector<Code> passed = arguments(scope, results_, 0, groups);
    for (ValueId id : results_.known)
      passed.push_back(known_name(id, {}, 0, [](std::size_t, int) { return "product"; }));
    passed.emplace_back("whole");
    main_.line("float whole;");
    main_.line("result_element({});", listed(passed));
    // Sums become bf16 as bits are cut off where matrices are converted (NVIDIA, 580).
    const DType stored = dtype(loops_.stores[0].node);
    main_.line("return {};", stored == DType::bf16 ? narrow(stored, dialect_, "whole") : "whole");
    return {};
  });
}

void MatmulEmitter::layout_of(const Code& name, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  main_.line("tensorLayoutNV<2> {} = createTensorLayoutNV(2);", name);
  main_.line("{0} = setTensorLayoutDimensionNV({0}, {1}, {2});", name, numbers_.size(rows), numbers_.size(columns));
  main_.line("{0} = setTensorLayoutStrideNV({0}, {1}, 1u);", name, numbers_.size(stride));
}

/// Names the layout of an operand's rows in memory, and where a tile's begin.
MatmulEmitter::TensorLoad MatmulEmitter::locate_rows(const TileOperand& tile_operand) {
  const bool second = tile_operand.across == kN;
  const ValueId id = schedule::sub32_value(graph_, loops_, tile_operand.value);
  const Value& load = loops_.values[id];
  const Code& buffer = names_.nodes.at(load.node);
  const Code name = unique(names_.values[id] + "_rows");
  const bool along_k = tile_operand.along_k();
  const std::int64_t depth = count(tile_.k);
  const std::vector<int>& own = second ? tile_.n : tile_.m;
  const std::int64_t stride = *schedule::row_stride(loops_, load.offset, along_k ? own : tile_.k,
                                                    along_k ? tile_.k : own, 16 / size_of(dtype(load.node)));
  layout_of(name, along_k ? tile_operand.extent : depth, along_k ? depth : tile_operand.extent, stride);
  main_.line("uint {}_at;", name);
  main_.open("{{");
  if (along_k) {
    main_.line("uint {} = {};", second ? "n" : "m", second ? "first_n" : "first_m");
    main_.line("uint chunk = 0u;");
  } else {
    main_.line("uint chunk = {} / {}u;", second ? "first_n" : "first_m", tile_operand.part.elements);
    main_.line("uint k = 0u;");
  }
  use_chunks_of(tile_operand.part);
  Scope scope = part_scope(tile_operand.part);
  main_.line("{}_at = {};", name,
             scoped(scope, chunk_vector(scope, load.offset, buffer_bytes(load.node) / size_of(dtype(load.node)))));
  main_.close();
  const bool turned = along_k == second;  // a first operand is (m, k), a second one (k, n)
  const Code slice = along_k ? code("0u, {}u, k, {}u", tile_operand.extent, shape_.k)
                             : code("k, {}u, 0u, {}u", shape_.k, tile_operand.extent);
  return {code("coopMatLoadTensorNV({}, {}.w, {}_at, sliceTensorLayoutNV({}, {}){});", tile_operand.part.name, buffer,
               name, name, slice, turned ? ", turned" : ""),
          turned};
}

void MatmulEmitter::multiply_workgroup_tile(const std::vector<TensorLoad>& loads) {
  main_.line("{0} {1} = {0}(0.0);", workgroup_matrix(tile_.mma()->c, shape_.m, shape_.n, "Accumulator"), sums_[0]);
  main_.open("for (uint k = 0u; k < {}; k += {}u) {{", numbers_.size(count(tile_.k)), shape_.k);
  Code names[2];
  for (std::size_t i = 0; i < tile_operands_.size(); ++i) {
    const bool second = tile_operands_[i].across == kN;
    names[second ? 1 : 0] = tile_operands_[i].part.name;
    main_.line("{} {};",
               second ? workgroup_matrix(tile_.mma()->a, shape_.k, shape_.n, "B")
                      : workgroup_matrix(tile_.mma()->a, shape_.m, shape_.k, "A"),
               tile_operands_[i].part.name);
    main_.line("{}", loads[i].statement);
  }
  main_.line("{0} = coopMatMulAdd({1}, {2}, {0});", sums_[0], names[0], names[1]);
  main_.close();
}

void MatmulEmitter::store_workgroup_tile() {
  const segment::Store& store = loops_.stores[0];
  const DType stored = dtype(store.node);
  Code results = sums_[0];
  main_.line("coopMatPerElementNV({0}, {0}, result_at, {1}first_m, first_n);", results,
             tile_.batch.empty() ? "" : "batch, ");
  if (stored != DType::f32) {
    const Code rounded = unique("rounded");
    main_.line("{0} {1} = {0}({2});", workgroup_matrix(stored, shape_.m, shape_.n, "Accumulator"), rounded, results);
    results = rounded;
  }
  const Code& buffer = names_.nodes.at(store.node);
  const Code rows = unique(buffer + "_rows");
  layout_of(rows, shape_.m, shape_.n,
            *schedule::row_stride(loops_, store.offset, tile_.m, tile_.n, 16 / size_of(stored)));
  main_.line("uint m = first_m;");
  main_.line("uint chunk = first_n;");
  use_chunks_of(results_);
  Scope scope = part_scope(results_);
  main_.line("coopMatStoreTensorNV({}, {}.w, {}, sliceTensorLayoutNV({}, 0u, {}u, 0u, {}u));", results, buffer,
             scoped(scope, chunk_vector(scope, store.offset, buffer_bytes(store.node) / size_of(stored))), rows,
             shape_.m, shape_.n);
}

Result<void> MatmulEmitter::workgroup_tile_main() {
  main_.open("void main() {{");
  locate_tile();
  main_.line("uint first_m = tile_m * {}u;", shape_.m);
  main_.line("uint first_n = tile_n * {}u;", shape_.n);
  std::vector<TensorLoad> loads;
  for (const TileOperand& tile_operand : tile_operands_) loads.push_back(locate_rows(tile_operand));
  if (std::any_of(loads.begin(), loads.end(), [](const TensorLoad& load) { return load.turned; }))
    main_.line("tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);");
  multiply_workgroup_tile(loads);
  store_workgroup_tile();
  main_.close();
  return {};
}

}  // namespace vkfuse::lowering

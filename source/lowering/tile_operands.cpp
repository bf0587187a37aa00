// Operands of the templates that multiply tiles in shared memory: from memory to there.
#include "lowering/tile_operands.hpp"

#include <algorithm>
#include <set>

#include "schedule/operands.hpp"

namespace vkfuse::lowering {

namespace {

/// The type of an array's element that is so many of a tile's.
Code tile_word(DType dtype, int count) {
  return count == 1 ? Code(component(dtype)) : Code(word_type(size_of(dtype) * count));
}

/// A position in tile number `tile`, of which each has `piece`; in the first one where no number is given.
Code in_tensor(const Code& tile, int piece, const Code& in_tile) {
  return tile.empty() ? in_tile : code("{} * {}u + {}", tile, piece, in_tile);
}

}  // namespace

/// Of what is known of rows, that which the operand's values ask for.
std::vector<ValueId> OperandEmitter::take_row_values(const TileOperandSpec& spec, const std::vector<ValueId>& requested,
                                                     TileOperand& tile_operand) const {
  std::vector<ValueId> known;
  for (const auto& row : spec.of_rows) {
    const auto asks = [&](ValueId user) {
      const Value& value = loops_.values[user];
      return std::ranges::find(value.operands, row.first) != value.operands.end() ||
             std::ranges::find(value.data, row.first) != value.data.end();
    };
    if (std::none_of(spec.backward_slice.begin(), spec.backward_slice.end(), asks) &&
        std::find(requested.begin(), requested.end(), row.first) == requested.end())
      continue;
    known.push_back(row.first);
    tile_operand.of_rows.insert(row);
  }
  return known;
}

bool OperandEmitter::can_prefetch(const TileOperand& tile_operand) const {
  int words = 0;
  for (ValueId id : tile_operand.part.vectors) {
    if (is_kept(tile_operand.part, id)) continue;
    words += schedule::registers_of_chunk(schedule_.loads[id], size_of(dtype_of(loops_.values[id])),
                                          tile_operand.part.elements);
  }
  return target_.type != DeviceType::cpu && schedule::is_double_buffered(words, tile_operand.staging.iterations);
}

OperandEmitter::TileOperand OperandEmitter::make_tile_operand(TileOperandSpec spec) {
  TileOperand tile_operand;
  tile_operand.value = spec.value;
  tile_operand.across = spec.across;
  tile_operand.depth = spec.depth;
  tile_operand.extent = spec.extent;
  tile_operand.k_extent = spec.k_extent;
  tile_operand.beside = std::move(spec.beside);
  const Counted& own = counted(spec.along_k ? spec.depth : spec.across);
  segment::AxisSet along = 0;
  for (int axis : own.axes) along = (spec.flattened ? along : 0) | segment::AxisSet{1} << axis;
  std::vector<ValueId> requested{spec.value};
  for (const auto& other : tile_operand.beside) requested.push_back(other.first);
  std::vector<ValueId> known = take_row_values(spec, requested, tile_operand);
  const bool alone = spec.backward_slice.size() == 1;
  tile_operand.part = make_part({.name = unique(names_.values[spec.value] + "_factor"),
                                 .own = own.id,
                                 .along = along,
                                 .flattened = spec.flattened,
                                 .elements = spec.elements,
                                 .values = std::move(spec.backward_slice),
                                 .requested = std::move(requested),
                                 .known = std::move(known),
                                 .has_fields = spec.has_fields});
  tile_operand.part.kept = std::move(spec.kept);
  tile_operand.plain = alone && tile_operand.part.vectors.size() == 1 && tile_operand.beside.empty();
  tile_operand.tile = unique(names_.values[spec.value] + (spec.chunks_of_lane > 0 ? "_words" : "_tile"));
  tile_operand.staging.chunks = std::int64_t{spec.extent} * spec.k_extent / spec.elements;
  tile_operand.staging.iterations = schedule::ceil_div(tile_operand.staging.chunks, schedule_.workgroup);
  tile_operand.staging.prefetched = can_prefetch(tile_operand);
  if (spec.chunks_of_lane > 0) {
    tile_operand.staging.iterations = spec.chunks_of_lane;
    tile_operand.staging.prefetched = spec.chunks_of_lane > 1;
  }
  for (const ValueId id : loads_of_chunks(tile_operand))
    tile_operand.ahead.emplace(id, unique(names_.values[id] + "_ahead"));
  unroll_where_it_pays(tile_operand);
  return tile_operand;
}

/// On a GPU, registers are told apart by the counter. On a CPU they are memory anyway, and what is unrolled is compiled
/// as often.
void OperandEmitter::unroll_where_it_pays(TileOperand& tile_operand) const {
  tile_operand.staging.unrolled =
      tile_operand.staging.prefetched || (!tile_operand.beside.empty() && target_.type != DeviceType::cpu);
}

void OperandEmitter::write_fields(const TileOperand& tile_operand) {
  const UnpackedFields& fields = tile_operand.part.fields;
  if (fields.empty()) return;
  use_chunks_of(tile_operand.part);
  found_.sub_byte_fields.insert(fields.begin(), fields.end());
  write_sub_byte_functions(fields);
}

Result<void> OperandEmitter::tile_operand_function(TileOperand& tile_operand) {
  if (tile_operand.plain || tile_operand.encoding.as_read || tile_operand.encoding.copied ||
      tile_operand.encoding.pairs)
    return {};
  std::vector<Code> results = {"out " + scalar_type(loops_.values[tile_operand.value].node) + " tile_operand"};
  for (const auto& [id, name] : tile_operand.beside)
    results.push_back(code("out {} {}", scalar_type(loops_.values[id].node), name));
  functions_.line("// One element of an operand.");
  return element_function(
      tile_operand.part,
      [&](Scope& scope) {
        scope.out->line("tile_operand = {};", use(scope, tile_operand.value));
        for (const auto& [id, name] : tile_operand.beside) scope.out->line("{} = {};", name, use(scope, id));
      },
      results);
}

/// Chunks whose loads a thread may have in flight; all, unless the driver's compiler is left the choice on a GPU.
int OperandEmitter::chunks_in_flight(const TileOperand& tile_operand) const {
  const auto all = static_cast<int>(tile_operand.staging.iterations);
  if (!tile_operand.staging.unrolled && schedule::has_few_registers(target_)) return 1;
  return tile_operand.staging.unrolled || target_.type == DeviceType::cpu ? all : schedule::loads_in_flight(all);
}

void OperandEmitter::close_chunks(const TileOperand& tile_operand) {
  main_.close();
  const int together = chunks_in_flight(tile_operand);
  if (together > 1 && together < tile_operand.staging.iterations) main_.close();
}

/// Whether a thread's chunks are all at the same position of their rows, which is found once then.
bool OperandEmitter::keeps_position(const TileOperand& tile_operand) const {
  return tile_operand.staging.positions_once && !tile_operand.encoding.turned &&
         tile_operand.staging.chunks % schedule_.workgroup == 0 &&
         schedule_.workgroup % chunks_of_row(tile_operand) == 0;
}

/// Opens the loop over a thread's chunks, or none for one; unrolled where registers are told apart by its counter.
/// Whether every thread has a chunk each time.
bool OperandEmitter::open_chunks(const TileOperand& tile_operand) {
  if (tile_operand.staging.iterations > 1) {
    const int together = chunks_in_flight(tile_operand);
    if (together == 1) {
      main_.line("// One load at a time: lanes have few registers.");
      main_.open("[[dont_unroll]] for (uint u = 0u; u < {}u; ++u) {{", tile_operand.staging.iterations);
    } else if (together < tile_operand.staging.iterations) {
      main_.line("// A few loads at a time: all of them would crowd out what has been added up.");
      main_.open("[[dont_unroll]] for (uint start = 0u; start < {}u; start += {}u) {{", tile_operand.staging.iterations,
                 together);
      main_.open("[[unroll]] for (uint u = start; u < start + {}u; ++u) {{", together);
    } else if (tile_operand.staging.unrolled) {
      main_.open_unrolled("u", tile_operand.staging.iterations);
    } else {
      // CPU drivers unroll it unless told not to, and then compile twice as long for nothing.
      main_.open("{}for (uint u = 0u; u < {}u; ++u) {{", target_.type == DeviceType::cpu ? "[[dont_unroll]] " : "",
                 tile_operand.staging.iterations);
    }
    if (!keeps_position(tile_operand)) main_.line("uint unit = u * {}u + thread;", schedule_.workgroup);
  } else {
    main_.open("{{");
    if (tile_operand.staging.unrolled || !tile_operand.beside.empty()) main_.line("const uint u = 0u;");
    if (!keeps_position(tile_operand)) main_.line("uint unit = thread;");
  }
  return tile_operand.staging.chunks % schedule_.workgroup == 0;
}

Code OperandEmitter::limited(const Code& position, Extent all, int piece) {
  return divides(piece, all) ? position : code("min({}, {} - 1u)", position, numbers_.size(all.count));
}

/// Names the row and the column of a thread's chunk in the tile: neighbouring chunks are neighbours in memory.
void OperandEmitter::locate_in_tile(const TileOperand& tile_operand, int per_tile, int per_step) {
  const bool along_k = tile_operand.along_k();
  // Of 32 threads: rows of a turned tile begin in the same bank, columns in neighbouring ones.
  constexpr int kRows = 4, kColumns = 8;
  if (tile_operand.encoding.turned && per_tile % kRows == 0 && per_step % kColumns == 0) {
    main_.line("uint row = unit / {}u % {}u * {}u + unit % {}u;", kRows * kColumns, per_tile / kRows, kRows, kRows);
    main_.line("uint column = unit / {}u * {}u + unit / {}u % {}u;", kColumns * per_tile, kColumns, kRows, kColumns);
  } else if (keeps_position(tile_operand)) {
    const int per = chunks_of_row(tile_operand), rows = schedule_.workgroup / per;
    main_.line("uint {} = {}thread / {}u;", along_k ? "row" : "column",
               tile_operand.staging.iterations > 1 ? code("u * {}u + ", rows) : "", per);
    main_.line("uint {} = thread % {}u;", along_k ? "column" : "row", per);
  } else if (along_k) {
    main_.line("uint row = unit / {}u;", per_step);
    main_.line("uint column = unit % {}u;", per_step);
  } else {
    main_.line("uint row = unit % {}u;", per_tile);
    main_.line("uint column = unit / {}u;", per_tile);
  }
}

void OperandEmitter::locate_chunk(const TileOperand& tile_operand, const Code& across, const Code& depth) {
  const bool along_k = tile_operand.along_k();
  const int elements = tile_operand.part.elements;
  const Counted& owns_k = counted(tile_operand.depth);
  const Extent k_chunks = extent(owns_k.axes) / (along_k ? elements : 1);
  const int per_tile = tile_operand.extent / (along_k ? 1 : elements);
  const int per_step = tile_operand.k_extent / (along_k ? elements : tile_operand.steps());
  locate_in_tile(tile_operand, per_tile, per_step);
  main_.line("uint {} = {};", along_k ? counted(tile_operand.across).name : "chunk",
             place_across(tile_operand, across, "row"));
  if (tile_operand.steps() > 1) return;  // each names its own position along k
  main_.line("uint {} = {};", along_k ? "chunk" : owns_k.name,
             limited(in_tensor(depth, per_step, "column"), k_chunks, per_step));
}

Code OperandEmitter::place_across(const TileOperand& tile_operand, const Code& across, const Code& row) {
  const int elements = tile_operand.along_k() ? 1 : tile_operand.part.elements;
  const int per_tile = tile_operand.extent / elements;
  return limited(in_tensor(across, per_tile, row), extent(counted(tile_operand.across).axes) / elements, per_tile);
}

void OperandEmitter::fetch_kept(const TileOperand& tile_operand, const Code& across) {
  const std::vector<ValueId>& kept = tile_operand.part.kept;
  if (kept.empty()) return;
  use_chunks_of(tile_operand.part);
  main_.line("// The same at every step along the sum.");
  for (ValueId id : kept) {
    for (const Code& name : raw_names(id)) main_.line("{} {};", word_type(schedule_.loads[id].vector_bytes), name);
  }
  main_.open("{{");
  main_.line("uint chunk = {};", place_across(tile_operand, across, code("thread % {}u", chunks_of_row(tile_operand))));
  Scope scope = part_scope(tile_operand.part);
  for (ValueId id : kept) load_vectors(scope, id, "", true);
  main_.close();
}

void OperandEmitter::declare_prefetch(const TileOperand& tile_operand) {
  use_chunks_of(tile_operand.part);
  for (ValueId id : tile_operand.part.vectors) {
    if (is_kept(tile_operand.part, id)) continue;
    for (const Code& name : raw_names(id)) {
      main_.line("{} {}{};", word_type(schedule_.loads[id].vector_bytes), name, prefetch_extent(tile_operand));
    }
  }
  for (ValueId id : loads_of_chunks(tile_operand))
    main_.line("{} {}{};", scalar_type(loops_.values[id].node), tile_operand.ahead.at(id),
               prefetch_extent(tile_operand));
}

std::vector<ValueId> OperandEmitter::led_to(const Part& part, std::set<ValueId> wanted) const {
  std::vector<ValueId> all;
  for (std::size_t i = part.per_chunk.size(); i-- > 0;) {
    const ValueId id = part.per_chunk[i];
    if (wanted.count(id) == 0) continue;
    wanted.insert(loops_.values[id].operands.begin(), loops_.values[id].operands.end());
    wanted.insert(loops_.values[id].data.begin(), loops_.values[id].data.end());
    all.push_back(id);
  }
  std::ranges::reverse(all);
  return all;
}

std::vector<ValueId> OperandEmitter::positions_of_vectors(const Part& part) const {
  std::set<ValueId> wanted;
  for (const ValueId id : part.vectors) wanted.insert(loops_.values[id].data.begin(), loops_.values[id].data.end());
  return led_to(part, std::move(wanted));
}

std::vector<ValueId> OperandEmitter::values_of_chunk(const TileOperand& tile_operand) const {
  const Part& part = tile_operand.part;
  if (!tile_operand.staging.prefetched) return part.per_chunk;
  return led_to(part, {part.function_inputs.begin(), part.function_inputs.end()});
}

std::vector<ValueId> OperandEmitter::loads_of_chunks(const TileOperand& tile_operand) const {
  std::vector<ValueId> loads;
  for (ValueId id : values_of_chunk(tile_operand)) {
    const Value& value = loops_.values[id];
    if (value.kind == Value::Kind::load && value.data.empty() && value.predicates.empty()) loads.push_back(id);
  }
  return loads;
}

Result<void> OperandEmitter::fetch(const TileOperand& tile_operand, const Code& across, const Code& depth) {
  use_chunks_of(tile_operand.part);
  const bool full = open_chunks(tile_operand);
  if (!full) main_.line("unit = min(unit, {}u);", tile_operand.staging.chunks - 1);
  locate_chunk(tile_operand, across, depth);
  if (tile_operand.steps() > 1) open_steps(tile_operand, depth, nullptr);
  VKF_CHECK_OK(fetch_chunk(tile_operand));
  if (tile_operand.steps() > 1) main_.close();
  close_chunks(tile_operand);
  return {};
}

Result<void> OperandEmitter::fetch_chunk(const TileOperand& tile_operand) {
  Scope scope = part_scope(tile_operand.part);
  for (const auto& [id, array] : tile_operand.of_rows) scope.names[id] = array + "[row]";
  VKF_CHECK_OK(emit_values(scope, positions_of_vectors(tile_operand.part)));
  for (ValueId id : tile_operand.part.vectors) {
    if (!is_kept(tile_operand.part, id)) load_vectors(scope, id, register_index(tile_operand), true);
  }
  for (ValueId id : loads_of_chunks(tile_operand)) {
    VKF_CHECK_OK(emit_value(scope, id));
    main_.line("{}{} = {};", tile_operand.ahead.at(id), register_index(tile_operand), use(scope, id));
  }
  return {};
}

Code OperandEmitter::tile_operand_group(const TileOperand& tile_operand, Scope& scope, int g) {
  const std::map<ValueId, Code> groups =
      unpack_group(tile_operand.part, g, tile_operand.staging.prefetched ? register_index(tile_operand) : "");
  if (tile_operand.plain) return groups.at(tile_operand.value);
  Code value = code("factor_{}", g);
  main_.line("{} {};",
             group_type(ops::register_type_of(dtype_of(loops_.values[tile_operand.value])), chunk_.group, dialect_),
             value);
  for (int e = 0; e < chunk_.group; ++e) {
    std::vector<Code> passed = arguments(scope, tile_operand.part, g * chunk_.group + e, groups);
    passed.push_back(element_of(value, e, chunk_.group));
    for (const auto& [id, name] : tile_operand.beside) {
      const Code element = code("{}_{}", name, g * chunk_.group + e);
      main_.line("{} {};", scalar_type(loops_.values[id].node), element);
      passed.push_back(element);
    }
    main_.line("{}_element({});", tile_operand.part.name, listed(passed));
  }
  return value;
}

void OperandEmitter::put_vec4(const TileOperand& tile_operand, int g, const Code& value) {
  const int elements = tile_operand.part.elements;
  if (!tile_operand.along_k() && chunk_.group == 4) {
    main_.line("{}[column * {}u + row{}] = {};", tile_operand.tile, tile_operand.stride(),
               elements == 4 ? Code() : code(" * {}u + {}u", elements / 4, g), value);
    return;
  }
  for (int e = 0; e < chunk_.group; ++e) {
    const int at = g * chunk_.group + e;
    const Code element = element_of(value, e, chunk_.group);
    if (tile_operand.along_k()) {
      const Code column = elements == 1 ? "column" : code("(column * {}u + {}u)", elements, at);
      main_.line("{}[{} * {}u + row / 4u][row % 4u] = {};", tile_operand.tile, column, tile_operand.stride(), element);
    } else {
      const Code row = elements == 1 ? "row" : code("(row * {}u + {}u)", elements, at);
      main_.line("{}[column * {}u + {} / 4u][{} % 4u] = {};", tile_operand.tile, tile_operand.stride(), row, row,
                 element);
    }
  }
}

Code OperandEmitter::fragment_at(const TileOperand& tile_operand, const Code& across, const Code& depth, bool second) {
  const auto words = [&](const Code& elements) {
    return tile_operand.per_word() == 1 ? elements : code("{} / {}u", elements, tile_operand.per_word());
  };
  const Code place = tile_operand.rows_along_k()
                         ? code("({}) * {}u + {}", across, tile_operand.row_words(), words(depth))
                         : code("({}) * {}u + {}", depth, tile_operand.row_words(), words("(" + across + ")"));
  const bool rows_lie = tile_operand.rows_along_k() != second;
  return code("{}, {}{}, {}u, gl_CooperativeMatrixLayout{}Major", tile_operand.tile,
              tile_operand.begin > 0 ? code("{}u + ", tile_operand.begin) : "", place, tile_operand.row_words(),
              rows_lie ? "Row" : "Column");
}

void OperandEmitter::declare_tile(const TileOperand& tile_operand) {
  if (tile_operand.encoding.component) {
    shared_.line("shared {} {}[{}];", tile_word(*tile_operand.encoding.component, tile_operand.per_word()),
                 tile_operand.tile, tile_operand.rows() * tile_operand.row_words());
  } else if (tile_operand.encoding.integer_dot) {
    shared_.line("shared ivec4 {}[{}];  // a word is four neighbours along the sum", tile_operand.tile,
                 tile_operand.k_extent / 4 * tile_operand.stride());
  } else {
    shared_.line("shared {} {}[{}];", vec4(tile_operand.value), tile_operand.tile,
                 tile_operand.k_extent * tile_operand.stride());
  }
}

Result<void> OperandEmitter::load_staged_chunk(const TileOperand& tile_operand, Scope& scope) {
  if (tile_operand.staging.prefetched) {
    for (ValueId id : loads_of_chunks(tile_operand))
      scope.names[id] = tile_operand.ahead.at(id) + register_index(tile_operand);
  }
  for (const auto& [id, array] : tile_operand.of_rows) scope.names[id] = array + "[row]";
  for (ValueId id : values_of_chunk(tile_operand)) {
    if (!tile_operand.encoding.copied && scope.names.count(id) == 0) VKF_CHECK_OK(emit_value(scope, id));
  }
  if (!tile_operand.staging.prefetched) {
    for (ValueId id : tile_operand.part.vectors) {
      if (!is_kept(tile_operand.part, id)) load_vectors(scope, id, "");
    }
  }
  return {};
}

/// Whether a chunk at `column` of the tile is in the tensor along k; empty where all are.
Code OperandEmitter::inside_along_k(const TileOperand& tile_operand, const Code& depth) {
  const int chunk = tile_operand.along_k() ? tile_operand.part.elements : 1;
  const Extent k_chunks = extent(counted(tile_operand.depth).axes) / chunk;
  const int per_step = tile_operand.k_extent / chunk;
  if (divides(per_step, k_chunks)) return "";
  return code("{}column < {}", depth.empty() ? "" : code("{} * {}u + ", depth, per_step),
              numbers_.size(k_chunks.count));
}

/// A chunk of a tile for cooperative matrices is one element of the array.
void OperandEmitter::put_components(const TileOperand& tile_operand, Scope& scope, const Code& inside) {
  const bool along_k = tile_operand.along_k();
  const DType component = *tile_operand.encoding.component;
  const std::vector<Code> words = sub32_words(tile_operand, scope, component);
  const Code word = tile_word(component, tile_operand.per_word());
  const auto parts = static_cast<std::size_t>(std::max(tile_operand.part.elements / tile_operand.per_word(), 1));
  const std::size_t each = words.size() / parts;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::vector<Code> own(words.begin() + static_cast<std::ptrdiff_t>(i * each),
                                words.begin() + static_cast<std::ptrdiff_t>((i + 1) * each));
    const Code all = own.size() == 1 ? own.front() : code("{}({})", word, listed(own));
    const Code place = along_k ? "column" : "row";
    main_.line("{}[{}{} * {}u + {}] = {};", tile_operand.tile,
               tile_operand.begin > 0 ? code("{}u + ", tile_operand.begin) : "", along_k ? "row" : "column",
               tile_operand.row_words(), parts == 1 ? place : code("{} * {}u + {}u", place, parts, i),
               inside.empty() ? all : code("{} ? {} : {}(0)", inside, all, word));
  }
}

void OperandEmitter::put_vec4s(const TileOperand& tile_operand, Scope& scope, const Code& inside) {
  const DType dtype_here = dtype_of(loops_.values[tile_operand.value]);
  const Code zero = code("{}({})", group_type(ops::register_type_of(dtype_here), chunk_.group, dialect_),
                         is_float(dtype_here) ? "0.0" : "0");
  for (int g = 0; g < chunk_.groups; ++g) {
    const Code value = tile_operand_group(tile_operand, scope, g);
    if (!inside.empty()) main_.line("if (!({})) {} = {};", inside, value, zero);
    put_vec4(tile_operand, g, value);
  }
}

Result<void> OperandEmitter::put_chunk(const TileOperand& tile_operand, const Code& depth, const AfterChunk& after) {
  Scope scope = part_scope(tile_operand.part);
  VKF_CHECK_OK(load_staged_chunk(tile_operand, scope));
  const Code inside = inside_along_k(tile_operand, depth);
  if (tile_operand.encoding.component) {
    put_components(tile_operand, scope, inside);
  } else if (tile_operand.encoding.integer_dot) {
    put_integer_dots(tile_operand, scope, inside);
  } else {
    put_vec4s(tile_operand, scope, inside);
  }
  if (after) after(inside);
  return {};
}

Result<void> OperandEmitter::stage(const TileOperand& tile_operand, const Code& across, const Code& depth,
                                   const AfterChunk& after) {
  use_chunks_of(tile_operand.part);
  const bool full = open_chunks(tile_operand);
  if (!full) main_.open("if (unit < {}u) {{", tile_operand.staging.chunks);
  locate_chunk(tile_operand, across, depth);
  VKF_CHECK_OK(tile_operand.steps() > 1 ? gather_steps(tile_operand, depth) : put_chunk(tile_operand, depth, after));
  if (!full) main_.close();
  close_chunks(tile_operand);
  return {};
}

}  // namespace vkfuse::lowering

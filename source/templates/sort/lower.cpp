#include "templates/sort/lower.hpp"

#include "templates/sort/lower_emitter.hpp"

#include <algorithm>
#include <bit>

#include "base/mutations.hpp"

namespace vkfuse::lowering {

using ops::RegisterType;
using schedule::SortPass;

namespace {

std::int64_t power_of_two_at_least(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 2))));
}

}  // namespace

Sort::Sort(const LoweringInput& in, std::size_t sort_pass)
    : Emitter(in),
      params_(schedule_.as<schedule::SortParams>()),
      sort_pass_(sort_pass),
      after_sort_(loops_.values.size(), false) {
  for (ValueId id = 0; id < loops_.values.size(); ++id) {
    const Value& value = loops_.values[id];
    if (value.kind == Value::Kind::sort) {
      sort_ = id;
      after_sort_[id] = true;
    }
    for (ValueId operand : value.operands) after_sort_[id] = after_sort_[id] || after_sort_[operand];
    for (ValueId data : value.data) after_sort_[id] = after_sort_[id] || after_sort_[data];
  }
  const ir::Node& node = graph_.node(loops_.values[sort_].node);
  key_type_ = dtype(node.operands[0]);
  type_ = scalar_type(node.operands[0]);
  descending_ = std::get<ir::SortPayload>(node.payload).descending;
  bind_buffers();
}

Result<RelocatableKernel> Sort::run() {
  const bool stores_only = sort_pass().kind == SortPass::Kind::store;
  const std::int64_t groups =
      stores_only ? sort_pass().groups
                  : schedule::ceil_div(schedule_.launch.parallel_chunks, params_.parallel_threads) * sort_pass().groups;
  const std::int64_t groups_x = std::min<std::int64_t>(groups, target_.caps.workgroup.max_groups_per_axis);
  rows_ = numbers_.named("chunks", static_cast<std::uint32_t>(schedule_.launch.parallel_chunks), "rows");
  groups_x_ = numbers_.named("row", static_cast<std::uint32_t>(std::max<std::int64_t>(groups_x, 1)),
                             "workgroups in one row of the dispatch");
  find_products();
  Code summary;
  switch (sort_pass().kind) {
    case SortPass::Kind::block:
      VKF_CHECK_OK(block_pass());
      summary =
          code("{} of {} elements in shared memory, {} row{} per workgroup", sort_pass().stores ? "rows" : "blocks",
               params_.block_keys, params_.parallel_threads, params_.parallel_threads == 1 ? "" : "s");
      break;
    case SortPass::Kind::merge:
      merge_pass();
      summary = "merges neighbouring sorted runs";
      break;
    case SortPass::Kind::store:
      VKF_CHECK_OK(store_pass());
      summary = "stores what is computed from the order";
      break;
  }
  if (params_.passes.size() > 1) summary += code(", dispatch {} of {}", sort_pass_ + 1, params_.passes.size());
  return finish(summary, groups, groups_x);
}

/// Keys first, then positions: NaN is larger than infinity, and equal keys keep their order both ways.
void Sort::order_function() {
  const auto apply = [&](std::string_view row, std::vector<Code> operands) {
    return expression(ops::row(row), key_type_, dialect_, operands);
  };
  Code less = apply("lt", {"a", "b"});
  if (is_float(key_type_)) less = code("{} || ({} && !{})", less, apply("is_nan", {"b"}), apply("is_nan", {"a"}));
  functions_.open("bool key_less({} a, {} b) {{", type_, type_);
  functions_.line("return {};", less);
  functions_.close();
  functions_.blank();
  functions_.line("// Whether the pair (a, i) belongs after (b, k).");
  functions_.open("bool belongs_after({} a, uint i, {} b, uint k) {{", type_, type_);
  functions_.line("if ({}) return true;",
                  VKF_PLANT(ascending_for_descending, descending_, false) ? "key_less(a, b)" : "key_less(b, a)");
  functions_.line("return i {} k && !{};", VKF_PLANT(unstable_sort, ">", "<"),
                  descending_ ? "key_less(b, a)" : "key_less(a, b)");
  functions_.close();
  functions_.blank();
}

Code Sort::pair_key(const Code& at) {
  const auto word = [&](int n) {
    return code("pairs_in.w[{} + {}]",
                n == 1 ? all_slots() : numbers_.size(n * schedule_.launch.parallel_chunks * params_.slots), at);
  };
  switch (ops::register_type_of(key_type_)) {
    case RegisterType::f32: return code("uintBitsToFloat({})", word(1));
    case RegisterType::i32: return code("int({})", word(1));
    case RegisterType::u32: return word(1);
    default: return unpack(key_type_, 1, std::vector<Code>{word(1), word(2)}, dialect_, false);
  }
}

void Sort::write_pair(const Code& at, const Code& key, const Code& position) {
  main_.line("pairs_out.w[{}] = {};", at, position);
  std::vector<Code> words;
  switch (ops::register_type_of(key_type_)) {
    case RegisterType::f32: words = {code("floatBitsToUint({})", key)}; break;
    case RegisterType::i32: words = {code("uint({})", key)}; break;
    case RegisterType::u32: words = {key}; break;
    default: words = pack(key_type_, 1, key, dialect_);
  }
  for (std::size_t n = 0; n < words.size(); ++n) {
    main_.line("pairs_out.w[{} + {}] = {};",
               numbers_.size(static_cast<std::int64_t>(n + 1) * schedule_.launch.parallel_chunks * params_.slots), at,
               words[n]);
  }
}

void Sort::begin_main(bool whole_rows) {
  main_.open("void main() {{");
  main_.line("uint workgroup = gl_WorkGroupID.y * {} + gl_WorkGroupID.x;", groups_x_);
  main_.line("uint thread = gl_LocalInvocationID.x;");
  if (whole_rows) {
    main_.line("uint first_row = workgroup * {}u;", params_.parallel_threads);
    return;
  }
  const Code groups = numbers_.named("groups", static_cast<std::uint32_t>(sort_pass().groups), "workgroups of a row");
  main_.line("uint row = workgroup / {};", groups);
  // The last row of the dispatch may have idle workgroups; all threads of one leave together.
  main_.line("if (row >= {}) return;", rows_);
}

// Blocks. -----------------------------------------------------------------------------------------------

Result<void> Sort::block_pass() {
  const int slots = params_.block_keys * params_.parallel_threads;
  shared_.line("shared {} keys[{}];", type_, slots);
  shared_.line("shared uint order[{}];", slots);
  order_function();
  step_functions();
  if (sort_pass().computes_keys) VKF_CHECK_OK(key_function());
  if (sort_pass().stores) VKF_CHECK_OK(result_function());
  begin_main(sort_pass().stores);
  load_block();
  sort_block();
  if (sort_pass().stores) {
    store_chunk();
  } else {
    write_block();
  }
  main_.close();
  return {};
}

/// Pairs of one block, or of all rows of the workgroup: `count` of each.
void Sort::load_block() {
  const Code all = numbers_.named("keys", static_cast<std::uint32_t>(sort_pass().keys), "of a row that come in");
  const Code size = code("{}u", params_.block_keys);
  if (sort_pass().stores) {
    main_.line("uint count = {};", all);
  } else {
    main_.line("uint block = workgroup - row * p.groups;");
    main_.line("uint count = min({0}, {1} - block * {0});", size, all);
  }
  const bool several = params_.parallel_threads > 1;
  const Code total = several ? code("{}u * count", params_.parallel_threads) : Code("count");
  main_.open("for (uint i = thread; i < {}; i += {}u) {{", total, schedule_.workgroup);
  Code register_index = "i";
  Code within = "i";
  if (several && params_.rows_neighbour) {
    main_.line("uint own = i % {}u;  // neighbouring lanes take neighbouring rows", params_.parallel_threads);
    main_.line("uint at = i / {}u;", params_.parallel_threads);
    main_.line("uint slot = own * count + at;");
  } else if (several) {
    main_.line("uint own = i / count;");
    main_.line("uint at = i - own * count;");
  }
  if (several) {
    register_index = params_.rows_neighbour ? "slot" : "i";
    within = "at";
  }
  if (sort_pass().stores) main_.line("uint row = min(first_row{}, {} - 1u);", several ? " + own" : "", rows_);
  if (!sort_pass().stores) within = code("block * {} + i", size);
  if (sort_pass().computes_keys) {
    main_.line("keys[{}] = key_of(row, {});", register_index, within);
    main_.line("order[{}] = {};", register_index, within);
  } else {
    main_.line("uint from = row * {} + {};", numbers_.size(params_.slots), within);
    main_.line("keys[{}] = {};", register_index, pair_key("from"));
    main_.line("order[{}] = {};", register_index, pair_position("from"));
  }
  main_.close();
  main_.line("barrier();");
}

/// Bitonic sorting without directions: the pairs of a merge's first step mirror each other, so that the smaller
/// one is always the lower one, and what lies beyond the end may be missing.
void Sort::step_functions() {
  const bool several = params_.parallel_threads > 1;
  functions_.open("void exchange(uint begin, uint low, uint high, uint count) {{");
  functions_.line("if (high >= count) return;");
  functions_.line("uint i = begin + low;");
  functions_.line("uint k = begin + high;");
  functions_.line("{} a = keys[i];", type_);
  functions_.line("{} b = keys[k];", type_);
  functions_.line("uint at_a = order[i];");
  functions_.line("uint at_b = order[k];");
  functions_.line("if (!belongs_after(a, at_a, b, at_b)) return;");
  functions_.line("keys[i] = b;");
  functions_.line("keys[k] = a;");
  functions_.line("order[i] = at_b;");
  functions_.line("order[k] = at_a;");
  functions_.close();
  functions_.blank();
  functions_.line(
      "// One step: of all pairs of a row, the lower ones `half_run` at a time, the other one of each at its place "
      "with the bits of `flip` turned.");
  functions_.open("void step(uint thread, uint pairs, uint half_run, uint flip, uint run, uint apart, uint count) {{");
  functions_.open("for (uint i = thread; i < {}pairs; i += {}u) {{",
                  several ? code("{}u * ", params_.parallel_threads) : "", schedule_.workgroup);
  functions_.line("uint pair = {};", several ? "i % pairs" : "i");
  functions_.line("uint group = pair / run;");
  functions_.line("uint within = pair & (run - 1u);");
  functions_.line("uint low = group * apart + (((within & ~(half_run - 1u)) << 1) | (within & (half_run - 1u)));");
  functions_.line("exchange({}, low, low ^ flip, count);", several ? "i / pairs * count" : "0u");
  functions_.close();
  functions_.line("barrier();");
  functions_.close();
  functions_.blank();
}

/// As many steps as the keys of a block want, of which a text for other sizes has room for more.
void Sort::sort_block() {
  const std::int64_t keys = std::min<std::int64_t>(params_.block_keys, sort_pass().keys);
  const std::int64_t slots = power_of_two_at_least(keys);
  const std::int64_t kept = std::min(slots, power_of_two_at_least(params_.requested));
  const Code pairs = numbers_.size(slots / 2), most = numbers_.size(slots), run = numbers_.size(kept);
  main_.open("for (uint size = 2u; size <= {}; size <<= 1) {{", run);
  main_.line("step(thread, {0}, size >> 1, size - 1u, {0}, 0u, count);", pairs);
  main_.line("for (uint reach = size >> 2; reach > 0u; reach >>= 1) step(thread, {0}, reach, reach, {0}, 0u, count);",
             pairs);
  main_.close();
  if (kept == slots) return;
  main_.line("// Of two runs only the first are wanted: they come together in the lower one.");
  main_.open("for (uint apart = {}; apart < {}; apart <<= 1) {{", run, most);
  main_.line("uint runs = {} / apart;", pairs);
  main_.line("step(thread, runs * {0}, {1}, apart | ({0} - 1u), {0}, apart << 1, count);", run, most);
  main_.line(
      "for (uint reach = {0} >> 1; reach > 0u; reach >>= 1) step(thread, runs * {0}, reach, reach, {0}, apart << "
      "1, count);",
      run);
  main_.close();
}

void Sort::write_block() {
  const bool whole = params_.slots == params_.keys;
  const Code most = whole ? "count" : code("min(count, {})", numbers_.size(params_.requested));
  const Code each = whole ? code("{}u", params_.block_keys) : numbers_.size(params_.requested);
  main_.line("uint begin = row * {} + block * {};", numbers_.size(params_.slots), each);
  main_.open("for (uint i = thread; i < {}; i += {}u) {{", most, schedule_.workgroup);
  write_pair("begin + i", "keys[i]", "order[i]");
  main_.close();
}

// Merges. -----------------------------------------------------------------------------------------------

/// How many of the first `taken` pairs of two runs taken together come from the first run.
void Sort::split_function() {
  functions_.line("// How many of the first `taken` pairs of two runs taken together are of the first one.");
  functions_.open("uint split(uint begin, uint middle, uint end, uint taken) {{");
  functions_.line("uint low = taken > end - middle ? taken - (end - middle) : 0u;");
  functions_.line("uint high = min(taken, middle - begin);");
  functions_.open("while (low < high) {{");
  functions_.line("uint a = begin + ((low + high) >> 1);");
  functions_.line("uint b = middle + (taken - 1u - ((low + high) >> 1));");
  functions_.line("if (belongs_after({}, {}, {}, {})) high = (low + high) >> 1;", pair_key("a"), pair_position("a"),
                  pair_key("b"), pair_position("b"));
  functions_.line("else low = ((low + high) >> 1) + 1u;");
  functions_.close();
  functions_.line("return low;");
  functions_.close();
  functions_.blank();
}

/// How many pairs of a sorted part of the block belong before another one.
void Sort::before_function() {
  functions_.line("// Pairs of slots [low, high) that belong before (key, position).");
  functions_.open("uint before(uint low, uint high, {} key, uint position) {{", type_);
  functions_.line("uint begin = low;");
  functions_.open("while (low < high) {{");
  functions_.line("uint at = (low + high) >> 1;");
  functions_.line("if (belongs_after(key, position, keys[at], order[at])) low = at + 1u;");
  functions_.line("else high = at;");
  functions_.close();
  functions_.line("return low - begin;");
  functions_.close();
  functions_.blank();
}

/// The share of the merged run that the workgroup has, and the pairs of both runs that it consists of.
void Sort::split_runs() {
  const int size = params_.block_keys;
  const Code run = numbers_.named("run", static_cast<std::uint32_t>(sort_pass().run), "pairs of a sorted run");
  const Code all = numbers_.named("keys", static_cast<std::uint32_t>(sort_pass().keys), "of a row that come in");
  main_.line("uint tile = (workgroup - row * p.groups) * {}u;", size);
  main_.line("uint first = tile / (2u * {0}) * (2u * {0});", run);
  main_.line("uint row_begin = row * {};", numbers_.size(params_.slots));
  main_.line("uint begin = row_begin + first;");
  main_.line("uint middle = row_begin + min(first + {}, {});", run, all);
  main_.line("uint end = row_begin + min(first + 2u * {}, {});", run, all);
  main_.line("uint taken = tile - first;");
  main_.line("uint count = min({}u, end - begin - taken);", size);
  main_.line("// Nothing is in order yet, and a block may take all shared memory there is.");
  if (schedule_.workgroup > 1) {
    main_.line("if (thread < 2u) order[thread] = split(begin, middle, end, taken + thread * count);");
  } else {
    for (int end = 0; end < 2; ++end) main_.line("order[{0}] = split(begin, middle, end, taken + {0}u * count);", end);
  }
  main_.line("barrier();");
  main_.line("uint cut = order[0];");
  main_.line("uint from_first = order[1] - cut;");
  main_.line("barrier();");
}

/// A workgroup finds which pairs of both runs its share of the merged one consists of, and each thread where its
/// pairs go: as far as they have come, and past those of the other run that belong before.
void Sort::merge_pass() {
  shared_.line("shared {} keys[{}];", type_, params_.block_keys);
  shared_.line("shared uint order[{}];", params_.block_keys);
  order_function();
  split_function();
  before_function();
  begin_main(false);
  split_runs();
  main_.open("for (uint i = thread; i < count; i += {}u) {{", schedule_.workgroup);
  main_.line("uint from = i < from_first ? begin + cut + i : middle + (taken - cut) + (i - from_first);");
  main_.line("keys[i] = {};", pair_key("from"));
  main_.line("order[i] = {};", pair_position("from"));
  main_.close();
  main_.line("barrier();");
  main_.open("for (uint i = thread; i < count; i += {}u) {{", schedule_.workgroup);
  main_.line("bool is_first = i < from_first;");
  main_.line("uint others = before(is_first ? from_first : 0u, is_first ? count : from_first, keys[i], order[i]);");
  main_.line("uint to = row_begin + tile + (is_first ? i : i - from_first) + others;");
  write_pair("to", "keys[i]", "order[i]");
  main_.close();
  main_.close();
}

// Results. ----------------------------------------------------------------------------------------------

Result<void> Sort::store_pass() {
  VKF_CHECK_OK(result_function());
  main_.open("void main() {{");
  main_.line("uint workgroup = gl_WorkGroupID.y * {} + gl_WorkGroupID.x;", groups_x_);
  main_.line("uint chunk = workgroup * {}u + gl_LocalInvocationID.x;", schedule_.workgroup);
  main_.line("uint row = chunk / {};", numbers_.size(schedule_.launch.reduction_chunks));
  main_.line("uint column = chunk - row * {};", numbers_.size(schedule_.launch.reduction_chunks));
  main_.line("if (row >= {}) return;", rows_);
  main_.line("uint begin = row * {};", numbers_.size(params_.slots));
  store_elements();
  main_.close();
  return {};
}

/// All chunks of the workgroup's rows.
void Sort::store_chunk() {
  const Code chunks = numbers_.size(schedule_.launch.reduction_chunks);
  const bool several = params_.parallel_threads > 1;
  main_.open("for (uint chunk = thread; chunk < {}{}; chunk += {}u) {{",
             several ? code("{}u * ", params_.parallel_threads) : "", chunks, schedule_.workgroup);
  if (!several) {
    main_.line("uint own = 0u;");
    main_.line("uint column = chunk;");
  } else if (params_.rows_neighbour) {
    main_.line("uint own = chunk % {}u;", params_.parallel_threads);
    main_.line("uint column = chunk / {}u;", params_.parallel_threads);
  } else {
    main_.line("uint own = chunk / {};", chunks);
    main_.line("uint column = chunk - own * {};", chunks);
  }
  main_.line("uint row = first_row + own;");
  main_.line("uint begin = own * count;");
  if (several) main_.line("if (row >= {}) continue;", rows_);
  store_elements();
  main_.close();
}

void Sort::store_elements() {
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    for (int g = 0; g < chunk_.groups && schedule_.stores[i].kind == schedule::AccessKind::vector; ++g)
      main_.line("{} {};", group_type_of(loops_.stores[i].node), result_group(i, g));
  }
  for (int element = 0; element < chunk_.elements; ++element) {
    Code arguments = "begin, row";
    for (const std::string& name : coordinates_) arguments += ", " + (name == "j" ? code("{}u", element) : Code(name));
    for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
      if (schedule_.stores[i].kind != schedule::AccessKind::vector) continue;
      arguments += ", " + element_of(result_group(i, element / chunk_.group), element % chunk_.group, chunk_.group);
    }
    main_.line("result({});", arguments);
  }
  Scope scope;
  scope.out = &main_;
  set_axes(scope, false);
  for (auto& axis : scope.axes) axis.second = index::substitute(axis.second, {{kElement, index::Expr(0)}});
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    if (schedule_.stores[i].kind == schedule::AccessKind::vector) store_vectors(scope, i, "", "");
  }
}

Result<std::vector<RelocatableKernel>> lower_sort(const LoweringInput& in) {
  std::vector<RelocatableKernel> kernels;
  for (std::size_t sort_pass = 0; sort_pass < in.schedule.as<schedule::SortParams>().passes.size(); ++sort_pass) {
    VKF_TRY(kernel, Sort(in, sort_pass).run());
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace vkfuse::lowering

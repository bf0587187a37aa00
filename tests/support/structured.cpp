#include "support/structured.hpp"

#include <map>
#include <numeric>

namespace vkfuse::test {

namespace {

using ops::OpClass;

/// Numbers whose product is `product`, in `count` places.
std::vector<std::int64_t> factors(Random& random, std::int64_t product, std::size_t count) {
  std::vector<std::int64_t> made(count, 1);
  if (product == 0) {
    made[random.below(count)] = 0;
    return made;
  }
  for (std::int64_t prime = 2; product > 1; ++prime) {
    if (prime * prime > product) prime = product;
    for (; product % prime == 0; product /= prime) made[random.below(count)] *= prime;
  }
  return made;
}

}  // namespace

void AnyGenerator::add_op() {
  const NodeId from = draw_from();
  const std::size_t kind = random_.below(100);
  if (kind < 40) {
    // A space that the value is stretched to, now and then.
    if (!fits(from) || random_.chance(70)) space_ = shape(from);
    return add_elementwise(from);
  }
  if (kind < 46) return add_chain(from);
  std::vector<const OpRow*> rows;
  for (const OpRow& row : ops::table()) {
    const bool own = row.cls == OpClass::elementwise || row.cls == OpClass::convert || row.cls == OpClass::generate ||
                     row.cls == OpClass::input || row.cls == OpClass::constant;
    if (!own && (row.types & ops::bit(dtype(from))) != 0) rows.push_back(&row);
  }
  if (!rows.empty()) add_structured(*random_.pick(rows), from);
}

void AnyGenerator::add_structured(const OpRow& row, NodeId from) {
  using Draw = void (AnyGenerator::*)(const OpRow&, NodeId);
  static const std::map<std::string_view, Draw> draws = {
      {"reshape", &AnyGenerator::reshape},
      {"permute", &AnyGenerator::permute},
      {"broadcast", &AnyGenerator::stretch},
      {"slice", &AnyGenerator::slice},
      {"reverse", &AnyGenerator::reverse},
      {"pad", &AnyGenerator::pad},
      {"concat", &AnyGenerator::concat},
      {"unfold", &AnyGenerator::unfold},
      {"slice_assign", &AnyGenerator::slice_assign},
      {"gather", &AnyGenerator::gather},
      {"take_along", &AnyGenerator::take_along},
      {"scatter", &AnyGenerator::scatter},
      {"update_rows", &AnyGenerator::update_rows},
      {"argsort", &AnyGenerator::argsort},
      {"dot", &AnyGenerator::dot},
  };
  if (row.cls == OpClass::reduce) return reduction(row, from);
  if (row.cls == OpClass::scan) return scan(row, from);
  const auto draw = draws.find(row.name);
  check(draw != draws.end(), "the generator of random graphs draws every op of the table");
  (this->*draw->second)(row, from);
}

void AnyGenerator::add_chain(NodeId from) {
  if (!is_float(dtype(from)) || !has_axis(from)) return;
  const std::size_t kind = random_.below(5);
  if (kind == 0) softmax(tame(from), any_axis(from));
  if (kind == 1) normalise(from);
  if (kind == 2) attention(from);
  if (kind == 3) windows(from);
  if (kind == 4) pick_reduced(from);
}

// --- views -----------------------------------------------------------------------------------------------------------

void AnyGenerator::reshape(const OpRow& row, NodeId from) {
  std::int64_t numbers = 1;
  Shape symbols;
  for (const Dim& dim : shape(from)) {
    if (dim.is_symbol()) symbols.push_back(dim);
    if (!dim.is_symbol()) numbers *= dim.size();
  }
  Shape made;
  const std::size_t count = numbers == 1 ? random_.below(3) : 1 + random_.below(4);
  if (count > 0) {
    for (const std::int64_t factor : factors(random_, numbers, count)) made.emplace_back(factor);
  }
  for (const Dim& dim : symbols)
    made.insert(made.begin() + static_cast<std::ptrdiff_t>(random_.below(made.size() + 1)), dim);
  attempt(row, {from}, ir::NoPayload{}, known_[from], made);
}

void AnyGenerator::permute(const OpRow& row, NodeId from) {
  std::vector<int> axes(shape(from).size());
  std::iota(axes.begin(), axes.end(), 0);
  for (std::size_t i = axes.size(); i > 1; --i) std::swap(axes[i - 1], axes[random_.below(i)]);
  attempt(row, {from}, ir::AxesPayload{axes}, known_[from]);
}

void AnyGenerator::stretch(const OpRow& row, NodeId from) {
  const std::vector<int> sizes = {1, 2, 3, 5, 7, 31, 33};
  Shape made = shape(from);
  for (Dim& dim : made) {
    if (!dim.is_symbol() && dim.size() == 1 && random_.chance(60)) dim = Dim(random_.pick(sizes));
  }
  for (std::size_t more = random_.below(3); more > 0; --more) made.insert(made.begin(), Dim(random_.pick(sizes)));
  attempt(row, {from}, ir::NoPayload{}, known_[from], made);
}

std::pair<ir::SlicePayload, Shape> AnyGenerator::run_of(const Shape& whole) {
  const std::vector<std::int64_t> steps = {1, 1, 1, 2, 3, -1, -2};
  ir::SlicePayload slice;
  Shape sizes;
  for (const Dim& dim : whole) {
    const bool taken_whole = dim.is_symbol() || dim.size() == 0 || random_.chance(25);
    if (taken_whole || random_.chance(2)) {
      slice.starts.push_back(0);
      slice.steps.push_back(1);
      sizes.push_back(taken_whole ? dim : Dim(0));
      continue;
    }
    const std::int64_t step = random_.pick(steps);
    const std::int64_t stride = std::abs(step);
    const auto count =
        static_cast<std::int64_t>(1 + random_.below(static_cast<std::size_t>((dim.size() - 1) / stride + 1)));
    const std::int64_t span = (count - 1) * stride;
    const auto lowest = static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(dim.size() - span)));
    slice.starts.push_back(step > 0 ? lowest : lowest + span);
    slice.steps.push_back(step);
    sizes.emplace_back(count);
  }
  return {slice, sizes};
}

void AnyGenerator::slice(const OpRow& row, NodeId from) {
  auto [slice, sizes] = run_of(shape(from));
  attempt(row, {from}, slice, known_[from], sizes);
}

void AnyGenerator::slice_assign(const OpRow& row, NodeId from) {
  auto [slice, sizes] = run_of(shape(from));
  const NodeId part = new_input(dtype(from), sizes);
  attempt(row, {from, part}, slice, {std::max(known_[from].magnitude, 4.0), known_[from].leaf, known_[from].lattice});
}

void AnyGenerator::reverse(const OpRow& row, NodeId from) {
  if (has_axis(from)) attempt(row, {from}, ir::AxesPayload{some_axes(from, 3)}, known_[from]);
}

void AnyGenerator::pad(const OpRow& row, NodeId from) {
  ir::PadPayload pad;
  for (const Dim& dim : shape(from)) {
    const bool grows = !dim.is_symbol() && random_.chance(60);
    pad.low.push_back(grows ? static_cast<std::int64_t>(random_.below(5)) : 0);
    pad.high.push_back(grows ? static_cast<std::int64_t>(random_.below(5)) : 0);
  }
  const Known known{std::max(known_[from].magnitude, 8.0), known_[from].leaf, true};
  attempt(row, {from, add_literal(dtype(from))}, pad, known);
}

void AnyGenerator::concat(const OpRow& row, NodeId from) {
  if (!has_axis(from)) return;
  const int axis = any_axis(from);
  const auto at = static_cast<std::size_t>(axis);
  std::vector<NodeId> operands = {from};
  Known known = known_[from];
  for (std::size_t more = random_.below(3); more > 0; --more) {
    Shape other = shape(from);
    if (!other[at].is_symbol()) other[at] = Dim(static_cast<std::int64_t>(random_.below(random_.chance(20) ? 2 : 40)));
    operands.push_back(random_.chance(30) ? from : new_input(dtype(from), other));
    known.magnitude = std::max(known.magnitude, 4.0);
  }
  if (random_.chance(30)) std::swap(operands.front(), operands.back());
  attempt(row, operands, ir::AxisPayload{axis}, known);
}

void AnyGenerator::unfold(const OpRow& row, NodeId from) {
  ir::WindowPayload window;
  if (!has_axis(from)) return;
  window.axes = some_axes(from, 2);
  for (const int axis : window.axes) {
    const Dim& dim = shape(from)[static_cast<std::size_t>(axis)];
    if (dim.is_symbol() || dim.size() == 0) return;
    const auto dilation = static_cast<std::int64_t>(1 + random_.below(2));
    window.sizes.push_back(1 + static_cast<std::int64_t>(random_.below(std::min<std::size_t>(
                                   4, static_cast<std::size_t>((dim.size() - 1) / dilation + 1)))));
    window.strides.push_back(1 + static_cast<std::int64_t>(random_.below(3)));
    window.dilations.push_back(dilation);
  }
  attempt(row, {from}, window, known_[from]);
}

// --- positions that are data -----------------------------------------------------------------------------------------

void AnyGenerator::gather(const OpRow& row, NodeId from) {
  if (!has_axis(from)) return;
  const int axis = any_axis(from);
  if (size(shape(from)[static_cast<std::size_t>(axis)]) == 0) return;  // only a run knows that of a symbol
  const std::vector<int> sizes = {0, 1, 2, 3, 5, 31, 33};
  Shape wanted;
  for (std::size_t rank = random_.below(3); rank > 0; --rank) wanted.emplace_back(random_.pick(sizes));
  const NodeId where = positions(size(shape(from)[static_cast<std::size_t>(axis)]), wanted);
  attempt(row, {from, where}, ir::AxisPayload{axis}, known_[from]);
}

void AnyGenerator::take_along(const OpRow& row, NodeId from) {
  if (!has_axis(from)) return;
  const int axis = any_axis(from);
  const auto at = static_cast<std::size_t>(axis);
  const std::int64_t count = size(shape(from)[at]);
  if (count == 0) return;
  Shape wanted = shape(from);
  for (Dim& dim : wanted) {
    if (random_.chance(20)) dim = Dim(1);
  }
  wanted[at] = Dim(static_cast<std::int64_t>(random_.below(40)));
  const NodeId where = positions(count, wanted);
  attempt(row, {from, where}, ir::AxisPayload{axis}, known_[from]);
}

void AnyGenerator::scatter(const OpRow& row, NodeId from) {
  if (!has_axis(from)) return;
  const DType type = dtype(from);
  const std::vector<ir::ScatterMode> modes = {ir::ScatterMode::set, ir::ScatterMode::add, ir::ScatterMode::mul,
                                              ir::ScatterMode::max, ir::ScatterMode::min};
  const ir::ScatterMode mode = type == DType::boolean ? ir::ScatterMode::set : random_.pick(modes);
  const auto count = static_cast<std::int64_t>(random_.below(random_.chance(50) ? 5 : 18));
  // One comparison for each element and each update.
  if (elements(shape(from)) * count > kMostProducts) return;
  Shape wanted = shape(from);
  wanted[0] = Dim(count);
  const NodeId base = mode == ir::ScatterMode::set ? from : tame(from);
  const NodeId updates = new_input(type, wanted);
  const Known known{mode == ir::ScatterMode::mul ? kWild : known_[base].magnitude + 4.0 * static_cast<double>(count),
                    false, known_[base].lattice};
  attempt(row, {base, positions(size(shape(from)[0]), {Dim(count)}), updates}, ir::ScatterPayload{mode}, known);
}

/// From some row on, every one or every other, either way: no two along the last axis are equal, and some are not
/// there.
NodeId AnyGenerator::unlike_positions(std::int64_t size, const Shape& of) {
  const double step = random_.chance(50) ? 1 : random_.chance(50) ? 2 : -1;
  const double first = static_cast<double>(random_.below(static_cast<std::size_t>(size) + 4)) - 2;
  const Known whole{kWild, true, true};
  const auto number = [&](double value) { return note(graph_.add_scalar(DType::i32, value), whole); };
  const NodeId ramp = note(must(graph_.add_iota({DType::i32, of}, static_cast<int>(of.size()) - 1)), whole);
  const NodeId stepped = note(must(graph_.add(ops::row("mul"), {ramp, number(step)})), whole);
  return note(must(graph_.add(ops::row("add"), {stepped, number(first)})), whole);
}

void AnyGenerator::update_rows(const OpRow& row, NodeId from) {
  if (random_.chance(20)) {  // a cache of one element that is a number of the text
    const auto& number = std::get<ir::ConstantPayload>(graph_.node(add_literal(dtype(from))).payload);
    const Shape ones(1 + random_.below(3), Dim(1));
    from = note(must(graph_.add_constant({dtype(from), ones}, number.bytes)), {8, true, true});
  }
  if (!has_axis(from)) return;
  const int axis = any_axis(from);
  const auto at = static_cast<std::size_t>(axis);
  if (shape(from)[at].is_symbol()) return;
  const std::int64_t size = shape(from)[at].size();
  Shape wanted = shape(from);
  wanted[at] =
      Dim(static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(std::min<std::int64_t>(size, 9) + 1))));
  const Known known{std::max(known_[from].magnitude, 4.0), known_[from].leaf, known_[from].lattice};
  if (random_.chance(30)) {
    const NodeId each = unlike_positions(size, Shape(wanted.begin(), wanted.begin() + axis + 1));
    attempt(row, {from, each, new_input(dtype(from), wanted)}, ir::UpdatePayload{axis, false}, known);
    return;
  }
  const Shape starts(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(random_.below(at + 1)));
  const NodeId where = positions(size, starts);
  const NodeId rows = new_input(dtype(from), wanted);
  attempt(row, {from, where, rows}, ir::UpdatePayload{axis, random_.chance(50)}, known);
}

// --- folds -----------------------------------------------------------------------------------------------------------

void AnyGenerator::reduction(const OpRow& row, NodeId from) {
  if (!has_axis(from)) return;
  const bool position = row.reduction.kind == ops::Reduction::Kind::arg;
  const std::vector<int> axes = some_axes(from, position ? 1 : 3);
  std::int64_t count = 1;
  for (const int axis : axes) count *= size(shape(from)[static_cast<std::size_t>(axis)]);
  if (is_float(dtype(from)) && row.reduction.join == "mul" && count > 8) return;
  const NodeId operand = position ? ordered(from) : tame(from);
  const double size = known_[operand].magnitude;
  const double grows = row.reduction.join == "add" && row.reduction.kind == ops::Reduction::Kind::plain
                           ? size * static_cast<double>(std::max<std::int64_t>(count, 1))
                       : row.reduction.join == "mul" ? std::pow(std::max(size, 1.0), static_cast<double>(count))
                                                     : size;
  attempt(row, {operand}, ir::AxesPayload{axes}, {std::min(grows, kWild), false, position || known_[operand].lattice});
}

void AnyGenerator::scan(const OpRow& row, NodeId from) {
  if (!has_axis(from)) return;
  const int axis = any_axis(from);
  const std::int64_t count = size(shape(from)[static_cast<std::size_t>(axis)]);
  if (is_float(dtype(from)) && row.reduction.join == "mul" && count > 8) return;
  const NodeId operand = tame(from);
  ir::ScanPayload scan{axis, random_.chance(30), random_.chance(30)};
  const bool grows = row.reduction.join == "add" || row.reduction.join == "mul" || scan.exclusive;
  attempt(row, {operand}, scan,
          {grows ? kWild : known_[operand].magnitude, false, known_[operand].lattice || scan.exclusive});
}

void AnyGenerator::argsort(const OpRow& row, NodeId from) {
  if (!has_axis(from)) return;
  ir::SortPayload sort{any_axis(from), random_.chance(50), 0};
  const Dim& dim = shape(from)[static_cast<std::size_t>(sort.axis)];
  if (!dim.is_symbol() && dim.size() > 0)
    sort.count = random_.chance(50)
                     ? dim.size()
                     : 1 + static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(dim.size())));
  attempt(row, {ordered(from)}, sort, {kWild, false, true});
}

void AnyGenerator::dot(const OpRow& row, NodeId from) {
  const NodeId a = tame(from);
  std::vector<int> axes(shape(a).size());
  std::iota(axes.begin(), axes.end(), 0);
  for (std::size_t i = axes.size(); i > 1; --i) std::swap(axes[i - 1], axes[random_.below(i)]);
  const std::size_t batches = axes.empty() || random_.chance(60) ? 0 : 1;
  const std::size_t contracted =
      std::min<std::size_t>(axes.size() - batches, random_.chance(80) ? 1 : random_.below(3));
  ir::DotPayload dot;
  dot.batch_a.assign(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(batches));
  dot.contract_a.assign(axes.begin() + static_cast<std::ptrdiff_t>(batches),
                        axes.begin() + static_cast<std::ptrdiff_t>(batches + contracted));
  const std::vector<int> sizes = {1, 2, 3, 7, 8, 16, 31, 33, 64};
  std::vector<Dim> own;
  for (std::size_t free = random_.below(3); free > 0; --free) own.emplace_back(random_.pick(sizes));
  // The axes of b in any order: which place each has is drawn first.
  const std::size_t rank = batches + contracted + own.size();
  std::vector<int> place(rank);
  std::iota(place.begin(), place.end(), 0);
  for (std::size_t i = rank; i > 1; --i) std::swap(place[i - 1], place[random_.below(i)]);
  Shape other(rank, Dim(1));
  std::size_t next = 0;
  double reduced = 1;
  for (const int axis : dot.batch_a) {
    dot.batch_b.push_back(place[next]);
    other[static_cast<std::size_t>(place[next++])] = shape(a)[static_cast<std::size_t>(axis)];
  }
  for (const int axis : dot.contract_a) {
    dot.contract_b.push_back(place[next]);
    reduced *= static_cast<double>(std::max<std::int64_t>(size(shape(a)[static_cast<std::size_t>(axis)]), 1));
    other[static_cast<std::size_t>(place[next++])] = shape(a)[static_cast<std::size_t>(axis)];
  }
  std::int64_t products = elements(shape(a));
  for (Dim dim : own) {
    while (dim.size() > 1 && products * dim.size() > kMostProducts) dim = Dim(dim.size() / 2);
    products *= dim.size();
    other[static_cast<std::size_t>(place[next++])] = dim;
  }
  if (elements(other) > kMostElements) return;
  const NodeId b = random_.chance(15) && other == shape(a) ? a : new_input(dtype(a), other);
  const double size = known_[a].magnitude * std::max(known_[b].magnitude, 4.0) * reduced;
  attempt(row, {a, b}, dot, {std::min(size, kWild), false, false});
}

// --- what all of them need -------------------------------------------------------------------------------------------

std::int64_t AnyGenerator::elements(const Shape& shape) const {
  std::int64_t count = 1;
  for (const Dim& dim : shape) count *= size(dim);
  return count;
}

std::vector<int> AnyGenerator::some_axes(NodeId id, std::size_t most) {
  std::vector<int> axes(shape(id).size());
  std::iota(axes.begin(), axes.end(), 0);
  const std::size_t wanted = 1 + random_.below(std::min(most, axes.size()));
  while (axes.size() > wanted) axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(random_.below(axes.size())));
  return axes;
}

NodeId AnyGenerator::new_input(DType type, const Shape& shape, std::string name) {
  if (name.empty()) name = fmt::format("x{}", inputs_);
  ++inputs_;
  return note(must(graph_.add_input(std::move(name), {type, shape})), {4, true, false});
}

NodeId AnyGenerator::positions(std::int64_t count, const Shape& wanted) {
  const std::vector<DType> types = {DType::i32, DType::u32, DType::i64};
  const std::int64_t below = count + (random_.chance(25) ? 3 : 0);
  // Without a name that says so, numbers are of any size and sign.
  const std::string name = below > 0 && !random_.chance(5) ? fmt::format("index{} {}", below, inputs_) : std::string();
  return new_input(random_.pick(types), wanted, name);
}

NodeId AnyGenerator::ordered(NodeId id) {
  const DType type = dtype(id);
  if (!is_float(type) || known_[id].leaf) return id;
  const bool close = known_[id].lattice || type == DType::f16 || type == DType::bf16;
  return close || random_.chance(30) ? new_input(type, shape(id)) : id;
}

NodeId AnyGenerator::derived(const char* op, std::vector<NodeId> operands, Known known) {
  return note(must(graph_.add(ops::row(op), std::move(operands))), known);
}

std::optional<NodeId> AnyGenerator::attempt(const OpRow& row, std::vector<NodeId> operands, ir::Payload payload,
                                            Known known, Shape wanted) {
  ir::Graph trial = graph_;
  const auto made = trial.add_structured(row, std::move(operands), std::move(payload), std::move(wanted));
  if (!made.ok() || elements(trial.node(*made).type.shape) > kMostElements) return std::nullopt;
  graph_ = std::move(trial);
  return note(*made, known);
}

}  // namespace vkfuse::test

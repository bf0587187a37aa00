#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/evaluator.hpp"
#include "reference/views.hpp"

namespace vkfuse::reference {

namespace {

constexpr std::int64_t kKeptElements = std::int64_t{1} << 21;  // of all kept nodes together: 50 MB
constexpr std::int64_t kDeep = 64;                             // points below each other that the walks may nest
constexpr int kDeepest = 1000;                                 // beyond that the stack is at risk

void ascend(Indices& indices) {
  if (!std::is_sorted(indices.begin(), indices.end())) std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
}

bool folds_or_reads_by_data(ops::OpClass cls) {
  return cls == ops::OpClass::gather || cls == ops::OpClass::reduce || cls == ops::OpClass::scan ||
         cls == ops::OpClass::sort || cls == ops::OpClass::scatter || cls == ops::OpClass::contraction;
}

Result<Elements> stored(DType dtype, std::span<const std::byte> bytes, const Indices& indices) {
  const auto width = static_cast<std::size_t>(size_of(dtype));
  Elements result;
  result.reserve(indices.size());
  for (std::int64_t index : indices) {
    if ((static_cast<std::size_t>(index) + 1) * width > bytes.size()) {
      return invalid("A value has {} bytes, too few for its element {}.", bytes.size(), index);
    }
    const std::byte* at = bytes.data() + static_cast<std::size_t>(index) * width;
    Element element;
    if (is_float(dtype)) {
      element.real = ir::decode(dtype, at);
      // A device may read an f32 denormal as zero.
      if (dtype != DType::f16 && std::abs(element.real) < 0x1p-126) element.bound = std::abs(element.real);
    } else {
      element.integer = ir::decode_int(dtype, at);
    }
    result.push_back(element);
  }
  return result;
}

Element iota_element(DType dtype, std::int64_t position) {
  Element element;
  if (!is_float(dtype)) {
    element.integer = ops::wrap(dtype, position);
    return element;
  }
  element.real = static_cast<double>(position);
  if (position > (1 << 24)) element.bound = element.real * 0x1p-23;
  if (dtype != DType::f32) element.bound += std::abs(element.real) * 0x1p-8;
  settle(dtype, element.real, element.bound);
  return element;
}

Elements generated(const ir::Node& node, const Sizes& sizes, const Indices& indices) {
  Elements result(indices.size());
  if (const auto* random = std::get_if<ir::RandomPayload>(&node.payload)) {
    for (std::size_t i = 0; i < indices.size(); ++i)
      result[i].integer = ops::philox(random->seed, static_cast<std::uint64_t>(indices[i]));
    return result;
  }
  const auto axis = static_cast<std::size_t>(std::get<ir::IotaPayload>(node.payload).axis);
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < sizes.size(); ++i) inner *= sizes[i];
  for (std::size_t i = 0; i < indices.size(); ++i)
    result[i] = iota_element(node.type.dtype, indices[i] / inner % sizes[axis]);
  return result;
}

}  // namespace

// Which nodes there are, and which are kept. -------------------------------------------------------

Result<Evaluator> Evaluator::create(const ir::Graph& graph, ir::NodeId root, const Feeds& feeds) {
  Evaluator evaluator(graph, feeds);
  VKF_CHECK_OK(evaluator.look_at(root));
  return evaluator;
}

bool Evaluator::is_point(ir::NodeId id) const { return folds_or_reads_by_data(graph_.node(id).op->cls); }

Result<void> Evaluator::look_at(ir::NodeId root) {
  std::vector<bool> reached(root + 1, false);
  reached[root] = true;
  sizes_.resize(root + 1);
  for (ir::NodeId id = root + 1; id-- > 0;) {
    if (!reached[id]) continue;
    if (const auto* custom = std::get_if<ir::CustomPayload>(&graph_.node(id).payload); custom != nullptr && custom->function == nullptr) {
      return unsupported("The custom op '{}' has no host function, so that what is computed from it has no reference and is not validated.", custom->name);
    }
    if (const auto* kernel = std::get_if<ir::KernelPayload>(&graph_.node(id).payload)) {
      return unsupported("The custom kernel '{}' is known to the device alone, so that what is computed from it has no reference and is not validated.", kernel->name);
    }
    VKF_TRY(resolved, resolve(graph_.node(id).type.shape, feeds_.symbols));
    sizes_[id] = std::move(resolved);
    for (ir::NodeId operand : graph_.node(id).operands) reached[operand] = true;
  }
  choose_kept(reached);
  nesting_.assign(root + 1, 0);
  for (ir::NodeId id = 0; id <= root; ++id) {
    if (!reached[id]) continue;
    for (ir::NodeId operand : graph_.node(id).operands) {
      const bool stops = is_point(operand) || kept_.count(operand) != 0;
      nesting_[id] = std::max(nesting_[id], nesting_[operand] + (stops ? 1 : 0));
    }
  }
  return {};
}

void Evaluator::choose_kept(const std::vector<bool>& reached) {
  std::vector<bool> read_often(reached.size(), false);
  for (ir::NodeId id = 0; id < reached.size(); ++id) {
    if (!reached[id]) continue;
    const ops::OpClass cls = graph_.node(id).op->cls;
    for (ir::NodeId operand : graph_.node(id).operands) {
      if (is_point(id) || cls == ops::OpClass::view || sizes(operand) != sizes(id)) read_often[operand] = true;
    }
  }
  std::int64_t left = kKeptElements;
  for (const bool points : {true, false}) {  // points first: they cost the most
    for (ir::NodeId id = 0; id < reached.size(); ++id) {
      const ops::OpClass cls = graph_.node(id).op->cls;
      const bool computes = cls == ops::OpClass::elementwise || cls == ops::OpClass::convert;
      if (!reached[id] || !(points ? is_point(id) : computes && read_often[id])) continue;
      const auto count = element_count(sizes(id));
      if (!count || *count > left) continue;
      left -= *count;
      kept_[id];
    }
  }
}

Result<void> Evaluator::prepare() {
  if (*std::max_element(nesting_.begin(), nesting_.end()) <= kDeep) return {};
  for (const auto& entry : kept_) {
    VKF_TRY(count, element_count(sizes(entry.first)));
    for (std::int64_t start = 0; start < count; start += static_cast<std::int64_t>(kBlock)) {
      Indices block(static_cast<std::size_t>(std::min<std::int64_t>(count - start, static_cast<std::int64_t>(kBlock))));
      std::iota(block.begin(), block.end(), start);
      VKF_TRY(computed_now, values(entry.first, block));
      static_cast<void>(computed_now);
    }
  }
  return {};
}

// Values. -----------------------------------------------------------------------------------------

Result<Elements> Evaluator::values(ir::NodeId id, const Indices& indices) {
  const auto found = kept_.find(id);
  if (found == kept_.end()) return computed(id, indices);
  Kept& kept = found->second;
  if (kept.known.empty()) {
    VKF_TRY(count, element_count(sizes(id)));
    kept.values.resize(static_cast<std::size_t>(count));
    kept.known.assign(static_cast<std::size_t>(count), false);
  }
  Indices missing;
  for (std::int64_t index : indices) {
    if (!kept.known[static_cast<std::size_t>(index)]) missing.push_back(index);
  }
  if (!missing.empty()) {
    ascend(missing);
    complete_lines(id, missing);
    VKF_TRY(elements, computed(id, missing));
    for (std::size_t i = 0; i < missing.size(); ++i) {
      kept.values[static_cast<std::size_t>(missing[i])] = elements[i];
      kept.known[static_cast<std::size_t>(missing[i])] = true;
    }
  }
  Elements result;
  result.reserve(indices.size());
  for (std::int64_t index : indices) result.push_back(kept.values[static_cast<std::size_t>(index)]);
  return result;
}

Result<Elements> Evaluator::computed(ir::NodeId id, const Indices& indices) {
  if (depth_ >= kDeepest)
    return unsupported(
        "The reference does not follow values through more than {} ops nested in each other that fold or gather.",
        kDeepest);
  ++depth_;
  auto result = [&]() -> Result<Elements> {
    switch (graph_.node(id).op->cls) {
      case ops::OpClass::reduce: return reduced(id, indices);
      case ops::OpClass::contraction: return contracted(id, indices);
      case ops::OpClass::scan: return scanned(id, indices);
      case ops::OpClass::sort: return sorted(id, indices);
      case ops::OpClass::gather: return gathered(id, indices);
      case ops::OpClass::scatter: return scattered(id, indices);
      default: return walked(id, indices);
    }
  }();
  --depth_;
  return result;
}

// What is walked together. ------------------------------------------------------------------------

const Element& Evaluator::Demand::at(std::int64_t index) const {
  const std::int64_t first = indices.front();
  if (indices.back() - first + 1 == static_cast<std::int64_t>(indices.size()))
    return values[static_cast<std::size_t>(index - first)];
  const auto found = std::lower_bound(indices.begin(), indices.end(), index);
  return values[static_cast<std::size_t>(found - indices.begin())];
}

Result<Elements> Evaluator::walked(ir::NodeId root, const Indices& indices) {
  const auto is_walked = [&](ir::NodeId id) { return id == root || !(is_point(id) || kept_.count(id) != 0); };
  if (indices.empty()) return Elements{};
  Walk walk;
  walk[root].indices = indices;
  // Consumers first; the operands that a step adds have smaller ids, so the iterator meets them later.
  for (auto step = walk.end(); step != walk.begin();) {
    --step;
    ascend(step->second.indices);
    if (is_walked(step->first)) demand_operands(step->first, step->second, walk);
  }
  for (auto& [id, demand] : walk) {
    auto elements = is_walked(id) ? walked_values(id, walk) : values(id, demand.indices);
    if (!elements) return std::move(elements).error();
    demand.values = *std::move(elements);
  }
  const Demand& asked = walk.at(root);
  Elements result;
  result.reserve(indices.size());
  for (std::int64_t index : indices) result.push_back(asked.at(index));
  return result;
}

void Evaluator::demand_operands(ir::NodeId id, Demand& demand, Walk& walk) const {
  const ir::Node& node = graph_.node(id);
  if (node.op->cls == ops::OpClass::view) {
    std::vector<Sizes> operands;
    for (ir::NodeId operand : node.operands) operands.push_back(sizes(operand));
    demand.sources = view_sources(node, operands, sizes(id), demand.indices);
    for (const Source& source : demand.sources) walk[node.operands[source.operand]].indices.push_back(source.index);
    return;
  }
  for (ir::NodeId operand : node.operands) {
    Indices& wanted = walk[operand].indices;
    if (sizes(operand) == sizes(id)) {
      wanted.insert(wanted.end(), demand.indices.begin(), demand.indices.end());
    } else {
      for (std::int64_t index : demand.indices) wanted.push_back(broadcast_index(index, sizes(id), sizes(operand)));
    }
  }
}

Result<Elements> Evaluator::walked_values(ir::NodeId id, const Walk& walk) {
  const ir::Node& node = graph_.node(id);
  const Demand& demand = walk.at(id);
  switch (node.op->cls) {
    case ops::OpClass::input: {
      const std::string& name = std::get<ir::InputPayload>(node.payload).name;
      const auto found = feeds_.inputs.find(name);
      if (found == feeds_.inputs.end()) return invalid("Input '{}' was not given.", name);
      return stored(node.type.dtype, found->second, demand.indices);
    }
    case ops::OpClass::constant:
      return stored(node.type.dtype, *std::get<ir::ConstantPayload>(node.payload).bytes, demand.indices);
    case ops::OpClass::generate: return generated(node, sizes(id), demand.indices);
    case ops::OpClass::view: {
      Elements result;
      result.reserve(demand.indices.size());
      for (const Source& source : demand.sources)
        result.push_back(walk.at(node.operands[source.operand]).at(source.index));
      return result;
    }
    default: return applied(id, walk);
  }
}

Elements Evaluator::applied(ir::NodeId id, const Walk& walk) const {
  const ir::Node& node = graph_.node(id);
  const Indices& indices = walk.at(id).indices;
  std::vector<DType> dtypes;
  std::vector<const Demand*> demands;
  std::vector<bool> same_shape;
  for (ir::NodeId operand : node.operands) {
    dtypes.push_back(graph_.node(operand).type.dtype);
    demands.push_back(&walk.at(operand));
    same_shape.push_back(sizes(operand) == sizes(id));
  }
  Elements result(indices.size());
  Elements operands(demands.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    for (std::size_t k = 0; k < demands.size(); ++k) {
      const bool same_list = same_shape[k] && demands[k]->indices.size() == indices.size();  // a subset of equal size
      operands[k] =
          same_list ? demands[k]->values[i]
                    : demands[k]->at(same_shape[k] ? indices[i]
                                                   : broadcast_index(indices[i], sizes(id), sizes(node.operands[k])));
    }
    result[i] = apply(node, dtypes, operands);
  }
  return result;
}

// The way in. -------------------------------------------------------------------------------------

Result<Column> evaluate_at(const ir::Graph& graph, ir::NodeId value, std::span<const std::int64_t> indices,
                           const Feeds& feeds) {
  VKF_TRY(evaluator, Evaluator::create(graph, value, feeds));
  VKF_CHECK_OK(evaluator.prepare());
  Column all;
  for (std::size_t start = 0; start < indices.size(); start += kBlock) {
    const auto part = indices.subspan(start, std::min(kBlock, indices.size() - start));
    VKF_TRY(elements, evaluator.values(value, Indices(part.begin(), part.end())));
    for (const Element& element : elements) {
      all.value.push_back(element.real);
      all.integer.push_back(element.integer);
      all.bound.push_back(element.bound);
    }
  }
  return all;
}

Result<Column> evaluate(const ir::Graph& graph, ir::NodeId value, const Feeds& feeds) {
  VKF_TRY(sizes, resolve(graph.node(value).type.shape, feeds.symbols));
  VKF_TRY(count, element_count(sizes));
  Indices all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return evaluate_at(graph, value, all, feeds);
}

}  // namespace vkfuse::reference

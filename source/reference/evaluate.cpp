#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/evaluator.hpp"
#include "reference/leaves.hpp"
#include "reference/views.hpp"

namespace vkfuse::reference {

namespace {

constexpr std::int64_t kKeptElements = std::int64_t{1} << 21;  // of all kept nodes together: 50 MB
constexpr std::int64_t kDeep = 64;                             // points below each other that the walks may nest
/// Beyond that the stack is at risk: a level of scans takes 2.1 KB of it, and a thread of Windows has 1 MiB.
constexpr int kDeepest = 250;

void ascend(Indices& indices) {
  if (!std::is_sorted(indices.begin(), indices.end())) std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
}

bool reduces_or_reads_by_data(ops::OpClass cls) {
  return cls == ops::OpClass::gather || cls == ops::OpClass::reduce || cls == ops::OpClass::scan ||
         cls == ops::OpClass::sort || cls == ops::OpClass::scatter || cls == ops::OpClass::update ||
         cls == ops::OpClass::contraction;
}

bool computes_by_element(ops::OpClass cls) { return cls == ops::OpClass::elementwise || cls == ops::OpClass::convert; }

Result<Elements> stored(DType dtype, std::span<const std::byte> bytes, const Indices& indices) {
  const auto width = static_cast<std::size_t>(size_of(dtype));
  Elements result;
  result.reserve(indices.size());
  for (std::int64_t index : indices) {
    if ((static_cast<std::size_t>(index) + 1) * width > bytes.size()) {
      return invalid("A value has {} bytes, too few for its element {}.", bytes.size(), index);
    }
    const std::byte* at = bytes.data() + static_cast<std::size_t>(index) * width;
    result.push_back(stored_element(dtype, at));
  }
  return result;
}

}  // namespace

// Which nodes there are, and which are kept. -------------------------------------------------------

bool Evaluator::is_point(ir::NodeId id) const { return reduces_or_reads_by_data(graph_.node(id).op->cls); }

void Evaluator::keep_below(std::span<const ir::NodeId> roots) {
  if (roots.empty()) return;
  const ir::NodeId last = *std::max_element(roots.begin(), roots.end());
  std::vector<bool> reached(last + 1, false);
  for (const ir::NodeId root : roots) reached[root] = true;
  for (ir::NodeId id = last + 1; id-- > 0;) {
    if (!reached[id] || held_[id]) continue;
    for (ir::NodeId operand : graph_.node(id).operands) reached[operand] = true;
  }
  choose_kept(reached);
  nesting_.assign(last + 1, 0);
  for (ir::NodeId id = 0; id <= last; ++id) {
    if (!reached[id] || held_[id]) continue;
    for (ir::NodeId operand : graph_.node(id).operands) {
      const bool stops = !held_[operand] && (is_point(operand) || kept_.count(operand) != 0);
      nesting_[id] = std::max(nesting_[id], nesting_[operand] + (stops ? 1 : 0));
    }
  }
}

/// By node, whether some reader asks for an element many times.
std::vector<bool> Evaluator::read_often(const std::vector<bool>& reached) const {
  std::vector<bool> often(reached.size(), false);
  for (ir::NodeId id = 0; id < reached.size(); ++id) {
    if (!reached[id] || held_[id]) continue;
    const ops::OpClass cls = graph_.node(id).op->cls;
    for (ir::NodeId operand : graph_.node(id).operands) {
      if (is_point(id) || cls == ops::OpClass::view || sizes(operand) != sizes(id)) often[operand] = true;
    }
  }
  return often;
}

void Evaluator::choose_kept(const std::vector<bool>& reached) {
  const std::vector<bool> often = read_often(reached);
  std::int64_t left = kKeptElements;
  for (const bool points : {true, false}) {  // points first: they cost the most
    for (ir::NodeId id = 0; id < reached.size(); ++id) {
      if (!reached[id] || held_[id]) continue;
      const bool is_worth_it = points ? is_point(id) : often[id] && computes_by_element(graph_.node(id).op->cls);
      if (!is_worth_it) continue;
      const auto count = element_count(sizes(id));
      if (!count || *count > left) continue;
      left -= *count;
      kept_[id];
    }
  }
}

Result<void> Evaluator::prepare() {
  if (nesting_.empty() || *std::max_element(nesting_.begin(), nesting_.end()) <= kDeep) return {};
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
  if (const Dense* held = held_[id].get()) {
    Elements result;
    result.reserve(indices.size());
    for (const std::int64_t index : indices) result.push_back(held->at(index));
    return result;
  }
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
  check_deadline(deadline_);
  counters_[id] += static_cast<std::int64_t>(indices.size());
  if (depth_ >= kDeepest)
    return unsupported(
        "The reference does not follow values through more than {} ops nested in each other that reduce or gather.",
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
      case ops::OpClass::update: return updated(id, indices);
      default: return walked(id, indices);
    }
  }();
  --depth_;
  return result;
}

// What is walked together. ------------------------------------------------------------------------

const Element& Evaluator::ElementRequest::at(std::int64_t index) const {
  const std::int64_t first = indices.front();
  if (indices.back() - first + 1 == static_cast<std::int64_t>(indices.size()))
    return values[static_cast<std::size_t>(index - first)];
  const auto found = std::lower_bound(indices.begin(), indices.end(), index);
  return values[static_cast<std::size_t>(found - indices.begin())];
}

Result<Elements> Evaluator::walked(ir::NodeId root, const Indices& indices) {
  const auto is_walked = [&](ir::NodeId id) {
    return id == root || !(is_point(id) || held_[id] || kept_.count(id) != 0);
  };
  if (indices.empty()) return Elements{};
  Walk walk;
  walk[root].indices = indices;
  // Consumers first; the operands that a step adds have smaller ids, so the iterator meets them later.
  for (auto step = walk.end(); step != walk.begin();) {
    --step;
    ascend(step->second.indices);
    if (is_walked(step->first)) request_operands(step->first, step->second, walk);
  }
  for (auto& [id, request_element] : walk) {
    auto elements = is_walked(id) ? walked_values(id, walk) : values(id, request_element.indices);
    if (!elements) return std::move(elements).error();
    request_element.values = *std::move(elements);
  }
  const ElementRequest& asked = walk.at(root);
  Elements result;
  result.reserve(indices.size());
  for (std::int64_t index : indices) result.push_back(asked.at(index));
  return result;
}

void Evaluator::request_operands(ir::NodeId id, ElementRequest& request_element, Walk& walk) const {
  const ir::Node& node = graph_.node(id);
  if (node.op->cls == ops::OpClass::view) {
    std::vector<Sizes> operands;
    for (ir::NodeId operand : node.operands) operands.push_back(sizes(operand));
    request_element.sources = view_sources(node, operands, sizes(id), request_element.indices);
    for (const Source& source : request_element.sources)
      walk[node.operands[source.operand]].indices.push_back(source.index);
    return;
  }
  for (ir::NodeId operand : node.operands) {
    Indices& wanted = walk[operand].indices;
    if (sizes(operand) == sizes(id)) {
      wanted.insert(wanted.end(), request_element.indices.begin(), request_element.indices.end());
    } else {
      for (std::int64_t index : request_element.indices)
        wanted.push_back(broadcast_index(index, sizes(id), sizes(operand)));
    }
  }
}

Result<Elements> Evaluator::walked_values(ir::NodeId id, const Walk& walk) {
  const ir::Node& node = graph_.node(id);
  const ElementRequest& request_element = walk.at(id);
  switch (node.op->cls) {
    case ops::OpClass::input: {
      const std::string& name = std::get<ir::InputPayload>(node.payload).name;
      const auto found = input_bindings_.inputs.find(name);
      if (found == input_bindings_.inputs.end()) return invalid("Input '{}' was not given.", name);
      return stored(node.type.dtype, found->second, request_element.indices);
    }
    case ops::OpClass::constant:
      return stored(node.type.dtype, *std::get<ir::ConstantPayload>(node.payload).bytes, request_element.indices);
    case ops::OpClass::generate: {
      Elements result;
      for (const std::int64_t index : request_element.indices)
        result.push_back(generated_element(node, sizes(id), index));
      return result;
    }
    case ops::OpClass::view: {
      Elements result;
      result.reserve(request_element.indices.size());
      for (const Source& source : request_element.sources)
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
  std::vector<const ElementRequest*> element_requests;
  std::vector<bool> same_shape;
  for (ir::NodeId operand : node.operands) {
    dtypes.push_back(graph_.node(operand).type.dtype);
    element_requests.push_back(&walk.at(operand));
    same_shape.push_back(sizes(operand) == sizes(id));
  }
  Elements result(indices.size());
  Elements operands(element_requests.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    for (std::size_t k = 0; k < element_requests.size(); ++k) {
      const bool same_list =
          same_shape[k] && element_requests[k]->indices.size() == indices.size();  // a subset of equal size
      operands[k] =
          same_list ? element_requests[k]->values[i]
                    : element_requests[k]->at(
                          same_shape[k] ? indices[i] : broadcast_index(indices[i], sizes(id), sizes(node.operands[k])));
    }
    result[i] = apply(node, dtypes, operands);
  }
  return result;
}

}  // namespace vkfuse::reference

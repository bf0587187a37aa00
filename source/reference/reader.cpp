#include "reference/reader.hpp"

#include <algorithm>
#include <numeric>

#include "reference/leaves.hpp"

namespace vkfuse::reference {

namespace {

/// Writes an element of a dtype to a block.
void put(DType dtype, std::size_t i, const Element& element, Block& into) {
  if (is_float(dtype)) {
    into.real[i] = element.real;
  } else {
    into.integer[i] = element.integer;
  }
  into.bound[i] = element.bound;
}

Element element_of(DType dtype, const Block& from, std::size_t i) {
  return is_float(dtype) ? Element{from.real[i], 0, from.bound[i]} : Element{0, from.integer[i], from.bound[i]};
}

void copy_element(const Block& from, std::size_t i, Block& into, std::size_t to) {
  if (!into.real.empty()) into.real[to] = from.real[i];
  if (!into.integer.empty()) into.integer[to] = from.integer[i];
  into.bound[to] = from.bound[i];
}

}  // namespace

Result<std::span<const std::byte>> Reader::bytes_of(ir::NodeId id) const {
  const ir::Node& node = graph_.node(id);
  std::span<const std::byte> bytes;
  if (const auto* input = std::get_if<ir::InputPayload>(&node.payload)) {
    const auto found = input_bindings_.inputs.find(input->name);
    if (found == input_bindings_.inputs.end()) return invalid("Input '{}' was not given.", input->name);
    bytes = found->second;
  } else {
    bytes = *std::get<ir::ConstantPayload>(node.payload).bytes;
  }
  VKF_TRY(count, element_count(sizes_[id]));
  const auto width = static_cast<std::size_t>(size_of(node.type.dtype));
  const std::size_t whole = bytes.size() / width;
  if (whole < static_cast<std::size_t>(count))
    return invalid("A value has {} bytes, too few for its element {}.", bytes.size(), whole);
  return bytes;
}

std::vector<Sizes> Reader::operand_sizes(const ir::Node& node) const {
  std::vector<Sizes> all;
  for (const ir::NodeId operand : node.operands) all.push_back(sizes_[operand]);
  return all;
}

void Reader::read(ir::NodeId id, std::span<const std::int64_t> indices, Block& into) const {
  const ir::Node& node = graph_.node(id);
  into.resize(node.type.dtype, indices.size());
  if (const Dense* from = held_[id].get()) return read_held(*from, indices, into);
  switch (node.op->cls) {
    case ops::OpClass::input:
    case ops::OpClass::constant: return read_bytes(id, indices, into);
    case ops::OpClass::view: return read_view(id, indices, into);
    case ops::OpClass::generate:
      for (std::size_t i = 0; i < indices.size(); ++i)
        put(node.type.dtype, i, generated_element(node, sizes_[id], indices[i]), into);
      return;
    default:
      check(node.op->cls == ops::OpClass::elementwise || node.op->cls == ops::OpClass::convert ||
                node.op->cls == ops::OpClass::annotation,
            "the reference holds what it does not compute again");
      return read_elementwise(id, indices, into);
  }
}

void Reader::read_held(const Dense& from, std::span<const std::int64_t> indices, Block& into) const {
  if (from.real) {
    for (std::size_t i = 0; i < indices.size(); ++i) into.real[i] = from.real[static_cast<std::size_t>(indices[i])];
  } else {
    for (std::size_t i = 0; i < indices.size(); ++i)
      into.integer[i] = from.integer[static_cast<std::size_t>(indices[i])];
  }
  if (!from.bound) return std::fill(into.bound.begin(), into.bound.end(), 0.0);
  for (std::size_t i = 0; i < indices.size(); ++i) into.bound[i] = from.bound[static_cast<std::size_t>(indices[i])];
}

void Reader::read_bytes(ir::NodeId id, std::span<const std::int64_t> indices, Block& into) const {
  const ir::Node& node = graph_.node(id);
  const DType dtype = node.type.dtype;
  const auto width = static_cast<std::size_t>(size_of(dtype));
  const std::byte* bytes =
      std::holds_alternative<ir::InputPayload>(node.payload)
          ? input_bindings_.inputs.find(std::get<ir::InputPayload>(node.payload).name)->second.data()
          : std::get<ir::ConstantPayload>(node.payload).bytes->data();
  for (std::size_t i = 0; i < indices.size(); ++i)
    put(dtype, i, stored_element(dtype, bytes + static_cast<std::size_t>(indices[i]) * width), into);
}

void Reader::read_sources(const ir::Node& node, std::span<const Source> sources, Block& into) const {
  std::vector<std::int64_t> indices;
  std::vector<std::size_t> to;
  Block block;
  for (std::size_t k = 0; k < node.operands.size(); ++k) {
    indices.clear();
    to.clear();
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (sources[i].operand != k) continue;
      indices.push_back(sources[i].index);
      to.push_back(i);
    }
    if (indices.empty()) continue;
    if (indices.size() == sources.size()) return read(node.operands[k], indices, into);
    block = {};
    read(node.operands[k], indices, block);
    for (std::size_t i = 0; i < to.size(); ++i) copy_element(block, i, into, to[i]);
  }
}

void Reader::read_view(ir::NodeId id, std::span<const std::int64_t> indices, Block& into) const {
  const ir::Node& node = graph_.node(id);
  const Sizes& sizes = sizes_[id];
  const auto affine = affine_view(node, sizes_[node.operands[0]], sizes);
  if (!affine) return read_sources(node, view_sources(node, operand_sizes(node), sizes, indices), into);
  std::vector<std::int64_t> from;
  from.reserve(indices.size());
  for (std::int64_t index : indices) {
    std::int64_t at = affine->offset;
    for (std::size_t i = sizes.size(); i-- > 0; index /= sizes[i]) at += index % sizes[i] * affine->strides[i];
    from.push_back(at);
  }
  read(node.operands[0], from, into);
}

void Reader::apply_each(ir::NodeId id, std::span<const Block> operands, std::span<const bool> is_scalar,
                        std::size_t count, Block& into) const {
  const ir::Node& node = graph_.node(id);
  this->count(id, static_cast<std::int64_t>(count));
  std::vector<DType> dtypes;
  for (const ir::NodeId operand : node.operands) dtypes.push_back(graph_.node(operand).type.dtype);
  std::vector<Element> x(operands.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = element_of(dtypes[k], operands[k], is_scalar[k] ? 0 : i);
    put(node.type.dtype, i, apply(node, dtypes, x), into);
  }
}

void Reader::read_elementwise(ir::NodeId id, std::span<const std::int64_t> indices, Block& into) const {
  const ir::Node& node = graph_.node(id);
  std::vector<Block> operands(node.operands.size());
  const auto is_scalar = std::make_unique<bool[]>(operands.size());
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Sizes& own = sizes_[node.operands[k]];
    if (own == sizes_[id]) {
      read(node.operands[k], indices, operands[k]);
      continue;
    }
    std::vector<std::int64_t> from;
    for (const std::int64_t index : indices) from.push_back(broadcast_index(index, sizes_[id], own));
    read(node.operands[k], from, operands[k]);
  }
  apply_each(id, operands, {is_scalar.get(), operands.size()}, indices.size(), into);
}

void Reader::compute(ir::NodeId id, std::int64_t begin, std::int64_t end, Block& into) const {
  const ir::Node& node = graph_.node(id);
  const auto count = static_cast<std::size_t>(end - begin);
  into.resize(node.type.dtype, count);
  std::vector<std::int64_t> indices(count);
  std::iota(indices.begin(), indices.end(), begin);
  if (node.op->cls == ops::OpClass::generate) {
    this->count(id, end - begin);
    for (std::size_t i = 0; i < count; ++i)
      put(node.type.dtype, i, generated_element(node, sizes_[id], indices[i]), into);
    return;
  }
  if (node.op->cls == ops::OpClass::view) {
    this->count(id, end - begin);
    const auto affine = affine_view(node, sizes_[node.operands[0]], sizes_[id]);
    if (!affine) return read_sources(node, view_sources(node, operand_sizes(node), sizes_[id], indices), into);
    affine_run(sizes_[id], *affine, begin, end, indices);
    return read(node.operands[0], indices, into);
  }
  std::vector<Block> operands(node.operands.size());
  const auto is_scalar = std::make_unique<bool[]>(operands.size());
  std::vector<std::int64_t> from;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Sizes& own = sizes_[node.operands[k]];
    std::int64_t elements = 1;
    for (const std::int64_t size : own) elements *= size;
    is_scalar[k] = elements == 1;
    if (is_scalar[k]) {
      from.assign(1, 0);
      read(node.operands[k], from, operands[k]);
    } else if (own == sizes_[id]) {
      read(node.operands[k], indices, operands[k]);
    } else {
      affine_run(sizes_[id], {broadcast_strides(sizes_[id], own), 0}, begin, end, from);
      read(node.operands[k], from, operands[k]);
    }
  }
  apply_each(id, operands, {is_scalar.get(), operands.size()}, count, into);
}

}  // namespace vkfuse::reference

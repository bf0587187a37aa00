#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/elementwise.hpp"
#include "reference/reference.hpp"

namespace vkfuse::reference {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kBlock = 4096;  // elements evaluated together: bounds the memory of a large cone

using Indices = std::vector<std::int64_t>;

/// Flat indices of a shape as flat indices of an operand that broadcasts to it.
Indices broadcast_indices(const Indices& indices, const Sizes& shape, const Sizes& operand) {
  Indices mapped(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    std::int64_t rest = indices[i];
    std::int64_t stride = 1;
    std::int64_t at = 0;
    for (std::size_t back = 1; back <= operand.size(); ++back) {
      const std::int64_t size = shape[shape.size() - back];
      const std::int64_t own = operand[operand.size() - back];
      if (own != 1) at += rest % size * stride;
      rest /= size;
      stride *= own;
    }
    mapped[i] = at;
  }
  return mapped;
}

/// Evaluates the cone of one value at one block of indices: first which indices each node is needed
/// at, consumers first; then the values, operands first.
class Cone {
 public:
  Cone(const ir::Graph& graph, const Feeds& feeds) : graph_(graph), feeds_(feeds) {}

  Result<Column> run(ir::NodeId value, Indices indices) {
    std::map<ir::NodeId, Indices> needed;
    needed[value] = std::move(indices);
    // Broadcasting aligns innermost dimensions, so a node is needed at one index per element of the
    // result, whichever way it is reached.
    for (ir::NodeId id = value + 1; id-- > 0;) {
      const auto found = needed.find(id);
      if (found == needed.end()) continue;
      VKF_TRY(shape, resolve(graph_.node(id).type.shape, feeds_.symbols));
      for (ir::NodeId operand : graph_.node(id).operands) {
        if (needed.count(operand) != 0) continue;
        VKF_TRY(sizes, resolve(graph_.node(operand).type.shape, feeds_.symbols));
        needed[operand] = sizes == shape ? found->second : broadcast_indices(found->second, shape, sizes);
      }
    }
    std::map<ir::NodeId, std::vector<Element>> values;
    for (const auto& entry : needed) {
      VKF_TRY(column, node_values(entry.first, entry.second, values));
      values[entry.first] = std::move(column);
    }
    return to_column(values[value]);
  }

 private:
  Result<std::vector<Element>> node_values(ir::NodeId id, const Indices& indices, const std::map<ir::NodeId, std::vector<Element>>& values) {
    const ir::Node& node = graph_.node(id);
    if (const auto* input = std::get_if<ir::InputPayload>(&node.payload)) {
      const auto found = feeds_.inputs.find(input->name);
      if (found == feeds_.inputs.end()) return invalid("Input '{}' was not given.", input->name);
      return stored(node.type.dtype, found->second, indices);
    }
    if (const auto* constant = std::get_if<ir::ConstantPayload>(&node.payload)) return stored(node.type.dtype, *constant->bytes, indices);
    if (node.op->cls == ops::OpClass::generate) return generated(node, indices);

    std::vector<DType> dtypes;
    std::vector<const std::vector<Element>*> columns;
    for (ir::NodeId operand : node.operands) {
      dtypes.push_back(graph_.node(operand).type.dtype);
      columns.push_back(&values.at(operand));
    }
    std::vector<Element> result(indices.size());
    std::vector<Element> operands(columns.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      for (std::size_t k = 0; k < columns.size(); ++k) operands[k] = (*columns[k])[i];
      result[i] = apply(node, dtypes, operands);
    }
    return result;
  }

  static Result<std::vector<Element>> stored(DType dtype, std::span<const std::byte> bytes, const Indices& indices) {
    const auto width = static_cast<std::size_t>(size_of(dtype));
    std::vector<Element> result;
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

  Result<std::vector<Element>> generated(const ir::Node& node, const Indices& indices) {
    std::vector<Element> result(indices.size());
    const auto* random = std::get_if<ir::RandomPayload>(&node.payload);
    std::int64_t inner = 1;
    std::int64_t size = 1;
    if (random == nullptr) {
      VKF_TRY(sizes, resolve(node.type.shape, feeds_.symbols));
      const auto axis = static_cast<std::size_t>(std::get<ir::IotaPayload>(node.payload).axis);
      for (std::size_t i = axis + 1; i < sizes.size(); ++i) inner *= sizes[i];
      size = sizes[axis];
    }
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (random != nullptr) {
        result[i].integer = ops::philox(random->seed, static_cast<std::uint64_t>(indices[i]));
        continue;
      }
      const std::int64_t position = indices[i] / inner % size;
      if (is_float(node.type.dtype)) {
        result[i].real = static_cast<double>(position);
        if (position > (1 << 24)) result[i].bound = result[i].real * 0x1p-23;
        if (node.type.dtype != DType::f32) result[i].bound += std::abs(result[i].real) * 0x1p-8;
        settle(node.type.dtype, result[i].real, result[i].bound);
      } else {
        result[i].integer = ops::wrap(node.type.dtype, position);
      }
    }
    return result;
  }

  static Column to_column(const std::vector<Element>& elements) {
    Column column;
    for (const Element& element : elements) {
      column.value.push_back(element.real);
      column.integer.push_back(element.integer);
      column.bound.push_back(element.bound);
    }
    return column;
  }

  const ir::Graph& graph_;
  const Feeds& feeds_;
};

}  // namespace

Result<Column> evaluate_at(const ir::Graph& graph, ir::NodeId value, std::span<const std::int64_t> indices, const Feeds& feeds) {
  Column all;
  for (std::size_t start = 0; start < indices.size(); start += kBlock) {
    const auto part = indices.subspan(start, std::min(kBlock, indices.size() - start));
    VKF_TRY(column, Cone(graph, feeds).run(value, Indices(part.begin(), part.end())));
    all.value.insert(all.value.end(), column.value.begin(), column.value.end());
    all.integer.insert(all.integer.end(), column.integer.begin(), column.integer.end());
    all.bound.insert(all.bound.end(), column.bound.begin(), column.bound.end());
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

namespace {

/// Error over bound of one float, or infinity when it is wrong.
double float_ratio(DType dtype, double got, double want, double bound, double& error) {
  if (std::isnan(got) && std::isnan(want)) return 0;
  if (got == want) return 0;
  const double overflow = dtype == DType::f16 ? 65504.0 : dtype == DType::bf16 ? 0x1.fep127 : 3.4028234663852886e38;
  if (std::isinf(got) && std::signbit(got) == std::signbit(want) && std::abs(want) + bound >= overflow && dtype != DType::f64) return 0;
  error = std::abs(got - want);
  if (std::isnan(error)) return kInfinity;
  return error <= bound ? error / bound : kInfinity;
}

}  // namespace

Comparison compare(DType dtype, std::span<const std::byte> got, const Column& want, std::span<const std::int64_t> offsets) {
  Comparison result;
  const auto width = static_cast<std::size_t>(size_of(dtype));
  result.elements = static_cast<std::int64_t>(want.bound.size());
  for (std::size_t i = 0; i < want.bound.size(); ++i) {
    if (want.bound[i] == kInfinity) {
      ++result.undecided;
      continue;
    }
    const std::size_t offset = offsets.empty() ? i : static_cast<std::size_t>(offsets[i]);
    const std::byte* at = got.data() + offset * width;
    double ratio = 0;
    double error = 0;
    if (is_float(dtype)) {
      ratio = float_ratio(dtype, ir::decode(dtype, at), want.value[i], want.bound[i], error);
    } else if (ir::decode_int(dtype, at) != want.integer[i]) {
      ratio = kInfinity;
    }
    if (ratio == kInfinity) {
      ++result.wrong;
      if (result.first_wrong.empty()) {
        result.first_wrong = is_float(dtype) ? fmt::format("Element {} is {}, but {} +- {} is right.", offset, ir::decode(dtype, at), want.value[i], want.bound[i])
                                             : fmt::format("Element {} is {}, but {} is right.", offset, ir::decode_int(dtype, at), want.integer[i]);
        result.worst = static_cast<std::int64_t>(i);
      }
      continue;
    }
    result.max_error = std::max(result.max_error, error);
    if (ratio > result.max_ratio) {
      result.max_ratio = ratio;
      if (result.first_wrong.empty()) result.worst = static_cast<std::int64_t>(i);
    }
  }
  return result;
}

}  // namespace vkfuse::reference

// Sums of products at the elements that are asked for: each line of an operand that some result needs is read once.
#include <map>

#include "reference/dot.hpp"
#include "reference/evaluator.hpp"
#include "reference/reduction.hpp"

namespace vkfuse::reference {

namespace {

constexpr std::int64_t kHeldElements = std::int64_t{1} << 20;  // of lines, at a time

/// Lines of an operand by where they begin.
using LinesByBegin = std::map<std::int64_t, Elements>;

Indices indices_of(const LinesByBegin& lines, const Indices& offsets) {
  Indices all;
  for (const auto& line : lines) {
    for (std::int64_t offset : offsets) all.push_back(line.first + offset);
  }
  return all;
}

/// Takes the elements at indices_of.
void fill(LinesByBegin& lines, std::int64_t length, const Elements& elements) {
  auto from = elements.begin();
  for (auto& line : lines) {
    line.second.assign(from, from + length);
    from += length;
  }
}

}  // namespace

Result<Elements> Evaluator::contracted(ir::NodeId id, const Indices& indices) {
  const ir::Node& node = graph_.node(id);
  const ir::NodeId a = node.operands[0];
  const ir::NodeId b = node.operands[1];
  const DotShape shape(std::get<ir::DotPayload>(node.payload), sizes(a), sizes(b));
  const std::int64_t length = shape.length();
  Elements results(indices.size(), Reducer(node.op->reduction, node.type.dtype, 0).result());
  if (length == 0) return results;
  const Indices offsets_a = shape.along_a.offsets();
  const Indices offsets_b = shape.along_b.offsets();
  const bool coefficients_first = coefficients_of_first(graph_, node);
  const auto read = [&](ir::NodeId operand, const Indices& offsets, LinesByBegin& lines) -> Result<void> {
    VKF_TRY(elements, values(operand, indices_of(lines, offsets)));
    fill(lines, length, elements);
    return {};
  };
  const std::int64_t columns = shape.free_b.count(), rows = shape.free_a.count();
  std::size_t done = 0;
  while (done < indices.size()) {
    LinesByBegin lines_a;
    LinesByBegin lines_b;
    std::vector<std::pair<std::int64_t, std::int64_t>> begins;
    for (std::size_t i = done; i < indices.size(); ++i) {
      const std::int64_t n = indices[i] % columns;
      const std::int64_t m = indices[i] / columns % rows;
      const std::int64_t batch = indices[i] / columns / rows;
      begins.emplace_back(shape.batch_a.offset(batch) + shape.free_a.offset(m),
                          shape.batch_b.offset(batch) + shape.free_b.offset(n));
      lines_a[begins.back().first];
      lines_b[begins.back().second];
      if (static_cast<std::int64_t>(lines_a.size() + lines_b.size()) * length > kHeldElements) break;
    }
    VKF_CHECK_OK(read(a, offsets_a, lines_a));
    VKF_CHECK_OK(read(b, offsets_b, lines_b));
    for (const auto& [begin_a, begin_b] : begins)
      results[done++] = dot_of_lines(node, coefficients_first, lines_a.at(begin_a), lines_b.at(begin_b));
  }
  return results;
}

}  // namespace vkfuse::reference

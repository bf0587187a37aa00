// The way in: values that are needed as a whole, in the order of the nodes, then what is asked for of the others.
#include <algorithm>
#include <numeric>

#include "base/numerics.hpp"
#include "reference/dot.hpp"
#include "reference/evaluation.hpp"
#include "reference/evaluator.hpp"
#include "reference/lines.hpp"
#include "reference/reduction.hpp"

namespace vkfuse::reference {

namespace {

using Way = Plan::Way;

constexpr const char* kTimedOut = "The reference has not ended within the time that it was given.";

class Evaluation {
 public:
  Evaluation(const ir::Graph& graph, const InputBindings& input_bindings, const EvaluateOptions& options, Plan plan)
      : graph_(graph),
        options_(options),
        plan_(std::move(plan)),
        held_(plan_.ways.size()),
        counters_(plan_.ways.size()),
        reader_({graph, input_bindings, plan_.sizes, held_, counters_}),
        evaluator_({graph, input_bindings, plan_.sizes, held_, counters_}, options.deadline) {}

  Result<std::vector<Column>> columns(std::span<const Request> requests);

 private:
  void count_readers(std::span<const Request> requests);
  Result<void> compute(ir::NodeId id);
  Result<std::shared_ptr<const Dense>> computed(ir::NodeId id);
  Dense by_blocks(ir::NodeId id) const;
  Dense reduced(ir::NodeId id) const;
  Result<Dense> by_evaluator(ir::NodeId id);
  void release(ir::NodeId id);
  Column read_column(const Request& request) const;
  Result<Column> requested_column(const Request& request);
  [[nodiscard]] Indices part_of(const Request& request, std::int64_t begin) const;
  [[nodiscard]] std::int64_t count_of(const Request& request) const {
    return request.indices ? static_cast<std::int64_t>(request.indices->size()) : plan_.counts[request.value];
  }

  const ir::Graph& graph_;
  const EvaluateOptions& options_;
  Plan plan_;
  Materialised held_;
  std::vector<std::int64_t> readers_;  ///< of each node, that are not yet done
  Counters counters_;
  Reader reader_;
  Evaluator evaluator_;
};

void Evaluation::count_readers(std::span<const Request> requests) {
  readers_.assign(plan_.ways.size(), 0);
  for (const Request& request : requests) ++readers_[request.value];
  for (ir::NodeId id = 0; id < plan_.ways.size(); ++id) {
    if (plan_.ways[id] == Way::none) continue;
    for (const ir::NodeId operand : graph_.node(id).operands) ++readers_[operand];
  }
}

/// One reader is done. What is computed where it is read keeps its operands as long as it has readers.
void Evaluation::release(ir::NodeId id) {
  std::vector<ir::NodeId> pending = {id};
  while (!pending.empty()) {
    const ir::NodeId next = pending.back();
    pending.pop_back();
    if (--readers_[next] > 0) continue;
    held_[next].reset();
    if (plan_.ways[next] != Way::again) continue;
    for (const ir::NodeId operand : graph_.node(next).operands) pending.push_back(operand);
  }
}

Result<std::vector<Column>> Evaluation::columns(std::span<const Request> requests) {
  count_readers(requests);
  std::vector<Column> columns(requests.size());
  std::vector<std::vector<std::size_t>> asking(plan_.ways.size());
  for (std::size_t i = 0; i < requests.size(); ++i) asking[requests[i].value].push_back(i);
  for (ir::NodeId id = 0; id < plan_.ways.size(); ++id) {
    if (plan_.ways[id] != Way::dense && plan_.ways[id] != Way::again) continue;
    VKF_CHECK_OK(compute(id));
    for (const std::size_t i : asking[id]) {
      columns[i] = read_column(requests[i]);
      release(id);
    }
  }
  std::vector<ir::NodeId> others;
  for (const Request& request : requests) {
    if (plan_.ways[request.value] == Way::requested) others.push_back(request.value);
  }
  evaluator_.keep_below(others);
  VKF_CHECK_OK(evaluator_.prepare());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (plan_.ways[requests[i].value] != Way::requested) continue;
    VKF_TRY(column, requested_column(requests[i]));
    columns[i] = std::move(column);
  }
  if (options_.computed != nullptr) options_.computed->assign(counters_.begin(), counters_.end());
  return columns;
}

Result<void> Evaluation::compute(ir::NodeId id) {
  const ir::Node& node = graph_.node(id);
  if (node.op->cls == ops::OpClass::input || node.op->cls == ops::OpClass::constant) {
    VKF_TRY(bytes, reader_.bytes_of(id));
    static_cast<void>(bytes);
    return {};
  }
  if (plan_.ways[id] == Way::again) return {};
  VKF_TRY(value, computed(id));
  held_[id] = std::move(value);
  for (const ir::NodeId operand : node.operands) release(operand);
  return {};
}

Result<std::shared_ptr<const Dense>> Evaluation::computed(ir::NodeId id) {
  const ir::Node& node = graph_.node(id);
  if (node.op->role == ops::Role::reshape && held_[node.operands[0]]) return held_[node.operands[0]];
  Dense value;
  switch (node.op->cls) {
    case ops::OpClass::elementwise:
    case ops::OpClass::convert:
    case ops::OpClass::generate:
    case ops::OpClass::annotation:
    case ops::OpClass::view: value = by_blocks(id); break;
    case ops::OpClass::reduce: value = reduced(id); break;
    default: {
      if (is_dense_dot(node)) {
        value = Dense(node.type.dtype, plan_.counts[id]);
        dense_dot(id, reader_, options_.deadline, value);
        break;
      }
      VKF_TRY(other, by_evaluator(id));
      value = std::move(other);
    }
  }
  const double* bounds = value.bound.get();
  if (std::all_of(bounds, bounds + value.count, [](double bound) { return bound == 0; })) value.bound.reset();
  return std::make_shared<const Dense>(std::move(value));
}

Dense Evaluation::by_blocks(ir::NodeId id) const {
  const ir::Node& node = graph_.node(id);
  Dense value(node.type.dtype, plan_.counts[id]);
  // A function of the user's may not be one for several threads.
  const bool is_own = std::holds_alternative<ir::CustomPayload>(node.payload);
  parallel_for(value.count, static_cast<std::int64_t>(kBlock), is_own ? 0 : 40, options_.deadline,
               [&](std::int64_t begin, std::int64_t end) {
                 Block block;
                 reader_.compute(id, begin, end, block);
                 if (value.real) std::copy(block.real.begin(), block.real.end(), value.real.get() + begin);
                 if (value.integer) std::copy(block.integer.begin(), block.integer.end(), value.integer.get() + begin);
                 std::copy(block.bound.begin(), block.bound.end(), value.bound.get() + begin);
               });
  return value;
}

Dense Evaluation::reduced(ir::NodeId id) const {
  const ir::Node& node = graph_.node(id);
  const ir::NodeId operand = node.operands[0];
  const DType dtype = graph_.node(operand).type.dtype;
  const Fibers fibers(plan_.sizes[operand], std::get<ir::AxesPayload>(node.payload).axes);
  const std::int64_t length = fibers.length();
  const Reducer empty(node.op->reduction, dtype, longest_sum_chain(length));
  Dense value(node.type.dtype, plan_.counts[id]);
  const std::int64_t step = static_cast<std::int64_t>(kBlock);
  parallel_for(value.count, std::max<std::int64_t>(1, step / std::max<std::int64_t>(1, length)),
               20 * static_cast<double>(length), options_.deadline, [&](std::int64_t begin, std::int64_t end) {
                 Indices indices;
                 Block block;
                 reader_.count(id, end - begin);
                 for (std::int64_t result = begin; result < end; ++result) {
                   Reducer reducer(empty);
                   const std::int64_t base = fibers.base(result);
                   for (std::int64_t from = 0; from < length; from += step) {
                     indices.clear();
                     for (std::int64_t k = from; k < std::min(length, from + step); ++k)
                       indices.push_back(base + fibers.offset(k));
                     reader_.read(operand, indices, block);
                     for (std::size_t i = 0; i < indices.size(); ++i) {
                       reducer.add({is_float(dtype) ? block.real[i] : 0, is_float(dtype) ? 0 : block.integer[i],
                                    block.bound[i]});
                     }
                   }
                   value.set(result, reducer.result());
                 }
               });
  return value;
}

/// What needs lines or data: as many elements at a time as make whole lines.
Result<Dense> Evaluation::by_evaluator(ir::NodeId id) {
  const ir::Node& node = graph_.node(id);
  Dense value(node.type.dtype, plan_.counts[id]);
  std::int64_t lines = 1;
  if (const auto* scan = std::get_if<ir::ScanPayload>(&node.payload))
    lines = Lines(plan_.sizes[id], scan->axis).inner * Lines(plan_.sizes[id], scan->axis).size;
  if (const auto* sort = std::get_if<ir::SortPayload>(&node.payload))
    lines = Lines(plan_.sizes[id], sort->axis).inner * Lines(plan_.sizes[id], sort->axis).size;
  const std::int64_t step =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(kBlock) * 4 / std::max<std::int64_t>(1, lines)) *
      std::max<std::int64_t>(1, lines);
  for (std::int64_t begin = 0; begin < value.count; begin += step) {
    Indices indices(static_cast<std::size_t>(std::min(step, value.count - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    VKF_TRY(elements, evaluator_.computed(id, indices));
    for (std::size_t i = 0; i < elements.size(); ++i) value.set(begin + static_cast<std::int64_t>(i), elements[i]);
  }
  return value;
}

Indices Evaluation::part_of(const Request& request, std::int64_t begin) const {
  const auto size =
      static_cast<std::size_t>(std::min<std::int64_t>(static_cast<std::int64_t>(kBlock), count_of(request) - begin));
  if (request.indices)
    return {request.indices->begin() + begin, request.indices->begin() + begin + static_cast<std::ptrdiff_t>(size)};
  Indices part(size);
  std::iota(part.begin(), part.end(), begin);
  return part;
}

void reserve(Column& column, std::int64_t count) {
  column.value.reserve(static_cast<std::size_t>(count));
  column.integer.reserve(static_cast<std::size_t>(count));
  column.bound.reserve(static_cast<std::size_t>(count));
}

/// Of a value that is held, or is read through.
Column Evaluation::read_column(const Request& request) const {
  Column column;
  reserve(column, count_of(request));
  const bool of_floats = is_float(graph_.node(request.value).type.dtype);
  Block block;
  for (std::int64_t begin = 0; begin < count_of(request); begin += static_cast<std::int64_t>(kBlock)) {
    const Indices part = part_of(request, begin);
    reader_.read(request.value, part, block);
    for (std::size_t i = 0; i < part.size(); ++i) {
      column.value.push_back(of_floats ? block.real[i] : 0);
      column.integer.push_back(of_floats ? 0 : block.integer[i]);
      column.bound.push_back(block.bound[i]);
    }
  }
  return column;
}

Result<Column> Evaluation::requested_column(const Request& request) {
  Column column;
  reserve(column, count_of(request));
  for (std::int64_t begin = 0; begin < count_of(request); begin += static_cast<std::int64_t>(kBlock)) {
    VKF_TRY(elements, evaluator_.values(request.value, part_of(request, begin)));
    for (const Element& element : elements) {
      column.value.push_back(element.real);
      column.integer.push_back(element.integer);
      column.bound.push_back(element.bound);
    }
  }
  return column;
}

}  // namespace

Result<std::vector<Column>> evaluate_each(const ir::Graph& graph, std::span<const Request> requests,
                                          const InputBindings& input_bindings, const EvaluateOptions& options) {
  VKF_TRY(plan, plan_evaluation(graph, requests, input_bindings, options.memory_bytes));
  try {
    return Evaluation(graph, input_bindings, options, std::move(plan)).columns(requests);
  } catch (const DeadlinePassed&) {
    return unsupported("{}", kTimedOut);
  }
}

Result<double> modelled_seconds(const ir::Graph& graph, std::span<const Request> requests,
                                const InputBindings& input_bindings) {
  VKF_TRY(plan, plan_evaluation(graph, requests, input_bindings, EvaluateOptions{}.memory_bytes));
  return plan.nanoseconds * 1e-9 / std::max(1U, std::thread::hardware_concurrency());
}

bool has_timed_out(const Error& error) { return error.message == kTimedOut; }

Result<Column> evaluate_at(const ir::Graph& graph, ir::NodeId value, std::span<const std::int64_t> indices,
                           const InputBindings& input_bindings) {
  const Request request = {value, std::vector<std::int64_t>(indices.begin(), indices.end())};
  VKF_TRY(columns, evaluate_each(graph, {&request, 1}, input_bindings));
  return std::move(columns[0]);
}

Result<Column> evaluate(const ir::Graph& graph, ir::NodeId value, const InputBindings& input_bindings) {
  const Request request = {value, std::nullopt};
  VKF_TRY(columns, evaluate_each(graph, {&request, 1}, input_bindings));
  return std::move(columns[0]);
}

}  // namespace vkfuse::reference

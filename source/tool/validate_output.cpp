#include "tool/validate_output.hpp"

#include <cmath>
#include <limits>

#include "api/program.hpp"

namespace vkfuse::tool {

namespace {

constexpr std::int64_t kMostElements = 1 << 22;  // of an output that is compared as a whole
constexpr std::int64_t kSamples = 1 << 16;       // elements of a larger output that are compared

constexpr std::int64_t kFewest = 64;  // that a time limit leaves of each output

/// All, or of more than `most` some, evenly spread, with both ends: tails are where vectors go wrong.
std::vector<std::int64_t> sample_indices(std::int64_t count, std::int64_t most) {
  std::vector<std::int64_t> indices;
  const bool is_all = count <= most;
  most = std::min(most, kSamples);
  if (is_all) {
    for (std::int64_t i = 0; i < count; ++i) indices.push_back(i);
    return indices;
  }
  for (std::int64_t i = 0; i < most; ++i) {
    indices.push_back(static_cast<std::int64_t>(static_cast<double>(i) / static_cast<double>(most - 1) *
                                                static_cast<double>(count - 1)));
  }
  return indices;
}

void place(OutputResult& result, const std::vector<std::int64_t>& elements) {
  const auto position = [&](std::int64_t row) {
    return row < 0
               ? std::vector<std::int64_t>{}
               : reference::position_of(elements.empty() ? row : elements[static_cast<std::size_t>(row)], result.sizes);
  };
  result.worst = position(result.found.by_reference.worst);
  if (result.found.by_file) result.file_worst = position(result.found.by_file->worst);
  if (!result.found.right()) result.tiles = reference::map_of_wrong(result.sizes, elements, result.found.wrong);
}

}  // namespace

CompileOptions compile_options(const ValidateOptions& options) {
  CompileOptions made;
  made.fusion = options.fusion;
  made.numerics = options.numerics;
  made.without = options.without;
  made.planner = options.fusion ? options.planner : "bytes";
  made.memory_budget = options.fusion ? options.memory_budget : 0;
  return made;
}

reference::InputBindings input_bindings_of(const RunInputs& inputs) {
  reference::InputBindings input_bindings;
  input_bindings.symbols = inputs.symbols;
  for (const auto& entry : inputs.tensors) input_bindings.inputs.emplace(entry.first, entry.second.bytes);
  return input_bindings;
}

OneKernelPerOp::OneKernelPerOp(const Device& device, const ir::Graph& graph, const Inputs& inputs,
                               const ValidateOptions& options)
    : device_(device), graph_(graph), inputs_(inputs), options_(options) {
  options_.fusion = false;
}

Result<const HostTensor*> OneKernelPerOp::output(const std::string& name) {
  if (!outputs_) {
    auto program = api::compile_graph(device_, graph_, compile_options(options_));
    outputs_ = program ? program->run(inputs_) : Result<Outputs>(std::move(program).error());
  }
  if (!*outputs_) return outputs_->error();
  return &(*outputs_)->at(name);
}

TimeLimit::TimeLimit(const ValidateOptions& options) {
  if (!options.time_limit_s) return;
  const auto length = std::chrono::duration<double>(std::min(*options.time_limit_s, 1e9));
  deadline_ =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(length);
}

double TimeLimit::seconds_left() const {
  if (!deadline_) return std::numeric_limits<double>::infinity();
  return std::chrono::duration<double>(*deadline_ - std::chrono::steady_clock::now()).count();
}

namespace {

/// At most so many elements of each output.
Result<std::vector<reference::Request>> requests_of(const ir::Graph& graph, const RunInputs& inputs,
                                                    std::span<const ir::Output> outputs, std::int64_t most) {
  std::vector<reference::Request> requests;
  for (const ir::Output& output : outputs) {
    VKF_TRY(sizes, resolve(graph.node(output.value).type.shape, inputs.symbols));
    VKF_TRY(count, element_count(sizes));
    requests.push_back({output.value, sample_indices(count, most)});
  }
  return requests;
}

}  // namespace

Result<std::vector<reference::Request>> affordable_requests(const ir::Graph& graph, const RunInputs& inputs,
                                                            std::span<const ir::Output> outputs, bool all_elements,
                                                            double left) {
  VKF_TRY(requests,
          requests_of(graph, inputs, outputs, all_elements ? std::numeric_limits<std::int64_t>::max() : kMostElements));
  VKF_TRY(seconds, reference::modelled_seconds(graph, requests, input_bindings_of(inputs)));
  if (!all_elements) {
    VKF_TRY(sampled, requests_of(graph, inputs, outputs, kSamples));
    VKF_TRY(least, reference::modelled_seconds(graph, sampled, input_bindings_of(inputs)));
    if (seconds > 2 * least + 1) {
      requests = std::move(sampled);
      seconds = least;
    }
  }
  for (std::int64_t most = kSamples; seconds > left && most >= kFewest; most /= 4) {
    VKF_TRY(fewer, requests_of(graph, inputs, outputs, most));
    VKF_TRY(less, reference::modelled_seconds(graph, fewer, input_bindings_of(inputs)));
    requests = std::move(fewer);
    seconds = less;
  }
  return requests;
}

namespace {

Result<std::vector<Referenced>> referenced_together(const ir::Graph& graph, const RunInputs& inputs,
                                                    std::span<const ir::Output> outputs, bool all,
                                                    const TimeLimit& limit) {
  VKF_TRY(requests, affordable_requests(graph, inputs, outputs, all, limit.seconds_left()));
  VKF_TRY(columns,
          reference::evaluate_each(graph, requests, input_bindings_of(inputs), {.deadline = limit.deadline()}));
  std::vector<Referenced> made;
  for (std::size_t i = 0; i < requests.size(); ++i)
    made.push_back({*std::move(requests[i].indices), std::move(columns[i])});
  return made;
}

}  // namespace

std::vector<Result<Referenced>> referenced(const ir::Graph& graph, const RunInputs& inputs,
                                           std::span<const ir::Output> outputs, bool all_elements,
                                           const TimeLimit& limit) {
  auto together = referenced_together(graph, inputs, outputs, all_elements, limit);
  std::vector<Result<Referenced>> made;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (together) {
      made.emplace_back(std::move((*together)[i]));
    } else if (outputs.size() == 1 || reference::has_timed_out(together.error())) {
      made.emplace_back(together.error());
    } else {  // some output has no reference
      auto alone = referenced_together(graph, inputs, outputs.subspan(i, 1), all_elements, limit);
      made.push_back(alone ? Result<Referenced>(std::move((*alone)[0])) : Result<Referenced>(std::move(alone).error()));
    }
  }
  return made;
}

bool fits(const HostTensor& got, const HostTensor& file) {
  const bool same = got.dtype == file.dtype ||
                    (got.dtype == DType::bf16 && file.dtype == DType::u16);  // as test data stores bfloat16
  return same && got.sizes == file.sizes;
}

Compared unreferenced_output(const ir::Output& output, const HostTensor& got) {
  Compared outcome;
  outcome.result.name = output.name;
  outcome.result.dtype = got.dtype;
  outcome.result.sizes = got.sizes;
  return outcome;
}

Compared compare_output(const Computed& from, const ir::Output& output, const HostTensor& got,
                        std::string& beside_unfused) {
  Compared outcome = unreferenced_output(output, got);
  outcome.reference = std::move(from.reference);
  const std::vector<std::int64_t>& elements = outcome.reference.elements;
  reference::Expected expected{outcome.reference.column, elements, {}, from.has_file};
  if (from.file != nullptr && fits(got, *from.file)) expected.file = from.file->bytes;
  expected.rounds = from.graph != nullptr && reference::rounds_computed_numbers(*from.graph, output.value);
  if (from.unfused != nullptr && reference::asks_for_unfused(got.dtype, got.bytes, expected)) {
    const Result<const HostTensor*> other = from.unfused->output(output.name);
    if (other) expected.unfused = (*other)->bytes;
    const bool refused = beside_unfused.starts_with(";");  // once is enough
    if (!refused)
      beside_unfused = other ? " and with one kernel per op"
                             : fmt::format("; one kernel per op cannot be run beside them: {}", other.error().message);
  }
  outcome.result.found = reference::compare_with_bounds(got.dtype, got.bytes, expected);
  place(outcome.result, elements);
  const reference::OutputComparison& found = outcome.result.found;
  if (found.by_reference.wrong > 0) {
    outcome.wrong = fmt::format("Output '{}': {} of {} elements are wrong. {}", output.name, found.by_reference.wrong,
                                found.elements, found.by_reference.first_wrong);
  }
  return outcome;
}

void compare_with_file(const HostTensor& got, const HostTensor& file, bool has_reference, Compared& outcome) {
  OutputResult& result = outcome.result;
  if (!fits(got, file)) {
    outcome.wrong =
        fmt::format("Output '{}': The output is {}[{}], but the file holds {}[{}].", result.name, name_of(got.dtype),
                    fmt::join(got.sizes, ", "), name_of(file.dtype), fmt::join(file.sizes, ", "));
    return;
  }
  const reference::Column* column = has_reference ? &outcome.reference.column : nullptr;
  reference::compare_with_file(got.dtype, got.bytes, file.bytes, {column, outcome.reference.elements}, result.found);
  place(result, {});
  const reference::Deviation& found = *result.found.by_file;
  if (found.wrong > 0 && outcome.wrong.empty()) {
    outcome.wrong = fmt::format("Output '{}': {} of {} elements are not what the file says. {}", result.name,
                                found.wrong, result.found.elements, found.first_wrong);
  }
}

}  // namespace vkfuse::tool

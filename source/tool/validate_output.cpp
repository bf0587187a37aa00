#include "tool/validate_output.hpp"

#include "api/program.hpp"

namespace vkfuse::tool {

namespace {

constexpr std::size_t kSamples = 1 << 16;  // elements of a large output that are compared

/// Evenly spread, with both ends: tails are where vectors go wrong.
std::vector<std::int64_t> sample_indices(std::int64_t count, bool all) {
  std::vector<std::int64_t> indices;
  const auto most = static_cast<std::int64_t>(kSamples);
  if (all || count <= most) {
    for (std::int64_t i = 0; i < count; ++i) indices.push_back(i);
    return indices;
  }
  for (std::int64_t i = 0; i < most; ++i) {
    indices.push_back(static_cast<std::int64_t>(static_cast<double>(i) / static_cast<double>(most - 1) * static_cast<double>(count - 1)));
  }
  return indices;
}

void place(OutputResult& result, const std::vector<std::int64_t>& elements) {
  const auto position = [&](std::int64_t row) {
    return row < 0 ? std::vector<std::int64_t>{} : reference::position_of(elements.empty() ? row : elements[static_cast<std::size_t>(row)], result.sizes);
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
  return made;
}

reference::Feeds feeds_of(const RunInputs& inputs) {
  reference::Feeds feeds;
  feeds.symbols = inputs.symbols;
  for (const auto& entry : inputs.tensors) feeds.inputs.emplace(entry.first, entry.second.bytes);
  return feeds;
}

OneKernelPerOp::OneKernelPerOp(const Device& device, const ir::Graph& graph, const Inputs& inputs, const ValidateOptions& options)
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

Result<Judged> judge_output(const Computed& from, const ir::Output& output, const HostTensor& got, std::string& beside_unfused) {
  std::int64_t count = 1;
  for (const std::int64_t size : got.sizes) count *= size;
  const std::vector<std::int64_t> elements = sample_indices(count, from.all_elements);
  VKF_TRY(column, reference::evaluate_at(from.graph, output.value, elements, feeds_of(from.inputs)));
  Judged judged;
  judged.column = std::move(column);
  reference::Expected expected{judged.column, elements, {}, from.has_file};
  if (from.unfused != nullptr && reference::asks_for_unfused(got.dtype, got.bytes, expected)) {
    const Result<const HostTensor*> other = from.unfused->output(output.name);
    if (other) expected.unfused = (*other)->bytes;
    const bool refused = beside_unfused.starts_with(";");  // once is enough
    if (!refused) beside_unfused = other ? " and with one kernel per op" : fmt::format("; one kernel per op cannot be run beside them: {}", other.error().message);
  }
  judged.result.name = output.name;
  judged.result.dtype = got.dtype;
  judged.result.sizes = got.sizes;
  judged.result.found = reference::judge(got.dtype, got.bytes, expected);
  place(judged.result, elements);
  const reference::Judgement& found = judged.result.found;
  if (found.by_reference.wrong > 0) {
    judged.wrong = fmt::format("Output '{}': {} of {} elements are wrong. {}", output.name, found.by_reference.wrong, found.elements, found.by_reference.first_wrong);
  }
  return judged;
}

void judge_by_file(const HostTensor& got, const HostTensor& file, bool has_column, Judged& judged) {
  OutputResult& result = judged.result;
  const DType dtype = got.dtype == DType::bf16 && file.dtype == DType::u16 ? got.dtype : file.dtype;  // as test data stores bfloat16
  if (got.dtype != dtype || got.sizes != file.sizes) {
    judged.wrong = fmt::format("Output '{}': The output is {}[{}], but the file holds {}[{}].", result.name, name_of(got.dtype), fmt::join(got.sizes, ", "), name_of(dtype),
                               fmt::join(file.sizes, ", "));
    return;
  }
  reference::judge_by_file(got.dtype, got.bytes, file.bytes, has_column ? &judged.column : nullptr, result.found);
  place(result, {});
  const reference::Deviation& found = *result.found.by_file;
  if (found.wrong > 0 && judged.wrong.empty()) {
    judged.wrong = fmt::format("Output '{}': {} of {} elements are not what the file says. {}", result.name, found.wrong, result.found.elements, found.first_wrong);
  }
}

}  // namespace vkfuse::tool

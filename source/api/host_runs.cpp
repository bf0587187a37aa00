// Runs that take inputs from the host, and give results back to it.
#include <algorithm>
#include <functional>

#include "api/states.hpp"
#include "base/host_memory.hpp"
#include "index/arithmetic.hpp"

namespace vkfuse {

namespace api {

Result<std::vector<std::int64_t>> host_sizes(const TensorType& type, const std::string& name, const HostView& view) {
  if (!view.sizes.empty() || type.shape.empty()) return view.sizes;
  std::int64_t known = size_of(type.dtype);
  std::size_t symbols = 0;
  std::size_t symbol_at = 0;
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    if (type.shape[i].is_symbol()) {
      ++symbols;
      symbol_at = i;
    } else {
      known = index::saturating_mul(known, type.shape[i].size());
    }
  }
  if (symbols > 1)
    return invalid("Input '{}' of type {} needs its sizes: more than one dimension is symbolic.", name, to_text(type));
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : type.shape) sizes.push_back(dim.size());
  if (symbols == 1) {
    const auto bytes = static_cast<std::int64_t>(view.bytes.size());
    if (known == 0)
      return invalid("Input '{}' of type {} needs its sizes: it has no elements, whatever its symbol is.", name,
                     to_text(type));
    if (bytes % known != 0)
      return invalid("The {} bytes of input '{}' are no whole number of rows of {}.", bytes, name, to_text(type));
    sizes[symbol_at] = bytes / known;
  }
  return sizes;
}

}  // namespace api

namespace {

struct Prepared {
  SymbolValues symbols;
  std::map<ir::NodeId, std::span<const std::byte>> bytes;
};

Result<Prepared> prepare(const runtime::Program& program, const Inputs& inputs) {
  const ir::Graph& graph = program.plan().graph;
  std::map<std::string, std::vector<std::int64_t>, std::less<>> sizes;
  std::size_t used = 0;
  for (ir::NodeId id : program.inputs()) {
    const std::string& name = api::input_name(graph, id);
    const auto given = inputs.find(name);
    if (given == inputs.end())
      return invalid("Input '{}' of type {} was not given.", name, to_text(graph.node(id).type));
    ++used;
    VKF_TRY(one, api::host_sizes(graph.node(id).type, name, given->second));
    sizes[name] = std::move(one);
  }
  if (used != inputs.size()) {
    for (const auto& entry : inputs) {
      if (sizes.count(entry.first) == 0) return invalid("The program '{}' has no input '{}'.", graph.name, entry.first);
    }
  }
  Prepared prepared;
  VKF_TRY(symbols, program.symbols_for(sizes));
  prepared.symbols = std::move(symbols);
  for (ir::NodeId id : program.inputs()) {
    const std::string& name = api::input_name(graph, id);
    VKF_TRY(bytes, program.bytes_of(id, prepared.symbols));
    const std::span<const std::byte> given = inputs.find(name)->second.bytes;
    if (static_cast<std::int64_t>(given.size()) != bytes) {
      return invalid("Input '{}' has {} bytes, but {}[{}] takes {}.", name, given.size(),
                     name_of(graph.node(id).type.dtype), fmt::join(sizes[name], ", "), bytes);
    }
    prepared.bytes[id] = given;
  }
  return prepared;
}

std::vector<KernelTime> public_times(const std::vector<runtime::StepTime>& steps) {
  std::vector<KernelTime> times;
  for (const runtime::StepTime& step : steps) times.push_back({step.kernel, step.microseconds, step.bytes});
  return times;
}

/// What becomes of a result: told of each output before anything runs, in their order, then given its bytes, those of
/// one output in their order.
struct ResultSink {
  std::function<Result<void>(std::size_t output, HostTensor type, std::uint64_t bytes)> begin;
  std::function<void(std::size_t output, std::span<const std::byte> piece)> add;
  /// The device has memory for the run, which may be what a size is refused for: now the host may get some.
  std::function<void()> allocate = [] {};
};

Result<void> run_into(Executable::State& state, const Inputs& inputs, const ResultSink& sink) {
  VKF_TRY(prepared, prepare(*state.program, inputs));
  const ir::Graph& graph = state.program->plan().graph;
  const std::span<const ir::Output> outputs = graph.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorType& type = graph.node(outputs[i].value).type;
    VKF_TRY(sizes, resolve(type.shape, prepared.symbols));
    VKF_TRY(bytes, state.program->bytes_of(outputs[i].value, prepared.symbols));
    VKF_CHECK_OK(sink.begin(i, {type.dtype, std::move(sizes), {}}, static_cast<std::uint64_t>(bytes)));
  }
  VKF_TRY(run, state.runs.take(prepared.symbols));
  sink.allocate();
  VKF_CHECK_OK(run->run(prepared.bytes, [&](ir::NodeId value, std::span<const std::byte> piece) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].value == value) sink.add(i, piece);
    }
  }));
  state.tune_later(prepared.symbols);
  return {};
}

}  // namespace

Result<Outputs> Executable::run(const Inputs& inputs) const {
  return api::guarded([&]() -> Result<Outputs> {
    Outputs outputs;
    std::vector<std::pair<HostTensor*, std::uint64_t>> results;
    const std::span<const ir::Output> named = state_->program->plan().graph.outputs();
    const ResultSink sink{[&](std::size_t output, HostTensor type, std::uint64_t bytes) -> Result<void> {
                            results.emplace_back(&(outputs[named[output].name] = std::move(type)), bytes);
                            return {};
                          },
                          [&](std::size_t output, std::span<const std::byte> piece) {
                            std::vector<std::byte>& bytes = results[output].first->bytes;
                            bytes.insert(bytes.end(), piece.begin(), piece.end());  // nothing is set to zero first
                          },
                          [&] {
                            for (const auto& [result, bytes] : results) {
                              result->bytes.reserve(bytes);
                              prepare_memory(result->bytes.data(), bytes);
                            }
                          }};
    VKF_CHECK_OK(run_into(*state_, inputs, sink));
    return outputs;
  });
}

namespace {

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<const std::byte*> before;
  return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

}  // namespace

Result<void> Executable::run(const Inputs& inputs, const OutputMemory& memory) const {
  return api::guarded([&]() -> Result<void> {
    // What lies in an input is written when all else has been read.
    std::vector<std::pair<std::span<std::byte>, std::vector<std::byte>>> late;
    late.reserve(state_->program->plan().graph.outputs().size());
    std::vector<std::span<std::byte>> left;
    const std::span<const ir::Output> named = state_->program->plan().graph.outputs();
    const ResultSink sink{[&](std::size_t output, const HostTensor& type, std::uint64_t bytes) -> Result<void> {
                            const std::string& name = named[output].name;
                            VKF_TRY(given, memory(name, type.dtype, type.sizes));
                            if (!given.empty() && given.size() != bytes)
                              return invalid("Output '{}' takes {} bytes, and memory of {} is given for it.", name,
                                             bytes, given.size());
                            const auto lies_in = [&](const auto& input) { return overlap(given, input.second.bytes); };
                            if (std::ranges::any_of(inputs, lies_in)) {
                              late.emplace_back(given, zero_bytes(bytes));
                              given = late.back().second;
                            }
                            left.push_back(given);
                            return {};
                          },
                          [&](std::size_t output, std::span<const std::byte> piece) {
                            std::span<std::byte>& to = left[output];
                            if (to.empty()) return;
                            copy_bytes(piece, to.data());
                            to = to.subspan(piece.size());
                          }};
    VKF_CHECK_OK(run_into(*state_, inputs, sink));
    for (const auto& [to, bytes] : late) copy_bytes(bytes, to.data());
    return {};
  });
}

Result<std::vector<KernelTime>> Executable::profile_host(const Inputs& inputs) const {
  return api::guarded([&]() -> Result<std::vector<KernelTime>> {
    VKF_TRY(prepared, prepare(*state_->program, inputs));
    VKF_TRY(run, state_->runs.take(prepared.symbols));
    VKF_CHECK_OK(run->run(prepared.bytes, [](ir::NodeId, std::span<const std::byte>) {}));
    VKF_TRY(steps, run->profile());
    return public_times(steps);
  });
}

Result<double> Executable::replay_us(const Inputs& inputs) const {
  return api::guarded([&]() -> Result<double> {
    VKF_TRY(prepared, prepare(*state_->program, inputs));
    VKF_TRY(run, state_->runs.take(prepared.symbols));
    VKF_CHECK_OK(run->run(prepared.bytes, [](ir::NodeId, std::span<const std::byte>) {}));
    return run->replay_us();
  });
}

}  // namespace vkfuse

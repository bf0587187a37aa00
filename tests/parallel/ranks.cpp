#include "parallel/ranks.hpp"

#include <algorithm>
#include <cmath>

#include "parallel/sharding.hpp"
#include "support/fuzz.hpp"

namespace vkfuse::test {

namespace {

Inputs views_of(const ir::Graph& graph, const Data& data) {
  Inputs inputs;
  for (const ir::NodeId id : graph.inputs()) {
    const std::string& name = std::get<ir::InputPayload>(graph.node(id).payload).name;
    inputs.emplace(name, HostView(data.inputs.at(name), must(resolve(graph.node(id).type.shape, data.symbols))));
  }
  return inputs;
}

/// The graphs of the ranks, each with its part of the inputs, as one graph with its data.
struct JoinedJob {
  ir::Graph graph;
  Data data;
  std::vector<parallel::Sharded> sharded;
};

JoinedJob joined(const Job& job) {
  JoinedJob made;
  std::vector<ir::Graph> graphs;
  for (int rank = 0; rank < job.ranks; ++rank) {
    parallel::Sharded sharded;
    if (job.mesh.empty()) {
      sharded.graph = job.graph(rank);
    } else {
      sharded = must(parallel::shard_graph(job.graph(rank), {job.mesh, rank, job.micro_batches}));
    }
    const Inputs views = views_of(job.graph(rank), job.data_of(rank));
    auto local = must(parallel::local_inputs({job.graph(rank), sharded, job.mesh, rank}, views));
    for (auto& [name, bytes] : local.values)
      made.data.inputs[parallel::name_on(name, static_cast<std::size_t>(rank))] = std::move(bytes);
    made.data.symbols = local.symbols;
    graphs.push_back(sharded.graph);
    made.sharded.push_back(std::move(sharded));
  }
  made.graph = must(parallel::join_ranks(graphs));
  return made;
}

/// Which elements of a value a rank has, in the order in which it has them.
std::vector<std::size_t> elements_of_part(const Sizes& sizes, const parallel::Layout& layout,
                                          const std::vector<int>& mesh, int rank) {
  std::vector<std::size_t> elements = {0};
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    const int over = layout[axis];
    const std::int64_t part = over < 0 ? sizes[axis] : sizes[axis] / mesh[static_cast<std::size_t>(over)];
    const std::int64_t first = over < 0 ? 0 : part * parallel::coordinate_of(mesh, over, rank);
    std::vector<std::size_t> finer;
    for (const std::size_t element : elements) {
      for (std::int64_t i = first; i < first + part; ++i)
        finer.push_back(element * static_cast<std::size_t>(sizes[axis]) + static_cast<std::size_t>(i));
    }
    elements = std::move(finer);
  }
  return elements;
}

/// Whether two references of one value agree within both bounds, where both are decided: element i of `part` is element
/// elements[i] of `whole`.
std::string differs(DType dtype, const reference::Column& whole, std::span<const std::size_t> elements,
                    const reference::Column& part) {
  const std::size_t count = is_float(dtype) ? part.value.size() : part.integer.size();
  if (count != elements.size()) return fmt::format("There are {} elements and not {}.", count, elements.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = elements[i];
    const double bound = whole.bound[at] + part.bound[i];
    if (!std::isfinite(bound)) continue;
    if (!is_float(dtype)) {
      if (whole.integer[at] == part.integer[i]) continue;
      return fmt::format("Element {} is {} on one rank and {} over ranks.", at, whole.integer[at], part.integer[i]);
    }
    const double a = whole.value[at], b = part.value[i];
    if ((std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= bound) continue;
    return fmt::format("Element {} is {} on one rank and {} over ranks, with bounds of {} together.", at, a, b, bound);
  }
  return {};
}

/// A divided program is the program: each rank has its part of what one rank has.
void compare_with_one_rank(const Job& job, const JoinedJob& over, const std::string& what) {
  const ir::Graph& graph = job.graph(0);
  const auto one = expected(graph, job.data_of(0));
  const auto all = expected(over.graph, over.data);
  for (const ir::Output& output : graph.outputs()) {
    const TensorType& type = graph.node(output.value).type;
    const Sizes sizes = must(resolve(type.shape, over.data.symbols));
    int ranks = 0;
    for (int rank = 0; rank < job.ranks; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      const auto layout = over.sharded[at].outputs.find(output.name);
      if (layout == over.sharded[at].outputs.end()) continue;  // of another stage
      ++ranks;
      const auto elements = elements_of_part(sizes, layout->second, job.mesh, rank);
      const std::string wrong =
          differs(type.dtype, one.at(output.name), elements, all.at(parallel::name_on(output.name, at)));
      EXPECT_EQ(wrong, "") << what << ", rank " << rank << ", output '" << output.name << "'\n" << ir::print(graph);
    }
    EXPECT_GE(ranks, job.ranks / std::max(over.sharded.front().stages, 1)) << what << ": " << output.name;
  }
}

}  // namespace

Job job_of(const ir::Graph& graph, int ranks, std::vector<int> mesh) {
  Job job{{graph}, std::move(mesh), ranks, {}, {}, true, {}};
  const int given = job.mesh.empty() ? ranks : 1;
  for (int rank = 0; rank < given; ++rank)
    job.data.push_back(small_data(graph, 7 + static_cast<std::uint64_t>(rank), false));
  return job;
}

JobResult run_job(const Job& job) {
  JobResult made;
  made.plans.resize(static_cast<std::size_t>(job.ranks));
  made.outputs = on_ranks<Result<Outputs>>(job.ranks, [&](int rank, std::shared_ptr<Transport> messages) {
    const auto failed = [](const char* text) { return Result<Outputs>(Error{ErrorCode::internal, text, {}}); };
    try {
      const std::shared_ptr<Transport> transport = job.transport ? job.transport(messages) : messages;
      ParallelOptions options;
      options.mesh.sizes = job.mesh;
      options.micro_batches = job.micro_batches;
      options.compile.fusion = job.fusion;
      options.compile.allow_custom = true;
      options.timeout = std::chrono::seconds(60);
      const Device& on = job.device ? job.device(rank) : device();
      auto program = compile_parallel_text(on, transport, ir::print(job.graph(rank)), options);
      if (!program) return Result<Outputs>(std::move(program).error());
      auto outputs = program->run(views_of(job.graph(rank), job.data_of(rank)));
      made.plans[static_cast<std::size_t>(rank)] = program->explain();
      if (rank == 0) {
        made.collectives = program->collective_count();
        made.kernels = program->kernel_count();
        made.explained = program->explain();
      }
      return outputs;
    } catch (const std::exception& thrown) {
      return failed(thrown.what());
    }
  });
  return made;
}

void check_job_outputs(const Job& job, const NamedBytes& outputs, const std::string& what) {
  const JoinedJob over = joined(job);
  const Verdict verdict = check_outputs(over.graph, over.data, outputs);
  EXPECT_EQ(verdict.wrong, "") << what << "\n" << ir::print(job.graph(0)) << "\n" << ir::print(over.graph);
  if (!job.mesh.empty()) compare_with_one_rank(job, over, what);
}

JobResult check_job(const Job& job, const std::string& what) {
  JobResult made = run_job(job);
  NamedBytes outputs;
  for (int rank = 0; rank < job.ranks; ++rank) {
    const Result<Outputs>& one = made.outputs[static_cast<std::size_t>(rank)];
    if (!one) {
      ADD_FAILURE() << what << ", rank " << rank << ": " << one.error().text() << "\n" << ir::print(job.graph(rank));
      return made;
    }
    for (const auto& [name, tensor] : *one)
      outputs[parallel::name_on(name, static_cast<std::size_t>(rank))] = tensor.bytes;
  }
  check_job_outputs(job, outputs, what);
  return made;
}

}  // namespace vkfuse::test

#include "parallel/ranks.hpp"

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
      sharded = must(parallel::shard_graph(job.graph(rank), job.mesh, rank));
    }
    const Inputs views = views_of(job.graph(rank), job.data_of(rank));
    auto local = must(parallel::local_inputs(job.graph(rank), sharded, job.mesh, rank, views));
    for (auto& [name, bytes] : local.values)
      made.data.inputs[parallel::name_on(name, static_cast<std::size_t>(rank))] = std::move(bytes);
    made.data.symbols = local.symbols;
    graphs.push_back(sharded.graph);
    made.sharded.push_back(std::move(sharded));
  }
  made.graph = must(parallel::join_ranks(graphs));
  return made;
}

/// Whether two references of one value agree within both bounds, where both are decided.
std::string differs(const std::string& name, DType dtype, const reference::Column& one,
                    const reference::Column& other) {
  const std::size_t count = is_float(dtype) ? one.value.size() : one.integer.size();
  for (std::size_t i = 0; i < count; ++i) {
    const double bound = one.bound[i] + other.bound[i];
    if (!std::isfinite(bound)) continue;
    if (!is_float(dtype)) {
      if (one.integer[i] == other.integer[i]) continue;
      return fmt::format("Element {} of '{}' is {} on one rank and {} over ranks.", i, name, one.integer[i],
                         other.integer[i]);
    }
    const double a = one.value[i], b = other.value[i];
    if ((std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= bound) continue;
    return fmt::format("Element {} of '{}' is {} on one rank and {} over ranks, with bounds of {} together.", i, name,
                       a, b, bound);
  }
  return {};
}

/// A divided program is the program: outputs that are whole are those of one rank.
void compare_with_one_rank(const Job& job, const JoinedJob& over, const std::string& what) {
  const auto one = expected(job.graph(0), job.data_of(0));
  const auto all = expected(over.graph, over.data);
  for (const ir::Output& output : job.graph(0).outputs()) {
    for (int rank = 0; rank < job.ranks; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      const parallel::Layout& layout = over.sharded[at].outputs.at(output.name);
      if (std::any_of(layout.begin(), layout.end(), [](int axis) { return axis >= 0; })) continue;
      const std::string wrong = differs(output.name, job.graph(0).node(output.value).type.dtype, one.at(output.name),
                                        all.at(parallel::name_on(output.name, at)));
      EXPECT_EQ(wrong, "") << what << ", rank " << rank << "\n" << ir::print(job.graph(0));
    }
  }
}

}  // namespace

Job job_of(const ir::Graph& graph, int ranks, std::vector<int> mesh) {
  Job job{{graph}, std::move(mesh), ranks, {}, {}, true};
  const int given = job.mesh.empty() ? ranks : 1;
  for (int rank = 0; rank < given; ++rank)
    job.data.push_back(small_data(graph, 7 + static_cast<std::uint64_t>(rank), false));
  return job;
}

JobResult run_job(const Job& job) {
  JobResult made;
  made.outputs = on_ranks<Result<Outputs>>(job.ranks, [&](int rank, std::shared_ptr<Transport> transport) {
    const auto failed = [](const char* text) { return Result<Outputs>(Error{ErrorCode::internal, text, {}}); };
    try {
      ParallelOptions options;
      options.mesh.sizes = job.mesh;
      options.compile.fusion = job.fusion;
      options.compile.allow_custom = true;
      options.timeout = std::chrono::seconds(60);
      const Device& on = job.device ? job.device(rank) : device();
      auto program = compile_parallel_text(on, transport, ir::print(job.graph(rank)), options);
      if (!program) return Result<Outputs>(std::move(program).error());
      auto outputs = program->run(views_of(job.graph(rank), job.data_of(rank)));
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
  const JoinedJob over = joined(job);
  const Verdict verdict = check_outputs(over.graph, over.data, outputs);
  EXPECT_EQ(verdict.wrong, "") << what << "\n" << ir::print(job.graph(0)) << "\n" << ir::print(over.graph);
  if (!job.mesh.empty()) compare_with_one_rank(job, over, what);
  return made;
}

}  // namespace vkfuse::test

#include "support/compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>

#include "api/tensor_node.hpp"

namespace vkfuse::test {

namespace {

std::mutex proof_mutex;
segment::Proof proof;

lowering::Numerics numerics_of(Numerics numerics) {
  return numerics == Numerics::strict ? lowering::Numerics::strict : lowering::Numerics::standard;
}

std::vector<int> ascending(const std::set<int>& widths) { return {widths.begin(), widths.end()}; }

}  // namespace

Executable compile_graph(const ir::Graph& graph, const Build& how) {
  const Device& on = how.device == nullptr ? device() : *how.device;
  runtime::ProgramOptions options;
  options.numerics = numerics_of(how.numerics);
  options.fusion = how.fusion;
  options.tuning = how.tuning;
  if (how.sorts_scatters) options.passes.most_scatter_comparisons = 0;
  options.costs = how.costs;
  options.planned_as = how.planned_as;
  options.planning.memory_budget = how.memory_budget;
  // By hand: cooperative matrices on a driver that would not use them by itself.
  if (std::getenv("VKFUSE_TEST_MATRIX_UNITS") != nullptr) options.tuning.cooperative_matrix = true;
  if (how.longest_submission_us) options.longest_submission_us = *how.longest_submission_us;
  const auto program =
      must(api::guarded([&] { return runtime::Program::create(on.state()->context, graph, options); }));
  // Sorted scatters read where a binary search takes them: such positions are clamped, whatever is known of them.
  if (!how.sorts_scatters) count_proof(must(plan::totals(program->plan(), program->representative())).proof);
  return Executable(std::make_shared<Executable::State>(program));
}

Executable compile_graph(const ir::Graph& graph, Numerics numerics, bool fusion) {
  Build how;
  how.numerics = numerics;
  how.fusion = fusion;
  return compile_graph(graph, how);
}

ir::Graph graph_of(const std::vector<Tensor>& outputs) { return must(api::to_graph(outputs, {}, "g")); }

const Device& device_without_subgroups() {
  static const Device opened = [] {
    DeviceOptions options;
    options.disable = {"T1"};
    return must(Device::open(options));
  }();
  return opened;
}

const Device& device_with_low_limits() {
  static const Device opened = must(Device::open(least_of(device())));
  return opened;
}

std::shared_ptr<const runtime::Specialization> specialization_of(const Executable& program,
                                                                 const SymbolValues& symbols) {
  return must(program.state()->program->specialization(symbols));
}

testing::AssertionResult are_kernels(std::size_t counted, std::size_t expected) {
  if (counted == expected || (has_least_limits() && counted > expected)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << counted << " kernels where " << expected << " are expected; ";
}
testing::AssertionResult are_kernels_at_most(std::size_t counted, std::size_t most) {
  if (counted <= most || has_least_limits()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << counted << " kernels where at most " << most << " are expected; ";
}

bool has_tile_of_threads(const Executable& program, const schedule::AttentionShape& asked) {
  const auto steps = specialization_of(program)->steps;
  return std::any_of(steps.begin(), steps.end(), [&](const plan::ScheduledKernel& step) {
    const auto* params = step.schedule.get_if<schedule::AttentionParams>();
    return params != nullptr && params->simt() != nullptr && params->simt()->rows == asked.rows &&
           params->simt()->keys == asked.keys && (params->simt()->slice != 0) == asked.slices;
  });
}

std::int64_t bytes_moved(const Executable& program, const SymbolValues& symbols) {
  std::int64_t bytes = 0;
  for (const plan::ScheduledKernel& step : specialization_of(program, symbols)->steps)
    bytes += step.schedule.cost.bytes_read + step.schedule.cost.bytes_read_again + step.schedule.cost.bytes_written;
  return bytes;
}

std::vector<int> load_widths(const Executable& program, const std::string& input) {
  const ir::Graph& graph = program.state()->program->plan().graph;
  std::set<int> widths;
  for (const plan::ScheduledKernel& step : specialization_of(program)->steps) {
    for (std::size_t i = 0; i < step.loops.values.size(); ++i) {
      const segment::Value& value = step.loops.values[i];
      const auto* from = std::get_if<ir::InputPayload>(&graph.node(value.node).payload);
      if (value.kind == segment::Value::Kind::load && from != nullptr && from->name == input)
        widths.insert(step.schedule.loads[i].vector_bytes);
    }
  }
  return ascending(widths);
}

std::vector<int> store_widths(const Executable& program, const std::string& output) {
  std::set<int> widths;
  for (const ir::Output& one : program.state()->program->plan().graph.outputs()) {
    if (one.name != output) continue;
    for (const plan::ScheduledKernel& step : specialization_of(program)->steps) {
      for (std::size_t i = 0; i < step.loops.stores.size(); ++i) {
        if (step.loops.stores[i].node == one.value) widths.insert(step.schedule.stores[i].vector_bytes);
      }
    }
  }
  return ascending(widths);
}

void count_proof(const segment::Proof& more) {
  const std::lock_guard<std::mutex> lock(proof_mutex);
  proof.accesses += more.accesses;
  proof.proven += more.proven;
}

segment::Proof proof_so_far() {
  const std::lock_guard<std::mutex> lock(proof_mutex);
  return proof;
}

namespace {

using Check = Verdict (*)(const ir::Graph& graph, const Data& data, const NamedBytes& outputs);

NamedBytes judge_by(Check check, const Executable& program, const ir::Graph& graph, const Data& data,
                    const std::string& what) try {
  GuardedRun run = run_guarded(program, graph, data);
  EXPECT_EQ(run.broken, "") << what << "\n" << ir::print(graph);
  const Verdict verdict = check(graph, data, run.outputs);
  EXPECT_EQ(verdict.wrong, "") << what << "\n" << ir::print(graph);
  EXPECT_LE(verdict.undecided * 20, verdict.elements) << what << "\n" << ir::print(graph);
  return std::move(run.outputs);
} catch (const std::exception& error) {
  ADD_FAILURE() << what << ": " << error.what() << "\n" << ir::print(graph);
  return {};
}

}  // namespace

NamedBytes compare_with_reference(const Executable& program, const ir::Graph& graph, const Data& data,
                                  const std::string& what) {
  return judge_by(check_outputs, program, graph, data, what);
}

NamedBytes compare_rows(const Executable& program, const ir::Graph& graph, const Data& data, const std::string& what) {
  return judge_by(check_rows, program, graph, data, what);
}

void expect_same_values(const ir::Graph& before, const ir::Graph& made, const Data& data, const std::string& what) {
  const auto wanted = expected(before, data);
  const auto got = expected(made, data);
  ASSERT_EQ(wanted.size(), got.size()) << what;
  for (const ir::Output& output : before.outputs()) {
    const reference::Column& a = wanted.at(output.name);
    const reference::Column& b = got.at(output.name);
    ASSERT_EQ(a.bound.size(), b.bound.size()) << what;
    for (std::size_t i = 0; i < a.bound.size(); ++i) {
      if (std::isinf(a.bound[i]) || std::isinf(b.bound[i])) continue;
      const bool real = is_float(before.node(output.value).type.dtype);
      const bool same = real ? a.value[i] == b.value[i] || (std::isnan(a.value[i]) && std::isnan(b.value[i])) ||
                                   std::abs(a.value[i] - b.value[i]) <= a.bound[i]
                             : a.integer[i] == b.integer[i];
      ASSERT_TRUE(same) << what << ": element " << i << " of '" << output.name << "'\n"
                        << ir::print(before) << "became\n"
                        << ir::print(made);
    }
  }
}

}  // namespace vkfuse::test

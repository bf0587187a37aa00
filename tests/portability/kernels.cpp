#include "portability/kernels.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "passes/passes.hpp"
#include "runtime/shape_buckets.hpp"
#include "support/device.hpp"
#include "support/folder.hpp"

namespace vkfuse::test {

namespace {

constexpr std::size_t kOutputsPerGraph = 8;
constexpr std::int64_t kRows = 3;
constexpr std::int64_t kColumns = 67;  // no multiple of any vector: the masked tail is in every kernel

ir::NodeId input(ir::Graph& graph, const std::string& name, DType dtype) {
  return must(graph.add_input(name, {dtype, {kRows, kColumns}}));
}

bool is_batchable(const ops::OpRow& row, DType dtype) {
  if (row.cls != ops::OpClass::elementwise || (row.types & ops::bit(dtype)) == 0) return false;
  const std::vector<std::string> names = {"a", "b", "c"};
  return !ops::expression(row, dtype, false, std::span(names).first(static_cast<std::size_t>(row.arity))).empty();
}

/// The rows that take this dtype, some at a time.
void add_elementwise(DType dtype, std::vector<NamedGraph>& graphs) {
  std::vector<const ops::OpRow*> rows;
  for (const ops::OpRow& row : ops::table()) {
    if (is_batchable(row, dtype)) rows.push_back(&row);
  }
  for (std::size_t first = 0; first < rows.size(); first += kOutputsPerGraph) {
    NamedGraph named{fmt::format("rows_{}_{}", name_of(dtype), first / kOutputsPerGraph), {}};
    ir::Graph& graph = named.graph;
    graph.name = named.name;
    const ir::NodeId condition = input(graph, "p", DType::boolean);
    std::vector<ir::NodeId> operands;
    for (const char* name : {"a", "b", "c"}) operands.push_back(input(graph, name, dtype));
    for (std::size_t i = first; i < std::min(rows.size(), first + kOutputsPerGraph); ++i) {
      std::vector<ir::NodeId> taken(operands.begin(), operands.begin() + rows[i]->arity);
      if (rows[i]->signature == ops::Signature::select) taken = {condition, operands[0], operands[1]};
      must(graph.add_output(std::string(rows[i]->name), must(graph.add(*rows[i], taken))));
    }
    graphs.push_back(std::move(named));
  }
}

void add_conversions(const char* op, DType from, std::vector<NamedGraph>& graphs) {
  const ops::OpRow& row = ops::row(op);
  NamedGraph named{fmt::format("{}_{}", op, name_of(from)), {}};
  named.graph.name = named.name;
  const ir::NodeId operand = input(named.graph, "a", from);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto to = static_cast<DType>(i);
    if (to == DType::f64 || to == from || (op == std::string_view("bitcast") && size_of(to) != size_of(from))) continue;
    if (!ops::infer_dtype(row, std::vector<DType>{from}, to).ok()) continue;
    must(named.graph.add_output(std::string(name_of(to)), must(named.graph.add(row, {operand}, to))));
  }
  if (!named.graph.outputs().empty()) graphs.push_back(std::move(named));
}

NamedGraph generators() {
  NamedGraph named{"generators", {}};
  named.graph.name = named.name;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::f64 || dtype == DType::boolean) continue;
    const ir::NodeId value = must(named.graph.add_iota({dtype, {kRows, kColumns}}, i % 2));
    must(named.graph.add_output(fmt::format("iota_{}", name_of(dtype)), value));
  }
  must(named.graph.add_output("random", must(named.graph.add_random({kRows, kColumns}, 0x123456789abcdef0))));
  return named;
}

void add_folder(const std::filesystem::path& folder, std::vector<NamedGraph>& graphs) {
  const std::size_t before = graphs.size();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".vkf") continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    graphs.push_back({entry.path().stem().string(), must(ir::parse(text.str()))});
  }
  // Suites of them have as many tests as there are graphs: of none, none would fail.
  if (graphs.size() == before) throw std::runtime_error("There is no graph in " + folder.string() + ".");
}

}  // namespace

std::vector<NamedGraph> golden_graphs() {
  std::vector<NamedGraph> graphs;
  add_folder(tests_folder() / "golden", graphs);
  add_folder(tests_folder() / "portability/graphs", graphs);
  std::sort(graphs.begin(), graphs.end(), [](const NamedGraph& a, const NamedGraph& b) { return a.name < b.name; });
  return graphs;
}

std::vector<NamedGraph> row_graphs() {
  std::vector<NamedGraph> graphs;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::f64) continue;  // an optional feature of Vulkan, so not of the minimum
    add_elementwise(dtype, graphs);
    add_conversions("cast", dtype, graphs);
    add_conversions("bitcast", dtype, graphs);
  }
  graphs.push_back(generators());
  return graphs;
}

std::vector<NamedGraph> double_graphs() {
  std::vector<NamedGraph> graphs;
  add_elementwise(DType::f64, graphs);
  add_conversions("cast", DType::f64, graphs);
  return graphs;
}

BuiltGraph build(const ir::Graph& graph, const SymbolValues& symbols, const Target& target,
                 const schedule::Tuning& tuning) {
  const plan::Plan plan = must(plan::make_plan(must(passes::run_pipeline(graph)), target));
  BuiltGraph built{plan.graph, symbols, must(plan::schedule_all(plan, symbols, tuning)), {}};
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    lowering::LoweringOptions options;
    options.hoist_sizes = !symbols.empty();  // as the runtime does
    for (lowering::Kernel& kernel : must(runtime::write_kernels(plan, i, built.steps[i], options))) {
      const std::size_t dispatch =
          built.kernels.empty() || built.kernels.back().step != i ? 0 : built.kernels.back().dispatch + 1;
      built.kernels.push_back({std::move(kernel), i, dispatch});
    }
  }
  return built;
}

SymbolValues small_symbols(const ir::Graph& graph) {
  SymbolValues symbols = schedule::representative_symbols(graph);
  for (const ir::Node& node : graph.nodes()) {
    for (const Dim& dim : node.type.shape) {
      if (!dim.is_symbol()) continue;
      const DimFacts facts = dim.facts();
      std::int64_t size = std::clamp<std::int64_t>(24, facts.min, facts.max) / facts.multiple_of * facts.multiple_of;
      if (size < facts.min || size == 0) size += facts.multiple_of;
      symbols[dim.name()] = size;
    }
  }
  return symbols;
}

Target minimum_target() {
  Target target;
  target.caps.memory.storage_buffers = 16;
  return target;
}

}  // namespace vkfuse::test

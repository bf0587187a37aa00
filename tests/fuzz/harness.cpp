#include "fuzz/harness.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>

#include "spirv/tools.hpp"
#include "support/fuzz.hpp"

namespace vkfuse::test {
namespace {

constexpr int kMostFailures = 5;
constexpr std::size_t kEnough = 20;     // cases to say something of a suite
constexpr std::int64_t kDecided = 100;  // one element in so many may be undecided
constexpr std::size_t kEarlierPrograms = 3;
constexpr double kSlow = 5;          // seconds of one case that are worth a line
constexpr double kLoosest = 10'000;  // bound/error of the median graph

/// Which fault a run shows, as one sentence; empty if none.
std::string check_kernels(const Executable& program, const SymbolValues& symbols) {
  const auto specialization = must(program.state()->program->specialization(symbols));
  for (std::size_t i = 0; i < specialization->compiled.size(); ++i) {
    for (const auto& kernel : specialization->compiled[i]) {
      const Result<void> valid = spirv::validate(kernel->spirv);
      if (!valid) return fmt::format("Kernel {} is not valid SPIR-V: {}", i, valid.error().text());
    }
  }
  return {};
}

std::string check_traffic(const Executable& fused, const SymbolValues& symbols) {
  const runtime::Program& program = *fused.state()->program;
  const plan::Totals one = must(plan::totals(program.plan(), symbols));
  const plan::Totals many = must(plan::totals(must(program.unfused_plan()), symbols));
  if (one.bytes > many.bytes)
    return fmt::format("The fused plan moves {} bytes, the unfused one {}.", one.bytes, many.bytes);
  return {};
}

std::string first_difference(const ir::Graph& graph, const NamedBytes& fused, const NamedBytes& unfused) {
  for (const ir::Output& output : graph.outputs()) {
    const std::vector<std::byte>& a = fused.at(output.name);
    const std::vector<std::byte>& b = unfused.at(output.name);
    const DType dtype = graph.node(output.value).type.dtype;
    const auto width = static_cast<std::size_t>(size_of(dtype));
    for (std::size_t at = 0; at < a.size(); at += width) {
      if (std::equal(a.begin() + at, a.begin() + at + width, b.begin() + at)) continue;
      const double x = ir::decode(dtype, a.data() + at);
      const double y = ir::decode(dtype, b.data() + at);
      // Which bits a NaN has is nobody's promise: a driver's own conversion to f16 and ours differ.
      if (std::isnan(x) && std::isnan(y)) continue;
      return fmt::format("Strict numerics: element {} of output '{}' is {} fused and {} unfused.", at / width,
                         output.name, x, y);
    }
  }
  return {};
}

/// Whether fused and unfused runs with strict numerics have the same bits: no reduction adds up in an order of its own.
bool keeps_bits(const ir::Graph& graph) {
  using ops::OpClass;
  return std::all_of(graph.nodes().begin(), graph.nodes().end(), [](const ir::Node& node) {
    return node.op->cls != OpClass::reduce && node.op->cls != OpClass::scan && node.op->cls != OpClass::contraction &&
           node.op->cls != OpClass::scatter;
  });
}

/// Two runs of a program, on buffers of their own and at offsets in one; a sentence if they differ or wrote where they
/// should not.
std::string run_twice(const Executable& program, const Case& one, const Data& data, NamedBytes& outputs) {
  const std::string invalid = check_kernels(program, one.symbols);
  if (!invalid.empty()) return invalid;
  GuardedRun run = run_guarded(program, one.graph, data);
  if (!run.broken.empty()) return run.broken;
  const GuardedRun again = run_guarded(program, one.graph, data, {}, Placement::one_buffer);
  if (!again.broken.empty()) return "In one buffer: " + again.broken;
  for (const ir::Output& output : one.graph.outputs()) {
    if (run.outputs.at(output.name) != again.outputs.at(output.name))
      return fmt::format("A second run, at offsets in one buffer, gives other bits for output '{}'.", output.name);
  }
  outputs = std::move(run.outputs);
  return {};
}

/// What is wrong with one program at the sizes of a case; its outputs go to `outputs`.
std::string fault_at(const Executable& program, const Case& one, Tally& tally, NamedBytes& outputs) {
  const Data data = data_for(one);
  const std::string fault = run_twice(program, one, data, outputs);
  if (!fault.empty()) return fault;
  const Verdict verdict = check_outputs(one.graph, data, outputs);
  tally.elements += verdict.elements;
  tally.undecided += verdict.undecided;
  tally.max_ratio = std::max(tally.max_ratio, verdict.max_ratio);
  tally.ratios.add(verdict.ratios);
  if (verdict.max_ratio > 0) tally.graph_ratios.push_back(verdict.max_ratio);
  return verdict.wrong;
}

/// Whether a node of the graph, at these sizes, picks elements of a value that has none: that is refused.
bool picks_from_nothing(const ir::Graph& graph, const SymbolValues& symbols) {
  const auto count = [&](ir::NodeId id) {
    const auto sizes = resolve(graph.node(id).type.shape, symbols);
    return std::accumulate(sizes->begin(), sizes->end(), std::int64_t{1}, std::multiplies<>());
  };
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    if ((node.op->name == "gather" || node.op->name == "take_along") && count(node.operands[0]) == 0 && count(id) != 0)
      return true;
  }
  return false;
}

/// What is wrong with a program at sizes where it is refused; one whose refused node is never computed may run.
std::string fault_of_refusal(const Executable& program, const Case& one, Tally& tally) try {
  run_guarded(program, one.graph, data_for(one));
  return {};
} catch (const std::exception& error) {
  ++tally.refused;
  return std::string_view(error.what()).find("which is empty.") != std::string_view::npos ? "" : error.what();
}

/// A program that has run, to be run again among others.
struct Earlier {
  Executable program;
  Case one;
  NamedBytes outputs;
};

/// Runs a program of an earlier case again; a sentence if its results are others now.
std::string run_earlier(std::deque<Earlier>& earlier) {
  if (earlier.empty()) return {};
  const Earlier& one = earlier.front();
  const GuardedRun run = run_guarded(one.program, one.one.graph, data_for(one.one));
  if (!run.broken.empty()) return fmt::format("The program of seed {}, run again: {}", one.one.seed, run.broken);
  return run.outputs == one.outputs
             ? ""
             : fmt::format("The program of seed {} gives other bits when it is run again after others.", one.one.seed);
}

/// Everything that must hold of one case; the first sentence that does not. Its symbols are then those that it fails
/// at.
std::string fault_of(Case& one, const Way& way, Tally& tally, std::deque<Earlier>* earlier = nullptr) try {
  const std::vector<SymbolValues> runs =
      way.many_sizes && earlier != nullptr ? sizes_to_run(one) : std::vector<SymbolValues>{one.symbols};
  Build plain = way.how;
  plain.fusion = false;
  plain.tuning = {};
  const ir::Graph built = way.rewrite ? way.rewrite(one.graph) : one.graph;
  const Executable fused = compile_graph(built, way.how);
  const std::optional<Executable> unfused = way.unfused ? std::optional(compile_graph(built, plain)) : std::nullopt;
  tally.kernels_fused += fused.kernel_count();
  if (unfused) tally.kernels_unfused += unfused->kernel_count();
  NamedBytes outputs[2];
  SymbolValues ran;  // that the outputs are of
  for (const SymbolValues& symbols : runs) {
    one.symbols = symbols;
    ++tally.runs;
    if (picks_from_nothing(one.graph, symbols)) {
      const std::string fault = fault_of_refusal(fused, one, tally);
      if (!fault.empty()) return fault;
      continue;
    }
    ran = symbols;
    for (int i = 0; i < (unfused ? 2 : 1); ++i) {
      const std::string fault = fault_at(i == 0 ? fused : *unfused, one, tally, outputs[i]);
      if (!fault.empty()) return (i == 0 ? "Fused: " : "Unfused: ") + fault;
    }
    if (unfused && way.how.numerics == Numerics::strict && keeps_bits(one.graph)) {
      const std::string differs = first_difference(one.graph, outputs[0], outputs[1]);
      if (!differs.empty()) return differs;
    }
    const std::string traffic = way.fewer_bytes ? check_traffic(fused, one.symbols) : std::string();
    if (!traffic.empty()) return traffic;
  }
  if (!way.many_sizes || earlier == nullptr) return {};
  const std::string changed = run_earlier(*earlier);
  if (!outputs[0].empty()) {
    one.symbols = ran;
    earlier->push_back({fused, one, outputs[0]});
  }
  if (earlier->size() > kEarlierPrograms) earlier->pop_front();
  return changed;
} catch (const std::exception& error) {
  return error.what();
}

/// The kind of a fault: a shrunken case must show the same kind, not merely any.
std::string kind_of(const std::string& fault) { return fault.substr(0, fault.find_first_of("0123456789'", 1)); }

void report(const Case& one, const Way& way, const std::string& fault, const char* test) {
  const std::string kind = kind_of(fault);
  Tally ignored;
  const auto fails = [&](Case smaller) { return kind_of(fault_of(smaller, way, ignored)) == kind; };
  Case smallest = std::getenv("VKFUSE_NO_SHRINKING") == nullptr ? shrink(one, fails) : one;
  std::string symbols;
  for (const auto& symbol : smallest.symbols) symbols += fmt::format(" {}={}", symbol.first, symbol.second);
  ADD_FAILURE() << fault << (way.text.empty() ? "" : "\nForced:" + way.text) << "\nSmallest graph with such a fault"
                << (symbols.empty() ? "" : ", with" + symbols) << ":\n"
                << ir::print(smallest.graph) << fault_of(smallest, way, ignored) << "\n"
                << replay_line(one.seed, test);
}

/// Where a watcher of this process wants to know of it (scripts/graphs.sh); null where nobody does.
const char* progress_file() {
  const char* const path = std::getenv("VKFUSE_FUZZ_PROGRESS");
  return path == nullptr || *path == 0 ? nullptr : path;
}

/// What a watcher must know: the seed that is tried now, or `end`, and in the second line what came of those before it.
void note_progress(const std::string& now, const Tally& tally) {
  const char* const path = progress_file();
  if (path == nullptr) return;
  const std::string next = std::string(path) + ".next";
  std::ofstream(next) << fmt::format(
      "{}\n{} cases: {} elements, {} undecided; largest error/bound {:.3f}, p50 {:.2g}, p99 {:.2g}\n", now,
      tally.seconds.size(), tally.elements, tally.undecided, tally.max_ratio, tally.ratios.quantile(0.5),
      tally.ratios.quantile(0.99));
  std::error_code failed;
  std::filesystem::rename(next, path, failed);  // nobody reads half a line
}

/// Of error/bound, over graphs that have an error: the larger, the tighter the bounds.
double median(std::vector<double> ratios) {
  if (ratios.empty()) return 1;
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2), ratios.end());
  return ratios[ratios.size() / 2];
}

double quantile(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

void summarise(const Tally& tally, std::size_t cases) {
  std::printf(
      "%zu cases, %lld sets of sizes (%lld refused): %lld kernels fused, %lld unfused; %lld elements, %lld undecided; "
      "largest error/bound %.3f\n",
      cases, static_cast<long long>(tally.runs), static_cast<long long>(tally.refused),
      static_cast<long long>(tally.kernels_fused), static_cast<long long>(tally.kernels_unfused),
      static_cast<long long>(tally.elements), static_cast<long long>(tally.undecided), tally.max_ratio);
  std::printf(
      "error/bound of %lld elements with an error: p50 %.2g, p99 %.2g; median bound/error of %zu graphs: %.1f\n",
      static_cast<long long>(tally.ratios.count()), tally.ratios.quantile(0.5), tally.ratios.quantile(0.99),
      tally.graph_ratios.size(), 1 / median(tally.graph_ratios));
  std::vector<double> seconds = tally.seconds;
  std::sort(seconds.begin(), seconds.end());
  std::printf("%.0f s in all, a graph: p50 %.2f s, p99 %.2f s, the slowest %.1f s\n",
              std::accumulate(seconds.begin(), seconds.end(), 0.0), quantile(seconds, 0.5), quantile(seconds, 0.99),
              quantile(seconds, 1));
}

}  // namespace

Tally run_cases(const CaseSuite& suite) {
  Tally tally;
  const std::vector<std::uint64_t> all = seeds_from(suite.first, suite.cases);
  std::deque<Earlier> earlier;
  int failures = 0;
  for (const std::uint64_t seed : all) {
    note_progress(std::to_string(seed), tally);
    auto [one, way] = suite.draw(seed);
    if (all.size() == 1) {  // a driver that dies leaves the graph behind
      std::printf("%s%s\n", ir::print(one.graph).c_str(), way.text.c_str());
      std::fflush(stdout);
    }
    const auto begun = std::chrono::steady_clock::now();
    for (const ir::Node& node : one.graph.nodes()) ++tally.ops[node.op->name];
    const std::string fault = fault_of(one, way, tally, &earlier);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    tally.seconds.push_back(took.count());
    if (took.count() > kSlow)
      std::printf("Seed %llu took %.0f s.\n", static_cast<unsigned long long>(seed), took.count()), std::fflush(stdout);
    if (fault.empty()) continue;
    report(one, way, fault, suite.test);
    if (++failures == kMostFailures) break;
  }
  if (tally.seconds.size() == all.size()) note_progress("end", tally);
  summarise(tally, tally.seconds.size());  // fewer than were asked for after the last failure that is reported
  if (all.size() > kEnough) {
    // A reference that decides nothing would pass everything, and so would bounds that no error comes near. A watcher
    // counts over all of its processes: a few graphs of many undecided elements are more than that of the last one's.
    if (progress_file() == nullptr) {
      EXPECT_LE(tally.undecided * kDecided, tally.elements);
    }
    EXPECT_LE(1 / median(tally.graph_ratios), kLoosest);
  }
  return tally;
}

}  // namespace vkfuse::test

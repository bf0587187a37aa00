// Random pointwise graphs, fused and unfused, against the reference and against each other.
//
// VKFUSE_SEED=N runs one case and nothing else; VKFUSE_FUZZ_CASES=N runs N of them.
#include <cmath>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "api/states.hpp"
#include "spirv/tools.hpp"
#include "support/cases.hpp"
#include "support/device.hpp"
#include "support/fuzz.hpp"

namespace vkfuse::test {
namespace {

constexpr std::uint64_t kFirstSeed = 1000;

/// Counts over all cases of a test.
struct Tally {
  std::int64_t elements = 0;
  std::int64_t undecided = 0;
  std::int64_t kernels_fused = 0;
  std::int64_t kernels_unfused = 0;
  double max_ratio = 0;
};

/// Which fault a run shows, as one sentence; empty if none.
std::string check_kernels(const Executable& program, const SymbolValues& symbols) {
  const auto variant = must(program.state()->program->variant(symbols));
  for (std::size_t i = 0; i < variant->compiled.size(); ++i) {
    for (const auto& kernel : variant->compiled[i]) {
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
  if (one.bytes > many.bytes) return fmt::format("The fused plan moves {} bytes, the unfused one {}.", one.bytes, many.bytes);
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
      return fmt::format("Strict numerics: element {} of output '{}' is {} fused and {} unfused.", at / width, output.name, x, y);
    }
  }
  return {};
}

/// Everything that must hold of one case; the first sentence that does not.
std::string fault_of(const Case& one, Numerics numerics, Tally& tally) try {
  const Data data = data_for(one);
  const Executable fused = compile_graph(one.graph, numerics, true);
  const Executable unfused = compile_graph(one.graph, numerics, false);
  tally.kernels_fused += fused.kernel_count();
  tally.kernels_unfused += unfused.kernel_count();
  const std::pair<const char*, const Executable*> programs[] = {{"Fused", &fused}, {"Unfused", &unfused}};
  NamedBytes outputs[2];
  for (int i = 0; i < 2; ++i) {
    const std::string invalid = check_kernels(*programs[i].second, one.symbols);
    if (!invalid.empty()) return std::string(programs[i].first) + ": " + invalid;
    GuardedRun run = run_guarded(*programs[i].second, one.graph, data);
    if (!run.broken.empty()) return std::string(programs[i].first) + ": " + run.broken;
    const Verdict verdict = check_outputs(one.graph, data, run.outputs);
    tally.elements += verdict.elements;
    tally.undecided += verdict.undecided;
    tally.max_ratio = std::max(tally.max_ratio, verdict.max_ratio);
    if (!verdict.wrong.empty()) return std::string(programs[i].first) + ": " + verdict.wrong;
    outputs[i] = std::move(run.outputs);
  }
  if (numerics == Numerics::strict) {
    const std::string differs = first_difference(one.graph, outputs[0], outputs[1]);
    if (!differs.empty()) return differs;
  }
  return check_traffic(fused, one.symbols);
} catch (const std::exception& error) {
  return error.what();
}

/// The kind of a fault: a shrunken case must show the same kind, not merely any.
std::string kind_of(const std::string& fault) { return fault.substr(0, fault.find_first_of("0123456789'")); }

void report(const Case& one, Numerics numerics, const std::string& fault, const char* test) {
  const std::string kind = kind_of(fault);
  const Case smallest = shrink(one, [&](const Case& smaller) {
    Tally ignored;
    return kind_of(fault_of(smaller, numerics, ignored)) == kind;
  });
  Tally ignored;
  std::string symbols;
  for (const auto& symbol : smallest.symbols) symbols += fmt::format(" {}={}", symbol.first, symbol.second);
  ADD_FAILURE() << fault << "\nSmallest graph with such a fault" << (symbols.empty() ? "" : ", with" + symbols) << ":\n"
                << ir::print(smallest.graph) << fault_of(smallest, numerics, ignored)
                << fmt::format("\nREPLAY: VKFUSE_SEED={} vkfuse-test-fuzz --gtest_filter={}\n", one.seed, test);
}

void summarise(const Tally& tally, std::size_t cases) {
  std::printf("%zu cases: %lld kernels fused, %lld unfused; %lld elements, %lld undecided; largest error/bound %.3f\n", cases,
              static_cast<long long>(tally.kernels_fused), static_cast<long long>(tally.kernels_unfused),
              static_cast<long long>(tally.elements), static_cast<long long>(tally.undecided), tally.max_ratio);
}

void run_cases(Numerics numerics, std::uint64_t first, std::uint64_t cases, const char* test) {
  CaseOptions options;
  options.caps = target().caps;
  Tally tally;
  const std::vector<std::uint64_t> all = seeds_from(first, cases);
  int failures = 0;
  for (std::uint64_t seed : all) {
    const Case one = random_case(seed, options);
    const std::string fault = fault_of(one, numerics, tally);
    if (fault.empty()) continue;
    report(one, numerics, fault, test);
    if (++failures == 5) break;
  }
  summarise(tally, all.size());
  // A reference that decides nothing would pass everything.
  if (all.size() > 20) {
    EXPECT_LE(tally.undecided * 20, tally.elements);
  }
}

// Two thirds strict: that is where fused and unfused runs are compared bit by bit.
TEST(Fuzz, Strict) { run_cases(Numerics::strict, kFirstSeed, 65, "Fuzz.Strict"); }
TEST(Fuzz, Standard) { run_cases(Numerics::standard, kFirstSeed + 1000000, 35, "Fuzz.Standard"); }

/// The largest error of a run against the reference's double, over all outputs.
double largest_error(const ir::Graph& graph, const std::map<std::string, reference::Column>& wanted, const NamedBytes& outputs) {
  double largest = 0;
  for (const ir::Output& output : graph.outputs()) {
    const DType dtype = graph.node(output.value).type.dtype;
    largest = std::max(largest, reference::compare(dtype, outputs.at(output.name), wanted.at(output.name)).max_error);
  }
  return largest;
}

// Standard numerics keep f32 between the ops of a kernel: fusing must make f16 graphs more accurate,
// never noticeably less.
TEST(Fuzz, FusedHalfIsNoLessAccurate) {
  CaseOptions options;
  options.caps = target().caps;
  options.large_half = true;
  options.min_ops = 5;
  std::vector<double> ratios;
  for (std::uint64_t seed : seeds_from(kFirstSeed + 2000000, 15)) {
    const Case one = random_case(seed, options);
    const Data data = data_for(one);
    const auto wanted = expected(one.graph, data);
    double errors[2] = {};
    for (int i = 0; i < 2; ++i) {
      const GuardedRun run = run_guarded(compile_graph(one.graph, Numerics::standard, i == 0), one.graph, data);
      errors[i] = largest_error(one.graph, wanted, run.outputs);
    }
    if (errors[0] == 0 && errors[1] == 0) continue;
    ratios.push_back(errors[1] == 0 ? 1e9 : errors[0] / errors[1]);
    EXPECT_LE(ratios.back(), 1.5) << fmt::format("errors {} fused and {} unfused\n", errors[0], errors[1]) << ir::print(one.graph)
                                  << fmt::format("REPLAY: VKFUSE_SEED={} vkfuse-test-fuzz --gtest_filter=Fuzz.FusedHalfIsNoLessAccurate\n", seed);
  }
  ASSERT_FALSE(ratios.empty());
  std::sort(ratios.begin(), ratios.end());
  std::printf("%zu graphs: error ratio median %.3f, largest %.3f\n", ratios.size(), ratios[ratios.size() / 2], ratios.back());
  EXPECT_LE(ratios[ratios.size() / 2], 1.0);
}

}  // namespace
}  // namespace vkfuse::test

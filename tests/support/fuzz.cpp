#include "support/fuzz.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <numeric>

#include "spirv/reflect.hpp"
#include "support/random.hpp"

namespace vkfuse::test {

namespace {

constexpr std::uint64_t kFirstSeed = 1;
constexpr int kMostFailures = 5;
constexpr std::size_t kEnough = 10;    // cases to say something of a suite
constexpr std::int64_t kDecided = 20;  // one element in so many may be undecided

/// Over all cases of a suite.
struct Tally {
  std::size_t with_units = 0;
  std::size_t with_dots = 0;
  std::map<schedule::Template, int> kernels;
  std::int64_t elements = 0;
  std::int64_t undecided = 0;
  double max_ratio = 0;
};

/// Bytes of the shared variables of a module; arrays of scalars and of vectors of 32 bits.
std::uint64_t shared_bytes(const std::vector<std::uint32_t>& spirv) {
  enum : std::uint32_t {
    kInt = 21,
    kFloat = 22,
    kVector = 23,
    kArray = 28,
    kPointer = 32,
    kConstant = 43,
    kVariable = 59,
    kWorkgroup = 4
  };
  std::map<std::uint32_t, std::uint64_t> bytes, constants;
  std::uint64_t all = 0;
  for (std::size_t at = 5; at < spirv.size(); at += spirv[at] >> 16) {
    const std::uint32_t* word = &spirv[at];
    switch (word[0] & 0xffffu) {
      case kInt:
      case kFloat: bytes[word[1]] = word[2] / 8; break;
      case kVector: bytes[word[1]] = bytes[word[2]] * word[3]; break;
      case kConstant: constants[word[2]] = word[3]; break;
      case kArray: bytes[word[1]] = bytes[word[2]] * constants[word[3]]; break;
      case kPointer: bytes[word[1]] = bytes[word[3]]; break;
      case kVariable: all += word[3] == kWorkgroup ? bytes[word[1]] : 0; break;
      default: break;
    }
  }
  return all;
}

/// What a kernel asks of a device beyond its limits and the capability Shader, where it may have no more; or nothing.
std::string beyond_limits(const plan::ScheduledKernel& step, const runtime::CompiledKernel& kernel) {
  const Caps least;
  if (step.schedule.workgroup > static_cast<int>(least.workgroup.max_invocations))
    return fmt::format("A workgroup has {} invocations.", step.schedule.workgroup);
  const spirv::Interface interface = must(spirv::reflect(kernel.spirv));
  if (interface.bindings.size() > least.memory.storage_buffers)
    return fmt::format("A kernel has {} buffers.", interface.bindings.size());
  if (interface.push_constant_bytes > least.memory.push_constant_bytes)
    return fmt::format("A kernel has {} bytes of push constants.", interface.push_constant_bytes);
  const std::uint64_t shared = shared_bytes(kernel.spirv);
  if (shared > least.workgroup.shared_memory_bytes)
    return fmt::format("A kernel has {} bytes of shared memory.", shared);
  for (std::size_t at = 5; at < kernel.spirv.size() && (kernel.spirv[at] & 0xffffu) == 17;
       at += kernel.spirv[at] >> 16) {
    if (kernel.spirv[at + 1] != 1) return fmt::format("A kernel declares the capability {}.", kernel.spirv[at + 1]);
  }
  return {};
}

/// The first thing that is wrong about a case compiled in this way, or nothing.
std::string fault_of(const RandomGraph& one, std::uint64_t seed, const Build& how, Tally& tally) try {
  const Data data = small_data(one.graph, seed, one.special);
  const Executable program = compile_graph(one.graph, how);
  const GuardedRun run = run_guarded(program, one.graph, data);
  const auto specialization = specialization_of(program);
  for (std::size_t i = 0; i < specialization->steps.size(); ++i) {
    ++tally.kernels[specialization->steps[i].schedule.kind()];
    const schedule::Schedule& schedule = specialization->steps[i].schedule;
    const auto* matmul = schedule.get_if<schedule::MatmulParams>();
    const auto* attention = schedule.get_if<schedule::AttentionParams>();
    if ((matmul != nullptr && matmul->mma() != nullptr) ||
        (attention != nullptr && attention->cooperative() != nullptr))
      ++tally.with_units;
    if (matmul != nullptr && matmul->integer_dot()) ++tally.with_dots;
    for (const auto& kernel : specialization->compiled[i]) {
      const std::string beyond = how.device != nullptr && how.device == &device_with_low_limits()
                                     ? beyond_limits(specialization->steps[i], *kernel)
                                     : std::string();
      if (!beyond.empty()) return beyond;
    }
  }
  if (!run.broken.empty()) return run.broken;
  const Verdict verdict = check_outputs(one.graph, data, run.outputs);
  tally.elements += verdict.elements;
  tally.undecided += verdict.undecided;
  tally.max_ratio = std::max(tally.max_ratio, verdict.max_ratio);
  if (verdict.wrong.empty() && !one.special && !one.coarse && verdict.undecided * kDecided > verdict.elements) {
    return fmt::format("{} of {} elements are undecided.", verdict.undecided, verdict.elements);
  }
  return verdict.wrong;
} catch (const std::exception& error) {
  return error.what();
}

}  // namespace

std::optional<std::uint64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

std::vector<std::uint64_t> seeds_from(std::uint64_t first, std::uint64_t cases) {
  if (const auto one = number_in("VKFUSE_SEED")) return {*one};
  std::vector<std::uint64_t> all(number_in("VKFUSE_FUZZ_CASES").value_or(cases));
  std::iota(all.begin(), all.end(), number_in("VKFUSE_FUZZ_FIRST").value_or(first));
  return all;
}

std::string replay_line(std::uint64_t seed, std::string_view filter) {
  std::string line = "REPLAY:";
  for (const char* const name : {"VK_ICD_FILENAMES", "VK_DRIVER_FILES", "VKFUSE_TEST_DRIVER", "VKFUSE_TEST_LIMITS",
                                 "VKFUSE_TEST_MATRIX_UNITS", "VKFUSE_CHECK_SPIRV"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') line += fmt::format(" {}={}", name, value);
  }
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return fmt::format("{} VKFUSE_CACHE=off VKFUSE_SEED={} {} --gtest_filter={}\n", line, seed,
                     unknown ? "vkfuse-test-..." : program.string(), filter);
}

Data small_data(const ir::Graph& graph, std::uint64_t seed, bool special) {
  Data made;
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> planted = {inf, -inf, std::nan(""), 0.0, -0.0};
  for (ir::NodeId id : graph.inputs()) {
    const ir::Node& node = graph.node(id);
    const std::string& name = std::get<ir::InputPayload>(node.payload).name;
    const DType dtype = node.type.dtype;
    Random random(seed_of(seed, name));
    const std::int64_t count = must(element_count(must(resolve(node.type.shape, {}))));
    std::vector<std::byte>& bytes = made.inputs[name];
    for (std::int64_t i = 0; i < count; ++i) {
      if (is_float(dtype)) {
        const double value = random.between(-2, 2);
        ir::encode(dtype, special && random.below(400) == 0 ? random.pick(planted) : value, bytes);
      } else if (dtype == DType::boolean) {
        ir::encode_int(dtype, random.chance(70) ? 1 : 0, bytes);
      } else {
        ir::encode_int(dtype, static_cast<std::int64_t>(random.word()) - (std::int64_t{1} << 31), bytes);
      }
    }
  }
  return made;
}

Build random_build(std::uint64_t seed, bool low_limits) {
  Build how;
  how.fusion = seed % 4 != 0;
  how.numerics = seed % 3 == 0 ? Numerics::strict : Numerics::standard;
  how.sorts_scatters = seed % 5 == 0;
  if (low_limits) {
    how.device = &device_with_low_limits();
  } else if (seed % 7 == 0) {
    how.device = &device_without_subgroups();
  }
  return how;
}

void run_random(const RandomSuite& suite) {
  const std::vector<std::uint64_t> seeds = seeds_from(kFirstSeed, suite.cases);
  Tally tally;
  int failures = 0;
  for (const std::uint64_t seed : seeds) {
    const RandomGraph one = suite.draw(seed);
    if (seeds.size() == 1) {  // a driver that dies leaves the graph behind
      std::printf("%s", ir::print(one.graph).c_str());
      std::fflush(stdout);
    }
    const std::string fault = fault_of(one, seed, suite.build(seed), tally);
    if (fault.empty()) continue;
    ADD_FAILURE() << fault << "\n" << ir::print(one.graph) << replay_line(seed, suite.test);
    if (++failures == kMostFailures) break;
  }
  std::string kernels;
  for (const auto& [kind, count] : tally.kernels) kernels += fmt::format("{} {}, ", count, schedule::name_of(kind));
  if (tally.with_dots > 0) kernels += fmt::format("{} with dot products of bytes, ", tally.with_dots);
  if (tally.with_units > 0) kernels += fmt::format("{} with matrix units, ", tally.with_units);
  std::printf("%zu cases: kernels: %s%lld elements, %lld undecided; largest error/bound %.3f\n", seeds.size(),
              kernels.c_str(), static_cast<long long>(tally.elements), static_cast<long long>(tally.undecided),
              tally.max_ratio);
  if (seeds.size() >= kEnough) {
    EXPECT_LE(tally.undecided * kDecided, tally.elements);
    if (suite.integer_dot) {
      EXPECT_GT(tally.with_dots, 0) << "no kernel with dot products of bytes";
    }
    if (suite.units) {
      EXPECT_GT(tally.with_units, 0) << "no kernel with matrix units";
    }
    EXPECT_GT(tally.kernels[suite.wanted], 0) << "no kernel of the template " << schedule::name_of(suite.wanted);
  }
}

}  // namespace vkfuse::test

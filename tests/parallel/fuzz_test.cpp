// Random programs under random shardings: what the ranks compute is what the reference of one rank computes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ir/structured.hpp"
#include "parallel/ranks.hpp"
#include "parallel/sharding.hpp"
#include "support/fuzz.hpp"
#include "support/layers.hpp"
#include "support/random.hpp"
#include "support/structured.hpp"

namespace vkfuse::test {
namespace {

/// What is said of a program: over which axes of the mesh values are divided, along which one stages are (-1: none),
/// and into how many micro-batches they go.
struct Said {
  const std::vector<int>& mesh;
  int stage_axis = -1;
  int micro_batches = 1;
};

/// A layout that the shape can have; most axes stay whole.
std::vector<int> random_layout(Random& random, const Shape& shape, const Said& said) {
  const std::vector<int>& mesh = said.mesh;
  std::vector<int> layout(shape.size(), -1);
  for (int over = 0; over < static_cast<int>(mesh.size()); ++over) {
    if (over == said.stage_axis) continue;
    std::vector<std::size_t> axes;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const bool fits = !shape[i].is_symbol() && shape[i].size() % mesh[static_cast<std::size_t>(over)] == 0;
      if (layout[i] < 0 && fits) axes.push_back(i);
    }
    if (!axes.empty() && random.chance(75)) layout[random.pick(axes)] = over;
  }
  return layout;
}

/// The axes of a value that go into micro-batches.
std::vector<int> batch_axes(const Shape& shape, int micro_batches) {
  std::vector<int> axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].is_symbol() && shape[i].size() % micro_batches == 0) axes.push_back(static_cast<int>(i));
  }
  return axes;
}

/// A value under annotations, in any order.
ir::NodeId random_annotations(ir::Graph& made, ir::NodeId value, const Said& said, Random& random) {
  const bool is_input = made.node(value).op->cls == ops::OpClass::input;
  const Shape shape = made.node(value).type.shape;
  const int chance = is_input ? 80 : 25;
  for (int i = 0; i < 2; ++i) {
    if (said.stage_axis < 0 || !random.chance(chance / 2)) continue;
    const int stages = said.mesh[static_cast<std::size_t>(said.stage_axis)];
    const int stage = static_cast<int>(random.below(static_cast<std::size_t>(stages)));
    value = must(made.add_structured(ops::row("at_stage"), {value}, ir::StagePayload{stage, said.stage_axis}));
  }
  const std::vector<int> axes = batch_axes(shape, said.micro_batches);
  if (said.micro_batches > 1 && !axes.empty() && random.chance(chance / 2))
    value = must(made.add_structured(ops::row("micro_batch"), {value}, ir::MicroBatchPayload{random.pick(axes)}));
  if (!random.chance(chance)) return value;
  return must(made.add_structured(ops::row("shard"), {value}, ir::ShardPayload{random_layout(random, shape, said)}));
}

/// The graph with annotations on some of its values.
ir::Graph annotated(const ir::Graph& graph, const Said& said, Random& random) {
  ir::Graph made;
  made.name = graph.name;
  std::vector<ir::NodeId> map;
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    std::vector<ir::NodeId> operands;
    for (const ir::NodeId operand : node.operands) operands.push_back(map[operand]);
    const ir::NodeId value = must(ir::append_copy(made, node, std::move(operands)));
    map.push_back(random_annotations(made, value, said, random));
  }
  for (const ir::Output& output : graph.outputs()) must(made.add_output(output.name, map[output.value]));
  return made;
}

/// A run that takes inputs from the host, of one rank or several, knows the symbols of inputs alone.
bool has_sizes_from_inputs(const Case& one) {
  const SymbolValues symbols = data_for(one).symbols;
  return std::ranges::all_of(symbols, [&](const auto& symbol) {
    return std::ranges::any_of(one.graph.inputs(), [&](ir::NodeId id) {
      const Shape& shape = one.graph.node(id).type.shape;
      return std::ranges::any_of(shape, [&](const Dim& dim) { return dim.is_symbol() && dim.name() == symbol.first; });
    });
  });
}

const std::vector<std::vector<int>>& meshes() {
  static const std::vector<std::vector<int>> all = {{2}, {2}, {3}, {4}, {2, 2}, {5}, {6}, {3, 2}, {2, 3}, {1, 2}};
  return all;
}

Job random_job(std::uint64_t seed, const Caps& caps) {
  Random random(seed_of(seed, "mesh"));
  const std::vector<int> mesh = random.pick(meshes());
  CaseOptions options;
  options.caps = caps;
  options.every_class = !random.chance(25);
  options.symbols = random.chance(15);
  options.min_ops = 2;
  options.max_ops = 7;
  Case one = random.chance(25) ? random_layers(seed) : random_case(seed, options);
  if (!has_sizes_from_inputs(one)) {
    options.symbols = false;
    one = random_case(seed, options);
  }
  const Data data = data_for(one);
  Said said{mesh};
  if (random.chance(50)) said.stage_axis = static_cast<int>(random.below(mesh.size()));
  if (random.chance(40)) said.micro_batches = 2 + static_cast<int>(random.below(2));
  const ir::Graph graph = annotated(one.graph, said, random);
  Job job{{graph}, mesh, 1, {data}, {}, !random.chance(15), {}};
  job.micro_batches = said.micro_batches;
  for (const int size : mesh) job.ranks *= size;
  return job;
}

JobResult check_random(std::uint64_t seed, const std::function<const Device&(int rank)>& on, const Caps& caps) {
  Job job = random_job(seed, caps);
  job.device = on;
  return check_job(job, replay_line(seed, "ShardingFuzz.*"));
}

const Caps& caps() {
  static const Caps all = must(device().state()->context->tiers().target({})).caps;
  return all;
}

TEST(ShardingFuzz, RandomProgramsUnderRandomShardings) {
  int collectives = 0, crossings = 0;
  const std::vector<std::uint64_t> seeds = seeds_from(1, 100);
  for (const std::uint64_t seed : seeds) {
    const JobResult made = check_random(seed, {}, caps());
    collectives += made.collectives;
    if (made.explained.find("send_receive") != std::string::npos) ++crossings;
    if (testing::Test::HasFailure()) break;
  }
  // Programs that send nothing show nothing.
  if (seeds.size() < 100) return;
  EXPECT_GE(collectives, static_cast<int>(seeds.size()) / 2) << "too few collectives";
  EXPECT_GE(crossings, static_cast<int>(seeds.size()) / 20) << "too few values cross from stage to stage";
}

/// What random programs are of: stages, micro-batches, both.
TEST(ShardingFuzz, DrawsEveryKind) {
  int sent = 0, in_turn = 0, both = 0, divided = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Job job = random_job(seed, caps());
    const auto made = must(parallel::shard_graph(job.graph(0), {job.mesh, 0, job.micro_batches}));
    const bool crosses = std::ranges::any_of(made.graph.nodes(), [](const ir::Node& node) {
      return std::holds_alternative<ir::SendReceivePayload>(node.payload);
    });
    const bool has_slots = std::ranges::any_of(made.slots, [](int slot) { return slot > 0; });
    sent += crosses ? 1 : 0;
    divided += crosses && job.mesh.size() > 1 ? 1 : 0;
    in_turn += has_slots && !crosses ? 1 : 0;
    both += has_slots && crosses && job.micro_batches > 1 ? 1 : 0;
  }
  EXPECT_GE(sent, 10);
  EXPECT_GE(divided, 2);
  EXPECT_GE(in_turn, 5);
  EXPECT_GE(both, 5);
}

// --- the same by processes: tests/parallel/mpi/fuzz.sh has programs written, runs them as jobs, and has them checked
// ---

/// The folder of a program: its text, its mesh, its inputs, and what each rank gave.
std::optional<std::filesystem::path> folder_of(const Job& job, std::uint64_t seed) {
  const char* const all = std::getenv("VKFUSE_JOB_FILES");
  if (all == nullptr) return std::nullopt;
  return std::filesystem::path(all) / std::to_string(job.ranks) / std::to_string(seed);
}

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
}

void write_job(const Job& job, const std::filesystem::path& folder) {
  const ir::Graph& graph = job.graph(0);
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "program.vkf") << ir::print(graph);
  std::ofstream mesh(folder / "mesh");
  mesh << (job.fusion ? 1 : 0) << ' ' << job.micro_batches;
  for (const int size : job.mesh) mesh << ' ' << size;
  std::ofstream inputs(folder / "inputs");  // the sizes of each are a line
  int number = 0;
  for (const ir::NodeId id : graph.inputs()) {
    const std::string& name = std::get<ir::InputPayload>(graph.node(id).payload).name;
    for (const std::int64_t size : must(resolve(graph.node(id).type.shape, job.data[0].symbols))) inputs << size << ' ';
    inputs << '\n';
    std::ofstream(folder / fmt::format("name{}", number), std::ios::binary) << name;  // any characters
    write_file(folder / fmt::format("input{}", number++), job.data[0].inputs.at(name));
  }
}

/// What the ranks gave, in the order of names, as a job writes it.
NamedBytes read_outputs(const Job& job, const std::filesystem::path& folder) {
  NamedBytes outputs;
  for (int rank = 0; rank < job.ranks; ++rank) {
    int number = 0;
    const auto own = must(parallel::shard_graph(job.graph(0), {job.mesh, rank, job.micro_batches})).outputs;
    for (const auto& [name, layout] : own) {
      const std::filesystem::path path = folder / fmt::format("output{}.{}", rank, number++);
      std::ifstream file(path, std::ios::binary);
      EXPECT_TRUE(file.good()) << path;
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
      outputs[parallel::name_on(name, static_cast<std::size_t>(rank))].assign(bytes, bytes + text.size());
    }
  }
  return outputs;
}

TEST(ShardingFiles, AreWritten) {
  for (const std::uint64_t seed : seeds_from(1, 100)) {
    const Job job = random_job(seed, caps());
    const auto folder = folder_of(job, seed);
    if (!folder) GTEST_SKIP() << "VKFUSE_JOB_FILES names no folder, as tests/parallel/mpi/fuzz.sh does";
    write_job(job, *folder);
  }
}

TEST(ShardingFiles, AreRight) {
  for (const std::uint64_t seed : seeds_from(1, 100)) {
    const Job job = random_job(seed, caps());
    const auto folder = folder_of(job, seed);
    if (!folder) GTEST_SKIP() << "VKFUSE_JOB_FILES names no folder, as tests/parallel/mpi/fuzz.sh does";
    check_job_outputs(job, read_outputs(job, *folder), replay_line(seed, "ShardingFuzz.*"));
    if (testing::Test::HasFailure()) break;
  }
}

/// A device of the driver, if the loader knows it.
std::optional<Device> device_of(const std::string& name) {
  for (const DeviceDescription& one : must(Device::list())) {
    if (one.name.find(name) == std::string::npos) continue;
    DeviceOptions options;
    options.name = one.uuid;
    options.store.enabled = false;
    return must(Device::open(options));
  }
  return std::nullopt;
}

/// Ranks on devices of different vendors. ctest shows the loader both drivers for this test (parallel/mixed).
TEST(MixedDevices, RandomProgramsOverTwoDrivers) {
  const std::optional<Device> lavapipe = device_of("llvmpipe"), swiftshader = device_of("SwiftShader");
  if (!lavapipe || !swiftshader) GTEST_SKIP() << "the loader is shown one driver: VK_ICD_FILENAMES names both";
  const auto on = [&](int rank) -> const Device& { return rank % 2 == 0 ? *lavapipe : *swiftshader; };
  const Caps both = must(swiftshader->state()->context->tiers().target({})).caps;
  int collectives = 0;
  const std::vector<std::uint64_t> seeds = seeds_from(1, 20);
  for (const std::uint64_t seed : seeds) {
    collectives += check_random(seed, on, both).collectives;
    if (testing::Test::HasFailure()) break;
  }
  if (seeds.size() < 20) return;
  EXPECT_GE(collectives, 5) << "too few collectives";
}

}  // namespace
}  // namespace vkfuse::test

// One rank of an MPI job, for the tests of the transport: a program of several ranks, and ranks that die, hang or have
// another program. Prints one line a rank, and ends with 0 where the rank did what it should.
//
//   job sum COUNT         runs COUNT programs and compares with sums that are known
//   job large COUNT       sums and gathers of several messages for each rank, COUNT runs
//   job layers            a layer whose weights are divided, compared with one rank
//   job die MS RUNS       the last rank kills itself after MS ms, at the latest after RUNS runs; others must fail
//   job hang N            the last N ranks stop; others must fail
//   job differ            the last rank has another program; all must fail
//   job files FOLDER      runs the programs of FOLDER's folders on their inputs, and writes each rank's outputs there
//   job ours              as sum 1, with MPI initialised by the caller, and its communicator
//   job c                 a sum through the C interface
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include <mpi.h>

#include <fmt/format.h>

#include "vkfuse/mpi.h"
#include "vkfuse/mpi.hpp"
#include "vkfuse/vkfuse.hpp"

namespace {

using namespace vkfuse;
using Clock = std::chrono::steady_clock;

/// Of jobs that lose a rank, and of those that go well on a machine that does other things, too.
constexpr std::chrono::milliseconds kTimeout{2'000}, kPatience{60'000};

[[noreturn]] void leave(int status, int rank, const std::string& line) {
  std::printf("%s\n", fmt::format("rank {}: {}", rank, line).c_str());
  std::fflush(nullptr);
  // Not exit(): a rank that has lost another one has nothing that it may wait for.
  std::_Exit(status);
}

template <typename T>
T must(Result<T> result, int rank) {
  if (!result) leave(2, rank, result.error().text());
  return *std::move(result);
}

ParallelOptions options_of(std::chrono::milliseconds timeout) {
  ParallelOptions options;
  options.timeout = timeout;
  return options;
}

Tensor chain(int ranks) {
  const Tensor x = Tensor::input("x", DType::f32, {48, 16});
  const Tensor y = all_reduce(x * 2.0, Join::sum, {ranks, 1}) + 1.0;
  return all_gather(reduce_scatter(y, Join::max, 0, {ranks, 1}), 0, {ranks, 1});
}

/// Every element of a run on rank r is r + 1.
Outputs run(const ParallelProgram& program, int rank) {
  const std::vector<float> x(48 * 16, static_cast<float>(rank + 1));
  return must(program.run({{"x", HostView(x)}}), rank);
}

int sum(const std::shared_ptr<Transport>& transport, const Device& device, int count) {
  const int ranks = transport->size();
  const ParallelProgram program =
      must(compile_parallel(device, transport, {chain(ranks)}, options_of(kPatience)), transport->rank());
  for (int i = 0; i < count; ++i) {
    const Outputs outputs = run(program, transport->rank());
    for (const float value : outputs.at("y").as<float>()) {
      if (value != static_cast<float>(ranks * (ranks + 1) + 1)) {
        leave(1, transport->rank(), fmt::format("a sum is {}", value));
      }
    }
  }
  return 0;
}

/// 12 MB a rank, which is several pieces of a message, in parts that are not equal: element i of rank r is i % 1000 +
/// r.
int large(const std::shared_ptr<Transport>& transport, const Device& device, int count) {
  constexpr int kElements = 3'000'001;
  const int ranks = transport->size(), rank = transport->rank();
  const Tensor x = Tensor::input("x", DType::f32, {kElements});
  const ParallelProgram program =
      must(compile_parallel(device, transport, {all_gather(all_reduce(x, Join::sum, {ranks, 1}), 0, {ranks, 1})},
                            options_of(kPatience)),
           rank);
  std::vector<float> elements(kElements);
  for (int i = 0; i < kElements; ++i) elements[static_cast<std::size_t>(i)] = static_cast<float>(i % 1000 + rank);
  for (int run = 0; run < count; ++run) {
    const Outputs outputs = must(program.run({{"x", HostView(elements)}}), rank);
    const auto y = outputs.at("y").as<float>();
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto at = static_cast<int>(i % kElements);
      if (y[i] != static_cast<float>(ranks * (at % 1000) + ranks * (ranks - 1) / 2))
        leave(1, rank, fmt::format("element {} is {}", i, y[i]));
    }
  }
  return 0;
}

/// relu(x w1) w2, whole and with weights divided; the sums of few small whole numbers are exact.
int layers(const std::shared_ptr<Transport>& transport, const Device& device) {
  const auto program = [&](bool divided) {
    const Tensor x = Tensor::input("x", DType::f32, {16, 32});
    const Tensor w1 = Tensor::input("w1", DType::f32, {32, 64}), w2 = Tensor::input("w2", DType::f32, {64, 32});
    return divided ? matmul(relu(matmul(x, shard(w1, 1, 0))), shard(w2, 0, 0)) : matmul(relu(matmul(x, w1)), w2);
  };
  const auto elements = [](std::size_t count, int step) {
    std::vector<float> made(count);
    for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<float>(static_cast<int>(i) * step % 7 - 3);
    return made;
  };
  const auto x = elements(16 * 32, 3), w1 = elements(32 * 64, 5), w2 = elements(64 * 32, 11);
  const Inputs inputs = {{"x", HostView(x)}, {"w1", HostView(w1)}, {"w2", HostView(w2)}};
  const int rank = transport->rank();
  const Outputs one = must(must(compile(device, {program(false)}), rank).run(inputs), rank);
  ParallelOptions options = options_of(kPatience);
  options.mesh.sizes = {transport->size()};
  const ParallelProgram parallel = must(compile_parallel(device, transport, {program(true)}, options), rank);
  const Outputs all = must(parallel.run(inputs), rank);
  if (one.at("y").bytes != all.at("y").bytes) leave(1, rank, "the divided layer has other results");
  if (parallel.collective_count() != 1) leave(1, rank, parallel.explain());
  return 0;
}

/// The error of a rank that goes on until it fails. It must be in time, by the clock of this rank.
int fails(const ParallelProgram& program, int rank, int runs) {
  const std::vector<float> x(48 * 16, 1.0F);
  for (int i = 0; i < runs + 1000; ++i) {
    const auto begin = Clock::now();
    const Result<Outputs> result = program.run({{"x", HostView(x)}});
    if (result) continue;
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    if (took > kTimeout + std::chrono::seconds(3))
      leave(1, rank, fmt::format("the error came after {} ms", took.count()));
    if (program.run({{"x", HostView(x)}}).ok()) leave(1, rank, "a job that has lost a rank goes on");
    leave(0, rank, fmt::format("after {} ms: {}", took.count(), result.error().text()));
  }
  leave(1, rank, "no run has failed");
}

/// Leaves the file that VKFUSE_DEATH names, so that the test knows.
void kill_this() {
  if (const char* const path = std::getenv("VKFUSE_DEATH"); path != nullptr) {
    if (std::FILE* const file = std::fopen(path, "w"); file != nullptr) std::fclose(file);
  }
  std::raise(SIGKILL);
}

int die(const std::shared_ptr<Transport>& transport, const Device& device, int ms, int runs) {
  const ParallelProgram program =
      must(compile_parallel(device, transport, {chain(transport->size())}, options_of(kTimeout)), transport->rank());
  run(program, transport->rank());
  if (transport->rank() + 1 < transport->size()) return fails(program, transport->rank(), runs);
  std::thread([ms] {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    kill_this();
  }).detach();
  for (int i = 0; i < runs; ++i) run(program, transport->rank());
  kill_this();
  return 1;
}

int hang(const std::shared_ptr<Transport>& transport, const Device& device, int count) {
  const ParallelProgram program =
      must(compile_parallel(device, transport, {chain(transport->size())}, options_of(kTimeout)), transport->rank());
  run(program, transport->rank());
  if (transport->rank() + count < transport->size()) return fails(program, transport->rank(), 0);
  std::this_thread::sleep_for(3 * kTimeout);
  std::_Exit(0);
}

int differ(const std::shared_ptr<Transport>& transport, const Device& device) {
  const int ranks = transport->size(), rank = transport->rank();
  Tensor y = chain(ranks);
  if (rank + 1 == ranks) y = all_reduce(y, Join::min, {ranks, 1});
  const auto program = compile_parallel(device, transport, {y}, options_of(kTimeout));
  if (program) leave(1, rank, "two programs were taken for one");
  leave(0, rank, program.error().text());
}

std::vector<std::byte> bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

/// Runs one program; how many collectives it has.
int run_files(const std::shared_ptr<Transport>& transport, const Device& device, const std::filesystem::path& folder) {
  const int rank = transport->rank();
  const auto fails = [&](const Error& error) { leave(2, rank, folder.string() + ": " + error.text()); };
  ParallelOptions options = options_of(kPatience);
  options.compile.allow_custom = true;
  std::ifstream mesh(folder / "mesh");
  mesh >> options.compile.fusion >> options.micro_batches;
  for (int size = 0; mesh >> size;) options.mesh.sizes.push_back(size);
  const std::vector<std::byte> text = bytes_of(folder / "program.vkf");
  const auto program =
      compile_parallel_text(device, transport, {reinterpret_cast<const char*>(text.data()), text.size()}, options);
  if (!program) fails(program.error());
  std::vector<std::vector<std::byte>> kept;
  Inputs inputs;
  std::ifstream lines(folder / "inputs");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream sizes(line);
    std::vector<std::int64_t> shape;
    for (std::int64_t size = 0; sizes >> size;) shape.push_back(size);
    const std::vector<std::byte> name = bytes_of(folder / fmt::format("name{}", kept.size()));
    kept.push_back(bytes_of(folder / fmt::format("input{}", kept.size())));
    inputs.emplace(std::string(reinterpret_cast<const char*>(name.data()), name.size()),
                   HostView(std::span<const std::byte>(kept.back()), shape));
  }
  const auto outputs = program->run(inputs);
  if (!outputs) fails(outputs.error());
  int number = 0;
  for (const auto& [name, tensor] : *outputs) {
    std::ofstream(folder / fmt::format("output{}.{}", rank, number++), std::ios::binary)
        .write(reinterpret_cast<const char*>(tensor.bytes.data()), std::ssize(tensor.bytes));
  }
  return program->collective_count();
}

int files(const std::shared_ptr<Transport>& transport, const Device& device, const std::string& all) {
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(all)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  int collectives = 0;
  for (const std::filesystem::path& folder : folders) collectives += run_files(transport, device, folder);
  std::printf(
      "%s\n",
      fmt::format("rank {}: {} programs, {} collectives", transport->rank(), folders.size(), collectives).c_str());
  return 0;
}

void must_in_c(vkf_status status, int rank) {
  if (status != VKF_OK) leave(2, rank, vkf_last_error());
}

/// Every element of rank r is r + 1.
int sum_in_c() {
  if (vkf_open_mpi(nullptr, nullptr) != VKF_INVALID_ARGUMENT) leave(1, -1, "a transport has no place to go to");
  vkf_transport* transport = nullptr;
  must_in_c(vkf_open_mpi(nullptr, &transport), -1);
  const int rank = vkf_transport_rank(transport), ranks = vkf_transport_size(transport);
  vkf_device* device = nullptr;
  must_in_c(vkf_device_open(nullptr, &device), rank);
  const std::string text = fmt::format(
      "graph \"sum\" {{\n  %0 = input \"x\" : f32[48]\n  %1 = all_reduce_sum ranks={} stride=1 %0 : f32[48]\n"
      "  output \"y\" = %1\n}}\n",
      ranks);
  vkf_graph* graph = nullptr;
  must_in_c(vkf_graph_parse(text.c_str(), &graph), rank);
  vkf_parallel_program* program = nullptr;
  must_in_c(vkf_compile_parallel(device, transport, graph, nullptr, &program), rank);
  const std::vector<float> x(48, static_cast<float>(rank + 1));
  std::vector<float> y(48);
  const vkf_host_input in = {"x", x.data(), 192, nullptr, 0};
  vkf_host_output out = {"y", y.data(), 192, 0};
  must_in_c(vkf_parallel_program_run(program, &in, 1, &out, 1), rank);
  if (y != std::vector<float>(48, static_cast<float>(ranks * (ranks + 1)) / 2))
    leave(1, rank, fmt::format("a sum is {}", y[0]));
  std::printf("%s\n", fmt::format("rank {}: ok", rank).c_str());
  vkf_graph_free(graph);
  vkf_parallel_program_free(program);
  vkf_device_free(device);
  vkf_transport_free(transport);
  return 0;
}

int run_job(const std::vector<std::string>& words) {
  const std::string mode = words.at(0);
  if (mode == "c") return sum_in_c();
  const auto number = [&](std::size_t at) { return std::atoi(words.at(at).c_str()); };
  MPI_Comm own = MPI_COMM_NULL;
  MpiOptions options;
  if (mode == "ours") {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    options.communicator = &own;
  }
  int status = 0;
  {
    const std::shared_ptr<Transport> transport = must(open_mpi(options), -1);
    const Device device = must(Device::open(), transport->rank());
    if (mode == "sum") status = sum(transport, device, number(1));
    if (mode == "ours") status = sum(transport, device, 1);
    if (mode == "large") status = large(transport, device, number(1));
    if (mode == "files") status = files(transport, device, words.at(1));
    if (mode == "layers") status = layers(transport, device);
    if (mode == "die") status = die(transport, device, number(1), number(2));
    if (mode == "hang") status = hang(transport, device, number(1));
    if (mode == "differ") status = differ(transport, device);
    std::printf("%s\n", fmt::format("rank {}: ok", transport->rank()).c_str());
  }
  if (mode == "ours") {
    MPI_Comm_free(&own);
    MPI_Finalize();
  }
  return status;
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> all(words + 1, words + count);
  if (all.empty()) {
    std::fprintf(
        stderr,
        "usage: job sum COUNT | large COUNT | layers | files FOLDER | die MS RUNS | hang N | differ | ours | c\n");
    return 64;
  }
  return run_job(all);
}

// Values that go by NCCL, with a stand-in for it and for CUDA: memory of the device is mapped into the process. What a
// GPU adds, timelines that CUDA waits for, is measured and checked by bench/results.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "os/system.hpp"
#include "parallel/ranks.hpp"
#include "support/fuzz.hpp"
#include "vkfuse/nccl.hpp"
#include "vkfuse/vkfuse.h"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

using Clock = std::chrono::steady_clock;

/// Beside this program.
std::string stand_in() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libvkfuse-stand-in-nccl.so").string();
}

/// Where buffers begin in what their descriptors name.
std::uint64_t offset_of(const Buffer& buffer) {
  std::vector<std::byte> mark(256);
  for (std::size_t i = 0; i < mark.size(); ++i) mark[i] = static_cast<std::byte>(i * 37 + 11);
  must(buffer.write(mark));
  const ExportedMemory exported = must(buffer.export_memory());
  struct stat status {};
  EXPECT_EQ(fstat(exported.fd, &status), 0);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  auto* const base = static_cast<const std::byte*>(mmap(nullptr, bytes, PROT_READ, MAP_SHARED, exported.fd, 0));
  const auto* const found = std::search(base, base + bytes, mark.begin(), mark.end());
  EXPECT_NE(found, base + bytes) << "the mark is not in the memory that was exported";
  munmap(const_cast<std::byte*>(base), bytes);
  close(exported.fd);
  return static_cast<std::uint64_t>(found - base);
}

/// The stand-in knows the device under test.
NcclOptions told() {
  const std::string uuid = device().description().uuid;
  std::array<std::uint8_t, 16> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(std::stoi(uuid.substr(2 * i, 2), nullptr, 16));
  const std::uint64_t offset = offset_of(must(device().allocate_shared(4096)));
  EXPECT_EQ(offset_of(must(device().allocate_shared(100'000))), offset);
  auto* const tell =
      reinterpret_cast<void (*)(const std::uint8_t*, std::uint64_t)>(os::find_function(stand_in(), "stand_in_tell"));
  if (tell == nullptr) throw std::runtime_error("there is no " + stand_in());
  tell(bytes.data(), offset);
  return {stand_in(), stand_in(), 0};
}

/// The stand-in has memory for so many windows of 2 MiB; the buffers live as long as the process.
NcclOptions with_windows(int count) {
  const NcclOptions options = told();
  auto* const provide =
      reinterpret_cast<void (*)(int, std::uint64_t)>(os::find_function(stand_in(), "stand_in_provide"));
  static std::vector<Buffer> kept;
  for (int i = 0; i < count; ++i) {
    kept.push_back(must(device().allocate_shared(2 << 20)));
    provide(must(kept.back().export_memory()).fd, 2 << 20);
  }
  return options;
}

void withdraw() { reinterpret_cast<void (*)()>(os::find_function(stand_in(), "stand_in_withdraw"))(); }

std::vector<Device> devices_of_ranks(int ranks) {
  DeviceOptions own;
  own.name = device().description().uuid;
  own.store.enabled = false;
  std::vector<Device> devices;
  for (int rank = 0; rank < ranks; ++rank) devices.push_back(must(Device::open(own)));
  return devices;
}

std::function<std::shared_ptr<Transport>(std::shared_ptr<Transport>)> by_nccl() {
  return
      [options = told()](std::shared_ptr<Transport> messages) { return must(open_nccl(std::move(messages), options)); };
}

Job with_nccl(Job job) {
  job.transport = by_nccl();
  return job;
}

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    if (!device().shares_memory()) GTEST_SKIP() << "the driver exports no memory, and the stand-in has none to map";
  }
};

/// Says that it begins the run, as the others do, and does not come to the collective.
void begin_and_go(Transport& transport, const std::vector<int>& others) {
  auto words = std::make_shared<std::vector<std::array<std::uint64_t, 2>>>(others.size());
  Exchange begin;
  begin.number = transport.take_numbers(1);
  begin.deadline = Clock::now() + std::chrono::seconds(10);
  begin.memory = words;
  for (std::size_t i = 0; i < others.size(); ++i)
    begin.receives.push_back({others[i], std::as_writable_bytes(std::span((*words)[i]))});
  must(transport.exchange(begin));
  begin.receives.clear();
  for (const int other : others) begin.sends.push_back({other, std::as_bytes(std::span(words->front()))});
  must(transport.exchange(begin));
}

TEST_F(Nccl, EveryCollective) {
  const Tensor x = Tensor::input("x", DType::f32, {8, 12});
  for (const Ranks group : {Ranks{2, 1}, Ranks{2, 2}, Ranks{4, 1}}) {
    std::vector<int> from(static_cast<std::size_t>(group.count), -1);
    for (int i = 1; i < group.count; ++i) from[static_cast<std::size_t>(i)] = i - 1;
    const Tensor y = x * 2.0;
    const ir::Graph graph =
        graph_of({all_reduce(y, Join::sum, group) + x, all_reduce(y, Join::max, group),
                  reduce_scatter(y, Join::sum, 1, group), all_gather(x, 1, group), all_to_all(y, 0, 1, group),
                  broadcast_from(y, 1, group), send_receive(y, from, group)});
    EXPECT_EQ(check_job(with_nccl(job_of(graph, 4)), "nccl").collectives, 7);
  }
}

/// Values cross by NCCL's kernels, and exchanges between other stages are none of a rank's.
TEST_F(Nccl, StagesOfAPipeline) {
  Tensor h = micro_batch(Tensor::input("x", DType::f32, {8, 16}), 0);
  for (int stage = 0; stage < 3; ++stage) {
    const Tensor w = Tensor::input(fmt::format("w{}", stage), DType::f32, {16, 16});
    h = matmul(at_stage(h, stage, 0), w) * 0.25 + 1.0;
  }
  Job job = with_nccl(job_of(graph_of({h, at_stage(h.sum({0}), 0, 0)}), 1, {3}));
  job.ranks = 3;
  job.micro_batches = 4;
  check_job(job, "a pipeline by nccl");
}

TEST_F(Nccl, IsOpenedFromC) {
  const NcclOptions stand_ins = told();
  const vkf_nccl_options options = {sizeof options, stand_ins.nccl.c_str(), stand_ins.cuda.c_str(), 1};
  vkf_transport* messages[2] = {};
  vkf_transport* transport = nullptr;
  ASSERT_EQ(vkf_thread_transports(2, messages), VKF_OK) << vkf_last_error();
  ASSERT_EQ(vkf_open_nccl(messages[1], &options, &transport), VKF_OK) << vkf_last_error();
  for (vkf_transport* one : messages) vkf_transport_free(one);  // which the new one keeps
  EXPECT_EQ(vkf_transport_rank(transport), 1);
  EXPECT_EQ(vkf_transport_size(transport), 2);
  vkf_transport_free(transport);
}

/// Copy engines, kernels and the host carry values of one part, which end in the order in which they were begun.
TEST_F(Nccl, WindowsBesideOtherWays) {
  const Tensor x = Tensor::input("x", DType::f32, {64, 16});
  const Tensor y = x * 2.0, sum = all_reduce(y, Join::sum, {2, 1});
  const ir::Graph graph = graph_of({sum, send_receive(y + 1.0, {1, 0}, {2, 1}), all_reduce(y.sum(), Join::sum, {2, 1}),
                                    all_to_all(y * y, 0, 1, {2, 1}), all_reduce(exp(-sum * 0.1), Join::max, {2, 1}),
                                    all_gather(y - 3.0, 1, {2, 1}), all_reduce(x.sum(), Join::sum, {2, 1})});
  NcclOptions options = with_windows(128);
  options.least_bytes = 1024;
  Job job = job_of(graph, 2);
  job.transport = [options](std::shared_ptr<Transport> messages) {
    return must(open_nccl(std::move(messages), options));
  };
  // Kernels wait on a rank's queue for what another one sends: as with NCCL, each has a device of its own.
  const std::vector<Device> devices = devices_of_ranks(2);
  job.device = [&](int rank) -> const Device& { return devices[static_cast<std::size_t>(rank)]; };
  for (int i = 0; i < 3; ++i) check_job(job, "three ways");
  EXPECT_GE(reinterpret_cast<int (*)()>(os::find_function(stand_in(), "stand_in_copies"))(), 3 * 2 * 4);
  withdraw();
}

/// Parts that are not equal, of more than a page, again and again.
TEST_F(Nccl, LargeSumsAndSeveralRuns) {
  const auto open = by_nccl();
  const auto wrong = on_ranks<int>(3, [&](int rank, std::shared_ptr<Transport> messages) {
    const auto transport = open(std::move(messages));
    const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n")});
    const Tensor y = all_reduce(x * 2.0, Join::sum, {3, 1});
    const auto first = must(compile_parallel(device(), transport, {y}));
    const auto second = must(compile_parallel(device(), transport, {y + 1.0}));
    int wrong_elements = 0;
    for (const std::size_t count : {100'003, 7, 100'003, 50'000}) {
      const std::vector<float> elements(count, static_cast<float>(rank + 1));
      const Outputs one = must(first.run({{"x", HostView(elements)}}));
      const Outputs two = must(second.run({{"x", HostView(elements)}}));
      for (const float sum : one.at("y").as<float>()) wrong_elements += sum == 12 ? 0 : 1;
      for (const float sum : two.at("y").as<float>()) wrong_elements += sum == 13 ? 0 : 1;
    }
    return wrong_elements;
  });
  EXPECT_EQ(wrong, (std::vector<int>{0, 0, 0}));
}

/// Short messages do not go by NCCL: a job whose values are all short is right with both ways mixed.
TEST_F(Nccl, ShortMessagesGoByTheHost) {
  const Tensor x = Tensor::input("x", DType::f32, {64, 12});
  const ir::Graph graph = graph_of(
      {all_reduce(all_gather(x, 0, {2, 1}) * 2.0, Join::sum, {2, 1}), all_reduce(x.sum({1}), Join::max, {2, 1})});
  NcclOptions options = told();
  options.least_bytes = 4096;
  Job job = job_of(graph, 2);
  job.transport = [options](std::shared_ptr<Transport> messages) {
    return must(open_nccl(std::move(messages), options));
  };
  check_job(job, "both ways");
}

TEST_F(Nccl, DividedLayers) {
  const auto weight = [](const char* name, Shape shape) { return Tensor::input(name, DType::f32, std::move(shape)); };
  const Tensor x = weight("x", {8, 16});
  const Tensor h = relu(matmul(x, shard(weight("w1", {16, 32}), 1, 0)));
  const ir::Graph graph = graph_of({matmul(h, shard(weight("w2", {32, 16}), 0, 0)) + x});
  check_job(with_nccl({{graph}, {2}, 2, {small_data(graph, 5, false)}, {}, true, {}}), "divided layers");
}

/// A rank that is gone in the middle of a run: the others are told by whom, in time, and the device goes on.
TEST_F(Nccl, ARankThatIsGoneIsNamed) {
  const auto open = by_nccl();
  constexpr std::chrono::milliseconds kPatience{300};
  const auto errors = on_ranks<std::string>(3, [&](int rank, std::shared_ptr<Transport> messages) -> std::string {
    const auto transport = open(messages);
    ParallelOptions options;
    options.timeout = kPatience;
    const Tensor x = Tensor::input("x", DType::f32, {64});
    const auto program = must(compile_parallel(device(), transport, {all_reduce(x, Join::sum, {3, 1})}, options));
    const std::vector<float> elements(64, 1.0F);
    must(program.run({{"x", HostView(elements)}}));
    if (rank == 1) {
      begin_and_go(*transport, {0, 2});
      return "";
    }
    const auto begin = Clock::now();
    const Result<Outputs> lost = program.run({{"x", HostView(elements)}});
    EXPECT_LT(Clock::now() - begin, kPatience * 2 + std::chrono::seconds(5));
    EXPECT_FALSE(program.run({{"x", HostView(elements)}}).ok()) << "a job that has lost a rank goes on";
    return lost ? "" : lost.error().text();
  });
  for (const std::size_t rank : {0, 2}) {
    EXPECT_NE(errors[rank].find("heard nothing from rank 1"), std::string::npos) << errors[rank];
    EXPECT_NE(errors[rank].find("'all_reduce_sum' %1"), std::string::npos) << errors[rank];
  }
  const Tensor x = Tensor::input("x", DType::f32, {4});
  const std::vector<float> ones(4, 1.0F);
  EXPECT_EQ(must(must(compile(device(), {x + 1.0})).run({{"x", HostView(ones)}})).at("y").as<float>()[3], 2);
}

/// A rank that is gone while kernels of the other already wait for its values: that one has an error, and its device
/// ends.
TEST_F(Nccl, ARankThatIsGoneBesideWindows) {
  const NcclOptions options = with_windows(32);
  const std::vector<Device> devices = devices_of_ranks(2);
  const auto errors = on_ranks<std::string>(2, [&](int rank, std::shared_ptr<Transport> messages) -> std::string {
    const auto transport = must(open_nccl(messages, options));
    ParallelOptions short_wait;
    short_wait.timeout = std::chrono::milliseconds(400);
    const Tensor x = Tensor::input("x", DType::f32, {64});
    const Tensor y = exp(all_reduce(x * 2.0, Join::sum, {2, 1})) + 1.0;
    const auto program = must(compile_parallel(devices[static_cast<std::size_t>(rank)], transport, {y}, short_wait));
    const std::vector<float> elements(64, 0.0F);
    must(program.run({{"x", HostView(elements)}}));
    if (rank == 1) {
      begin_and_go(*transport, {0});
      return "";
    }
    const auto begin = Clock::now();
    const Result<Outputs> lost = program.run({{"x", HostView(elements)}});
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(8));
    return lost ? "" : lost.error().text();
  });
  withdraw();
  EXPECT_NE(errors[0].find("heard nothing from rank 1"), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find("'all_reduce_sum'"), std::string::npos) << errors[0];
}

TEST_F(Nccl, SentencesForWhatIsNotThere) {
  const auto one = must(thread_transports(1))[0];
  const auto error = [&](const NcclOptions& options) { return open_nccl(one, options).error(); };
  EXPECT_EQ(error({"libnone.so", stand_in()}).message,
            "NCCL is not used: 'libnone.so' is not there or has no 'ncclGetVersion'.");
  EXPECT_EQ(error({stand_in(), "libnone.so"}).message,
            "CUDA's driver is not used: 'libnone.so' is not there or has no 'cuInit'.");
  EXPECT_EQ(error({stand_in(), "libnone.so"}).code, ErrorCode::unsupported);
  EXPECT_FALSE(open_nccl(nullptr, {stand_in(), stand_in()}).ok());
  static_cast<void>(told());
  const std::array<std::uint8_t, 16> other{};
  reinterpret_cast<void (*)(const std::uint8_t*, std::uint64_t)>(os::find_function(stand_in(), "stand_in_tell"))(
      other.data(), 0);
  const auto messages = on_ranks<std::string>(2, [](int, std::shared_ptr<Transport> transport) {
    const auto nccl = must(open_nccl(std::move(transport), {stand_in(), stand_in()}));
    const Tensor x = all_reduce(Tensor::input("x", DType::f32, {4}), Join::sum, {2, 1});
    const auto program = compile_parallel(device(), nccl, {x});
    return program ? std::string() : program.error().text();
  });
  for (const std::string& message : messages)
    EXPECT_NE(message.find("CUDA has 1 devices, and none of them is"), std::string::npos) << message;
}

}  // namespace
}  // namespace vkfuse::test

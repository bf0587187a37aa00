// vkfuse-bench --suite parallel: programs over the ranks of an MPI job beside one rank alone, with values that go by
// MPI and by NCCL.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/command_main.hpp"
#include "ops/op.hpp"
#include "parallel/programs.hpp"
#include "report.hpp"
#include "vkfuse/mpi.hpp"
#include "vkfuse/nccl.hpp"

namespace {

using namespace vkfuse;
using namespace vkfuse::bench;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::vector<std::string> transports = {"mpi", "nccl"};
  std::string device, nccl = "libnccl.so.2", json, filter;
  std::int64_t most_mib = 1024;
  double seconds = 1;  ///< of each row's samples, about
  double tune_ms = 0;  ///< that measuring schedules may take, of each program or part
  int timeout = 60;    ///< in seconds, of a collective
  bool kernels = false;
  LlamaSizes sizes;
  std::int64_t training_batch = 4;
};

/// A program that runs as often as it is asked to, on device memory.
struct Timed {
  std::function<Result<void>()> run;
  std::function<Result<Outputs>()> results;
  std::function<Result<std::vector<KernelTime>>()> kernels = {};
};

/// A job's ranks, and the table that rank 0 prints.
class Suite {
 public:
  Suite(const Arguments& arguments, Device device, std::shared_ptr<Transport> control)
      : arguments_(arguments), device_(std::move(device)), control_(std::move(control)) {
    options_.mesh.sizes = {control_->size()};
    if (arguments_.tune_ms > 0) {
      options_.compile.tune = Tune::on;
      options_.compile.tune_ms = arguments_.tune_ms;
    }
    options_.timeout = std::chrono::seconds(arguments_.timeout);
    options_.compile_timeout = std::chrono::seconds(600);
  }

  Result<int> run() {
    VKF_CHECK_OK(print_head());
    for (const std::string& name : arguments_.transports) VKF_CHECK_OK(open(name));
    VKF_CHECK_OK(measure_sums());
    VKF_CHECK_OK(measure_llama("llama tensor", {0, -1}, 1));
    VKF_CHECK_OK(measure_llama("llama data, 1 each", {-1, 0}, ranks()));
    VKF_CHECK_OK(measure_llama("llama data, 4 each", {-1, 0}, 4 * ranks()));
    VKF_CHECK_OK(measure_training());
    if (!arguments_.json.empty() && control_->rank() == 0)
      VKF_CHECK_OK(write_file(arguments_.json, report_.dump(1) + "\n"));
    return wrong_ == 0 ? 0 : 1;
  }

 private:
  [[nodiscard]] int ranks() const { return control_->size(); }
  [[nodiscard]] bool is_asked_for(const std::string& row) const {
    return row.find(arguments_.filter) != std::string::npos;
  }

  Result<void> open(const std::string& name) {
    VKF_TRY(transport, open_mpi());
    if (name == "mpi") {
      transports_.emplace_back(name, std::move(transport));
      return {};
    }
    NcclOptions options;
    options.nccl = arguments_.nccl;
    VKF_TRY(nccl, open_nccl(std::move(transport), options));
    transports_.emplace_back(name, std::move(nccl));
    return {};
  }

  /// A number of every rank, on every rank. Whoever is first waits.
  Result<std::vector<double>> gather(double own) {
    auto all = std::make_shared<std::vector<double>>(static_cast<std::size_t>(ranks()), own);
    auto mine = std::make_shared<double>(own);
    Exchange exchange;
    exchange.number = control_->take_numbers(1);
    exchange.deadline = Clock::now() + std::chrono::minutes(20);
    exchange.memory = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(all, mine);
    for (int other = 0; other < ranks(); ++other) {
      if (other == control_->rank()) continue;
      exchange.sends.push_back({other, std::as_bytes(std::span(mine.get(), 1))});
      exchange.receives.push_back(
          {other, std::as_writable_bytes(std::span(&(*all)[static_cast<std::size_t>(other)], 1))});
    }
    VKF_CHECK_OK(control_->exchange(exchange));
    return *all;
  }
  Result<double> largest(double own) {
    VKF_TRY(all, gather(own));
    return *std::ranges::max_element(all);
  }

  /// The median of a run, in microseconds by the clock of the slowest rank; every rank calls it.
  Result<double> time(const Timed& timed) {
    const auto one = [&]() -> Result<double> {
      const auto begin = Clock::now();
      VKF_CHECK_OK(timed.run());
      return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    };
    // Clocks rise with load, and drivers compile in first runs.
    double warm_us = 0;
    for (int i = 0; i < 3; ++i) VKF_CHECK_OK(one());
    VKF_TRY(cold, one());
    VKF_TRY(slow, largest(cold));
    for (const int count = static_cast<int>(0.3e6 / slow); warm_us < count; ++warm_us) VKF_CHECK_OK(one());
    VKF_TRY(first, one());
    VKF_TRY(slowest, largest(first));
    const int count = std::clamp(static_cast<int>(arguments_.seconds * 1e6 / slowest), 5, 1000);
    std::vector<double> samples;
    for (int i = 0; i < count; ++i) {
      VKF_TRY(sample, one());
      samples.push_back(sample);
    }
    std::ranges::sort(samples);
    return largest(samples[samples.size() / 2]);
  }

  // ---- programs ----

  /// Divided by its annotations, if it `is_divided`; else the graph has collectives.
  Result<Timed> over_ranks(const std::shared_ptr<Transport>& transport, const std::vector<Tensor>& outputs,
                           bool is_divided) {
    ParallelOptions options = options_;
    if (!is_divided) options.mesh.sizes.clear();
    VKF_TRY(program, compile_parallel(device_, transport, outputs, options));
    const auto inputs = f16_inputs(program.inputs());
    Inputs views;
    for (const auto& [name, elements] : inputs) views.emplace(name, HostView(elements));
    VKF_CHECK_OK(program.upload(views));
    return Timed{[program] { return program.execute(); }, [program] { return program.download(); },
                 [program] { return program.profile(); }};
  }

  /// The same without other ranks: as a program of one device.
  Result<Timed> alone(const std::vector<Tensor>& outputs) {
    VKF_TRY(program, compile(device_, outputs, options_.compile));
    const auto inputs = f16_inputs(program.inputs());
    auto bindings = std::make_shared<Bindings>();
    for (const auto& [name, elements] : inputs) {
      VKF_TRY(buffer, device_.allocate(2 * elements.size()));
      VKF_CHECK_OK(buffer.write(std::as_bytes(std::span(elements))));
      bindings->inputs.emplace(name, buffer);
    }
    for (const Port& port : program.outputs()) {
      VKF_TRY(buffer, device_.allocate(bytes_of(port)));
      bindings->outputs.emplace(port.name, buffer);
    }
    const auto run = [program, bindings]() -> Result<void> {
      VKF_TRY(submission, program.submit(*bindings));
      return submission.wait();
    };
    const auto results = [program, bindings]() -> Result<Outputs> {
      Outputs all;
      for (const Port& port : program.outputs()) {
        HostTensor tensor{port.dtype, {}, std::vector<std::byte>(bytes_of(port))};
        VKF_CHECK_OK(bindings->outputs.at(port.name).read(tensor.bytes));
        all.emplace(port.name, std::move(tensor));
      }
      return all;
    };
    return Timed{run, results, [program, bindings] { return program.profile(*bindings); }};
  }

  static std::size_t bytes_of(const Port& port) {
    auto bytes = static_cast<std::size_t>(size_of(port.dtype));
    for (const Dim& dim : port.shape) bytes *= static_cast<std::size_t>(dim.size());
    return bytes;
  }

  // ---- rows ----

  Result<void> measure_sums() {
    constexpr int kTimes = 4;
    for (std::int64_t kib = 0; kib <= arguments_.most_mib * 1024; kib = kib == 0 ? 64 : 4 * kib) {
      const std::string row = kib == 0 ? "all_reduce 16 B" : fmt::format("all_reduce {} KiB", kib);
      if (!is_asked_for(row)) continue;
      const std::int64_t elements = kib == 0 ? 8 : kib * 512;
      for (const auto& [name, transport] : transports_) {
        VKF_TRY(timed, over_ranks(transport, {sums_in_a_row(elements, ranks(), kTimes)}, false));
        VKF_TRY(us, time(timed));
        VKF_TRY(results, timed.results());
        const auto expected = f16_inputs({{"x", DType::f16, {elements}}}).at("x");
        const auto got = results.at("y").as<std::uint16_t>();
        const bool is_right = std::ranges::equal(expected, got);
        const double each = us / kTimes;
        VKF_CHECK_OK(
            add(row, name, {{"us", each}, {"gb_per_s", 2e-3 * static_cast<double>(elements) / each}}, is_right));
      }
    }
    return {};
  }

  Result<void> measure_llama(const std::string& row, const LlamaDivision& division, int batches) {
    if (!is_asked_for(row)) return {};
    LlamaSizes sizes = arguments_.sizes;
    sizes.batch *= batches;
    return measure_beside_one(row, {llama(sizes, {})}, {llama(sizes, division)}, division.batch >= 0);
  }

  Result<void> measure_training() {
    if (!is_asked_for("llama training")) return {};
    LlamaSizes sizes = arguments_.sizes;
    sizes.layers = std::min<std::int64_t>(sizes.layers, 2);
    sizes.batch = arguments_.training_batch * ranks();
    return measure_beside_one("llama training", llama_step(sizes, {}), llama_step(sizes, {-1, 0}), false);
  }

  Result<void> measure_beside_one(const std::string& row, const std::vector<Tensor>& one,
                                  const std::vector<Tensor>& divided, bool is_part) {
    double alone_us = 0;
    Outputs expected;
    {
      VKF_TRY(timed, alone(one));
      VKF_TRY(us, time(timed));
      VKF_TRY(results, timed.results());
      alone_us = us;
      expected = std::move(results);
      VKF_CHECK_OK(add(row, "one rank", {{"us", us}}, true));
      if (arguments_.kernels) VKF_CHECK_OK(print_kernels(timed));
    }
    for (const auto& [name, transport] : transports_) {
      VKF_TRY(timed, over_ranks(transport, divided, true));
      VKF_TRY(us, time(timed));
      VKF_TRY(results, timed.results());
      const double off = difference(expected, results, is_part ? control_->rank() : 0);
      VKF_CHECK_OK(add(row, name, {{"us", us}, {"of_one", alone_us / us}, {"difference", off}}, off < 0.02));
      if (arguments_.kernels) VKF_CHECK_OK(print_kernels(timed));
    }
    return {};
  }

  [[nodiscard]] Result<void> print_kernels(const Timed& timed) const {
    VKF_TRY(kernels, timed.kernels());
    for (const KernelTime& one : kernels) {
      if (control_->rank() == 0) fmt::print("  {:<62} {:>11.1f}\n", one.kernel, one.microseconds);
    }
    return {};
  }

  /// The largest difference of output 0 from one rank's, of the largest element; of a part, the part-th.
  static double difference(const Outputs& expected, const Outputs& got, int part) {
    const auto value = [](const HostTensor& tensor, std::size_t at) {
      return tensor.dtype == DType::f32 ? static_cast<double>(tensor.as<float>()[at])
                                        : ops::f16_to(tensor.as<std::uint16_t>()[at]);
    };
    const HostTensor &a = expected.at("y"), &b = got.at("y");
    const std::size_t count = b.bytes.size() / static_cast<std::size_t>(size_of(b.dtype));
    double largest = 0, most = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double x = value(a, static_cast<std::size_t>(part) * count + i), y = value(b, i);
      largest = std::max(largest, std::abs(x));
      most = std::isfinite(x - y) ? std::max(most, std::abs(x - y)) : INFINITY;
    }
    return most / std::max(largest, 1e-30);
  }

  // ---- the table ----

  Result<void> print_head() {
    const DeviceDescription device = device_.description();
    report_["environment"] = {{"device", device.name}, {"driver", device.driver}, {"ranks", ranks()}};
    if (control_->rank() != 0) return {};
    fmt::print("{} ranks, rank 0 on {}, {}\n", ranks(), device.name, device.driver);
    fmt::print("{:<24} {:<9} {:>11} {:>9} {:>8} {:>11}\n", "row", "by", "us", "GB/s", "of one", "difference");
    return {};
  }

  Result<void> add(const std::string& row, const std::string& by, nlohmann::json numbers, bool is_right) {
    VKF_TRY(wrong, largest(is_right ? 0 : 1));
    wrong_ += wrong > 0 ? 1 : 0;
    if (control_->rank() != 0) return {};
    const auto text = [&](const char* key, int digits) {
      return numbers.contains(key) ? fmt::format("{:.{}f}", numbers[key].get<double>(), digits) : std::string();
    };
    fmt::print("{:<24} {:<9} {:>11} {:>9} {:>8} {:>11}{}\n", row, by, text("us", 1), text("gb_per_s", 2),
               text("of_one", 2), text("difference", 5), wrong > 0 ? "  WRONG" : "");
    std::fflush(stdout);
    numbers.update({{"row", row}, {"by", by}, {"right", wrong == 0}});
    report_["rows"].push_back(std::move(numbers));
    return {};
  }

  Arguments arguments_;
  Device device_;
  std::shared_ptr<Transport> control_;
  ParallelOptions options_;
  std::vector<std::pair<std::string, std::shared_ptr<Transport>>> transports_;
  nlohmann::json report_;
  int wrong_ = 0;
};

/// The ranks of a machine have its devices in turn: GPUs where there are some.
Result<Device> device_of(const Arguments& arguments, int rank) {
  DeviceOptions options;
  options.name = arguments.device;
  if (arguments.device.empty()) {
    VKF_TRY(devices, Device::list());
    std::vector<int> all, gpus;
    for (const DeviceDescription& one : devices) {
      all.push_back(one.index);
      if (one.type != "cpu") gpus.push_back(one.index);
    }
    const std::vector<int>& chosen = gpus.empty() ? all : gpus;
    if (!chosen.empty()) options.name = std::to_string(chosen[static_cast<std::size_t>(rank) % chosen.size()]);
  }
  return Device::open(options);
}

Result<int> run_job(const Arguments& arguments) {
  VKF_TRY(control, open_mpi());
  VKF_TRY(device, device_of(arguments, control->rank()));
  Result<int> status = Suite(arguments, device, control).run();
  if (!status) control->fail(status.error().message);
  return status;
}

int run_command(int argc, char** argv) {
  CLI::App app{
      "vkfuse-bench --suite parallel: programs over the ranks of an MPI job beside one rank\n"
      "  mpirun -n 2 vkfuse-bench --suite parallel"};
  Arguments arguments;
  app.add_option("--transport", arguments.transports, "What carries values: mpi, nccl")
      ->delimiter(',')
      ->check(CLI::IsMember({"mpi", "nccl"}));
  app.add_option("-d,--device", arguments.device, "Of every rank; else each has one of the machine's GPUs in turn");
  app.add_option("--nccl", arguments.nccl, "NCCL's library");
  app.add_option("--filter", arguments.filter, "Only rows with this in their names");
  app.add_option("--most", arguments.most_mib, "MiB of the largest sum");
  app.add_option("--seconds", arguments.seconds, "Of each row's samples, about");
  app.add_option("--layers", arguments.sizes.layers, "Of the model");
  app.add_option("--tokens", arguments.sizes.tokens, "Of a sequence");
  app.add_option("--width", arguments.sizes.width, "Of the model");
  app.add_option("--heads", arguments.sizes.heads, "Of queries");
  app.add_option("--key-heads", arguments.sizes.key_heads, "Of keys and values");
  app.add_option("--head-size", arguments.sizes.head_size, "Elements of a head");
  app.add_option("--hidden", arguments.sizes.hidden, "Units of its feed-forward layers");
  app.add_option("--batch", arguments.training_batch, "Sequences of a rank in training");
  app.add_option("--tune", arguments.tune_ms, "Milliseconds that measuring schedules may take, of a program or a part");
  app.add_option("--timeout", arguments.timeout, "Seconds that a rank waits for another")->check(CLI::PositiveNumber);
  app.add_flag("--kernels", arguments.kernels, "Print the device times of rank 0's kernels");
  app.add_option("--json", arguments.json, "Write the results as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "vkfuse-bench: %s. Try 'vkfuse-bench --suite parallel --help'.\n", error.what());
    return 2;
  }
  const Result<int> status = run_job(arguments);
  if (status.ok()) return *status;
  std::fprintf(stderr, "vkfuse-bench: %s\n", status.error().text().c_str());
  std::fflush(nullptr);
  std::_Exit(2);  // a rank that has lost another one has nothing that it may wait for
}

}  // namespace

int main(int argc, char** argv) {
  return command_main("vkfuse-bench", [&] { return run_command(argc, argv); });
}

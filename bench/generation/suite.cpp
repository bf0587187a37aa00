#include "generation/suite.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "generation/model_run.hpp"
#include "os/system.hpp"
#include "report.hpp"

namespace vkfuse::bench {

namespace {

/// Fewer tokens at a time are no prompt, and their caches no test of attention.
constexpr std::int64_t kLeastChunk = 16;

struct Arguments {
  std::vector<std::string> models, weights = {"f16", "int4"};
  std::vector<std::int64_t> prompts;
  std::int64_t tokens = 0, layers = 0, shrink = 0;  ///< 0: what suits the device
  std::int64_t chunk = 512, sequences = 1;
  std::string device, json;
  bool kernels = false;
};

/// Bytes a second of a copy, read and written.
Result<double> copy_rate(const Device& device, bool is_small) {
  const std::int64_t count = std::int64_t{1} << (is_small ? 22 : 26);
  VKF_TRY(program, compile(device, {Tensor::apply("copy", {Tensor::input("x", DType::f32, {count})})}));
  VKF_TRY(from, device.allocate(static_cast<std::uint64_t>(4 * count)));
  VKF_TRY(to, device.allocate(static_cast<std::uint64_t>(4 * count)));
  VKF_TRY(times, program.profile({.inputs = {{"x", from}}, .outputs = {{"y", to}}}));
  return 8e6 * static_cast<double>(count) / times.at(0).microseconds;
}

/// Weights that a step reads whole, of experts those that are chosen, and so many positions of the caches.
double bytes_of_a_token(const Job& job, double positions) {
  const auto chosen = static_cast<double>(job.step.sequences * job.model.chosen);
  double read = static_cast<double>(job.cache_bytes) * positions / static_cast<double>(job.step.capacity);
  for (const auto& [name, input] : model_step(job.model, job.weights, job.step).inputs) {
    const bool of_experts = job.model.experts > 0 && input.shape.size() == 3;
    const double part = of_experts ? std::min(1.0, chosen / static_cast<double>(job.model.experts)) : 1;
    if (input.read_whole) read += part * static_cast<double>(bytes_of(input));
  }
  return read;
}

std::string bytes_text(std::uint64_t bytes) {
  const auto all = static_cast<double>(bytes);
  return all < 1e9 ? fmt::format("{:.1f} MB", all * 1e-6) : fmt::format("{:.1f} GB", all * 1e-9);
}

/// The least of three, or of more that fill half a second: clocks rise with load.
template <typename Measure>
Result<double> least_of(Measure measure) {
  double least = HUGE_VAL, spent = 0;
  for (int i = 0; i < 3 || spent < 0.5; ++i) {
    VKF_TRY(seconds, measure());
    least = std::min(least, seconds);
    spent += seconds;
  }
  return least;
}

/// The dimensions that widths follow from, divided.
LanguageModel shrunk(LanguageModel model, std::int64_t by) {
  const auto divide = [by](std::int64_t& size, std::int64_t least) { size = std::max(least, size / by / 2 * 2); };
  for (std::int64_t* size : {&model.width, &model.inner, &model.vocabulary}) divide(*size, 32);
  const std::int64_t group = model.heads / model.key_heads;
  model.key_heads = std::max<std::int64_t>(1, model.key_heads / by);
  model.heads = group * model.key_heads;
  if (model.experts > 0) model.experts = std::max(2 * model.chosen, model.experts / by);
  return model;
}

class Suite {
 public:
  Suite(const Arguments& arguments, Device device) : arguments_(arguments), device_(std::move(device)) {}

  Result<int> run();

 private:
  Result<Job> job_of(const std::string& model, const std::string& weights) const;
  Result<void> measure(const std::string& model, const std::string& weights);
  Result<void> measure_prompt(ModelRun& model, const Job& job, std::int64_t prompt);
  Result<void> fit_layers(Job& job) const;
  Result<int> kernels_a_layer(const Job& job) const;
  Result<double> difference_of_few_layers(const Job& job, bool spoil) const;
  Result<void> print_kernels(ModelRun& model, std::int64_t start) const;

  Arguments arguments_;
  Device device_;
  /// A model whose check is made wrong: shows that the check is alive.
  std::string spoil_ = os::variable("VKFUSE_BENCH_SPOIL").value_or("");
  double copied_ = 0;
  nlohmann::json report_, of_model_;
  int wrong_ = 0;
};

Result<int> Suite::run() {
  const DeviceDescription device = device_.description();
  const bool is_small = device.type == "cpu";
  const auto suiting = [&](std::int64_t& value, std::int64_t small, std::int64_t large) {
    if (value == 0) value = is_small ? small : large;
  };
  suiting(arguments_.tokens, 16, 128);
  suiting(arguments_.shrink, 16, 1);
  if (is_small) suiting(arguments_.layers, 2, 0);
  if (arguments_.prompts.empty())
    arguments_.prompts = is_small ? std::vector<std::int64_t>{64} : std::vector<std::int64_t>{512, 2048};
  if (arguments_.models.empty()) {
    for (const LanguageModel& one : language_models()) arguments_.models.emplace_back(one.name);
  }
  VKF_TRY(copied, copy_rate(device_, is_small));
  copied_ = copied;
  report_["environment"] = {{"device", device.name}, {"driver", device.driver}, {"copy_gb_per_s", copied_ * 1e-9}};
  fmt::print("{}\n{}: copy {:.0f} GB/s\n", device.name, device.driver, copied_ * 1e-9);
  for (const std::string& model : arguments_.models) {
    for (const std::string& weights : arguments_.weights) VKF_CHECK_OK(measure(model, weights));
  }
  if (!arguments_.json.empty()) VKF_CHECK_OK(write_file(arguments_.json, report_.dump(1) + "\n"));
  return wrong_ == 0 ? 0 : 1;
}

Result<Job> Suite::job_of(const std::string& model, const std::string& weights) const {
  const auto found = std::ranges::find(language_models(), model, &LanguageModel::name);
  const auto* const format = std::ranges::find(kWeightFormats, weights);
  Job job{shrunk(*found, arguments_.shrink), static_cast<WeightFormat>(format - std::begin(kWeightFormats)), {}};
  const std::int64_t longest = *std::ranges::max_element(arguments_.prompts);
  job.step.sequences = arguments_.sequences;
  job.step.capacity = (longest + arguments_.tokens + 255) / 256 * 256;
  job.chunk = arguments_.chunk;
  for (const std::int64_t prompt : arguments_.prompts) job.chunk = std::gcd(job.chunk, prompt);
  if (job.chunk < kLeastChunk) {
    return invalid("Prompts and '--chunk' have {} tokens as their largest common divisor; chunks have {} or more.",
                   job.chunk, kLeastChunk);
  }
  VKF_CHECK_OK(fit_layers(job));
  return job;
}

/// Fewer layers where the device's memory does not hold all of them and none are asked for.
Result<void> Suite::fit_layers(Job& job) const {
  const auto bytes_of_layers = [&](std::int64_t layers) {
    job.model.layers = layers;
    job.weight_bytes = job.cache_bytes = 0;
    for (const auto& [name, input] : model_step(job.model, job.weights, job.step).inputs)
      (input.filling == Filling::cache ? job.cache_bytes : job.weight_bytes) += bytes_of(input);
    return job.weight_bytes + job.cache_bytes;
  };
  const std::int64_t all = job.model.layers, asked = arguments_.layers;
  const std::uint64_t none = bytes_of_layers(0), one = bytes_of_layers(1) - none;
  const auto room = static_cast<std::uint64_t>(0.9 * static_cast<double>(device_.description().memory_bytes));
  const std::int64_t fit = room < none ? 0 : static_cast<std::int64_t>((room - none) / one);
  if (fit < std::max<std::int64_t>(asked, 1)) {
    return make_error(ErrorCode::out_of_memory,
                      "{} layers of {} with weights of {} take {} bytes, and {} of the device's memory may be "
                      "used: {} layers fit.",
                      std::max<std::int64_t>(asked, 1), job.model.name,
                      kWeightFormats[static_cast<std::size_t>(job.weights)],
                      none + one * static_cast<std::uint64_t>(std::max<std::int64_t>(asked, 1)), room, fit);
  }
  bytes_of_layers(asked > 0 ? asked : std::min(all, fit));
  return {};
}

Result<int> Suite::kernels_a_layer(const Job& job) const {
  VKF_TRY(two, compile_step(device_, job, 1, 2));
  VKF_TRY(three, compile_step(device_, job, 1, 3));
  return three.kernel_count() - two.kernel_count();
}

/// Of two layers: over many, roundings choose other experts, and little is left in common.
Result<double> Suite::difference_of_few_layers(const Job& job, bool spoil) const {
  Job few = job;
  few.model.layers = std::min<std::int64_t>(job.model.layers, 2);
  VKF_TRY(model, ModelRun::create(device_, few));
  return model.difference(std::min<std::int64_t>(job.chunk, 32), spoil);
}

Result<void> Suite::measure(const std::string& name, const std::string& weights) {
  VKF_TRY(job, job_of(name, weights));
  VKF_TRY(difference, difference_of_few_layers(job, name == spoil_));
  VKF_TRY(a_layer, kernels_a_layer(job));
  VKF_TRY(model, ModelRun::create(device_, job));
  const bool is_wrong = !(difference < 0.02);
  wrong_ += is_wrong ? 1 : 0;
  fmt::print("{}, {}: {} layers of {} kernels, {} a token\n", name, weights, job.model.layers, a_layer,
             model.kernels());
  fmt::print("  {} of weights, {} of caches\n", bytes_text(job.weight_bytes), bytes_text(job.cache_bytes));
  if (is_wrong) fmt::print("WRONG: steps and prompts differ by {:.3g}\n", difference);
  of_model_ = {{"model", name},
               {"weights", weights},
               {"layers", job.model.layers},
               {"shrink", arguments_.shrink},
               {"sequences", job.step.sequences},
               {"chunk", job.chunk},
               {"kernels", model.kernels()},
               {"kernels_a_layer", a_layer},
               {"weight_bytes", job.weight_bytes},
               {"cache_bytes", job.cache_bytes},
               {"difference", difference},
               {"right", !is_wrong}};
  fmt::print("{:>8} {:>14} {:>12} {:>12} {:>10} {:>12}\n", "prompt", "its tokens/s", "ms a token", "tokens/s",
             "of bytes", "ms, ahead");
  for (const std::int64_t prompt : arguments_.prompts) VKF_CHECK_OK(measure_prompt(model, job, prompt));
  return {};
}

Result<void> Suite::measure_prompt(ModelRun& model, const Job& job, std::int64_t prompt) {
  VKF_TRY(reading, least_of([&] { return model.read_prompt(prompt); }));
  VKF_TRY(each, least_of([&] { return model.generate(prompt, arguments_.tokens, false); }));
  VKF_TRY(ahead, least_of([&] { return model.generate(prompt, arguments_.tokens, true); }));
  const auto tokens = static_cast<double>(arguments_.tokens), sequences = static_cast<double>(job.step.sequences);
  const double read = bytes_of_a_token(job, static_cast<double>(prompt) + tokens / 2);
  const double of_bytes = read / copied_ / (each / tokens);
  fmt::print("{:>8} {:>14.0f} {:>12.3f} {:>12.1f} {:>9.0f}% {:>12.3f}\n", prompt,
             sequences * static_cast<double>(prompt) / reading, 1e3 * each / tokens, sequences * tokens / each,
             100 * of_bytes, 1e3 * ahead / tokens);
  std::fflush(stdout);
  nlohmann::json row = of_model_;
  row.update({{"prompt", prompt},
              {"tokens", arguments_.tokens},
              {"prompt_s", reading},
              {"token_ms", 1e3 * each / tokens},
              {"token_ahead_ms", 1e3 * ahead / tokens},
              {"bytes_a_token", read},
              {"of_bytes", of_bytes}});
  report_["models"].push_back(std::move(row));
  return arguments_.kernels ? print_kernels(model, prompt) : Result<void>();
}

Result<void> Suite::print_kernels(ModelRun& model, std::int64_t start) const {
  VKF_TRY(times, model.profile(start));
  for (const KernelTime& one : times) fmt::print("  {:<66} {:>9.1f}\n", one.kernel, one.microseconds);
  return {};
}

Result<int> run_suite_of(const Arguments& arguments) {
  DeviceOptions options;
  options.name = arguments.device;
  VKF_TRY(device, Device::open(options));
  return Suite(arguments, device).run();
}

void add_options(CLI::App& app, Arguments& arguments) {
  std::vector<std::string> models;
  for (const LanguageModel& one : language_models()) models.emplace_back(one.name);
  const auto list = [&](const char* name, auto& values, const char* text) {
    return app.add_option(name, values, text)->delimiter(',');
  };
  list("--model", arguments.models, "Which models, all without it")->check(CLI::IsMember(models));
  list("--weights", arguments.weights, "How matrices are stored; f16 and int4 without it")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kWeightFormats), std::end(kWeightFormats))));
  list("--prompt", arguments.prompts, "Tokens that are there: 512 and 2048; 64 on a CPU")
      ->check(CLI::Range(1, 1 << 20));
  const auto count = [&](const char* name, std::int64_t& value, const char* text) {
    app.add_option(name, value, text)->check(CLI::Range(1, 1 << 20));
  };
  count("--tokens", arguments.tokens, "Tokens that are generated after a prompt: 128; 16 on a CPU");
  count("--layers", arguments.layers, "Layers; without it all that fit; 2 on a CPU");
  count("--shrink", arguments.shrink, "Divides widths, heads and words: 1; 16 on a CPU");
  count("--chunk", arguments.chunk, "The most tokens of a prompt that are read at once; they divide all prompts");
  count("--sequences", arguments.sequences, "Sequences side by side");
  app.add_option("-d,--device", arguments.device, "An index, a UUID or a part of the name");
  app.add_option("--json", arguments.json, "Write the results as JSON");
  app.add_flag("--kernels", arguments.kernels, "Print the device times of the kernels of a token");
}

}  // namespace

int run_generation_command(int argc, const char* const* argv) {
  CLI::App app{"vkfuse-bench --suite generation: prompts and tokens of language models of random weights"};
  app.name("vkfuse-bench --suite generation");
  Arguments arguments;
  add_options(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "vkfuse-bench: %s. Try 'vkfuse-bench --suite generation --help'.\n", error.what());
    return 2;
  }
  const Result<int> status = run_suite_of(arguments);
  if (status.ok()) return *status;
  std::fprintf(stderr, "vkfuse-bench: %s\n", status.error().text().c_str());
  return 2;
}

}  // namespace vkfuse::bench

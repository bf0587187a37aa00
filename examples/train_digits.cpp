// Trains a small convolutional network on 8 x 8 digits: forward pass, gradients, clipping and AdamW are one program,
// compiled once. Parameters and the optimiser's states stay on the device, and each step updates them in place: their
// buffers are donated, and what a step returns is what the next one takes.
//
//     python3 examples/write_digits.py digits.txt      (of scikit-learn)
//     build/release/train_digits digits.txt
//
// It fails where fewer than 97 of 100 digits that it has not seen are recognised.
#include <vkfuse/vkfuse.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace vkfuse;

constexpr std::int64_t kBatch = 64, kTest = 297, kSteps = 160;
constexpr double kWanted = 0.97;

struct Digits {
  std::vector<float> pixels;  // 64 each, of 0 to 1
  std::vector<std::int32_t> labels;
};

/// All digits of a file, in an order that is the same everywhere.
std::vector<Digits> read(const char* path) {
  std::vector<Digits> all;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream numbers(line);
    Digits one;
    one.labels.resize(1);
    numbers >> one.labels[0];
    for (float pixel = 0; numbers >> pixel;) one.pixels.push_back(pixel / 16);
    if (one.pixels.size() == 64) all.push_back(std::move(one));
  }
  std::mt19937 random(1);
  for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random() % i]);
  return all;
}

Digits joined(const std::vector<Digits>& digits, const std::vector<std::size_t>& chosen) {
  Digits made;
  for (const std::size_t i : chosen) {
    made.pixels.insert(made.pixels.end(), digits[i].pixels.begin(), digits[i].pixels.end());
    made.labels.push_back(digits[i].labels[0]);
  }
  return made;
}

/// A named parameter, and the width of what its first values are drawn from.
struct Parameter {
  const char* name;
  Shape shape;
  double width;
};

const std::vector<Parameter>& parameters() {
  static const std::vector<Parameter> all = {{"conv1", {16, 1, 3, 3}, std::sqrt(2.0 / 9)},
                                             {"bias1", {16, 1, 1}, 0},
                                             {"conv2", {32, 16, 3, 3}, std::sqrt(2.0 / 144)},
                                             {"bias2", {32, 1, 1}, 0},
                                             {"scale", {512}, -1},  // of ones
                                             {"shift", {512}, 0},
                                             {"out", {512, 10}, std::sqrt(1.0 / 512)},
                                             {"bias3", {10}, 0}};
  return all;
}

/// Logits [batch, 10] of images [batch, 64].
Tensor network(const std::vector<Tensor>& p, const Tensor& images) {
  const Dim batch = images.shape()[0];
  const ConvOptions same{.low = {1, 1}, .high = {1, 1}};
  const Tensor x = images.reshape({batch, 1, 8, 8});
  const Tensor h1 = relu(conv(x, p[0], same) + p[1]);
  const Tensor h2 = max_pool(relu(conv(h1, p[2], same) + p[3]), {.sizes = {2, 2}, .strides = {2, 2}});
  const Tensor rows = layer_norm(h2.reshape({batch, 512}), -1, {.scale = p[4], .bias = p[5]});
  return linear(rows, p[6], p[7]);
}

/// One step of training: the loss, then each parameter and its two states under the names of the inputs that they
/// replace.
Result<Executable> compile_step(const Device& device) {
  const Tensor images = Tensor::input("images", DType::f32, {kBatch, 64});
  const Tensor labels = Tensor::input("labels", DType::i32, {kBatch});
  const Tensor rate = Tensor::input("rate", DType::f32, {}), step = Tensor::input("step", DType::f32, {});
  std::vector<Tensor> values, outputs;
  CompileOptions options;
  options.name = "train_digits";
  for (const Parameter& one : parameters()) values.push_back(Tensor::input(one.name, DType::f32, one.shape));
  const Tensor loss = cross_entropy(network(values, images), labels).mean();
  const std::vector<Tensor> wrt = values;
  const ClippedGradients clipped = clip_by_global_norm(gradients(std::vector{loss}, wrt), 1);
  outputs.push_back(loss);
  options.output_names.emplace_back("loss");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string name = parameters()[i].name;
    const std::vector<Tensor> states = {Tensor::input(name + ".mean", DType::f32, parameters()[i].shape),
                                        Tensor::input(name + ".square", DType::f32, parameters()[i].shape)};
    const Updated updated = adamw(values[i], clipped.gradients[i], states, {rate, step}, {.weight_decay = 0.05});
    outputs.insert(outputs.end(), {updated.parameter, updated.states[0], updated.states[1]});
    for (const char* suffix : {"", ".mean", ".square"}) options.output_names.push_back(name + suffix + "'");
  }
  return compile(device, outputs, options);
}

Result<Executable> compile_guess(const Device& device) {
  const Tensor images = Tensor::input("images", DType::f32, {kTest, 64});
  std::vector<Tensor> values;
  for (const Parameter& one : parameters()) values.push_back(Tensor::input(one.name, DType::f32, one.shape));
  return compile(device, {network(values, images).argmax(-1)});
}

template <typename T>
Result<Buffer> upload(const Device& device, const std::vector<T>& elements) {
  auto buffer = device.allocate(elements.size() * sizeof(T));
  if (!buffer) return buffer;
  const auto written = buffer->write(std::as_bytes(std::span(elements)));
  return written ? buffer : Result<Buffer>(Error(written.error()));
}

using Buffers = std::map<std::string, Buffer, std::less<>>;

/// Parameters as they begin, and states of zeros.
Result<Buffers> first_values(const Device& device) {
  std::mt19937 random(2);
  Buffers all;
  for (const Parameter& one : parameters()) {
    std::size_t count = 1;
    for (const Dim& dim : one.shape) count *= static_cast<std::size_t>(dim.size());
    std::vector<float> drawn(count);
    for (float& element : drawn) {
      double sum = -6;  // of twelve uniform numbers: nearly normal, and the same with every standard library
      for (int i = 0; i < 12; ++i) sum += static_cast<double>(random()) / 4294967296.0;
      element = static_cast<float>(one.width < 0 ? 1 : sum * one.width);
    }
    for (const char* suffix : {"", ".mean", ".square"}) {
      auto buffer = upload(device, *suffix == '\0' ? drawn : std::vector<float>(count));
      if (!buffer) return std::move(buffer).error();
      all.emplace(one.name + std::string(suffix), *buffer);
    }
  }
  return all;
}

constexpr std::int64_t kRise = 20;

/// Rises, then falls by half a cosine.
float rate_at(std::int64_t step) {
  if (step < kRise) return 0.004F * static_cast<float>(step + 1) / kRise;
  const double part = static_cast<double>(step - kRise) / (kSteps - kRise);
  return static_cast<float>(0.002 * (1 + std::cos(3.14159265358979 * part)));
}

/// Trains, and returns the parameters and states.
Result<Buffers> train(const Device& device, const std::vector<Digits>& digits) {
  auto program = compile_step(device);
  if (!program) return std::move(program).error();
  std::printf("one step: %d kernels\n", program->kernel_count());
  auto values = first_values(device);
  if (!values) return values;
  std::mt19937 random(3);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    std::vector<std::size_t> chosen(kBatch);
    for (std::size_t& one : chosen) one = kTest + random() % (digits.size() - kTest);
    const Digits batch = joined(digits, chosen);
    Bindings bindings;
    bindings.inputs = *values;
    for (const auto& [name, buffer] : *values) bindings.donated.insert(name);
    const std::pair<const char*, Result<Buffer>> given[] = {
        {"images", upload(device, batch.pixels)},
        {"labels", upload(device, batch.labels)},
        {"rate", upload(device, std::vector<float>{rate_at(step)})},
        {"step", upload(device, std::vector<float>{static_cast<float>(step + 1)})}};
    for (const auto& [name, buffer] : given) {
      if (!buffer) return Error(buffer.error());
      bindings.inputs.emplace(name, *buffer);
    }
    auto submission = program->submit(bindings);
    if (!submission) return std::move(submission).error();
    for (auto& [name, buffer] : *values) buffer = submission->outputs().at(name + "'");
    if (step % 40 != 39) continue;
    float loss = 0;
    if (auto waited = submission->wait(); !waited) return Error(waited.error());
    const Buffer& result = submission->outputs().at("loss");
    if (auto done = result.read(std::as_writable_bytes(std::span(&loss, 1))); !done) return Error(done.error());
    std::printf("step %4d: loss %.4f\n", static_cast<int>(step + 1), static_cast<double>(loss));
  }
  return values;
}

/// The part of the digits that were not trained on that is recognised.
Result<double> accuracy(const Device& device, const std::vector<Digits>& digits, const Buffers& values) {
  auto program = compile_guess(device);
  if (!program) return std::move(program).error();
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < kTest; ++i) chosen.push_back(i);
  const Digits test = joined(digits, chosen);
  auto images = upload(device, test.pixels);
  auto result = device.allocate(kTest * sizeof(std::int32_t));
  if (!images) return std::move(images).error();
  if (!result) return std::move(result).error();
  Bindings bindings{.inputs = {{"images", *images}}, .outputs = {{"y", *result}}};
  for (const Parameter& one : parameters()) bindings.inputs.emplace(one.name, values.at(one.name));
  auto submission = program->submit(bindings);
  if (!submission) return std::move(submission).error();
  if (auto waited = submission->wait(); !waited) return Error(waited.error());
  std::vector<std::int32_t> guessed(kTest);
  if (auto done = result->read(std::as_writable_bytes(std::span(guessed))); !done) return Error(done.error());
  int right = 0;
  for (std::size_t i = 0; i < guessed.size(); ++i) right += guessed[i] == test.labels[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(kTest);
}

Result<double> run(const char* path) {
  const std::vector<Digits> digits = read(path);
  if (digits.size() < 1000)
    return Error{ErrorCode::not_found, std::string("'") + path + "' has no digits; write_digits.py writes them.", {}};
  auto device = Device::open();
  if (!device) return std::move(device).error();
  std::printf("device: %s\n", device->description().name.c_str());
  auto values = train(*device, digits);
  return values ? accuracy(*device, digits, *values) : Result<double>(std::move(values).error());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: train_digits FILE\n");
    return 2;
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto part = run(argv[1]);
  if (!part) {
    std::fprintf(stderr, "%s\n", part.error().text().c_str());
    return 2;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%.1f %% of %d digits that it has not seen, %.1f s\n", *part * 100, static_cast<int>(kTest),
              seconds.count());
  return *part >= kWanted ? 0 : 1;
}

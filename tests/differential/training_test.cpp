// Whole steps of training on the device: against the reference, in place, and again with the same bits.
#include <gtest/gtest.h>

#include <cmath>

#include "api/tensor_node.hpp"
#include "support/compare.hpp"
#include "support/gradient_cases.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/optimizers.hpp"

namespace vkfuse::test {
namespace {

constexpr std::int64_t kSamples = 24, kIn = 20, kHidden = 32, kClasses = 7;

struct Named {
  std::string name;
  Shape shape;
};
const std::vector<Named>& weights() {
  static const std::vector<Named> all = {
      {"w1", {kIn, kHidden}}, {"b1", {kHidden}}, {"w2", {kHidden, kClasses}}, {"b2", {kClasses}}};
  return all;
}

enum class Kind { sgd, adamw, lion };

/// Parameters f32, the network in `compute`: a step, whose outputs are the loss and what replaces each input.
struct Step {
  std::vector<Tensor> outputs;
  std::vector<std::string> names;

  Step(Kind kind, DType compute) {
    const Tensor x = Tensor::input("x", DType::f32, {kSamples, kIn});
    const Tensor labels = Tensor::iota(DType::i32, {kSamples}, 0) / Tensor::scalar_int(DType::i32, 4);
    const Tensor rate = Tensor::input("rate", DType::f32, {}), count = Tensor::input("count", DType::f32, {});
    std::vector<Tensor> p, narrow;
    for (const Named& one : weights()) p.push_back(Tensor::input(one.name, DType::f32, one.shape));
    for (const Tensor& one : p) narrow.push_back(one.cast(compute));
    const Tensor h = silu(linear(x.cast(compute), narrow[0], narrow[1]));
    const Tensor logits = linear(rms_norm(h), narrow[2], narrow[3]).cast(DType::f32);
    const Tensor loss = cross_entropy(logits, labels).mean();
    const ClippedGradients clipped = clip_by_global_norm(gradients(std::vector{loss}, p), 0.5);
    add("loss", loss);
    for (std::size_t i = 0; i < p.size(); ++i) {
      const auto state = [&](const char* suffix) {
        return Tensor::input(weights()[i].name + suffix, DType::f32, weights()[i].shape);
      };
      const Tensor& g = clipped.gradients[i];
      const Updated made = kind == Kind::sgd    ? sgd(p[i], g, {state(".1")}, rate, {.momentum = 0.9})
                           : kind == Kind::lion ? lion(p[i], g, {state(".1")}, rate, {.weight_decay = 0.1})
                                                : adamw(p[i], g, {state(".1"), state(".2")}, {rate, count});
      add(weights()[i].name + "'", made.parameter);
      for (std::size_t k = 0; k < made.states.size(); ++k)
        add(weights()[i].name + "." + std::to_string(k + 1) + "'", made.states[k]);
    }
  }

 private:
  void add(std::string name, const Tensor& value) {
    outputs.push_back(value);
    names.push_back(std::move(name));
  }
};

/// Elements of an input.
std::vector<float> drawn(const std::string& name, std::size_t count) {
  Random random(seed_of(11, name));
  std::vector<float> all(count);
  const bool is_state = name.find('.') != std::string::npos;
  for (float& one : all)
    one = name == "rate"    ? 0.01F
          : name == "count" ? 3.0F
                            : static_cast<float>(random.between(is_state ? 0.01 : -0.4, 0.4));
  return all;
}

class TrainingSteps : public testing::TestWithParam<Kind> {};

TEST_P(TrainingSteps, AreThoseOfTheReference) {
  const Step step(GetParam(), DType::f32);
  const ir::Graph graph = must(api::to_graph(step.outputs, step.names, "step"));
  Data data;
  for (const ir::NodeId id : graph.inputs()) {
    const std::string& name = std::get<ir::InputPayload>(graph.node(id).payload).name;
    const auto count = static_cast<std::size_t>(must(element_count(must(resolve(graph.node(id).type.shape, {})))));
    const std::vector<float> elements = drawn(name, count);
    const auto bytes = std::as_bytes(std::span(elements));
    data.inputs[name].assign(bytes.begin(), bytes.end());
  }
  compare_with_reference(compile_graph(graph, Build{}), graph, data, "a step");
}

INSTANTIATE_TEST_SUITE_P(All, TrainingSteps, testing::Values(Kind::sgd, Kind::adamw, Kind::lion));

using Buffers = std::map<std::string, Buffer, std::less<>>;

Buffer uploaded(const std::vector<float>& elements) {
  Buffer buffer = must(device().allocate(elements.size() * sizeof(float)));
  must(buffer.write(std::as_bytes(std::span(elements))));
  return buffer;
}

enum class Memory { own, donated };

/// The bytes of parameters and states, by name.
using Checkpoint = std::map<std::string, std::vector<std::byte>>;

/// The checkpoint after some steps: in buffers of their own, or in those that the inputs give away. It begins with one,
/// or with the same numbers as ever where that is empty.
Checkpoint trained(const Executable& program, int steps, Memory memory, const Checkpoint& from = {}) {
  Buffers values, fixed;
  Checkpoint all;
  for (const Port& port : program.inputs()) {
    std::size_t count = 1;
    for (const Dim& dim : port.shape) count *= static_cast<std::size_t>(dim.size());
    const bool is_fixed = port.name == "x" || port.name == "rate" || port.name == "count";
    (is_fixed ? fixed : values).emplace(port.name, uploaded(drawn(port.name, count)));
    if (is_fixed) continue;
    all[port.name].resize(count * sizeof(float));
    if (!from.empty()) must(values.at(port.name).write(from.at(port.name)));
  }
  for (int i = 0; i < steps; ++i) {
    Bindings bindings{.inputs = values};
    bindings.inputs.insert(fixed.begin(), fixed.end());
    for (const auto& [name, buffer] : values) {
      if (memory == Memory::donated) bindings.donated.insert(name);
      if (memory == Memory::own) bindings.outputs.emplace(name + "'", must(device().allocate(buffer.size())));
    }
    if (memory == Memory::own) bindings.outputs.emplace("loss", must(device().allocate(4)));
    const Submission submission = must(program.submit(bindings));
    must(submission.wait());
    for (auto& [name, buffer] : values) buffer = submission.outputs().at(name + "'");
  }
  // A result may lie in a larger buffer that was given away.
  for (const auto& [name, buffer] : values) must(buffer.read(all[name]));
  return all;
}

TEST(Training, StepsGiveTheSameBitsTwiceAndInDonatedBuffers) {
  const Step step(Kind::adamw, DType::f32);
  CompileOptions options;
  options.output_names = step.names;
  const Executable program = must(compile(device(), step.outputs, options));
  const auto once = trained(program, 6, Memory::own);
  EXPECT_EQ(once, trained(program, 6, Memory::own));
  EXPECT_EQ(once, trained(program, 6, Memory::donated));
  EXPECT_NE(once, trained(program, 5, Memory::own));
}

TEST(Training, StoppedAndResumedGivesTheSameBits) {
  const Step step(Kind::adamw, DType::f32);
  CompileOptions options;
  options.output_names = step.names;
  const auto compiled = [&] { return must(compile(device(), step.outputs, options)); };
  for (const Memory memory : {Memory::own, Memory::donated}) {
    const Checkpoint half = trained(compiled(), 3, memory);
    EXPECT_EQ(trained(compiled(), 3, memory, half), trained(compiled(), 6, memory));
    EXPECT_NE(half, trained(compiled(), 6, memory));
  }
}

/// The network in 16 bits, with parameters and states in f32: the step is that of f32 but for the rounding.
TEST(Training, StepsOf16BitsAreThoseOfF32NearlyWithMastersInF32) {
  CompileOptions options;
  std::map<DType, std::map<std::string, std::vector<std::byte>>> after;
  for (const DType compute : {DType::f32, DType::f16, DType::bf16}) {
    const Step step(Kind::sgd, compute);
    options.output_names = step.names;
    after[compute] = trained(must(compile(device(), step.outputs, options)), 4, Memory::donated);
  }
  for (const DType compute : {DType::f16, DType::bf16}) {
    double difference = 0, moved = 0;
    for (const Named& one : weights()) {
      const auto& wide = after[DType::f32].at(one.name);
      const auto& narrow = after[compute].at(one.name);
      const std::vector<float> before = drawn(one.name, wide.size() / 4);
      for (std::size_t i = 0; i < before.size(); ++i) {
        const double full = ir::decode(DType::f32, wide.data() + 4 * i);
        difference += std::pow(ir::decode(DType::f32, narrow.data() + 4 * i) - full, 2);
        moved += std::pow(full - static_cast<double>(before[i]), 2);
      }
    }
    EXPECT_GT(difference, 0) << name_of(compute);
    EXPECT_LT(std::sqrt(difference), 0.02 * std::sqrt(moved)) << name_of(compute);
  }
}

}  // namespace
}  // namespace vkfuse::test

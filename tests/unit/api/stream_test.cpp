// Lazy evaluation: what is recorded call by call, compiled once, and what handles cost.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "api/states.hpp"
#include "support/device.hpp"
#include "support/slowness.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

std::vector<float> ramp(std::size_t count, float first = 0) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = first + 0.25F * static_cast<float>(i);
  return all;
}

Tensor leaf(const Stream& stream, std::vector<std::int64_t> sizes, float first = 0) {
  std::size_t count = 1;
  for (const std::int64_t size : sizes) count *= static_cast<std::size_t>(size);
  return must(stream.tensor(DType::f32, std::move(sizes), ramp(count, first)));
}

std::vector<float> read(const Stream& stream, const Tensor& tensor) {
  const HostTensor host = must(stream.read(tensor));
  const auto span = host.as<float>();
  return {span.begin(), span.end()};
}

TEST(Stream, ComputesWhatIsReadAndForgetsHowItCameAbout) {
  const Stream stream(device());
  const Tensor x = leaf(stream, {3, 4});
  Tensor y = relu(x - 1.0) + x.sum({1}, true);
  EXPECT_EQ(stream.report().evaluations, 0U) << "recording computes nothing";
  EXPECT_EQ(stream.report().recorded, 5U) << "sub, relu, sum, add, and the reshape of the sum";
  const HostTensor got = must(stream.read(y));
  EXPECT_EQ(got.sizes, (std::vector<std::int64_t>{3, 4}));
  const std::vector<float> want_x = ramp(12);
  for (int row = 0; row < 3; ++row) {
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += want_x[static_cast<std::size_t>(4 * row + i)];
    for (int i = 0; i < 4; ++i) {
      const auto at = static_cast<std::size_t>(4 * row + i);
      EXPECT_FLOAT_EQ(got.as<float>()[at], std::max(want_x[at] - 1, 0.0F) + sum);
    }
  }
  EXPECT_EQ(stream.report().evaluations, 1U);
  EXPECT_EQ(stream.report().recorded, 0U);
  EXPECT_TRUE(y.node() != nullptr && y.valid());
  read(stream, y);
  EXPECT_EQ(stream.report().evaluations, 1U) << "a value is not computed again";
  // And it is a leaf now.
  y = y * 2.0;
  const std::vector<float> twice = read(stream, y);
  EXPECT_FLOAT_EQ(twice[11], 2 * got.as<float>()[11]);
  EXPECT_NE(must(stream.dump({y + y})).find("input \"x0\""), std::string::npos);
}

/// A block whose leaves are met in the order x0, x1, x2, from whatever makes its inputs.
std::vector<Tensor> block(const Tensor& x0, const Tensor& x1, const Tensor& x2) {
  const Tensor h = matmul(rms_normalize(x0, {1}, 1e-5), x1) + x2;
  return {silu(h) * h + x0, softmax(h.permute({1, 0}))};
}

TEST(Stream, ARecordedPlanIsThatOfTheSameGraphBuiltAhead) {
  const Stream stream(device());
  const std::vector<Tensor> recorded = block(leaf(stream, {16, 32}), leaf(stream, {32, 32}, -3), leaf(stream, {32}));
  const std::vector<Tensor> ahead =
      block(Tensor::input("x0", DType::f32, {16, 32}), Tensor::input("x1", DType::f32, {32, 32}),
            Tensor::input("x2", DType::f32, {32}));
  const Executable built = must(compile(device(), ahead));
  const Executable dumped = must(compile_text(device(), must(stream.dump(recorded))));
  for (const Stage stage : {Stage::graph, Stage::plan, Stage::json, Stage::glsl})
    EXPECT_EQ(must(built.explain(stage)), must(dumped.explain(stage)));
  // Is it also what eval() compiles? By its kernels, bytes and results.
  must(stream.eval(recorded));
  EXPECT_EQ(stream.report().kernels, built.kernel_count());
  const auto x = ramp(16 * 32), w = ramp(32 * 32, -3), b = ramp(32);
  const Outputs want = must(built.run({{"x0", HostView(x)}, {"x1", HostView(w)}, {"x2", HostView(b)}}));
  EXPECT_EQ(must(stream.read(recorded[0])).bytes, want.at("y").bytes);
  EXPECT_EQ(must(stream.read(recorded[1])).bytes, want.at("y1").bytes);
}

/// What an evaluation costs where intermediate handles are dropped, and where they are held.
StreamReport report_of(bool hold, std::vector<float>& result, std::string* explanation = nullptr) {
  const Stream stream(device());
  const Tensor x = leaf(stream, {64, 64});
  std::vector<Tensor> handles;
  Tensor y = x * 0.001;
  for (int i = 0; i < 6; ++i) {
    y = i % 2 == 0 ? exp(y * 0.125) : y - y.mean({1}, true);
    if (hold) handles.push_back(y);
  }
  if (hold) handles.pop_back();  // that one is asked for
  must(stream.eval({y}));
  const StreamReport report = stream.report();
  if (explanation != nullptr) *explanation = stream.explain();
  result = read(stream, y);
  if (hold) {  // asked for after all
    EXPECT_FLOAT_EQ(read(stream, handles[0])[5], std::exp(0.125F * 0.00125F));
  }
  return report;
}

TEST(Stream, AHeldHandleThatIsNotAskedForCostsNothing) {
  std::vector<float> a, b;
  std::string explanation;
  const StreamReport dropped = report_of(false, a);
  const StreamReport held = report_of(true, b, &explanation);
  EXPECT_EQ(a, b);
  EXPECT_EQ(dropped.kernels, held.kernels);
  EXPECT_EQ(dropped.bytes, held.bytes);
  EXPECT_EQ(dropped.held, 0U);
  EXPECT_EQ(held.held, 5U);
  EXPECT_EQ(held.kept, 0U);
  std::size_t lines = 0;
  for (std::size_t at = explanation.find("recomputed if it is read"); at != std::string::npos;
       at = explanation.find("recomputed if it is read", at + 1))
    ++lines;
  EXPECT_EQ(lines, 5U) << explanation;
}

TEST(Stream, ALoopPlansItsFirstPassAlone) {
  const Stream stream(device());
  const Tensor w = leaf(stream, {32, 32}, -100);
  Tensor x = leaf(stream, {8, 32});
  std::vector<float> host = ramp(8 * 32);
  for (int i = 0; i < 20; ++i) {
    x = tanh(matmul(x, w) * 0.01) + 0.5;
    must(stream.eval({x}));
  }
  EXPECT_EQ(stream.report().plans, 1U);
  EXPECT_EQ(stream.report().evaluations, 20U);
  // Other literals, or another order of operands, are other programs.
  must(stream.eval({tanh(matmul(x, w) * 0.02) + 0.5}));
  EXPECT_EQ(stream.report().plans, 2U);
  must(stream.eval({tanh(matmul(w.slice(0, 0, 8), w) * 0.02) + 0.5}));
  EXPECT_EQ(stream.report().plans, 3U);
}

/// One step of a decoder: a row of queries attends to a cache that has grown by a row.
TEST(Stream, ADecodingLoopWithAGrowingCachePlansItsFirstStepsAlone) {
  constexpr int heads = 2, size = 8, steps = 12;
  const Stream stream(device());
  const Tensor w = leaf(stream, {heads * size, heads * size}, -30);
  Tensor x = leaf(stream, {1, heads * size});
  Tensor keys = leaf(stream, {2, heads, size}), values = leaf(stream, {2, heads, size}, 1);
  std::vector<float> host_keys = ramp(2 * heads * size), host_values = ramp(2 * heads * size, 1),
                     host_x = ramp(heads * size);
  const std::vector<float> host_w = ramp(heads * heads * size * size, -30);
  std::uint64_t after_four = 0;
  for (int step = 0; step < steps; ++step) {
    const Tensor q = (matmul(x, w) * 0.01).reshape({1, heads, size});
    keys = must(stream.append(keys, q * 0.5));
    values = must(stream.append(values, q + 1.0));
    ASSERT_EQ(keys.shape()[0].size(), step + 3);
    const Tensor scores = (q.broadcast_to(keys.shape()) * keys).sum({2});  // [keys, heads]
    const Tensor weights = softmax(scores, 0).unsqueeze(2);
    x = (weights * values).sum({0}).reshape({1, heads * size});
    must(stream.eval({x}));
    if (step == 3) after_four = stream.report().plans;
    // The same on the host.
    std::vector<double> row(heads * size, 0), out(heads * size, 0);
    for (std::size_t i = 0; i < row.size(); ++i) {
      for (std::size_t k = 0; k < row.size(); ++k) row[i] += double{host_x[k]} * host_w[k * row.size() + i];
      row[i] *= 0.01;
    }
    for (const double one : row)
      host_keys.push_back(static_cast<float>(0.5 * one)), host_values.push_back(static_cast<float>(one + 1));
    const std::size_t count = host_keys.size() / row.size();
    for (std::size_t head = 0; head < heads; ++head) {
      std::vector<double> score(count, 0);
      double most = -INFINITY, sum = 0;
      for (std::size_t t = 0; t < count; ++t) {
        for (std::size_t i = 0; i < size; ++i)
          score[t] += row[head * size + i] * host_keys[(t * heads + head) * size + i];
        most = std::max(most, score[t]);
      }
      for (double& one : score) sum += one = std::exp(one - most);
      for (std::size_t i = 0; i < size; ++i) {
        for (std::size_t t = 0; t < count; ++t)
          out[head * size + i] += score[t] / sum * host_values[(t * heads + head) * size + i];
      }
    }
    const std::vector<float> got = read(stream, x);
    for (std::size_t i = 0; i < out.size(); ++i)
      ASSERT_NEAR(got[i], out[i], 1e-3 * (1 + std::abs(out[i]))) << "step " << step;
    host_x = got;
  }
  EXPECT_EQ(stream.report().plans, after_four);
  EXPECT_LE(after_four, 6U);
}

TEST(Stream, WhatIsAppendedToTwiceIsCopied) {
  const Stream stream(device());
  const Tensor base = leaf(stream, {2, 3});
  const Tensor first = must(stream.append(base, leaf(stream, {1, 3}, 10)));
  const Tensor second = must(stream.append(base, leaf(stream, {2, 3}, 20)));
  const Tensor third = must(stream.append(first, leaf(stream, {1, 3}, 30)));
  const auto joined = [](std::vector<float> a, const std::vector<float>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  EXPECT_EQ(read(stream, base), ramp(6));
  EXPECT_EQ(read(stream, first), joined(ramp(6), ramp(3, 10)));
  EXPECT_EQ(read(stream, second), joined(ramp(6), ramp(6, 20)));
  EXPECT_EQ(read(stream, third), joined(joined(ramp(6), ramp(3, 10)), ramp(3, 30)));
  EXPECT_EQ(must(stream.read(third)).sizes, (std::vector<std::int64_t>{4, 3}));
}

// A rule that holds a tensor looks like a program that does, and what is held for long is stored.
TEST(Stream, CompositesWithRulesHoldNothingBesideTheirResults) {
  const Stream stream(device());
  const Tensor x = leaf(stream, {1, 2, 8, 4});
  const Tensor sink = leaf(stream, {2});
  AttentionOptions options;
  options.sink = sink;
  const Tensor plain = attention(x, x, x), with_sink = attention(x, x, x, options), weights = softmax(x);
  EXPECT_EQ(stream.report().held, 3U);
  must(stream.eval({plain * 2.0}));
  EXPECT_EQ(stream.report().held, 3U);
  EXPECT_TRUE(with_sink.valid() && weights.valid());
}

TEST(Stream, ALoopThatHoldsAHandleOfEveryStepStaysBounded) {
  const Stream stream(device());
  Tensor x = leaf(stream, {1024});  // 4 KiB a state
  std::vector<Tensor> losses;       // one element each
  std::uint64_t most_held = 0, most_recorded = 0, settled_bytes = 0, plans = 0;
  constexpr int steps = 60;
  for (int i = 0; i < steps; ++i) {
    x = x * 0.5 + 1.0;
    losses.push_back((x * x).sum());
    must(stream.eval({x}));
    most_held = std::max(most_held, stream.report().held);
    most_recorded = std::max(most_recorded, stream.report().recorded);
    if (i == 19) settled_bytes = stream.report().buffer_bytes, plans = stream.report().plans;
  }
  EXPECT_LE(most_held, 6U);
  EXPECT_LE(most_recorded, 30U);
  EXPECT_LE(stream.report().buffer_bytes, settled_bytes + steps * 64) << "a loss takes 64 bytes, a state 4096";
  EXPECT_EQ(stream.report().plans, plans);
  EXPECT_GE(stream.report().kept, steps - 6U);
  float value = 0;
  for (int i = 0; i < 3; ++i) value = value * 0.5F + 1.0F;  // of element 0 after three steps
  double sum = 0;
  for (const float one : ramp(1024)) {
    float state = one;
    for (int i = 0; i < 3; ++i) state = state * 0.5F + 1.0F;
    sum += double{state} * state;
  }
  EXPECT_NEAR(read(stream, losses[2])[0], sum, 1e-4 * sum);
  EXPECT_NE(stream.explain().find("computed, as it was asked for"), std::string::npos);
}

TEST(Stream, SizesThatOpsCannotHaveAsSymbolsArePlannedEach) {
  const Stream stream(device());
  for (int round = 0; round < 2; ++round) {
    for (const int n : {3, 5, 7}) {
      const Tensor x = leaf(stream, {n, 4});
      const Tensor y = concat({x, x}, 0);  // along an axis that would be a symbol
      std::vector<float> want = ramp(static_cast<std::size_t>(4 * n));
      want.insert(want.end(), want.begin(), want.begin() + 4 * n);
      EXPECT_EQ(read(stream, y), want);
    }
  }
  EXPECT_EQ(stream.report().plans, 3U);
}

TEST(Stream, TheOrderOfOperandsIsPartOfAProgram) {
  const Stream stream(device());
  const Tensor a = leaf(stream, {4}), b = leaf(stream, {4}, 10);
  const std::vector<float> one = read(stream, (a + b) * (a - b)), other = read(stream, (a + b) * (b - a));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_LT(one[i], 0);
    EXPECT_EQ(one[i], -other[i]);
  }
}

/// What the host writes goes to memory that no kernel still reads.
TEST(Stream, ABufferThatIsReadIsNotWritten) {
  const Stream stream(device());
  constexpr int count = 1 << 19;
  Tensor x = leaf(stream, {count}, -3), y = x * 0.001;
  for (int i = 0; i < 2; ++i) y = tanh(y) + sin(y);
  must(stream.eval({y}));
  const std::vector<float> want = read(stream, y);
  for (int round = 0; round < 3; ++round) {
    y = x * 0.001;
    for (int i = 0; i < 2; ++i) y = tanh(y) + sin(y);
    must(stream.eval({y}));
    x = y;  // what it was is gone, and being read
    x = must(stream.tensor(DType::f32, {count}, std::vector<float>(count, 1000)));
    EXPECT_EQ(read(stream, y), want);
    x = leaf(stream, {count}, -3);
  }
}

TEST(Stream, LargeConstantsAreKnownByWhereTheyAre) {
  const Stream stream(device());
  const Tensor x = leaf(stream, {64});
  for (int i = 0; i < 3; ++i) {  // each time another constant, which may well lie where the last one did
    const std::vector<float> table(64, static_cast<float>(i));
    const Tensor y = x + Tensor::constant(DType::f32, {64}, std::as_bytes(std::span(table)));
    EXPECT_EQ(read(stream, y)[4], 1.0F + static_cast<float>(i));
  }
}

TEST(Stream, WrapsBuffersAndHandsThemOut) {
  const Stream stream(device());
  const Buffer buffer = must(device().allocate(16));
  const std::vector<float> numbers = ramp(4, 7);
  must(buffer.write(std::as_bytes(std::span(numbers))));
  const Tensor x = must(stream.wrap(buffer, DType::f32, {4}));
  const Tensor y = x * 2.0;
  std::vector<float> got(4);
  must(must(stream.buffer(y)).read(std::as_writable_bytes(std::span(got))));
  EXPECT_EQ(got[3], 2 * numbers[3]);
  // What is written there is computed with.
  must(buffer.write(std::as_bytes(std::span(got))));
  EXPECT_EQ(read(stream, x * 2.0)[3], 4 * numbers[3]);
  // A wrapped buffer is not appended to in place.
  const Tensor longer = must(stream.append(x, y));
  EXPECT_EQ(read(stream, longer).size(), 8U);
}

TEST(Stream, ABufferThatIsHandedOutOutlivesItsTensor) {
  const Stream stream(device());
  const Tensor x = leaf(stream, {64}, 1);
  const std::uint64_t before = stream.report().buffer_bytes;
  const Buffer held = must(stream.buffer(x * 2.0));
  EXPECT_EQ(stream.report().buffer_bytes, before) << "it is none of the stream's any more";
  for (int i = 0; i < 3; ++i) read(stream, x * (3.0 + i));
  std::vector<float> got(64);
  must(held.read(std::as_writable_bytes(std::span(got))));
  EXPECT_EQ(got[0], 2.0F);
}

TEST(Stream, RowsThatNoNumberCountsAreNotAppended) {
  const Stream stream(device());
  const Tensor x = must(stream.tensor(DType::f32, {INT64_MAX, 0}, std::vector<float>{}));
  const Result<Tensor> longer = stream.append(x, x);
  ASSERT_FALSE(longer);
  EXPECT_NE(longer.error().text().find("64 bits do not count the rows of both."), std::string::npos);
  const Tensor rest = must(stream.tensor(DType::f32, {0, 0}, std::vector<float>{}));
  EXPECT_EQ(must(stream.read(must(stream.append(x, rest)))).sizes, (std::vector<std::int64_t>{INT64_MAX, 0}));
}

template <typename T>
void expect_refused(const Result<T>& result, const char* words) {
  ASSERT_FALSE(result.ok()) << words;
  EXPECT_NE(result.error().text().find(words), std::string::npos) << result.error().text();
}

TEST(Stream, WhatIsWrongIsASentence) {
  const Stream stream(device()), other(device());
  const Tensor x = leaf(stream, {4}), foreign = leaf(other, {4});
  expect_refused(stream.eval({x + foreign}), "The operands of 'add' are of two streams");
  expect_refused(stream.read(foreign * 2.0), "A f32[4] is of another stream.");
  expect_refused(stream.read(x + Tensor::input("q", DType::f32, {4})), "The input 'q' has no elements");
  expect_refused(stream.read(x + leaf(stream, {5})), "4");
  expect_refused(stream.tensor(DType::f32, {4}, std::vector<float>(3)),
                 "A tensor of type f32[4] needs 16 bytes, but 12 were given.");
  expect_refused(stream.tensor(DType::boolean, {1}, std::vector<std::uint8_t>{2}), "booleans are 0 or 1");
  expect_refused(stream.tensor(DType::f32, {-1}, std::vector<float>{}), "-1");
  expect_refused(stream.wrap(Buffer(), DType::f32, {4}), "The buffer is empty");
  expect_refused(stream.wrap(must(device().allocate(8)), DType::f32, {4}), "takes 16 bytes, but the buffer has 8.");
  expect_refused(stream.append(x, leaf(stream, {2, 2})), "f32[2, 2] cannot be appended to f32[4]");
  expect_refused(compile(device(), {x * 2.0}), "A f32[4] has its elements on a device");
  // And nothing is worse than before.
  EXPECT_EQ(read(stream, x * 2.0)[2], 1.0F);
}

TEST(Stream, RecordingAnOpTakesLessThanAMicrosecond) {
  const Stream stream(device());
  const Tensor x = leaf(stream, {16, 64}), y = leaf(stream, {64});
  constexpr int ops = 4000;
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    Tensor z = x;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < ops / 2; ++i) z = relu(z) + y;
    best = std::min(best,
                    std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / ops);
  }
  std::printf("recording an op takes %.3f us\n", best);
  RecordProperty("recording_us", std::to_string(best));
  EXPECT_LT(best, 5.0 * slowness()) << "other work on the machine is no excuse for this";
}

}  // namespace
}  // namespace vkfuse::test

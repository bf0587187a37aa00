// Small results that are read while the rest of their run is still being computed.
#include <gtest/gtest.h>

#include <optional>

#include "support/compare.hpp"
#include "unit/runtime/watched_device.hpp"
#include "vkfuse/stream.hpp"

namespace vkfuse::test {
namespace {

constexpr std::int64_t kElements = std::int64_t{1} << 17;

Buffer uploaded(const Device& device, std::span<const float> elements) {
  Buffer buffer = must(device.allocate(elements.size_bytes()));
  must(buffer.write(std::as_bytes(elements)));
  return buffer;
}

float number_in(const Buffer& buffer) {
  float value = 0;
  must(buffer.read(std::as_writable_bytes(std::span(&value, 1))));
  return value;
}

/// The submission that copies a result to the host before its run has ended; 0: none does.
std::uint64_t made_by(const Buffer& result) { return result.state()->early.made_by().value_or(0); }

/// The number of a submission of nothing.
std::uint64_t next_submission(const Device& device) {
  const std::shared_ptr<vulkan::Device>& opened = device.state()->context->device();
  vulkan::CommandBuffer commands = must(vulkan::CommandBuffer::create(opened));
  must(commands.begin());
  must(commands.end());
  const vulkan::Submission submission = must(opened->submit(commands));
  must(submission.wait());
  return submission.value();
}

/// A step whose loss, twice the first element, is known long before `after`, the input plus the number of kernels.
Executable long_step(const Device& device, int kernels) {
  const Tensor w = Tensor::input("w", DType::f32, {kElements});
  Tensor after = w;
  CompileOptions options;
  options.fusion = false;
  options.output_names = {"loss", "middle", "after"};
  Tensor loss = w.slice(0, 0, 1) * 2.0F, middle = loss;
  for (int i = 0; i < kernels; ++i) {
    after = after + 1.0F;
    if (i == kernels / 4) middle = after.slice(0, 0, 1) * 3.0F;
  }
  return must(compile(device, {loss.reshape({}), middle.reshape({}), after}, options));
}

struct LongStep {
  explicit LongStep(const Device& on, int count = 200)
      : device(on), kernels(count), program(long_step(on, count)), data(kElements, 0.0F) {
    w = uploaded(on, data);
  }
  Submission step() {
    Bindings bindings;
    bindings.inputs["w"] = w;
    bindings.donated = {"w"};
    Submission submission = must(program.submit(bindings));
    w = submission.outputs().at("after");
    return submission;
  }

  const Device& device;
  int kernels;
  Executable program;
  std::vector<float> data;
  Buffer w;
};

TEST(EarlyResults, AreReadBeforeTheRunHasEnded) {
  for (const Memory memory : {Memory::as_it_is, Memory::apart}) {
    const WatchedDevice watched({}, memory);
    LongStep steps(watched.device());
    const auto per_step = static_cast<float>(steps.kernels);
    must(steps.step().wait());  // how long it takes is measured
    for (int i = 1; i < 6; ++i) {
      const Submission submission = steps.step();
      const float before = per_step * static_cast<float>(i);
      const Buffer loss = submission.outputs().at("loss"), middle = submission.outputs().at("middle");
      EXPECT_EQ(number_in(loss), 2 * before) << i;
      EXPECT_EQ(number_in(middle), 3 * (before + per_step / 4 + 1)) << i;
      EXPECT_LT(made_by(loss), made_by(middle)) << i;
      EXPECT_LT(made_by(middle) + 1, next_submission(watched.device())) << i;  // the run has more parts
      EXPECT_EQ(number_in(steps.w), before + per_step) << i;
    }
  }
}

TEST(EarlyResults, OfRunsInARowAreEachTheirOwn) {
  const WatchedDevice watched;
  LongStep steps(watched.device());
  must(steps.step().wait());
  std::vector<Buffer> losses;
  for (int i = 1; i < 30; ++i) losses.push_back(steps.step().outputs().at("loss"));  // more than there are slots for
  for (int i = 1; i < 30; ++i)
    EXPECT_EQ(number_in(losses[static_cast<std::size_t>(i - 1)]), 2.0F * static_cast<float>(i * steps.kernels)) << i;
}

class ChangedResults : public testing::Test {
 protected:
  void SetUp() override {
    must(steps_.step().wait());
    loss_ = steps_.step().outputs().at("loss");
    ASSERT_GT(made_by(loss_), 0U);
    ASSERT_EQ(number_in(loss_), 2.0F * static_cast<float>(steps_.kernels));
  }
  WatchedDevice watched_;
  LongStep steps_{watched_.device(), 140};
  Buffer loss_;
};

TEST_F(ChangedResults, AreWhatTheHostHasWritten) {
  const float other = 17.0F;
  must(loss_.write(std::as_bytes(std::span(&other, 1))));
  EXPECT_EQ(number_in(loss_), 17.0F);
}

TEST_F(ChangedResults, AreWhatAnotherRunStores) {
  const Tensor x = Tensor::input("x", DType::f32, {});
  const Executable program = must(compile(watched_.device(), {x + 1.0F}, CompileOptions()));
  const float four = 4.0F;
  Bindings bindings;
  bindings.inputs["x"] = uploaded(watched_.device(), std::span(&four, 1));
  bindings.outputs["y"] = loss_;
  must(must(program.submit(bindings)).wait());
  EXPECT_EQ(number_in(loss_), 5.0F);
}

TEST_F(ChangedResults, AreWhatARunThatTheyAreDonatedToStores) {
  const Tensor x = Tensor::input("x", DType::f32, {});
  const Executable program = must(compile(watched_.device(), {x + 1.0F}, CompileOptions()));
  Bindings bindings;
  bindings.inputs["x"] = loss_;
  bindings.donated = {"x"};
  const Submission submission = must(program.submit(bindings));
  ASSERT_EQ(submission.outputs().at("y").state(), loss_.state());
  EXPECT_EQ(number_in(loss_), 2.0F * static_cast<float>(steps_.kernels) + 1.0F);
}

/// Who has a handle, a part or a tensor of a stream may write by it.
TEST_F(ChangedResults, AreReadFromTheDeviceOnceOthersMayWrite) {
  EXPECT_NE(loss_.vulkan_handle(), 0U);
  EXPECT_EQ(made_by(loss_), 0U);
  const Buffer second = steps_.step().outputs().at("loss");
  ASSERT_GT(made_by(second), 0U);
  must(second.part(0, 2));
  EXPECT_EQ(made_by(second), 0U);
  const Buffer third = steps_.step().outputs().at("loss");
  ASSERT_GT(made_by(third), 0U);
  const Stream stream(watched_.device());
  must(stream.wrap(third, DType::f32, {}));
  EXPECT_EQ(made_by(third), 0U);
  EXPECT_EQ(number_in(third), 6.0F * static_cast<float>(steps_.kernels));
}

/// More small results than are copied early: the first of the smallest are.
TEST(EarlyResults, AreFourAtMost) {
  const WatchedDevice watched;
  const Tensor w = Tensor::input("w", DType::f32, {kElements});
  CompileOptions options;
  options.fusion = false;
  std::vector<Tensor> outputs;
  for (int i = 0; i < 8; ++i) {
    options.output_names.push_back("s" + std::to_string(i));
    outputs.push_back(w.slice(0, 0, i == 0 ? 2 : 1) * static_cast<float>(i));
  }
  Tensor after = w;
  for (int i = 0; i < 140; ++i) after = after + 1.0F;
  options.output_names.emplace_back("after");
  outputs.push_back(after);
  const Executable program = must(compile(watched.device(), outputs, options));
  const std::vector<float> data(kElements, 1.0F);
  Bindings bindings;
  bindings.inputs["w"] = uploaded(watched.device(), data);
  bindings.donated = {"w"};
  must(must(program.submit(bindings)).wait());
  const Submission submission = must(program.submit(bindings));
  std::string early;
  for (int i = 0; i < 8; ++i) {
    const Buffer& result = submission.outputs().at("s" + std::to_string(i));
    if (made_by(result) > 0) early += std::to_string(i);
    EXPECT_EQ(number_in(result), 141.0F * static_cast<float>(i)) << i;
  }
  EXPECT_EQ(early, "1234");
}

}  // namespace
}  // namespace vkfuse::test

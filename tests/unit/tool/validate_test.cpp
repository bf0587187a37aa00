// What vkfuse validate writes down: a page and JSON of every case on every device.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/device.hpp"
#include "tool/commands.hpp"
#include "tool/validate.hpp"
#include "unit/onnx/net.hpp"

namespace vkfuse::tool {
namespace {

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

class Validation : public testing::Test {
 protected:
  void SetUp() override { common_.cache = "off"; }

  std::string graph(const char* name, const char* text) {
    folder_.write(name, text);
    return (folder_ / name).string();
  }
  int validated() {
    testing::internal::CaptureStdout();
    const Result<int> status = validate_models(common_, command_);
    printed_ = testing::internal::GetCapturedStdout();
    EXPECT_TRUE(status.ok()) << status.error().text();
    return status.ok() ? *status : 2;
  }

  onnx::ScratchFolder folder_;
  Common common_;
  ValidateCommand command_;
  std::string printed_;
};

TEST_F(Validation, OnEveryDeviceIsAPageAndJson) {
  command_.paths = {graph("sums & <powers>.vkf", R"(graph "g" {
  %0 = input "x" : f32[9, 130]
  %1 = exp %0 : f32[9, 130]
  %2 = reduce_sum axes=[1] %1 : f32[9]
  output "sums" = %2
  output "powers" = %1
})"),
                    graph("signs.vkf", R"(graph "g" {
  %0 = input "x" : i32[7]
  %1 = neg %0 : i32[7]
  output "y" = %1
})")};
  command_.report = (folder_ / "page.html").string();
  command_.json = (folder_ / "results.json").string();
  common_.device = "all";
  const std::size_t devices = test::must(Device::list()).size();
  EXPECT_EQ(validated(), 0);
  const std::string counts = fmt::format("{} passed, 0 failed, 0 skipped", 2 * devices);
  EXPECT_NE(printed_.find(counts), std::string::npos) << printed_;

  const auto json = nlohmann::json::parse(test::must(read_text(command_.json)));
  ASSERT_EQ(json.size(), 2 * devices);
  const std::string name = test::device().description().name;
  EXPECT_EQ(json[0]["device"], name);
  EXPECT_EQ(json[0]["verdict"], "passed");
  ASSERT_EQ(json[0]["outputs"].size(), 2u);
  const auto& powers = json[0]["outputs"][1];
  EXPECT_EQ(powers["name"], "powers");
  EXPECT_EQ(powers["compared"], 9 * 130);
  EXPECT_EQ(powers["wrong"], 0);
  EXPECT_GT(powers["max_error_over_bound"], 0);
  EXPECT_LE(powers["max_error_over_bound"], 1);
  EXPECT_LE(powers["p50"], powers["p99"]);
  EXPECT_EQ(powers["worst"].size(), 2u);
  EXPECT_EQ(json[1]["outputs"][0]["worst"].size(), 0u);

  const std::string page = test::must(read_text(command_.report));
  EXPECT_NE(page.find("sums &amp; &lt;powers&gt;.vkf"), std::string::npos);
  EXPECT_EQ(occurrences(page, "<h2>"), static_cast<int>(devices));
  EXPECT_NE(page.find(fmt::format("<h2>0: {}", name)), std::string::npos);
  EXPECT_NE(page.find("f32[9, 130]"), std::string::npos);
  EXPECT_EQ(occurrences(page, "class=\"failed\""), 0);
  EXPECT_EQ(occurrences(page, "<tr><td>T0</td>"), static_cast<int>(devices));  // self-tests have been run
}

TEST_F(Validation, OfWhatIsNotThereIsAnErrorAfterTheRest) {
  command_.paths = {(folder_ / "nothing.vkf").string(), graph("neg.vkf", "graph \"g\" {\n  %0 = input \"x\" : f32[7]\n  %1 = neg %0 : f32[7]\n  output \"y\" = %1\n}")};
  command_.report = (folder_ / "page.html").string();
  testing::internal::CaptureStdout();
  const Result<int> status = validate_models(common_, command_);
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(printed.find("1 passed"), std::string::npos) << printed;
  EXPECT_NE(test::must(read_text(command_.report)).find("neg.vkf"), std::string::npos);
  common_.device = "no such device";
  EXPECT_FALSE(validate_models(common_, command_).ok());
}

TEST_F(Validation, ResultsWithoutAFileAreComparedWithTheReference) {
  std::filesystem::create_directories(folder_ / "case/test_data_set_0");
  folder_.write("case/model.onnx", onnx::unary_model("Exp").SerializeAsString());
  onnx::pb::TensorProto x;
  x.set_name("x");
  x.set_data_type(onnx::pb::TensorProto::FLOAT);
  for (const std::int64_t size : {2, 3}) x.add_dims(size);
  for (int i = 0; i < 6; ++i) x.add_float_data(static_cast<float>(i) * 0.3F);
  folder_.write("case/test_data_set_0/input_0.pb", x.SerializeAsString());
  command_.paths = {(folder_ / "case").string()};
  command_.json = (folder_ / "results.json").string();
  EXPECT_EQ(validated(), 0);
  EXPECT_NE(printed_.find("1 output without a file"), std::string::npos) << printed_;
  const auto json = nlohmann::json::parse(test::must(read_text(command_.json)));
  ASSERT_EQ(json[0]["outputs"].size(), 1U);
  EXPECT_EQ(json[0]["outputs"][0]["compared"], 6);
}

TEST(ValidationPage, HasCasesOfOneNameFromTwoFolders) {
  CaseResult right, wrong;
  right.name = wrong.name = "model.onnx";
  wrong.verdict = Verdict::failed;
  DeviceReport one;
  one.report.cases = {right, wrong};
  const std::string page = to_html({one}, {});
  const std::string table = page.substr(0, page.find("<h2>"));
  EXPECT_EQ(occurrences(table, "class=\"passed\""), 1) << table;
  EXPECT_EQ(occurrences(table, "class=\"failed\""), 1) << table;
}

/// Twelve norms, one after the other: their bound says nothing any more.
TEST_F(Validation, WhatHasNoBoundIsComparedWithOneKernelPerOp) {
  std::string text = "graph \"deep\" {\n  %0 = input \"x\" : f32[16, 64]\n  %1 = constant {1e-05} : f32[]\n";
  int at = 0, next = 2;
  const auto add = [&](const std::string& what) {
    text += fmt::format("  %{} = {}\n", next, what);
    return next++;
  };
  for (int layer = 0; layer < 12; ++layer) {
    const int mean = add(fmt::format("reshape %{} : f32[16, 1]", add(fmt::format("reduce_mean axes=[1] %{} : f32[16]", at))));
    const int centred = add(fmt::format("sub %{} %{} : f32[16, 64]", at, mean));
    const int square = add(fmt::format("mul %{0} %{0} : f32[16, 64]", centred));
    const int variance = add(fmt::format("reshape %{} : f32[16, 1]", add(fmt::format("reduce_mean axes=[1] %{} : f32[16]", square))));
    const int scale = add(fmt::format("rsqrt %{} : f32[16, 1]", add(fmt::format("add %{} %1 : f32[16, 1]", variance))));
    at = add(fmt::format("mul %{} %{} : f32[16, 64]", centred, scale));
  }
  command_.paths = {graph("deep.vkf", (text + fmt::format("  output \"y\" = %{}\n}}", at)).c_str())};
  EXPECT_EQ(validated(), 0);
  EXPECT_NE(printed_.find("1024 elements without a bound agree with the reference and with one kernel per op"), std::string::npos) << printed_;
}

TEST(Unbounded, ElementsAreOffByAFewTimesWhatOneKernelPerOpIsOffBy) {
  constexpr std::int64_t kCount = 100;
  HostTensor got{DType::f32, {kCount}, {}}, unfused = got;
  reference::Column column;
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < kCount; ++i) {
    column.value.push_back(1);
    column.bound.push_back(std::numeric_limits<double>::infinity());
    indices.push_back(i);
    ir::encode(DType::f32, i == 7 ? 1.00003 : 1, got.bytes);
    ir::encode(DType::f32, i == 50 ? 1.00001 : 1, unfused.bytes);
  }
  EXPECT_EQ(compare_with_unfused(got, unfused, column, indices), "");
  got.bytes.clear();
  for (std::int64_t i = 0; i < kCount; ++i) ir::encode(DType::f32, i == 7 ? 1.00005 : 1, got.bytes);  // the tolerance of a file would take it
  EXPECT_NE(compare_with_unfused(got, unfused, column, indices).find("Element 7 is 1.00004"), std::string::npos) << compare_with_unfused(got, unfused, column, indices);
  for (double& bound : column.bound) bound = 1;
  EXPECT_EQ(compare_with_unfused(got, unfused, column, indices), "") << "these have a bound";
}

// A device that is right shows no map: what one would look like.
TEST(ValidationPage, ShowsWhereAnOutputIsWrong) {
  CaseResult wrong;
  wrong.name = "model.onnx";
  wrong.verdict = Verdict::failed;
  wrong.detail = "Output 'y': 3 of 12 elements are wrong.";
  OutputResult output;
  output.name = "y";
  output.sizes = {3, 4};
  output.found.elements = 12;
  output.found.wrong = 3;
  output.worst = {2, 1};
  output.tiles = {3, 4, std::vector<std::int64_t>(12, 1), {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1}};
  wrong.outputs.push_back(output);
  DeviceReport here;
  here.device.name = "card";
  here.report.cases.push_back(wrong);
  DeviceReport other;
  other.device.name = "broken card";
  other.refused = "It has no queue that computes.";
  const std::string page = to_html({here, other}, {});
  EXPECT_EQ(occurrences(page, "title=\"0 of 1 wrong\"></td>"), 9);
  EXPECT_EQ(occurrences(page, "title=\"1 of 1 wrong\" style=\"background:rgba(214,0,40,1.00)\""), 3);
  EXPECT_NE(page.find("3 wrong"), std::string::npos);
  EXPECT_NE(page.find("[2, 1]"), std::string::npos);
  EXPECT_NE(page.find("It was not opened: It has no queue that computes."), std::string::npos);
}

}  // namespace
}  // namespace vkfuse::tool

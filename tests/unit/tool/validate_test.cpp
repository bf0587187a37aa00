// What vkfuse validate writes down: a page and JSON of every case on every device.
#include <gtest/gtest.h>

#include <fstream>
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

#include "submission.hpp"

#include <gtest/gtest.h>

#include "report_text.hpp"

namespace vkfuse::bench {
namespace {

using nlohmann::json;

json good_report() {
  json row = measured_row("textbook", 10, 1);
  row["copy_percent"] = 90.0;
  row["peak_percent"] = 1.5;
  row["peak_of"] = "fma f32";
  row["limit"] = "memory";
  json report = report_of({row, measured_row("softmax", 20, 2)}, "NVIDIA H200 (with a note)");
  json& environment = report["environment"];
  environment["type"] = "discrete";
  environment["vkfuse"] = "0.2.0";
  environment["uuid"] = "0a32f40c4e410fcfab175f891d71c339";
  environment["sensors_before"] = {{"time", "2026-11-25T10:00:00Z"}, {"watts", nullptr}};
  report["peaks"] = {{{"name", "peak fma f32"},
                      {"case", "peak fma f32"},
                      {"group", "peak"},
                      {"dtype", "f32"},
                      {"instruction", "fma f32"},
                      {"outcome", "measured"},
                      {"gops", 61234.5},
                      {"peak_us", 100.0}}};
  return report;
}

json submitted(const json& report) {
  const auto text = to_submission(report, "a.json");
  EXPECT_TRUE(text.ok()) << text.error().text();
  return text.ok() ? json::parse(*text) : json();
}

TEST(Submission, HasWhatAScoreboardShowsAndNoSamples) {
  const json all = submitted(good_report());
  EXPECT_EQ(all["format"], kSubmissionFormat);
  EXPECT_EQ(all["version"], kSubmissionVersion);
  ASSERT_EQ(all["runs"].size(), 1u);
  const json& run = all["runs"][0];
  EXPECT_EQ(run["device"]["name"], "NVIDIA H200 (with a note)");
  EXPECT_EQ(run["driver"]["text"], "a driver");
  EXPECT_EQ(run["sensors_before"]["watts"], nullptr);
  EXPECT_EQ(run["complete"], true);
  ASSERT_EQ(run["rows"].size(), 2u);
  EXPECT_EQ(run["rows"][0]["us"], 10);
  EXPECT_EQ(run["rows"][0]["copy_percent"], 90);
  EXPECT_EQ(run["rows"][0]["peak_of"], "fma f32");
  EXPECT_EQ(run["peaks"][0]["gops"], 61234.5);
  const std::string text = all.dump();
  EXPECT_EQ(text.find("samples"), std::string::npos);
  EXPECT_EQ(text.find("0a32f40c"), std::string::npos) << "The UUID names one card.";
}

TEST(Submission, ARowThatIsWrongIsSentWithoutATime) {
  json report = good_report();
  report["rows"] = {{{"name", "b"},
                     {"case", "b:f32:8"},
                     {"group", "chain"},
                     {"dtype", "f32"},
                     {"outcome", "wrong"},
                     {"detail", "Element 3 is 4.\nAnd more."}}};
  const json row = submitted(report)["runs"][0]["rows"][0];
  EXPECT_EQ(row["detail"], "Element 3 is 4.");
  EXPECT_FALSE(row.contains("us"));
}

TEST(Submission, HasARunForEachDevice) {
  json report = {{"devices", {good_report(), good_report()}}, {"complete", false}};
  const json all = submitted(report);
  ASSERT_EQ(all["runs"].size(), 2u);
  EXPECT_EQ(all["runs"][0]["complete"], false);
}

/// The sentence that a report is refused with.
std::string refused(const json& report) {
  const auto text = to_submission(report, "a.json");
  EXPECT_FALSE(text.ok());
  return text.ok() ? "" : text.error().message;
}

TEST(Submission, WhatIsMalformedIsRefusedWithASentence) {
  struct Fault {
    const char* pointer;
    json value;
    const char* words;
  };
  const Fault faults[] = {{"/environment/device", 7, "'device' of its environment is no text: 7"},
                          {"/environment/device", std::string(400, 'x'), "longer than 300 bytes"},
                          {"/environment/type", nullptr, "lacks 'type'"},
                          {"/environment/vkfuse", nullptr, "lacks 'vkfuse'"},
                          {"/environment/build", "one", "is no object"},
                          {"/rows/1/fused_us", nullptr, "lacks 'fused_us' of row 1"},
                          {"/rows/1/fused_us", 0, "'fused_us' of row 1 is 0"},
                          {"/rows/0/fused_p90", -1, "is no number that can be measured: -1"},
                          {"/rows/0/copy_percent", "all", "is no number: \"all\""},
                          {"/rows/0/case", nullptr, "lacks 'case' of row 0"},
                          {"/rows/1/case", "textbook:f32:4096", "'textbook:f32:4096' is in it twice"},
                          {"/rows/0/outcome", 1, "is no text"},
                          {"/peaks/0/gops", 0, "'gops' of row 0 is 0"},
                          {"/rows", json::array(), "no row that was timed"}};
  for (const Fault& fault : faults) {
    json report = good_report();
    report[json::json_pointer(fault.pointer)] = fault.value;
    const std::string sentence = refused(report);
    EXPECT_NE(sentence.find(fault.words), std::string::npos) << fault.pointer << ": " << sentence;
    EXPECT_NE(sentence.find("'a.json'"), std::string::npos) << sentence;
    EXPECT_EQ(sentence.back(), '.');
  }
}

TEST(Submission, IsNeverLarge) {
  json report = good_report();
  for (int i = 0; i < 2000; ++i) report["rows"].push_back(measured_row("row" + std::to_string(i), 10, 1));
  EXPECT_NE(refused(report).find("200000 are the most"), std::string::npos);
  report = good_report();
  report["rows"].erase(report["rows"].begin() + 1, report["rows"].end());
  for (int i = 0; i < 250; ++i) report["rows"].push_back(measured_row("row" + std::to_string(i), 10, 1));
  EXPECT_TRUE(to_submission(report, "a.json").ok()) << "Twice as many rows as there are.";
}

TEST(Submission, IsNamedAfterTheDeviceAndTheDay) {
  json report = good_report();
  EXPECT_EQ(submission_name(report), "submission-nvidia-h200-2026-11-25.json");
  report["environment"]["device"] = "../../etc/A  b\"c";
  report["environment"]["sensors_before"]["time"] = "../../../..";
  EXPECT_EQ(submission_name(report), "submission-etc-a-b-c.json");
  report["environment"]["device"] = "";
  report["environment"].erase("sensors_before");
  EXPECT_EQ(submission_name(report), "submission.json");
}

}  // namespace
}  // namespace vkfuse::bench

#include "report.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "os/system.hpp"
#include "page.hpp"
#include "report_text.hpp"

namespace vkfuse::bench {
namespace {

using nlohmann::json;

std::string scratch(const std::string& name) {
  return ::testing::TempDir() + "/vkfuse-bench-" + std::to_string(os::process_id()) + name;
}

/// A line of CSV as its cells.
std::vector<std::string> cells(const std::string& text, std::size_t& at) {
  std::vector<std::string> all(1);
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '"') {
      if (quoted && at + 1 < text.size() && text[at + 1] == '"')
        all.back() += text[++at];
      else
        quoted = !quoted;
    } else if (letter == ',' && !quoted) {
      all.emplace_back();
    } else if (letter == '\n' && !quoted) {
      ++at;
      break;
    } else {
      all.back() += letter;
    }
  }
  return all;
}

TEST(Csv, HasALinePerRowOfEveryDeviceWithTheHeadsColumns) {
  json failed = {
      {"name", "b"}, {"case", "b:f32:8"}, {"outcome", "failed"}, {"detail", "The value \"x\", once,\nis wrong."}};
  const json report = {{"devices",
                        {report_of({measured_row("a", 10, 1), failed}, "one, with a comma"),
                         report_of({measured_row("a", 20, 2)}, "two")}}};
  const std::string text = to_csv(report);
  std::size_t at = 0;
  const std::vector<std::string> head = cells(text, at);
  std::vector<std::map<std::string, std::string>> lines;
  while (at < text.size()) {
    const std::vector<std::string> line = cells(text, at);
    ASSERT_EQ(line.size(), head.size());
    lines.emplace_back();
    for (std::size_t i = 0; i < head.size(); ++i) lines.back()[head[i]] = line[i];
  }
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["device"], "one, with a comma");
  EXPECT_EQ(lines[0]["case"], "a:f32:4096");
  EXPECT_EQ(std::stod(lines[0]["fused_us"]), 10);
  EXPECT_EQ(lines[1]["detail"], failed["detail"].get<std::string>());
  EXPECT_EQ(lines[1]["fused_us"], "");
  EXPECT_EQ(std::stod(lines[2]["fused_us"]), 20);
}

/// The reports that a page draws.
json embedded(const std::string& page) {
  const std::string mark = "const reports = ";
  const std::size_t start = page.find(mark) + mark.size();
  return json::parse(page.substr(start, page.find(";\n", start) - start), nullptr, false);
}

TEST(Page, HoldsTheReportsAndAsksNobodyForAnything) {
  const std::string page =
      to_page({report_of({measured_row("a", 10, 1)}, "one"), report_of({measured_row("a", 20, 2)}, "two")});
  const json data = embedded(page);
  ASSERT_TRUE(data.is_array());
  ASSERT_EQ(data.size(), 2u);
  EXPECT_EQ(data[1]["environment"]["device"], "two");
  EXPECT_EQ(data[1]["rows"][0]["fused_us"], 20);
  EXPECT_FALSE(data[0]["rows"][0].contains("samples"));
  for (const char* part :
       {"id=\"devices\"", "id=\"groups\"", "id=\"bars\"", "id=\"roofline\"", "id=\"law\"", "id=\"table\"",
        "id=\"environment\"", "name=\"viewport\"", "prefers-color-scheme: dark", "<noscript>"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  for (const char* outside : {"https:", "src=", "<link", "@import", "url(", "fetch("})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  // The name of a namespace is no address that is asked.
  std::string without = page;
  const std::string space = "http://www.w3.org/2000/svg";
  without.erase(without.find(space), space.size());
  EXPECT_EQ(without.find("http:"), std::string::npos);
}

TEST(Page, ANameCannotEndTheScript) {
  const std::string name = "a </script><b> device";
  const std::string page = to_page({report_of(json::array(), name)});
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_EQ(embedded(page)[0]["environment"]["device"], name);
}

TEST(ReportFile, IsReadBackAndReplacedWhole) {
  const std::string path = scratch("-report.json");
  ASSERT_TRUE(write_file(path, "old").ok());
  const json report = report_of({measured_row("a", 10, 1)});
  ASSERT_TRUE(write_file(path, report.dump()).ok());
  const auto read = read_report(path);
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(*read, report);
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
  std::filesystem::remove(path);
}

TEST(ReportFile, WhatIsNoReportIsRefusedWithASentence) {
  const std::string path = scratch("-bad.json");
  for (const char* text :
       {"", "{", "[1,2]", "{}", "{\"environment\":3}", "{\"environment\":{\"device\":\"d\"},\"rows\":7}",
        "{\"devices\":[{}]}", "{\"devices\":7}"}) {
    ASSERT_TRUE(write_file(path, text).ok());
    const auto read = read_report(path);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_NE(read.error().message.find(path), std::string::npos) << read.error().message;
  }
  std::filesystem::remove(path);
  EXPECT_EQ(read_report(path).error().code, ErrorCode::not_found);
  EXPECT_EQ(write_file("/nowhere/at/all.json", "{}").error().code, ErrorCode::io);
}

}  // namespace
}  // namespace vkfuse::bench

// What vkfuse validate writes down: a page and JSON of every case on every device.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "support/device.hpp"
#include "tool/commands.hpp"
#include "tool/validate.hpp"
#include "tool/validate_output.hpp"
#include "unit/onnx/net.hpp"

namespace vkfuse::tool {
namespace {

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// Without the lines that text is wrapped in.
std::string joined(std::string text) {
  for (std::size_t at = 0; (at = text.find("\n  ", at)) != std::string::npos;) text.replace(at, 3, " ");
  return text;
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
  // Windows has no names of files with angle brackets.
  constexpr bool kAnyName = std::filesystem::path::preferred_separator == '/';
  command_.paths = {graph(kAnyName ? "sums & <powers>.vkf" : "sums & powers.vkf", R"(graph "g" {
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
  EXPECT_NE(page.find(kAnyName ? "sums &amp; &lt;powers&gt;.vkf" : "sums &amp; powers.vkf"), std::string::npos);
  EXPECT_EQ(occurrences(page, "<h2>"), static_cast<int>(devices));
  EXPECT_NE(page.find(fmt::format("<h2>0: {}", name)), std::string::npos);
  EXPECT_NE(page.find("f32[9, 130]"), std::string::npos);
  EXPECT_EQ(occurrences(page, "class=\"failed\""), 0);
  EXPECT_EQ(occurrences(page, "<tr><td>T0</td>"), static_cast<int>(devices));  // self-tests have been run
}

TEST_F(Validation, OfWhatIsNotThereIsAnErrorAfterTheRest) {
  command_.paths = {
      (folder_ / "nothing.vkf").string(),
      graph("neg.vkf", "graph \"g\" {\n  %0 = input \"x\" : f32[7]\n  %1 = neg %0 : f32[7]\n  output \"y\" = %1\n}")};
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
  EXPECT_NE(joined(printed_).find("1 output without a file"), std::string::npos) << printed_;
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

/// Twelve norms, one after the other: their bound says nothing any more. `more` goes on from a value of a number.
std::string deep_graph(const std::function<std::string(int)>& more) {
  std::string text = "graph \"deep\" {\n  %0 = input \"x\" : f32[16, 64]\n  %1 = constant {1e-05} : f32[]\n";
  int at = 0, next = 2;
  const auto add = [&](const std::string& what) {
    text += fmt::format("  %{} = {}\n", next, what);
    return next++;
  };
  for (int layer = 0; layer < 12; ++layer) {
    const int mean =
        add(fmt::format("reshape %{} : f32[16, 1]", add(fmt::format("reduce_mean axes=[1] %{} : f32[16]", at))));
    const int centred = add(fmt::format("sub %{} %{} : f32[16, 64]", at, mean));
    const int square = add(fmt::format("mul %{0} %{0} : f32[16, 64]", centred));
    const int variance =
        add(fmt::format("reshape %{} : f32[16, 1]", add(fmt::format("reduce_mean axes=[1] %{} : f32[16]", square))));
    const int scale = add(fmt::format("rsqrt %{} : f32[16, 1]", add(fmt::format("add %{} %1 : f32[16, 1]", variance))));
    at = add(fmt::format("mul %{} %{} : f32[16, 64]", centred, scale));
  }
  return text + more(at) + "}";
}

TEST_F(Validation, WhatHasNoBoundIsComparedWithOneKernelPerOp) {
  command_.paths = {
      graph("deep.vkf", deep_graph([](int at) { return fmt::format("  output \"y\" = %{}\n", at); }).c_str())};
  EXPECT_EQ(validated(), 0);
  EXPECT_NE(joined(printed_).find("1024 elements without a bound agree with the reference and with one kernel per op"),
            std::string::npos)
      << printed_;
}

/// All differences of 1024 elements are 4 MiB, which a kernel that folds them does not store.
TEST_F(Validation, GoesOnWhereOneKernelPerOpDoesNotFit) {
  command_.paths = {graph("differences.vkf", deep_graph([](int at) {
                                               return fmt::format(
                                                   "  %{1} = reshape %{0} : f32[1024, 1]\n  %{2} = reshape %{0} : "
                                                   "f32[1, 1024]\n  %{3} = sub %{1} %{2} : f32[1024, 1024]\n"
                                                   "  %{4} = abs %{3} : f32[1024, 1024]\n  %{5} = reduce_mean axes=[1] "
                                                   "%{4} : f32[1024]\n  output \"y\" = %{5}\n",
                                                   at, at + 1, at + 2, at + 3, at + 4, at + 5);
                                             }).c_str())};
  EXPECT_EQ(validated(), 0);
  EXPECT_NE(joined(printed_).find("1024 elements without a bound agree with the reference and with one kernel per op"),
            std::string::npos)
      << printed_;
  common_.limits = {"memory_bytes=1MiB"};
  EXPECT_EQ(validated(), 0) << printed_;
  EXPECT_NE(
      joined(printed_).find(
          "1024 elements without a bound agree with the reference; one kernel per op cannot be run beside them: "),
      std::string::npos)
      << printed_;
  EXPECT_NE(joined(printed_).find("bytes of device memory"), std::string::npos) << printed_;
  EXPECT_NE(printed_.find("1 passed, 0 failed, 0 skipped"), std::string::npos) << printed_;
  command_.fusion = "off";
  EXPECT_NE(validated(), 0) << "the limit does not tell them apart: " << printed_;
}

/// Layers behind which bounds say nothing, with a choice of rows by the host after the first and the second of three
/// parts.
onnx::pb::ModelProto in_three_parts() {
  onnx::Net net(18);
  constexpr std::int64_t kWidth = 32;
  const auto layers = [&](std::string x) {
    for (int layer = 0; layer < 3; ++layer) {
      const std::string hidden = net.gelu(net.linear(net.layer_norm(x, kWidth), kWidth, 2 * kWidth));
      x = net.node("Add", {net.linear(hidden, 2 * kWidth, kWidth), x});
    }
    return x;
  };
  const auto chosen = [&](const std::string& x) {
    const std::string first = net.reshape(net.node("Slice", {x, net.ints({0}), net.ints({1}), net.ints({1})}), {-1});
    const std::string rows = net.reshape(net.node("NonZero", {net.node("Greater", {first, net.number(-0.5)})}), {-1});
    return net.node("Gather", {x, rows});
  };
  net.output(layers(chosen(layers(chosen(layers(net.input("x", {24, kWidth})))))));
  return net.model();
}

/// Off by a part of itself that bounds and the tolerance of a file take: the largest element.
std::int64_t spoil_largest(HostTensor& tensor, double part) {
  std::int64_t largest = 0;
  const auto count = static_cast<std::int64_t>(tensor.bytes.size() / sizeof(float));
  const auto at = [&](std::int64_t i) {
    return ir::decode(DType::f32, tensor.bytes.data() + static_cast<std::size_t>(i) * sizeof(float));
  };
  for (std::int64_t i = 0; i < count; ++i) largest = std::abs(at(i)) > std::abs(at(largest)) ? i : largest;
  std::vector<std::byte> bytes;
  ir::encode(DType::f32, at(largest) * (1 + part), bytes);
  std::copy(bytes.begin(), bytes.end(),
            tensor.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(largest) * sizeof(float)));
  return largest;
}

TEST_F(Validation, PartsAreComparedWithOneKernelPerOp) {
  const std::filesystem::path path = folder_.write("parts.onnx", in_three_parts().SerializeAsString());
  const CaseResult right = validate_model(test::device(), path, {});
  EXPECT_EQ(static_cast<int>(right.verdict), static_cast<int>(Verdict::passed)) << right.detail;
  EXPECT_NE(right.detail.find(" agree with the reference and with one kernel per op"), std::string::npos)
      << right.detail;
  EXPECT_EQ(right.host_steps, 2);
  int of_part[4] = {};
  for (const OutputResult& output : right.outputs) {
    ASSERT_LE(output.part, 3);
    ++of_part[output.part];
    if (output.dtype == DType::f32) {
      EXPECT_TRUE(output.found.beside_unfused) << output.name;
    }
  }
  for (const int part : {1, 2, 3}) EXPECT_GT(of_part[part], 0) << part;

  for (const int wrong_part : {1, 2, 3}) {
    ValidateOptions options;
    std::int64_t element = -1;
    options.spoil = [&](int part, Outputs& stored) {
      for (auto& [name, tensor] : stored) {
        if (part == wrong_part && tensor.dtype == DType::f32) element = spoil_largest(tensor, 2e-4);
      }
    };
    const CaseResult wrong = validate_model(test::device(), path, options);
    ASSERT_GE(element, 0);
    EXPECT_EQ(static_cast<int>(wrong.verdict), static_cast<int>(Verdict::failed)) << wrong_part;
    EXPECT_NE(wrong.detail.find(fmt::format("elements are wrong. Element {} is ", element)), std::string::npos)
        << wrong.detail;
    int found = 0;
    for (const OutputResult& output : wrong.outputs) {
      if (output.found.right()) continue;
      ++found;
      EXPECT_EQ(output.part, wrong_part);
      EXPECT_GT(output.found.by_reference.max_ratio, 1);
      EXPECT_EQ(output.worst, (std::vector<std::int64_t>{element / 32, element % 32}));
    }
    EXPECT_EQ(found, 1) << wrong_part;
    // Without one kernel per op the tolerance takes it: the fault is one that only this comparison sees.
    options.fusion = false;
    EXPECT_EQ(static_cast<int>(validate_model(test::device(), path, options).verdict),
              static_cast<int>(Verdict::passed));
  }
}

/// y = exp(x) of [40, 70], with y as a file.
class ValidatedFile : public Validation {
 protected:
  static constexpr std::int64_t kRows = 40, kColumns = 70;

  void SetUp() override {
    Validation::SetUp();
    std::filesystem::create_directories(folder_ / "case/test_data_set_0");
    onnx::pb::ModelProto model = onnx::empty_model();
    onnx::add_input(model, "x", {kRows, kColumns});
    onnx::add_node(model, "Exp", {"x"}, {"y"});
    onnx::add_output(model, "y");
    folder_.write("case/model.onnx", model.SerializeAsString());
    folder_.write("case/test_data_set_0/input_0.pb", tensor("x", [](std::int64_t i) { return at(i); }));
    write_file([](std::int64_t i) { return std::exp(at(i)); });
    command_.paths = {(folder_ / "case").string()};
    command_.json = (folder_ / "results.json").string();
    command_.report = (folder_ / "page.html").string();
  }
  static double at(std::int64_t i) { return static_cast<float>((i * 37) % 101) / 50 - 1; }
  static std::string tensor(const char* name, const std::function<double(std::int64_t)>& of) {
    onnx::pb::TensorProto made;
    made.set_name(name);
    made.set_data_type(onnx::pb::TensorProto::FLOAT);
    for (const std::int64_t size : {kRows, kColumns}) made.add_dims(size);
    for (std::int64_t i = 0; i < kRows * kColumns; ++i) made.add_float_data(static_cast<float>(of(i)));
    return made.SerializeAsString();
  }
  void write_file(const std::function<double(std::int64_t)>& of) const {
    folder_.write("case/test_data_set_0/output_0.pb", tensor("y", of));
  }
  [[nodiscard]] nlohmann::json output() const {
    const auto json = nlohmann::json::parse(test::must(read_text(command_.json)));
    EXPECT_EQ(json[0]["outputs"].size(), 1U);
    return json[0]["outputs"][0];
  }
};

TEST_F(ValidatedFile, HasItsErrorAndTheBoundOfTheReference) {
  EXPECT_EQ(validated(), 0) << printed_;
  EXPECT_NE(printed_.find("largest error / bound 0."), std::string::npos) << printed_;
  EXPECT_NE(joined(printed_).find("error / tolerance of files 0.000"), std::string::npos) << printed_;
  const nlohmann::json y = output();
  EXPECT_EQ(y["compared"], kRows * kColumns);
  EXPECT_GT(y["max_error_over_bound"], 0);
  EXPECT_GT(y["max_error"], 0);
  EXPECT_EQ(y["data_set"], 0);
  EXPECT_EQ(y["part"], nullptr);
  EXPECT_EQ(y["file"]["wrong"], 0);
  EXPECT_GT(y["file"]["max_error"], 0);
  EXPECT_LT(y["file"]["max_error_over_tolerance"], 1);
  EXPECT_EQ(y["tiles"], nullptr);
}

TEST_F(ValidatedFile, ThatIsWrongHasItsPlaceAndAMap) {
  write_file([](std::int64_t i) { return i == 1234 ? 7 : std::exp(at(i)); });
  EXPECT_EQ(validated(), 1) << printed_;
  const nlohmann::json y = output();
  EXPECT_EQ(y["wrong"], 1);
  EXPECT_EQ(y["file"]["wrong"], 1);
  EXPECT_GT(y["file"]["max_error_over_tolerance"], 10);
  EXPECT_EQ(y["file"]["worst"], (std::vector<std::int64_t>{1234 / kColumns, 1234 % kColumns}));
  EXPECT_LT(y["max_error_over_bound"], 1) << "the reference is with the device";
  EXPECT_EQ(y["tiles"]["rows"], 32);
  EXPECT_EQ(y["tiles"]["wrong"].size(), 32U * 32U);
  std::int64_t wrong = 0;
  for (const auto& tile : y["tiles"]["wrong"]) wrong += tile.get<std::int64_t>();
  EXPECT_EQ(wrong, 1);
  EXPECT_NE(printed_.find("the file says 7"), std::string::npos) << printed_;
  EXPECT_NE(printed_.find("[17, 44]"), std::string::npos) << printed_;
  EXPECT_EQ(occurrences(printed_, "    ................................\n"), 31) << printed_;
  for (std::size_t at = 0, end = 0; at < printed_.size(); at = end + 1) {
    end = printed_.find('\n', at);
    EXPECT_LE(end - at, 80U) << printed_.substr(at, end - at);
  }
  const std::string page = test::must(read_text(command_.report));
  EXPECT_EQ(occurrences(page, "background:rgba(214,0,40,"), 1);
  EXPECT_NE(page.find("<span class=\"failed\">1 wrong</span>"), std::string::npos);
  EXPECT_NE(page.find("[17, 44]"), std::string::npos);
}

TEST_F(ValidatedFile, OfALargeMismatchShowsTheBlock) {
  ValidateOptions options;
  options.spoil = [](int, Outputs& stored) {
    HostTensor& y = stored.at("y");
    for (std::int64_t row = 20; row < 40; ++row) std::fill_n(y.bytes.begin() + row * kColumns * 4, 35 * 4, std::byte{});
  };
  const CaseResult wrong = validate_case(test::device(), folder_ / "case", options);
  EXPECT_EQ(static_cast<int>(wrong.verdict), static_cast<int>(Verdict::failed));
  ASSERT_EQ(wrong.outputs.size(), 1U);
  EXPECT_EQ(wrong.outputs[0].found.by_reference.wrong, 20 * 35);
  EXPECT_EQ(wrong.outputs[0].found.by_file->wrong, 20 * 35);
  const std::string text = to_text(wrong);
  EXPECT_EQ(occurrences(text, "    ................................\n"), 16) << text;
  EXPECT_EQ(occurrences(text, "    ################................\n"), 16) << text;
}

/// An overflow in f32 beside finite elements: no bound says what is right, the file does.
TEST_F(Validation, WhatOverflowsIsHeldToItsFile) {
  std::filesystem::create_directories(folder_ / "case/test_data_set_0");
  onnx::pb::ModelProto model = onnx::empty_model();
  constexpr std::int64_t kRows = 6, kColumns = 5;
  onnx::add_input(model, "x", {kRows, kColumns});
  onnx::add_input(model, "mask", {kRows, kColumns});
  onnx::add_node(model, "Add", {"x", "mask"}, {"once"});
  onnx::add_node(model, "Add", {"once", "mask"}, {"twice"});
  onnx::add_node(model, "Softmax", {"twice"}, {"y"});
  onnx::add_output(model, "y");
  folder_.write("case/model.onnx", model.SerializeAsString());
  const auto write = [&](const char* file, const char* name,
                         const std::function<double(std::int64_t, std::int64_t)>& at) {
    onnx::pb::TensorProto made;
    made.set_name(name);
    made.set_data_type(onnx::pb::TensorProto::FLOAT);
    for (const std::int64_t size : {kRows, kColumns}) made.add_dims(size);
    for (std::int64_t i = 0; i < kRows * kColumns; ++i)
      made.add_float_data(static_cast<float>(at(i / kColumns, i % kColumns)));
    folder_.write(std::string("case/test_data_set_0/") + file, made.SerializeAsString());
  };
  constexpr double kLowest = -3.4028234663852886e38;
  const auto kept = [](std::int64_t row) { return row < 3 ? 0 : row; };  // so many columns of a row are not masked
  write("input_0.pb", "x", [](std::int64_t row, std::int64_t column) {
    return 0.25 * static_cast<double>(row) + static_cast<double>(column);
  });
  write("input_1.pb", "mask", [&](std::int64_t row, std::int64_t column) { return column < kept(row) ? 0 : kLowest; });
  const auto right = [&](std::int64_t row, std::int64_t column) -> double {
    if (kept(row) == 0) return NAN;
    double sum = 0;
    for (std::int64_t k = 0; k < kept(row); ++k) sum += std::exp(static_cast<double>(k));
    return column < kept(row) ? std::exp(static_cast<double>(column)) / sum : 0;
  };
  write("output_0.pb", "y", right);
  command_.paths = {(folder_ / "case").string()};
  EXPECT_EQ(validated(), 0) << printed_;
  EXPECT_NE(joined(printed_).find("the file alone decides 15 elements"), std::string::npos) << printed_;
  for (const std::int64_t row : {1, 4}) {
    ValidateOptions options;
    options.spoil = [&](int, Outputs& stored) {
      std::vector<std::byte> half;
      ir::encode(DType::f32, 0.5, half);
      std::copy(half.begin(), half.end(), stored.at("y").bytes.begin() + (row * kColumns + 2) * 4);
    };
    const CaseResult wrong = validate_case(test::device(), folder_ / "case", options);
    EXPECT_EQ(static_cast<int>(wrong.verdict), static_cast<int>(Verdict::failed)) << row;
    EXPECT_NE(wrong.detail.find(fmt::format("Element {} is 0.5", row * kColumns + 2)), std::string::npos)
        << wrong.detail;
  }
}

/// A model whose reference takes longer than there is time: samples, and in the end the file alone.
TEST_F(Validation, KeepsToATimeLimit) {
  command_.paths = {graph("tall.vkf", R"(graph "tall" {
  %0 = input "x" : f32[512, 4096]
  %1 = input "w" : f32[4096, 64]
  %2 = exp %0 : f32[512, 4096]
  %3 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %2 %1 : f32[512, 64]
  output "y" = %3
})")};
  command_.time_limit_s = 1e-3;  // over when the program has been compiled
  EXPECT_EQ(validated(), 2) << printed_;
  EXPECT_NE(joined(printed_).find("The reference has not ended within the time that it was given."), std::string::npos)
      << printed_;
  command_.time_limit_s = 1e6;
  EXPECT_EQ(validated(), 0) << printed_;
  EXPECT_EQ(printed_.find("elements were compared"), std::string::npos) << printed_;
}

TEST_F(Validation, SaysHowManyElementsWereCompared) {
  const auto negated = [&](std::int64_t rows) {
    return graph("long.vkf", fmt::format("graph \"long\" {{\n  %0 = iota axis=1 : f32[{0}, 1000]\n"
                                         "  %1 = neg %0 : f32[{0}, 1000]\n  output \"y\" = %1\n}}",
                                         rows)
                                 .c_str());
  };
  command_.paths = {negated(5000)};
  EXPECT_EQ(validated(), 0) << printed_;
  EXPECT_NE(joined(printed_).find("65536 of 5000000 elements were compared with the reference"), std::string::npos)
      << printed_;
  command_.paths = {negated(100)};
  EXPECT_EQ(validated(), 0) << printed_;
  EXPECT_EQ(printed_.find("elements were compared"), std::string::npos) << printed_;
}

TEST(TimeLimit, LeavesAsManyElementsAsThereIsTimeFor) {
  const ir::Graph graph = test::must(ir::parse(R"(graph "long sums" {
  %0 = input "a" : f32[4096, 65536]
  %1 = input "b" : f32[65536, 4096]
  %2 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %1 : f32[4096, 4096]
  output "y" = %2
})"));
  const auto elements = [&](double seconds) {
    const auto requests = test::must(affordable_requests(graph, {}, graph.outputs(), false, seconds));
    return requests.at(0).indices->size();
  };
  constexpr double kForever = std::numeric_limits<double>::infinity();
  EXPECT_EQ(elements(kForever), 65536U);
  const double all = test::must(reference::modelled_seconds(
      graph, test::must(affordable_requests(graph, {}, graph.outputs(), false, kForever)), {}));
  EXPECT_EQ(elements(1.01 * all), 65536U);
  EXPECT_EQ(elements(all / 3.9), 16384U);
  EXPECT_EQ(elements(all / 4.1), 4096U);
  EXPECT_EQ(elements(0), 64U);
}

TEST_F(ValidatedFile, IsEnoughWhenTheTimeIsOver) {
  ValidateOptions options;
  options.time_limit_s = 1e-9;
  const CaseResult right = validate_case(test::device(), folder_ / "case", options);
  EXPECT_EQ(static_cast<int>(right.verdict), static_cast<int>(Verdict::passed)) << right.detail;
  EXPECT_NE(right.detail.find("0 of 2800 elements were compared with the reference"), std::string::npos)
      << right.detail;
  write_file([](std::int64_t i) { return i == 1234 ? 7 : std::exp(at(i)); });
  EXPECT_EQ(static_cast<int>(validate_case(test::device(), folder_ / "case", options).verdict),
            static_cast<int>(Verdict::failed));
}

/// What another program has computed is judged as what a device has.
class GivenOutputs : public ValidatedFile {
 protected:
  void write_outputs(const std::string& folder, const std::function<double(std::int64_t)>& of) const {
    HostTensor y{DType::f32, {kRows, kColumns}, {}};
    for (std::int64_t i = 0; i < kRows * kColumns; ++i) ir::encode(DType::f32, of(i), y.bytes);
    std::filesystem::create_directories(folder_ / folder);
    test::must(write_npy(folder_ / folder / "y.npy", y));
  }
};

TEST_F(GivenOutputs, AreHeldToTheReferenceAndToTheFile) {
  command_.outputs = (folder_ / "theirs").string();
  write_outputs("theirs", [](std::int64_t i) { return std::exp(at(i)); });
  EXPECT_EQ(validated(), 0) << printed_;
  EXPECT_EQ(output()["file"]["wrong"], 0);
  EXPECT_GT(output()["max_error_over_bound"], 0);
  EXPECT_NE(joined(printed_).find("given outputs"), std::string::npos) << printed_;
  // Within the tolerance of the file, out of the bound.
  write_outputs("theirs", [](std::int64_t i) { return std::exp(at(i)) * (i == 77 ? 1.0001 : 1); });
  EXPECT_EQ(validated(), 1) << printed_;
  EXPECT_EQ(output()["wrong"], 1);
  EXPECT_EQ(output()["worst"], (std::vector<std::int64_t>{77 / kColumns, 77 % kColumns}));
  EXPECT_EQ(output()["file"]["wrong"], 0);
  write_outputs("theirs", [](std::int64_t i) { return i == 77 ? NAN : std::exp(at(i)); });
  EXPECT_EQ(validated(), 1) << printed_;
}

TEST_F(GivenOutputs, OfAModelWithInputs) {
  command_.paths = {graph(
      "exp.vkf", "graph \"g\" {\n  %0 = input \"x\" : f32[n, 70]\n  %1 = exp %0 : f32[n, 70]\n  output \"y\" = %1\n}")};
  command_.inputs = {"x=" + (folder_ / "case/test_data_set_0/input_0.pb").string()};
  command_.outputs = (folder_ / "theirs").string();
  write_outputs("theirs", [](std::int64_t i) { return std::exp(at(i)); });
  EXPECT_EQ(validated(), 0) << printed_;
  command_.inputs.clear();
  EXPECT_EQ(validated(), 1) << "sizes of random inputs are others: " << printed_;
  EXPECT_NE(joined(printed_).find("but '"), std::string::npos) << printed_;
  command_.inputs = {"z=" + (folder_ / "case/test_data_set_0/input_0.pb").string()};
  EXPECT_NE(validated(), 0) << printed_;
}

/// As run --output-dir has called them.
TEST_F(GivenOutputs, HaveTheFilesThatARunWrites) {
  const std::string model = graph("names.vkf",
                                  "graph \"g\" {\n  %0 = input \"x\" : f32[5]\n  %1 = exp %0 : f32[5]\n"
                                  "  %2 = neg %0 : f32[5]\n  output \"a.b\" = %1\n  output \"a_b\" = %2\n"
                                  "  output \"nul\" = %1\n}");
  RunCommand run;
  run.model = model;
  run.output_dir = (folder_ / "theirs").string();
  testing::internal::CaptureStdout();
  const Result<int> ran = run_model(common_, run);
  testing::internal::GetCapturedStdout();
  ASSERT_TRUE(ran.ok()) << ran.error().text();
  command_.paths = {model};
  command_.outputs = run.output_dir;
  EXPECT_EQ(validated(), 0) << printed_;
}

TEST_F(GivenOutputs, OfDataSetsAreInFoldersOfTheirNames) {
  std::filesystem::copy(folder_ / "case/test_data_set_0", folder_ / "case/test_data_set_1");
  command_.outputs = (folder_ / "theirs").string();
  write_outputs("theirs", [](std::int64_t i) { return std::exp(at(i)); });
  EXPECT_EQ(validated(), 2) << "of which data set they are is not known: " << printed_;
  write_outputs("theirs/test_data_set_0", [](std::int64_t i) { return std::exp(at(i)); });
  EXPECT_EQ(validated(), 2) << printed_;
  EXPECT_NE(joined(printed_).find("has neither y.npy nor y.pb for the output 'y'"), std::string::npos) << printed_;
  write_outputs("theirs/test_data_set_1", [](std::int64_t i) { return std::exp(at(i)); });
  EXPECT_EQ(validated(), 0) << printed_;
  write_outputs("theirs/test_data_set_1", [](std::int64_t i) { return i == 3 ? 0 : std::exp(at(i)); });
  EXPECT_EQ(validated(), 1) << printed_;
}

/// What the host has made has no reference: nothing is said of it but what its file says.
TEST_F(Validation, OutputsOfTheHostHaveNoBound) {
  std::filesystem::create_directories(folder_ / "case/test_data_set_0");
  onnx::pb::ModelProto model = onnx::empty_model();
  onnx::add_input(model, "x", {4}, onnx::pb::TensorProto::INT32);
  onnx::add_node(model, "NonZero", {"x"}, {"y"});
  onnx::add_output(model, "y");
  folder_.write("case/model.onnx", model.SerializeAsString());
  onnx::pb::TensorProto x;
  x.set_name("x");
  x.set_data_type(onnx::pb::TensorProto::INT32);
  x.add_dims(4);
  for (const int value : {0, 7, -1, 0}) x.add_int32_data(value);
  folder_.write("case/test_data_set_0/input_0.pb", x.SerializeAsString());
  onnx::pb::TensorProto y;
  y.set_data_type(onnx::pb::TensorProto::INT64);
  for (const std::int64_t size : {1, 2}) y.add_dims(size);
  for (const int value : {1, 2}) y.add_int64_data(value);
  folder_.write("case/test_data_set_0/output_0.pb", y.SerializeAsString());
  command_.paths = {(folder_ / "case").string()};
  command_.json = (folder_ / "results.json").string();
  EXPECT_EQ(validated(), 0) << printed_;
  const auto json = nlohmann::json::parse(test::must(read_text(command_.json)));
  EXPECT_EQ(json[0]["max_error_over_bound"], nullptr);
  EXPECT_EQ(json[0]["max_error_over_tolerance"], 0);
  EXPECT_EQ(json[0]["outputs"][0]["max_error_over_bound"], nullptr);
  EXPECT_EQ(json[0]["outputs"][0]["p99"], nullptr);
  EXPECT_EQ(json[0]["outputs"][0]["file"]["max_error"], 0);
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
  output.found.by_reference.compared = 12;
  output.found.by_reference.wrong = 3;
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

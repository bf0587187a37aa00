// ONNX's own conformance data: how many cases import, and whether the graphs compute what the files
// say. The graphs are evaluated by the reference, so that a mistake here is the importer's (or the
// reference's), never a device's. VKFUSE_LIST_CASES=1 prints why the others do not import.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>

#include "api/tensor_node.hpp"
#include "reference/output_comparison.hpp"
#include "reference/reference.hpp"
#include "support/folder.hpp"
#include "tool/test_data.hpp"
#include "unit/onnx/cases.hpp"

namespace vkfuse::onnx {
namespace {

/// Every element of a small output; of a large one as many, with both ends: a pool over thousands of elements
/// takes the reference long.
std::vector<std::int64_t> looked_at(std::int64_t count) {
  constexpr std::int64_t kMost = 512;
  std::vector<std::int64_t> indices(static_cast<std::size_t>(std::min(count, kMost)));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i);
    indices[i] = count <= kMost ? position : position * (count - 1) / (kMost - 1);
  }
  return indices;
}

/// The first of these elements that differs by more than a file's tolerance (reference/output_comparison.hpp), or an
/// empty text.
std::string difference(DType dtype, const reference::Column& got, const std::vector<std::int64_t>& indices,
                       const TensorData& want) {
  const auto size = static_cast<std::ptrdiff_t>(size_of(dtype));
  std::vector<std::byte> bytes, file;
  reference::Column decided;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (std::isinf(got.bound[i])) continue;
    decided.bound.push_back(got.bound[i]);
    if (!got.value.empty()) decided.value.push_back(got.value[i]);
    if (!got.integer.empty()) decided.integer.push_back(got.integer[i]);
    is_float(dtype) ? ir::encode(dtype, got.value[i], bytes) : ir::encode_int(dtype, got.integer[i], bytes);
    const auto element = want.bytes.begin() + indices[i] * size;  // of bf16, too, which files store as u16
    file.insert(file.end(), element, element + size);
  }
  reference::OutputComparison comparison;
  reference::compare_with_file(dtype, bytes, file, &decided, comparison);
  return comparison.by_file->first_wrong;
}

std::vector<std::int64_t> sizes_of(const Tensor& tensor) {
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : tensor.shape()) sizes.push_back(dim.size());
  return sizes;
}

/// Evaluates every output; an empty text if all agree with the files.
std::string evaluate_case(const Case& test) {
  const Result<ir::Graph> graph = api::to_graph(test.model.outputs, test.model.output_names, test.name);
  if (!graph) return graph.error().text();
  reference::InputBindings input_bindings;
  for (const TensorData& input : test.inputs)
    input_bindings.inputs.emplace(input.name, std::span<const std::byte>(input.bytes));
  const std::vector<bool> random = tool::random_outputs(*graph);
  for (std::size_t i = 0; i < test.model.outputs.size(); ++i) {
    if (random[i]) continue;  // the file has the numbers of another generator
    if (i >= test.outputs.size()) return "a file is missing";
    if (sizes_of(test.model.outputs[i]) != test.outputs[i].sizes) return "the shape differs";
    const std::vector<std::int64_t> indices = looked_at(static_cast<std::int64_t>(element_count(test.outputs[i])));
    const Result<reference::Column> column =
        reference::evaluate_at(*graph, graph->outputs()[i].value, indices, input_bindings);
    if (!column) return column.error().text();
    std::string text = difference(test.model.outputs[i].dtype(), *column, indices, test.outputs[i]);
    if (!text.empty()) return text;
  }
  return {};
}

/// Files that ONNX has mended since.
bool is_mended(const Case& test) {
  static const std::set<std::string> names = [] {
    std::set<std::string> read;
    std::ifstream file(test::tests_folder() / "unit/onnx/mended_cases.txt");
    for (std::string line; std::getline(file, line);) read.insert(line.substr(0, line.find(':')));
    return read;
  }();
  return names.contains(test.name);
}

/// A folder of cases, and how many of them at least import.
struct Kind {
  const char* folder;
  int imported;
};

class OnnxConformance : public testing::TestWithParam<Kind> {};

TEST_P(OnnxConformance, TheReferenceAgreesWithEveryFileOfWhatImports) {
  const std::vector<fs::path> folders = case_folders(kData / GetParam().folder);
  if (folders.empty()) GTEST_SKIP() << "ONNX's test data is not installed (package libonnx-testdata)";
  int imported = 0, agreeing = 0;
  for (const fs::path& folder : folders) {
    const Result<Case> test = load_case(folder);
    if (!test) {
      if (std::getenv("VKFUSE_LIST_CASES") != nullptr) {
        fmt::print("{}: {}\n", folder.filename().string(), test.error().message);
      }
      // The files are sound: whatever is not imported is unsupported.
      EXPECT_EQ(name_of(test.error().code), std::string("unsupported")) << folder << ": " << test.error().text();
      continue;
    }
    ++imported;
    if (is_mended(*test)) continue;
    const std::string text = evaluate_case(*test);
    EXPECT_EQ(text, "") << test->name;
    if (text.empty()) ++agreeing;
  }
  fmt::print("{}: {} cases, {} import, {} agree with the files\n", GetParam().folder, folders.size(), imported,
             agreeing);
  EXPECT_GE(imported, GetParam().imported);
}

INSTANTIATE_TEST_SUITE_P(Onnx, OnnxConformance,
                         testing::Values(Kind{"node", 849}, Kind{"simple", 15}, Kind{"pytorch-converted", 82},
                                         Kind{"pytorch-operator", 35}),
                         [](const auto& parameter) {
                           std::string name = parameter.param.folder;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace vkfuse::onnx

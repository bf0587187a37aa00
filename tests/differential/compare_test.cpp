// What all of these tests stand on: that a wrong element is seen, whichever output it is of.
#include <gtest/gtest.h>

#include "support/compare.hpp"

namespace vkfuse::test {
namespace {

/// What the outputs should be, with one element of one of them changed.
NamedBytes with_wrong(const ir::Graph& graph, const Data& data, std::string_view which, std::size_t element) {
  NamedBytes made;
  for (const auto& [name, column] : expected(graph, data)) {
    std::vector<std::byte>& bytes = made[name];
    for (std::size_t i = 0; i < column.value.size(); ++i)
      ir::encode(DType::f32, column.value[i] + (name == which && i == element ? 1.0 : 0.0), bytes);
  }
  return made;
}

TEST(Judge, SeesAWrongElementOfAnyOutput) {
  const Tensor x = Tensor::input("x", DType::f32, {3, 5});
  const ir::Graph graph = graph_of({-x, abs(x), relu(x)});
  const Data data = data_for({graph, {}, 3, false});
  for (const auto& check : {check_outputs, check_rows}) {
    EXPECT_EQ(check(graph, data, with_wrong(graph, data, "", 0)).wrong, "");
    for (const ir::Output& output : graph.outputs()) {
      for (const std::size_t element : {0, 14}) {
        const std::string wrong = check(graph, data, with_wrong(graph, data, output.name, element)).wrong;
        EXPECT_NE(wrong.find(fmt::format("Output '{}' of type f32[3, 5]: Element {} is ", output.name, element)),
                  std::string::npos)
            << output.name << ", " << element << ": " << wrong;
      }
    }
    if (check == check_outputs) {
      const std::string wrong = check(graph, data, with_wrong(graph, data, graph.outputs()[0].name, 14)).wrong;
      EXPECT_NE(wrong.find(" at [2, 4]; its last axis across, all others down:\n.....\n.....\n....#\n"),
                std::string::npos)
          << wrong;
    }
    NamedBytes shorter = with_wrong(graph, data, "", 0);
    shorter.at(graph.outputs()[1].name).resize(56);
    EXPECT_EQ(check(graph, data, shorter).wrong,
              fmt::format("Output '{}' has 56 bytes instead of 60.", graph.outputs()[1].name));
  }
}

}  // namespace
}  // namespace vkfuse::test

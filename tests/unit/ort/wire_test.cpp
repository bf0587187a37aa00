#include "ort/wire.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "onnx/proto_file.hpp"

namespace vkfuse::ort {
namespace {

TEST(Wire, ProtobufReadsWhatIsWritten) {
  Message tensor, attribute;
  tensor.integer(1, 3).integer(1, 1 << 20).integer(2, 7).text(8, "long " + std::string(300, 'x'));
  tensor.text(9, std::string("\0\x80\xff", 3));
  attribute.text(1, "value").real(2, -1.5F).integer(3, std::numeric_limits<std::int64_t>::min()).message(5, tensor);
  Message node, graph, model;
  node.text(4, "Constant").message(5, attribute);
  graph.text(2, "g").message(1, node).message(1, node);
  model.integer(1, 8).message(7, graph);
  const auto parsed = onnx::parse_model(std::as_bytes(std::span(model.bytes())), "the model");
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_EQ(parsed->ir_version(), 8);
  ASSERT_EQ(parsed->graph().node_size(), 2);
  const auto& read = parsed->graph().node(1).attribute(0);
  EXPECT_EQ(read.f(), -1.5F);
  EXPECT_EQ(read.i(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(read.t().dims_size(), 2);
  EXPECT_EQ(read.t().dims(1), 1 << 20);
  EXPECT_EQ(read.t().name().size(), 305U);
  EXPECT_EQ(read.t().raw_data(), std::string("\0\x80\xff", 3));
}

}  // namespace
}  // namespace vkfuse::ort

#include "onnx/trial.hpp"

#include <gtest/gtest.h>

#include "unit/onnx/models.hpp"

namespace vkfuse::onnx {
namespace {

std::optional<Refusal> refusal_of(const pb::ModelProto& model) {
  const std::string bytes = model.SerializeAsString();
  return try_import(std::as_bytes(std::span(bytes)));
}

pb::NodeProto& add_node(pb::ModelProto& model, const std::string& op, const std::string& in, const std::string& out) {
  pb::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_op_type(op);
  node.add_input(in);
  node.add_output(out);
  return node;
}

TEST(Trial, AModelThatIsTakenIsNotRefused) {
  pb::ModelProto model = empty_model(17);
  add_input(model, "x", {2, 3}, pb::TensorProto::FLOAT);
  add_node(model, "Relu", "x", "y");
  model.mutable_graph()->add_output()->set_name("y");
  EXPECT_FALSE(refusal_of(model));
}

TEST(Trial, TheNodeToBlameIsNamed) {
  pb::ModelProto model = empty_model(17);
  add_input(model, "x", {2, 3}, pb::TensorProto::FLOAT);
  add_node(model, "Relu", "x", "a");
  add_node(model, "Frobnicate", "a", "b");
  add_node(model, "Relu", "b", "y");
  model.mutable_graph()->add_output()->set_name("y");
  const auto refusal = refusal_of(model);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->node, 1);
  EXPECT_NE(refusal->error.message.find("'Frobnicate'"), std::string::npos) << refusal->error.message;
}

TEST(Trial, WhatARunDecidesIsNotRefused) {
  // The shape of a Reshape is an input: every run tells it.
  pb::ModelProto model = empty_model(17);
  add_input(model, "x", {2, 3}, pb::TensorProto::FLOAT);
  add_input(model, "shape", {2}, pb::TensorProto::INT64);
  add_node(model, "Reshape", "x", "y").add_input("shape");
  model.mutable_graph()->add_output()->set_name("y");
  EXPECT_FALSE(refusal_of(model));
}

TEST(Trial, OperatorsAreKnownByDomainAndOpset) {
  EXPECT_TRUE(check_operator("", "Gelu", 20).ok());
  EXPECT_TRUE(check_operator("ai.onnx", "Gelu", 20).ok());
  const auto older = check_operator("", "Gelu", 19);
  ASSERT_FALSE(older.ok());
  EXPECT_EQ(older.error().message,
            "Operator 'Gelu' (domain 'ai.onnx', opset 19) is not supported; it is in opsets 20+.");
  EXPECT_FALSE(check_operator("somebody", "Gelu", 20).ok());
}

TEST(Trial, WhatHasNoGraphIsRefusedWithoutANode) {
  const auto refusal = try_import(std::as_bytes(std::span("no model")));
  ASSERT_TRUE(refusal);
  EXPECT_FALSE(refusal->node);
}

}  // namespace
}  // namespace vkfuse::onnx

// Models that must be refused: each with the right code and a sentence that names the value.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <ostream>
#include <random>

#include "onnx/proto_file.hpp"
#include "unit/onnx/models.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {
namespace {

using pb::AttributeProto;
using pb::ModelProto;
using pb::TensorProto;

struct Bad {
  const char* name;
  std::function<ModelProto()> build;
  ErrorCode code;
  const char* says;  ///< a part of the message
  OnnxOptions options = {};
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

ModelProto with_initialiser(const std::function<void(TensorProto&)>& fill, const Sizes& sizes,
                            TensorProto::DataType type = TensorProto::FLOAT) {
  ModelProto model = empty_model();
  fill(add_initialiser(model, "w", sizes, type));
  add_node(model, "Identity", {"w"}, {"y"});
  add_output(model, "y");
  return model;
}

ModelProto with_input_type(const std::function<void(pb::TypeProto&)>& fill) {
  ModelProto model = unary_model("Identity");
  model.mutable_graph()->mutable_input(0)->clear_type();
  fill(*model.mutable_graph()->mutable_input(0)->mutable_type());
  return model;
}

ModelProto with_node(const std::function<void(ModelProto&)>& fill) {
  ModelProto model = empty_model();
  add_input(model, "x", {2, 3});
  fill(model);
  add_output(model, "y");
  return model;
}

ModelProto with_function(const std::function<void(pb::FunctionProto&)>& fill) {
  ModelProto model = unary_model("F");
  model.mutable_graph()->mutable_node(0)->set_domain("local");
  pb::FunctionProto& function = *model.add_functions();
  function.set_name("F");
  function.set_domain("local");
  function.add_opset_import()->set_version(17);
  pb::OperatorSetIdProto& local = *function.add_opset_import();
  local.set_domain("local");
  local.set_version(1);
  function.add_input("a");
  function.add_output("b");
  fill(function);
  return model;
}

/// F0 calls F1 twice, which calls F2 twice, and so on: 2^levels nodes from a short file.
ModelProto doubling_functions(int levels) {
  ModelProto model = unary_model("F0");
  model.mutable_graph()->mutable_node(0)->set_domain("local");
  for (int level = 0; level < levels; ++level) {
    pb::FunctionProto& function = *model.add_functions();
    function.set_name("F" + std::to_string(level));
    function.set_domain("local");
    function.set_doc_string(std::string(1 << 20, ' '));  // reaches the limit early
    function.add_opset_import()->set_version(17);
    function.add_input("a");
    function.add_output("c");
    const bool last = level + 1 == levels;
    const std::string callee = last ? "Neg" : "F" + std::to_string(level + 1);
    fill_node(*function.add_node(), callee, {"a"}, {"b"}).set_domain(last ? "" : "local");
    fill_node(*function.add_node(), callee, {"b"}, {"c"}).set_domain(last ? "" : "local");
  }
  return model;
}

/// A node of the training domain with a rate, a count of steps and these operands.
ModelProto training_step(const std::string& op, std::vector<std::string> operands) {
  return with_node([&](ModelProto& model) {
    constexpr const char* kDomain = "ai.onnx.preview.training";
    pb::OperatorSetIdProto& training = *model.add_opset_import();
    training.set_domain(kDomain);
    training.set_version(1);
    add_input(model, "rate", {});
    add_input(model, "count", {}, TensorProto::INT64);
    operands.insert(operands.begin(), {"rate", "count"});
    add_node(model, op, operands, {"y"}).set_domain(kDomain);
  });
}

const auto kInvalid = ErrorCode::invalid_argument;
const auto kUnsupported = ErrorCode::unsupported;

const std::vector<Bad>& bad_models() {
  static const std::vector<Bad> models = {
      // Operators
      {"unknown_operator",
       [] {
         ModelProto model = unary_model("Foo");
         model.mutable_graph()->mutable_node(0)->set_name("bar");
         return model;
       },
       kUnsupported, "Operator 'Foo' (domain 'ai.onnx', opset 17), node 'bar', is not supported."},
      {"unknown_domain",
       [] {
         ModelProto model = unary_model("Relu");
         model.mutable_graph()->mutable_node(0)->set_domain("org.example");
         return model;
       },
       kUnsupported, "Operator 'Relu' (domain 'org.example', opset 0), the node that computes 'y', is not"},
      {"newer_than_the_opset", [] { return unary_model("Mish", 17); }, kUnsupported, "'Mish'"},
      {"no_opset",
       [] {
         ModelProto model = unary_model("Relu");
         model.clear_opset_import();
         return model;
       },
       kUnsupported, "opset 0"},
      {"unknown_attribute",
       [] {
         ModelProto model = unary_model("Elu");
         add_float(*model.mutable_graph()->mutable_node(0), "gamma", 1);
         return model;
       },
       kUnsupported, "Attribute 'gamma' of operator 'Elu' is not supported."},
      {"attribute_of_another_type",
       [] {
         ModelProto model = unary_model("Elu");
         add_int(*model.mutable_graph()->mutable_node(0), "alpha", 1);
         return model;
       },
       kInvalid, "Attribute 'alpha' has the type INT; it must be FLOAT."},
      {"transposed_convolution_of_two_dtypes",
       [] {
         return with_node([](ModelProto& model) {
           add_input(model, "i", {1, 1, 4, 4});
           add_input(model, "w", {1, 1, 2, 2}, TensorProto::UINT8);
           add_node(model, "ConvTranspose", {"i", "w"}, {"y"});
         });
       },
       kInvalid, "u8"},
      {"groups_of_the_greatest_integer",
       [] {
         return with_node([](ModelProto& model) {
           add_input(model, "i", {1, 2, 4, 4});
           add_input(model, "w", {2, 2, 3, 3});
           add_int(add_node(model, "Conv", {"i", "w"}, {"y"}), "group", std::numeric_limits<std::int64_t>::max());
         });
       },
       kInvalid, "'conv' has 9223372036854775807 groups, more than there may be channels."},
      {"infinite_scale_of_an_empty_axis",
       [] {
         return with_node([](ModelProto& model) {
           add_input(model, "i", {0, 2});
           TensorProto& scales = add_initialiser(model, "s", {2});
           scales.add_float_data(std::numeric_limits<float>::infinity());
           scales.add_float_data(1);
           add_node(model, "Resize", {"i", "", "s"}, {"y"});
         });
       },
       kInvalid, "A scale is inf; it must be positive"},
      {"list_with_a_gap",
       [] {
         return with_node([](ModelProto& model) {
           add_attribute(add_node(model, "Einsum", {"x", ""}, {"y"}), "equation", AttributeProto::STRING)
               .set_s("ij,ij->i");
         });
       },
       kInvalid, "Operand 1 of operator 'Einsum' is left out, but is not optional."},
      {"pads_of_the_least_integer",
       [] {
         return with_node([](ModelProto& model) {
           add_int64s(model, "p", {std::numeric_limits<std::int64_t>::min(), 0, 0, 0});
           add_node(model, "Pad", {"x", "p"}, {"y"});
         });
       },
       kInvalid, "The list of pads holds -9223372036854775808, more than any axis."},
      {"missing_attribute", [] { return unary_model("Cast"); }, kInvalid, "Attribute 'to' is missing."},
      {"cast_to_string",
       [] {
         ModelProto model = unary_model("Cast");
         add_int(*model.mutable_graph()->mutable_node(0), "to", TensorProto::STRING);
         return model;
       },
       kUnsupported, "Attribute 'to' has the element type STRING"},
      {"cast_to_nonsense",
       [] {
         ModelProto model = unary_model("Cast");
         add_int(*model.mutable_graph()->mutable_node(0), "to", 12345);
         return model;
       },
       kUnsupported, "12345"},
      {"wrong_dtype", [] { return unary_model("BitwiseNot", 18); }, kInvalid,
       "The first operand of operator 'BitwiseNot' is f32; it takes integers."},
      {"two_dtypes",
       [] {
         return with_node([](ModelProto& model) {
           add_input(model, "n", {2, 3}, TensorProto::INT32);
           add_node(model, "Add", {"x", "n"}, {"y"});
         });
       },
       kInvalid, "i32"},
      {"shapes_that_do_not_broadcast",
       [] {
         return with_node([](ModelProto& model) {
           add_input(model, "z", {2, 4});
           add_node(model, "Add", {"x", "z"}, {"y"});
         });
       },
       kInvalid, "4"},
      {"too_many_operands",
       [] { return with_node([](ModelProto& model) {
              add_node(model, "Abs", {"x", "x"}, {"y"});
            }); }, kInvalid,
       "Operator 'Abs' has 2 operands; it takes 1."},
      {"too_few_operands", [] { return with_node([](ModelProto& model) { add_node(model, "Where", {"x"}, {"y"}); }); },
       kInvalid, "Operator 'Where' has 1 operands; it takes 3."},
      {"required_operand_left_out",
       [] { return with_node([](ModelProto& model) {
              add_node(model, "Add", {"x", ""}, {"y"});
            }); }, kInvalid,
       "Operand 1 of operator 'Add' is left out, but is not optional."},
      {"too_many_outputs",
       [] { return with_node([](ModelProto& model) {
              add_node(model, "Abs", {"x"}, {"y", "z"});
            }); }, kUnsupported,
       "Output 1 ('z') of operator 'Abs' is not supported."},
      {"legacy_broadcast_that_does_not_fit",
       [] {
         return with_node([](ModelProto& model) {
           model.mutable_opset_import(0)->set_version(6);
           pb::NodeProto& node = add_node(model, "Add", {"x", "x"}, {"y"});
           add_int(node, "broadcast", 1);
           add_int(node, "axis", 1);
         });
       },
       kInvalid, "Attribute 'axis' is 1; an operand of [2, 3] does not fit there into [2, 3]."},
      {"momentum_without_mode",
       [] {
         return training_step("Momentum", {"x", "x", "x"});
       },
       kInvalid, "Attribute 'alpha' is missing."},
      {"adagrad_with_uneven_lists",
       [] {
         return training_step("Adagrad", {"x", "x", "x", "x", "x"});
       },
       kInvalid, "Operator 'Adagrad' has 5 operands behind the rate and the count of steps; it takes 3 lists of them."},
      {"shape_only_known_at_run_time",
       [] {
         return with_node([](ModelProto& model) {
           add_input(model, "s", {2}, TensorProto::INT64);
           add_node(model, "Expand", {"x", "s"}, {"y"});
         });
       },
       kUnsupported, "only known when the program runs"},
      {"negative_shape_operand",
       [] {
         return with_node([](ModelProto& model) {
           add_int64s(model, "s", {2, -3});
           add_node(model, "Expand", {"x", "s"}, {"y"});
         });
       },
       kInvalid, "-3"},
      {"huge_shape_operand",
       [] {
         return with_node([](ModelProto& model) {
           add_int64s(model, "s", {std::int64_t{1} << 40, std::int64_t{1} << 40});
           add_node(model, "ConstantOfShape", {"s"}, {"y"});
         });
       },
       kInvalid, "more elements than fit 64 bits"},
      {"endless_range",
       [] {
         return with_node([](ModelProto& model) {
           for (const char* name : {"a", "b", "d"}) add_initialiser(model, name, {}).add_float_data(*name == 'b');
           add_node(model, "Range", {"a", "b", "d"}, {"y"});
         });
       },
       kInvalid, "does not end"},
      {"axis_outside_the_rank",
       [] {
         return with_node([](ModelProto& model) {
           add_input(model, "s", {3});
           add_int(add_node(model, "QuantizeLinear", {"x", "s"}, {"y"}), "axis", 7);
         });
       },
       kInvalid, "Attribute 'axis' is 7; the input has rank 2."},
      // Names and order
      {"unknown_name", [] { return with_node([](ModelProto& model) { add_node(model, "Abs", {"q"}, {"y"}); }); },
       kInvalid, "Operator 'Abs' reads 'q', which is not an input, an initialiser or the output of a node."},
      {"cyclic",
       [] {
         return with_node([](ModelProto& model) {
           add_node(model, "Add", {"x", "u"}, {"y"});
           add_node(model, "Neg", {"y"}, {"u"});
         });
       },
       kInvalid, "form a cycle"},
      {"reads_itself", [] { return with_node([](ModelProto& model) {
                              add_node(model, "Add", {"x", "y"}, {"y"});
                            }); },
       kInvalid, "form a cycle"},
      {"computed_twice",
       [] {
         return with_node([](ModelProto& model) {
           add_node(model, "Abs", {"x"}, {"y"});
           add_node(model, "Neg", {"x"}, {"y"});
         });
       },
       kInvalid, "The name 'y' is given to two values"},
      {"input_stated_twice",
       [] {
         return with_node([](ModelProto& model) {
           add_input(model, "x", {1});
           add_node(model, "Abs", {"x"}, {"y"});
         });
       },
       kInvalid, "The name 'x' is given to two values"},
      {"no_outputs",
       [] {
         ModelProto model = unary_model("Abs");
         model.mutable_graph()->clear_output();
         return model;
       },
       kInvalid, "The graph has no outputs."},
      {"unknown_output",
       [] {
         ModelProto model = unary_model("Abs");
         model.mutable_graph()->mutable_output(0)->set_name("nothing");
         return model;
       },
       kInvalid, "The list of graph outputs reads 'nothing'"},
      {"unprintable_name",
       [] { return with_node([](ModelProto& model) { add_node(model, "Abs", {"\x01\n"}, {"y"}); }); }, kInvalid,
       "reads '\?\?'"},
      // Types
      {"string_input",
       [] {
         return with_input_type(
             [](pb::TypeProto& type) { type.mutable_tensor_type()->set_elem_type(TensorProto::STRING); });
       },
       kUnsupported, "Input 'x' has the element type STRING, which is not supported."},
      {"complex_input",
       [] {
         return with_input_type(
             [](pb::TypeProto& type) { type.mutable_tensor_type()->set_elem_type(TensorProto::COMPLEX64); });
       },
       kUnsupported, "COMPLEX64"},
      {"unknown_data_type",
       [] { return with_input_type([](pb::TypeProto& type) { type.mutable_tensor_type()->set_elem_type(-5); }); },
       kUnsupported, "-5"},
      {"no_type", [] { return with_input_type([](pb::TypeProto&) {}); }, kInvalid, "Input 'x' states no type."},
      {"no_element_type",
       [] { return with_input_type([](pb::TypeProto& type) { type.mutable_tensor_type()->mutable_shape(); }); },
       kInvalid, "Input 'x' states no element type."},
      {"sequence", [] { return with_input_type([](pb::TypeProto& type) { type.mutable_sequence_type(); }); },
       kUnsupported, "Input 'x' is a sequence"},
      {"optional", [] { return with_input_type([](pb::TypeProto& type) { type.mutable_optional_type(); }); },
       kUnsupported, "Input 'x' is an optional"},
      {"sparse_input", [] { return with_input_type([](pb::TypeProto& type) { type.mutable_sparse_tensor_type(); }); },
       kUnsupported, "Input 'x' is a sparse tensor"},
      {"unknown_rank",
       [] {
         return with_input_type(
             [](pb::TypeProto& type) { type.mutable_tensor_type()->set_elem_type(TensorProto::FLOAT); });
       },
       kUnsupported, "Input 'x' states no shape"},
      {"huge_size",
       [] {
         ModelProto model = empty_model();
         add_input(model, "x", {std::int64_t{1} << 40, std::int64_t{1} << 40});
         return model;
       },
       kInvalid, "does not fit 64 bits"},
      {"output_of_another_dtype",
       [] {
         ModelProto model = unary_model("Abs");
         model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
             TensorProto::INT32);
         return model;
       },
       kInvalid, "Output 'y' is stated to be i32, but the graph computes f32."},
      // Initialisers
      {"no_data_for_2_to_the_60", [] { return with_initialiser([](TensorProto&) {}, {std::int64_t{1} << 60}); },
       kInvalid, "Tensor 'w' is f32[1152921504606846976], 1152921504606846976 elements, but 0 elements are stored."},
      {"overflowing_initialiser",
       [] {
         return with_initialiser([](TensorProto&) {}, {std::int64_t{1} << 32, std::int64_t{1} << 32});
       },
       kInvalid, "does not fit 64 bits"},
      {"negative_initialiser", [] { return with_initialiser([](TensorProto&) {}, {-1}); }, kInvalid,
       "Tensor 'w' has a dimension of -1"},
      {"too_few_elements", [] { return with_initialiser([](TensorProto& tensor) { tensor.add_float_data(1); }, {2}); },
       kInvalid, "Tensor 'w' is f32[2], 2 elements, but 1 elements are stored."},
      {"elements_in_the_wrong_field",
       [] { return with_initialiser([](TensorProto& tensor) { tensor.add_int32_data(1); }, {1}); }, kInvalid,
       "but 0 elements are stored"},
      {"too_many_raw_bytes",
       [] { return with_initialiser([](TensorProto& tensor) { tensor.set_raw_data("12345"); }, {1}); }, kInvalid,
       "but 5 bytes are stored"},
      {"string_initialiser",
       [] {
         return with_initialiser([](TensorProto& tensor) { tensor.add_string_data("a"); }, {1}, TensorProto::STRING);
       },
       kUnsupported, "Tensor 'w' has the element type STRING"},
      {"segmented_initialiser",
       [] { return with_initialiser([](TensorProto& tensor) { tensor.mutable_segment(); }, {1}); }, kUnsupported,
       "stored in segments"},
      {"external_data_without_a_folder",
       [] {
         return with_initialiser([](TensorProto& tensor) { tensor.set_data_location(TensorProto::EXTERNAL); }, {1});
       },
       kUnsupported, "in another file"},
      {"sparse_initialiser",
       [] {
         ModelProto model = unary_model("Abs");
         model.mutable_graph()->add_sparse_initializer();
         return model;
       },
       kUnsupported, "sparse initialisers"},
      {"string_constant",
       [] {
         return with_node([](ModelProto& model) {
           add_attribute(add_node(model, "Constant", {}, {"y"}), "value_string", AttributeProto::STRING).set_s("a");
         });
       },
       kUnsupported, "Attribute 'value_string'"},
      {"empty_constant", [] { return with_node([](ModelProto& model) { add_node(model, "Constant", {}, {"y"}); }); },
       kInvalid, "A Constant has exactly one attribute; this one has 0."},
      // Functions
      {"function_that_calls_itself",
       [] {
         return with_function([](pb::FunctionProto& function) {
           fill_node(*function.add_node(), "F", {"a"}, {"b"}).set_domain("local");
         });
       },
       kInvalid, "it calls itself, or nests too deeply"},
      {"function_without_a_result",
       [] {
         return with_function(
             [](pb::FunctionProto& function) { fill_node(*function.add_node(), "Abs", {"a"}, {"c"}); });
       },
       kInvalid, "The end of function 'F' reads 'b'"},
      {"function_reads_the_outer_graph",
       [] {
         return with_function(
             [](pb::FunctionProto& function) { fill_node(*function.add_node(), "Abs", {"x"}, {"b"}); });
       },
       kInvalid, "reads 'x', which is not an input"},
      {"function_defined_twice",
       [] {
         ModelProto model = with_function([](pb::FunctionProto&) {});
         *model.add_functions() = model.functions(0);
         return model;
       },
       kInvalid, "Function 'F' of domain 'local' is defined twice."},
      {"functions_that_double", [] { return doubling_functions(30); }, kUnsupported, "makes the model larger than"},
      // Options
      {"misspelt_known_input",
       [] { return unary_model("Abs"); },
       kInvalid,
       "The known input 'z' is not an input",
       {.known_inputs = {{"z", {}}}}},
      {"known_input_of_another_type",
       [] { return unary_model("Abs"); },
       kInvalid,
       "the graph takes f32[2, 3]",
       {.known_inputs = {{"x", {"x", DType::i32, {2, 3}, {}}}}}},
      {"known_input_without_bytes",
       [] { return unary_model("Abs"); },
       kInvalid,
       "in 0 bytes",
       {.known_inputs = {{"x", {"x", DType::f32, {2, 3}, {}}}}}},
      {"negative_dim_option",
       [] {
         ModelProto model = unary_model("Abs");
         model.mutable_graph()
             ->mutable_input(0)
             ->mutable_type()
             ->mutable_tensor_type()
             ->mutable_shape()
             ->mutable_dim(0)
             ->set_dim_param("n");
         return model;
       },
       kInvalid,
       "Input 'x' has a dimension of -4",
       {.dims = {{"n", -4}}}},
  };
  return models;
}

class Malformed : public testing::TestWithParam<Bad> {};

TEST_P(Malformed, IsRefusedWithAReason) {
  const Result<OnnxModel> imported = import(GetParam().build(), GetParam().options);
  ASSERT_FALSE(imported.ok());
  EXPECT_EQ(name_of(imported.error().code), std::string(name_of(GetParam().code)));
  EXPECT_NE(imported.error().message.find(GetParam().says), std::string::npos) << imported.error().text();
  EXPECT_EQ(imported.error().message.back(), '.') << imported.error().text();
}

INSTANTIATE_TEST_SUITE_P(Onnx, Malformed, testing::ValuesIn(bad_models()),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(OnnxFile, SaysWhatIsWrongWithTheFile) {
  const ScratchFolder folder;
  EXPECT_EQ(load_onnx(folder / "none.onnx").error().code, ErrorCode::not_found);
  EXPECT_EQ(load_onnx(folder.path()).error().code, ErrorCode::io);
  EXPECT_EQ(load_onnx(folder.write("empty.onnx", "")).error().code, ErrorCode::invalid_argument);
  const Error text = load_onnx(folder.write("text.onnx", "This is not a model.\n")).error();
  EXPECT_EQ(text.code, ErrorCode::invalid_argument);
  EXPECT_NE(text.message.find("not an ONNX model"), std::string::npos) << text.message;
}

/// What load_onnx does, without a file.
Result<OnnxModel> load_bytes(const std::string& bytes) {
  VKF_TRY(model, parse_model(std::as_bytes(std::span(bytes)), "the bytes"));
  return import(model);
}

TEST(OnnxFile, RefusesEveryTruncation) {
  const std::string whole = unary_model("Abs").SerializeAsString();
  ASSERT_TRUE(load_bytes(whole).ok());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    // The last field is the opset import: without it no operator has a meaning.
    EXPECT_FALSE(load_bytes(whole.substr(0, length)).ok()) << length << " bytes";
  }
}

/// One node over x f32[1, 2, 4, 4], with a list of integers as its second operand where it takes one.
std::string node_over_image(const std::string& op, const std::vector<Sizes>& lists,
                            const std::map<std::string, Sizes>& attributes, std::int64_t opset = 17) {
  ModelProto model = empty_model(opset);
  add_input(model, "x", {1, 2, 4, 4});
  pb::NodeProto& node = add_node(model, op, {"x"}, {"y"});
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const std::string name = "l" + std::to_string(i);
    if (!lists[i].empty()) add_int64s(model, name, lists[i]);
    node.add_input(lists[i].empty() ? "" : name);
  }
  for (const auto& [name, values] : attributes) {
    const auto type = values.size() == 1 ? AttributeProto::INT : AttributeProto::INTS;
    pb::AttributeProto& attribute = add_attribute(node, name, type);
    if (values.size() == 1) attribute.set_i(values[0]);
    for (const std::int64_t value : values) attribute.add_ints(value);
  }
  add_output(model, "y");
  return model.SerializeAsString();
}

std::vector<std::string> models_to_damage() {
  ModelProto elementwise = unary_model("Elu");
  add_float(*elementwise.mutable_graph()->mutable_node(0), "alpha", 2);
  add_int64s(elementwise, "s", {4, 2, 3});
  add_node(elementwise, "Expand", {"y", "s"}, {"z"});
  add_output(elementwise, "z");
  const std::map<std::string, Sizes> window = {{"kernel_shape", {3, 2}}, {"pads", {1, 0, 1, 1}}, {"strides", {2, 1}}};
  return {elementwise.SerializeAsString(),
          node_over_image("Reshape", {{0, -1, 8}}, {}),
          node_over_image("Transpose", {}, {{"perm", {0, 2, 3, 1}}}),
          node_over_image("Slice", {{1, 0}, {3, 9}, {2, -1}, {1, 2}}, {}),
          node_over_image("Split", {{4}}, {{"axis", {2}}}),
          node_over_image("Pad", {{0, 0, 1, 1, 0, 0, 1, -1}}, {}),
          node_over_image("Tile", {{1, 2, 1, 3}}, {}),
          node_over_image("Unsqueeze", {{0, 5}}, {}),
          node_over_image("Squeeze", {{0}}, {}),
          node_over_image("Resize", {{}, {}, {1, 2, 8, 5}}, {}),
          node_over_image("MaxPool", {}, window),
          node_over_image("AveragePool", {}, window),
          node_over_image("DepthToSpace", {}, {{"blocksize", {1}}}),
          node_over_image("ReduceSum", {{1, 2}}, {{"keepdims", {0}}}),
          node_over_image("CumSum", {{2}}, {{"reverse", {1}}}),
          node_over_image("TopK", {{2}}, {{"axis", {-1}}, {"largest", {0}}}),
          node_over_image("Gather", {{3, 0, -1}}, {{"axis", {3}}}),
          node_over_image("LRN", {}, {{"size", {3}}}),
          node_over_image("CenterCropPad", {{3, 9}}, {{"axes", {2, 3}}}, 18),
          node_over_image("Trilu", {{1}}, {{"upper", {0}}})};
}

/// Damaged files are refused or taken, and nothing else: no crash, no check of vkfuse itself that fails.
TEST(OnnxFile, SurvivesRandomDamage) {
  std::mt19937 random(1);
  for (const std::string& whole : models_to_damage()) {
    EXPECT_TRUE(load_bytes(whole).ok()) << load_bytes(whole).error().text();
    for (int round = 0; round < 2000; ++round) {
      std::string damaged = whole;
      for (std::uint32_t flips = 1 + random() % 4; flips > 0; --flips) {
        damaged[random() % damaged.size()] = static_cast<char>(random());
      }
      const Result<OnnxModel> imported = load_bytes(damaged);
      EXPECT_TRUE(imported.ok() || imported.error().code != ErrorCode::internal) << "round " << round;
    }
  }
}

TEST(OnnxFile, RefusesDeepNesting) {
  pb::TypeProto type;
  type.mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
  for (int depth = 0; depth < 90; ++depth) {
    pb::TypeProto outer;
    *outer.mutable_sequence_type()->mutable_elem_type() = type;
    type = outer;
  }
  ModelProto model = unary_model("Abs");
  *model.mutable_graph()->mutable_input(0)->mutable_type() = type;
  const ScratchFolder folder;
  EXPECT_FALSE(load_onnx(folder.write("deep.onnx", model.SerializeAsString())).ok());
}

}  // namespace
}  // namespace vkfuse::onnx

#include "importer/mutate.hpp"

#include <limits>

#include "onnx/operator_table.hpp"

namespace vkfuse::onnx {

namespace {

constexpr std::int64_t kIntegers[] = {0,
                                      1,
                                      2,
                                      3,
                                      4,
                                      5,
                                      7,
                                      8,
                                      16,
                                      17,
                                      127,
                                      128,
                                      255,
                                      256,
                                      1023,
                                      1024,
                                      65535,
                                      65536,
                                      1 << 20,
                                      std::numeric_limits<std::int32_t>::max(),
                                      std::int64_t{1} << 31,
                                      std::int64_t{1} << 32,
                                      std::int64_t{1} << 40,
                                      std::int64_t{1} << 48,
                                      std::int64_t{1} << 62,
                                      std::numeric_limits<std::int64_t>::max()};
constexpr float kReals[] = {0,
                            1,
                            -1,
                            0.5F,
                            2,
                            1e-40F,
                            1e-5F,
                            3.4e38F,
                            std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};

class Mutation {
 public:
  Mutation(pb::ModelProto& model, const pb::ModelProto& other, Random& random)
      : model_(model), graph_(*model.mutable_graph()), other_(other), random_(random) {}

  void apply() {
    switch (below(14)) {
      case 0: return change_operator();
      case 1:
      case 2: return change_operands();
      case 3:
      case 4:
      case 5: return change_attribute();
      case 6:
      case 7:
      case 8: return change_initialiser();
      case 9:
      case 10: return change_input();
      case 11: return change_nodes();
      case 12: return change_opset();
      default: return change_names();
    }
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  bool chance(int percent) { return below(100) < static_cast<std::size_t>(percent); }
  std::int64_t integer() {
    if (chance(50)) return static_cast<std::int64_t>(below(9)) - 4;
    const std::int64_t value = kIntegers[below(std::size(kIntegers))];
    return chance(30) ? (value == std::numeric_limits<std::int64_t>::max() && chance(50)
                             ? std::numeric_limits<std::int64_t>::min()
                             : -value)
                      : value;
  }
  float real() { return kReals[below(std::size(kReals))]; }
  const OperatorRow& row() { return operator_table()[below(operator_table().size())]; }
  pb::NodeProto* node() {
    return graph_.node_size() == 0
               ? nullptr
               : graph_.mutable_node(static_cast<int>(below(static_cast<std::size_t>(graph_.node_size()))));
  }

  /// A name that is, or is likely to be, a value's.
  std::string name() {
    std::vector<std::string> all;
    for (const auto& input : graph_.input()) all.push_back(input.name());
    for (const auto& tensor : graph_.initializer()) all.push_back(tensor.name());
    for (const auto& one : graph_.node()) all.insert(all.end(), one.output().begin(), one.output().end());
    return all.empty() || chance(4) ? "nothing" : all[below(all.size())];
  }

  template <typename List>
  int at(const List& list) {
    return static_cast<int>(below(static_cast<std::size_t>(list.size())));
  }

  void change_operator() {
    if (pb::NodeProto* one = node()) {
      const OperatorRow& other = row();
      one->set_op_type(std::string(other.name));
      one->set_domain(other.domain == kOnnxDomain ? "" : std::string(other.domain));
    }
  }

  void change_operands() {
    pb::NodeProto* one = node();
    if (one == nullptr) return;
    switch (below(5)) {
      case 0: one->add_input(chance(15) ? "" : name()); break;
      case 1:
        if (one->input_size() > 0) one->mutable_input()->RemoveLast();
        break;
      case 2: one->add_output(chance(20) ? name() : "more" + std::to_string(below(100))); break;
      default:
        if (one->input_size() > 0) one->set_input(at(one->input()), chance(10) ? "" : name());
    }
  }

  void fill(pb::AttributeProto& attribute) {
    switch (below(7)) {
      case 0:
      case 1:
        attribute.set_type(pb::AttributeProto::INT);
        attribute.set_i(integer());
        break;
      case 2:
        attribute.set_type(pb::AttributeProto::FLOAT);
        attribute.set_f(real());
        break;
      case 3:
      case 4:
        attribute.set_type(pb::AttributeProto::INTS);
        if (chance(50)) attribute.clear_ints();
        for (std::size_t i = below(5); i > 0; --i) attribute.add_ints(integer());
        if (attribute.ints_size() > 0) attribute.set_ints(at(attribute.ints()), integer());
        break;
      case 5: {
        constexpr const char* kWords[] = {"linear",     "nearest",       "cubic",      "constant", "reflect",
                                          "edge",       "wrap",          "SAME_UPPER", "VALID",    "none",
                                          "mean",       "bidirectional", "reverse",    "Tanh",     "ij,jk->ik",
                                          "i...->...",  "a,a",           "max",        "tanh",     "align_corners",
                                          "half_pixel", "border",        "CRD",        "RIGHT",    ""};
        attribute.set_type(pb::AttributeProto::STRING);
        attribute.set_s(kWords[below(std::size(kWords))]);
        break;
      }
      default: attribute.set_type(pb::AttributeProto::TENSOR); change_tensor(*attribute.mutable_t());
    }
  }

  void change_attribute() {
    pb::NodeProto* one = node();
    if (one == nullptr) return;
    if (one->attribute_size() > 0 && chance(50)) {
      pb::AttributeProto& attribute = *one->mutable_attribute(at(one->attribute()));
      if (chance(70) && attribute.type() == pb::AttributeProto::INT) return attribute.set_i(integer());
      if (chance(70) && attribute.ints_size() > 0) return attribute.set_ints(at(attribute.ints()), integer());
      if (chance(70) && attribute.type() == pb::AttributeProto::FLOAT) return attribute.set_f(real());
      if (chance(15)) {
        one->mutable_attribute()->RemoveLast();
        return;
      }
      return fill(attribute);
    }
    // One that the operator knows.
    std::vector<std::string> known;
    for (const OperatorRow& candidate : operator_table()) {
      if (candidate.name != one->op_type()) continue;
      std::string word;
      for (const char c : std::string(candidate.attributes) + " ") {
        if (c != ' ') {
          word += c;
        } else if (!word.empty()) {
          known.push_back(std::move(word));
          word.clear();
        }
      }
    }
    pb::AttributeProto& attribute = *one->add_attribute();
    attribute.set_name(known.empty() ? "axis" : known[below(known.size())]);
    fill(attribute);
  }

  void change_tensor(pb::TensorProto& tensor) {
    switch (below(8)) {
      case 0: tensor.set_data_type(static_cast<int>(below(24))); break;
      case 1: tensor.add_dims(integer()); break;
      case 2:
        if (tensor.dims_size() > 0) tensor.mutable_dims()->RemoveLast();
        break;
      case 3:
        if (tensor.dims_size() > 0) tensor.set_dims(at(tensor.dims()), integer());
        break;
      case 4: {  // a whole one of integers
        const std::int64_t count = static_cast<std::int64_t>(below(6));
        tensor.clear_raw_data();
        tensor.clear_dims();
        tensor.clear_int64_data();
        tensor.set_data_type(pb::TensorProto::INT64);
        if (count > 0 || chance(50)) tensor.add_dims(count);
        for (std::int64_t i = 0; i < std::max<std::int64_t>(count, tensor.dims_size() == 0 ? 1 : 0); ++i)
          tensor.add_int64_data(integer());
        break;
      }
      case 5:
        if (tensor.int64_data_size() > 0) tensor.set_int64_data(at(tensor.int64_data()), integer());
        if (tensor.float_data_size() > 0) tensor.set_float_data(at(tensor.float_data()), real());
        if (tensor.int32_data_size() > 0)
          tensor.set_int32_data(at(tensor.int32_data()), static_cast<std::int32_t>(integer()));
        break;
      case 6: {
        std::string* raw = tensor.mutable_raw_data();
        if (!raw->empty() && chance(80)) {
          (*raw)[below(raw->size())] = static_cast<char>(random_());
        } else {
          raw->resize(below(40));
        }
        break;
      }
      default: {
        tensor.set_data_location(chance(80) ? pb::TensorProto::EXTERNAL : pb::TensorProto::DEFAULT);
        auto& entry = *tensor.add_external_data();
        constexpr const char* kKeys[] = {"location", "offset", "length"};
        entry.set_key(kKeys[below(3)]);
        entry.set_value(chance(50) ? "weights.bin" : std::to_string(integer()));
      }
    }
  }

  void change_initialiser() {
    if (graph_.initializer_size() > 0 && chance(90))
      return change_tensor(*graph_.mutable_initializer(at(graph_.initializer())));
    pb::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(chance(20) ? name() : "i" + std::to_string(below(1000)));
    change_tensor(tensor);
    // Somebody reads it.
    if (pb::NodeProto* one = node()) one->add_input(tensor.name());
  }

  void change_input() {
    if (graph_.input_size() == 0) return;
    pb::ValueInfoProto& info = *graph_.mutable_input(at(graph_.input()));
    auto& type = *info.mutable_type()->mutable_tensor_type();
    auto& shape = *type.mutable_shape();
    switch (below(6)) {
      case 0: type.set_elem_type(static_cast<int>(below(24))); break;
      case 1: shape.add_dim()->set_dim_value(integer()); break;
      case 2:
        if (shape.dim_size() > 0) shape.mutable_dim()->RemoveLast();
        break;
      case 3:
        if (shape.dim_size() > 0) shape.mutable_dim(at(shape.dim()))->set_dim_param(chance(50) ? "n" : "m");
        break;
      default:
        if (shape.dim_size() > 0) shape.mutable_dim(at(shape.dim()))->set_dim_value(integer());
    }
  }

  void change_nodes() {
    switch (below(5)) {
      case 0:
        if (graph_.node_size() > 0) graph_.mutable_node()->SwapElements(at(graph_.node()), at(graph_.node()));
        break;
      case 1:
        if (graph_.node_size() > 1) graph_.mutable_node()->RemoveLast();
        break;
      case 2: {  // another model's nodes behind these
        for (const auto& input : other_.graph().input()) *graph_.add_input() = input;
        for (const auto& tensor : other_.graph().initializer()) *graph_.add_initializer() = tensor;
        for (const auto& one : other_.graph().node()) *graph_.add_node() = one;
        break;
      }
      case 3: {  // the nodes as a function, called
        pb::FunctionProto& function = *model_.add_functions();
        function.set_name("F" + std::to_string(below(3)));
        function.set_domain("local");
        *function.mutable_opset_import() = model_.opset_import();
        for (const auto& input : graph_.input()) function.add_input(input.name());
        for (const auto& one : graph_.node()) *function.add_node() = one;
        for (const auto& output : graph_.output()) function.add_output(output.name());
        if (pb::NodeProto* one = node()) {
          one->set_op_type(function.name());
          one->set_domain("local");
        }
        break;
      }
      default: {
        pb::NodeProto added;
        added.set_op_type(std::string(row().name));
        for (std::size_t i = 1 + below(3); i > 0; --i) added.add_input(name());
        added.add_output("n" + std::to_string(below(1000)));
        graph_.add_output()->set_name(added.output(0));
        *graph_.add_node() = std::move(added);
      }
    }
  }

  void change_opset() {
    if (model_.opset_import_size() == 0) model_.add_opset_import();
    model_.mutable_opset_import(at(model_.opset_import()))
        ->set_version(chance(90) ? static_cast<std::int64_t>(below(26)) : integer());
  }

  void change_names() {
    if (graph_.output_size() > 0) graph_.mutable_output(at(graph_.output()))->set_name(name());
  }

  pb::ModelProto& model_;
  pb::GraphProto& graph_;
  const pb::ModelProto& other_;
  Random& random_;
};

std::string damaged(std::string bytes, Random& random) {
  for (std::size_t changes = 1 + random() % 4; changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0: bytes.erase(at, 1 + random() % 8); break;
      case 1: bytes.insert(at, 1, static_cast<char>(random())); break;
      case 2: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 32)); break;
      default: bytes[at] = static_cast<char>(random());
    }
  }
  return bytes;
}

pb::TensorProto tensor_of(const std::string& name, const std::vector<std::int64_t>& values) {
  pb::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(pb::TensorProto::INT64);
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  for (const std::int64_t value : values) tensor.add_int64_data(value);
  return tensor;
}

/// One node over inputs of this shape; the operands after the first `inputs` are a list of integers.
pb::ModelProto one_node(const OperatorRow& row, const std::vector<std::int64_t>& sizes, int inputs) {
  pb::ModelProto model;
  model.set_ir_version(8);
  pb::OperatorSetIdProto& opset = *model.add_opset_import();
  if (row.domain != kOnnxDomain) opset.set_domain(std::string(row.domain));
  opset.set_version(row.until);
  pb::GraphProto& graph = *model.mutable_graph();
  pb::NodeProto& node = *graph.add_node();
  node.set_op_type(std::string(row.name));
  if (row.domain != kOnnxDomain) node.set_domain(std::string(row.domain));
  for (int i = 0; i < std::max(row.operands.least, inputs); ++i) {
    const std::string name = "x" + std::to_string(i);
    node.add_input(name);
    if (i >= inputs) {
      *graph.add_initializer() = tensor_of(name, {1, 2});
      continue;
    }
    pb::ValueInfoProto& info = *graph.add_input();
    info.set_name(name);
    auto& type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(row.takes == Takes::booleans ? pb::TensorProto::BOOL
                       : row.takes == Takes::integers || row.takes == Takes::unsigned_integers
                           ? pb::TensorProto::UINT8
                           : pb::TensorProto::FLOAT);
    for (const std::int64_t size : sizes) type.mutable_shape()->add_dim()->set_dim_value(size);
  }
  node.add_output("y");
  graph.add_output()->set_name("y");
  return model;
}

}  // namespace

std::string mutated(const std::string& bytes, const std::string& other, Random& random) {
  if (random() % 12 == 0) return damaged(bytes, random);
  pb::ModelProto model, from;
  if (!model.ParseFromString(bytes)) return damaged(bytes, random);
  from.ParseFromString(other);
  for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) Mutation(model, from, random).apply();
  return model.SerializeAsString();
}

std::vector<std::string> seed_models() {
  std::vector<std::string> seeds;
  const std::vector<std::vector<std::int64_t>> shapes = {{1, 2, 4, 4}, {3, 4}, {2, 3, 4}, {4}};
  for (const OperatorRow& row : operator_table()) {
    for (const auto& sizes : shapes) {
      for (const int inputs : {1, row.operands.least, std::min(row.operands.most, row.operands.least + 2)}) {
        seeds.push_back(one_node(row, sizes, inputs).SerializeAsString());
      }
    }
  }
  return seeds;
}

}  // namespace vkfuse::onnx

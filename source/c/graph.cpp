// Graphs through C.
#include <algorithm>
#include <utility>

#include "api/composite_table.hpp"
#include "c/handles.hpp"
#include "ir/structured.hpp"

namespace vkfuse::c {

namespace {

/// The attributes of one call: found by name, and each of them must be wanted.
class Attributes {
 public:
  Attributes(std::string_view op, std::span<const vkf_attribute> given) : op_(op), given_(given), used_(given.size()) {}

  /// The payload of the op with what is given filled in.
  Result<ir::Payload> payload(const ops::OpRow& op) {
    ir::Payload payload = ir::NoPayload{};
    if (op.name == "iota") payload = ir::IotaPayload{};
    if (op.name == "random") payload = ir::RandomPayload{};
    if (const ir::Payload* form = ir::payload_form(op)) payload = *form;
    Result<void> read;
    ir::each_attribute(payload, [&](std::string_view name, auto& value) {
      if (read.ok()) read = fill(name, value);
    });
    if (!read.ok()) return std::move(read).error();
    return payload;
  }

  /// The dtype and shape that the op takes as attributes; f32[] where it takes none.
  Result<TensorType> type(const ops::OpRow& op) {
    TensorType type;
    const bool generates = op.cls == ops::OpClass::generate;
    if (op.cls == ops::OpClass::convert || op.name == "iota" || op.signature == ops::Signature::stated) {
      VKF_TRY(given, required("dtype", VKF_ATTRIBUTE_DTYPE));
      VKF_TRY(dtype, to_dtype(given->integer));
      type.dtype = dtype;
    }
    if (generates || op.shape_is_attribute) {
      VKF_TRY(given, required("shape", VKF_ATTRIBUTE_SHAPE));
      VKF_TRY(shape, to_shape(given->shape, given->count));
      type.shape = std::move(shape);
    }
    if (op.name == "random") type.dtype = DType::u32;
    return type;
  }

  /// Nothing may be left over: a misspelt name would otherwise go unnoticed.
  Result<void> finish() const {
    for (std::size_t i = 0; i < given_.size(); ++i) {
      if (used_[i]) continue;
      VKF_CHECK_OK(need(given_[i].name, "name of an attribute"));
      return invalid("The op '{}' has no attribute '{}', or it is given twice.", op_, given_[i].name);
    }
    return {};
  }

 private:
  const vkf_attribute* find(std::string_view name) {
    for (std::size_t i = 0; i < given_.size(); ++i) {
      if (used_[i] || given_[i].name == nullptr || given_[i].name != name) continue;
      used_[i] = true;
      return &given_[i];
    }
    return nullptr;
  }

  Result<void> check_kind(const vkf_attribute& attribute, vkf_attribute_kind kind) const {
    constexpr const char* names[] = {"an integer", "a list of integers", "a text", "a dtype",
                                     "a shape",    "a real number"};
    if (attribute.kind == kind) return {};
    return invalid("The attribute '{}' of '{}' is not {}, which it must be.", attribute.name, op_,
                   names[static_cast<int>(kind)]);
  }

  Result<const vkf_attribute*> required(const char* name, vkf_attribute_kind kind) {
    const vkf_attribute* given = find(name);
    if (given == nullptr) return invalid("The op '{}' needs the attribute '{}'.", op_, name);
    VKF_CHECK_OK(check_kind(*given, kind));
    return given;
  }

  template <typename T>
  Result<T> narrowed(std::string_view name, std::int64_t value) const {
    // The one attribute with 64 bits and no sign, `seed`, takes any.
    if (sizeof(T) < sizeof value && !std::in_range<T>(value))
      return invalid("The attribute '{}' of '{}' cannot be {}.", name, op_, value);
    return static_cast<T>(value);
  }

  template <typename T>
  Result<void> fill(std::string_view name, T& value) {
    const vkf_attribute* given = find(name);
    if (given == nullptr) return {};
    VKF_CHECK_OK(check_kind(*given, VKF_ATTRIBUTE_INTEGER));
    VKF_TRY(number, narrowed<T>(name, given->integer));
    value = number;
    return {};
  }

  Result<void> fill(std::string_view name, bool& value) {
    const vkf_attribute* given = find(name);
    if (given == nullptr) return {};
    VKF_CHECK_OK(check_kind(*given, VKF_ATTRIBUTE_INTEGER));
    if (given->integer != 0 && given->integer != 1)
      return invalid("The attribute '{}' of '{}' is 0 or 1, but {} is given.", name, op_, given->integer);
    value = given->integer == 1;
    return {};
  }

  template <typename T>
  Result<void> fill(std::string_view name, std::vector<T>& values) {
    const vkf_attribute* given = find(name);
    if (given == nullptr) return {};
    VKF_CHECK_OK(check_kind(*given, VKF_ATTRIBUTE_INTEGERS));
    VKF_TRY(numbers, list(given->integers, given->count, "integers of an attribute"));
    for (const std::int64_t number : numbers) {
      VKF_TRY(value, narrowed<T>(name, number));
      values.push_back(value);
    }
    return {};
  }

  Result<void> fill(std::string_view name, std::string& text) {
    const vkf_attribute* given = find(name);
    if (given == nullptr) return {};
    VKF_CHECK_OK(check_kind(*given, VKF_ATTRIBUTE_TEXT));
    VKF_CHECK_OK(need(given->text, "text of an attribute"));
    text = given->text;
    return {};
  }

  Result<void> fill(std::string_view name, ir::ScatterMode& mode) {
    const vkf_attribute* given = find(name);
    if (given == nullptr) return {};
    VKF_CHECK_OK(check_kind(*given, VKF_ATTRIBUTE_TEXT));
    VKF_CHECK_OK(need(given->text, "text of an attribute"));
    const auto named = ir::scatter_mode_named(given->text);
    if (!named) return invalid("'{}' is not a mode of scatter: set, add, mul, max or min.", given->text);
    mode = *named;
    return {};
  }

  std::string_view op_;
  std::span<const vkf_attribute> given_;
  std::vector<bool> used_;
};

}  // namespace

Result<const ops::OpRow*> find_op(const vkf_op* op, std::size_t operands) {
  VKF_CHECK_OK(need(op, "op"));
  VKF_CHECK_OK(need(op->name, "name of the op"));
  const ops::OpRow* row = ops::find(op->name);
  if (row == nullptr) return invalid("'{}' is not the name of an op.", op->name);
  if (row->cls == ops::OpClass::input || row->cls == ops::OpClass::constant)
    return invalid("An op '{}' has a function of its own, vkf_{}().", op->name, op->name);
  if (row->arity == 0 && operands > 0) return invalid("'{}' takes no operands, but {} are given.", op->name, operands);
  return row;
}

Result<ir::Node> to_node(const ops::OpRow* row, const vkf_op& op) {
  VKF_TRY(given, list(op.attributes, op.attribute_count, "attributes"));
  Attributes reader(row->name, given);
  ir::Node node;
  node.op = row;
  VKF_TRY(payload, reader.payload(*row));
  node.payload = std::move(payload);
  VKF_TRY(type, reader.type(*row));
  node.type = std::move(type);
  VKF_CHECK_OK(reader.finish());
  return node;
}

Result<ir::NodeId> apply(vkf_graph& to, const vkf_op* op, const vkf_value* operands, std::size_t operand_count) {
  ir::Graph& graph = to.graph;
  const ops::OpRow* row = nullptr;
  if (!is_composite(op)) {
    VKF_TRY(found, find_op(op, operand_count));
    row = found;
  }
  VKF_TRY(values, list(operands, operand_count, "operands"));
  for (const vkf_value value : values) {
    if (value >= graph.size())
      return invalid("The operand {} of '{}' does not exist: the graph has {} values.", value, op->name, graph.size());
  }
  if (row == nullptr) {
    VKF_TRY(attributes, composite_attributes(*op));
    return api::append_composite(graph, op->name, values, attributes, &to.constants);
  }
  VKF_TRY(node, to_node(row, *op));
  return ir::append_copy(graph, node, {values.begin(), values.end()});
}

namespace {

/// Adds to a graph and tells which value it became.
template <typename Call>
vkf_status add(vkf_graph* graph, vkf_value* added, Call&& call) noexcept {
  return guarded([&]() -> Result<void> {
    VKF_CHECK_OK(need(graph, "graph"));
    VKF_CHECK_OK(need(added, "place for the new value"));
    VKF_TRY(id, call(graph->graph));
    *added = id;
    return {};
  });
}

/// Writes the first `capacity` elements to `to`.
void write_dims(const Shape& shape, vkf_dim* to, std::size_t capacity) {
  for (std::size_t i = 0; i < std::min(capacity, shape.size()); ++i) {
    to[i] = vkf_size(shape[i].size());
    if (!shape[i].is_symbol()) continue;
    const DimFacts facts = shape[i].facts();
    to[i] = {0, shape[i].name().c_str(), facts.min, facts.max, facts.multiple_of};
  }
}

}  // namespace

Result<void> report_type(DType dtype, const Shape& shape, vkf_type_report* report) {
  VKF_CHECK_OK(need(report, "place for the type"));
  VKF_CHECK_OK(list(report->shape, report->capacity, "dimensions"));
  report->dtype = static_cast<vkf_dtype>(dtype);
  report->rank = shape.size();
  write_dims(shape, report->shape, report->capacity);
  return {};
}

}  // namespace vkfuse::c

using namespace vkfuse;  // NOLINT: this file is the C side

vkf_status vkf_graph_create(const char* name, vkf_graph** made) {
  return c::make(made, "graph", [&]() -> Result<vkf_graph> {
    vkf_graph graph;
    if (name != nullptr) graph.graph.name = name;
    return graph;
  });
}

vkf_status vkf_graph_parse(const char* text, vkf_graph** made) {
  return vkf_graph_parse_with(text, VKF_PARSE_DEFAULT, made);
}

vkf_status vkf_graph_parse_with(const char* text, uint32_t flags, vkf_graph** made) {
  return c::make(made, "graph", [&]() -> Result<vkf_graph> {
    VKF_CHECK_OK(c::need(text, "text"));
    if ((flags & ~static_cast<uint32_t>(VKF_PARSE_ALLOW_CUSTOM)) != 0)
      return invalid("The flags of vkf_graph_parse_with are {:#x}; the only one is VKF_PARSE_ALLOW_CUSTOM.", flags);
    VKF_TRY(graph, ir::parse(text, {.allow_custom = (flags & VKF_PARSE_ALLOW_CUSTOM) != 0}));
    return vkf_graph{std::move(graph), {}};
  });
}

void vkf_graph_free(vkf_graph* graph) { delete graph; }

vkf_status vkf_graph_text(const vkf_graph* graph, char** made) {
  if (made != nullptr) *made = nullptr;
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(graph, "graph"));
    VKF_CHECK_OK(c::need(made, "place for the text"));
    VKF_CHECK_OK(ir::verify(graph->graph));
    VKF_TRY(copy, c::copy_of(ir::print(graph->graph)));
    *made = copy;
    return {};
  });
}

vkf_status vkf_input(vkf_graph* graph, const char* name, const vkf_type* type, vkf_value* added) {
  return c::add(graph, added, [&](ir::Graph& to) -> Result<ir::NodeId> {
    VKF_CHECK_OK(c::need(name, "name of the input"));
    VKF_TRY(known, c::to_type(type));
    return to.add_input(name, std::move(known));
  });
}

vkf_status vkf_constant(vkf_graph* graph, const vkf_type* type, const void* data, size_t bytes, vkf_value* added) {
  return c::add(graph, added, [&](ir::Graph& to) -> Result<ir::NodeId> {
    VKF_TRY(known, c::to_type(type));
    VKF_TRY(given, c::list(static_cast<const std::byte*>(data), bytes, "elements"));
    return to.add_constant(std::move(known),
                           std::make_shared<const std::vector<std::byte>>(given.begin(), given.end()));
  });
}

vkf_status vkf_scalar(vkf_graph* graph, vkf_dtype dtype, double value, vkf_value* added) {
  return c::add(graph, added, [&](ir::Graph& to) -> Result<ir::NodeId> {
    VKF_TRY(known, c::to_dtype(static_cast<int>(dtype)));
    return to.add_scalar(known, value);
  });
}

vkf_status vkf_apply(vkf_graph* graph, const vkf_op* op, const vkf_value* operands, size_t operand_count,
                     vkf_value* added) {
  return c::add(graph, added, [&](ir::Graph&) { return c::apply(*graph, op, operands, operand_count); });
}

vkf_status vkf_output(vkf_graph* graph, const char* name, vkf_value value) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(graph, "graph"));
    VKF_CHECK_OK(c::need(name, "name of the output"));
    if (value >= graph->graph.size())
      return invalid("The value {} does not exist: the graph has {} values.", value, graph->graph.size());
    return graph->graph.add_output(name, value);
  });
}

vkf_status vkf_value_type(const vkf_graph* graph, vkf_value value, vkf_type_report* report) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(graph, "graph"));
    if (value >= graph->graph.size())
      return invalid("The value {} does not exist: the graph has {} values.", value, graph->graph.size());
    const TensorType& type = graph->graph.node(value).type;
    return c::report_type(type.dtype, type.shape, report);
  });
}

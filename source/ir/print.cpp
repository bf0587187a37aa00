// The text form, written. Grammar in docs/text-ir.md; parse.cpp reads exactly this.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "ir/structured.hpp"

namespace vkfuse::ir {

namespace {

constexpr std::size_t kMaxListed = 16;  // longer constants are printed as hex bytes

std::string quoted(const std::string& text) {
  std::string all = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      all += '\\';
      all += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      all += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      all += c;
    }
  }
  return all + "\"";
}

/// A symbol's name, quoted where it is not one word that starts like a name.
std::string symbol(const std::string& name) {
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' || c == '+';
  };
  const bool starts = !name.empty() && (std::isalpha(static_cast<unsigned char>(name[0])) != 0 || name[0] == '_');
  return starts && std::all_of(name.begin(), name.end(), in_word) ? name : quoted(name);
}

std::string type_text(const TensorType& type) {
  std::string all = std::string(name_of(type.dtype)) + "[";
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    const Dim& dim = type.shape[i];
    all += (i == 0 ? "" : ", ") + (dim.is_symbol() ? symbol(dim.name()) : dim.text());
  }
  return all + "]";
}

std::string element(DType dtype, const std::byte* at) {
  if (!is_float(dtype)) {
    const std::int64_t value = decode_int(dtype, at);
    return dtype == DType::u64 ? fmt::format("{}", static_cast<std::uint64_t>(value)) : fmt::format("{}", value);
  }
  const double value = decode(dtype, at);
  // Shortest text that reads back to the same bits in this dtype.
  return dtype == DType::f64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
}

std::string constant_text(const Node& node) {
  const std::vector<std::byte>& bytes = *std::get<ConstantPayload>(node.payload).bytes;
  const DType dtype = node.type.dtype;
  const std::size_t width = static_cast<std::size_t>(size_of(dtype));
  const std::size_t count = bytes.size() / width;
  bool listed = count <= kMaxListed;
  for (std::size_t i = 0; listed && is_float(dtype) && i < count; ++i) {
    listed = std::isfinite(decode(dtype, bytes.data() + i * width));  // NaN payloads must survive
  }
  std::string all;
  if (listed) {
    all = "{";
    for (std::size_t i = 0; i < count; ++i) all += (i == 0 ? "" : ", ") + element(dtype, bytes.data() + i * width);
    return all + "}";
  }
  all = "0x";
  for (std::byte b : bytes) all += fmt::format("{:02x}", std::to_integer<unsigned>(b));
  return all;
}

template <typename T>
std::string value_text(const T& number) {
  return fmt::format("{}", number);  // a boolean is "true" or "false"
}
template <typename T>
std::string value_text(const std::vector<T>& list) {
  return fmt::format("[{}]", fmt::join(list, ", "));
}
std::string value_text(const std::string& text) { return quoted(text); }
std::string value_text(ScatterMode mode) { return std::string(name_of(mode)); }

std::string attributes(const Node& node) {
  if (const auto* input = std::get_if<InputPayload>(&node.payload)) return " " + quoted(input->name);
  if (std::holds_alternative<ConstantPayload>(node.payload)) return " " + constant_text(node);
  std::string all;
  each_attribute(node.payload, [&all](std::string_view name, const auto& value) {
    all += fmt::format(" {}={}", name, value_text(value));
  });
  return all;
}

void print_dims(const Graph& graph, std::string& all) {
  std::set<std::string> seen;
  for (const Node& node : graph.nodes()) {
    for (const Dim& dim : node.type.shape) {
      if (!dim.is_symbol() || dim.facts() == DimFacts{} || !seen.insert(dim.name()).second) continue;
      const DimFacts facts = dim.facts();
      all += fmt::format("  dim {} min={} max={} multiple={}\n", symbol(dim.name()), facts.min, facts.max,
                         facts.multiple_of);
    }
  }
}

}  // namespace

std::string print(const Graph& graph) {
  std::string all = "graph " + quoted(graph.name) + " {\n";
  print_dims(graph, all);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    all += fmt::format("  %{} = {}{}", id, node.op->name, attributes(node));
    for (NodeId operand : node.operands) all += fmt::format(" %{}", operand);
    all += " : " + type_text(node.type) + "\n";
  }
  for (const Output& output : graph.outputs())
    all += fmt::format("  output {} = %{}\n", quoted(output.name), output.value);
  return all + "}\n";
}

}  // namespace vkfuse::ir

#include "onnx/symbolic_sizes.hpp"

#include <algorithm>
#include <map>

#include "api/tensor_node.hpp"
#include "base/shape.hpp"

namespace vkfuse::onnx {
namespace {

/// Shapes have few entries, and few operators between them and a reshape: what is beyond is not looked at.
constexpr std::int64_t kMostElements = 64;
constexpr int kDeepest = 200;
constexpr int kMostVisits = 10000;

/// A number times symbols. A boolean is 0 or 1.
struct Product {
  std::int64_t factor = 0;
  std::vector<Dim> symbols;  ///< by name; none where the factor is 0

  [[nodiscard]] bool is_number() const { return symbols.empty(); }
  friend bool operator==(const Product&, const Product&) = default;
};
using Element = std::optional<Product>;

Element number(std::optional<std::int64_t> value) { return value ? Element(Product{*value, {}}) : std::nullopt; }

Element times(const Element& a, const Element& b) {
  if (!a || !b) return std::nullopt;
  const auto factor = checked_mul(a->factor, b->factor);
  if (!factor) return std::nullopt;
  Product result{*factor, {}};
  if (*factor == 0) return result;
  result.symbols = a->symbols;
  result.symbols.insert(result.symbols.end(), b->symbols.begin(), b->symbols.end());
  std::ranges::sort(result.symbols, {}, [](const Dim& dim) { return dim.name(); });
  return result;
}

Element plus(const Element& a, const Element& b, std::int64_t sign) {
  if (!a || !b) return std::nullopt;
  if (b->factor == 0) return a;
  const auto signed_b = checked_mul(b->factor, sign);
  if (!signed_b) return std::nullopt;
  if (a->factor == 0) return Product{*signed_b, b->symbols};
  if (a->symbols != b->symbols) return std::nullopt;
  const auto sum = checked_add(a->factor, *signed_b);
  if (!sum) return std::nullopt;
  return *sum == 0 ? Product{} : Product{*sum, a->symbols};
}

/// Where nothing remains: then truncation and rounding down are the same. A size of 0 has no quotient in a sound model.
Element over(const Element& a, const Element& b) {
  if (!a || !b || b->factor == 0 || (a->factor == INT64_MIN && b->factor == -1) || a->factor % b->factor != 0)
    return std::nullopt;
  Product result{a->factor / b->factor, a->symbols};
  for (const Dim& symbol : b->symbols) {
    const auto found = std::ranges::find(result.symbols, symbol);
    if (found == result.symbols.end()) return std::nullopt;
    result.symbols.erase(found);
  }
  return result;
}

/// Whether they are equal, where that does not depend on the symbols: sizes are not negative.
std::optional<bool> are_equal(const Element& a, const Element& b) {
  if (!a || !b) return std::nullopt;
  if (*a == *b) return true;
  if (a->is_number() && b->is_number()) return false;
  const bool apart =
      (a->is_number() && a->factor < 0 && b->factor > 0) || (b->is_number() && b->factor < 0 && a->factor > 0);
  return apart ? std::optional(false) : std::nullopt;
}

class Walk {
 public:
  Element at(const Tensor& tensor, std::int64_t index, int depth = 0) {
    if (depth > kDeepest || ++visits_ > kMostVisits) return std::nullopt;
    const auto key = std::pair(tensor.node().get(), index);
    if (const auto found = found_.find(key); found != found_.end()) return found->second;
    Element element = look(tensor, index, depth + 1);
    found_.emplace(key, element);
    return element;
  }

 private:
  /// One element of a node whose operands are all lists or numbers.
  struct RequestedElement {
    const Tensor::Node& node;
    std::int64_t index = 0;
    int depth = 0;
  };
  using Rule = Element (Walk::*)(const RequestedElement&);

  Element look(const Tensor& tensor, std::int64_t index, int depth);
  Element constant(const Tensor::Node& node, std::int64_t index) const;
  Element counted(const Tensor::Node& node) const;

  /// How an element of the op follows from its operands; null where it is not known.
  static Rule rule_of(std::string_view op);
  /// The element of operand `i` at the same index; of one that is a number, the number.
  Element operand(const RequestedElement& requested, std::size_t i);
  Element copied(const RequestedElement& requested) { return operand(requested, 0); }
  Element sum(const RequestedElement& requested) { return plus(operand(requested, 0), operand(requested, 1), 1); }
  Element difference(const RequestedElement& requested) {
    return plus(operand(requested, 0), operand(requested, 1), -1);
  }
  Element product(const RequestedElement& requested) { return times(operand(requested, 0), operand(requested, 1)); }
  Element quotient(const RequestedElement& requested) { return over(operand(requested, 0), operand(requested, 1)); }
  Element sliced(const RequestedElement& requested);
  Element concatenated(const RequestedElement& requested);
  Element equality(const RequestedElement& requested);
  Element selected(const RequestedElement& requested);
  Element product_of_all(const RequestedElement& requested);
  Element gathered(const RequestedElement& requested);

  std::map<std::pair<const Tensor::Node*, std::int64_t>, Element> found_;
  int visits_ = 0;
};

bool is_list(const Tensor& tensor) {
  return tensor.shape().size() <= 1 && (tensor.shape().empty() || !tensor.shape()[0].is_symbol());
}

Element Walk::constant(const Tensor::Node& node, std::int64_t index) const {
  const ir::Bytes& bytes = std::get<ir::ConstantPayload>(node.payload).bytes;
  const auto at = static_cast<std::size_t>(index) * static_cast<std::size_t>(size_of(node.type.dtype));
  if (at >= bytes->size()) return std::nullopt;
  return number(ir::decode_int(node.type.dtype, bytes->data() + at));
}

/// What size_tensor writes: the sum of as many ones.
Element Walk::counted(const Tensor::Node& node) const {
  const Tensor::Node& ones = *node.operands[0].node();
  if (ones.op->name != "broadcast" || ones.type.shape.size() != 1 || !ones.type.shape[0].is_symbol())
    return std::nullopt;
  const Tensor::Node& one = *ones.operands[0].node();
  if (one.op->name != "constant" || constant(one, 0) != number(1)) return std::nullopt;
  return Product{1, {ones.type.shape[0]}};
}

Element Walk::operand(const RequestedElement& requested, std::size_t i) {
  const Tensor& tensor = requested.node.operands[i];
  const bool is_one = tensor.shape().empty() || tensor.shape()[0] == Dim(1);
  return at(tensor, is_one ? 0 : requested.index, requested.depth);
}

Element Walk::sliced(const RequestedElement& requested) {
  const auto& slice = std::get<ir::SlicePayload>(requested.node.payload);
  if (slice.starts.size() != 1) return operand(requested, 0);
  return at(requested.node.operands[0], slice.starts[0] + requested.index * slice.steps[0], requested.depth);
}

Element Walk::concatenated(const RequestedElement& requested) {
  std::int64_t index = requested.index;
  for (const Tensor& part : requested.node.operands) {
    if (!is_list(part) || part.shape().empty()) return std::nullopt;
    const std::int64_t size = part.shape()[0].size();
    if (index < size) return at(part, index, requested.depth);
    index -= size;
  }
  return std::nullopt;
}

Element Walk::equality(const RequestedElement& requested) {
  const auto equal = are_equal(operand(requested, 0), operand(requested, 1));
  return number(equal ? std::optional<std::int64_t>(*equal ? 1 : 0) : std::nullopt);
}

Element Walk::selected(const RequestedElement& requested) {
  const Element condition = operand(requested, 0);
  if (!condition || !condition->is_number()) return std::nullopt;
  return operand(requested, condition->factor != 0 ? 1 : 2);
}

Element Walk::product_of_all(const RequestedElement& requested) {
  const Tensor& list = requested.node.operands[0];
  const Shape& shape = list.shape();
  Element all = Product{1, {}};
  for (std::int64_t i = 0; i < (shape.empty() ? 1 : std::min(shape[0].size(), kMostElements + 1)); ++i)
    all = times(all, at(list, i, requested.depth));
  return !shape.empty() && shape[0].size() > kMostElements ? std::nullopt : all;
}

Element Walk::gathered(const RequestedElement& requested) {
  const Tensor& list = requested.node.operands[0];
  const Element position = at(requested.node.operands[1], requested.index, requested.depth);
  if (!position || !position->is_number() || list.shape().empty()) return std::nullopt;
  return at(list, std::clamp<std::int64_t>(position->factor, 0, list.shape()[0].size() - 1), requested.depth);
}

Walk::Rule Walk::rule_of(std::string_view op) {
  struct Row {
    std::string_view op;
    Rule rule;
  };
  static constexpr Row kRows[] = {
      {"reshape", &Walk::copied},  {"broadcast", &Walk::copied},    {"cast", &Walk::copied},
      {"slice", &Walk::sliced},    {"concat", &Walk::concatenated}, {"add", &Walk::sum},
      {"sub", &Walk::difference},  {"mul", &Walk::product},         {"div", &Walk::quotient},
      {"eq", &Walk::equality},     {"select", &Walk::selected},     {"reduce_prod", &Walk::product_of_all},
      {"gather", &Walk::gathered},
  };
  const auto* const row = std::ranges::find(kRows, op, &Row::op);
  return row == std::end(kRows) ? nullptr : row->rule;
}

Element Walk::look(const Tensor& tensor, std::int64_t index, int depth) {
  const Tensor::Node& node = *tensor.node();
  const std::string_view op = node.op->name;
  const DType dtype = node.type.dtype;
  // Narrower integers may wrap, and floats round.
  if (dtype != DType::i64 && dtype != DType::i32 && dtype != DType::boolean) return std::nullopt;
  if (op == "constant") return constant(node, index);
  if (op == "reduce_sum") return counted(node);
  // Lists and numbers alone: an element of one is an element of its operand.
  if (node.operands.empty() || !std::ranges::all_of(node.operands, is_list)) return std::nullopt;
  const Rule rule = rule_of(op);
  return rule != nullptr ? (this->*rule)({node, index, depth}) : std::nullopt;
}

}  // namespace

Tensor size_tensor(const Dim& dim) {
  if (!dim.is_symbol()) return Tensor::scalar_int(DType::i64, dim.size());
  return Tensor::scalar_int(DType::i64, 1).broadcast_to({dim}).sum();
}

std::vector<std::optional<Dim>> symbolic_elements(const Tensor& tensor) {
  const std::int64_t count = tensor.shape().empty() ? 1 : tensor.shape()[0].size();
  if (!is_list(tensor) || count > kMostElements) return {};
  Walk walk;
  std::vector<std::optional<Dim>> elements;
  for (std::int64_t i = 0; i < count; ++i) {
    const Element element = walk.at(tensor, i);
    elements.emplace_back();
    if (element && element->is_number()) elements.back() = Dim(element->factor);
    if (element && element->factor == 1 && element->symbols.size() == 1) elements.back() = element->symbols[0];
  }
  return elements;
}

}  // namespace vkfuse::onnx

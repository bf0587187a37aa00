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
  Element look(const Tensor& tensor, std::int64_t index, int depth);
  Element constant(const Tensor::Node& node, std::int64_t index) const;
  Element counted(const Tensor::Node& node) const;
  Element joined(const Tensor::Node& node, std::int64_t index, int depth);

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

Element Walk::joined(const Tensor::Node& node, std::int64_t index, int depth) {
  for (const Tensor& part : node.operands) {
    if (!is_list(part) || part.shape().empty()) return std::nullopt;
    const std::int64_t size = part.shape()[0].size();
    if (index < size) return at(part, index, depth);
    index -= size;
  }
  return std::nullopt;
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
  const auto operand = [&](std::size_t i) {
    const Shape& shape = node.operands[i].shape();
    const bool is_one = shape.empty() || shape[0] == Dim(1);
    return at(node.operands[i], is_one ? 0 : index, depth);
  };
  if (op == "reshape" || op == "broadcast" || op == "cast") return operand(0);
  if (op == "slice") {
    const auto& slice = std::get<ir::SlicePayload>(node.payload);
    return slice.starts.size() == 1 ? at(node.operands[0], slice.starts[0] + index * slice.steps[0], depth)
                                    : operand(0);
  }
  if (op == "concat") return joined(node, index, depth);
  if (op == "add") return plus(operand(0), operand(1), 1);
  if (op == "sub") return plus(operand(0), operand(1), -1);
  if (op == "mul") return times(operand(0), operand(1));
  if (op == "div") return over(operand(0), operand(1));
  if (op == "eq") {
    const auto equal = are_equal(operand(0), operand(1));
    return number(equal ? std::optional<std::int64_t>(*equal ? 1 : 0) : std::nullopt);
  }
  if (op == "select") {
    const Element condition = operand(0);
    if (!condition || !condition->is_number()) return std::nullopt;
    return operand(condition->factor != 0 ? 1 : 2);
  }
  if (op == "reduce_prod") {
    const Shape& shape = node.operands[0].shape();
    Element product = Product{1, {}};
    for (std::int64_t i = 0; i < (shape.empty() ? 1 : std::min(shape[0].size(), kMostElements + 1)); ++i)
      product = times(product, at(node.operands[0], i, depth));
    return !shape.empty() && shape[0].size() > kMostElements ? std::nullopt : product;
  }
  if (op == "gather") {
    const Element position = at(node.operands[1], index, depth);
    if (!position || !position->is_number() || node.operands[0].shape().empty()) return std::nullopt;
    return at(node.operands[0], std::clamp<std::int64_t>(position->factor, 0, node.operands[0].shape()[0].size() - 1),
              depth);
  }
  return std::nullopt;
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

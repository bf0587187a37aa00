// Einsum: diagonals, transpositions and sums over one operand's axes, then one contraction for each further operand.
#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "onnx/compose.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/text.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::onnx {
namespace {

/// One axis of a term: a letter, or a digit for the axes that an ellipsis stands for ('0' innermost).
using Labels = std::string;

struct Equation {
  std::vector<Labels> operands;
  Labels result;
};

Error bad_equation(std::string_view equation) {
  return invalid("Attribute 'equation' is {}, which is not an equation of {}.", in_quotes(equation),
                 "letters, commas and one ellipsis per term");
}

/// The labels of one term; its ellipsis stands for `hidden` axes.
Result<Labels> labels_of(std::string_view term, std::size_t hidden, std::string_view equation) {
  Labels labels;
  bool has_ellipsis = false;
  for (std::size_t i = 0; i < term.size(); ++i) {
    const char c = term[i];
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      labels += c;
    } else if (term.substr(i, 3) == "..." && !has_ellipsis && hidden < 10) {
      for (std::size_t axis = hidden; axis-- > 0;) labels += static_cast<char>('0' + static_cast<int>(axis));
      has_ellipsis = true;
      i += 2;
    } else {
      return bad_equation(equation);
    }
  }
  return labels;
}

std::vector<std::string_view> terms_of(std::string_view list) {
  std::vector<std::string_view> terms;
  for (std::size_t comma = 0; comma != std::string_view::npos;) {
    comma = list.find(',');
    terms.push_back(list.substr(0, comma));
    list.remove_prefix(std::min(list.size(), comma == std::string_view::npos ? list.size() : comma + 1));
  }
  return terms;
}

/// Without an arrow: the ellipsis, then the letters that occur once, in alphabetical order.
Labels implied_result(const std::vector<Labels>& operands, std::size_t hidden) {
  std::map<char, int> counts;
  for (const Labels& labels : operands) {
    for (const char label : labels) ++counts[label];
  }
  Labels result;
  for (std::size_t axis = hidden; axis-- > 0;) result += static_cast<char>('0' + static_cast<int>(axis));
  for (const auto& [label, count] : counts) {
    if (count == 1 && (label < '0' || label > '9')) result += label;
  }
  return result;
}

Result<Equation> equation_of(const NodeContext& node) {
  VKF_TRY(stated, node.attributes().text("equation", ""));
  std::string text(stated);
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  const std::vector<std::string_view> terms = terms_of(std::string_view(text).substr(0, arrow));
  if (static_cast<int>(terms.size()) != node.inputs()) {
    return invalid("Attribute 'equation' is {}, of {} terms; the node has {} operands.", in_quotes(stated),
                   terms.size(), node.inputs());
  }
  Equation equation;
  std::size_t most_hidden = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const std::size_t rank = node.tensor(static_cast<int>(i)).shape().size();
    const std::size_t dots = terms[i].find("...") != std::string_view::npos ? 3 : 0;
    const std::size_t letters = terms[i].size() - dots;
    if (dots == 0 ? letters != rank : letters > rank) {
      return invalid("Term {} of the equation {} has {} letters; operand {} has rank {}.", i, in_quotes(stated),
                     letters, i, rank);
    }
    most_hidden = std::max(most_hidden, dots == 0 ? 0 : rank - letters);
    VKF_TRY(labels, labels_of(terms[i], rank - letters, stated));
    equation.operands.push_back(std::move(labels));
  }
  if (arrow == std::string::npos) {
    equation.result = implied_result(equation.operands, most_hidden);
    return equation;
  }
  VKF_TRY(labels, labels_of(std::string_view(text).substr(arrow + 2), most_hidden, stated));
  equation.result = std::move(labels);
  return equation;
}

/// A letter that occurs twice is the diagonal of its two axes: every (n + 1)-th element of them as one.
Result<Tensor> diagonal(Tensor x, Labels& labels, Shape& shape) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::size_t twin = labels.find(labels[i], i + 1);
    if (twin == Labels::npos) continue;
    if (!(shape[i] == shape[twin])) {
      return invalid("Letter '{}' stands for dimensions {} and {} of one operand.", labels[i], shape[i].text(),
                     shape[twin].text());
    }
    VKF_TRY(size, static_size(shape, i));
    std::vector<int> order;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (axis != i && axis != twin) order.push_back(static_cast<int>(axis));
    }
    order.push_back(static_cast<int>(i));
    order.push_back(static_cast<int>(twin));
    x = x.permute(order);
    const char letter = labels[i];
    labels.erase(twin, 1);
    labels.erase(i, 1);
    labels += letter;
    const Dim dim = shape[i];
    shape.erase(shape.begin() + static_cast<int>(twin));
    shape.erase(shape.begin() + static_cast<int>(i));
    Shape flat = shape;
    flat.push_back(size * size);
    shape.push_back(dim);
    x = x.reshape(flat).slice(-1, 0, size * size, size + 1);
    i = static_cast<std::size_t>(-1);  // the letters have moved
  }
  return x;
}

/// A tensor and what its axes are called.
struct Term {
  Tensor tensor;
  Labels labels;

  [[nodiscard]] int axis(char label) const {
    const std::size_t at = labels.find(label);
    return at == Labels::npos ? -1 : static_cast<int>(at);
  }
  [[nodiscard]] const Dim& size(char label) const { return tensor.shape()[labels.find(label)]; }
  void remove(char label) { labels.erase(labels.find(label), 1); }
};

/// Sums over the letters that nobody else has.
Term summed(Term term, const Labels& requested) {
  std::vector<int> axes;
  Labels left;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (requested.find(term.labels[i]) != Labels::npos) {
      left += term.labels[i];
    } else {
      axes.push_back(static_cast<int>(i));
    }
  }
  if (axes.empty()) return term;
  return {term.tensor.sum(axes), left};
}

/// Letters of two terms; where one has a dimension of 1 and the other has not, the one loses it: it broadcasts.
void drop_stretched(Term& a, Term& b) {
  for (const char label : Labels(a.labels)) {
    if (b.axis(label) < 0 || a.size(label) == b.size(label)) continue;
    Term& one = a.size(label) == Dim(1) ? a : b;
    if (one.size(label) != Dim(1)) continue;  // the product refuses it
    one.tensor = one.tensor.squeeze(one.axis(label));
    one.remove(label);
  }
}

/// The term's axes in the order of these labels, 1 where it has none.
Tensor lined_up(const Term& term, const Labels& labels) {
  std::vector<int> order;
  Shape shape;
  for (const char label : labels) {
    const int axis = term.axis(label);
    if (axis >= 0) order.push_back(axis);
    shape.push_back(axis < 0 ? Dim(1) : term.size(label));
  }
  return term.tensor.permute(order).reshape(shape);
}

/// The product of two terms, summed over the letters that only these two have.
Term product_of(Term a, Term b, const Labels& requested) {
  drop_stretched(a, b);
  const auto wanted_beside = [&](const Term& other) { return requested + other.labels; };
  a = summed(std::move(a), wanted_beside(b));
  b = summed(std::move(b), wanted_beside(a));
  DotAxes axes;
  Labels labels, left_of_a, left_of_b;
  for (const char label : a.labels) {
    if (b.axis(label) < 0) {
      left_of_a += label;
      continue;
    }
    const bool stays = requested.find(label) != Labels::npos;
    (stays ? axes.batch_a : axes.contract_a).push_back(a.axis(label));
    (stays ? axes.batch_b : axes.contract_b).push_back(b.axis(label));
    if (stays) labels += label;
  }
  for (const char label : b.labels) {
    if (a.axis(label) < 0) left_of_b += label;
  }
  labels += left_of_a + left_of_b;
  if (axes.contract_a.empty()) return {lined_up(a, labels) * lined_up(b, labels), labels};
  return {dot_general(a.tensor, b.tensor, axes), labels};
}

Result<void> check_result(const Equation& equation, std::string_view stated) {
  for (std::size_t i = 0; i < equation.result.size(); ++i) {
    const char label = equation.result[i];
    const bool occurs = std::ranges::any_of(equation.operands,
                                            [&](const Labels& labels) { return labels.find(label) != Labels::npos; });
    if (!occurs || equation.result.find(label, i + 1) != Labels::npos) return bad_equation(stated);
  }
  return {};
}

}  // namespace

Result<Outputs> import_einsum(const NodeContext& node) {
  VKF_TRY(stated, node.attributes().text("equation", ""));
  VKF_TRY(equation, equation_of(node));
  VKF_CHECK_OK(check_result(equation, stated));
  std::optional<Term> product;
  for (std::size_t i = 0; i < equation.operands.size(); ++i) {
    Labels labels = equation.operands[i];
    Shape shape = node.tensor(static_cast<int>(i)).shape();
    VKF_TRY(x, diagonal(node.tensor(static_cast<int>(i)), labels, shape));
    Labels requested = equation.result;  // and what operands to come have
    for (std::size_t later = i + 1; later < equation.operands.size(); ++later) requested += equation.operands[later];
    Term term{x, labels};
    product =
        product ? product_of(*std::move(product), std::move(term), requested) : summed(std::move(term), requested);
    if (!product->tensor.valid()) return Outputs{product->tensor};
  }
  std::vector<int> order;
  for (const char label : equation.result) order.push_back(product->axis(label));
  return Outputs{product->tensor.permute(order)};
}

}  // namespace vkfuse::onnx

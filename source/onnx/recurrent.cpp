// RNN, GRU and LSTM, one step after the other: the sequence has a known, moderate length. Longer ones are run in rounds
// (long_recurrence.hpp).
#include <algorithm>
#include <map>

#include "onnx/compose.hpp"
#include "onnx/long_recurrence.hpp"
#include "onnx/named_activations.hpp"
#include "onnx/operands.hpp"
#include "onnx/operators.hpp"
#include "onnx/quantization.hpp"
#include "onnx/text.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::onnx {
namespace {

/// What the three operators share, and the operands of one direction.
struct Cell {
  std::int64_t gates = 1, hidden = 0, steps = 0;
  Dim batch = 1;
  double clip = 0;
  bool input_forget = false, linear_before_reset = false;
  bool rounds = false;  ///< inputs and states are rounded to 8 bits before products, by their range
};
struct Direction {
  std::vector<Activation> act;
  Tensor w, r;                           ///< [gates * hidden, inputs], [gates * hidden, hidden]
  std::optional<Tensor> bias_w, bias_r;  ///< [gates * hidden]
  std::optional<Tensor> peepholes;       ///< [3 * hidden]
  Tensor h, c;                           ///< [batch, hidden]; c of LSTM alone
  bool is_at_rest = false;               ///< h is 0: the first step has no product with it
};

/// The state after one step: `product` is x W^T + the bias of W, [batch, gates * hidden].
using Step = void (*)(const Cell& cell, Direction& direction, const Tensor& product);

Tensor clipped(const Cell& cell, const Tensor& x) {
  return cell.clip > 0 ? op("min", op("max", x, -cell.clip), cell.clip) : x;
}

/// Columns of one gate.
Tensor gate(const Cell& cell, const Tensor& all, std::int64_t number) {
  return all.slice(-1, number * cell.hidden, (number + 1) * cell.hidden);
}

/// h R^T and the bias of R, for the rows of R from `first` up to `last`; `h` is the direction's, or made of it.
Tensor recurrence(const Cell& cell, const Direction& d, const Tensor& h, std::int64_t first, std::int64_t last) {
  const Tensor product = d.is_at_rest
                             ? filled({cell.batch, last - first}, Tensor::scalar(h.dtype(), 0))
                             : dot_general(h, d.r.slice(0, first, last), {.contract_a = {1}, .contract_b = {1}});
  return d.bias_r ? product + d.bias_r->slice(0, first, last) : product;
}

void rnn_step(const Cell& cell, Direction& d, const Tensor& product) {
  d.h = d.act[0](clipped(cell, product + recurrence(cell, d, d.h, 0, cell.hidden)));
}

void gru_step(const Cell& cell, Direction& d, const Tensor& product) {
  const std::int64_t z_and_r = 2 * cell.hidden, all = 3 * cell.hidden;
  const Tensor sum = product.slice(1, 0, z_and_r) + recurrence(cell, d, d.h, 0, z_and_r);
  const Tensor z = d.act[0](clipped(cell, gate(cell, sum, 0)));
  const Tensor reset = d.act[0](clipped(cell, gate(cell, sum, 1)));
  const Tensor recurrent = cell.linear_before_reset ? reset * recurrence(cell, d, d.h, z_and_r, all)
                                                    : recurrence(cell, d, reset * d.h, z_and_r, all);
  const Tensor candidate = d.act[1](clipped(cell, gate(cell, product, 2) + recurrent));
  d.h = (1.0 - z) * candidate + z * d.h;
}

void lstm_step(const Cell& cell, Direction& d, const Tensor& product) {
  // A product for each of the gates i, o, f, c: what they make of it then is computed where the product is.
  const Tensor h = cell.rounds && !d.is_at_rest ? in_dynamic_steps(d.h, dynamic_steps(d.h)) : d.h;
  const auto gate_sum = [&](std::int64_t number) {
    return gate(cell, product, number) + recurrence(cell, d, h, number * cell.hidden, (number + 1) * cell.hidden);
  };
  const auto peeped = [&](std::int64_t number, const Tensor& c) {
    const Tensor plain = gate_sum(number);
    return clipped(cell, d.peepholes ? plain + gate(cell, *d.peepholes, number) * c : plain);
  };
  const Tensor i = d.act[0](peeped(0, d.c));
  const Tensor f = cell.input_forget ? 1.0 - i : d.act[0](peeped(2, d.c));
  d.c = f * d.c + i * d.act[1](clipped(cell, gate_sum(3)));
  const Tensor o = d.act[0](peeped(1, d.c));
  d.h = o * d.act[2](d.c);
}

/// The activations of every direction, each with its numbers.
Result<std::vector<Activation>> activations_of(const NodeContext& node,
                                               std::initializer_list<std::string_view> defaults,
                                               std::size_t directions) {
  VKF_TRY(stated, node.attributes().texts("activations"));
  VKF_TRY(alphas, node.attributes().reals("activation_alpha"));
  VKF_TRY(betas, node.attributes().reals("activation_beta"));
  if (stated.empty()) {
    for (std::size_t i = 0; i < directions; ++i) stated.insert(stated.end(), defaults.begin(), defaults.end());
  }
  // RNN's own default, which ONNX Runtime writes down, names one for each of two directions also where there is one.
  if (defaults.size() * directions == 1 && stated == std::vector<std::string_view>{"Tanh", "Tanh"}) stated.pop_back();
  if (stated.size() != defaults.size() * directions) {
    return invalid("Attribute 'activations' names {} functions; {} are needed.", stated.size(),
                   defaults.size() * directions);
  }
  std::vector<Activation> result;
  std::size_t next_alpha = 0, next_beta = 0;  // functions without a number take none from the lists
  for (const std::string_view name : stated) {
    VKF_TRY(made, find_activation(name, "activations"));
    if (made.takes_alpha && next_alpha < alphas.size()) made.alpha = alphas[next_alpha++];
    if (made.takes_beta && next_beta < betas.size()) made.beta = betas[next_beta++];
    result.push_back(made);
  }
  return result;
}

/// An optional operand's part of one direction, or nothing.
std::optional<Tensor> part_of(const NodeContext& node, int operand, int direction, int axis = 0) {
  if (!node.has(operand)) return std::nullopt;
  return node.tensor(operand).select(axis, direction);
}

Result<void> check_shape(const NodeContext& node, int operand, const Shape& requested) {
  if (!node.has(operand) || node.tensor(operand).shape() == requested) return {};
  return invalid("Operand {} of operator '{}' has the shape {}; it must have {}.", operand, node.row().name,
                 to_text(node.tensor(operand).shape()), to_text(requested));
}

/// One operator on one node.
class Recurrent {
 public:
  Recurrent(const NodeContext& node, std::int64_t gates, Step step, bool rounds = false) : node_(node), step_(step) {
    cell_.gates = gates;
    cell_.rounds = rounds;
  }

  Result<Outputs> run(std::initializer_list<std::string_view> activations) {
    VKF_CHECK_OK(read(activations.size() > 2));
    VKF_TRY(all, activations_of(node_, activations, static_cast<std::size_t>(directions_)));
    std::vector<Tensor> sequences, hidden, cells;
    for (int i = 0; i < directions_; ++i) {
      Direction direction = direction_of(i);
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(activations.size()) * i;
      direction.act.assign(first, first + static_cast<std::ptrdiff_t>(activations.size()));
      sequences.push_back(sequence_of(direction, i == 1 || is_reverse_).unsqueeze(batch_first_ ? 2 : 1));
      hidden.push_back(direction.h.unsqueeze(batch_first_ ? 1 : 0));
      if (is_lstm_) cells.push_back(direction.c.unsqueeze(batch_first_ ? 1 : 0));
    }
    // [steps, directions, batch, hidden], or [batch, steps, directions, hidden].
    const int side = batch_first_ ? 1 : 0;
    Outputs outputs{concat(sequences, batch_first_ ? 2 : 1), concat(hidden, side)};
    if (is_lstm_) outputs.emplace_back(concat(cells, side));
    return outputs;
  }

 private:
  Result<void> read(bool is_lstm);
  Result<void> check_operands();
  Direction direction_of(int number) const;
  Tensor sequence_of(Direction& direction, bool is_reverse) const;
  DynamicSteps steps_of(const Tensor& x) const;
  [[nodiscard]] Tensor initial(int operand, int direction) const {
    const auto given = part_of(node_, operand, direction, batch_first_ ? 1 : 0);
    return given ? *given : filled({cell_.batch, cell_.hidden}, Tensor::scalar(node_.dtype(), 0));
  }

  const NodeContext& node_;
  Step step_;
  Cell cell_;
  int directions_ = 1;
  bool is_reverse_ = false, batch_first_ = false, is_lstm_ = false;
};

Result<void> Recurrent::read(bool is_lstm) {
  is_lstm_ = is_lstm;
  const Attributes& attributes = node_.attributes();
  VKF_TRY(direction, attributes.text("direction", "forward"));
  VKF_TRY(layout, attributes.integer("layout", 0));
  VKF_TRY(clip, attributes.real("clip", 0));
  VKF_TRY(input_forget, attributes.integer("input_forget", 0));
  VKF_TRY(linear, attributes.integer("linear_before_reset", 0));
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return invalid("Attribute 'direction' is {}; it must be 'forward', 'reverse' or 'bidirectional'.",
                   in_quotes(direction));
  }
  directions_ = direction == "bidirectional" ? 2 : 1;
  is_reverse_ = direction == "reverse";
  batch_first_ = layout != 0;
  cell_.clip = clip;
  cell_.input_forget = input_forget != 0;
  cell_.linear_before_reset = linear != 0;
  return check_operands();
}

Result<void> Recurrent::check_operands() {
  for (const int operand : {recurrent_operand::kInput, recurrent_operand::kWeights, recurrent_operand::kRecurrence}) {
    const std::size_t rank = node_.tensor(operand).shape().size();
    if (rank != 3)
      return invalid("Operand {} of operator '{}' has rank {}; it must be 3.", operand, node_.row().name, rank);
  }
  const Shape& x = node_.tensor(recurrent_operand::kInput).shape();
  VKF_TRY(steps, static_size(x, batch_first_ ? 1 : 0));
  VKF_TRY(hidden, static_size(node_.tensor(recurrent_operand::kRecurrence).shape(), 2));
  VKF_TRY(stated, node_.attributes().integer("hidden_size", hidden));
  if (stated != hidden)
    return invalid("Attribute 'hidden_size' is {}; the recurrence weights have {}.", stated, hidden);
  if (steps < 1 || steps > node_.most_steps())
    return unsupported("A sequence of {} steps is not supported; it may have 1 to {}.", steps, node_.most_steps());
  cell_.steps = steps;
  cell_.hidden = hidden;
  cell_.batch = x[batch_first_ ? 0 : 1];
  const Dim rows = cell_.gates * hidden;
  VKF_CHECK_OK(check_shape(node_, recurrent_operand::kWeights, {directions_, rows, x[2]}));
  VKF_CHECK_OK(check_shape(node_, recurrent_operand::kRecurrence, {directions_, rows, hidden}));
  VKF_CHECK_OK(check_shape(node_, recurrent_operand::kBias, {directions_, 2 * cell_.gates * hidden}));
  VKF_CHECK_OK(check_shape(node_, recurrent_operand::kLengths, {cell_.batch}));
  const Shape state = batch_first_ ? Shape{cell_.batch, directions_, hidden} : Shape{directions_, cell_.batch, hidden};
  VKF_CHECK_OK(check_shape(node_, recurrent_operand::kHidden, state));
  if (!is_lstm_) return {};
  VKF_CHECK_OK(check_shape(node_, recurrent_operand::kCell, state));
  return check_shape(node_, recurrent_operand::kPeepholes, {directions_, 3 * hidden});
}

Direction Recurrent::direction_of(int number) const {
  const std::int64_t rows = cell_.gates * cell_.hidden;
  const auto bias = part_of(node_, recurrent_operand::kBias, number);
  Direction made{{},
                 *part_of(node_, recurrent_operand::kWeights, number),
                 *part_of(node_, recurrent_operand::kRecurrence, number),
                 {},
                 {},
                 {},
                 initial(recurrent_operand::kHidden, number),
                 initial(is_lstm_ ? recurrent_operand::kCell : recurrent_operand::kHidden, number),
                 !node_.has(recurrent_operand::kHidden)};
  if (bias) {
    made.bias_w = bias->slice(0, 0, rows);
    made.bias_r = bias->slice(0, rows, 2 * rows);
  }
  if (is_lstm_) made.peepholes = part_of(node_, recurrent_operand::kPeepholes, number);
  return made;
}

/// How the input is rounded: by the range of what the longest sequence has.
DynamicSteps Recurrent::steps_of(const Tensor& x) const {
  if (node_.has(recurrent_operand::kLeast))
    return dynamic_steps(x, node_.tensor(recurrent_operand::kLeast), node_.tensor(recurrent_operand::kLargest));
  if (!node_.has(recurrent_operand::kLengths)) return dynamic_steps(x);
  const Tensor& lengths = node_.tensor(recurrent_operand::kLengths);
  const Tensor is_read = op("gt", lengths.max(), Tensor::iota(lengths.dtype(), {cell_.steps, 1, 1}, 0));
  const Tensor read = select(is_read, x, Tensor::scalar(x.dtype(), 0));
  return dynamic_steps(x, read.min(), read.max());
}

/// Runs the steps; the direction's state is then the last. Where a sequence is shorter than the others, its state stays
/// and its results are 0: read backwards, it begins at its own end.
Tensor Recurrent::sequence_of(Direction& d, bool is_reverse) const {
  Tensor x = node_.tensor(recurrent_operand::kInput);
  if (batch_first_) x = x.permute({1, 0, 2});
  if (cell_.rounds) x = in_dynamic_steps(x, steps_of(x));
  // All steps' products with the input at once: the recurrence is all that has to wait.
  Tensor products = dot_general(x, d.w, {.contract_a = {2}, .contract_b = {1}});
  if (d.bias_w) products = products + *d.bias_w;
  std::vector<Tensor> results(static_cast<std::size_t>(cell_.steps), products);
  for (std::int64_t i = 0; i < cell_.steps; ++i) {
    const std::int64_t at = is_reverse ? cell_.steps - 1 - i : i;
    const Tensor old_h = d.h;
    const Tensor old_c = d.c;
    step_(cell_, d, products.select(0, at));
    d.is_at_rest = false;
    Tensor result = d.h;
    if (node_.has(recurrent_operand::kLengths)) {
      const Tensor& lengths = node_.tensor(recurrent_operand::kLengths);
      const Tensor runs = op("gt", lengths, Tensor::scalar_int(lengths.dtype(), at)).unsqueeze(1);
      result = select(runs, d.h, Tensor::scalar(d.h.dtype(), 0));
      d.h = select(runs, d.h, old_h);
      if (is_lstm_) d.c = select(runs, d.c, old_c);
    }
    if (!d.h.valid()) return d.h;
    results[static_cast<std::size_t>(at)] = result.unsqueeze(batch_first_ ? 1 : 0);
  }
  return concat(results, batch_first_ ? 1 : 0);
}

}  // namespace

Result<Outputs> import_rnn(const NodeContext& node) { return Recurrent(node, 1, rnn_step).run({"Tanh"}); }
Result<Outputs> import_gru(const NodeContext& node) { return Recurrent(node, 3, gru_step).run({"Sigmoid", "Tanh"}); }
Result<Outputs> import_lstm(const NodeContext& node) {
  return Recurrent(node, 4, lstm_step).run({"Sigmoid", "Tanh", "Tanh"});
}

Result<Outputs> import_lstm_that_rounds(const NodeContext& node) {
  return Recurrent(node, 4, lstm_step, true).run({"Sigmoid", "Tanh", "Tanh"});
}

}  // namespace vkfuse::onnx

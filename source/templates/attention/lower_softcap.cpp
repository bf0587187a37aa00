#include "templates/attention/lower_softcap.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "schedule/operands.hpp"

namespace vkfuse::lowering {

using segment::Value;
using segment::ValueId;

namespace {

/// 2^-20 of it is 2^-14, and so much of a weight: less than an eighth of what
/// f16 rounds.
constexpr double kMostSoftcap = 64;

class Finder {
 public:
  explicit Finder(const SoftcapInput& in) : in_(in) {}
  [[nodiscard]] std::optional<Softcap> find() const;

 private:
  [[nodiscard]] bool is_op(ValueId id, ops::Role op) const;
  [[nodiscard]] std::optional<double> number_at(ValueId id, std::size_t operand) const;
  [[nodiscard]] std::ptrdiff_t readers_of(ValueId id) const;
  [[nodiscard]] bool only_exponentials_read_scores() const;
  [[nodiscard]] std::optional<ValueId> unmasked_score() const;

  const SoftcapInput& in_;
};

bool Finder::is_op(ValueId id, ops::Role op) const {
  return in_.loops.values[id].kind == Value::Kind::compute && in_.graph.node(in_.loops.values[id].node).op->role == op;
}

std::optional<double> Finder::number_at(ValueId id, std::size_t operand) const {
  return schedule::number_of(in_.graph, in_.loops.values[in_.loops.values[id].operands[operand]]);
}

std::ptrdiff_t Finder::readers_of(ValueId id) const {
  std::ptrdiff_t all = 0;
  for (const Value& value : in_.loops.values) all += std::count(value.operands.begin(), value.operands.end(), id);
  return all;
}

/// Whether of the scores nothing but the exponential is taken: what else reads
/// one wants the number itself.
bool Finder::only_exponentials_read_scores() const {
  const std::vector<ValueId>& of_exponential = in_.loops.values[in_.tile.values.exponential].operands;
  for (ValueId id = 0; id < in_.loops.values.size(); ++id) {
    const std::vector<ValueId>& operands = in_.loops.values[id].operands;
    const bool reads = std::find(operands.begin(), operands.end(), in_.tile.values.score) != operands.end();
    // The total is online, of the scores themselves.
    if (!reads || id == in_.tile.values.most || id == in_.tile.values.total) continue;
    const bool falls = is_op(id, ops::Role::sub) && operands[0] == in_.tile.values.score &&
                       operands[1] == in_.tile.values.most && readers_of(id) == 1 &&
                       of_exponential == std::vector<ValueId>{id};
    if (!falls) return false;
  }
  // A result that is computed from the largest score takes more of it than its
  // exponential.
  const std::vector<ValueId> results = schedule::backward_slice_of_results(in_.loops);
  return std::none_of(results.begin(), results.end(), [&](ValueId result) {
    const std::vector<ValueId>& operands = in_.loops.values[result].operands;
    return std::find(operands.begin(), operands.end(), in_.tile.values.most) != operands.end();
  });
}

/// What the score is where masks leave it; nothing where others read it before
/// it is masked.
std::optional<ValueId> Finder::unmasked_score() const {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  ValueId id = in_.tile.values.score;
  while (is_op(id, ops::Role::select) && (number_at(id, 1) == kNothing || number_at(id, 2) == kNothing)) {
    id = in_.loops.values[id].operands[number_at(id, 1) == kNothing ? 2 : 1];
    if (readers_of(id) != 1) return std::nullopt;
  }
  return id;
}

/// A score is a number times a tanh, or -infinity where a mask says so. Nothing
/// but its exponential is taken, of which an absolute error is a relative one;
/// the dtype of weights rounds more.
std::optional<Softcap> Finder::find() const {
  if (!only_exponentials_read_scores()) return std::nullopt;
  const std::optional<ValueId> score = unmasked_score();
  if (!score) return std::nullopt;
  Softcap softcap;
  softcap.softcapped = softcap.tanh = *score;
  if (is_op(*score, ops::Role::mul) && (number_at(*score, 0) || number_at(*score, 1))) {
    const std::size_t literal = number_at(*score, 0) ? 0 : 1;
    softcap.outer = *number_at(*score, literal);
    softcap.tanh = in_.loops.values[*score].operands[1 - literal];
    if (readers_of(softcap.tanh) != 1) return std::nullopt;
  }
  if (!is_op(softcap.tanh, ops::Role::tanh) ||
      size_of(in_.graph.node(in_.loops.values[softcap.tanh].node).type.dtype) != 2 ||
      !(std::abs(softcap.outer) <= kMostSoftcap))
    return std::nullopt;
  const ValueId scaled = in_.loops.values[softcap.tanh].operands[0];
  if (readers_of(scaled) == 1 && is_op(scaled, ops::Role::div) && number_at(scaled, 1)) {
    softcap.scaled = scaled;
    softcap.inner = 1 / *number_at(scaled, 1);
  }
  if (!std::isfinite(static_cast<float>(softcap.inner * 2 * std::numbers::log2e))) return std::nullopt;
  return softcap;
}

}  // namespace

std::optional<Softcap> find_softcap(const SoftcapInput& in) { return Finder(in).find(); }

void compute_at_once(const Softcap& softcap, const segment::Loops& loops, ValueForms& forms) {
  const auto scale = static_cast<float>(softcap.inner * 2 * std::numbers::log2e);
  if (softcap.scaled) forms[*softcap.scaled] = {.kind = ValueForm::Kind::product, .factor = scale};
  const bool has_factor = softcap.softcapped != softcap.tanh;
  if (has_factor && softcap.scaled) forms[softcap.tanh] = {.kind = ValueForm::Kind::same};
  if (has_factor && !softcap.scaled) forms[softcap.tanh] = {.kind = ValueForm::Kind::product, .factor = scale};
  const bool literal_first = loops.values[loops.values[softcap.softcapped].operands[0]].kind == Value::Kind::literal;
  forms[softcap.softcapped] = {.kind = ValueForm::Kind::softcap,
                               .operand = has_factor && literal_first ? 1U : 0U,
                               .factor = has_factor || softcap.scaled ? 0.0F : scale,
                               .outer = static_cast<float>(softcap.outer * std::numbers::log2e)};
}

}  // namespace vkfuse::lowering

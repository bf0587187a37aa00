// How values are computed where it is not their op alone: passes over the loops
// of a kernel, each of which gives some values another form. What they find is
// printed by Emitter::emit_value.
#pragma once

#include <map>
#include <vector>

#include "lowering/ranges.hpp"
#include "ops/float_formats.hpp"

namespace vkfuse::lowering {

struct ValueForm {
  enum class Kind : std::uint8_t {
    op,                 ///< the op of its node
    same,               ///< another name for its operand
    copy,               ///< its operand as it is
    power,              ///< its operand times itself, `power` factors
    product,            ///< its operand times `factor`
    exact_float,        ///< a float from an integer that it holds
    in_register,        ///< a cast to `dtype` that changes no number
    one_plus_erf,       ///< 1 + the erf of its operand, in one step
    half_one_plus_erf,  ///< half of that, in one step
    softcap,            ///< outer * tanh of its operand (times `factor`, unless that is
                        ///< 0), times log2(e), in one step
  };
  Kind kind = Kind::op;
  std::size_t operand = 0;
  int power = 0;
  float factor = 0, outer = 0;
  DType dtype = DType::f32;
  bool rounds = false;                           ///< its op's result is wrapped or rounded to its dtype at once
  const ops::FloatFormatRow* decodes = nullptr;  ///< of a load: its codes become the bits of f32 that readers want
};
/// One of each value.
using ValueForms = std::vector<ValueForm>;

struct FormInput {
  const ir::Graph& graph;
  const segment::Loops& loops;
  const IntegerRanges& ranges;
  bool strict = false;      ///< every op rounds
  bool keeps_nan = false;   ///< exponentials and inverse roots of NaN are NaN, of infinities their limits
  bool may_decode = false;  ///< every load of the template is Emitter::load_scalar's or Emitter::unpacked's
};

/// x ^ 2 and x ^ 3 are products: they are nearer to the power than any
/// logarithm.
void multiply_powers(const FormInput& in, ValueForms& forms);
/// x / 2^n is a product. Other reciprocals are rounded: 41 * (1 / 41) is less
/// than 1.
void multiply_by_reciprocals(const FormInput& in, ValueForms& forms);
/// 1 + erf(x / c) of 16-bit floats, as a GELU has it: a logistic function, which costs less and loses nothing where erf
/// is near -1. The quotient is a product, as erf has no steps that its rounding could cross. Half of it is one
/// step, too, wherever among the products the 0.5 stands.
void join_erf(const FormInput& in, ValueForms& forms);
/// Casts of integers that change no number, and casts of floats that a store
/// rounds anyway.
void drop_conversions(const FormInput& in, ValueForms& forms);
/// Casts to `dtype` of which, behind choices, a value is made whose reader rounds it to that anyway.
void leave_rounding_to_reader(const FormInput& in, segment::ValueId id, DType dtype, ValueForms& forms);
/// Which results of ops are wrapped or rounded at once: not where they stay
/// inside their dtype, nor where a store rounds them.
void round_results(const FormInput& in, ValueForms& forms);
/// Codes of 8 bits that all readers decode in one format are decoded as they are loaded.
void decode_as_loaded(const FormInput& in, ValueForms& forms);
/// Decoded numbers that f16 holds are not rounded to it.
void keep_decoded_numbers(const FormInput& in, ValueForms& forms);
/// All of them.
ValueForms value_forms(const FormInput& in);

/// Products that only one sum in this kernel reads, and nobody outside, become
/// part of that sum: product -> sum. Not in strict numerics, where every op
/// rounds, and not in f32, whose product may be an infinity that the sum of an
/// unrounded product would not see (a 16-bit product is unrounded in either
/// case).
std::map<segment::ValueId, segment::ValueId> contract_products(const FormInput& in, const ValueForms& forms);

/// Whether a contraction reduces the value: it is not rounded before it is.
bool is_reduced_product(const segment::Loops& loops, segment::ValueId id);

}  // namespace vkfuse::lowering

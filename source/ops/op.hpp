// The op table: one row per op. Type rules, generated GLSL, the reference, error bounds, fuzzer
// domains, the documentation table and the text IR all read the row; nothing else knows an op by
// name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/shape.hpp"
#include "vkfuse/dtype.hpp"

namespace vkfuse::ops {

enum class OpClass : std::uint8_t {
  input,        ///< a named input of the graph
  constant,     ///< a literal tensor
  elementwise,  ///< a function of the operands' elements at the same (broadcast) position
  convert,      ///< elementwise from one dtype to another (cast, bitcast)
  generate,     ///< a function of the element's position (iota, random)
  view,         ///< moves elements: each element of the result is one of an operand's, or a fill value
  gather,       ///< a view whose positions are data
  reduce,       ///< folds some axes away
  contraction,  ///< folds products of two operands' elements along axes that both have
  scan,         ///< running reduction along one axis
  sort,         ///< order along one axis
  scatter,      ///< writes rows at positions that are data
  update,       ///< replaces rows where data says: of what it is written into, a kernel touches those alone
  opaque,       ///< whatever a kernel that the user wrote does with whole operands
  collective,   ///< a value of several ranks: no kernel computes it, programs are cut there
  annotation,   ///< says how a value is laid out over ranks; the value itself is the operand
};

/// How a reduction or scan folds: the elementwise row that joins two partial results, and what it starts
/// from. Partial results of f16 and bf16 are f32.
struct Reduction {
  enum class Kind : std::uint8_t {
    none,
    plain,  ///< join(join(identity, x0), x1) ... in any association
    mean,   ///< a sum divided by the number of elements
    arg,    ///< the position, as i32, of the first element that `join` (max or min) would keep; NaN is kept first
  };
  Kind kind = Kind::none;
  std::string_view join;  ///< "add", "mul", "max", "min", "and", "or"
  /// Of an empty reduction. -infinity and infinity stand for the least and greatest value of an integer
  /// dtype, and there an empty reduction is an error.
  double identity = 0;
  /// The elementwise row whose results are folded; empty where the operand's own elements are. What it gives
  /// is not rounded to 16 bits.
  std::string_view of = {};
};

/// How an element is held in a shader register. 16- and 8-bit types are widened; i64 and u64 are
/// native 64-bit integers where the device has them, else uvec2 (low word, high word).
enum class RegisterType : std::uint8_t { f32, i32, u32, boolean, i64, u64, f64 };
inline constexpr int kRegisterTypeCount = 7;

constexpr RegisterType register_type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16: return RegisterType::f32;
    case DType::f64: return RegisterType::f64;
    case DType::i8:
    case DType::i16:
    case DType::i32: return RegisterType::i32;
    case DType::u8:
    case DType::u16:
    case DType::u32: return RegisterType::u32;
    case DType::i64: return RegisterType::i64;
    case DType::u64: return RegisterType::u64;
    case DType::boolean: return RegisterType::boolean;
  }
  return RegisterType::f32;
}

/// A set of dtypes, one bit each.
using TypeSet = std::uint16_t;
constexpr TypeSet bit(DType dtype) { return static_cast<TypeSet>(1u << static_cast<int>(dtype)); }
inline constexpr TypeSet kFloats = bit(DType::f32) | bit(DType::f16) | bit(DType::bf16) | bit(DType::f64);
inline constexpr TypeSet kSigned = bit(DType::i8) | bit(DType::i16) | bit(DType::i32) | bit(DType::i64);
inline constexpr TypeSet kUnsigned = bit(DType::u8) | bit(DType::u16) | bit(DType::u32) | bit(DType::u64);
inline constexpr TypeSet kIntegers = kSigned | kUnsigned;
inline constexpr TypeSet kNumbers = kFloats | kIntegers;
inline constexpr TypeSet kBool = bit(DType::boolean);
inline constexpr TypeSet kAll = kNumbers | kBool;

/// How operand dtypes relate to the result's.
enum class Signature : std::uint8_t {
  same,      ///< (T, ...) -> T
  compare,   ///< (T, ...) -> bool
  select,    ///< (bool, T, T) -> T
  convert,   ///< T -> the dtype attribute
  generate,  ///< () -> the dtype attribute
  indexed,   ///< (T, positions) -> T and (T, positions, T) -> T; positions are i32, u32 or i64
  position,  ///< T -> i32
  stated,    ///< (any, ...) -> the dtype that is stated: of ops whose code the user gives
};

/// The dtypes that positions in data may have.
inline constexpr TypeSet kPositions = bit(DType::i32) | bit(DType::u32) | bit(DType::i64);
/// The arity of an op that takes one operand or more.
inline constexpr int kVariadic = -1;

/// GLSL of one element as an expression over {0}, {1}, {2}; empty where the op is not offered for
/// that lane. {s} is the register type's name ("f32", "i32", "u32", "i64", "u64", "f64"), so "{s}_div({0}, {1})"
/// names one prelude function per register type; {w} is the dtype's width in bits less one, for shifts.
/// `pair64` serves i64 and u64 held as uvec2, where "{s}p_min({0}, {1})" names i64p_min and u64p_min.
/// `i64` and `u64` are for native 64-bit ints.
/// `half` serves f16 and bf16, which are held as f32, where something cheaper than `f32` is exact
/// enough: within kHalfError of the result. Where it is empty, `f32` does.
/// `native_f32` and `native_half` are for devices whose exponentials keep NaN: what takes no care of it.
/// `arithmetic_half` is made of multiply-adds alone, for kernels that would wait for exponentials.
struct Glsl {
  std::string_view f32, i32, u32, boolean, i64, u64, pair64, f64, half, native_f32, native_half, arithmetic_half;
};

/// What a device does by itself that expressions would otherwise spell out.
struct Native {
  bool int64 = false;       ///< 64-bit integers in one register, else pairs of words
  bool exp_of_nan = false;  ///< NaN and infinities go through exp and exp2 as IEEE has it
  bool few_exponentials =
      false;  ///< not of the device but of the kernel: multiply-adds cost it less than exponentials do
  Native(bool native_int64 = false, bool native_exp = false)
      : int64(native_int64), exp_of_nan(native_exp) {}  // NOLINT(google-explicit-constructor)
};

/// What a `half` expression may be off, relative to the result: half of f16's own rounding.
inline constexpr double kHalfError = 0x1p-12;

/// What is known of one value while an error bound is carried through an op.
struct Approx {
  double value = 0;  ///< computed in double
  double bound = 0;  ///< |exact GPU result - value| is at most this; infinity = undecided
};

/// How far the result may move when operand i moves by at most its bound e_i (before the op's own
/// rounding is added).
enum class ErrorPropagation : std::uint8_t {
  exact,      ///< not at all: bitwise and integer ops
  monotone,   ///< monotone in each operand by itself: the corners x +- e bound it (most ops)
  lipschitz,  ///< at most the sum of the e_i (sin, cos)
  jump,       ///< a step function: exact unless a corner differs, then undecided (compare, floor)
  custom,     ///< the row's `spread` function says
};

/// A float op's own error in f32 (or f64), beyond what its operands bring: absolute, for result
/// y = f(x). Taken from the precision table of the Vulkan specification (appendix "Precision and
/// Operation of SPIR-V Instructions") for built-in operations, from a measured sweep for our own.
/// `eps` is the unit of the register type: 2^-23 for f32 (also for f16 and bf16), 2^-52 for f64.
using OwnError = double (*)(const double* x, double y, double eps);

/// What `OpRow::real` itself may be off in f64, in units of the result, where it calls a function of the host's libm
/// that is not rounded correctly. glibc's manual states 1 to 2 ulp for each; bounds of f64 include it.
inline constexpr int kReferenceUnits = 2;
/// The same beside a large multiple of pi/2, absolute, times 1 + y^2 for the slope of a tangent: glibc 2.36's cos() is
/// off by 7 units, 2^-110, at 0x1.6ac5b262ca1ffp+849.
inline constexpr double kReferenceReduction = 0x1p-108;

/// What passes, loops and templates recognise an op as, where its row alone does not tell them all they need.
enum class Role : std::uint8_t {
  none,
  // Arithmetic.
  add,
  sub,
  mul,
  div,
  neg,
  min,
  max,
  pow,
  exp,
  tanh,
  erf,
  // Bits.
  shift_right,
  bit_and,
  bit_or,
  bit_xor,
  // Conditions.
  le,
  lt,
  ge,
  gt,
  eq,
  ne,
  logical_and,
  logical_or,
  logical_not,
  select,
  // The same value, as it is or in another type.
  cast,
  bitcast,
  copy,
  // Values of positions.
  iota,
  random,
  // Views of one operand, and those that choose between operands.
  reshape,
  permute,
  broadcast,
  slice,
  reverse,
  unfold,
  pad,
  concat,
  slice_assign,
  // Positions in data.
  gather,
  take_along,
  update_rows,
  // Reductions.
  dot,
  reduce_sum,
  reduce_mean,
  reduce_max,
  // Scans.
  cumsum,
};

struct OpRow {
  std::string_view name;
  Role role = Role::none;
  int arity = 1;  ///< or kVariadic
  OpClass cls = OpClass::elementwise;
  Signature signature = Signature::same;
  TypeSet types = 0;  ///< of the T in the signature (operand side)
  Glsl glsl;

  /// The reference on floats, in double. Null where the op has no float form. Comparison and test
  /// ops return 0 or 1. NaN and Inf results are exactly what the shader must give.
  double (*real)(const double* x) = nullptr;
  /// The reference on integers and booleans; operands are sign- or zero-extended to 64 bits (u64 as
  /// its bit pattern); the caller wraps the result to `dtype`. Null where there is no integer form.
  std::int64_t (*integer)(const std::int64_t* x, DType dtype) = nullptr;

  ErrorPropagation propagation = ErrorPropagation::monotone;
  OwnError own_error = nullptr;  ///< null: exact
  double (*custom_propagation)(const Approx* x, double y) = nullptr;

  /// Operands that random tests draw from: uniform in [low, high] for floats.
  double low = -4, high = 4;
  bool commutative = false;
  Reduction reduction;              ///< of reductions and scans
  bool shape_is_attribute = false;  ///< the result's shape is stated, not inferred
  bool is_product = false;          ///< of its two operands
  /// The row that computes this(a * b, c) in one step, e.g. "fma" for add, whose bound is that of the
  /// two steps; empty if there is none. Standard numerics use it inside a kernel.
  std::string_view of_product;
  /// Modelled cost of one element in fused multiply-adds: 1 for add, about 8 for exp.
  float cost = 1;
  std::string_view doc;  ///< one line for docs/ops.md, with the rule for NaN, Inf and ranges
};

/// All rows, in a stable order. A `const OpRow*` identifies an op.
std::span<const OpRow> table();

/// Rows of ops whose meaning is in their nodes: code that the user gives. They are in no sweep, and so not in table().
std::span<const OpRow> custom_rows();

/// Rows of what ranks do together, and of annotations. No kernel computes them, and so they are not in table().
std::span<const OpRow> collective_rows();

/// The row of that name, those of custom_rows() and collective_rows() too, or null.
const OpRow* find(std::string_view name);

/// The row of that name; a broken invariant if there is none. For names written in our own code.
const OpRow& row(std::string_view name);

/// The elementwise row behind one computed value of an op: the op's own, or what it folds.
const OpRow& element_row(const OpRow& op);

/// docs/ops.md: one line per row, in sections by class.
std::string table_markdown();

/// The dtype of the result for these operands, or a sentence that names the op and the dtypes.
/// `attribute` is the dtype attribute of `convert` and `generate` ops.
Result<DType> infer_dtype(const OpRow& row, std::span<const DType> operands, std::optional<DType> attribute);

/// The op's own error for operands and results of `dtype`: what `expression` may be off, before the
/// result is rounded to a 16-bit dtype. Absolute; infinity means undecided.
double own_error(const OpRow& row, DType dtype, const double* x, double y);

/// The GLSL type that holds a register: "float", "int", "uint", "bool", "double", "int64_t" or "uvec2".
std::string_view glsl_type(RegisterType register_type, bool native_int64);

/// The expression of one element. `dtype` is the T of the signature; `native` chooses between
/// the native form and the one that does without; empty when the op is not offered in that form. The result is not yet
/// wrapped to 8 or 16 bits, nor rounded to f16/bf16: see `narrow`.
std::string expression(const OpRow& row, DType dtype, Native native, std::span<const std::string> operands);

/// The expression that converts a register of dtype `from` to dtype `to` (cast: floats to integers
/// truncate, saturate, NaN to 0; integers wrap; anything to bool is != 0).
std::string cast_expression(DType from, DType to, bool native_int64, const std::string& operand);

/// The same for a reinterpretation of the bits; the dtypes have equal sizes.
std::string bitcast_expression(DType from, DType to, bool native_int64, const std::string& operand);

/// Wraps an i8..u16 register to its width, or rounds a float register to f16 or bf16; returns
/// `operand` unchanged for other dtypes.
std::string narrow(DType dtype, const std::string& operand);

/// The prelude functions that `text` calls, directly or through each other, as GLSL source in
/// dependency order; empty if it calls none.
std::string prelude_for(std::string_view text);

/// Statements of GLSL that a driver's compiler sees for `text` where every function of the prelude stands in place of
/// its call, as drivers have it. A condition counts as several: it splits what is optimised together.
int inlined_statements(std::string_view text);

// Scalar conversions shared by the reference, constants and tests. ------------------------------

/// Nearest even; overflow to infinity; subnormals kept.
std::uint16_t f16_from(double value);
double f16_to(std::uint16_t bits);
std::uint16_t bf16_from(double value);
double bf16_to(std::uint16_t bits);
/// Wraps to the width of an integer dtype; `boolean` becomes 0 or 1.
std::int64_t wrap(DType dtype, std::int64_t value);
/// Rounds to the nearest value that the float dtype holds.
double round_to(DType dtype, double value);
/// The cast of a float to an integer dtype: truncates, saturates, NaN to 0.
std::int64_t saturate(DType dtype, double value);

/// Philox 4x32-10 as in Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011): word
/// `index % 4` of the block with counter `index / 4` and key `seed`.
std::uint32_t philox(std::uint64_t seed, std::uint64_t index);

}  // namespace vkfuse::ops

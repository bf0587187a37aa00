// How threads, and workgroups that share a row, join their partial results.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/writer.hpp"
#include "lowering/expressions.hpp"
#include "schedule/schedule.hpp"

namespace vkfuse::lowering {

/// One register of a reduction's partial result.
struct Accumulator {
  Code name;  ///< the accumulator
  Code type;
  Code identity;
  Code shared;  ///< the array through which threads exchange it
  DType dtype = DType::f32;
};

/// The names of one reduction in the text.
struct ReductionText {
  enum class Kind : std::uint8_t {
    plain,    ///< one field
    arg,      ///< the best value and its position
    mean,     ///< a sum in two parts, high and low: schedule::sums_in_two_parts
    softmax,  ///< a maximum, and the sum of exponentials below it: two reductions in one pass
    moments,  ///< a count, a mean, the sum of squares around it, and what rounding the mean has lost: two reductions in
              ///< one pass
  };
  Kind kind = Kind::plain;
  segment::ValueId id = 0;
  int level = 1;
  const ir::Node* node = nullptr;
  DType operand = DType::f32;
  bool prefix = false;  ///< of a scan: joins the workgroups before this one alone
  bool vec4s = false;   ///< all but plain: elements of a thread's chunk are added four at a time
  bool ragged = false;  ///< the last chunk of a row may lack elements
  Code name;
  Code type;  ///< of the operand
  std::vector<Accumulator> accumulators;
  Code join;  ///< function: void join(inout fields..., fields...)
};

class Combine {
 public:
  Combine(const schedule::Schedule& schedule, const Dialect& dialect, int width)
      : schedule_(schedule), params_(schedule.as<schedule::ReductionParams>()), dialect_(dialect), width_(width) {}

  /// The function that joins b into a.
  void join_function(const ReductionText& reduction, Writer& functions) const;
  /// The name of the function that adds one element to an online softmax, or the one that adds four to any
  /// reduction of two in one pass.
  [[nodiscard]] static Code add_element(const ReductionText& reduction) { return reduction.join + "_one"; }
  [[nodiscard]] static Code add_four(const ReductionText& reduction) { return reduction.join + "_four"; }
  /// Who reads a reduction over all threads of a row: every one of them, or the first alone, and then other threads may
  /// have ended.
  enum class Readers : std::uint8_t { all, first_thread };
  /// Afterwards the readers hold the reduction over all threads of their row.
  void across_threads(std::span<const ReductionText> reductions, int level, Writer& main, Writer& shared,
                      Readers readers = Readers::all) const;
  /// One thread of each row writes what its workgroup has seen.
  void to_parts(std::span<const ReductionText> reductions, int level, std::int64_t rows, Writer& main) const;
  /// Each thread takes its share of what the workgroups of the row have written.
  void from_parts(std::span<const ReductionText> reductions, int level, std::int64_t rows, Writer& main) const;
  /// The same once threads have reduced across each other, through the shared memory of that time, and from there to
  /// the first thread of each row.
  void join_parts(std::span<const ReductionText> reductions, int level, std::int64_t rows, Writer& main) const;
  /// The call that joins other fields, given as text by `other(field)`, into row j's accumulators.
  template <typename Other>
  [[nodiscard]] Code join(const ReductionText& reduction, int j, const Other& other) const {
    Code own, theirs;
    for (const Accumulator& accumulator : reduction.accumulators) {
      own += (own.empty() ? "" : ", ") + at(accumulator.name, j);
      theirs += ", " + other(accumulator);
    }
    return code("{}({}{});", reduction.join, own, theirs);
  }
  /// The value of a register in the thread whose number differs in the bits of `mask`.
  [[nodiscard]] Code shuffled(DType dtype, const Code& value, const Code& mask) const;

 private:
  static void open_join(const ReductionText& reduction, std::string_view comment, Writer& functions);
  void join_args(const ReductionText& reduction, Writer& functions) const;
  void join_softmaxes(const ReductionText& reduction, Writer& functions) const;
  static void join_moments(const ReductionText& reduction, Writer& functions);
  static void join_means(const ReductionText& reduction, Writer& functions);
  void join_plain(const ReductionText& reduction, Writer& functions) const;
  void four_elements(const ReductionText& reduction, Writer& functions) const;
  void one_element_softmax(const ReductionText& reduction, Writer& functions) const;
  void four_elements_softmax(const ReductionText& reduction, Writer& functions) const;
  void four_elements_mean(const ReductionText& reduction, Writer& functions) const;
  void four_elements_moments(const ReductionText& reduction, Writer& functions) const;
  void four_elements_arg(const ReductionText& reduction, Writer& functions) const;
  [[nodiscard]] Code apply(std::string_view row, DType dtype, std::vector<Code> operands) const;
  [[nodiscard]] Code at(const Code& name, int j) const { return width_ == 1 ? name : code("{}[{}]", name, j); }
  void butterfly(std::span<const ReductionText* const> reductions, int threads, Writer& main) const;
  void by_shuffles(std::span<const ReductionText* const> reductions, Writer& main, Writer& shared,
                   Readers readers) const;
  void across_subgroups(std::span<const ReductionText* const> reductions, Writer& main, Writer& shared,
                        Readers readers) const;
  [[nodiscard]] static std::vector<const ReductionText*> of_level(std::span<const ReductionText> reductions, int level);
  [[nodiscard]] Code shared_index(const Code& first, int j) const;
  void to_memory(const ReductionText& reduction, int j, Writer& main) const;
  void join_from_memory(std::span<const ReductionText* const> reductions, Writer& main) const;
  void by_memory(std::span<const ReductionText* const> reductions, Writer& main, Writer& shared) const;
  [[nodiscard]] std::vector<Code> words_of(DType dtype, const Code& value) const;
  [[nodiscard]] Code value_of(DType dtype, const Code& at) const;
  [[nodiscard]] Code partial_position(std::int64_t base, int j, const Code& part, int words) const;
  /// Words of the reductions before this one in the buffer of partial results.
  [[nodiscard]] std::int64_t base(std::span<const ReductionText> reductions, const ReductionText& reduction,
                                  std::int64_t rows) const;

  const schedule::Schedule& schedule_;
  const schedule::ReductionParams& params_;
  const Dialect& dialect_;
  int width_;
};

}  // namespace vkfuse::lowering

// How lanes, and workgroups that share a row, fold their partial results into one.
#pragma once

#include <span>
#include <string>

#include "codegen/packing.hpp"
#include "codegen/writer.hpp"
#include "schedule/schedule.hpp"

namespace vkfuse::codegen {

/// The names of one fold in the text.
struct FoldText {
  segment::ValueId id = 0;
  int stage = 1;
  const ir::Node* node = nullptr;
  DType operand = DType::f32;
  bool arg = false;            ///< carries a position beside the value: `index` + "_i"
  bool prefix = false;         ///< of a scan: joins the workgroups before this one alone
  std::string name;
  std::string type;            ///< of the accumulator
  std::string accumulator;
  std::string index;
  std::string identity;
  std::string join;            ///< function: void join(inout T a, T b), or with positions
  std::string shared;
  std::string shared_index;
  int words = 1;               ///< of the value alone
};

class Combine {
 public:
  Combine(const schedule::Schedule& schedule, const Dialect& dialect, int width) : schedule_(schedule), dialect_(dialect), width_(width) {}

  /// The function that folds b into a.
  void join_function(const FoldText& fold, Writer& functions) const;
  /// Afterwards every lane of a row holds the fold over all its lanes.
  void across_lanes(std::span<const FoldText> folds, int stage, Writer& main, Writer& shared) const;
  /// One lane of each row writes what its workgroup has seen.
  void to_parts(std::span<const FoldText> folds, int stage, std::int64_t rows, Writer& main) const;
  /// Each lane takes its share of what the workgroups of the row have written.
  void from_parts(std::span<const FoldText> folds, int stage, std::int64_t rows, Writer& main) const;
  /// A value of the lane whose number differs in the bits of `mask`.
  [[nodiscard]] std::string shuffled(const FoldText& fold, const std::string& value, const std::string& mask) const;

 private:
  [[nodiscard]] std::string at(const std::string& name, int j) const { return width_ == 1 ? name : fmt::format("{}[{}]", name, j); }
  [[nodiscard]] std::string join(const FoldText& fold, int j, const std::string& value, const std::string& index) const;
  void by_shuffles(std::span<const FoldText> folds, int stage, Writer& main, Writer& shared) const;
  void by_memory(std::span<const FoldText> folds, int stage, Writer& main, Writer& shared) const;
  [[nodiscard]] std::vector<std::string> words_of(const FoldText& fold, const std::string& value) const;
  [[nodiscard]] std::string value_of(const FoldText& fold, const std::string& at) const;
  /// Words of the folds before this one in the buffer of partial results.
  [[nodiscard]] std::int64_t base(std::span<const FoldText> folds, const FoldText& fold, std::int64_t rows) const;

  const schedule::Schedule& schedule_;
  const Dialect& dialect_;
  int width_;
};

}  // namespace vkfuse::codegen

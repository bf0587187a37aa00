// Sizes in the text of a kernel: literals, or push constants that are filled in at launch. Which of both is not known
// while code is written, so a number that depends on sizes is a symbol in it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernel/code.hpp"

namespace vkfuse::lowering {

/// One place of the text that a number belongs to. Places of a text are counted from 0 on, whatever their numbers are.
struct Relocation {
  std::int64_t of = 0;  ///< the number, or what something is divided by
  char kind = 's';      ///< s: a number, q and r: a quotient and a remainder
  bool kept = false;    ///< a choice of the schedule, which makes another kernel anyway
};

/// A push constant that has its name from the beginning.
struct NamedWord {
  std::string name;
  std::uint32_t value = 0;
  std::string comment;
};

class Numbers {
 public:
  explicit Numbers(bool hoist) : hoist_(hoist) {}

  /// A push constant of its own, always: "p.chunks".
  Code named(const std::string& name, std::uint32_t value, const std::string& comment = {});
  /// Makes a number a literal where it is met: a choice of the schedule, which makes another kernel anyway.
  void keep(std::int64_t value) { kept_.insert(value); }
  /// A number that depends on sizes: "768u", or a symbol.
  Code size(std::int64_t value);
  /// x / d and x % d for a number d that depends on sizes; x is below 2^31 unless `wide`.
  Code quotient(const Code& x, std::int64_t d, bool wide);
  Code remainder(const Code& x, std::int64_t d, bool wide);

  [[nodiscard]] const std::vector<NamedWord>& words() const { return words_; }
  [[nodiscard]] const std::vector<Relocation>& relocations() const { return relocations_; }

 private:
  std::size_t relocation(std::int64_t of, char kind);
  Code divided(const Code& x, std::int64_t d, bool wide, char kind);

  bool hoist_;
  std::vector<NamedWord> words_;
  std::vector<Relocation> relocations_;
  std::set<std::int64_t> kept_;
};

/// What the places of a text become: equal numbers are one push constant.
class SizeBinding {
 public:
  /// For these sizes alone: what is 0 or 1, or finds no room in `most_words` push constants, is a literal.
  static SizeBinding alone(const std::vector<Relocation>& relocations, std::size_t most_words);
  /// For all sizes of a class, of which two are known: what both agree on is a literal. Nothing where the rest finds no
  /// room.
  static std::optional<SizeBinding> shared(const std::vector<Relocation>& one, const std::vector<Relocation>& other,
                                           std::size_t most_words);

  /// The values of the push constants where a text with these places is this text at other sizes; nothing where it is
  /// not, because a literal would differ, or two numbers that were one.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> words_for(const std::vector<Relocation>& relocations) const;
  // The text of a place, for Printer.
  [[nodiscard]] std::string size(std::size_t relocation) const;
  /// A division of `x`, which as a part of a product is `factor`.
  [[nodiscard]] std::string divided(const std::string& factor, const std::string& x, std::size_t relocation) const;
  [[nodiscard]] bool is_literal(std::size_t relocation) const { return relocation_words_[relocation].literal(); }
  /// One line for each push constant.
  [[nodiscard]] std::string declarations() const;

 private:
  struct Word {
    std::string name;
    char kind = 's';        ///< s: a number, m and h: magic number and shift of a division by it
    std::size_t first = 0;  ///< the first place that has it
  };
  /// Words of a place: its number's, and for divisions those of magic number and shift.
  struct Words {
    std::size_t size = kNone, magic = kNone, shift = kNone;
    [[nodiscard]] bool literal() const { return size == kNone && magic == kNone; }
  };
  static constexpr std::size_t kNone = SIZE_MAX;

  /// The word of that kind of a place; `number` tells numbers apart.
  std::size_t word(char kind, std::size_t number, std::size_t relocation);
  Words words_of(const Relocation& relocation, std::size_t number, std::size_t index);

  std::vector<Relocation> relocations_;
  std::vector<std::size_t> same_as_;  ///< per place: the first one with its number
  std::vector<Words> relocation_words_;
  std::vector<Word> words_;
  std::map<std::pair<char, std::size_t>, std::size_t> known_;  ///< words by kind and number
};

}  // namespace vkfuse::lowering

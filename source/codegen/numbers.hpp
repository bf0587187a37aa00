// Sizes in the text of a kernel: literals, or push constants that are filled in at launch.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace vkfuse::codegen {

class Numbers {
 public:
  Numbers(bool hoist, std::size_t most_words) : hoist_(hoist), most_words_(most_words) {}

  /// A push constant of its own, always: "p.items".
  std::string named(const std::string& name, std::uint32_t value, const std::string& comment = {});
  /// Makes a number a literal in all that follows: a choice of the schedule, which makes another kernel anyway.
  void keep(std::int64_t value) { kept_.insert(value); }
  /// A number that depends on sizes: "768u", or "p.n2".
  std::string size(std::int64_t value);
  /// x / d and x % d for a number d that depends on sizes; x is below 2^31 unless `wide`.
  std::string quotient(const std::string& x, std::int64_t d, bool wide);
  std::string remainder(const std::string& x, std::int64_t d, bool wide);

  struct Word {
    std::string name;
    std::uint32_t value = 0;
    std::string comment;
    char kind = 's';  ///< s: a size, m and h: magic number and shift of a division by `of`, n: named
    std::int64_t of = 0;
  };
  [[nodiscard]] const std::vector<Word>& words() const { return words_; }

 private:
  std::string word(char kind, std::int64_t of, std::uint32_t value);
  [[nodiscard]] bool is_kept(std::int64_t value) const { return kept_.count(value) != 0; }
  [[nodiscard]] bool full(std::size_t more) const { return words_.size() + more > most_words_; }

  bool hoist_;
  std::size_t most_words_;
  std::vector<Word> words_;
  std::set<std::int64_t> kept_;
  int sizes_ = 0;
};

}  // namespace vkfuse::codegen

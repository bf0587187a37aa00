// GLSL while it is written: expressions, statements, functions. Code is put together and never read back: what must be
// known of it is collected when it is joined. Its text leaves by Printer (kernel/printer.hpp), which binds its symbols.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernel/vocabulary.hpp"

namespace vkfuse::lowering {

class Code;

namespace detail {

template <typename T>
inline constexpr bool is_text = std::is_convertible_v<const T&, std::string_view>;
template <typename T>
inline constexpr bool is_code = std::is_same_v<std::remove_cvref_t<T>, Code>;

/// What the format string is checked against.
template <typename T>
using Formatted = std::conditional_t<is_text<T> || is_code<T>, std::string_view, std::remove_cvref_t<T>>;

}  // namespace detail

/// What stands in code for a text that is known when the code is printed.
struct Symbol {
  enum class Kind : std::uint8_t {
    name,          ///< `number` is that of Names
    size,          ///< `number` is that of the relocation, here and in divisions
    quotient,      ///< `operand` divided by the size
    remainder,     ///< what that leaves
    declarations,  ///< of the push constants for sizes
    workgroup,     ///< gl_WorkGroupID, of all workgroups of a dispatch
    block,         ///< stands for nothing: names that are used from here on are of a block
    end_of_block,
  };
  Kind kind = Kind::name;
  bool alone = false;  ///< a division that is all that is assigned
  std::uint32_t number = 0;
  std::size_t at = 0;      ///< in the text
  std::size_t length = 0;  ///< of the text that it replaces
  std::shared_ptr<const Code> operand = nullptr;

  [[nodiscard]] bool divides() const { return kind == Kind::quotient || kind == Kind::remainder; }
  [[nodiscard]] bool is_scope() const { return kind == Kind::block || kind == Kind::end_of_block; }
};

/// A piece of GLSL, from a name to all functions of a kernel, with the words that it uses.
class Code {
 public:
  Code() = default;
  template <typename T>
  requires detail::is_text<T> Code(const T& text) {  // NOLINT(google-explicit-constructor)
    append(std::string_view(text));
    known_ = known(text);
  }
  /// A position, and a condition that is always true.
  static Code zero() { return Code("0u"); }
  static Code always() { return Code("true"); }
  static Code symbol(Symbol::Kind kind, std::size_t number = 0);
  /// A quotient or a remainder.
  static Code division(Symbol::Kind kind, const Code& operand, std::size_t number);

  /// "x + {}": arguments that are code are joined with what is known of them.
  template <typename... Args>
  void print(fmt::format_string<detail::Formatted<Args>...> format, const Args&... args) {
    const std::array<const Code*, sizeof...(Args) + 1> codes = {code_of(args)..., nullptr};
    print_formatted(format, codes, formatted(args)...);
  }
  Code& operator+=(const Code& code);
  friend Code operator+(Code first, const Code& second) { return std::move(first += second); }

  /// The code needs something that its words do not tell.
  [[nodiscard]] Code needing(Need need) &&;

  [[nodiscard]] bool empty() const { return text_.empty() && symbols_.empty(); }
  [[nodiscard]] bool is_zero() const { return known_ == Known::zero; }
  [[nodiscard]] bool is_always() const { return known_ == Known::always; }
  /// Whether it may be an operand of any operator as it is: a name, a literal without a sign, a call without commas.
  [[nodiscard]] bool is_primary() const { return !spaced_ && !signed_; }
  [[nodiscard]] bool is_one_word() const { return !spaced_; }
  /// The code in parentheses, unless it is one word.
  [[nodiscard]] Code parenthesised() const;
  /// Whether it has the variable, which is one of the vocabulary.
  [[nodiscard]] bool uses(std::string_view local) const;
  [[nodiscard]] bool uses(Word word) const;
  [[nodiscard]] std::span<const Symbol> symbols() const { return symbols_; }
  [[nodiscard]] bool needs(Need need) const { return (needs_ & (1U << static_cast<unsigned>(need))) != 0; }
  /// The functions of the prelude that it calls, in the order of their first calls.
  [[nodiscard]] std::vector<std::string_view> prelude_calls() const;
  /// Whether it divides by a size, which makes more than a word of it when it is printed.
  [[nodiscard]] bool divides() const;

 private:
  friend class Printer;
  enum class Known : std::uint8_t { nothing, zero, always };

  static constexpr Known known(std::string_view text) {
    return text == "0u" ? Known::zero : text == "true" ? Known::always : Known::nothing;
  }

  template <typename T>
  static const Code* code_of(const T& argument) {
    if constexpr (detail::is_code<T>)
      return &argument;
    else
      return nullptr;
  }
  template <typename T>
  static decltype(auto) formatted(const T& argument) {
    if constexpr (detail::is_code<T>)
      return std::string_view();
    else if constexpr (detail::is_text<T>)
      return std::string_view(argument);
    else
      return (argument);
  }
  template <typename... Values>
  void print_formatted(fmt::string_view format, std::span<const Code* const> codes, const Values&... values) {
    print_values(std::string_view(format.data(), format.size()), codes, fmt::make_format_args(values...));
  }
  void print_values(std::string_view format, std::span<const Code* const> codes, fmt::format_args values);
  void append(std::string_view text);
  void end_word(std::size_t begin, std::size_t end, char next);
  void use(Word word);

  std::string text_;
  std::vector<Symbol> symbols_;  ///< in their order
  std::vector<Word> words_;      ///< in the order of their first uses
  std::uint32_t needs_ = 0;      ///< one bit each
  std::size_t open_word_ = 0;    ///< where a word begins that the text ends with, and that what follows may continue
  Known known_ = Known::nothing;
  bool spaced_ = false;  ///< more than a word
  bool signed_ = false;  ///< begins with an operator
};

/// Code from a format string and its arguments.
template <typename... Args>
Code code(fmt::format_string<detail::Formatted<Args>...> format, const Args&... args) {
  Code all;
  all.print(format, args...);
  return all;
}

/// "a, b, c".
template <typename List>
Code listed(const List& list) {
  Code all;
  for (const auto& one : list) {
    if (!all.empty()) all += ", ";
    all += one;
  }
  return all;
}

/// A call in a pattern ("f32_min(") and what it is written as.
struct FunctionForm {
  std::string_view call, form;
};

/// A pattern of ops (see ops::Glsl) with its operands; operands stand in parentheses where they need them.
Code fill_pattern(std::string_view pattern, std::span<const Code> operands, std::span<const FunctionForm> forms = {});

}  // namespace vkfuse::lowering

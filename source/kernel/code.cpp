#include "kernel/code.hpp"

#include <algorithm>
#include <functional>

#include "base/error.hpp"
#include "base/mutations.hpp"
#include "ops/pattern.hpp"

namespace vkfuse::lowering {

namespace {

using ops::in_name;

}  // namespace

void Code::use(Word word) {
  if (std::find(words_.begin(), words_.end(), word) == words_.end()) words_.push_back(word);
}

/// A word is known once it is seen what follows it.
void Code::end_word(std::size_t begin, std::size_t end, char next) {
  if (text_[begin] >= '0' && text_[begin] <= '9') return;
  const Word word = word_of(std::string_view(text_).substr(begin, end - begin));
  if (word == kNoWord) return;
  const WordRow& row = row_of(word);
  if (row.need == Need::workgroup)
    symbols_.push_back({.kind = Symbol::Kind::workgroup, .at = begin, .length = end - begin});
  if (row.of_prelude ? next != '(' : begin > 0 && text_[begin - 1] == '.') return;  // a component of that name
  use(word);
  needs_ |= 1U << static_cast<unsigned>(row.need);
}

void Code::append(std::string_view text) {
  if (text.empty()) return;
  known_ = Known::nothing;
  if (empty()) signed_ = text[0] == '-' || text[0] == '!' || text[0] == '~';
  std::size_t begin = open_word_;
  bool open = begin < text_.size();
  const std::size_t old = text_.size();
  text_ += text;
  for (std::size_t at = old; at < text_.size(); ++at) {
    const char c = text_[at];
    if (in_name(c)) {
      if (!open) begin = at;
      open = true;
      continue;
    }
    if (open) end_word(begin, at, c);
    open = false;
    spaced_ = spaced_ || c == ' ';
    if (c == '{') symbols_.push_back({.kind = Symbol::Kind::block, .at = at + 1});
    if (c == '}') symbols_.push_back({.kind = Symbol::Kind::end_of_block, .at = at + 1});
  }
  open_word_ = open ? begin : text_.size();
}

Code& Code::operator+=(const Code& code) {
  if (code.empty()) return *this;
  if (empty()) return *this = code;
  known_ = Known::nothing;
  const bool begins_with_text = code.symbols_.empty() || code.symbols_[0].at > 0 || code.symbols_[0].length > 0;
  const char next = begins_with_text ? code.text_[0] : ' ';
  const bool is_text = std::all_of(code.symbols_.begin(), code.symbols_.end(), std::mem_fn(&Symbol::is_scope));
  if (open_word_ < text_.size() && in_name(next) && is_text) {
    // A word of two pieces is another word than the pieces are.
    const std::uint32_t needs = needs_ | code.needs_;
    append(code.text_);
    needs_ |= needs;
    return *this;
  }
  if (open_word_ < text_.size() && !in_name(next)) end_word(open_word_, text_.size(), next);
  for (const Word word : code.words_) use(word);
  needs_ |= code.needs_;
  for (Symbol symbol : code.symbols_) {
    symbol.at += text_.size();
    symbols_.push_back(std::move(symbol));
  }
  open_word_ = text_.size() + code.open_word_;
  text_ += code.text_;
  spaced_ = spaced_ || code.spaced_;
  return *this;
}

Code Code::symbol(Symbol::Kind kind, std::size_t number) {
  Code code;
  code.symbols_.push_back({.kind = kind, .number = static_cast<std::uint32_t>(number)});
  return code;
}

Code Code::division(Symbol::Kind kind, const Code& operand, std::size_t number) {
  Code code = symbol(kind, number);
  code.append("quotient(");  // what the division may call, with all that its operand has
  code += operand;
  code.append(")");
  code.text_.clear();
  code.symbols_.resize(1);
  code.open_word_ = 0;
  code.symbols_[0].operand = std::make_shared<const Code>(operand);
  return code;
}

bool Code::divides() const {
  return std::any_of(symbols_.begin(), symbols_.end(), [](const Symbol& symbol) { return symbol.divides(); });
}

Code Code::needing(Need need) && {
  needs_ |= 1U << static_cast<unsigned>(need);
  return std::move(*this);
}

Code Code::parenthesised() const { return spaced_ ? code("({})", *this) : *this; }

bool Code::uses(std::string_view local) const {
  const Word word = word_of(local);
  check(word != kNoWord && row_of(word).is_local, "a variable is a word of the vocabulary");
  const bool last = std::string_view(text_).substr(open_word_) == local;
  return last || uses(word);
}

bool Code::uses(Word word) const { return std::find(words_.begin(), words_.end(), word) != words_.end(); }

std::vector<std::string_view> Code::prelude_calls() const {
  std::vector<std::string_view> calls;
  for (const Word word : words_) {
    if (row_of(word).of_prelude) calls.push_back(row_of(word).name);
  }
  return calls;
}

void Code::print_values(std::string_view format, std::span<const Code* const> codes, fmt::format_args values) {
  std::size_t automatic = 0, begin = 0;
  for (std::size_t at = 0; at < format.size();) {
    const char c = format[at];
    if (c != '{' && c != '}') {
      ++at;
      continue;
    }
    append(format.substr(begin, at - begin));
    if (format[at + 1] == c) {  // stands for itself
      begin = at + 1;
      at += 2;
      continue;
    }
    std::size_t index = 0, end = at + 1;
    const bool numbered = format[end] >= '0' && format[end] <= '9';
    for (; format[end] >= '0' && format[end] <= '9'; ++end)
      index = index * 10 + static_cast<std::size_t>(format[end] - '0');
    if (!numbered) index = automatic++;
    const std::size_t close = format.find('}', end);
    if (codes[index] != nullptr) {
      const Code& argument = *codes[index];
      *this += argument;
      const bool is_division = argument.text_.empty() && argument.symbols_.size() == 1 && argument.divides();
      const bool assigned = format.substr(0, at).ends_with("= ") && format.substr(close + 1).starts_with(";");
      if (is_division && assigned) symbols_.back().alone = true;
    } else {
      const std::string field = fmt::format("{{{}{}}}", index, format.substr(end, close - end));
      append(fmt::vformat(field, values));
    }
    at = begin = close + 1;
  }
  append(format.substr(begin));
}

Code fill_pattern(std::string_view pattern, std::span<const Code> operands, std::span<const FunctionForm> forms) {
  Code all;
  ops::each_piece(
      pattern,
      [&](std::string_view text) {
        const auto form = std::find_if(forms.begin(), forms.end(), [&](const FunctionForm& one) {
          return VKF_PLANT(name_inside_a_name, one.call == text, text.ends_with(one.call));
        });
        all += form == forms.end() ? text : form->form;
      },
      [&](std::size_t operand, bool alone) {
        const Code& code_of_operand = operands[operand];
        all += alone || code_of_operand.is_primary() ? code_of_operand : code("({})", code_of_operand);
      });
  return all;
}

}  // namespace vkfuse::lowering

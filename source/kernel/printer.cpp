#include "kernel/printer.hpp"

#include <fmt/format.h>

#include "kernel/numbers.hpp"

namespace vkfuse::lowering {

std::string Printer::text(const Code& code) const {
  std::string text;
  text.reserve(code.text_.size() + 8 * code.symbols_.size());
  const std::string_view all = code.text_;
  std::size_t at = 0;
  for (const Symbol& symbol : code.symbols_) {
    text += all.substr(at, symbol.at - at);
    at = symbol.at + symbol.length;
    print(symbol, all.substr(symbol.at, symbol.length), text);
  }
  text += all.substr(at);
  return text;
}

void Printer::print(const Symbol& symbol, std::string_view replaced, std::string& text) const {
  switch (symbol.kind) {
    case Symbol::Kind::name: text += names_[symbol.number]; break;
    case Symbol::Kind::size:
      text += sizes_ != nullptr ? sizes_->size(symbol.number) : fmt::format("#{}", symbol.number);
      break;
    case Symbol::Kind::quotient:
    case Symbol::Kind::remainder: print_division(symbol, text); break;
    case Symbol::Kind::declarations:
      if (sizes_ != nullptr) text += sizes_->declarations();
      if (of_part_) text += "  uint base_x;  // the first workgroup of this part\n  uint base_y;\n";
      break;
    case Symbol::Kind::workgroup:
      text += of_part_ ? "(gl_WorkGroupID + uvec3(p.base_x, p.base_y, 0u))" : replaced;
      break;
    case Symbol::Kind::block:
    case Symbol::Kind::end_of_block: break;
  }
}

void Printer::print_division(const Symbol& symbol, std::string& text) const {
  const std::string x = this->text(*symbol.operand);
  if (sizes_ == nullptr) {
    text += fmt::format("#{}({})", symbol.number, x);
    return;
  }
  const bool is_quotient = symbol.kind == Symbol::Kind::quotient;
  const bool more_than_a_word = !symbol.operand->is_one_word() || symbol.operand->divides();
  const std::string result = sizes_->divided(more_than_a_word ? "(" + x + ")" : x, x, symbol.number);
  const bool is_call = is_quotient && !sizes_->is_literal(symbol.number);
  text += symbol.alone || is_call ? result : "(" + result + ")";
}

}  // namespace vkfuse::lowering

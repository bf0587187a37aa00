#include "support/hidden_names.hpp"

#include <cctype>
#include <set>
#include <utility>

#include "kernel/vocabulary.hpp"

namespace vkfuse::test {
namespace {

/// Words and single characters, without comments and lines for the preprocessor.
std::vector<std::string> tokens(std::string_view glsl) {
  std::vector<std::string> all;
  bool ignored = false, word = false;
  for (std::size_t i = 0; i < glsl.size(); ++i) {
    const char c = glsl[i];
    ignored = c != '\n' && (ignored || c == '#' || glsl.substr(i, 2) == "//");
    const bool in_word = !ignored && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_');
    if (in_word && word)
      all.back() += c;
    else if (!ignored && std::isspace(static_cast<unsigned char>(c)) == 0)
      all.emplace_back(1, c);
    word = in_word;
  }
  return all;
}

/// Without the parameters of cooperative matrices, which end with '>' as comparisons do.
std::vector<std::string> without_parameters(const std::vector<std::string>& all) {
  std::vector<std::string> kept;
  bool inside = false;
  for (const std::string& token : all) {
    if (token == "<" && !kept.empty() && kept.back() == "coopmat") inside = true;
    if (!inside) kept.push_back(token);
    inside = inside && token != ">";
  }
  return kept;
}

/// Scalars, vectors and matrices.
bool is_type(const std::string& token) {
  static const std::set<std::string> scalars = {"float",     "uint",       "int",      "bool",     "double",
                                                "float16_t", "int64_t",    "uint64_t", "uint16_t", "uint8_t",
                                                "int8_t",    "bfloat16_t", "coopmat"};
  const std::size_t vec = token.find("vec");
  return scalars.count(token) != 0 || (vec != std::string::npos && vec + 4 == token.size());
}

/// One that templates spell themselves.
bool is_of_template(const std::string& name) {
  const lowering::Word word = lowering::word_of(name);
  return word != lowering::kNoWord && lowering::row_of(word).is_local;
}

class Blocks {
 public:
  void open() { blocks_.emplace_back(); }
  void close() {
    if (blocks_.size() > 1) blocks_.pop_back();
  }
  bool declare(const std::string& name) {
    bool visible = false;
    for (const std::set<std::string>& block : blocks_) visible = visible || block.count(name) != 0;
    blocks_.back().insert(name);
    return !visible;
  }

 private:
  std::vector<std::set<std::string>> blocks_ = {{}};
};

}  // namespace

std::vector<std::string> hidden_names(std::string_view glsl) {
  std::vector<std::string> hidden;
  Blocks blocks;
  const std::vector<std::string> all = without_parameters(tokens(glsl));
  int parentheses = 0;
  bool in_header = false;  // the block of what a function or a loop declares in its parentheses
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& token = all[i];
    if (token == "(" && parentheses++ == 0) blocks.open();
    if (token == ")" && --parentheses == 0) {
      in_header = i + 1 < all.size() && all[i + 1] == "{";
      if (!in_header) blocks.close();
    }
    if (token == "{" && !std::exchange(in_header, false)) blocks.open();
    if (token == "}") blocks.close();
    const bool declares = i > 0 && i + 1 < all.size() && is_type(all[i - 1]) && std::isalpha(token[0]) != 0 &&
                          std::string_view("=;,)[:").find(all[i + 1][0]) != std::string_view::npos;
    if (declares && !blocks.declare(token) && !is_of_template(token)) hidden.push_back(token);
  }
  return hidden;
}

}  // namespace vkfuse::test

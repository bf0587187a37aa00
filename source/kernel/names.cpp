#include "kernel/names.hpp"

#include <algorithm>
#include <unordered_map>

#include "kernel/printer.hpp"
#include "kernel/scopes.hpp"

namespace vkfuse::lowering {

namespace {

/// Which texts are names of which blocks.
class Taken {
 public:
  Taken(const Code& code, const Scopes& scopes) : code_(code), scopes_(scopes) {}

  /// For a name whose uses are all in `block`: whether it may have the text, which then is taken.
  bool take(const std::string& text, int block) {
    const Word word = word_of(text);
    if (word != kNoWord && (!row_of(word).is_local || code_.uses(word))) return false;
    std::vector<int>& blocks = blocks_[text];
    const auto hides = [&](int other) { return scopes_.overlap(block, other); };
    if (std::any_of(blocks.begin(), blocks.end(), hides)) return false;
    blocks.push_back(block);
    return true;
  }

 private:
  const Code& code_;
  const Scopes& scopes_;
  std::unordered_map<std::string, std::vector<int>> blocks_;
};

}  // namespace

Code Names::given(std::string of_graph, std::string by_order) {
  names_.push_back({{std::move(of_graph), std::move(by_order)}, {}});
  return Code::symbol(Symbol::Kind::name, names_.size() - 1);
}

Code Names::unique(const Code& requested) {
  names_.push_back({{}, requested});
  return Code::symbol(Symbol::Kind::name, names_.size() - 1);
}

std::vector<std::string> Names::texts(Naming naming, const Code& code) const {
  const auto column = static_cast<std::size_t>(naming);
  const Scopes scopes(code, names_.size());
  Taken taken(code, scopes);
  for (const Name& name : names_) {
    if (name.requested.empty()) taken.take(name.given[column], 0);
  }
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const Name& name = names_[i];
    if (name.requested.empty()) {
      texts.push_back(name.given[column]);
      continue;
    }
    const std::string requested = Printer(texts, nullptr).text(name.requested);
    std::string own = requested;
    const int block = scopes.of_name(i);
    for (int number = 1; block != Scopes::kUnused && !taken.take(own, block); ++number)
      own = requested + std::to_string(number);
    texts.push_back(std::move(own));
  }
  return texts;
}

}  // namespace vkfuse::lowering

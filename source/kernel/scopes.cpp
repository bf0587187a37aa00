#include "kernel/scopes.hpp"

namespace vkfuse::lowering {

Scopes::Scopes(const Code& code, std::size_t names) : of_names_(names, kUnused) { use_names(code, 0); }

void Scopes::use_names(const Code& code, int block) {
  for (const Symbol& symbol : code.symbols()) {
    if (symbol.kind == Symbol::Kind::block) {
      blocks_.push_back({block, blocks_[block].depth + 1});
      block = static_cast<int>(blocks_.size()) - 1;
    } else if (symbol.kind == Symbol::Kind::end_of_block) {
      block = blocks_[block].parent;
    } else if (symbol.kind == Symbol::Kind::name) {
      int& own = of_names_[symbol.number];
      own = own == kUnused ? block : innermost_with(own, block);
    } else if (symbol.operand != nullptr) {
      use_names(*symbol.operand, block);
    }
  }
}

int Scopes::innermost_with(int a, int b) const {
  while (a != b) {
    int& deeper = blocks_[a].depth > blocks_[b].depth ? a : b;
    deeper = blocks_[deeper].parent;
  }
  return a;
}

bool Scopes::overlap(int a, int b) const {
  const int both = innermost_with(a, b);
  return both == a || both == b;
}

}  // namespace vkfuse::lowering

#include "templates/transpose/lower_staged_load.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vkfuse::lowering {

using index::Expr;

StagedLoad::StagedLoad(const segment::Loops& loops, const schedule::TransposeParams& tile, const schedule::Box& box,
                       const schedule::TransposedLoad& load)
    : tile_(tile),
      box_(box),
      load_(load),
      array_(schedule::array_of(box, load)),
      units_(schedule::unit_count(box, load)),
      length_(schedule::run_length(tile, load)) {
  for (int axis = 0; axis < static_cast<int>(loops.axes.size()); ++axis) {
    const bool in_run = std::find(load.run.begin(), load.run.end(), axis) != load.run.end();
    if (!in_run && tile.extents[static_cast<std::size_t>(axis)] > 1) others_.push_back(axis);
  }
}

std::vector<Expr> StagedLoad::position(const Expr& unit, int element, int column) const {
  const std::int64_t vectors = length_ / load_.elements;
  const std::int64_t runs = units_ / vectors;
  const std::int64_t near = schedule::threads_along(vectors, load_.elements);
  const Sizes digits{vectors / near, runs, near};
  const std::vector<Expr> digit = index::delinearize(unit, digits);
  std::vector<Expr> local(tile_.extents.size());
  // Along the run, innermost axis last.
  Sizes sizes;
  for (auto axis = load_.run.rbegin(); axis != load_.run.rend(); ++axis)
    sizes.push_back(tile_.extents[static_cast<std::size_t>(*axis)]);
  const std::vector<Expr> along = index::delinearize((digit[0] * near + digit[2]) * load_.elements + element, sizes);
  for (std::size_t i = 0; i < along.size(); ++i)
    local[static_cast<std::size_t>(load_.run[along.size() - 1 - i])] = along[i];
  // Across it.
  sizes.clear();
  for (int axis : others_) sizes.push_back(tile_.extents[static_cast<std::size_t>(axis)]);
  if (!sizes.empty()) sizes.back() /= load_.packed;
  const std::vector<Expr> across = index::delinearize(digit[1], sizes);
  for (std::size_t i = 0; i < across.size(); ++i) local[static_cast<std::size_t>(others_[i])] = across[i];
  if (load_.packed > 1) local.back() = local.back() * load_.packed + column;

  const auto outer = local.size() - static_cast<std::size_t>(tile_.merged);
  std::vector<Expr> merged(local.begin(), local.begin() + static_cast<std::ptrdiff_t>(outer));
  merged.push_back(index::linearize(std::span(local).subspan(outer), std::span(tile_.extents).subspan(outer)));
  return merged;
}

Expr StagedLoad::entry(const Expr& unit, int element) const {
  const std::vector<Expr> at = position(unit, element, 0);
  const std::size_t rows = at.size() - 1;
  return array_.entry(index::linearize(std::span(at).first(rows), std::span(box_.extents).first(rows)), at.back());
}

Code entry_bits(DType dtype, std::span<const Code> raw, int elements, int element) {
  const int size = size_of(dtype);
  const auto component = [&](const Code& vector, int word) {
    return elements * size <= 4 ? vector : code("{}.{}", vector, "xyzw"[word]);
  };
  if (size == 8) return elements == 1 ? raw[0] : raw[0] + (element == 0 ? ".xy" : ".zw");
  if (size == 4) return component(raw[0], element);
  const int bits = 8 * size;
  const int per_word = 4 / size;
  const int from = elements == 1 ? 0 : element % per_word;
  Code all;
  for (int k = 0; k < static_cast<int>(raw.size()); ++k) {
    const Code word = component(raw[static_cast<std::size_t>(k)], element / per_word);
    const int shift = (k - from) * bits;
    Code text = shift > 0 ? code("{} << {}", word, shift) : shift < 0 ? code("{} >> {}", word, -shift) : word;
    // Shifts to either end of a word leave nothing beside the element.
    const bool alone = std::abs(k - from) == per_word - 1;
    if (raw.size() > 1) {
      if (!alone) text = code("{} & 0x{:08x}u", shift == 0 ? text : "(" + text + ")", ((1u << bits) - 1) << (k * bits));
      text = "(" + text + ")";
    }
    all += (all.empty() ? "" : " | ") + text;
  }
  return all;
}

}  // namespace vkfuse::lowering

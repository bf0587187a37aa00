#include "base/shape.hpp"

#include <algorithm>

namespace vkfuse {

Dim Dim::any(std::string name, DimFacts facts) {
  Dim dim(std::int64_t{0});
  dim.symbol_ = std::make_shared<const Symbol>(Symbol{std::move(name), facts});
  return dim;
}

const std::string& Dim::name() const {
  static const std::string none;
  return symbol_ ? symbol_->name : none;
}

DimFacts Dim::facts() const {
  return symbol_ ? symbol_->facts : DimFacts{size_, size_, std::max<std::int64_t>(size_, 1)};
}

std::string Dim::text() const { return is_symbol() ? name() : std::to_string(size_); }

std::string to_text(const Shape& shape) {
  std::string all = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) all += (i == 0 ? "" : ", ") + shape[i].text();
  return all + "]";
}

std::string to_text(const TensorType& type) { return std::string(name_of(type.dtype)) + to_text(type.shape); }

Result<void> check_dtype(DType dtype) {
  const int number = static_cast<int>(dtype);
  if (number >= kDTypeCount)
    return invalid("{} is not a dtype: they are numbered from 0 to {}.", number, kDTypeCount - 1);
  return {};
}

std::optional<std::int64_t> checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

Result<std::int64_t> element_count(std::span<const std::int64_t> sizes) {
  // A zero anywhere makes the tensor empty, however large the other dimensions are.
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return std::int64_t{0};
  std::int64_t count = 1;
  for (std::int64_t size : sizes) {
    const auto product = checked_mul(count, size);
    if (!product)
      return invalid("A tensor of shape [{}] has more elements than 64 bits can count.", fmt::join(sizes, ", "));
    count = *product;
  }
  return count;
}

Result<std::int64_t> byte_count(DType dtype, std::span<const std::int64_t> sizes) {
  VKF_TRY(count, element_count(sizes));
  const auto bytes = checked_mul(count, size_of(dtype));
  if (!bytes)
    return invalid("A tensor {}[{}] has more bytes than 64 bits can count.", name_of(dtype), fmt::join(sizes, ", "));
  return *bytes;
}

Result<Sizes> resolve(const Shape& shape, const SymbolValues& symbols) {
  Sizes sizes;
  sizes.reserve(shape.size());
  for (const Dim& dim : shape) {
    if (!dim.is_symbol()) {
      sizes.push_back(dim.size());
      continue;
    }
    const auto found = symbols.find(dim.name());
    if (found == symbols.end()) return invalid("The symbolic dimension '{}' has no value in this run.", dim.name());
    const DimFacts facts = dim.facts();
    const std::int64_t size = found->second;
    if (size < facts.min || size > facts.max || size % facts.multiple_of != 0) {
      return invalid("The dimension '{}' is {}, but it was declared as min {}, max {}, multiple of {}.", dim.name(),
                     size, facts.min, facts.max, facts.multiple_of);
    }
    sizes.push_back(size);
  }
  return sizes;
}

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape out(rank, Dim(1));
  for (std::size_t i = 0; i < rank; ++i) {
    const Dim x = i < a.size() ? a[a.size() - 1 - i] : Dim(1);
    const Dim y = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    Dim& result = out[rank - 1 - i];
    if (x == y || y == Dim(1)) {
      result = x;
    } else if (x == Dim(1)) {
      result = y;
    } else {
      return invalid("Shapes {} and {} do not broadcast: dimension {} is {} in one and {} in the other.", to_text(a),
                     to_text(b), rank - 1 - i, x.text(), y.text());
    }
  }
  return out;
}

}  // namespace vkfuse

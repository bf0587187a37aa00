// Composites through C: they go by a name where an op does.
#include <bit>

#include "api/composite_table.hpp"
#include "c/handles.hpp"

namespace vkfuse::c {

namespace {

/// A shape of numbers is a list of integers.
Result<CompositeAttribute> sizes_of(std::string_view op, const vkf_attribute& given) {
  VKF_TRY(shape, to_shape(given.shape, given.count));
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : shape) {
    if (dim.is_symbol())
      return invalid("The attribute '{}' of '{}' has the symbol '{}', but takes sizes.", given.name, op, dim.name());
    sizes.push_back(dim.size());
  }
  return CompositeAttribute(std::move(sizes));
}

Result<CompositeAttribute> to_composite_attribute(std::string_view op, const vkf_attribute& given) {
  switch (given.kind) {
    case VKF_ATTRIBUTE_INTEGER: return CompositeAttribute(given.integer);
    case VKF_ATTRIBUTE_REAL: return CompositeAttribute(std::bit_cast<double>(given.integer));
    case VKF_ATTRIBUTE_SHAPE: return sizes_of(op, given);
    case VKF_ATTRIBUTE_INTEGERS: {
      VKF_TRY(integers, list(given.integers, given.count, "integers of an attribute"));
      return CompositeAttribute(std::vector<std::int64_t>(integers.begin(), integers.end()));
    }
    case VKF_ATTRIBUTE_TEXT: {
      VKF_CHECK_OK(need(given.text, "text of an attribute"));
      return CompositeAttribute(std::string(given.text));
    }
    case VKF_ATTRIBUTE_DTYPE: break;
  }
  return invalid("The attribute '{}' of '{}' is of kind {}, which no composite takes.", given.name, op,
                 static_cast<int>(given.kind));
}

}  // namespace

bool is_composite(const vkf_op* op) {
  return op != nullptr && op->name != nullptr && api::find_composite(op->name) != nullptr;
}

Result<CompositeAttributes> composite_attributes(const vkf_op& op) {
  VKF_TRY(given, list(op.attributes, op.attribute_count, "attributes"));
  CompositeAttributes attributes;
  for (const vkf_attribute& one : given) {
    VKF_CHECK_OK(need(one.name, "name of an attribute"));
    VKF_TRY(value, to_composite_attribute(op.name, one));
    if (!attributes.emplace(one.name, std::move(value)).second)
      return invalid("The attribute '{}' of '{}' is given twice.", one.name, op.name);
  }
  return attributes;
}

}  // namespace vkfuse::c

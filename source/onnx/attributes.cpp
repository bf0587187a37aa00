#include "onnx/attributes.hpp"

#include "onnx/text.hpp"

namespace vkfuse::onnx {

Attributes::Attributes(const pb::NodeProto& node, const Attributes* caller) {
  for (const pb::AttributeProto& attribute : node.attribute()) {
    const pb::AttributeProto* value = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      value = caller != nullptr ? caller->find(attribute.ref_attr_name()) : nullptr;
    }
    // A reference to what the caller left out is as if it were not stated: the default holds.
    if (value != nullptr) entries_.push_back({attribute.name(), value});
  }
}

const pb::AttributeProto* Attributes::find(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.name == name) return entry.value;
  }
  return nullptr;
}

std::vector<std::string_view> Attributes::names() const {
  std::vector<std::string_view> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

Result<const pb::AttributeProto*> Attributes::typed(std::string_view name,
                                                    pb::AttributeProto::AttributeType type) const {
  const pb::AttributeProto* value = find(name);
  if (value == nullptr || value->type() == type) return value;
  return invalid("Attribute {} has the type {}; it must be {}.", in_quotes(name),
                 pb::AttributeProto::AttributeType_Name(value->type()), pb::AttributeProto::AttributeType_Name(type));
}

Result<double> Attributes::real(std::string_view name, double otherwise) const {
  VKF_TRY(value, typed(name, pb::AttributeProto::FLOAT));
  return value != nullptr ? static_cast<double>(value->f()) : otherwise;
}

Result<std::int64_t> Attributes::integer(std::string_view name, std::int64_t otherwise) const {
  VKF_TRY(value, typed(name, pb::AttributeProto::INT));
  return value != nullptr ? static_cast<std::int64_t>(value->i()) : otherwise;
}

Result<std::string_view> Attributes::text(std::string_view name, std::string_view otherwise) const {
  VKF_TRY(value, typed(name, pb::AttributeProto::STRING));
  return value != nullptr ? std::string_view(value->s()) : otherwise;
}

Result<std::vector<std::int64_t>> Attributes::integers(std::string_view name) const {
  VKF_TRY(value, typed(name, pb::AttributeProto::INTS));
  if (value == nullptr) return std::vector<std::int64_t>{};
  return std::vector<std::int64_t>(value->ints().begin(), value->ints().end());
}

Result<std::vector<double>> Attributes::reals(std::string_view name) const {
  VKF_TRY(value, typed(name, pb::AttributeProto::FLOATS));
  if (value == nullptr) return std::vector<double>{};
  return std::vector<double>(value->floats().begin(), value->floats().end());
}

Result<std::vector<std::string_view>> Attributes::texts(std::string_view name) const {
  VKF_TRY(value, typed(name, pb::AttributeProto::STRINGS));
  if (value == nullptr) return std::vector<std::string_view>{};
  return std::vector<std::string_view>(value->strings().begin(), value->strings().end());
}

}  // namespace vkfuse::onnx

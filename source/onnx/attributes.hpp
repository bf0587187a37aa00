// The attributes of one node, read by name and type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "onnx/schema.hpp"

namespace vkfuse::onnx {

/// Inside the body of a model-local function an attribute may refer to an attribute of the node that
/// called it; construction resolves those, so that readers see values only.
class Attributes {
 public:
  /// `caller` holds the attributes of the calling node; null outside functions. Both must outlive this.
  Attributes(const pb::NodeProto& node, const Attributes* caller);

  /// The attribute, or null if the node (and, through a reference, its caller) does not state it.
  [[nodiscard]] const pb::AttributeProto* find(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

  /// The value, or the default if it is not stated; an error if it has another type. Text
  /// is a view of the model, or of the default.
  [[nodiscard]] Result<double> real(std::string_view name, double otherwise) const;
  [[nodiscard]] Result<std::int64_t> integer(std::string_view name, std::int64_t otherwise) const;
  [[nodiscard]] Result<std::string_view> text(std::string_view name, std::string_view otherwise) const;
  /// The lists; empty if they are not stated.
  [[nodiscard]] Result<std::vector<std::int64_t>> integers(std::string_view name) const;
  [[nodiscard]] Result<std::vector<double>> reals(std::string_view name) const;
  [[nodiscard]] Result<std::vector<std::string_view>> texts(std::string_view name) const;

  /// Names of the stated attributes, in file order.
  [[nodiscard]] std::vector<std::string_view> names() const;

 private:
  struct Entry {
    std::string_view name;
    const pb::AttributeProto* value;
  };
  [[nodiscard]] Result<const pb::AttributeProto*> typed(std::string_view name,
                                                        pb::AttributeProto::AttributeType type) const;
  std::vector<Entry> entries_;
};

}  // namespace vkfuse::onnx

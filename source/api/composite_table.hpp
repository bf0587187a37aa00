// The composites that go by a name, in one table.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "ir/graph.hpp"
#include "vkfuse/composites.hpp"

namespace vkfuse::api {

/// An attribute with its default, which says its kind.
struct NamedAttribute {
  std::string_view name;
  CompositeAttribute otherwise;
};

/// The attributes of one call, each given or the default.
class CompositeCall {
 public:
  CompositeCall(const std::vector<NamedAttribute>& attributes, const CompositeAttributes& given)
      : attributes_(attributes), given_(given) {}

  [[nodiscard]] std::int64_t integer(std::string_view name) const { return std::get<std::int64_t>(value(name)); }
  [[nodiscard]] int axis() const;
  [[nodiscard]] bool flag(std::string_view name) const { return integer(name) != 0; }
  [[nodiscard]] double real(std::string_view name) const { return std::get<double>(value(name)); }
  [[nodiscard]] const std::vector<std::int64_t>& integers(std::string_view name) const {
    return std::get<std::vector<std::int64_t>>(value(name));
  }
  [[nodiscard]] const std::string& text(std::string_view name) const { return std::get<std::string>(value(name)); }

 private:
  [[nodiscard]] const CompositeAttribute& value(std::string_view name) const;

  const std::vector<NamedAttribute>& attributes_;
  const CompositeAttributes& given_;
};

struct Composite {
  std::string_view name;
  std::string_view operands;  ///< their names, with '?' where one may be left out; those come last
  std::vector<NamedAttribute> attributes;
  std::string_view documentation;
  Tensor (*make)(std::span<const Tensor> operands, const CompositeCall& call);

  [[nodiscard]] std::size_t most_operands() const;
  [[nodiscard]] std::size_t least_operands() const;
};

/// Sorted by name.
std::span<const Composite> composites();
/// Null where none has the name.
const Composite* find_composite(std::string_view name);

/// Appends the ops of a composite to a graph that has the operands. Nothing is appended where something is wrong.
/// `constants`, where given, gets the values that are constants to gradients().
Result<ir::NodeId> append_composite(ir::Graph& graph, std::string_view name, std::span<const ir::NodeId> operands,
                                    const CompositeAttributes& attributes,
                                    std::vector<ir::NodeId>* constants = nullptr);

}  // namespace vkfuse::api

// Graphs in text, evaluated by the reference, for tests that compare with loops of their own.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "reference/reference.hpp"
#include "support/device.hpp"
#include "support/random.hpp"

namespace vkfuse::test {

/// Inputs by name as bytes of their dtype.
class Inputs {
 public:
  template <typename T>
  Inputs& add(const std::string& name, const std::vector<T>& elements) {
    const auto bytes = std::as_bytes(std::span(elements));
    bytes_[name].assign(bytes.begin(), bytes.end());
    return *this;
  }
  Inputs& size(const std::string& symbol, std::int64_t value) {
    symbols_[symbol] = value;
    return *this;
  }
  [[nodiscard]] reference::InputBindings input_bindings() const {
    reference::InputBindings all;
    for (const auto& [name, bytes] : bytes_) all.inputs[name] = bytes;
    all.symbols = symbols_;
    return all;
  }

 private:
  std::map<std::string, std::vector<std::byte>> bytes_;
  SymbolValues symbols_;
};

/// A value of a graph, all of it, by coordinates.
struct Evaluated {
  reference::Column column;
  Sizes sizes;
  DType dtype = DType::f32;

  [[nodiscard]] double number(std::size_t i) const {
    return is_float(dtype) ? column.value[i] : static_cast<double>(column.integer[i]);
  }
  [[nodiscard]] std::vector<double> numbers() const {
    std::vector<double> all;
    for (std::size_t i = 0; i < column.bound.size(); ++i) all.push_back(number(i));
    return all;
  }
};

inline Evaluated evaluated(const ir::Graph& graph, const Inputs& inputs, const std::string& output = "y") {
  const reference::InputBindings input_bindings = inputs.input_bindings();
  for (const ir::Output& one : graph.outputs()) {
    if (one.name != output) continue;
    const TensorType& type = graph.node(one.value).type;
    return {must(reference::evaluate(graph, one.value, input_bindings)),
            must(resolve(type.shape, input_bindings.symbols)), type.dtype};
  }
  throw std::runtime_error("no such output");
}

/// Statements, the last of which is the result.
inline ir::Graph graph_of(const std::vector<std::string>& statements) {
  std::string text = "graph \"g\" {\n";
  for (std::size_t i = 0; i < statements.size(); ++i) text += fmt::format("%{} = {}\n", i, statements[i]);
  return must(ir::parse(text + fmt::format("output \"y\" = %{}\n}}", statements.size() - 1)));
}

inline Evaluated evaluated(const std::vector<std::string>& statements, const Inputs& inputs) {
  return evaluated(graph_of(statements), inputs);
}

using At = std::vector<std::int64_t>;

/// Every coordinate of these sizes, in row-major order.
inline void each(const Sizes& sizes, const std::function<void(const At&)>& visit) {
  At at(sizes.size(), 0);
  for (std::int64_t size : sizes) {
    if (size == 0) return;
  }
  while (true) {
    visit(at);
    std::size_t axis = sizes.size();
    while (axis > 0 && ++at[axis - 1] == sizes[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

/// A dense array of doubles by coordinates.
struct Dense {
  Sizes sizes;
  std::vector<double> elements;

  double& at(const At& coordinates) { return elements[position(coordinates)]; }
  [[nodiscard]] double at(const At& coordinates) const { return elements[position(coordinates)]; }

 private:
  [[nodiscard]] std::size_t position(const At& coordinates) const {
    std::int64_t index = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (coordinates[i] < 0 || coordinates[i] >= sizes[i]) throw std::out_of_range("coordinates");
      index = index * sizes[i] + coordinates[i];
    }
    return static_cast<std::size_t>(index);
  }
};

/// The flat index of every element, as f32.
inline Dense counted(Sizes sizes) {
  Dense dense{std::move(sizes), {}};
  each(dense.sizes, [&](const At&) { dense.elements.push_back(static_cast<double>(dense.elements.size())); });
  return dense;
}
inline std::vector<float> floats(const Dense& dense) { return {dense.elements.begin(), dense.elements.end()}; }

/// Every element equals what `wanted` says, or is NaN as it is, and is decided.
inline void expect_each(const Evaluated& got, const Sizes& sizes, const std::function<double(const At&)>& wanted,
                        const std::string& what = "") {
  ASSERT_EQ(got.sizes, sizes) << what;
  std::size_t i = 0;
  each(sizes, [&](const At& at) {
    const double want = wanted(at);
    const double have = got.number(i);
    const double bound = got.column.bound[i];
    EXPECT_TRUE((std::isnan(want) && std::isnan(have)) || have == want ||
                std::abs(have - want) <= 1e-12 * std::abs(want))
        << what << ": element " << i << " is " << have << ", not " << want;
    EXPECT_TRUE(std::isfinite(bound)) << what << ": element " << i << " is undecided";
    ++i;
  });
  EXPECT_EQ(i, got.column.bound.size()) << what;
}

}  // namespace vkfuse::test

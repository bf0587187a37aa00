#include "parallel/local_inputs.hpp"

#include <cstring>

#include "api/program.hpp"
#include "api/states.hpp"
#include "base/error.hpp"

namespace vkfuse::parallel {

namespace {

/// The symbols of a shape as these sizes have them.
Result<void> note_symbols(const std::string& name, const TensorType& type, const Sizes& sizes, SymbolValues& symbols) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Dim& dim = type.shape[i];
    if (!dim.is_symbol()) continue;
    const auto [known, is_new] = symbols.emplace(dim.name(), sizes[i]);
    if (is_new || known->second == sizes[i]) continue;
    return invalid("Input '{}' is [{}], but {} is {} in another input.", name, fmt::join(sizes, ", "), dim.name(),
                   known->second);
  }
  return {};
}

Result<Sizes> sizes_of(const std::string& name, const TensorType& type, const HostView& view) {
  VKF_TRY(sizes, api::host_sizes(type, name, view));
  if (sizes.size() != type.shape.size())
    return invalid("Input '{}' is [{}], but its type is {}.", name, fmt::join(sizes, ", "), to_text(type));
  return sizes;
}

/// Part `at` of `parts` along an axis.
struct Part {
  std::size_t axis = 0;
  std::int64_t parts = 1, at = 0;
};

/// The bytes of a part; `sizes` become its sizes.
std::vector<std::byte> bytes_of_part(std::span<const std::byte> whole, const Part& along, DType dtype, Sizes& sizes) {
  const auto [axis, parts, at] = along;
  std::size_t outer = 1, run = static_cast<std::size_t>(size_of(dtype));
  sizes[axis] /= parts;
  for (std::size_t i = 0; i < sizes.size(); ++i) (i < axis ? outer : run) *= static_cast<std::size_t>(sizes[i]);
  std::vector<std::byte> part(outer * run);
  for (std::size_t o = 0; o < outer; ++o) {
    const std::size_t from = o * static_cast<std::size_t>(parts) + static_cast<std::size_t>(at);
    if (run > 0) std::memcpy(part.data() + o * run, whole.data() + from * run, run);
  }
  return part;
}

Result<void> check_given(const std::string& name, const TensorType& type, const HostView& view,
                         const LocalInputs& local) {
  const Sizes& sizes = local.sizes.at(name);
  VKF_TRY(expected, resolve(type.shape, local.symbols));
  VKF_TRY(bytes, byte_count(type.dtype, expected));
  if (expected != sizes || static_cast<std::int64_t>(view.bytes.size()) != bytes) {
    return invalid("Input '{}' is [{}] in {} bytes, but {} takes [{}] in {} bytes.", name, fmt::join(sizes, ", "),
                   view.bytes.size(), to_text(type), fmt::join(expected, ", "), bytes);
  }
  return {};
}

}  // namespace

namespace {

/// An input may be left out where others have its symbols.
Result<void> check_symbols(const std::string& name, const TensorType& type, const LocalInputs& local) {
  for (const Dim& dim : type.shape) {
    if (!dim.is_symbol() || local.symbols.contains(std::string(dim.name()))) continue;
    return invalid("Input '{}' of type {} was not given, and no other one has the symbol {}.", name, to_text(type),
                   dim.name());
  }
  return {};
}

bool is_read(const DividedProgram& program, const std::string& name) {
  return program.reads == nullptr || program.reads->contains(name);
}

/// This rank's part of one input, which is whole.
Result<std::vector<std::byte>> local_part(const DividedProgram& program, const std::string& name,
                                          const TensorType& type, const HostView& given, const LocalInputs& local) {
  Sizes own = local.sizes.at(name);
  VKF_CHECK_OK(check_given(name, type, given, local));
  std::vector<std::byte> bytes(given.bytes.begin(), given.bytes.end());
  const auto layout = program.sharded.inputs.find(name);
  for (std::size_t axis = 0; layout != program.sharded.inputs.end() && axis < own.size(); ++axis) {
    const int over = layout->second[axis];
    if (over < 0) continue;
    const Part along{axis, program.mesh[static_cast<std::size_t>(over)],
                     coordinate_of(program.mesh, over, program.rank)};
    bytes = bytes_of_part(bytes, along, type.dtype, own);
  }
  return bytes;
}

}  // namespace

namespace {

/// The sizes of what is given, and the symbols of that and of what is known.
Result<LocalInputs> sizes_and_symbols(const DividedProgram& program, const Inputs& inputs, const WholeSizes& placed,
                                      bool needs_all) {
  const ir::Graph& graph = program.graph;
  LocalInputs local;
  for (const ir::NodeId id : graph.inputs()) {
    const TensorType& type = graph.node(id).type;
    const std::string& name = api::input_name(graph, id);
    const auto given = inputs.find(name);
    if (given == inputs.end()) {
      const auto known = placed.find(name);
      if (known != placed.end()) {
        VKF_CHECK_OK(note_symbols(name, type, known->second, local.symbols));
      } else if (needs_all && is_read(program, name)) {
        return invalid("Input '{}' of type {} was not given.", name, to_text(type));
      }
      continue;
    }
    VKF_TRY(one, sizes_of(name, type, given->second));
    VKF_CHECK_OK(note_symbols(name, type, one, local.symbols));
    local.sizes[name] = std::move(one);
  }
  for (const ir::NodeId id : graph.inputs()) {
    const std::string& name = api::input_name(graph, id);
    const TensorType& type = graph.node(id).type;
    // The other ranks have them, too, and runs are of the same sizes.
    if (needs_all && !inputs.contains(name) && !placed.contains(name)) VKF_CHECK_OK(check_symbols(name, type, local));
  }
  return local;
}

}  // namespace

Result<LocalInputs> local_inputs(const DividedProgram& program, const Inputs& inputs, const WholeSizes& placed,
                                 bool needs_all) {
  const ir::Graph& graph = program.graph;
  VKF_TRY(local, sizes_and_symbols(program, inputs, placed, needs_all));
  for (const auto& entry : inputs) {
    if (!local.sizes.contains(entry.first))
      return invalid("The program '{}' has no input '{}'.", graph.name, entry.first);
  }
  for (const ir::NodeId id : graph.inputs()) {
    const TensorType& type = graph.node(id).type;
    const std::string& name = api::input_name(graph, id);
    const auto given = inputs.find(name);
    if (given == inputs.end()) continue;
    if (!is_read(program, name)) {
      VKF_CHECK_OK(check_given(name, type, given->second, local));
      continue;
    }
    VKF_TRY(bytes, local_part(program, name, type, given->second, local));
    local.values.emplace(name, std::move(bytes));
  }
  return local;
}

}  // namespace vkfuse::parallel

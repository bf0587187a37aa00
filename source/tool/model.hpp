// Reading what the command line names: models, arrays, random inputs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "vkfuse/executable.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::tool {

/// What the command line says about a model.
struct ModelOptions {
  std::map<std::string, std::int64_t, std::less<>> dims;  ///< sizes for symbols
  /// Values that inputs will have, in the file's dtypes: sizes and elements are taken from there where the import needs
  /// them.
  std::map<std::string, onnx::TensorData, std::less<>> values;
  std::vector<std::string> known;  ///< inputs among `values` that become constants in any case
  std::optional<DType> floats;     ///< what f32 becomes
  bool host = true;                ///< load_in_parts may follow
  bool allow_custom = false;       ///< a text may hold code of its own
};

/// A model as a graph, and what its file says besides.
struct Model {
  ir::Graph graph;
  std::vector<std::string> unread;     ///< inputs that the file states and no output needs
  std::vector<std::string> constants;  ///< inputs that have become constants
  std::vector<std::string> notes;      ///< what was ignored or decided, a sentence each
};

/// Inputs of a model that its graph does not have.
std::vector<std::string> without_graph(const Model& model);

/// A model file as a graph: .vkf is the text form, .onnx goes through the importer.
Result<Model> load_model(const std::filesystem::path& path, const ModelOptions& options = {});

/// A model whose import asks for the host as a program in parts.
Result<onnx::OnnxProgram> load_in_parts(const Device& device, const std::filesystem::path& path,
                                        const ModelOptions& options, const CompileOptions& how);
/// Whether load_in_parts may take what load_model gave this error for.
bool may_load_in_parts(const std::filesystem::path& path, const ModelOptions& options, const Error& error);
/// A graph with these inputs alone, for the functions below.
Result<ir::Graph> graph_of(const std::vector<Port>& inputs);

/// A whole file as text.
Result<std::string> read_text(const std::filesystem::path& path);
/// Writes next to the target and renames, so that nothing half-written is left behind.
Result<void> write_file(const std::filesystem::path& path, std::string_view bytes);

/// NumPy's .npy, version 1 and 2, C order, little-endian.
Result<HostTensor> read_npy(const std::filesystem::path& path);
/// The same from a .npy file or from one that holds a TensorProto (.pb).
Result<HostTensor> read_tensor(const std::filesystem::path& path);
/// The same numbers in another float dtype.
HostTensor converted(const HostTensor& tensor, DType dtype);
Result<void> write_npy(const std::filesystem::path& path, const HostTensor& tensor);

/// Elements for an input: floats N(0,1), booleans fair, integers in [0, 4). The same seed and name
/// give the same elements on every machine.
HostTensor random_tensor(DType dtype, std::vector<std::int64_t> sizes, std::uint64_t seed, std::string_view name);

/// Tensors for every input of a graph. Symbolic dimensions take `symbols`, else 4 rounded up to what
/// their facts ask for.
struct RunInputs {
  std::map<std::string, HostTensor, std::less<>> tensors;
  SymbolValues symbols;
};
Result<RunInputs> random_inputs(const ir::Graph& graph, std::uint64_t seed, const SymbolValues& symbols = {});

/// Views of the tensors, for Executable::run.
Inputs views(const RunInputs& inputs);

/// One dimension value per symbol from the sizes of the inputs given, checked against each other.
Result<SymbolValues> symbols_of(const ir::Graph& graph, const std::map<std::string, HostTensor, std::less<>>& tensors);

}  // namespace vkfuse::tool

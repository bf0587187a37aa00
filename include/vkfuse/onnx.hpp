// Reading ONNX models. Part of the shared library; of the static ones, the one of CMake's target vkfuse_onnx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "vkfuse/dtype.hpp"
#include "vkfuse/executable.hpp"
#include "vkfuse/result.hpp"
#include "vkfuse/tensor.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse {
namespace onnx VKFUSE_PUBLIC {

/// A dense tensor in host memory: `bytes` holds exactly the product of `sizes` elements,
/// little-endian, row-major; a boolean is one byte, 0 or 1.
struct TensorData {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;
  std::vector<std::byte> bytes;
};

struct OnnxOptions {
  /// Graph inputs whose value is already known, by name. They are imported as constants and are not
  /// among OnnxModel::inputs. Some operators need this: the shape operand of Expand and the bounds
  /// of Range decide the shape of the result, which has to be known when the graph is written down.
  std::map<std::string, TensorData, std::less<>> known_inputs;
  /// Values that graph inputs will have, by name, for what the import cannot do without. Where the model is more than
  /// symbols can say, or gives one symbol two sizes, it is imported for the sizes of these. Where the elements of an
  /// integer or boolean input, or of a float input that is one number or is read as it is, decide a shape, a condition
  /// or a count, that input becomes a constant, as if it were among `known_inputs`, and OnnxModel::constant_inputs
  /// lists it. Otherwise they change nothing.
  std::map<std::string, TensorData, std::less<>> input_values;
  /// Sizes for symbolic dimensions, by name; a dimension not named here stays symbolic.
  std::map<std::string, std::int64_t, std::less<>> dims;
  /// Sizes of graph inputs, by name: symbolic dimensions take their numbers from there.
  std::map<std::string, std::vector<std::int64_t>, std::less<>> input_sizes;
  /// The bytes of files that weights lie in, by the location that the model states. They are looked for here, and then
  /// beside the model, if it is a file. Read during the call alone.
  std::map<std::string, std::span<const std::byte>, std::less<>> external_data;
  /// f16 or bf16: inputs, weights and results that are f32 become this. What an operator computes in f32 inside, such
  /// as the statistics of a norm, stays so.
  std::optional<DType> floats;
  /// Past keys and values of GroupQueryAttention are caches of their full length, as their presents are, and
  /// seqlens_k says how many positions of them count: new rows are written in place where both are bound to one buffer.
  /// Without it that is so where total_sequence_length is known and no longer than the past; else presents are pasts
  /// with the new rows after them.
  bool shared_caches = false;
};

/// An imported graph. It owns everything it needs: the file may change or vanish afterwards. As
/// with every Tensor, nothing has been computed yet.
struct OnnxModel {
  std::string name;                       ///< the graph's name
  std::vector<Tensor> inputs;             ///< graph inputs that are neither initialisers nor constants
  std::vector<std::string> input_names;   ///< of `inputs`, in the same order
  std::vector<Tensor> outputs;            ///< valid tensors, in the model's order
  std::vector<std::string> output_names;  ///< of `outputs`, in the same order
  std::int64_t opset = 0;                 ///< of the default domain, "ai.onnx"
  std::vector<std::string>
      constant_inputs;  ///< those of known_inputs, and of input_values that decide what is computed
  /// What the file says and the import ignores, as ONNX Runtime does, a sentence each: wrong shapes of outputs, nodes
  /// that are not sorted, negative sizes, one symbol with two sizes; and which inputs have become constants for what
  /// they decide.
  std::vector<std::string> notes;
};

/// Imports a .onnx file. A dimension parameter becomes the symbol of that name; an unnamed unknown
/// dimension becomes a symbol named after the input and the axis ("x.0"). Initialisers may lie in
/// files beside the model. docs/onnx.md lists the operators.
///
/// Errors: not_found and io for the file; invalid_argument for what is not a sound model (truncated,
/// cyclic, unknown names, wrong dtypes or shapes, data that disagrees with its shape);
/// unsupported for operators, forms of operators and types that are not offered. Memory stays within
/// a small multiple of the bytes of the files read. Thread-safe: no shared state.
///
///     Result<onnx::OnnxModel> model = onnx::load_onnx("model.onnx");
///     if (model) Result<Executable> program = compile(*device, model->outputs, {});
Result<OnnxModel> load_onnx(const std::filesystem::path& path, const OnnxOptions& options = {});
/// The same of the bytes of such a file, which are read during the call alone. No file is opened: weights that lie
/// elsewhere are those of OnnxOptions::external_data, and others are an error (not_found).
Result<OnnxModel> load_onnx(std::span<const std::byte> model, const OnnxOptions& options = {});

/// A dense tensor in device memory, from the start of the buffer on; what follows in the buffer is not touched beyond
/// the last 16 bytes that the tensor begins.
struct DeviceTensor {
  Buffer buffer;
  std::vector<std::int64_t> sizes;
};
/// An input of a run, on the host or on the program's device.
using RunInput = std::variant<HostView, DeviceTensor>;
using RunInputs = std::map<std::string, RunInput, std::less<>>;
/// Where a result goes: nowhere, to memory of the host of its size (nowhere if empty), or to a buffer on the program's
/// device that has at least its size.
using ResultPlace = std::variant<std::monostate, std::span<std::byte>, Buffer>;
/// Says it of each output, once its sizes are known: before kernels run if one program serves, else after them. An
/// error ends the run, which returns it.
using ResultPlaces =
    std::function<Result<ResultPlace>(std::string_view name, DType dtype, std::span<const std::int64_t> sizes)>;

/// A model compiled for a device in parts, with steps of the host between them. Operators whose results have shapes
/// that depend on data (NonZero, Unique, Compress, NonMaxSuppression, TfIdfVectorizer) run on the host; what follows
/// them is compiled when a run has told its sizes, and kept for runs that come to the same. Values that kernels compute
/// and that decide what follows (conditions of If and Loop, counts, bounds, shapes; up to 1,024 elements) are read by
/// the host, and what follows is compiled with them and kept likewise; a Loop has a part for each iteration then, up to
/// 1,024. RNN, GRU and LSTM over more than 64 steps run in rounds of 32. A model whose import needs the sizes of its
/// inputs, or the elements of those that decide shapes, conditions or counts (OnnxOptions::input_values says which
/// may), is compiled for each that it is run with. Of either, what the last 16 took is kept. Values between parts stay
/// on the device but for those that the host reads. Copies share the program; thread-safe: runs overlap, but one
/// compiles at a time.
///
///     Result<onnx::OnnxProgram> program = onnx::compile_onnx(*device, "detector.onnx");
///     if (program) Result<Outputs> boxes = program->run({{"image", HostView(pixels, {1, 3, 640, 640})}});
class OnnxProgram {
 public:
  // Copied where it could be moved, so that none is ever empty.
  OnnxProgram(const OnnxProgram&) = default;
  OnnxProgram& operator=(const OnnxProgram&) = default;

  /// Uploads, runs, downloads. Inputs with symbolic dimensions state their sizes. Errors: those of load_onnx and
  /// compile() for what could not be looked at before, and of Executable::run.
  [[nodiscard]] Result<vkfuse::Outputs> run(const Inputs& inputs) const;
  /// The same into memory of the caller, as Executable::run; by the names of the model's outputs, in any order.
  [[nodiscard]] Result<void> run(const Inputs& inputs, const OutputMemory& memory) const;
  /// The same with tensors where the caller has them: inputs and results in device memory are not copied, but for
  /// results of a model that runs in parts. Waits until all is done. A buffer for a result is none of an input.
  [[nodiscard]] Result<void> run_placed(const RunInputs& inputs, const ResultPlaces& places) const;
  /// Time of every kernel and every step of the host ("host NonZero") in one run, in running order, with the bytes that
  /// each reads and writes.
  [[nodiscard]] Result<std::vector<KernelTime>> profile(const Inputs& inputs) const;
  /// The plan, as text (Stage::plan) or JSON (Stage::json), of a run with inputs of these sizes, by name; those without
  /// symbolic dimensions need none; elements that decide shapes are those of OnnxOptions::input_values. What follows a
  /// step of the host is planned for the most elements that can come of it; the plan ends where a value decides.
  [[nodiscard]] Result<std::string> explain(
      Stage stage, const std::map<std::string, std::vector<std::int64_t>, std::less<>>& sizes = {}) const;
  /// In the model's order.
  [[nodiscard]] std::vector<Port> inputs() const;
  [[nodiscard]] std::vector<std::string> output_names() const;
  /// The dtype and shape of an output: of the program, where one serves all runs; else as the file states them, and an
  /// error where it does not.
  [[nodiscard]] Result<Port> output_type(std::string_view name) const;
  /// ONNX's name of the elements of an input or output that no DType is, "FLOAT8E4M3FN" or "INT4": each is in a byte of
  /// its own, floats as their codes in the low bits, integers as their values. Empty for all others.
  [[nodiscard]] Result<std::string_view> narrow_type(std::string_view name) const;
  /// OnnxModel::notes, of what has been imported so far.
  [[nodiscard]] std::vector<std::string> notes() const;

  struct State;  // internal
  explicit OnnxProgram(std::shared_ptr<State> state) : state_(std::move(state)) {}
  [[nodiscard]] const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

/// Imports a .onnx file and compiles what does not depend on data, or on sizes that only a run tells. Errors as
/// load_onnx and compile().
Result<OnnxProgram> compile_onnx(const Device& device, const std::filesystem::path& path,
                                 const OnnxOptions& options = {}, const CompileOptions& compile_options = {});
/// The same of the bytes of such a file, as load_onnx takes them.
Result<OnnxProgram> compile_onnx(const Device& device, std::span<const std::byte> model,
                                 const OnnxOptions& options = {}, const CompileOptions& compile_options = {});

/// Reads a file that holds one TensorProto, as the test data of ONNX does ("input_0.pb").
/// Errors as load_onnx; a sequence or an optional is not a tensor and is refused.
Result<TensorData> read_tensor_proto(const std::filesystem::path& path);

/// The operators load_onnx takes, as a Markdown page: docs/onnx.md is this text.
std::string operator_table_markdown();

}  // namespace VKFUSE_PUBLIC
}  // namespace vkfuse

// What is behind an OnnxProgram, its parts and what is kept of them.
#pragma once

#include <memory>
#include <mutex>
#include <set>

#include "ir/graph.hpp"
#include "onnx/graph_import.hpp"
#include "onnx/program_watcher.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::onnx {

/// Kernels between two rounds of the host, at given sizes.
struct ProgramPart {
  explicit ProgramPart(ModelImport made) : import(std::move(made)) {}

  ModelImport import;                                                 ///< as it stopped
  std::optional<ir::Graph> graph;                                     ///< nothing where no kernel has to run
  std::optional<Executable> program;                                  ///< of the graph, once it is compiled
  std::map<std::size_t, std::vector<LongRecurrence::Rounds>> rounds;  ///< likewise, of steps that are recurrences
  /// What follows, by the sizes of the host's results, and the values of those that decide; what was used last comes
  /// last.
  std::vector<std::pair<std::vector<std::int64_t>, std::shared_ptr<ProgramPart>>> next;
};

struct OnnxProgram::State {
  State(Device on, std::unique_ptr<const pb::ModelProto> read, ModelImport import, GivenInputs offered,
        CompileOptions how)
      : device(std::move(on)),
        model(std::move(read)),
        weights(std::move(import)),
        given(std::move(offered)),
        compile_options(std::move(how)) {}

  Device device;
  std::unique_ptr<const pb::ModelProto> model;  ///< the imports refer to it
  ModelImport weights;                          ///< before inputs have sizes
  GivenInputs given;                            ///< by the options
  CompileOptions compile_options;
  bool runs_decide =
      true;  ///< elements that a run is given may decide what is computed; else only those of the options
  std::vector<Port> inputs;
  std::vector<std::string> output_names;
  std::shared_ptr<ProgramPart> whole;           ///< set: one program serves all sizes
  std::mutex mutex;                             ///< over what is kept, here and in parts
  std::set<std::string, std::less<>> deciding;  ///< inputs whose elements have decided what some run computes
  std::vector<std::string> notes;
  /// First parts, by the sizes of all inputs and the elements of the deciding ones.
  std::vector<std::pair<std::vector<std::int64_t>, std::shared_ptr<ProgramPart>>> by_sizes;
};

struct ParsedModel {
  std::unique_ptr<const pb::ModelProto> proto;
  ExternalFiles files;
};

/// The program of a parsed model. `runs_decide` as in the state.
Result<OnnxProgram> compile_model(const Device& device, ParsedModel model, const OnnxOptions& options,
                                  const CompileOptions& compile_options, bool runs_decide = true);

/// The first part for inputs of the sizes given, and of the elements that it needs of them; and what follows a part for
/// these results; not yet compiled. Where there is none, `deciding` (may be null) gets what was not given.
Result<std::shared_ptr<ProgramPart>> first_part(const OnnxProgram::State& state, const GivenInputs& given,
                                                std::vector<std::string>* deciding = nullptr);
Result<std::shared_ptr<ProgramPart>> next_part(const OnnxProgram::State& state, const ProgramPart& before,
                                               const std::vector<StepResults>& results);

/// Compiles what is not compiled yet.
Result<void> compile_part(const OnnxProgram::State& state, ProgramPart& part);
/// Adds the notes of its import to the program's. The caller holds the mutex, or the state alone.
void take_notes(OnnxProgram::State& state, const ProgramPart& part);

/// Whatever is thrown inside comes out as an error.
template <typename Body>
auto guarded(const char* doing, Body body) -> decltype(body()) try {
  return body();
} catch (const std::bad_alloc&) {
  return make_error(ErrorCode::out_of_memory, "There is not enough host memory for {}.", doing);
} catch (const std::exception& failure) {
  return make_error(ErrorCode::internal, "There is a defect in {}: {}.", doing, failure.what());
}

/// The parts of a run with inputs of these sizes, up to the last, or to one after which values decide; results of the
/// host are as large as they can be.
Result<std::vector<std::shared_ptr<ProgramPart>>> largest_parts(
    const OnnxProgram& program, const std::map<std::string, std::vector<std::int64_t>, std::less<>>& sizes);

Result<std::string> explain_program(const OnnxProgram& program, Stage stage,
                                    const std::map<std::string, std::vector<std::int64_t>, std::less<>>& sizes);

}  // namespace vkfuse::onnx

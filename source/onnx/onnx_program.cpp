#include "onnx/onnx_program.hpp"

#include <algorithm>

#include "api/program.hpp"
#include "api/tensor_node.hpp"
#include "onnx/load.hpp"
#include "onnx/model_source.hpp"
#include "onnx/proto_file.hpp"
#include "onnx/text.hpp"
#include "onnx/value_types.hpp"

namespace vkfuse::onnx {
namespace {

using State = OnnxProgram::State;
using Part = std::shared_ptr<ProgramPart>;

Result<void> make_graph(const State& state, ProgramPart& part) {
  std::vector<Tensor> outputs;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : part.import.part().outputs) {
    names.push_back(name);
    outputs.push_back(tensor);
  }
  if (outputs.empty()) return {};
  VKF_TRY(graph, api::to_graph(outputs, names, state.weights.model().name));
  part.graph = std::move(graph);
  return {};
}

}  // namespace

Result<void> compile_part(const State& state, ProgramPart& part) {
  const std::vector<PlacedStep>& steps = part.import.part().steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].step.recurrence || part.rounds.contains(i)) continue;
    VKF_TRY(rounds, steps[i].step.recurrence->compile(state.device, state.compile_options));
    part.rounds.emplace(i, std::move(rounds));
  }
  if (!part.graph || part.program) return {};
  VKF_TRY(program, api::compile_graph(state.device, *part.graph, state.compile_options));
  part.program = std::move(program);
  return {};
}

void take_notes(State& state, const ProgramPart& part) {
  for (const std::string& note : part.import.model().notes) {
    if (std::ranges::find(state.notes, note) == state.notes.end()) state.notes.push_back(note);
  }
}

Result<Part> first_part(const OnnxProgram::State& state, const GivenInputs& given, std::vector<std::string>* deciding) {
  VKF_TRY(import, begin_sized(state.weights, given, deciding));
  auto part = std::make_shared<ProgramPart>(std::move(import));
  VKF_CHECK_OK(make_graph(state, *part));
  return part;
}

Result<Part> next_part(const OnnxProgram::State& state, const ProgramPart& before,
                       const std::vector<StepResults>& results) {
  auto part = std::make_shared<ProgramPart>(before.import);
  VKF_CHECK_OK(part->import.resume(results));
  VKF_CHECK_OK(make_graph(state, *part));
  return part;
}

namespace {

Result<Port> output_type_of(const State& state, std::string_view name) {
  const auto& outputs = state.model->graph().output();
  const auto stated =
      std::ranges::find(outputs, name, [](const auto& info) -> std::string_view { return info.name(); });
  if (stated == outputs.end()) return make_error(ErrorCode::not_found, "The model has no output {}.", in_quotes(name));
  if (state.whole && state.whole->import.is_finished()) {
    const OnnxModel& model = state.whole->import.model();
    const auto at = std::ranges::find(model.output_names, name) - model.output_names.begin();
    const Tensor& output = model.outputs[static_cast<std::size_t>(at)];
    return Port{std::string(name), output.dtype(), output.shape()};
  }
  VKF_TRY(type, input_type(*stated, state.weights.sized(), "Output"));
  if (state.weights.sized().floats && type.dtype == DType::f32) type.dtype = *state.weights.sized().floats;
  return Port{std::string(name), type.dtype, std::move(type.shape)};
}

Result<std::string_view> narrow_type_of(const State& state, std::string_view name) {
  const auto is_named = [&](const pb::ValueInfoProto& info) { return info.name() == name; };
  for (const auto* infos : {&state.model->graph().input(), &state.model->graph().output()}) {
    const auto info = std::ranges::find_if(*infos, is_named);
    if (info == infos->end()) continue;
    const NarrowType* type = narrow_type(*info);
    return type == nullptr ? std::string_view() : type->name;
  }
  return make_error(ErrorCode::not_found, "The model has no input and no output {}.", in_quotes(name));
}

}  // namespace

std::vector<Port> OnnxProgram::inputs() const { return state_->inputs; }
std::vector<std::string> OnnxProgram::output_names() const { return state_->output_names; }

std::vector<std::string> OnnxProgram::notes() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->notes;
}

Result<Port> OnnxProgram::output_type(std::string_view name) const {
  return guarded("a model", [&] { return output_type_of(*state_, name); });
}

Result<std::string_view> OnnxProgram::narrow_type(std::string_view name) const {
  return guarded("a model", [&] { return narrow_type_of(*state_, name); });
}

Result<std::string> OnnxProgram::explain(Stage stage, const std::map<std::string, Sizes, std::less<>>& sizes) const {
  return guarded("a plan", [&] { return explain_program(*this, stage, sizes); });
}

namespace {

Result<OnnxProgram> compile_source(const Device& device, const ModelSource& source, const OnnxOptions& options,
                                   const CompileOptions& compile_options, bool runs_decide) {
  return guarded("the import of a model", [&]() -> Result<OnnxProgram> {
    VKF_TRY(read, source.read());
    Result<OnnxProgram> made =
        compile_model(device, {std::make_unique<const pb::ModelProto>(std::move(read)), source.files(options)}, options,
                      compile_options, runs_decide);
    if (made) return made;
    return std::move(made).error().within(fmt::format("importing {}", source.name()));
  });
}

}  // namespace

Result<OnnxProgram> compile_onnx(const Device& device, const std::filesystem::path& path, const OnnxOptions& options,
                                 const CompileOptions& compile_options) {
  return compile_source(device, path, options, compile_options, true);
}

Result<OnnxProgram> compile_onnx(const Device& device, std::span<const std::byte> model, const OnnxOptions& options,
                                 const CompileOptions& compile_options) {
  return compile_source(device, model, options, compile_options, true);
}

Result<OnnxProgram> compile_given(const Device& device, const std::filesystem::path& path, const OnnxOptions& options,
                                  const CompileOptions& compile_options) {
  return compile_source(device, path, options, compile_options, false);
}

Result<OnnxProgram> compile_model(const Device& device, ParsedModel model, const OnnxOptions& options,
                                  const CompileOptions& compile_options, bool runs_decide) {
  VKF_TRY(weights, ModelImport::load(*model.proto, model.files, options, HostUse::allowed));
  // Sizes that the options state decide the symbols of every run.
  VKF_CHECK_OK(weights.take_input_sizes());
  auto state = std::make_shared<State>(device, std::move(model.proto), std::move(weights),
                                       GivenInputs(options.input_values), compile_options);
  state->notes = state->weights.model().notes;
  state->runs_decide = runs_decide;
  VKF_TRY(inputs, state->weights.stated_inputs());
  state->inputs = std::move(inputs);
  for (const pb::ValueInfoProto& output : state->model->graph().output()) {
    // No value of a run mends that.
    if (states_sequence(output))
      return unsupported("Output {} is a sequence, which is not supported.", in_quotes(output.name()));
    state->output_names.push_back(output.name());
  }
  const bool has_symbols = std::ranges::any_of(
      state->inputs, [](const Port& port) { return std::ranges::any_of(port.shape, &Dim::is_symbol); });
  std::vector<std::string> deciding;
  Result<Part> whole = first_part(*state, {}, &deciding);
  if (!whole) {
    // A run tells sizes and elements, and more may be sound and supported then; or what is given already does.
    const bool may_be_mended =
        whole.error().code == ErrorCode::unsupported || whole.error().code == ErrorCode::invalid_argument;
    if (!may_be_mended || (!has_symbols && deciding.empty())) return std::move(whole).error();
    const auto is_given = [&](const Port& port) { return state->given.sizes().contains(port.name); };
    if (std::ranges::all_of(state->inputs, is_given) || (!runs_decide && !has_symbols)) {
      VKF_TRY(part, first_part(*state, state->given));
      take_notes(*state, *part);
    }
    return OnnxProgram(std::move(state));
  }
  take_notes(*state, **whole);
  if (!has_symbols || (*whole)->import.is_finished()) {
    VKF_CHECK_OK(compile_part(*state, **whole));
    state->whole = *std::move(whole);
  }
  return OnnxProgram(std::move(state));
}

}  // namespace vkfuse::onnx

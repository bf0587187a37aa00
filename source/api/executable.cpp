#include <algorithm>
#include <chrono>

#include "api/program.hpp"
#include "api/states.hpp"
#include "api/tensor_node.hpp"
#include "index/arithmetic.hpp"
#include "plan/file.hpp"
#include "spirv/reflect.hpp"
#include "spirv/tools.hpp"

namespace vkfuse {

Result<MemoryUse> Executable::memory(const Symbols& symbols) const {
  return api::guarded([&]() -> Result<MemoryUse> {
    VKF_CHECK_OK(state_->program->check_symbols(symbols));
    return state_->program->memory(symbols);
  });
}

void Executable::State::tune_later(const SymbolValues& symbols) {
  if (background.budget_ms <= 0) return;
  std::call_once(begun, [&] {
    // Not `this`: where the search lets go of the last handle, or exits, it outlives the state.
    const auto search = [program = program, background = background, symbols](const std::stop_token& stop) {
      // One search at a time on a device: two would measure each other.
      const auto turn = program->context()->searches().take(stop);
      if (!turn) return;
      runtime::TuneOptions options = background;
      options.stop = [stop] { return stop.stop_requested(); };
      // Nobody waits for it: what goes wrong leaves the kernels as they are.
      const auto done =
          api::guarded([&]() -> Result<TuneProgress> { return runtime::tune(*program, symbols, options); });
      static_cast<void>(done);
    };
    static_cast<void>(tuner.start(search));  // where no thread is to be had, there is no search
  });
}

namespace {

Result<TuneProgress> tune_now(runtime::Program& program, const Symbols& symbols, const runtime::TuneOptions& options) {
  SymbolValues values(symbols.begin(), symbols.end());
  const SymbolValues representative = program.representative();
  if (values.empty()) values = representative;
  for (const auto& entry : representative) {
    if (values.count(entry.first) == 0) return invalid("The symbol '{}' has no size.", entry.first);
  }
  VKF_CHECK_OK(program.check_symbols(values));
  return runtime::tune(program, values, options);
}

}  // namespace

Result<TuneProgress> Executable::tune(double budget_ms, const Symbols& symbols,
                                      const std::function<void(const TuneProgress&)>& progress) const {
  return api::guarded([&]() -> Result<TuneProgress> {
    if (!(budget_ms >= 0)) return invalid("{} ms are no budget.", budget_ms);
    return tune_now(*state_->program, symbols, {budget_ms, progress, {}});
  });
}

namespace {

/// Registers, spills and code size under whatever names the driver has for them.
plan::KernelFigures figures_of(runtime::Context& context, const lowering::Kernel& kernel) {
  plan::KernelFigures figures;
  if (!context.device()->caps().profiling.executable_statistics) return figures;
  auto all = context.kernels().statistics(kernel);
  if (!all) return figures;
  for (const vulkan::Statistic& one : *all) {
    const auto value = static_cast<std::int64_t>(one.value);
    if (one.name == "Register Count" || one.name == "VGPRs") figures.registers = value;
    if (one.name.find("pill") != std::string::npos) figures.spills = figures.spills.value_or(0) + value;
    if (one.name == "Binary Size" || one.name == "Code size" || one.name == "Code Size") figures.code_bytes = value;
  }
  return figures;
}

Result<std::string> code_of(Stage stage, const lowering::Kernel& kernel, const runtime::CompiledKernel& compiled) {
  switch (stage) {
    case Stage::glsl: return kernel.glsl;
    case Stage::spirv: return spirv::disassemble(compiled.spirv);
    case Stage::msl: return spirv::print_msl(compiled.spirv);
    case Stage::hlsl: return spirv::print_hlsl(compiled.spirv);
    default: return invalid("This stage is not code.");
  }
}

Result<std::string> explain_plan(runtime::Program& program, Stage stage, const plan::Measured& measured = {}) {
  const Result<plan::Plan> unfused = program.unfused_plan();  // may be too large where the plan is not
  const SymbolValues symbols = program.representative();
  VKF_TRY(specialization, program.specialization(symbols));  // known since the program was made
  const plan::Plan& plan = program.plan_of(*specialization);
  if (stage == Stage::plan) return plan::to_text(plan, unfused, symbols, measured);
  std::vector<plan::KernelFigures> figures;
  for (std::size_t i = 0; i < specialization->kernels.size(); ++i) {
    figures.push_back(specialization->steps[i].alias
                          ? plan::KernelFigures{}
                          : figures_of(*program.context(), *specialization->kernels[i].back().kernel));
  }
  if (stage == Stage::json) return plan::to_json(plan, unfused, symbols, figures, measured);
  std::vector<std::string> code(specialization->kernels.size());
  for (std::size_t i = 0; i < specialization->kernels.size(); ++i) {
    for (const runtime::Launch& launch : specialization->kernels[i])
      code[i] += (code[i].empty() ? "" : "\n") + launch.kernel->glsl;
  }
  return plan::to_html(plan, unfused, symbols, {std::move(figures), std::move(code)}, measured);
}

}  // namespace

Result<std::string> Executable::explain(Stage stage, std::optional<int> segment) const {
  return api::guarded([&]() -> Result<std::string> {
    runtime::Program& program = *state_->program;
    if (stage == Stage::graph) return ir::print(program.plan().graph);
    if (stage == Stage::plan || stage == Stage::json || stage == Stage::html) return explain_plan(program, stage);
    VKF_TRY(specialization, program.specialization(program.representative()));
    if (segment && (*segment < 0 || *segment >= static_cast<int>(specialization->kernels.size()))) {
      return invalid("There is no segment {}: the plan has {}.", *segment, specialization->kernels.size());
    }
    std::string all;
    for (std::size_t i = 0; i < specialization->kernels.size(); ++i) {
      if (segment ? *segment != static_cast<int>(i) : specialization->steps[i].alias.has_value()) continue;
      for (std::size_t k = 0; k < specialization->kernels[i].size(); ++k) {
        VKF_TRY(compiled, program.compiled(*specialization, i, k));
        VKF_TRY(text, code_of(stage, *specialization->kernels[i][k].kernel, *compiled));
        all += (all.empty() ? "" : "\n") + text;
      }
    }
    return all;
  });
}

Result<std::string> Executable::explain(Stage stage, const MeasuredTimes& times) const {
  return api::guarded([&]() -> Result<std::string> {
    runtime::Program& program = *state_->program;
    if (stage != Stage::plan && stage != Stage::json && stage != Stage::html)
      return invalid("Measured times are part of plans, and of no other stage.");
    VKF_TRY(specialization, program.specialization(program.representative()));
    const std::size_t segments = program.plan_of(*specialization).steps.size();
    if (times.fused.size() != segments)
      return invalid("{} times are given for the {} segments of the plan.", times.fused.size(), segments);
    plan::Measured measured;
    for (const KernelTime& time : times.fused) measured.steps_us.push_back(time.microseconds);
    for (const KernelTime& time : times.unfused)
      measured.unfused_us = measured.unfused_us.value_or(0) + time.microseconds;
    return explain_plan(program, stage, measured);
  });
}

Result<std::string> Executable::save_plan() const {
  return api::guarded([&]() -> Result<std::string> { return plan::to_file(state_->program->plan()); });
}

int Executable::kernel_count() const {
  runtime::Program& program = *state_->program;
  const auto specialization = program.specialization(program.representative());  // known since it was made
  return specialization ? (*specialization)->dispatches() : static_cast<int>(program.plan().steps.size());
}

std::vector<Port> Executable::inputs() const {
  const ir::Graph& graph = state_->program->plan().graph;
  std::vector<Port> all;
  for (ir::NodeId id : state_->program->inputs())
    all.push_back({api::input_name(graph, id), graph.node(id).type.dtype, graph.node(id).type.shape});
  return all;
}

std::vector<Port> Executable::outputs() const {
  const ir::Graph& graph = state_->program->plan().graph;
  std::vector<Port> all;
  for (const ir::Output& output : graph.outputs())
    all.push_back({output.name, graph.node(output.value).type.dtype, graph.node(output.value).type.shape});
  return all;
}

namespace {

/// Names as a person lists them.
template <typename List>
std::string names_of(const List& list) {
  std::string all;
  for (const auto one : list) all += (all.empty() ? "" : ", ") + std::string(name_of(one));
  return all;
}

Result<void> check_ranges(const CompileOptions& options) {
  const int numerics = static_cast<int>(options.numerics);
  if (numerics > static_cast<int>(Numerics::f16_accumulation))
    return invalid("{} is not a kind of numerics: 0 is standard, 1 is strict, 2 has sums in f16.", numerics);
  const int tune = static_cast<int>(options.tune);
  if (tune > static_cast<int>(Tune::background))
    return invalid("{} is not a way to tune: 0 is off, 1 is on, 2 is in the background.", tune);
  if (!(options.tune_ms >= 0)) return invalid("{} ms are no budget.", options.tune_ms);
  if (options.memory_budget < 0) return invalid("{} bytes are no memory budget.", options.memory_budget);
  return {};
}

/// Turns off what is named: planner passes, passes over the graph, fusion.
Result<void> do_without(const std::vector<std::string>& names, runtime::ProgramOptions& made) {
  for (const std::string& name : names) {
    const auto planner_pass = partition::planner_pass_named(name);
    if (planner_pass) {
      made.planning.without.insert(*planner_pass);
    } else if (name == "identities") {
      made.passes.identities = false;
    } else if (name == "reorder") {
      made.passes.reorder = false;
    } else if (name == "fusion") {
      made.fusion = false;
    } else {
      return invalid("'{}' is no planner pass to do without; there are: fusion, identities, reorder, {}.", name,
                     names_of(partition::kPlannerPasses));
    }
  }
  return {};
}

Result<runtime::ProgramOptions> program_options(const CompileOptions& options) {
  VKF_CHECK_OK(check_ranges(options));
  runtime::ProgramOptions made;
  made.fusion = options.fusion;
  VKF_CHECK_OK(do_without(options.without, made));
  const auto policy = partition::policy_named(options.planner);
  if (!policy)
    return invalid("There is no planner '{}'; there are: {}.", options.planner, names_of(partition::kPolicies));
  made.planning.policy = *policy;
  made.planning.memory_budget = options.memory_budget;
  made.plan = options.plan;
  made.numerics = options.numerics == Numerics::strict ? lowering::Numerics::strict : lowering::Numerics::standard;
  if (options.numerics == Numerics::f16_accumulation) made.tuning.f16_accumulation = true;
  const bool plans = !made.planning.without.empty() || made.planning.policy != partition::Policy::bytes ||
                     !made.fusion || options.memory_budget != 0;
  if (!options.plan.empty() && plans) {
    return invalid(
        "A plan that is given leaves nothing to decide: no planner, no planner pass to do without and no memory budget "
        "can be named beside it.");
  }
  // Statistics in parts are not rounded as those of whole rows are.
  if (options.numerics == Numerics::strict) made.planning.without.insert(partition::PlannerPass::partial_statistics);
  return made;
}

}  // namespace

namespace api {

Result<void> supports_graph(const Device& device, const ir::Graph& graph, const CompileOptions& options) {
  return guarded([&]() -> Result<void> {
    VKF_TRY(how, program_options(options));
    Result<void> checked = runtime::Program::check(*device.state()->context, graph, how);
    if (!checked) return std::move(checked).error().within(fmt::format("compiling the graph '{}'", graph.name));
    return {};
  });
}

Result<Executable> compile_graph(const Device& device, ir::Graph graph, const CompileOptions& options) {
  return guarded([&]() -> Result<Executable> {
    VKF_TRY(how, program_options(options));
    auto program = runtime::Program::create(device.state()->context, graph, how);
    if (!program) return std::move(program).error().within(fmt::format("compiling the graph '{}'", graph.name));
    auto state = std::make_shared<Executable::State>(*std::move(program));
    if (options.tune == Tune::on) {
      const auto tuned = tune_now(*state->program, {}, {options.tune_ms, options.on_tune, {}});
      // A device without a clock runs what the model chooses.
      if (!tuned && tuned.error().code != ErrorCode::unsupported) return tuned.error();
    } else if (options.tune == Tune::background) {
      state->background = {options.tune_ms, options.on_tune, {}};
    }
    return Executable(std::move(state));
  });
}

}  // namespace api

Result<Executable> compile(const Device& device, std::span<const Tensor> outputs, const CompileOptions& options) {
  return api::guarded([&]() -> Result<Executable> {
    VKF_TRY(graph, api::to_graph(outputs, options.output_names, options.name));
    return api::compile_graph(device, std::move(graph), options);
  });
}

Result<Executable> compile(const Device& device, std::initializer_list<Tensor> outputs, const CompileOptions& options) {
  return compile(device, std::span<const Tensor>(outputs.begin(), outputs.size()), options);
}

Result<void> supports(const Device& device, std::span<const Tensor> outputs, const CompileOptions& options) {
  return api::guarded([&]() -> Result<void> {
    VKF_TRY(graph, api::to_graph(outputs, options.output_names, options.name));
    return api::supports_graph(device, graph, options);
  });
}

Result<Executable> compile_text(const Device& device, std::string_view text, const CompileOptions& options) {
  return api::guarded([&]() -> Result<Executable> {
    VKF_TRY(graph, ir::parse(text, {.allow_custom = options.allow_custom}));
    return api::compile_graph(device, std::move(graph), options);
  });
}

}  // namespace vkfuse

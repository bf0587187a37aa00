#include "runtime/program.hpp"

#include <algorithm>

#include "base/mutations.hpp"
#include "passes/passes.hpp"

namespace vkfuse::runtime {

namespace {

constexpr std::size_t kMaxVariants = 64;  // least recently used sizes are forgotten

/// What the graph has a use for: 16-bit floats, lanes that fold across each other, and matrix units.
std::vector<Rung> rungs_for(const ir::Graph& graph) {
  bool half = false;
  bool folds = false;
  bool products = false;  // that are added up
  for (const ir::Node& node : graph.nodes()) {
    half = half || node.type.dtype == DType::f16;
    const ops::OpClass cls = node.op->cls;
    folds = folds || cls == ops::OpClass::reduce || cls == ops::OpClass::contraction || cls == ops::OpClass::scan || cls == ops::OpClass::sort;
    const bool of_product = cls == ops::OpClass::reduce && ops::element_row(*graph.node(node.operands[0]).op).is_product;
    products = products || cls == ops::OpClass::contraction || of_product;
  }
  std::vector<Rung> rungs;
  if (folds) rungs.push_back(Rung::t1);
  if (half) rungs.push_back(Rung::t2);
  if (half && products) rungs.insert(rungs.end(), {Rung::t4, Rung::t5});
  return rungs;
}

const std::string& input_name(const ir::Graph& graph, ir::NodeId id) { return std::get<ir::InputPayload>(graph.node(id).payload).name; }

/// The inputs of `prepared` in the order of `graph`: passes keep every input, and not their order.
std::vector<ir::NodeId> inputs_as_written(const ir::Graph& graph, const ir::Graph& prepared) {
  std::map<std::string, ir::NodeId> by_name;
  for (ir::NodeId id : prepared.inputs()) by_name[input_name(prepared, id)] = id;
  std::vector<ir::NodeId> all;
  for (ir::NodeId id : graph.inputs()) all.push_back(by_name.at(input_name(graph, id)));
  return all;
}

/// Dtypes that a device may lack altogether.
Result<void> check_dtypes(const ir::Graph& graph, const Target& target) {
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    if (graph.node(id).type.dtype != DType::f64 || target.caps.float64) continue;
    return unsupported("%{} = {} is f64, and the device '{}' has no 64-bit floats.", id, graph.node(id).op->name, target.name);
  }
  return {};
}

}  // namespace

Result<void> Program::prepare(Context& context, const ir::Graph& graph, const ProgramOptions& options) {
  VKF_TRY(prepared, passes::run_pipeline(graph, options.passes));
  VKF_TRY(target, context.target(rungs_for(prepared)));
  VKF_CHECK_OK(check_dtypes(prepared, target));
  options_ = options;
  inputs_ = inputs_as_written(graph, prepared);
  partition::Options planning = options.planning;
  planning.fusion = options.fusion;
  VKF_TRY(plan, plan::make_plan(std::move(prepared), target, planning));
  plan_ = std::move(plan);
  return {};
}

Result<std::shared_ptr<Program>> Program::create(std::shared_ptr<Context> context, const ir::Graph& graph, const ProgramOptions& options) {
  auto program = std::shared_ptr<Program>(new Program());
  VKF_CHECK_OK(program->prepare(*context, graph, options));
  program->context_ = std::move(context);
  VKF_TRY(first, program->variant(program->nominal()));
  static_cast<void>(first);
  return program;
}

Result<void> Program::check(Context& context, const ir::Graph& graph, const ProgramOptions& options) {
  Program program;
  VKF_CHECK_OK(program.prepare(context, graph, options));
  VKF_TRY(variant, program.write_variant(program.nominal()));
  static_cast<void>(variant);
  return {};
}

Result<plan::Plan> Program::unfused_plan() const { return plan::make_plan(plan_.graph, plan_.target, {false}); }

Result<std::shared_ptr<const Variant>> Program::variant(const SymbolValues& symbols) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = variants_.find(symbols);
    if (known != variants_.end()) {
      recent_.remove(symbols);
      recent_.push_front(symbols);
      return known->second;
    }
  }
  VKF_TRY(made, make_variant(symbols));
  const std::lock_guard<std::mutex> lock(mutex_);
  recent_.push_front(symbols);
  variants_[symbols] = made;
  if (recent_.size() > kMaxVariants) {
    variants_.erase(recent_.back());
    recent_.pop_back();
  }
  return made;
}

/// All at once, so that they are compiled side by side.
Result<void> Program::compile_kernels(Variant& variant) const {
  std::vector<const codegen::Kernel*> wanted;
  for (std::size_t i = 0; i < variant.kernels.size(); ++i) {
    if (variant.steps[i].alias) continue;
    for (const codegen::Kernel& kernel : variant.kernels[i]) wanted.push_back(&kernel);
  }
  VKF_TRY(compiled, context_->compile_all(wanted));
  auto next = compiled.begin();
  for (std::size_t i = 0; i < variant.kernels.size(); ++i) {
    const auto end = next + (variant.steps[i].alias ? 0 : static_cast<std::ptrdiff_t>(variant.kernels[i].size()));
    variant.compiled.emplace_back(next, end);
    next = end;
  }
  return {};
}

Result<std::shared_ptr<Variant>> Program::write_variant(const SymbolValues& symbols) const {
  auto variant = std::make_shared<Variant>();
  variant->symbols = symbols;
  VKF_TRY(steps, plan::schedule_all(plan_, symbols, options_.tuning));
  VKF_TRY(memory, plan::plan_memory(plan_, symbols, steps));
  variant->memory = std::move(memory);
  codegen::EmitOptions emitting;
  emitting.numerics = options_.numerics;
  emitting.hoist_sizes = !symbols.empty();
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    emitting.name = fmt::format("segment {}", i);
    VKF_TRY(kernels, codegen::emit(plan_.graph, plan_.steps[i].segment, steps[i].loops, steps[i].schedule, plan_.target, emitting));
    variant->kernels.push_back(std::move(kernels));
  }
  variant->steps = std::move(steps);
  return variant;
}

Result<std::shared_ptr<const Variant>> Program::make_variant(const SymbolValues& symbols) const {
  VKF_TRY(variant, write_variant(symbols));
  VKF_CHECK_OK(compile_kernels(*variant));
  return std::shared_ptr<const Variant>(std::move(variant));
}

Result<SymbolValues> Program::symbols_for(const std::map<std::string, std::vector<std::int64_t>, std::less<>>& sizes) const {
  SymbolValues symbols;
  for (ir::NodeId id : inputs_) {
    const ir::Node& node = plan_.graph.node(id);
    const std::string& name = std::get<ir::InputPayload>(node.payload).name;
    const auto given = sizes.find(name);
    if (given == sizes.end()) continue;
    if (given->second.size() != node.type.shape.size()) {
      return invalid("Input '{}' has shape [{}], but the program declares {}.", name, fmt::join(given->second, ", "), to_text(node.type.shape));
    }
    for (std::size_t i = 0; i < given->second.size(); ++i) {
      const Dim& dim = node.type.shape[i];
      const std::int64_t size = given->second[i];
      const std::int64_t want = dim.is_symbol() ? symbols.emplace(dim.name(), size).first->second : dim.size();
      if (want != size) return invalid("Input '{}' has size {} in dimension {}, where {} is {}.", name, size, i, dim.text(), want);
    }
  }
  return symbols;
}

Result<std::int64_t> Program::bytes_of(ir::NodeId value, const SymbolValues& symbols) const {
  const TensorType& type = plan_.graph.node(value).type;
  VKF_TRY(sizes, resolve(type.shape, symbols));
  return byte_count(type.dtype, sizes);
}

Result<Ranges> Program::constant_ranges() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Ranges ranges;
  for (const plan::Step& step : plan_.steps) {
    for (ir::NodeId id : step.segment.reads) {
      const auto* constant = std::get_if<ir::ConstantPayload>(&plan_.graph.node(id).payload);
      if (constant == nullptr) continue;
      if (constants_.count(id) == 0) {
        VKF_TRY(buffer, vulkan::Buffer::create(context_->device(), constant->bytes->size(), vulkan::BufferKind::device));
        VKF_CHECK_OK(context_->upload(buffer, 0, *constant->bytes));
        constants_.emplace(id, std::move(buffer));
      }
      ranges[id] = {&constants_.at(id), 0, constants_.at(id).size()};
    }
  }
  return ranges;
}

namespace {

/// Ranges touched since the last barrier.
class Hazards {
 public:
  [[nodiscard]] bool conflict(const vulkan::BufferRange& range, bool write) const {
    const auto overlaps = [&](const vulkan::BufferRange& other) {
      return other.buffer == range.buffer && other.offset < range.offset + range.bytes && range.offset < other.offset + other.bytes;
    };
    return std::any_of(written_.begin(), written_.end(), overlaps) || (write && std::any_of(read_.begin(), read_.end(), overlaps));
  }
  void add(const vulkan::BufferRange& range, bool write) { (write ? written_ : read_).push_back(range); }
  void clear() {
    read_.clear();
    written_.clear();
  }

 private:
  std::vector<vulkan::BufferRange> read_;
  std::vector<vulkan::BufferRange> written_;
};

}  // namespace

namespace {

/// The scratch memory of a sort has two halves where one is read while the other is written.
vulkan::BufferRange half_of(vulkan::BufferRange range, const schedule::Schedule& schedule, int half) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(schedule.scratch_bytes) / (schedule.rounds.size() > 2 ? 2 : 1);
  range.offset += bytes * static_cast<std::uint64_t>(half);
  range.bytes = bytes;
  return range;
}

}  // namespace

Result<std::shared_ptr<const CompiledKernel>> Program::compiled(const Variant& variant, std::size_t step, std::size_t dispatch) const {
  // The context keeps what it has compiled.
  if (variant.compiled[step].empty()) return context_->compile(variant.kernels[step][dispatch]);
  return variant.compiled[step][dispatch];
}

/// Whether a step's value is an alias, and bound to the very bytes that it stands for.
bool Program::is_in_place(const Variant& variant, const Ranges& ranges, std::size_t step) const {
  const std::optional<plan::Alias>& alias = variant.steps[step].alias;
  if (!alias) return false;
  const vulkan::BufferRange& own = ranges.at(plan_.steps[step].segment.stores[0]);
  const vulkan::BufferRange& behind = ranges.at(alias->of);
  return own.buffer == behind.buffer && own.offset == behind.offset + static_cast<std::uint64_t>(alias->offset);
}

Result<void> Program::record(vulkan::CommandBuffer& commands, const Variant& variant, const Ranges& ranges,
                             const vulkan::TimestampPool* timestamps) const {
  Hazards hazards;
  if (timestamps != nullptr) {
    commands.reset_timestamps(*timestamps);
    commands.write_timestamp(*timestamps, 0);
  }
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    bool first = timestamps != nullptr && i > 0;  // timed one by one
    const bool idle = VKF_PLANT(dropped_last_kernel, false, i > 0 && i + 1 == plan_.steps.size()) || variant.steps[i].schedule.items == 0 || is_in_place(variant, ranges, i);
    for (std::size_t k = 0; !idle && k < variant.kernels[i].size(); ++k) {
      const codegen::Kernel& kernel = variant.kernels[i][k];
      std::vector<vulkan::BufferRange> bound;
      bool conflict = first;
      first = false;
      for (const codegen::Binding& binding : kernel.bindings) {
        bound.push_back(ranges.at(binding.scratch ? plan::scratch_id(plan_, i) : binding.value));
        if (binding.half) bound.back() = half_of(bound.back(), variant.steps[i].schedule, *binding.half);
        conflict = conflict || hazards.conflict(bound.back(), binding.store);
      }
      if (VKF_PLANT(missing_barrier, conflict, false)) {
        commands.barrier(vulkan::Access::compute, vulkan::Access::compute);
        hazards.clear();
      }
      for (std::size_t b = 0; b < bound.size(); ++b) hazards.add(bound[b], kernel.bindings[b].store);
      VKF_TRY(kept, compiled(variant, i, k));
      commands.bind(kept->pipeline);
      commands.bind_buffers(bound);
      commands.push_constants(std::as_bytes(std::span(kernel.constants)));
      commands.dispatch(kernel.groups_x, kernel.groups_y);
    }
    if (timestamps != nullptr) commands.write_timestamp(*timestamps, static_cast<std::uint32_t>(i) + 1);
  }
  return {};
}

namespace {

/// Whether every load of `read` is of an element that the same invocation stores to `stored`, after it has loaded all of its own.
bool reads_own_place(const plan::Scheduled& step, ir::NodeId read, ir::NodeId stored) {
  if (step.schedule.kind == schedule::Template::rows) return false;
  return std::all_of(step.loops.values.begin(), step.loops.values.end(), [&](const segment::Value& value) {
    if (value.kind != segment::Value::Kind::load || value.node != read) return true;
    return std::any_of(step.loops.stores.begin(), step.loops.stores.end(), [&](const segment::Store& store) { return store.node == stored && store.offset == value.offset; });
  });
}

}  // namespace

Result<void> Program::check_sharing(const Variant& variant, const Ranges& ranges) const {
  const auto overlap = [&](ir::NodeId a, ir::NodeId b) {
    const vulkan::BufferRange& x = ranges.at(a);
    const vulkan::BufferRange& y = ranges.at(b);
    return x.buffer == y.buffer && x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
  };
  const auto name_of_output = [&](ir::NodeId id) {
    for (const ir::Output& output : plan_.graph.outputs()) {
      if (output.value == id) return output.name;
    }
    return std::string();
  };
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    if (is_in_place(variant, ranges, i)) continue;  // nothing is written
    for (ir::NodeId stored : plan_.steps[i].segment.stores) {
      const std::string output = name_of_output(stored);
      if (output.empty()) continue;
      for (std::size_t k = 0; k < plan_.steps.size(); ++k) {
        const segment::Segment& segment = plan_.steps[k].segment;
        for (std::size_t r = 0; r < segment.reads.size(); ++r) {
          if (k < i || !overlap(stored, segment.reads[r])) continue;
          const bool produced = std::find(plan_.steps[i].segment.stores.begin(), plan_.steps[i].segment.stores.end(), segment.reads[r]) !=
                                plan_.steps[i].segment.stores.end();
          const bool same_place = k == i && reads_own_place(variant.steps[k], segment.reads[r], stored) &&
                                  ranges.at(stored).offset == ranges.at(segment.reads[r]).offset &&
                                  size_of(plan_.graph.node(stored).type.dtype) == size_of(plan_.graph.node(segment.reads[r]).type.dtype);
          if (VKF_PLANT(shared_output, same_place, true) || (k > i && produced)) continue;
          return invalid("Output '{}' shares memory with %{}, which is still read when the output is written.", output, segment.reads[r]);
        }
      }
      for (const ir::Output& other : plan_.graph.outputs()) {
        if (other.value != stored && overlap(stored, other.value)) return invalid("Outputs '{}' and '{}' share memory.", output, other.name);
      }
    }
  }
  return {};
}

}  // namespace vkfuse::runtime

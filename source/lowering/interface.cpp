// The top of a shader: extensions, what it is, push constants, buffers.
#include <algorithm>

#include "base/mutations.hpp"
#include "kernel/printer.hpp"
#include "lowering/components.hpp"
#include "lowering/emitter.hpp"
#include "lowering/names.hpp"
#include "ops/prelude.hpp"
#include "schedule/access.hpp"
#include "schedule/in_place.hpp"
#include "schedule/traffic.hpp"

namespace vkfuse::lowering {

Emitter::Emitter(const LoweringInput& in)
    : graph_(in.graph),
      segment_(in.segment),
      loops_(in.loops),
      schedule_(in.schedule),
      target_(in.target),
      options_(in.options),
      dialect_(dialect_of(target_)),
      reference_sizes_(options_.reference_sizes.loops != nullptr ? options_.reference_sizes
                                                                 : ReferenceSizes{&loops_, &schedule_}),
      numbers_(options_.hoist_sizes),
      ranges_(graph_, loops_),
      forms_(value_forms(form_input())),
      main_(!target_.caps.registers.arrays) {
  for (const auto& [id, name] : in.names.by_order)
    names_.nodes.emplace(id, names_.all.given(in.names.of_graph.at(id), name));
  nan_.hides_zeros = target_.workarounds.folds_nan_away && !schedule_.wide;
  nan_.keeps = {target_.caps.float_controls.keep_nan_f32,
                target_.caps.float_controls.keep_nan_f32 && target_.caps.float_controls.keep_nan_f64};
  chunk_.elements = schedule_.chunk_size;
  chunk_.group = std::min(4, chunk_.elements);
  chunk_.groups = chunk_.elements / chunk_.group;
  // The first position of a node has its name, unless its buffer, which has that name too, is touched where
  // the value is.
  names_.values.resize(loops_.values.size());
  std::set<ir::NodeId> seen;
  for (std::size_t i = 0; i < loops_.values.size(); ++i) {
    const Value& value = loops_.values[i];
    const Code& node = names_.nodes.at(value.node);
    const bool own = seen.insert(value.node).second && !meets_buffer(value.node);
    names_.values[i] = own ? node : unique(value.kind == Value::Kind::load ? node + "_e" : node + "_v");
  }
  for (ir::NodeId id : schedule::buffers_read(loops_)) bindings_.push_back({id, false, false});
  std::set<ir::NodeId> stored;
  for (const segment::Store& store : loops_.stores) {
    const bool first = stored.insert(store.node).second;
    names_.stores.push_back(first ? names_.nodes.at(store.node) : unique(names_.nodes.at(store.node) + "_part"));
    if (first) bindings_.push_back({store.node, true, false});
  }
}

void Emitter::bind_partials(std::string_view word, std::string_view sharers_of) {
  bindings_.push_back({0, true, true});
  partials_ = {word, sharers_of};
}

void Emitter::bind_counts() { bindings_.push_back({.store = true, .scratch = true, .counts = true}); }

void Emitter::go_on_in_last(const Code& number) {
  const Code arrived = unique("arrived");
  shared_.line("shared uint {};", arrived);
  main_.line("// What this workgroup has left is seen by the last one of the {}, which goes on.", partials_.sharers_of);
  main_.line("memoryBarrierBuffer();");
  main_.line("barrier();");
  main_.open("if (thread == 0u) {{");
  main_.line("memoryBarrierBuffer();");
  main_.line("{} = atomicAdd(counts.w[{}], 1u);", arrived, number);
  main_.line("memoryBarrierBuffer();");
  main_.close();
  main_.line("barrier();");
  main_.line("if ({} < {}u) return;", arrived, VKF_PLANT(joined_too_early, schedule_.splits - 1, schedule_.splits - 2));
  main_.line("memoryBarrierBuffer();");
  main_.line("if (thread == 0u) counts.w[{}] = 0u;  // for the next run", number);
}

/// Whether a value of the node is in scope where the buffer of the node is touched: main() touches the
/// buffers that are moved as vectors, and what varies within a chunk is in scope in a function alone.
bool Emitter::meets_buffer(ir::NodeId node) const {
  const auto in_main = [&](const Value& value, const schedule::AccessPlan& plan) {
    const bool per_element = schedule_.kind() != schedule::Template::reduction || loops_.per_element(value);
    const bool vectors = plan.kind == schedule::AccessKind::vector || plan.kind == schedule::AccessKind::transposed;
    return vectors && per_element && schedule::varies_in_chunk(loops_, schedule_, value);
  };
  for (std::size_t i = 0; i < loops_.values.size(); ++i) {
    const Value& value = loops_.values[i];
    if (value.node != node) continue;
    if (value.kind == Value::Kind::scan) return true;  // main() passes it on from thread to thread
    if (value.kind == Value::Kind::load && !in_main(value, schedule_.loads[i])) return true;
  }
  for (std::size_t i = 0; i < loops_.stores.size(); ++i) {
    const segment::Store& store = loops_.stores[i];
    if (store.node == node && !in_main(loops_.values[store.value], schedule_.stores[i])) return true;
  }
  return false;
}

std::string Emitter::op_summary() const {
  std::string all;
  std::size_t listed = 0;
  for (ir::NodeId id : segment_.members) {
    if (++listed > 8) break;
    all += (all.empty() ? "" : ", ") + std::string(graph_.node(id).op->name);
  }
  if (segment_.members.size() > 8) all += fmt::format(", ... {} ops in all", segment_.members.size());
  return all;
}

namespace {

void require(std::string_view extension, bool needed, Writer& out) {
  if (needed) out.line("#extension {} : require", extension);
}

/// Of the types of registers and of matrices' components.
void require_types(const Code& body, Writer& out) {
  require("GL_EXT_shader_explicit_arithmetic_types_int64", body.needs(Need::int64), out);
  require(component_extension(DType::f16), body.needs(Need::float16), out);
  require(component_extension(DType::bf16), body.needs(Need::bfloat16_components), out);
  require(component_extension(DType::i8), body.needs(Need::int8_components), out);
}

/// Of what threads do together.
void require_subgroups(const Code& body, Writer& out) {
  const bool matrices = body.needs(Need::matrices);
  require("GL_KHR_shader_subgroup_basic", body.needs(Need::subgroups), out);
  require("GL_KHR_memory_scope_semantics", matrices, out);
  require("GL_KHR_cooperative_matrix", matrices, out);
  require("GL_NV_cooperative_matrix2", matrices && body.needs(Need::matrix_functions), out);
  require("GL_KHR_shader_subgroup_shuffle", body.needs(Need::shuffles), out);
  require("GL_KHR_shader_subgroup_vote", body.needs(Need::votes), out);
}

void write_keeps_nan(int width, std::string_view comment, Writer& out) {
  out.line("spirv_execution_mode(extensions = [\"SPV_KHR_float_controls\"], capabilities = [4466], 4461, {});  // {}",
           width, comment);
}

}  // namespace

Code Emitter::head(const Code& body, const Code& summary, bool comments) const {
  const bool integer_dot = body.needs(Need::integer_dots);
  const bool aliases =
      std::any_of(bindings_.begin(), bindings_.end(), [&](const Binding& binding) { return may_alias(binding); });
  Writer out;
  out.line("#version 450");
  require_types(body, out);
  for (const int bytes : {2, 1}) {
    const auto narrow = [&](const Binding& binding) { return sub32_bytes(binding) == bytes; };
    require(fmt::format("GL_EXT_shader_{}bit_storage", 8 * bytes),
            std::any_of(bindings_.begin(), bindings_.end(), narrow), out);
  }
  require_subgroups(body, out);
  require("GL_EXT_spirv_intrinsics", nan_.keeps.f32 || integer_dot || aliases, out);
  // Without it a driver may keep what is in flight in memory instead of registers.
  require("GL_EXT_control_flow_attributes", body.needs(Need::loop_control), out);
  out.blank();
  if (comments) {
    out.line("// {} of graph \"{}\": {}", comment_text(options_.name), comment_text(graph_.name), op_summary());
    out.line("// {}{}", summary, options_.numerics == Numerics::strict ? ", strict rounding" : "");
  }
  out.line("layout(local_size_x_id = 0) in;");
  if (nan_.keeps.f32) write_keeps_nan(32, "keep NaN and infinities of f32", out);
  if (nan_.keeps.f64 && body.needs(Need::float64)) write_keeps_nan(64, "and of f64", out);
  if (aliases) out.line("#define ALIASED spirv_decorate(20)  // a result may be written over what it is computed from");
  if (integer_dot) out.line("{}  // the sum of four products of bytes", kIntegerDotProduct);
  out.blank();
  return out.take();
}

bool Emitter::may_alias(const Binding& binding) const {
  if (schedule_.reads_of_others || loops_.opaque || binding.scratch || binding.half) return false;
  for (const Value& load : loops_.values) {
    if (load.kind != Value::Kind::load) continue;
    for (const segment::Store& store : loops_.stores) {
      const bool ours = binding.store ? store.node == binding.value : load.node == binding.value;
      if (ours && size_of(dtype(load.node)) == size_of(dtype(store.node)) && load.offset == store.offset) return true;
    }
  }
  return false;
}

bool Emitter::is_replaced(const Binding& binding) const {
  if (!may_alias(binding) || loops_.stores.size() < 2) return false;
  return std::any_of(loops_.stores.begin(), loops_.stores.end(), [&](const segment::Store& store) {
    return schedule::replaces_input(graph_, loops_, schedule_, binding.value, store.node);
  });
}

int Emitter::sub32_bytes(const Binding& binding) const {
  const bool value = binding.store && !binding.scratch && !binding.half;
  return value && schedule::stores_sub32(graph_, loops_, target_, schedule_, binding.value)
             ? size_of(dtype(binding.value))
             : 0;
}

Code Emitter::push_constants(bool comments) const {
  Writer out;
  out.open("layout(push_constant) uniform Sizes {{");
  std::size_t widest = 0;
  for (const NamedWord& word : numbers_.words()) {
    if (!word.comment.empty()) widest = std::max(widest, word.name.size());
  }
  for (const NamedWord& word : numbers_.words()) {
    const bool silent = word.comment.empty() || !comments;
    out.line("uint {};{}", word.name,
             silent ? "" : fmt::format("{:{}}  // {}", "", widest - word.name.size(), word.comment));
  }
  out.raw(Code::symbol(Symbol::Kind::declarations));
  out.close(" p;");
  out.blank();
  return out.take();
}

/// How a value's buffer is declared: its access, the word of its array and its name.
Code Emitter::value_buffer(const Binding& binding, std::size_t number, bool comments) const {
  const auto store = std::find_if(loops_.stores.begin(), loops_.stores.end(),
                                  [&](const segment::Store& s) { return s.node == binding.value; });
  const int narrow = sub32_bytes(binding);
  const bool joins =
      binding.store && narrow == 0 && size_of(dtype(binding.value)) < 4 && store->buffer_elements > 1 &&
      schedule_.stores[static_cast<std::size_t>(store - loops_.stores.begin())].kind != schedule::AccessKind::vector;
  const std::string_view word = narrow == 0   ? word_type(buffer_bytes(binding.value))
                                : narrow == 2 ? "uint16_t"
                                              : "uint8_t";
  const std::string_view access = binding.store ? (joins ? "" : "writeonly ") : is_replaced(binding) ? "" : "readonly ";
  const Code comment =
      comments ? code("  // %{} : {}", binding.value, comment_text(to_text(graph_.node(binding.value).type))) : "";
  return code("{}{}buffer Buffer{} {{ {} w[]; }} {};{}", may_alias(binding) ? "ALIASED " : "", access, number, word,
              names_.nodes.at(binding.value), comment);
}

Code Emitter::interface(bool comments) const {
  Writer out;
  for (std::size_t i = 0; i < bindings_.size(); ++i) {
    const Binding& binding = bindings_[i];
    if (binding.half) {
      out.line("layout(set = 0, binding = {}) {}buffer Buffer{} {{ uint w[]; }} {};{}", i,
               binding.store ? "writeonly " : "readonly ", i, binding.store ? "pairs_out" : "pairs_in",
               comments ? "  // keys and their positions, for another dispatch" : "");
    } else if (binding.counts) {
      out.line("layout(set = 0, binding = {}) coherent buffer Buffer{} {{ uint w[]; }} counts;{}", i, i,
               comments ? "  // of the workgroups that have left theirs" : "");
    } else if (binding.scratch) {
      out.line("layout(set = 0, binding = {}) {}buffer Buffer{} {{ {} w[]; }} partials;{}", i,
               schedule_.counter_bytes > 0 ? "coherent " : "", i, partials_.word,
               comments ? code("  // of the workgroups that share a {}", partials_.sharers_of) : "");
    } else {
      out.line("layout(set = 0, binding = {}) {}", i, value_buffer(binding, i, comments));
    }
  }
  out.blank();
  return push_constants(comments) + out.take();
}

bool Emitter::divides(std::int64_t piece, Extent all) {
  const bool decided = all.decided % piece == 0;
  differs_ = differs_ || (decided && all.count % piece != 0);
  return decided;
}

Result<RelocatableKernel> Emitter::finish(const Code& summary, std::int64_t groups, std::int64_t groups_x) {
  RelocatableKernel relocatable;
  Kernel& kernel = relocatable.kernel;
  kernel.name = options_.name;
  kernel.workgroup = schedule_.workgroup;
  kernel.bindings = bindings_;
  for (Binding& binding : kernel.bindings) binding.replaced = !binding.store && is_replaced(binding);
  for (const NamedWord& word : numbers_.words()) {
    if (word.name == "chunks" && (word.value & 0x80000000u) != 0) {  // the text counts on that bit: nan_.barrier
      return unsupported("A kernel of {} chunks is not supported: there are {} at most.", word.value, 0x7fffffffu);
    }
    kernel.constants.push_back(word.value);
  }
  relocatable.relocations = numbers_.relocations();
  relocatable.differs = differs_;
  const std::size_t room = std::min<std::size_t>(target_.caps.memory.push_constant_bytes / 4, 32);
  relocatable.most_words = room - std::min(room, kernel.constants.size());
  Code body = shared_.take();
  if (!body.empty()) body += "\n";
  for (const auto& function : custom_functions_) body += function.second + "\n";
  body += functions_.take();
  body += main_.take();
  const Code all = interface(false) + body;
  std::vector<std::string> by_order = names_.all.texts(Naming::by_order, all);
  relocatable.canonical_key = Printer(by_order, nullptr).text(all);
  if (!options_.only_canonical_key) {
    const Code prelude = ops::prelude_of(body.prelude_calls());
    const Code needed = body + prelude;
    const std::string_view gap = prelude.empty() ? "" : "\n";
    // What of the text decides how the kernel behaves: all but names and comments about the graph. The prelude follows
    // from the calls, but what is kept on disk outlives a change of it; and so do the modes that the head asks for.
    kernel.code = std::make_shared<const KernelCode>(
        KernelCode{head(needed, summary, true) + interface(true) + prelude + gap + body,
                   head(needed, summary, false) + interface(false) + prelude + body,
                   names_.all.texts(Naming::of_graph, all), std::move(by_order)});
  }
  if (body.needs(Need::subgroups) || body.needs(Need::matrices)) kernel.subgroup = schedule_.subgroup;
  kernel.groups_x = static_cast<std::uint32_t>(groups_x);
  kernel.groups_y = groups_x == 0 ? 0 : static_cast<std::uint32_t>(schedule::ceil_div(groups, groups_x));
  return relocatable;
}

Result<std::vector<RelocatableKernel>> Emitter::finish_one(const Code& summary) {
  VKF_TRY(kernel, finish(summary, schedule_.launch.workgroups, schedule_.launch.workgroups_x));
  std::vector<RelocatableKernel> kernels;
  kernels.push_back(std::move(kernel));
  return kernels;
}

}  // namespace vkfuse::lowering

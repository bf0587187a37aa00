#include "ort/provider.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/files.hpp"
#include "ort/capability.hpp"
#include "ort/compute.hpp"
#include "os/files.hpp"

namespace vkfuse::ort {
namespace {

std::vector<int> all_nodes(const HostGraph& graph) {
  std::vector<int> nodes(graph.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

/// What tells groups apart: what their nodes are and compute, and where their weights lie.
std::string key_of(const HostGraph& graph, const std::vector<int>& nodes) {
  std::vector<std::string> parts;
  for (const int at : nodes) {
    const HostNode& node = graph.nodes[static_cast<std::size_t>(at)];
    std::string part = node.op_type;
    for (const std::vector<int>* values : {&node.inputs, &node.outputs, &node.implicit_inputs}) {
      for (const int value : *values)
        part += fmt::format(" {}", value < 0 ? "" : graph.values[static_cast<std::size_t>(value)].name);
      part += ';';
    }
    parts.push_back(std::move(part));
  }
  for (const int value : boundary_of(graph, nodes).constants) {
    const HostElements& elements = *graph.values[static_cast<std::size_t>(value)].constant;
    parts.push_back(fmt::format("{} {}", fmt::ptr(elements.bytes.data()), elements.bytes.size()));
  }
  std::ranges::sort(parts);
  return fmt::format("{}", fmt::join(parts, "\n"));
}

/// Positions of names in a list.
Result<std::vector<std::pair<std::string, std::size_t>>> places_of(const std::vector<std::string>& names,
                                                                   const std::vector<std::string>& list) {
  std::vector<std::pair<std::string, std::size_t>> places;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(list, name);
    if (found == list.end())
      return make_error(ErrorCode::internal, "'{}' is not among what ONNX Runtime hands to the group of nodes.", name);
    places.emplace_back(name, static_cast<std::size_t>(found - list.begin()));
  }
  return places;
}

}  // namespace

struct Provider::Callbacks {
  static Provider& of(const OrtEp* self) { return *const_cast<Provider*>(static_cast<const Provider*>(self)); }

  static const char* get_name(const OrtEp*) noexcept { return kProviderName; }
  static OrtStatus* get_capability(OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) noexcept {
    Provider& provider = of(self);
    return guarded(provider.host_, [&] { return provider.claim(graph, support); });
  }
  /// Fills `contexts` where the session writes precompiled models.
  static OrtStatus* compile(Provider& provider, std::span<const OrtGraph* const> graphs, const OrtNode* const* fused,
                            OrtNodeComputeInfo** infos, OrtNode** contexts) noexcept {
    return guarded(provider.host_, [&]() -> Result<void> {
      std::vector<Compiled> made;  // nothing is handed over where one fails
      for (std::size_t i = 0; i < graphs.size(); ++i) {
        Result<Compiled> one = provider.compile(graphs[i], fused[i]);
        if (!one) {
          for (const Compiled& other : made) provider.host_.api->ReleaseNode(other.context);
          return std::move(one).error();
        }
        made.push_back(*std::move(one));
      }
      for (std::size_t i = 0; i < made.size(); ++i) {
        infos[i] = made[i].compute.release();
        if (contexts != nullptr && made[i].context != nullptr) contexts[i] = made[i].context;
      }
      provider.compiled_.clear();
      return {};
    });
  }
  static OrtStatus* create_allocator(OrtEp* self, const OrtMemoryInfo*, OrtAllocator** made) noexcept {
    Provider& provider = of(self);
    *made = nullptr;
    return guarded(provider.host_, [&]() -> Result<void> {
      *made = new Allocator(provider.blocks_, [device = provider.device_]() -> Result<Device> { return device; });
      return {};
    });
  }
  static void release(OrtEp*, OrtNodeComputeInfo** infos, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) delete static_cast<ort::Compute*>(infos[i]);
  }
};

Provider::Provider(const Host& host, Blocks& blocks, Device device, ProviderOptions options, const OrtLogger* logger)
    : OrtEp{}, host_(host), blocks_(blocks), device_(std::move(device)), options_(std::move(options)), logger_(logger) {
  const std::vector<std::string> features = device_.description().features;
  abilities_.float64 = std::ranges::find(features, "float64") != features.end();
  ort_version_supported = kApiVersion;
  GetName = Callbacks::get_name;
  GetCapability = Callbacks::get_capability;
  Compile = [](OrtEp* self, const OrtGraph** graphs, const OrtNode** fused, std::size_t count,
               OrtNodeComputeInfo** infos, OrtNode** contexts) noexcept {
    return Callbacks::compile(Callbacks::of(self), {graphs, count}, fused, infos, contexts);
  };
  ReleaseNodeComputeInfos = Callbacks::release;
  CreateAllocator = Callbacks::create_allocator;
}

void Provider::note(const std::string& sentence) {
  const std::scoped_lock lock(mutex_);
  if (noted_.insert(sentence).second) log(host_, logger_, ORT_LOGGING_LEVEL_WARNING, sentence);
}

/// Whether nothing inside a branch or body is to be taken. Graphs inside a node come before the node: where it is taken
/// whole afterwards, nothing in it may be compiled already. Nor may it where ONNX Runtime runs no such node, but
/// expands it (SequenceMap).
Result<bool> Provider::belongs_to_its_node(const HostGraph& graph) {
  const OrtNode* around = nullptr;
  VKF_CHECK_OK(taken(host_, host_.api->Graph_GetParentNode(graph.handle, &around)));
  if (around == nullptr) return false;
  VKF_TRY(node, read_around(host_, graph, around));
  constexpr std::string_view kRun[] = {"If", "Loop", "Scan"};
  if (std::ranges::find(kRun, std::string_view(node.nodes[0].op_type)) == std::end(kRun)) return true;
  return takes_whole(host_, node, abilities_);
}

Result<void> Provider::claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  VKF_TRY(read, read_graph(host_, graph));
  VKF_TRY(is_others, belongs_to_its_node(read));
  if (is_others) return {};
  const auto compile = [&](const std::vector<int>& nodes) -> Result<void> {
    VKF_TRY(group, group_of(read, nodes));
    static_cast<void>(group);  // kept until it is asked for
    return {};
  };
  VKF_TRY(groups, groups_taken(
                      host_, read, abilities_, [&](const std::string& sentence) { note(sentence); }, compile));
  OrtNodeFusionOptions fusion{};
  fusion.ort_version_supported = kApiVersion;
  fusion.drop_constant_initializers = true;
  for (std::size_t i = 0; i < read.nodes.size(); ++i) {
    VKF_TRY(is_ours, is_our_context(host_, read.nodes[i]));
    if (is_ours) groups.push_back({static_cast<int>(i)});
  }
  for (const std::vector<int>& group : groups) {
    std::vector<const OrtNode*> nodes;
    for (const int at : group) nodes.push_back(read.nodes[static_cast<std::size_t>(at)].handle);
    VKF_CHECK_OK(
        taken(host_, host_.ep_api->EpGraphSupportInfo_AddNodesToFuse(support, nodes.data(), nodes.size(), &fusion)));
  }
  return {};
}

Result<std::shared_ptr<const Provider::Group>> Provider::group_of(const HostGraph& graph,
                                                                  const std::vector<int>& nodes) {
  std::string key = key_of(graph, nodes);
  if (const auto found = compiled_.find(key); found != compiled_.end()) return found->second;
  VKF_TRY(model, write_model(host_, graph, nodes, Weights::all));
  VKF_TRY(group, compiled_group(std::as_bytes(std::span(model.bytes)), model.external_data));
  if (!options_.dump.empty()) VKF_CHECK_OK(dump(model, group->program));
  compiled_.emplace(std::move(key), group);
  return group;
}

Result<std::shared_ptr<const Provider::Group>> Provider::unpacked_group(const HostGraph& graph) {
  VKF_TRY(unpacked, read_context(host_, graph.handle, graph.nodes[0]));
  auto group = compiled_group(unpacked.model, unpacked.external_data);
  if (!group)
    return std::move(group).error().within(
        fmt::format("reading a precompiled group of {} bytes", unpacked.held.size()));
  return group;
}

Result<std::shared_ptr<const Provider::Group>> Provider::compiled_group(
    std::span<const std::byte> model, std::map<std::string, std::span<const std::byte>, std::less<>> external_data) {
  onnx::OnnxOptions options;
  options.external_data = std::move(external_data);
  CompileOptions compile_options;
  compile_options.numerics = options_.numerics;
  compile_options.fusion = options_.fusion;
  compile_options.tune = options_.tune;
  compile_options.tune_ms = options_.tune_ms;
  VKF_TRY(program, onnx::compile_onnx(device_, model, options, compile_options));
  std::vector<std::string> outputs = program.output_names();
  return std::make_shared<const Group>(Group{std::move(program), std::move(outputs)});
}

Result<void> Provider::dump(const WrittenModel& model, const onnx::OnnxProgram& program) {
  const std::filesystem::path folder = os::to_path(options_.dump);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const std::string name = fmt::format("group{}", dumped_++);
  const Result<std::string> plan = program.explain(Stage::plan);
  VKF_CHECK_OK(write_whole_file(folder / (name + ".onnx"), model.bytes));
  return write_whole_file(folder / (name + ".txt"), plan ? *plan : plan.error().text() + "\n");
}

Result<Provider::Compiled> Provider::compile(const OrtGraph* graph, const OrtNode* fused) {
  VKF_TRY(read, read_graph(host_, graph));
  const bool is_unpacked = read.nodes.size() == 1 && is_context(read.nodes[0]);
  VKF_TRY(group, is_unpacked ? unpacked_group(read) : group_of(read, all_nodes(read)));
  const auto names = [&](auto count, auto get) -> Result<std::vector<std::string>> {
    std::size_t size = 0;
    VKF_CHECK_OK(taken(host_, count(fused, &size)));
    std::vector<const OrtValueInfo*> infos(size);
    VKF_CHECK_OK(taken(host_, get(fused, infos.data(), size)));
    return names_of(host_, infos);
  };
  VKF_TRY(given, names(host_.api->Node_GetNumInputs, host_.api->Node_GetInputs));
  VKF_TRY(expected, names(host_.api->Node_GetNumOutputs, host_.api->Node_GetOutputs));
  std::vector<std::string> read_names;
  for (const Port& port : group->program.inputs()) read_names.push_back(port.name);
  Places places;
  VKF_TRY(inputs, places_of(read_names, given));
  places.inputs = std::move(inputs);
  VKF_TRY(outputs, places_of(group->outputs, expected));
  places.outputs = std::move(outputs);
  Compiled made;
  if (options_.contexts.is_written && !is_unpacked) {
    ContextNode node{{}, std::move(read_names), std::move(expected)};
    const char* name = nullptr;
    VKF_CHECK_OK(taken(host_, host_.api->Node_GetName(fused, &name)));
    node.name = name;
    VKF_TRY(model, write_model(host_, read, all_nodes(read), Weights::all));
    VKF_TRY(context, write_context(host_, graph, options_.contexts, node, model));
    made.context = context;
  }
  made.compute = std::make_unique<ort::Compute>(host_, blocks_, device_, std::move(group), std::move(places));
  return made;
}

}  // namespace vkfuse::ort

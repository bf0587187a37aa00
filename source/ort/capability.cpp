#include "ort/capability.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "onnx/trial.hpp"
#include "ort/context.hpp"
#include "ort/stages.hpp"

namespace vkfuse::ort {
namespace {

constexpr std::int32_t kCrossing[] = {
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,          ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16,       ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8,           ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,          ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,          ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32,         ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL,           ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ};

/// How sentences name a node: exporters may leave nodes unnamed.
std::string label_of(const HostGraph& graph, const HostNode& node) {
  const std::vector<int> outputs = written_by(node);
  if (!node.name.empty() || outputs.empty()) return fmt::format("node '{}' ({})", node.name, node.op_type);
  const std::string& first = graph.values[static_cast<std::size_t>(outputs[0])].name;
  return fmt::format("the node that computes '{}' ({})", first, node.op_type);
}

/// Elements for which vkfuse has nothing: texts and complex numbers.
bool is_never_taken(const HostValue& value) {
  constexpr std::int32_t kNever[] = {ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64,
                                     ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128};
  return value.type && std::ranges::find(kNever, value.type->type) != std::end(kNever);
}

bool is_f64(const HostValue& value) { return value.type && value.type->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE; }

class Search {
 public:
  Search(const Host& host, const HostGraph& graph, Abilities device, const OnRefusal& refused)
      : host_(host), graph_(graph), device_(device), refused_(refused), nodes_(staged()) {}

  Result<std::vector<std::vector<int>>> run(const CompileGroup& compile) {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) VKF_CHECK_OK(try_alone(static_cast<int>(i)));
    for (;;) {
      std::vector<std::vector<int>> groups = stages_of(nodes_);
      VKF_TRY(changed, leave_out(groups, compile));
      if (!changed) return groups;
    }
  }

  /// Why a node by itself is not taken; nothing where it is, or where only a group can tell, because what it reads is
  /// no tensor or of a rank that ONNX Runtime does not know.
  Result<std::optional<Error>> refusal_of(int at) {
    const HostNode& node = graph_.nodes[static_cast<std::size_t>(at)];
    VKF_CHECK_OK(check_known(node));
    VKF_CHECK_OK(check_elements(node));
    const std::vector<int> read = boundary_of(graph_, std::vector<int>{at}).inputs;
    const bool is_clear = std::ranges::all_of(
        read, [&](int value) { return may_cross(value_at(value)) && value_at(value).is_rank_known; });
    if (!is_clear) return std::optional<Error>();
    VKF_TRY(refusal, refusal_of(std::vector<int>{at}));
    if (!refusal) return std::optional<Error>();
    return std::optional(std::move(refusal->error));
  }

 private:
  [[nodiscard]] const HostValue& value_at(int at) const { return graph_.values[static_cast<std::size_t>(at)]; }

  [[nodiscard]] std::vector<StagedNode> staged() const {
    std::vector<int> producer(graph_.values.size(), -1);
    std::vector<StagedNode> nodes(graph_.nodes.size());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const int value : read_by(graph_.nodes[i])) {
        if (producer[static_cast<std::size_t>(value)] >= 0)
          nodes[i].reads.push_back(producer[static_cast<std::size_t>(value)]);
      }
      for (const int value : written_by(graph_.nodes[i]))
        producer[static_cast<std::size_t>(value)] = static_cast<int>(i);
    }
    return nodes;
  }

  [[nodiscard]] Result<void> check_elements(const HostNode& node) const {
    for (const std::vector<int>& values : {read_by(node), written_by(node)}) {
      for (const int value : values) {
        if (is_never_taken(value_at(value)))
          return unsupported("The elements of '{}' are texts or complex numbers.", value_at(value).name);
        if (!device_.float64 && is_f64(value_at(value)))
          return unsupported("'{}' is f64, and the device has no 64-bit floats.", value_at(value).name);
      }
    }
    return {};
  }

  [[nodiscard]] Result<void> check_known(const HostNode& node) const {
    std::int64_t opset = 0;
    for (const auto& [domain, version] : graph_.opsets) {
      if (domain == node.domain) opset = version;
    }
    return onnx::check_operator(node.domain, node.op_type, opset);
  }

  Result<std::optional<onnx::Refusal>> refusal_of(const std::vector<int>& nodes) {
    VKF_TRY(model, write_model(host_, graph_, nodes, Weights::small));
    onnx::OnnxOptions options;
    options.external_data = std::move(model.external_data);
    return onnx::try_import(std::as_bytes(std::span(model.bytes)), options);
  }

  void leave(int at, const Error& error) {
    nodes_[static_cast<std::size_t>(at)].is_ours = false;
    const std::string label = label_of(graph_, graph_.nodes[static_cast<std::size_t>(at)]);
    refused_(fmt::format("vkfuse leaves {} to other providers: {}", label, error.message));
  }

  Result<void> try_alone(int at) {
    // What an earlier session compiled goes to the provider that wrote it, by itself.
    if (is_context(graph_.nodes[static_cast<std::size_t>(at)])) return {};
    nodes_[static_cast<std::size_t>(at)].is_ours = true;
    Result<std::optional<Error>> refusal = refusal_of(at);
    // What cannot be written as a model is not taken either.
    if (!refusal) {
      leave(at, refusal.error());
    } else if (*refusal) {
      leave(at, **refusal);
    }
    return {};
  }

  /// Leaves out nodes that no group can have; whether there were any.
  Result<bool> leave_out(const std::vector<std::vector<int>>& groups, const CompileGroup& compile) {
    bool changed = false;
    for (const std::vector<int>& group : groups) changed = leave_uncrossable(group) || changed;
    if (changed) return true;
    for (const std::vector<int>& group : groups) {
      if (taken_.contains(group)) continue;
      VKF_TRY(refusal, refusal_of(group));
      if (refusal) {
        leave_refused(group, *refusal);
        changed = true;
      }
    }
    if (changed || !compile) return changed;
    for (const std::vector<int>& group : groups) {
      if (taken_.contains(group)) continue;
      const Result<void> compiled = compile(group);
      if (compiled) {
        taken_.insert(group);
        continue;
      }
      for (const int at : group) leave(at, compiled.error());
      changed = true;
    }
    return changed;
  }

  void leave_refused(const std::vector<int>& group, const onnx::Refusal& refusal) {
    if (refusal.node) return leave(group[static_cast<std::size_t>(*refusal.node)], refusal.error);
    for (const int at : group) leave(at, refusal.error);
  }

  /// Leaves out nodes that would have to be given, or to give others, what cannot pass between providers.
  bool leave_uncrossable(const std::vector<int>& group) {
    const Boundary boundary = boundary_of(graph_, group);
    std::set<int> stuck;
    for (const int value : boundary.inputs) {
      if (!may_cross(value_at(value)) || !value_at(value).is_rank_known) stuck.insert(value);
    }
    for (const int value : boundary.outputs) {
      if (!may_cross(value_at(value))) stuck.insert(value);
    }
    if (stuck.empty()) return false;
    for (const int at : group) {
      const HostNode& node = graph_.nodes[static_cast<std::size_t>(at)];
      std::vector<int> touched = read_by(node);
      std::ranges::copy(written_by(node), std::back_inserter(touched));
      const auto found = std::ranges::find_if(touched, [&](int value) { return stuck.contains(value); });
      if (found != touched.end()) leave(at, why_stuck(value_at(*found)));
    }
    return true;
  }

  [[nodiscard]] static Error why_stuck(const HostValue& value) {
    if (may_cross(value))
      return unsupported("Other providers compute '{}', and ONNX Runtime does not know its rank.", value.name);
    return unsupported(
        "'{}' is no tensor, or one whose elements share bytes, and would have to pass between providers.", value.name);
  }

  const Host& host_;
  const HostGraph& graph_;
  Abilities device_;
  const OnRefusal& refused_;
  std::vector<StagedNode> nodes_;
  std::set<std::vector<int>> taken_;
};

}  // namespace

bool may_cross(const HostValue& value) {
  if (!value.type) return false;
  return std::ranges::find(kCrossing, value.type->type) != std::end(kCrossing);
}

Result<std::vector<std::vector<int>>> groups_taken(const Host& host, const HostGraph& graph, Abilities device,
                                                   const OnRefusal& refused, const CompileGroup& compile) {
  return Search(host, graph, device, refused).run(compile);
}

bool takes_whole(const Host& host, const HostGraph& graph, Abilities device) {
  const OnRefusal ignored = [](const std::string&) {};
  const auto refusal = Search(host, graph, device, ignored).refusal_of(0);
  return refusal && !refusal->has_value();
}

}  // namespace vkfuse::ort

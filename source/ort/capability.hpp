// Which nodes of a graph the provider takes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ort/model.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::ort {

/// Whether values of this type may pass between groups: dense tensors whose elements are whole bytes.
bool may_cross(const HostValue& value);

/// What the device lacks that decides which nodes it can run at all.
struct Abilities {
  bool float64 = true;
};

/// Why a node stays with others: one sentence that names it.
using OnRefusal = std::function<void(const std::string& sentence)>;

/// Compiles a group; the error says why it stays with others. Null: groups are imported alone.
using CompileGroup = std::function<Result<void>(const std::vector<int>& nodes)>;

/// Groups of nodes that the importer takes, none of them in a cycle with others. Every node is tried by itself first,
/// and then every group as a whole: what is refused there is left out, and the groups are formed again.
Result<std::vector<std::vector<int>>> groups_taken(const Host& host, const HostGraph& graph, Abilities device,
                                                   const OnRefusal& refused, const CompileGroup& compile);

/// Whether a graph's first node, which has graphs among its attributes, is taken whole, so that nothing inside it is to
/// be taken; also where only a group can tell.
bool takes_whole(const Host& host, const HostGraph& graph, Abilities device);

}  // namespace vkfuse::ort

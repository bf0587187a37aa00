// Transports and annotations of programs of several ranks through C.
#include "vkfuse/parallel.hpp"

#include <algorithm>
#include <memory>

#include "c/handles.hpp"
#include "parallel/functions.hpp"
#include "vkfuse/c.hpp"
#include "vkfuse/nccl.hpp"

namespace vkfuse::c {

namespace {

/// The caller's functions, which are released when no transport has them any more.
struct OwnedFunctions {
  explicit OwnedFunctions(const vkf_transport_functions& given) : functions(given) {}
  OwnedFunctions(const OwnedFunctions&) = delete;
  OwnedFunctions& operator=(const OwnedFunctions&) = delete;
  ~OwnedFunctions() {
    if (is_taken && functions.release != nullptr) functions.release(functions.user);
  }

  vkf_transport_functions functions;
  bool is_taken = false;
};

Result<void> call_exchange(const vkf_transport_functions& functions, const Exchange& exchange) {
  std::vector<vkf_send> sends;
  std::vector<vkf_receive> receives;
  for (const Send& one : exchange.sends) sends.push_back({one.to, one.bytes.data(), one.bytes.size()});
  for (const Receive& one : exchange.receives) receives.push_back({one.from, one.bytes.data(), one.bytes.size()});
  vkf_exchange given{};
  given.size = sizeof given;
  given.number = exchange.number;
  given.sends = sends.data();
  given.send_count = sends.size();
  given.receives = receives.data();
  given.receive_count = receives.size();
  const std::chrono::duration<double, std::milli> left = exchange.deadline - std::chrono::steady_clock::now();
  given.timeout_ms = std::max(left.count(), 0.0);
  const vkf_status status = functions.exchange(functions.user, &given);
  if (status == VKF_OK) return {};
  given.sentence[sizeof given.sentence - 1] = '\0';
  if (given.sentence[0] != '\0') return make_error(code_of(status), "{}", given.sentence);
  return make_error(code_of(status), "The transport of rank {} gives status {} in exchange {}, and no sentence.",
                    functions.rank, static_cast<int>(status), exchange.number);
}

Result<std::shared_ptr<Transport>> transport_of(const vkf_transport_functions* given) {
  VKF_CHECK_OK(need(given, "structure of functions"));
  VKF_TRY(known, options(given, "functions of a transport"));
  if (known.exchange == nullptr) return invalid("The function 'exchange' of rank {}'s transport is null.", known.rank);
  const auto owned = std::make_shared<OwnedFunctions>(known);
  parallel::TransportFunctions functions{known.rank, known.ranks, {}, {}};
  functions.exchange = [owned](const Exchange& exchange) { return call_exchange(owned->functions, exchange); };
  if (known.fail != nullptr) {
    functions.fail = [owned](std::string_view sentence) {
      owned->functions.fail(owned->functions.user, std::string(sentence).c_str());
    };
  }
  VKF_TRY(transport, parallel::transport_of(std::move(functions)));
  owned->is_taken = true;
  return transport;
}

Result<NcclOptions> to_nccl(const vkf_nccl_options* given) {
  VKF_TRY(known, options(given, "options of NCCL"));
  NcclOptions made;
  if (known.nccl != nullptr) made.nccl = known.nccl;
  if (known.cuda != nullptr) made.cuda = known.cuda;
  if (known.least_bytes != 0) made.least_bytes = known.least_bytes;
  return made;
}

/// An annotation with its payload, and the value that it is of.
struct Annotation {
  std::string_view op;
  ir::NodeId operand = 0;
  ir::Payload payload;
};

/// A value of the graph under the annotation that `make(graph)` gives.
template <typename Make>
vkf_status annotate(vkf_graph* graph, vkf_value value, vkf_value* added, Make&& make) noexcept {
  return guarded([&]() -> Result<void> {
    VKF_CHECK_OK(need(graph, "graph"));
    VKF_CHECK_OK(need(added, "place for the new value"));
    ir::Graph& to = graph->graph;
    if (value >= to.size()) return invalid("The value {} does not exist: the graph has {} values.", value, to.size());
    Result<Annotation> annotation = make(std::as_const(to));
    if (!annotation) return std::move(annotation).error();
    VKF_TRY(id, to.add_structured(ops::row(annotation->op), {annotation->operand}, std::move(annotation->payload)));
    *added = id;
    return {};
  });
}

/// Every axis of a value whole.
ir::ShardPayload whole(const ir::Graph& graph, vkf_value value) {
  return {std::vector<int>(graph.node(value).type.shape.size(), -1)};
}

}  // namespace

}  // namespace vkfuse::c

using namespace vkfuse;  // NOLINT: this file is the C side

vkf_status vkfuse::hand_out(vkf_transport** made,
                            const std::function<Result<std::shared_ptr<Transport>>()>& open) noexcept {
  return c::make(made, "transport", [&]() -> Result<vkf_transport> {
    VKF_TRY(transport, open());
    return vkf_transport{std::move(transport)};
  });
}

vkf_status vkf_shard(vkf_graph* graph, vkf_value value, int axis, int mesh_axis, vkf_value* added) {
  return c::annotate(graph, value, added, [&](const ir::Graph& to) -> Result<c::Annotation> {
    const ir::Node& given = to.node(value);
    const auto rank = static_cast<int>(given.type.shape.size());
    const int at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank)
      return invalid("'shard' names axis {}, but {} has {} axes.", axis, to_text(given.type), rank);
    const auto* before = std::get_if<ir::ShardPayload>(&given.payload);
    ir::ShardPayload payload = before != nullptr ? *before : c::whole(to, value);
    payload.mesh_axes[static_cast<std::size_t>(at)] = mesh_axis;
    return c::Annotation{"shard", before != nullptr ? given.operands.front() : value, std::move(payload)};
  });
}

vkf_status vkf_replicate(vkf_graph* graph, vkf_value value, vkf_value* added) {
  return c::annotate(graph, value, added, [&](const ir::Graph& to) -> Result<c::Annotation> {
    return c::Annotation{"shard", value, c::whole(to, value)};
  });
}

vkf_status vkf_at_stage(vkf_graph* graph, vkf_value value, int stage, int mesh_axis, vkf_value* added) {
  return c::annotate(graph, value, added, [&](const ir::Graph&) -> Result<c::Annotation> {
    return c::Annotation{"at_stage", value, ir::StagePayload{stage, mesh_axis}};
  });
}

vkf_status vkf_micro_batch(vkf_graph* graph, vkf_value value, int axis, vkf_value* added) {
  return c::annotate(graph, value, added, [&](const ir::Graph& to) -> Result<c::Annotation> {
    const auto rank = static_cast<int>(to.node(value).type.shape.size());
    return c::Annotation{"micro_batch", value, ir::MicroBatchPayload{axis < 0 ? axis + rank : axis}};
  });
}

vkf_status vkf_thread_transports(int ranks, vkf_transport** made) {
  if (made != nullptr && ranks > 0) std::fill_n(made, ranks, nullptr);
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(made, "place for the new transports"));
    VKF_TRY(transports, thread_transports(ranks));
    std::vector<std::unique_ptr<vkf_transport>> all;
    for (std::shared_ptr<Transport>& one : transports) all.emplace_back(new vkf_transport{std::move(one)});
    for (std::size_t i = 0; i < all.size(); ++i) made[i] = all[i].release();
    return {};
  });
}

vkf_status vkf_transport_create(const vkf_transport_functions* functions, vkf_transport** made) {
  return hand_out(made, [&] { return c::transport_of(functions); });
}

vkf_status vkf_open_nccl(const vkf_transport* messages, const vkf_nccl_options* options, vkf_transport** made) {
  return hand_out(made, [&]() -> Result<std::shared_ptr<Transport>> {
    VKF_CHECK_OK(c::need(messages, "transport of messages"));
    VKF_TRY(requested, c::to_nccl(options));
    return open_nccl(messages->transport, requested);
  });
}

void vkf_transport_free(vkf_transport* transport) { delete transport; }

int vkf_transport_rank(const vkf_transport* transport) {
  return transport == nullptr ? -1 : transport->transport->rank();
}

int vkf_transport_size(const vkf_transport* transport) {
  return transport == nullptr ? 0 : transport->transport->size();
}

vkf_status vkf_transport_fail(const vkf_transport* transport, const char* sentence) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(transport, "transport"));
    VKF_CHECK_OK(c::need(sentence, "sentence"));
    const std::scoped_lock lock(transport->transport->turn());
    transport->transport->fail(sentence);
    return {};
  });
}

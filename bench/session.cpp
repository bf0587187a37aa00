#include "session.hpp"

#include <algorithm>
#include <filesystem>

#include "api/tensor_node.hpp"
#include "backward_slice.hpp"
#include "bound.hpp"
#include "cut.hpp"
#include "graph_analysis.hpp"
#include "os/files.hpp"
#include "verify.hpp"

namespace vkfuse::bench {

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// By how much a row is smaller here than on a data-centre GPU.
Result<std::int64_t> divisor(const Session& session, DType dtype) {
  switch (session.context->device()->info().type) {
    case DeviceType::discrete: return session.quick ? 4 : 1;
    case DeviceType::cpu: break;
    default: return session.quick ? 32 : 8;
  }
  // A driver that converts 16-bit floats by integer code takes tens of times as long for them.
  VKF_TRY(missing, session.context->tiers().missing(FeatureTier::float16));
  const bool slow = size_of(dtype) == 2 && !missing.empty();
  return (session.quick ? 512 : 64) * (slow ? 4 : 1);
}

/// What sets must add up to, so that the last-level cache does not hold one until its next turn.
std::uint64_t rotation_bytes(const Session& session) { return session.on_cpu() ? 64 * kMiB : 256 * kMiB; }

/// Less a margin: pools are a little longer than the inputs they are for.
std::uint64_t largest_buffer(const Session& session) {
  const Caps& caps = session.context->device()->caps();
  return std::min(caps.memory.storage_buffer_range, caps.memory.max_allocation) - 16 * kMiB;
}

/// Whether one element of every output can be checked in time; of a model, all of them.
Result<bool> can_be_checked(const Session& session, const Row& row, const ir::Graph& graph) {
  if (row.traits.model) {
    VKF_TRY(seconds, core_seconds_of_reference(graph));
    return seconds <= session.most_core_seconds();
  }
  return std::all_of(graph.outputs().begin(), graph.outputs().end(), [&](const ir::Output& output) {
    const auto work = backward_slice_elements(graph, output.value, 1);
    return work && *work <= session.most_work();
  });
}

/// Inputs, outputs, the copy's buffers, pools and intermediate values are at most about four times
/// the traffic; half of the memory is left to others.
bool fits(const Session& session, const Case& one) {
  std::uint64_t memory = session.context->device()->info().device_memory() / 2;
  if (session.on_cpu()) memory = std::min(memory, (session.quick ? 256 : 1024) * kMiB);
  if (4 * static_cast<std::uint64_t>(one.bytes) > memory) return false;
  for (const ir::Node& node : one.graph.nodes()) {
    auto sizes = resolve(node.type.shape, {});
    auto bytes = sizes ? byte_count(node.type.dtype, *sizes) : std::move(sizes).error();
    if (!bytes || static_cast<std::uint64_t>(*bytes) > largest_buffer(session)) return false;
  }
  return true;
}

/// The row's shape with about 1 / `by` of its elements: dimensions of traits.divide shrink in turn, none below 1.
std::vector<std::int64_t> divided(const Row& row, std::int64_t by) {
  std::vector<std::int64_t> sizes = row.full;
  // Multiples of 8 where there is one dimension only, so that every dtype is moved in whole vectors.
  const std::int64_t granule = sizes.size() == 1 ? 8 : 1;
  for (std::size_t axis : row.traits.divide) {
    if (by == 1) break;
    std::int64_t size = std::max(sizes[axis] / by / granule * granule, granule);
    if (sizes[axis] % 2 == 1) size |= 1;  // what no tile divides shall be no power of two here
    by = std::max<std::int64_t>(1, by / std::max<std::int64_t>(1, sizes[axis] / size));
    sizes[axis] = size;
  }
  return sizes;
}

/// The ids of stored values are those of a graph that has them as further outputs.
Result<std::vector<ir::Graph>> framework_parts(const Built& built) {
  std::vector<Tensor> all = built.outputs;
  all.insert(all.end(), built.stored->begin(), built.stored->end());
  VKF_TRY(graph, api::to_graph(all, {}, "framework"));
  std::vector<ir::NodeId> stored;
  for (const ir::Output& output : graph.outputs().subspan(built.outputs.size())) stored.push_back(output.value);
  VKF_TRY(whole, api::to_graph(built.outputs, {}, "framework"));
  // Nodes are added as outputs need them, so the smaller graph is the beginning of the larger one.
  for (ir::NodeId id : stored) {
    if (id >= whole.size())
      return make_error(ErrorCode::internal, "A row stores the value %{}, which none of its outputs needs.", id);
  }
  return cut(whole, std::move(stored));
}

/// Buffers that together are no longer in a cache when it is their turn again.
int sets_of(const Session& session, std::int64_t bytes) {
  const auto one = static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 1));
  return static_cast<int>(std::clamp<std::uint64_t>((rotation_bytes(session) + one - 1) / one, 1, 64));
}

Result<Case> case_at(const Session& session, const Row& row, std::vector<std::int64_t> sizes) {
  Case made;
  made.row = &row;
  made.sizes = std::move(sizes);
  made.name = case_text(row, made.sizes);
  const Built built = row.build(row.dtype, Shape(made.sizes.begin(), made.sizes.end()));
  VKF_TRY(graph, api::to_graph(built.outputs, {}, row.name));
  made.graph = std::move(graph);
  if (built.stored) {
    VKF_TRY(parts, framework_parts(built));
    made.framework = std::move(parts);
  }
  VKF_TRY(bytes, traffic(made.graph));
  made.bytes = bytes;
  if (!row.traits.launch_bound) made.sets = sets_of(session, bytes);
  return made;
}

/// Whether it fits the device and can be checked in time.
Result<bool> is_possible(const Session& session, const Case& one) {
  if (!fits(session, one)) return false;
  return can_be_checked(session, *one.row, one.graph);
}

}  // namespace

Result<std::shared_ptr<const ScratchFolder>> ScratchFolder::create() {
  const auto path = os::make_scratch_folder("vkfuse-bench-");
  if (!path)
    return make_error(ErrorCode::io, "No folder for compiled kernels can be made among temporary files: {}.",
                      os::last_failure());
  return std::shared_ptr<const ScratchFolder>(new ScratchFolder(path->string()));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(os::to_path(path_), ignored);
}

TimingOptions Session::timing() const {
  // A CPU driver runs everything in a tenth of a second or more: there are no clocks to raise. It shares its processor
  // with all that the machine does.
  if (on_cpu()) {
    return {.warm_seconds = 0.01,
            .most_warm_seconds = 0.02,
            .budget_seconds = quick ? 0.4 : 1.6,
            .samples = 28,
            .min_samples = 8,
            .stream_samples = 8,
            .stream_us = 2e3,
            .submission_us = 20e3,
            .visits = 4,
            .row_seconds = quick ? 1.5 : 6};
  }
  return {.warm_seconds = 0.3,
          .most_warm_seconds = 1,
          .budget_seconds = quick ? 3.0 : 10.0,
          .samples = quick ? 51 : 101,
          .min_samples = 25,
          .stream_samples = quick ? 15 : 25,
          .stream_us = 4e3};
}

Result<Case> make_case(const Session& session, const Request& request, std::int64_t smaller) {
  const Row& row = *request.row;
  if (!request.sizes.empty()) {
    VKF_TRY(made, case_at(session, row, request.sizes));
    VKF_TRY(possible, is_possible(session, made));
    if (possible) return made;
    return make_error(ErrorCode::out_of_memory,
                      "The case '{}' needs more memory than this device gives it, or more work to check than is done.",
                      case_text(row, request.sizes));
  }
  if (row.traits.launch_bound) return case_at(session, row, row.full);
  VKF_TRY(by, divisor(session, row.dtype));
  by *= smaller;
  std::vector<std::int64_t> last;
  for (;; by *= 2) {
    std::vector<std::int64_t> sizes = divided(row, by);
    if (sizes == last)
      return make_error(ErrorCode::out_of_memory, "The row '{}' fits the device's memory at no size.", row.name);
    VKF_TRY(made, case_at(session, row, sizes));
    VKF_TRY(possible, is_possible(session, made));
    if (possible) return made;
    last = std::move(sizes);
  }
}

Result<std::optional<Case>> make_beside_case(const Session& session, const Case& of) {
  std::optional<Case> made;
  const std::optional<Beside>& beside = of.row->beside;
  if (!beside) return made;
  made.emplace();
  made->row = of.row;
  made->sizes = sizes_beside(*of.row, of.sizes);
  made->aside = true;
  made->name = fmt::format("{} {}", case_text(*of.row, made->sizes), beside->name);
  const Built built = beside->build(of.row->dtype, Shape(made->sizes.begin(), made->sizes.end()));
  VKF_TRY(graph, api::to_graph(built.outputs, {}, made->name));
  made->graph = std::move(graph);
  VKF_TRY(bytes, traffic(made->graph));
  made->bytes = bytes;
  made->sets = sets_of(session, bytes);
  VKF_TRY(possible, is_possible(session, *made));
  if (possible) return made;
  return make_error(ErrorCode::out_of_memory,
                    "The case '{}' needs more memory than this device gives it, or more work to check than is done.",
                    made->name);
}

Result<Case> make_copy_case(const Session& session, const Case& of) {
  const std::uint64_t half = static_cast<std::uint64_t>(of.bytes) / 2;
  const std::uint64_t parts = (half + largest_buffer(session) - 1) / largest_buffer(session);
  const auto elements = static_cast<std::int64_t>(half / parts / 16 * 4);
  std::vector<Tensor> outputs;
  for (std::uint64_t i = 0; i < parts; ++i) {
    outputs.push_back(Tensor::input("x" + std::to_string(i), DType::f32, {elements}));
  }
  Case made;
  made.row = of.row;
  made.aside = true;
  made.sizes = {elements};
  made.sets = of.sets;
  VKF_TRY(graph, api::to_graph(outputs, {}, "copy"));
  made.graph = std::move(graph);
  VKF_TRY(bytes, traffic(made.graph));
  made.bytes = bytes;
  return made;
}

}  // namespace vkfuse::bench

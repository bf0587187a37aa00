#include "bound.hpp"

#include "runtime/host_run.hpp"

namespace vkfuse::bench {

namespace {

using vulkan::Access;
using vulkan::Buffer;
using vulkan::BufferKind;

// Of one upload: bounds the staging memory.
constexpr std::uint64_t kChunk = std::uint64_t{64} << 20;

Result<Buffer> upload_pool(runtime::Context& context, std::span<const std::byte> pool) {
  VKF_TRY(buffer, Buffer::create(context.device(), pool.size(), BufferKind::device));
  for (std::uint64_t at = 0; at < pool.size(); at += kChunk) {
    VKF_CHECK_OK(context.upload(buffer, at, pool.subspan(at, std::min<std::uint64_t>(kChunk, pool.size() - at))));
  }
  return buffer;
}

Result<std::int64_t> bytes_of(const ir::Graph& graph, ir::NodeId id) {
  VKF_TRY(sizes, resolve(graph.node(id).type.shape, {}));
  return byte_count(graph.node(id).type.dtype, sizes);
}

Result<vulkan::BufferRange> allocate(runtime::Context& context, std::uint64_t bytes, BufferSet& set) {
  VKF_TRY(buffer, Buffer::create(context.device(), bytes, BufferKind::device));
  set.buffers.push_back(std::move(buffer));
  return vulkan::BufferRange{&set.buffers.back(), 0, set.buffers.back().size()};
}

Result<void> fill_set(runtime::Context& context, const ir::Graph& graph, const HostData& data,
                      const std::deque<Buffer>& pools, BufferSet& set) {
  VKF_TRY(commands, vulkan::CommandBuffer::create(context.device()));
  VKF_CHECK_OK(commands.begin());
  for (const HostData::Window& input : data.inputs) {
    VKF_TRY(range, allocate(context, input.bytes, set));
    set.inputs[input.name] = range;
    commands.copy({&pools[input.pool], input.offset, input.bytes}, {range.buffer, 0, input.bytes});
  }
  for (const ir::Output& output : graph.outputs()) {
    VKF_TRY(bytes, bytes_of(graph, output.value));
    VKF_TRY(range, allocate(context, static_cast<std::uint64_t>(bytes), set));
    set.outputs[output.name] = range;
  }
  commands.barrier(Access::transfer, Access::compute | Access::transfer);
  VKF_CHECK_OK(commands.end());
  VKF_TRY(ticket, context.device()->submit(commands));
  return ticket.wait();
}

}  // namespace

Result<BufferSets> make_sets(runtime::Context& context, const ir::Graph& graph, const HostData& data, int count) {
  std::deque<Buffer> pools;
  for (const std::vector<std::byte>& pool : data.pools) {
    VKF_TRY(buffer, upload_pool(context, pool));
    pools.push_back(std::move(buffer));
  }
  BufferSets sets;
  for (int i = 0; i < count; ++i) {
    sets.sets.emplace_back();
    VKF_CHECK_OK(fill_set(context, graph, data, pools, sets.sets.back()));
  }
  return sets;
}

Result<std::unique_ptr<Bound>> bind(std::shared_ptr<runtime::Program> program, const BufferSets& sets) {
  auto bound = std::make_unique<Bound>();
  VKF_TRY(variant, program->variant({}));
  bound->variant = variant;
  VKF_TRY(constants, program->constant_ranges());
  if (variant->memory.arena_bytes > 0) {
    const auto bytes = static_cast<std::uint64_t>(variant->memory.arena_bytes);
    VKF_TRY(arena, Buffer::create(program->context()->device(), bytes, BufferKind::device));
    bound->arena = std::move(arena);
    runtime::add_arena(variant->memory, *bound->arena, constants);
  }
  const ir::Graph& graph = program->plan().graph;
  for (const BufferSet& set : sets.sets) {
    runtime::Ranges ranges = constants;
    for (ir::NodeId id : graph.inputs()) {
      ranges[id] = set.inputs.at(std::get<ir::InputPayload>(graph.node(id).payload).name);
    }
    for (const ir::Output& output : graph.outputs()) ranges[output.value] = set.outputs.at(output.name);
    bound->sets.push_back(std::move(ranges));
  }
  bound->program = std::move(program);
  return bound;
}

}  // namespace vkfuse::bench

#include "bound.hpp"

#include <algorithm>
#include <set>

#include "runtime/host_run.hpp"

namespace vkfuse::bench {

namespace {

using vulkan::Access;
using vulkan::Buffer;
using vulkan::BufferKind;

Result<Buffer> upload_pool(runtime::Context& context, std::span<const std::byte> pool) {
  VKF_TRY(buffer, Buffer::create(context.device(), pool.size(), BufferKind::device));
  VKF_CHECK_OK(context.transfer().upload(buffer, 0, pool));
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
  VKF_TRY(submission, context.device()->submit(commands));
  return submission.wait();
}

/// Memory of values that one part leaves to later ones.
class Between {
 public:
  Between(const std::vector<std::shared_ptr<runtime::Program>>& programs, Bound& bound) : bound_(bound) {
    for (std::size_t part = 0; part < programs.size(); ++part) {
      const ir::Graph& graph = programs[part]->plan().graph;
      for (ir::NodeId id : graph.inputs()) last_[name_of(graph, id)] = part;
    }
  }

  static const std::string& name_of(const ir::Graph& graph, ir::NodeId input) {
    return std::get<ir::InputPayload>(graph.node(input).payload).name;
  }

  [[nodiscard]] std::optional<vulkan::BufferRange> find(const std::string& name) const {
    const auto known = ranges_.find(name);
    return known == ranges_.end() ? std::nullopt : std::optional(known->second);
  }

  Result<vulkan::BufferRange> add(const std::string& name, std::uint64_t bytes) {
    auto free = free_.find(bytes);
    if (free == free_.end()) {
      VKF_TRY(buffer, Buffer::create(bound_.context().device(), bytes, BufferKind::device));
      bound_.between.push_back(std::move(buffer));
      free = free_.emplace(bytes, &bound_.between.back());
    }
    const vulkan::BufferRange range{free->second, 0, free->second->size()};
    free_.erase(free);
    sizes_[name] = bytes;
    return ranges_[name] = range;
  }

  /// What no part after this one reads is free again.
  void retire(std::size_t part) {
    for (auto it = sizes_.begin(); it != sizes_.end();) {
      const bool dead = last_.count(it->first) == 0 || last_.at(it->first) <= part;
      if (dead) free_.emplace(it->second, ranges_.at(it->first).buffer);
      it = dead ? sizes_.erase(it) : std::next(it);
    }
  }

 private:
  Bound& bound_;
  std::map<std::string, std::size_t> last_;  ///< the last part that reads an input of this name
  std::map<std::string, vulkan::BufferRange> ranges_;
  std::map<std::string, std::uint64_t> sizes_;  ///< of those that are in use
  std::multimap<std::uint64_t, const Buffer*> free_;
};

Result<vulkan::BufferRange> range_of_input(const BufferSet& set, const std::string& name, const Between& between) {
  if (const auto input = set.inputs.find(name); input != set.inputs.end()) return input->second;
  if (const auto output = set.outputs.find(name); output != set.outputs.end()) return output->second;
  if (const auto kept = between.find(name)) return *kept;
  return make_error(ErrorCode::internal,
                    "The value '{}' is read by a part of the program and written by none before it.", name);
}

Result<void> bind_part(const std::shared_ptr<runtime::Program>& program, const BufferSets& sets, Between& between,
                       Bound& bound) {
  Part& part = bound.parts.emplace_back();
  part.program = program;
  VKF_TRY(specialization, program->specialization({}));
  part.specialization = specialization;
  VKF_TRY(constants, program->constant_ranges());
  VKF_TRY(arena, runtime::make_arena(program->context()->device(), specialization->memory));
  part.arena = std::move(arena);
  runtime::add_arena(specialization->memory, part.arena, constants);
  const ir::Graph& graph = program->plan().graph;
  for (const ir::Output& output : graph.outputs()) {
    if (sets.sets.front().outputs.count(output.name) > 0) continue;
    VKF_TRY(bytes, bytes_of(graph, output.value));
    VKF_TRY(range, between.add(output.name, static_cast<std::uint64_t>(bytes)));
    constants[output.value] = range;
  }
  for (const BufferSet& set : sets.sets) {
    runtime::Ranges& ranges = part.sets.emplace_back(constants);
    for (ir::NodeId id : graph.inputs()) {
      VKF_TRY(range, range_of_input(set, Between::name_of(graph, id), between));
      ranges[id] = range;
    }
    for (const ir::Output& output : graph.outputs()) {
      if (const auto own = set.outputs.find(output.name); own != set.outputs.end()) ranges[output.value] = own->second;
    }
  }
  return {};
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

Result<std::unique_ptr<Bound>> bind_programs(const std::vector<std::shared_ptr<runtime::Program>>& programs,
                                             const BufferSets& sets) {
  auto bound = std::make_unique<Bound>();
  bound->sets = sets.sets.size();
  Between between(programs, *bound);
  for (std::size_t part = 0; part < programs.size(); ++part) {
    VKF_CHECK_OK(bind_part(programs[part], sets, between, *bound));
    between.retire(part);
  }
  return bound;
}

int Bound::kernels() const {
  int count = 0;
  for (const Part& part : parts) count += part.specialization->dispatches();
  return count;
}

std::int64_t Bound::arena_bytes() const {
  std::int64_t bytes = 0;
  for (const Part& part : parts) bytes += part.specialization->memory.arena_bytes;
  for (const vulkan::Buffer& buffer : between) bytes += static_cast<std::int64_t>(buffer.size());
  return bytes;
}

Result<std::int64_t> Bound::moved_bytes() const {
  std::int64_t bytes = 0;
  for (const Part& part : parts) {
    VKF_TRY(totals, plan::totals(part.program->plan(), {}));
    bytes += totals.bytes;
  }
  return bytes;
}

Result<void> Bound::record(vulkan::CommandBuffer& commands, std::size_t set) const {
  // Buffers that parts have used since the last barrier. A barrier where a part needs one, as inside a program: one
  // after every part would make the parts slower than they have to be.
  std::set<const Buffer*> read, written;
  for (const Part& part : parts) {
    const ir::Graph& graph = part.program->plan().graph;
    std::vector<const Buffer*> reads, writes;
    for (ir::NodeId id : graph.inputs()) reads.push_back(part.sets[set].at(id).buffer);
    for (const ir::Output& output : graph.outputs()) writes.push_back(part.sets[set].at(output.value).buffer);
    const auto in = [](const std::set<const Buffer*>& known) {
      return [&known](const Buffer* buffer) { return known.count(buffer) > 0; };
    };
    const bool conflict = std::any_of(reads.begin(), reads.end(), in(written)) ||
                          std::any_of(writes.begin(), writes.end(), in(written)) ||
                          std::any_of(writes.begin(), writes.end(), in(read));
    if (conflict) {
      commands.barrier(Access::compute, Access::compute);
      read.clear();
      written.clear();
    }
    read.insert(reads.begin(), reads.end());
    written.insert(writes.begin(), writes.end());
    VKF_CHECK_OK(part.program->record(commands, *part.specialization, part.sets[set]));
  }
  return {};
}

}  // namespace vkfuse::bench

#include <algorithm>
#include <cmath>
#include <future>
#include <thread>

#include "tool/model.hpp"

namespace vkfuse::tool {

namespace {

/// Philox is the generator the kernels use: the same stream on every machine and standard library.
class Stream {
 public:
  Stream(std::uint64_t seed, std::string_view name) : key_(seed) {
    for (char c : name) key_ = key_ * 1099511628211ULL + static_cast<unsigned char>(c);
  }
  /// Goes on from word number `counter`.
  void seek(std::uint64_t counter) { counter_ = counter; }
  std::uint32_t word() { return ops::philox(key_, counter_++); }
  /// In (0, 1).
  double uniform() { return (word() + 0.5) * 0x1p-32; }
  /// Box and Muller.
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform()); }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

std::int64_t default_size(const Dim& dim) {
  const DimFacts facts = dim.facts();
  const std::int64_t wanted = std::clamp<std::int64_t>(4, facts.min, facts.max);
  return (wanted + facts.multiple_of - 1) / facts.multiple_of * facts.multiple_of;
}

}  // namespace

HostTensor random_tensor(DType dtype, std::vector<std::int64_t> sizes, std::uint64_t seed, std::string_view name) {
  HostTensor tensor{dtype, std::move(sizes), {}};
  std::int64_t count = 1;
  for (std::int64_t size : tensor.sizes) count *= size;
  // Every part of the stream can be made by itself: weights of large models take a minute on one core.
  const auto draw = [&](std::int64_t begin, std::int64_t end) {
    Stream stream(seed, name);
    stream.seek(static_cast<std::uint64_t>(is_float(dtype) ? 2 * begin : begin));
    std::vector<std::byte> bytes;
    bytes.reserve(static_cast<std::size_t>((end - begin) * size_of(dtype)));
    for (std::int64_t i = begin; i < end; ++i) {
      if (is_float(dtype)) {
        ir::encode(dtype, stream.normal(), bytes);
      } else {
        ir::encode_int(dtype, stream.word() & (dtype == DType::boolean ? 1 : 3), bytes);
      }
    }
    return bytes;
  };
  constexpr std::int64_t kPart = 1 << 18;
  const std::int64_t parts =
      std::clamp<std::int64_t>(count / kPart, 1, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::future<std::vector<std::byte>>> drawn;
  for (std::int64_t i = 0; i < parts; ++i) {
    drawn.push_back(std::async(parts > 1 ? std::launch::async : std::launch::deferred, draw, count * i / parts,
                               count * (i + 1) / parts));
  }
  tensor.bytes.reserve(static_cast<std::size_t>(count * size_of(dtype)));
  for (auto& part : drawn) {
    const std::vector<std::byte> bytes = part.get();
    tensor.bytes.insert(tensor.bytes.end(), bytes.begin(), bytes.end());
  }
  return tensor;
}

Result<RunInputs> random_inputs(const ir::Graph& graph, std::uint64_t seed, const SymbolValues& symbols) {
  RunInputs inputs;
  inputs.symbols = symbols;
  for (ir::NodeId id : graph.inputs()) {
    const ir::Node& node = graph.node(id);
    for (const Dim& dim : node.type.shape) {
      if (dim.is_symbol()) inputs.symbols.emplace(dim.name(), default_size(dim));
    }
    VKF_TRY(sizes, resolve(node.type.shape, inputs.symbols));
    VKF_TRY(bytes, byte_count(node.type.dtype, sizes));
    const std::string& name = std::get<ir::InputPayload>(node.payload).name;
    if (bytes > (std::int64_t{1} << 34))
      return invalid("Input '{}' of {} bytes is too large for random data.", name, bytes);
    inputs.tensors[name] = random_tensor(node.type.dtype, sizes, seed, name);
  }
  return inputs;
}

Inputs views(const RunInputs& inputs) {
  Inputs all;
  for (const auto& entry : inputs.tensors) all.emplace(entry.first, HostView(entry.second.bytes, entry.second.sizes));
  return all;
}

Result<SymbolValues> symbols_of(const ir::Graph& graph, const std::map<std::string, HostTensor, std::less<>>& tensors) {
  SymbolValues symbols;
  for (ir::NodeId id : graph.inputs()) {
    const ir::Node& node = graph.node(id);
    const std::string& name = std::get<ir::InputPayload>(node.payload).name;
    const auto found = tensors.find(name);
    if (found == tensors.end()) continue;
    const HostTensor& tensor = found->second;
    if (tensor.dtype != node.type.dtype || tensor.sizes.size() != node.type.shape.size()) {
      return invalid("Input '{}' is {}[{}], but the graph declares {}.", name, name_of(tensor.dtype),
                     fmt::join(tensor.sizes, ", "), to_text(node.type));
    }
    for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
      const Dim& dim = node.type.shape[i];
      const std::int64_t want =
          dim.is_symbol() ? symbols.emplace(dim.name(), tensor.sizes[i]).first->second : dim.size();
      if (want != tensor.sizes[i]) {
        return invalid("Input '{}' has size {} in dimension {}, where {} is {}.", name, tensor.sizes[i], i, dim.text(),
                       want);
      }
    }
  }
  return symbols;
}

}  // namespace vkfuse::tool

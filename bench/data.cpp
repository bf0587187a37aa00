#include "data.hpp"

#include <cmath>
#include <compare>
#include <cstring>
#include <tuple>

#include "graph_analysis.hpp"

namespace vkfuse::bench {

namespace {

// A prime: no row length, workgroup or tile divides the period of a pool, so an element that is
// read at the wrong place differs.
constexpr std::int64_t kPeriod = 262139;
// Between the starts of two inputs, in elements; every dtype's windows start at a whole word.
constexpr std::uint64_t kShift = 7920;

/// What inputs of one pool have in common.
struct Kind {
  DType dtype;
  bool positive = false;
  bool small = false;      ///< floats are a 32nd of others
  std::int64_t whole = 0;  ///< floats are whole numbers up to this; 0: they are not
  std::int64_t first = 0;  ///< integers are this at least
  std::int64_t below = 4;  ///< and are less than that and this
  auto operator<=>(const Kind&) const = default;
};

Kind kind_of(const ir::Graph& graph, ir::NodeId input, std::string_view name, const Traits& traits) {
  Kind kind{graph.node(input).type.dtype};
  kind.positive = !traits.positive.empty() && name.starts_with(traits.positive);
  kind.small = !traits.small.empty() && name.starts_with(traits.small);
  kind.whole = traits.whole;
  if (kind.dtype == DType::boolean) kind.below = 2;
  // Bytes are weights as integers: every value of a byte is one, or two.
  if (kind.dtype == DType::u8) kind.below = 256;
  if (kind.dtype == DType::i8) kind.below = 128;
  const auto has = [&](std::string_view prefix) { return !prefix.empty() && name.starts_with(prefix); };
  if (has(traits.codes)) kind.below = 0x70;  // less than infinity is in any format of 8 bits
  if (has(traits.powers)) std::tie(kind.first, kind.below) = std::pair(118, 4);
  if (!is_float(kind.dtype)) kind.below = std::max<std::int64_t>(1, positions_of(graph, input).value_or(kind.below));
  return kind;
}

/// Random elements of one kind, one after the other.
class Source {
 public:
  explicit Source(const Kind& kind) : kind_(kind) {}

  void append(std::vector<std::byte>& bytes) {
    if (!is_float(kind_.dtype)) {
      ir::encode_int(kind_.dtype, kind_.first + static_cast<std::int64_t>(word()) % kind_.below, bytes);
      return;
    }
    const double value = (kind_.whole > 0 ? whole() : normal()) * (kind_.small ? 0x1p-5 : 1);
    ir::encode(kind_.dtype, kind_.positive ? std::abs(value) : value, bytes);
  }

 private:
  std::uint32_t word() { return ops::philox(kind_.positive ? 2 : 1, counter_++); }
  double uniform() { return (word() + 0.5) * 0x1p-32; }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
  double whole() {
    const std::int64_t value = static_cast<std::int64_t>(word()) % (2 * kind_.whole + 1) - kind_.whole;
    return word() % 4 == 0 ? static_cast<double>(value) : 0;
  }

  Kind kind_;
  std::uint64_t counter_ = 0;
};

std::vector<std::byte> random_period(const Kind& kind) {
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<std::size_t>(kPeriod * size_of(kind.dtype)));
  Source source(kind);
  for (std::int64_t i = 0; i < kPeriod; ++i) source.append(bytes);
  return bytes;
}

/// Appends whole periods and a part of one. Doubling keeps the copies large.
void tile(std::vector<std::byte>& pool, std::uint64_t bytes) {
  std::size_t have = pool.size();
  pool.resize(static_cast<std::size_t>(std::max<std::uint64_t>(bytes, have)));
  while (have < pool.size()) {
    const std::size_t more = std::min(have, pool.size() - have);
    std::memcpy(pool.data() + have, pool.data(), more);
    have += more;
  }
}

}  // namespace

reference::InputBindings HostData::input_bindings() const {
  reference::InputBindings input_bindings;
  for (const Window& input : inputs) {
    input_bindings.inputs.emplace(input.name, std::span(pools[input.pool]).subspan(input.offset, input.bytes));
  }
  return input_bindings;
}

Result<HostData> make_data(const ir::Graph& graph, const Traits& traits) {
  HostData data;
  std::map<Kind, std::size_t> kinds;
  std::vector<std::uint64_t> needed;
  for (ir::NodeId id : graph.inputs()) {
    const ir::Node& node = graph.node(id);
    VKF_TRY(sizes, resolve(node.type.shape, {}));
    VKF_TRY(bytes, byte_count(node.type.dtype, sizes));
    HostData::Window input;
    input.name = std::get<ir::InputPayload>(node.payload).name;
    const Kind kind = kind_of(graph, id, input.name, traits);
    const auto pool = kinds.emplace(kind, data.pools.size());
    if (pool.second) {
      data.pools.push_back(random_period(kind));
      needed.push_back(0);
    }
    input.pool = pool.first->second;
    input.offset = data.inputs.size() * kShift * static_cast<std::uint64_t>(size_of(node.type.dtype));
    input.bytes = static_cast<std::uint64_t>(bytes);
    needed[input.pool] = std::max(needed[input.pool], input.offset + input.bytes);
    data.inputs.push_back(std::move(input));
  }
  for (std::size_t i = 0; i < needed.size(); ++i) tile(data.pools[i], needed[i]);
  return data;
}

}  // namespace vkfuse::bench

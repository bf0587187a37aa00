#include "schedule/dispatch_split.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <set>

#include "base/mutations.hpp"
#include "segment/predicate_analysis.hpp"

namespace vkfuse::schedule {

using index::Expr;
using segment::Loops;
using segment::Role;
using segment::Value;

namespace {

constexpr std::int64_t kGranule = kBindingGranule;
constexpr std::size_t kMostDispatchParts = 1024;

/// Bytes that are stored at once at least.
std::int64_t word() { return VKF_PLANT(dispatch_parts_share_words, 4, 1); }

std::int64_t floor_to(std::int64_t bytes, std::int64_t multiple) { return bytes / multiple * multiple; }
std::int64_t ceil_to(std::int64_t bytes, std::int64_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }
std::int64_t at_most_63_bits(std::uint64_t bytes) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, std::uint64_t{1} << 62));
}

/// What is known of a value that the loops touch.
struct Tensor {
  std::int64_t element_bytes = 1;
  std::int64_t elements = 0;
  std::int64_t buffer_bytes = 0;  ///< of each of its buffers; 0: there is one
};

class Cutter {
 public:
  Cutter(const ir::Graph& graph, const Loops& loops, const SymbolValues& symbols, const Target& target)
      : graph_(graph),
        loops_(loops),
        symbols_(symbols),
        caps_(target.caps),
        alignment_(std::max<std::int64_t>(kGranule, target.caps.memory.offset_alignment)),
        range_(floor_to(at_most_63_bits(target.caps.memory.storage_buffer_range), kGranule)) {}

  Result<std::vector<DispatchPart>> cut() {
    each_access(loops_, [&](ir::NodeId node, const Expr&, std::int64_t elements) { note(node, elements); });
    const auto is_large = [&](const auto& one) {
      const Tensor& tensor = one.second;
      return tensor.buffer_bytes > 0 || tensor.elements > range_ / tensor.element_bytes;
    };
    const auto large = std::find_if(tensors_.begin(), tensors_.end(), is_large);
    if (large == tensors_.end()) return std::vector<DispatchPart>();
    for (const auto& [node, tensor] : tensors_) {
      const auto bytes = checked_mul(tensor.elements, tensor.element_bytes);
      if (!bytes || *bytes / range_ >= static_cast<std::int64_t>(kMostDispatchParts))
        return refusal(node, fmt::format("that would be more than {} pieces", kMostDispatchParts));
    }
    if (loops_.opaque) return refusal(large->first, "a kernel of the user's is not cut");
    if (std::any_of(loops_.stores.begin(), loops_.stores.end(),
                    [](const auto& store) { return store.base.has_value(); }))
      return refusal(large->first, "what rows are written into at positions from data is not cut");
    if (auto pieces = cut(loops_)) return *std::move(pieces);
    return refusal(large->first,
                   loops_.parallel_count() > 1
                       ? "at one position of each axis of the segment some access reaches farther than that"
                       : "the segment has no axis to cut: it reduces all of them");
  }

 private:
  /// Loops whose offsets are those of whole values.
  [[nodiscard]] std::optional<std::vector<DispatchPart>> cut(const Loops& loops) const {
    if (auto whole = bound(loops)) return std::vector<DispatchPart>{*std::move(whole)};
    for (std::size_t axis = 0; axis < loops.axes.size(); ++axis) {
      if (loops.axes[axis].role != Role::parallel || loops.axes[axis].size < 2) continue;
      if (auto pieces = cut_along(loops, static_cast<index::AxisId>(axis))) return pieces;
    }
    return std::nullopt;
  }

  template <typename LoopsType, typename Visit>
  static void each_access(LoopsType& loops, const Visit& visit) {
    for (auto& value : loops.values) {
      if (value.kind == Value::Kind::load) visit(value.node, value.offset, value.buffer_elements);
    }
    for (auto& store : loops.stores) visit(store.node, store.offset, store.buffer_elements);
  }

  void note(ir::NodeId node, std::int64_t elements) {
    Tensor& tensor = tensors_[node];
    const TensorType& type = graph_.node(node).type;
    tensor.element_bytes = size_of(type.dtype);
    tensor.elements = elements;
    if (const auto sizes = resolve(type.shape, symbols_))
      tensor.buffer_bytes = bytes_of_each_buffer(tensor.element_bytes, *sizes, caps_.memory.max_allocation);
  }

  Error refusal(ir::NodeId node, const std::string& why) const {
    const Tensor& tensor = tensors_.at(node);
    const std::int64_t bytes = checked_mul(tensor.elements, tensor.element_bytes).value_or(-1);
    const bool of_range = tensor.elements > range_ / tensor.element_bytes;
    return make_error(ErrorCode::out_of_memory,
                      "The value %{} of type {} takes {} bytes, and one {} of this device holds {} ({}); {}.", node,
                      to_text(graph_.node(node).type), bytes, of_range ? "storage buffer" : "allocation",
                      of_range ? caps_.memory.storage_buffer_range : caps_.memory.max_allocation,
                      of_range ? "storage_range" : "max_allocation", why);
  }

  /// Positions of the axis that a piece's count is a multiple of, so that pieces share no word that they store; with
  /// `all`, so that every window begins where bindings may, and all pieces have one text. 0: there is none.
  [[nodiscard]] std::int64_t granule(const Loops& loops, index::AxisId axis, bool all) const {
    std::int64_t positions = 1;
    bool known = true;
    const auto add = [&](ir::NodeId node, const Expr& offset, std::int64_t multiple) {
      const auto stride = index::stride_of(offset, axis);
      known = known && stride.has_value();
      if (!stride || *stride == 0) return;
      const std::int64_t bytes = std::abs(*stride) * tensors_.at(node).element_bytes;
      positions = std::max(positions, multiple / std::gcd(multiple, bytes));  // all are powers of two
    };
    for (const segment::Store& store : loops.stores) add(store.node, store.offset, all ? alignment_ : word());
    if (!known) return 0;
    for (const Value& value : loops.values) {
      if (all && value.kind == Value::Kind::load) add(value.node, value.offset, alignment_);
    }
    return positions;
  }

  /// The loops on windows, if the device can bind what they touch.
  [[nodiscard]] std::optional<DispatchPart> bound(const Loops& loops) const {
    DispatchPart piece;
    piece.loops = loops;
    for (const auto& [node, range] : touched(piece.loops)) {
      const auto window = window_of(node, range);
      if (!window) return std::nullopt;
      piece.windows[node] = *window;
    }
    each_access(piece.loops, [&](ir::NodeId node, auto& offset, auto& elements) {
      const Window& window = piece.windows.at(node);
      const std::int64_t skipped = window.offset / tensors_.at(node).element_bytes;
      offset = offset - Expr(skipped);
      elements = std::min(elements - skipped, window.bytes / tensors_.at(node).element_bytes);
    });
    return piece;
  }

  /// What has to be bound of a value; nothing where the device cannot.
  [[nodiscard]] std::optional<Window> window_of(ir::NodeId node, index::Interval range) const {
    const Tensor& tensor = tensors_.at(node);
    const std::int64_t low = range.low * tensor.element_bytes, high = (range.high + 1) * tensor.element_bytes;
    const std::int64_t buffer = tensor.buffer_bytes > 0 ? floor_to(low, tensor.buffer_bytes) : 0;
    if (tensor.buffer_bytes > 0 && high - buffer > tensor.buffer_bytes) return std::nullopt;
    const std::int64_t begin = buffer + floor_to(low - buffer, alignment_);
    const std::int64_t bytes = ceil_to(high - begin, kGranule);
    if (bytes > range_) return std::nullopt;
    return Window{begin, bytes};
  }

  /// The values of which elements are farther apart along the axis than along any other that may be cut: to cut it is
  /// what brings their windows down.
  [[nodiscard]] static std::set<ir::NodeId> led_by(const Loops& loops, index::AxisId axis) {
    std::set<ir::NodeId> led;
    each_access(loops, [&](ir::NodeId node, const Expr& offset, std::int64_t) {
      const auto own = index::stride_of(offset, axis);
      bool most = !own || *own != 0;
      for (std::size_t other = 0; other < loops.axes.size(); ++other) {
        if (loops.axes[other].role != Role::parallel || static_cast<index::AxisId>(other) == axis) continue;
        const auto stride = index::stride_of(offset, static_cast<index::AxisId>(other));
        most = most && (!own || !stride || std::abs(*stride) <= std::abs(*own));
      }
      if (most) led.insert(node);
    });
    return led;
  }

  /// Whether the device can bind what the loops touch of some values.
  [[nodiscard]] bool can_bind(const Loops& loops, const std::set<ir::NodeId>& values) const {
    const auto all = touched(loops);
    return std::all_of(all.begin(), all.end(), [&](const auto& one) {
      return values.count(one.first) == 0 || window_of(one.first, one.second);
    });
  }

  /// The elements of each value from the first to the last that is touched.
  [[nodiscard]] static std::map<ir::NodeId, index::Interval> touched(const Loops& loops) {
    std::map<ir::NodeId, index::Interval> all;
    const auto add = [&](ir::NodeId node, index::Interval own) {
      if (own.low > own.high) return;
      const auto [at, is_new] = all.emplace(node, own);
      if (!is_new) at->second = {std::min(at->second.low, own.low), std::max(at->second.high, own.high)};
    };
    for (const Value& value : loops.values) {
      if (value.kind != Value::Kind::load) continue;
      // What is outside is behind a guard that does not hold, and then element 0 of the window is read.
      const index::Interval all_of_it = index::interval_of(value.offset),
                            kept = index::interval_of(segment::narrowed(value.offset, value.predicates));
      add(value.node, {std::max({all_of_it.low, kept.low, std::int64_t{0}}),
                       std::min({all_of_it.high, kept.high, value.buffer_elements - 1})});
    }
    for (const segment::Store& store : loops.stores) add(store.node, index::interval_of(store.offset));
    for (const Value& value : loops.values) {
      if (value.kind == Value::Kind::load) all.emplace(value.node, index::Interval{0, 0});  // no guard holds anywhere
    }
    return all;
  }

  /// The loops at `count` positions of an axis from `first` on.
  [[nodiscard]] static Loops restricted(Loops loops, index::AxisId axis, std::int64_t first, std::int64_t count) {
    const std::map<index::AxisId, Expr> places{{axis, Expr::axis(axis, count) + Expr(first)}};
    const segment::AxisSet kept = count > 1 ? ~segment::AxisSet{0} : ~(segment::AxisSet{1} << axis);
    for (Value& value : loops.values) {
      value.offset = index::substitute(value.offset, places);
      for (segment::Predicate& predicate : value.predicates) {
        for (segment::Predicate::Range& range : predicate.ranges) range.value = index::substitute(range.value, places);
      }
      value.axes &= kept;
    }
    for (segment::Store& store : loops.stores) {
      store.offset = index::substitute(store.offset, places);
      store.axes &= kept;
    }
    loops.axes[static_cast<std::size_t>(axis)].size = count;
    return loops;
  }

  /// The most positions from `first` on of which the device can bind what is touched of some values; 0: not of one.
  [[nodiscard]] std::int64_t most_at(const Loops& loops, index::AxisId axis, std::int64_t first, std::int64_t most,
                                     const std::set<ir::NodeId>& values) const {
    const auto fits = [&](std::int64_t count) { return can_bind(restricted(loops, axis, first, count), values); };
    if (fits(most)) return most;
    std::int64_t count = 0, beyond = most;
    while (beyond - count > 1) {
      const std::int64_t middle = count + (beyond - count) / 2;
      (fits(middle) ? count : beyond) = middle;
    }
    return count;
  }

  /// Whether what is touched at a position of the axis begins at such a multiple in its buffer.
  [[nodiscard]] bool begins_at_multiple(const Loops& loops, index::AxisId axis, std::int64_t position,
                                        std::int64_t multiple, bool stores_alone) const {
    const std::map<index::AxisId, Expr> places{{axis, Expr(position)}};
    bool all = true;
    const auto look = [&](ir::NodeId node, const Expr& offset) {
      const Tensor& tensor = tensors_.at(node);
      const std::int64_t low =
          std::clamp<std::int64_t>(index::interval_of(index::substitute(offset, places)).low, 0, tensor.elements - 1) *
          tensor.element_bytes;
      all = all && (tensor.buffer_bytes > 0 ? low % tensor.buffer_bytes : low) % multiple == 0;
    };
    for (const segment::Store& store : loops.stores) look(store.node, store.offset);
    for (const Value& value : loops.values) {
      if (!stores_alone && value.kind == Value::Kind::load) look(value.node, value.offset);
    }
    return all;
  }

  [[nodiscard]] std::optional<std::vector<DispatchPart>> cut_along(const Loops& loops, index::AxisId axis) const {
    const std::int64_t positions = loops.axes[static_cast<std::size_t>(axis)].size;
    const std::int64_t coarse = granule(loops, axis, true), fine = granule(loops, axis, false);
    if (fine == 0) return std::nullopt;
    const std::set<ir::NodeId> led = led_by(loops, axis);
    std::vector<DispatchPart> pieces;
    for (std::int64_t first = 0, most = positions; first < positions;) {
      std::int64_t count = most_at(loops, axis, first, std::min(most, positions - first), led);
      if (count == positions) return std::nullopt;  // to cut this axis brings nothing
      count = std::max<std::int64_t>(count, 1);     // where one position is too much, another axis of it is cut
      if (first + count < positions && !begins_at_multiple(loops, axis, first + count, alignment_, false)) {
        // The next piece would begin where bindings may not, or in a word that this one stores.
        for (const std::int64_t multiple : {coarse, fine}) {
          if (multiple > count || !begins_at_multiple(loops, axis, first + floor_to(count, multiple), word(), true))
            continue;
          count = floor_to(count, multiple);
          break;
        }
        if (!begins_at_multiple(loops, axis, first + count, word(), true)) return std::nullopt;
      }
      auto parts = cut(restricted(loops, axis, first, count));
      if (!parts || pieces.size() + parts->size() > kMostDispatchParts) return std::nullopt;
      std::move(parts->begin(), parts->end(), std::back_inserter(pieces));
      if (first == 0 && count > 1) most = count;  // equal pieces share a text
      first += count;
    }
    return pieces;
  }

  const ir::Graph& graph_;
  const Loops& loops_;
  const SymbolValues& symbols_;
  const Caps& caps_;
  std::int64_t alignment_;
  std::int64_t range_;  ///< of a binding, which is padded
  std::map<ir::NodeId, Tensor> tensors_;
};

}  // namespace

std::int64_t bytes_of_each_buffer(std::int64_t element_bytes, std::span<const std::int64_t> sizes,
                                  std::uint64_t max_allocation) {
  constexpr std::int64_t kUnit = 256;  // bindings begin at multiples of it on any device
  std::int64_t bytes = element_bytes;
  for (std::int64_t size : sizes) {
    const auto all = checked_mul(bytes, size);
    if (!all) return 0;  // said where sizes are checked
    bytes = *all;
  }
  const auto padded = checked_add(bytes, kGranule - 1);
  if (!padded || static_cast<std::uint64_t>(floor_to(*padded, kGranule)) <= max_allocation) return 0;
  // A power of two, so that buffers of which nobody knows the rows agree with those of many tensors.
  const std::int64_t most = std::max(kUnit, at_most_63_bits(std::bit_floor(max_allocation)));
  std::int64_t row = bytes;
  for (std::int64_t size : sizes) {
    row /= size;
    if (row <= most) break;
  }
  // Windows of whole units begin where bindings may, wherever they begin.
  const std::int64_t unit = std::lcm(row, kUnit);
  return floor_to(most, unit <= most ? unit : row);
}

Result<std::vector<DispatchPart>> split_dispatch(const ir::Graph& graph, const Loops& loops,
                                                 const SymbolValues& symbols, const Target& target) {
  const std::int64_t most = floor_to(
      at_most_63_bits(std::min(target.caps.memory.storage_buffer_range, target.caps.memory.max_allocation)), kGranule);
  const auto fits = [&](ir::NodeId node, std::int64_t elements) {
    return elements <= most / size_of(graph.node(node).type.dtype);
  };
  const bool all_fit = std::all_of(loops.values.begin(), loops.values.end(),
                                   [&](const Value& value) {
                                     return value.kind != Value::Kind::load || fits(value.node, value.buffer_elements);
                                   }) &&
                       std::all_of(loops.stores.begin(), loops.stores.end(), [&](const segment::Store& store) {
                         return fits(store.node, store.buffer_elements);
                       });
  if (loops.empty || all_fit) return std::vector<DispatchPart>();
  return Cutter(graph, loops, symbols, target).cut();
}

}  // namespace vkfuse::schedule

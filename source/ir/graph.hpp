// The tensor graph: immutable SSA nodes by id, in an order where operands come first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/shape.hpp"
#include "ops/op.hpp"

namespace vkfuse::ir {

using NodeId = std::uint32_t;

/// Raw little-endian bytes of a dense tensor, shared between graphs.
using Bytes = std::shared_ptr<const std::vector<std::byte>>;

// What a node carries beyond its op and operands.
struct NoPayload {
  friend bool operator==(const NoPayload&, const NoPayload&) = default;
};
struct InputPayload {
  std::string name;
  friend bool operator==(const InputPayload&, const InputPayload&) = default;
};
struct ConstantPayload {
  Bytes bytes;
  friend bool operator==(const ConstantPayload& a, const ConstantPayload& b) { return *a.bytes == *b.bytes; }
};
struct IotaPayload {
  int axis = 0;
  friend bool operator==(const IotaPayload&, const IotaPayload&) = default;
};
struct RandomPayload {
  std::uint64_t seed = 0;
  friend bool operator==(const RandomPayload&, const RandomPayload&) = default;
};
/// Axes of the operand, each once: the order of `permute` (axis i of the result is axis axes[i] of the
/// operand), those that `reverse` turns round, those that a reduction removes (sorted).
struct AxesPayload {
  std::vector<int> axes;
  friend bool operator==(const AxesPayload&, const AxesPayload&) = default;
};
/// One axis: of `concat`, `gather`, `take_along`.
struct AxisPayload {
  int axis = 0;
  /// Of `gather`: elements that are picked out of nothing are 0, not an error. Passes say so of gathers whose readers
  /// then have no use for them; the text form does not.
  bool or_zero = false;
  friend bool operator==(const AxisPayload&, const AxisPayload&) = default;
};
/// One entry per axis: element i of the slice is element start + i * step of the operand; steps are not
/// zero. Of `slice` (sizes are the result's shape) and `slice_assign` (sizes are the update's shape).
struct SlicePayload {
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> steps;
  friend bool operator==(const SlicePayload&, const SlicePayload&) = default;
};
/// Elements added before and after each axis; none is negative.
struct PadPayload {
  std::vector<std::int64_t> low;
  std::vector<std::int64_t> high;
  friend bool operator==(const PadPayload&, const PadPayload&) = default;
};
/// Windows over some axes, one entry per window axis. Element (..., o, ..., w...) of the result is
/// element (..., o * stride + w * dilation, ...) of the operand: the windowed axes hold the number of
/// windows that fit, and one axis of the window's size per entry is appended at the end, in order.
struct WindowPayload {
  std::vector<int> axes;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dilations;
  friend bool operator==(const WindowPayload&, const WindowPayload&) = default;
};
/// A running reduction along an axis. Exclusive: of the elements before this one; the first is the identity.
struct ScanPayload {
  int axis = 0;
  bool exclusive = false;
  bool reverse = false;  ///< from the last element towards the first
  friend bool operator==(const ScanPayload&, const ScanPayload&) = default;
};
/// `argsort`: the first `count` positions of the sorted order along an axis. Equal elements keep their
/// order, ascending or descending; NaN counts as larger than infinity; -0 equals +0.
struct SortPayload {
  int axis = 0;
  bool descending = false;
  std::int64_t count = 0;  ///< 1 to the size of the axis; a symbolic axis is sorted whole (0)
  friend bool operator==(const SortPayload&, const SortPayload&) = default;
};
/// How `scatter` joins an update with what is there: for each row of the result the updates with its
/// index are folded onto it in the order of the updates; `set` keeps the last.
enum class ScatterMode : std::uint8_t { set, add, mul, max, min };
/// The name in text and messages; but for "set" also that of the op row that joins.
std::string_view name_of(ScatterMode mode);
std::optional<ScatterMode> scatter_mode_named(std::string_view name);
struct ScatterPayload {
  ScatterMode mode = ScatterMode::set;
  friend bool operator==(const ScatterPayload&, const ScatterPayload&) = default;
};
/// `update_rows`: the axis along which rows are, and whether those past its end go on at its beginning.
struct UpdatePayload {
  int axis = 0;
  bool circular = false;
  /// Whether the operand `starts` has a position for each row, and not a start for all rows along the axis.
  [[nodiscard]] bool has_position_of_each_row(const Shape& starts) const {
    return starts.size() == static_cast<std::size_t>(axis) + 1;
  }
  friend bool operator==(const UpdatePayload&, const UpdatePayload&) = default;
};
/// `dot`: which axes of its operands go together.
struct DotPayload {
  std::vector<int> batch_a, batch_b;        ///< in pairs of equal size, in the order in which the result has them
  std::vector<int> contract_a, contract_b;  ///< in pairs of equal size; gone from the result
  friend bool operator==(const DotPayload&, const DotPayload&) = default;
};
/// What a user says an element is, of the operands' elements in double; integers are whole numbers.
using HostFunction = std::function<double(std::span<const double> operands)>;
/// `custom`: one element by the user's GLSL.
struct CustomPayload {
  std::string name;
  std::string code;                              ///< an expression of x0, x1, ..., or the body of a function of them
  int ulps = 16;                                 ///< of f32 (of f64 where the result is), that the code may be off
  int cost = 8;                                  ///< in fused multiply-adds
  std::shared_ptr<const HostFunction> function;  ///< or none: the reference then cannot follow
  friend bool operator==(const CustomPayload&, const CustomPayload&) = default;
};
/// `custom_kernel`: a compute shader of the user's.
struct KernelPayload {
  std::string name;
  std::string code;
  int workgroup = 64;              ///< invocations, along x
  std::vector<std::int64_t> tile;  ///< elements of the result that a workgroup is for, along each axis
  friend bool operator==(const KernelPayload&, const KernelPayload&) = default;
};
/// The ranks that a collective is between: `ranks` of them, each `stride` after the one before. A job of more ranks has
/// several groups; rank r is member r / stride % ranks of its own.
struct RankGroup {
  int ranks = 1;
  int stride = 1;
  friend bool operator==(const RankGroup&, const RankGroup&) = default;
};
/// `all_reduce_sum` and the like.
struct AllReducePayload : RankGroup {
  friend bool operator==(const AllReducePayload&, const AllReducePayload&) = default;
};
/// `all_gather` and `reduce_scatter_sum` and the like: the axis that is put together or divided.
struct GatherRanksPayload : RankGroup {
  int axis = 0;
  friend bool operator==(const GatherRanksPayload&, const GatherRanksPayload&) = default;
};
/// `all_to_all`: part i along the axis `split` goes to member i, and the parts that arrive are put together along
/// `concat`.
struct AllToAllPayload : RankGroup {
  int split = 0;
  int concat = 0;
  friend bool operator==(const AllToAllPayload&, const AllToAllPayload&) = default;
};
/// `broadcast_from`: the member whose value all have.
struct BroadcastFromPayload : RankGroup {
  int root = 0;
  friend bool operator==(const BroadcastFromPayload&, const BroadcastFromPayload&) = default;
};
/// `send_receive`: member i gets the value of member from[i], or zeros where that is -1.
struct SendReceivePayload : RankGroup {
  std::vector<int> from;
  friend bool operator==(const SendReceivePayload&, const SendReceivePayload&) = default;
};
/// `shard`: for each axis of the value, the axis of the mesh that it is divided over, or -1.
struct ShardPayload {
  std::vector<int> mesh_axes;
  friend bool operator==(const ShardPayload&, const ShardPayload&) = default;
};
/// `at_stage`: the member along an axis of the mesh on which the value is.
struct StagePayload {
  int stage = 0;
  int mesh_axis = 0;
  friend bool operator==(const StagePayload&, const StagePayload&) = default;
};
/// `micro_batch`: the axis along which the value is worked on part by part.
struct MicroBatchPayload {
  int axis = 0;
  friend bool operator==(const MicroBatchPayload&, const MicroBatchPayload&) = default;
};
using Payload =
    std::variant<NoPayload, InputPayload, ConstantPayload, IotaPayload, RandomPayload, AxesPayload, AxisPayload,
                 SlicePayload, PadPayload, WindowPayload, ScanPayload, SortPayload, ScatterPayload, UpdatePayload,
                 DotPayload, CustomPayload, KernelPayload, AllReducePayload, GatherRanksPayload, AllToAllPayload,
                 BroadcastFromPayload, SendReceivePayload, ShardPayload, StagePayload, MicroBatchPayload>;

struct Node {
  const ops::OpRow* op = nullptr;
  std::vector<NodeId> operands;
  TensorType type;
  Payload payload;
};

struct Output {
  std::string name;
  NodeId value = 0;
};

/// A graph is built by appending and then not changed: passes make new ones.
class Graph {
 public:
  std::string name = "graph";

  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_[id]; }
  [[nodiscard]] std::span<const Output> outputs() const { return outputs_; }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  /// Ids of the input nodes, in order.
  [[nodiscard]] std::vector<NodeId> inputs() const;
  /// For each node, the nodes that read it, each once, in order.
  [[nodiscard]] std::vector<std::vector<NodeId>> users() const;

  /// A named input. Names are unique and not empty.
  Result<NodeId> add_input(std::string name, TensorType type);
  /// A literal; `bytes` holds exactly the dense tensor; the shape has no symbols.
  Result<NodeId> add_constant(TensorType type, Bytes bytes);
  /// A scalar literal from a number, rounded to `dtype` (integers: truncated to a whole number).
  NodeId add_scalar(DType dtype, double value);
  /// An elementwise or convert op: dtype and broadcast shape are inferred and checked.
  Result<NodeId> add(const ops::OpRow& op, std::vector<NodeId> operands, std::optional<DType> dtype = {});
  /// Any other op that computes: views, reductions, scans, gathers, sorts. `shape` is the result's shape
  /// where the op row says it is an attribute (reshape, broadcast, slice), else empty. docs/ops.md says
  /// what each takes; every rule is checked here. `dtype` is that of an op whose code the user gives.
  Result<NodeId> add_structured(const ops::OpRow& op, std::vector<NodeId> operands, Payload payload, Shape shape = {},
                                std::optional<DType> dtype = {});
  /// `iota` along an axis: element (i0, i1, ...) is i_axis.
  Result<NodeId> add_iota(TensorType type, int axis);
  /// Counter-based random u32 words, one per element: philox(seed, flat index).
  Result<NodeId> add_random(Shape shape, std::uint64_t seed);
  /// Names a result of the graph. Output names are unique.
  Result<void> add_output(std::string name, NodeId value);

 private:
  NodeId append(Node node);
  std::vector<Node> nodes_;
  std::vector<Output> outputs_;
  std::set<std::string, std::less<>> input_names_, output_names_;
};

/// Re-checks every rule the builder enforces; run after each pass in debug builds and tests.
Result<void> verify(const Graph& graph);

/// Appends a node like `node` with other operands: how a pass copies what it keeps.
Result<NodeId> append_copy(Graph& graph, const Node& node, std::vector<NodeId> operands);

/// The group of a collective; null for any other op.
const RankGroup* group_of(const Node& node);

/// The axes of an operand of `dot` that are neither batch axes nor contracted, ascending.
std::vector<int> free_axes(std::span<const int> batch, std::span<const int> contract, std::size_t rank);

// Elements as bytes, little-endian. `encode` rounds to the dtype (floats to the nearest, integers
// truncated and saturated); `decode` of an integer beyond 2^53 loses bits: use decode_int.
void encode(DType dtype, double value, std::vector<std::byte>& bytes);
void encode_int(DType dtype, std::int64_t value, std::vector<std::byte>& bytes);
double decode(DType dtype, const std::byte* at);
std::int64_t decode_int(DType dtype, const std::byte* at);
Bytes encode_scalar(DType dtype, double value);

/// The text form; parse(print(g)) prints the same bytes again.
std::string print(const Graph& graph);
struct ParseOptions {
  bool allow_custom = false;  ///< the text may hold GLSL (custom, custom_kernel), which runs on the device as it is
};
/// Reads the text form; errors name the line and the token.
Result<Graph> parse(std::string_view text, const ParseOptions& options = {});

}  // namespace vkfuse::ir

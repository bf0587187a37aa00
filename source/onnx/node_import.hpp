// Nodes in order: calls of functions, branches and iterations are imported in the place of their node, and what waits
// for the host is put off.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "onnx/long_recurrence.hpp"
#include "onnx/operator_table.hpp"
#include "onnx/schema.hpp"

namespace vkfuse::onnx {

using Nodes = google::protobuf::RepeatedPtrField<pb::NodeProto>;
using OpsetImports = google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>;

std::string_view normalised(std::string_view domain);

/// How sentences name a node.
std::string describe(const pb::NodeProto& node);

/// Opset versions by domain.
class Opsets {
 public:
  explicit Opsets(const OpsetImports& imports);
  /// The version a model imports of a domain, or 0.
  [[nodiscard]] std::int64_t of(std::string_view domain) const;

 private:
  std::map<std::string, std::int64_t, std::less<>> versions_;
};

/// Whether operators may run on the host.
enum class HostUse : std::uint8_t {
  never,
  later,  ///< they are refused here, but the caller then imports the model with the host: nothing is asked on their
          ///< behalf
  allowed,
};

/// The model-local functions, and what importing them has taken so far.
struct Library {
  std::map<std::pair<std::string_view, std::string_view>, const pb::FunctionProto*> functions;
  std::optional<DType> floats;  ///< what f32 becomes
  bool shared_caches = false;   ///< OnnxOptions::shared_caches
  HostUse host = HostUse::never;
  std::size_t inlined_bytes = 0;
  std::size_t unrolled_nodes = 0;
  std::size_t sequence_elements = 0;

  [[nodiscard]] const pb::FunctionProto* find(const pb::NodeProto& node) const;
};

Result<Library> index_functions(const pb::ModelProto& model);

/// What can be said of a node before its operator looks at it: attributes that are known, operands that are there and
/// of the right kind.
Result<void> check_node(const OperatorRow& row, const Attributes& attributes, std::span<const Value* const> operands);

/// A value in what f32 becomes. Its elements, where they are known, stay exact: sizes are computed from them.
Value in_dtype(Value value, const std::optional<DType>& floats);

/// The names of one graph, function body, branch or iteration.
struct Frame {
  int parent = -1;                      ///< whose names are visible too; -1 where none are
  int caller = -1;                      ///< the frame of `node`; -1 for the main graph
  const pb::NodeProto* node = nullptr;  ///< whose function or graph this is
  int depth = 0;
  const Nodes* nodes = nullptr;
  std::shared_ptr<const Opsets> opsets;
  std::shared_ptr<const Attributes> attributes;  ///< of the function's call
  std::map<std::string, std::optional<Value>, std::less<>> values;
};

/// A Loop or Scan on its way.
struct Iterations {
  const pb::GraphProto* body = nullptr;
  std::vector<std::pair<std::string, Value>> initialisers;  ///< of the body
  bool is_loop = false;
  std::int64_t count = 0, done = 0;
  std::vector<Value> state;
  std::vector<std::vector<Value>> collected;  ///< for each output that is put together from all iterations
  // Loop
  std::optional<Value> condition;
  // Scan
  struct Along {
    int axis = 0;
    bool reversed = false;
  };
  std::vector<Value> scanned;
  std::vector<Along> inputs, outputs;
  std::int64_t batch = 0;  ///< opset 8: sequences of the batch, one after the other; 0 for none
  std::vector<Value> first_state;
  std::vector<std::vector<Value>> last_states;  ///< opset 8: for each state, one per sequence
};

/// A FlexAttention on its way: graphs may change its scores, and then its weights.
struct FlexAttention {
  Value current;  ///< the scores, or the weights
  Tensor v;
  DType out = DType::f32;
  const pb::GraphProto* modifiers[2] = {nullptr, nullptr};  ///< of scores and of weights
  int stage = 0;                                            ///< which of them comes next
};

/// One thing left to do.
struct Step {
  enum class Kind : std::uint8_t { node, leave, iterate, join, modify };
  Kind kind = Kind::node;
  const pb::NodeProto* node = nullptr;
  int frame = 0;                     ///< the node's
  int body = -1;                     ///< of a call, a branch, or the last iteration
  std::vector<std::string> results;  ///< names in the body
  /// Of an If whose condition is data: the other branch, and what decides.
  int other_body = -1;
  std::vector<std::string> other_results;
  std::optional<Value> condition;
  std::optional<Iterations> iterations;
  std::optional<FlexAttention> flex;
};

/// An operator that the host computes once the kernels before it have run; or values that it reads then, because they
/// decide what follows.
struct HostStep {
  const OperatorRow* row = nullptr;
  std::int64_t opset = 0;
  Attributes attributes;
  std::string label;                           ///< of the node
  std::vector<std::optional<Value>> operands;  ///< nothing where one is left out
  const pb::NodeProto* node = nullptr;
  int frame = 0;
  bool reads = false;
  std::shared_ptr<const LongRecurrence> recurrence;  ///< set: kernels in rounds compute it
};

/// The types of the largest results that a step can have.
Result<HostTypes> largest_results(const HostStep& step);

/// What has come of a step: the results' types; of one that reads, the values of its operands, too.
struct StepResults {
  HostTypes types;
  HostResults values;
};

class NodeImport {
 public:
  explicit NodeImport(Library library) : library_(std::move(library)) {}

  /// A frame for the names of a graph; the number goes into the calls below.
  Result<int> open(Frame frame);
  /// Gives a name its value; `nullopt` stands for an operand that a caller left out.
  Result<void> define(int frame, const std::string& name, std::optional<Value> value);
  /// The value of a name (null if left out), or why there is none; `reader` says who asks.
  [[nodiscard]] Result<const Value*> find(int frame, const std::string& name, const std::string& reader) const;
  /// Puts the nodes of a frame before what is left to do, each after those that compute what it reads.
  void push_nodes(int frame);
  /// Imports all that does not wait for the host.
  Result<void> proceed();

  /// What waits, in order, and for what.
  [[nodiscard]] const std::vector<Step>& put_off() const { return put_off_; }
  [[nodiscard]] const std::vector<HostStep>& host_steps() const { return host_steps_; }
  /// The results of a step by its outputs; then proceed() goes on, in the next part.
  Result<void> define_results(const HostStep& step, const std::vector<Value>& results);
  /// What a step has read is known from here on.
  void take_read(const HostStep& step, const HostResults& values);
  void begin_next_part();
  [[nodiscard]] int part() const { return part_; }

  /// In later parts: what to read instead of a value of an earlier one.
  void bring(const Value& value, const Tensor& as);
  [[nodiscard]] bool is_brought(const Value& value) const { return brought_.contains(value.tensor.node().get()); }
  /// Values, and elements of sequences, that what was put off may read.
  [[nodiscard]] std::vector<Value> read_later() const;
  /// What operators promise of symbols: that they are no larger than this.
  [[nodiscard]] const std::map<std::string, std::int64_t, std::less<>>& largest() const { return largest_; }
  [[nodiscard]] const std::optional<DType>& floats() const { return library_.floats; }

  void set_host(HostUse use) { library_.host = use; }
  /// After an error: the tensors whose elements the node asked for, and which are not known.
  [[nodiscard]] const std::vector<Tensor>& asked() const { return asked_; }
  /// After an error: the node that failed, or the one of the outermost graph that it belongs to. Null: none did.
  [[nodiscard]] const pb::NodeProto* failed() const { return failed_; }
  /// What the file says and what is ignored, a sentence each.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  Result<void> take(Step step);
  Result<void> take_node(Step step);
  Result<void> leave(Step step);
  Result<void> iterate(Step step);
  Result<void> put_off(Step step);
  /// Puts a step off that has failed for want of values, until the host has read them; false where it cannot.
  Result<bool> put_off_to_read(Step step, const Error& failure);
  [[nodiscard]] const TensorData* read_value(const Value& value) const;
  Result<void> check_goes_on(const Step& step);

  Result<void> call(const pb::FunctionProto& function, const Step& step, const std::vector<const Value*>& operands);
  Result<void> enter(const OperatorRow& row, const Step& step, std::vector<const Value*> operands);
  Result<void> begin_flex_attention(const Step& step, const Attributes& attributes,
                                    const std::vector<const Value*>& operands);
  Result<void> modify(Step step);
  Result<void> take_modified(Step step);
  /// The branches of an If whose condition is data, and then join.
  Result<void> both_branches(const Step& step, const Attributes& attributes, const Value& condition);
  Result<void> join(const Step& step);
  Result<Value> selected(const Step& step, std::size_t output);
  Result<int> open_branch(const Step& step, const pb::GraphProto& graph, std::vector<std::string>& results);
  Result<void> branch(const Step& step, const Attributes& attributes, const std::vector<const Value*>& operands);
  Result<Iterations> loop_of(const Attributes& attributes, const std::vector<const Value*>& operands);
  Result<Iterations> scan_of(const OperatorRow& row, const Attributes& attributes,
                             const std::vector<const Value*>& operands);
  Result<void> check_sequence_lengths(const Value& lengths, std::int64_t length);
  Result<void> repeat_for_batch(Iterations& scan, const Value* lengths);
  Result<std::int64_t> deciding_integer(const Value& given_value, std::string_view what);
  void ask(const Value& value);
  const std::vector<int>& order_of(const Nodes& nodes, const std::string& graph);
  Result<void> begin_iteration(Step step);
  Result<std::vector<Value>> inputs_of(const Iterations& loop) const;
  Result<void> take_results(const Step& step, Iterations& loop);
  Result<Outputs> results_of(const Iterations& loop) const;
  Result<Value> joined(const std::vector<Value>& values, const Iterations::Along& how,
                       const pb::ValueInfoProto& output) const;
  Result<Value> computed(Tensor tensor, const std::vector<Value>& from) const;
  Result<int> open_graph(const Step& step, const pb::GraphProto& graph);
  Result<std::vector<std::pair<std::string, Value>>> initialisers_of(const pb::GraphProto& graph) const;
  Result<Outputs> computed_by(const OperatorRow& row, const Step& step, const Attributes& attributes,
                              const std::vector<const Value*>& operands);
  Result<Outputs> apply(const OperatorRow& row, const Step& step, const std::vector<const Value*>& operands);
  Result<Outputs> postponed(const OperatorRow& row, const Step& step, Attributes attributes,
                            const std::vector<const Value*>& operands, Result<Outputs> refused);
  Result<Outputs> in_rounds(const OperatorRow& row, const Step& step, const Attributes& attributes,
                            const std::vector<const Value*>& operands);
  Result<Outputs> on_host(const OperatorRow& row, const Step& step, Attributes attributes,
                          const std::vector<const Value*>& operands);
  Result<void> check_outputs(const Outputs& outputs);
  void note_promises(const Tensor& tensor);
  Result<void> bind(const Step& step, Outputs outputs);

  [[nodiscard]] std::int64_t opset_of(const Step& step) const;
  [[nodiscard]] Value here(const Value& value) const;
  void look_up(const std::vector<std::string>& names, int frame, std::vector<Value>& found) const;

  Library library_;
  std::deque<Frame> frames_;
  std::map<const Nodes*, std::vector<int>> orders_;  ///< of the nodes of each graph, as they are imported
  std::vector<Tensor> asked_;
  const pb::NodeProto* failed_ = nullptr;
  std::vector<std::string> notes_;
  std::vector<Step> left_;  ///< the next one last
  std::vector<Step> put_off_;
  std::vector<HostStep> host_steps_;
  int part_ = 0;
  struct Brought {
    Tensor from, as;
  };
  std::map<const Tensor::Node*, Brought> brought_;
  struct Read {
    Tensor from;
    std::shared_ptr<const TensorData> data;
  };
  std::map<const Tensor::Node*, Read> read_;  ///< by the host, between parts
  std::map<std::string, std::int64_t, std::less<>> largest_;
};

}  // namespace vkfuse::onnx

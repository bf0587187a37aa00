// FlexAttention: attention whose scores and weights graphs of the model change.
#include "onnx/node_import.hpp"
#include "onnx/operands.hpp"
#include "onnx/tensor_proto.hpp"
#include "onnx/text.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::onnx {
namespace {

Result<const pb::GraphProto*> modifier(const Attributes& attributes, std::string_view name) {
  const pb::AttributeProto* attribute = attributes.find(name);
  if (attribute == nullptr) return static_cast<const pb::GraphProto*>(nullptr);
  if (!attribute->has_g()) return invalid("Attribute {} must be a graph.", in_quotes(name));
  if (attribute->g().input_size() == 1 && attribute->g().output_size() == 1) return &attribute->g();
  return invalid("The graph {} has {} inputs and {} outputs; it must have one of each.", in_quotes(name),
                 attribute->g().input_size(), attribute->g().output_size());
}

/// The dtype of scores and weights.
Result<DType> softmax_dtype(const Attributes& attributes, DType operands) {
  VKF_TRY(stated, attributes.integer("softmax_precision", 0));
  if (stated == 0) return operands == DType::f64 ? DType::f64 : DType::f32;
  return dtype_from(static_cast<int>(stated), "Attribute 'softmax_precision'");
}

}  // namespace

Result<void> NodeImport::begin_flex_attention(const Step& step, const Attributes& attributes,
                                              const std::vector<const Value*>& operands) {
  const Tensor &q = operands[0]->tensor, &k = operands[1]->tensor, &v = operands[2]->tensor;
  VKF_TRY(score_mod, modifier(attributes, "score_mod"));
  VKF_TRY(prob_mod, modifier(attributes, "prob_mod"));
  VKF_TRY(dtype, softmax_dtype(attributes, q.dtype()));
  AttentionOptions options;
  if (attributes.has("scale")) {
    VKF_TRY(scale, attributes.real("scale", 0));
    options.scale = scale;
  }
  VKF_TRY(scores, computed(attention_scores(q, k, options).cast(dtype), {*operands[0], *operands[1]}));
  Step next = step;
  next.kind = Step::Kind::modify;
  next.flex = FlexAttention{std::move(scores), v, q.dtype(), {score_mod, prob_mod}, 0};
  return modify(std::move(next));
}

/// Goes on to the next graph, or to the end.
Result<void> NodeImport::modify(Step step) {
  FlexAttention& flex = *step.flex;
  for (; flex.stage < 2; ++flex.stage) {
    if (flex.stage == 1) {
      VKF_TRY(weights, computed(softmax(flex.current.tensor), {flex.current}));
      flex.current = std::move(weights);
    }
    const pb::GraphProto* graph = flex.modifiers[flex.stage];
    if (graph == nullptr) continue;
    VKF_TRY(frame, open_graph(step, *graph));
    VKF_TRY(initialisers, initialisers_of(*graph));
    for (auto& [name, value] : initialisers) VKF_CHECK_OK(define(frame, name, std::move(value)));
    VKF_CHECK_OK(define(frame, graph->input(0).name(), flex.current));
    step.body = frame;
    step.results = {graph->output(0).name()};
    left_.push_back(std::move(step));
    push_nodes(frame);
    return {};
  }
  const Tensor result = attention_output(flex.current.tensor.cast(flex.v.dtype()), flex.v);
  VKF_TRY(output, computed(result.cast(flex.out), {flex.current}));
  return bind(step, Outputs{std::move(output)});
}

/// What a graph has made of the scores or weights.
Result<void> NodeImport::take_modified(Step step) {
  VKF_TRY(value, find(step.body, step.results[0], "The end of a graph of operator 'FlexAttention'"));
  FlexAttention& flex = *step.flex;
  if (value == nullptr || value->pending || value->sequence)
    return unsupported("A graph of operator 'FlexAttention' makes no tensor, or one that waits for the host.");
  const Tensor& before = flex.current.tensor;
  if (value->tensor.dtype() != before.dtype() || value->tensor.shape() != before.shape()) {
    return invalid("A graph of operator 'FlexAttention' makes {}{} of {}{}; both must be equal.",
                   name_of(value->tensor.dtype()), to_text(value->tensor.shape()), name_of(before.dtype()),
                   to_text(before.shape()));
  }
  flex.current = *value;
  ++flex.stage;
  return modify(std::move(step));
}

}  // namespace vkfuse::onnx

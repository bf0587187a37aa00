/* Composites by name, in graphs and on tensors of a stream. */
#include "check.h"

static const vkf_dim kShape[2] = {{2, NULL, 0, 0, 0}, {4, NULL, 0, 0, 0}};
static const vkf_type kRows = {VKF_F32, kShape, 2};
static const float kX[8] = {1, 3, 1, 3, -2, -2, 2, 2};
static const float kScale[4] = {1, 2, 1, 1};
static const float kY[8] = {-0.5F, 1, -0.5F, 0.5F, -0.8F, -1.6F, 0.8F, 0.8F}; /* deviations over sqrt(4 and 6.25) */

/* With an epsilon of 3 and 2.25 the variances of 1 and 4 are squares; a real attribute that is not read shows. */
static void test_graph(const vkf_device* device) {
  const vkf_attribute epsilon[1] = {vkf_attribute_real("epsilon", 3)};
  const vkf_dim four = {4, NULL, 0, 0, 0};
  const vkf_type vector = {VKF_F32, &four, 1};
  vkf_graph* graph = NULL;
  vkf_program* program = NULL;
  vkf_value x[2], y;
  float got[8];
  const vkf_host_input inputs[2] = {{"x", kX, sizeof kX, NULL, 0}, {"scale", kScale, sizeof kScale, NULL, 0}};
  vkf_host_output out = {"y", got, sizeof got, 0};
  OK(vkf_graph_create("norm", &graph));
  OK(vkf_input(graph, "x", &kRows, &x[0]));
  OK(vkf_input(graph, "scale", &vector, &x[1]));
  OK(vkf_apply(graph, &(vkf_op){"layer_norm", epsilon, 1}, x, 2, &y));
  OK(vkf_output(graph, "y", y));
  OK(vkf_compile(device, graph, NULL, &program));
  CHECK(vkf_program_kernel_count(program) == 1);
  OK(vkf_run(program, inputs, 2, &out, 1));
  for (int i = 0; i < 4; ++i) CHECK(got[i] > kY[i] - 1e-6F && got[i] < kY[i] + 1e-6F);
  vkf_program_free(program);
  vkf_graph_free(graph);
  OK(vkf_supports_op(device, &(vkf_op){"gelu", NULL, 0}, &kRows, 1));
  REFUSED(vkf_supports_op(device, &(vkf_op){"gelu", NULL, 0}, &kRows, 0), VKF_INVALID_ARGUMENT,
          "'gelu' takes the operands x, but 0 are given.");
}

static void test_tensors(const vkf_device* device) {
  const vkf_dim three = {3, NULL, 0, 0, 0};
  const vkf_attribute shape[1] = {vkf_attribute_shape(&three, 1)};
  const vkf_attribute epsilon[1] = {vkf_attribute_real("epsilon", 2.25)};
  vkf_stream* stream = NULL;
  vkf_tensor *x = NULL, *y = NULL, *seed = NULL, *words = NULL;
  float got[8];
  uint32_t drawn[3] = {0, 0, 0};
  OK(vkf_stream_create(device, NULL, &stream));
  OK(vkf_tensor_create(stream, &kRows, kX, sizeof kX, &x));
  OK(vkf_tensor_apply(&(vkf_op){"layer_norm", epsilon, 1}, (const vkf_tensor* const[]){x}, 1, &y));
  OK(vkf_stream_read(stream, y, got, sizeof got));
  CHECK(got[4] > -0.81F && got[4] < -0.79F && got[6] > 0.79F && got[6] < 0.81F);
  OK(vkf_tensor_scalar(VKF_I64, 5, &seed));
  OK(vkf_tensor_apply(&(vkf_op){"random_words", shape, 1}, (const vkf_tensor* const[]){seed}, 1, &words));
  OK(vkf_stream_read(stream, words, drawn, sizeof drawn));
  CHECK(drawn[0] != drawn[1] && drawn[1] != drawn[2]);
  vkf_tensor_free(words);
  vkf_tensor_free(seed);
  vkf_tensor_free(y);
  REFUSED(vkf_tensor_apply(&(vkf_op){"random_words", shape, 1}, (const vkf_tensor* const[]){x}, 1, &y),
          VKF_INVALID_ARGUMENT, "A seed is one integer, but it is f32[2, 4].");
  CHECK(y == NULL);
  vkf_tensor_free(x);
  vkf_stream_free(stream);
}

static void test_refused(void) {
  const vkf_dim symbol = {0, "n", 0, 0, 0};
  const vkf_attribute axis = vkf_attribute_integer("axis", 1), real_axis = vkf_attribute_real("axis", 1);
  const vkf_attribute twice[2] = {axis, axis}, other = vkf_attribute_integer("axes", 1);
  const vkf_attribute dtype = vkf_attribute_dtype(VKF_F16), nameless = vkf_attribute_integer(NULL, 1);
  const vkf_attribute sizes = vkf_attribute_shape(&symbol, 1), text = vkf_attribute_text("form", NULL);
  vkf_graph* graph = NULL;
  vkf_value x, y = 9;
  char* before = NULL;
  char* after = NULL;
  OK(vkf_graph_create("refused", &graph));
  OK(vkf_input(graph, "x", &kRows, &x));
  OK(vkf_output(graph, "y", x));
  OK(vkf_graph_text(graph, &before));
#define APPLIED(name, attributes, count) vkf_apply(graph, &(vkf_op){name, attributes, count}, &x, 1, &y)
  REFUSED(APPLIED("softmax", &real_axis, 1), VKF_INVALID_ARGUMENT,
          "The attribute 'axis' of 'softmax' is a real number, but it must be an integer.");
  REFUSED(APPLIED("softmax", twice, 2), VKF_INVALID_ARGUMENT, "The attribute 'axis' of 'softmax' is given twice.");
  REFUSED(APPLIED("softmax", &other, 1), VKF_INVALID_ARGUMENT, "'softmax' has no attribute 'axes'.");
  REFUSED(APPLIED("softmax", &dtype, 1), VKF_INVALID_ARGUMENT, "is of kind 3, which no composite takes.");
  REFUSED(APPLIED("softmax", &nameless, 1), VKF_INVALID_ARGUMENT, "The name of an attribute is null.");
  REFUSED(APPLIED("softmax", NULL, 1), VKF_INVALID_ARGUMENT, "The list of attributes is null");
  REFUSED(APPLIED("gelu", &text, 1), VKF_INVALID_ARGUMENT, "The text of an attribute is null.");
  REFUSED(APPLIED("random_words", &sizes, 1), VKF_INVALID_ARGUMENT, "has the symbol 'n', but takes sizes.");
  REFUSED(APPLIED("linear", NULL, 0), VKF_INVALID_ARGUMENT, "'linear' takes the operands x w bias?, but 1 is given.");
  REFUSED(APPLIED("cumsum", &real_axis, 1), VKF_INVALID_ARGUMENT, "is not an integer, which it must be.");
#undef APPLIED
  x = 7;
  REFUSED(vkf_apply(graph, &(vkf_op){"gelu", NULL, 0}, &x, 1, &y), VKF_INVALID_ARGUMENT,
          "The operand 7 of 'gelu' does not exist: the graph has 1 values.");
  OK(vkf_graph_text(graph, &after));
  CHECK(y == 9 && before != NULL && after != NULL && strcmp(before, after) == 0);
  vkf_string_free(before);
  vkf_string_free(after);
  vkf_graph_free(graph);
}

void test_composites(const vkf_device* device) {
  test_graph(device);
  test_tensors(device);
  test_refused();
}

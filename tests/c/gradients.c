/* Gradients of graphs: what they are, and what is refused. */
#include "check.h"

static const vkf_dim kShape[2] = {{2, NULL, 0, 0, 0}, {2, NULL, 0, 0, 0}};
static const vkf_type kRows = {VKF_F32, kShape, 2};
static const float kX[4] = {1, 2, -3, 0.5F};

/* y = x * x + softmax(x); of g = 1 the softmax adds nothing, as its rows are 1 in sum. */
static void test_values(const vkf_device* device) {
  const float g_values[4] = {1, 1, 2, 2};
  const float wanted[4] = {2, 4, -12, 2};
  vkf_graph* graph = NULL;
  vkf_program* program = NULL;
  vkf_value x, g, square, rows, y, first, second, stopped;
  float got[3][4];
  vkf_value pair[2];
  vkf_host_output out[3] = {
      {"first", got[0], sizeof got[0], 0}, {"second", got[1], sizeof got[1], 0}, {"stopped", got[2], sizeof got[2], 0}};
  const vkf_host_input inputs[2] = {{"x", kX, sizeof kX, NULL, 0}, {"g", g_values, sizeof g_values, NULL, 0}};
  vkf_gradient_request request = {0};
  OK(vkf_graph_create("gradients", &graph));
  OK(vkf_input(graph, "x", &kRows, &x));
  OK(vkf_input(graph, "g", &kRows, &g));
  pair[0] = pair[1] = x;
  OK(vkf_apply(graph, &(vkf_op){"mul", NULL, 0}, pair, 2, &square));
  OK(vkf_apply(graph, &(vkf_op){"softmax", NULL, 0}, &x, 1, &rows));
  pair[0] = square;
  pair[1] = rows;
  OK(vkf_apply(graph, &(vkf_op){"add", NULL, 0}, pair, 2, &y));
  request.outputs = &y;
  request.output_count = 1;
  request.wrt = &x;
  request.wrt_count = 1;
  request.cotangents = &g;
  request.cotangent_count = 1;
  OK(vkf_gradients(graph, &request, &first));
  /* Of the gradient, with a cotangent of ones: 2 g. */
  request.outputs = &first;
  request.cotangents = NULL;
  request.cotangent_count = 0;
  OK(vkf_gradients(graph, &request, &second));
  request.outputs = &y;
  request.constants = &square;
  request.constant_count = 1;
  OK(vkf_gradients(graph, &request, &stopped));
  OK(vkf_output(graph, "first", first));
  OK(vkf_output(graph, "second", second));
  OK(vkf_output(graph, "stopped", stopped));
  OK(vkf_compile(device, graph, NULL, &program));
  OK(vkf_run(program, inputs, 2, out, 3));
  for (int i = 0; i < 4; ++i) {
    CHECK(got[0][i] > wanted[i] - 1e-5F && got[0][i] < wanted[i] + 1e-5F);
    CHECK(got[1][i] > 2 * g_values[i] - 1e-5F && got[1][i] < 2 * g_values[i] + 1e-5F);
    CHECK(got[2][i] > -1e-5F && got[2][i] < 1e-5F);
  }
  vkf_program_free(program);
  vkf_graph_free(graph);
}

static void test_refused(void) {
  vkf_graph* graph = NULL;
  vkf_value x, n, missing = 9, g = 7;
  const vkf_type integers = {VKF_I32, kShape, 2};
  char *before = NULL, *after = NULL;
  vkf_gradient_request request = {0};
  OK(vkf_graph_create("refused", &graph));
  OK(vkf_input(graph, "x", &kRows, &x));
  OK(vkf_input(graph, "n", &integers, &n));
  OK(vkf_output(graph, "y", x));
  OK(vkf_graph_text(graph, &before));
  REFUSED(vkf_gradients(NULL, &request, &g), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_gradients(graph, NULL, &g), VKF_INVALID_ARGUMENT, "The request is null.");
  request.output_count = 1;
  REFUSED(vkf_gradients(graph, &request, &g), VKF_INVALID_ARGUMENT, "The list of outputs is null");
  request.outputs = &x;
  request.wrt_count = 1;
  REFUSED(vkf_gradients(graph, &request, &g), VKF_INVALID_ARGUMENT, "with respect to is null");
  request.wrt = &n;
  REFUSED(vkf_gradients(graph, &request, NULL), VKF_INVALID_ARGUMENT, "The place for the gradients is null.");
  REFUSED(vkf_gradients(graph, &request, &g), VKF_INVALID_ARGUMENT,
          "'gradients' takes floats, but 'wrt' 0 is i32[2, 2].");
  request.wrt = &missing;
  REFUSED(vkf_gradients(graph, &request, &g), VKF_INVALID_ARGUMENT,
          "The value 9 does not exist: the graph has 2 values.");
  request.wrt = &x;
  request.cotangent_count = 1;
  REFUSED(vkf_gradients(graph, &request, &g), VKF_INVALID_ARGUMENT, "The list of cotangents is null");
  request.cotangents = &n;
  REFUSED(vkf_gradients(graph, &request, &g), VKF_INVALID_ARGUMENT, "The cotangent 0 is i32[2, 2]");
  request.cotangents = &x;
  request.constant_count = 1;
  REFUSED(vkf_gradients(graph, &request, &g), VKF_INVALID_ARGUMENT, "The list of constants is null");
  OK(vkf_graph_text(graph, &after));
  CHECK(g == 7 && before != NULL && after != NULL && strcmp(before, after) == 0);
  vkf_string_free(before);
  vkf_string_free(after);
  vkf_graph_free(graph);
}

/* Of x * x * constant(x), by a stream: 2 x^2. */
static void test_tensors(const vkf_device* device) {
  vkf_stream* stream = NULL;
  vkf_tensor *x = NULL, *stopped = NULL, *square = NULL, *y = NULL, *slope = NULL;
  vkf_tensor_gradient_request request = {0};
  float got[4];
  OK(vkf_stream_create(device, NULL, &stream));
  OK(vkf_tensor_create(stream, &kRows, kX, sizeof kX, &x));
  OK(vkf_tensor_stop_gradient(x, &stopped));
  OK(vkf_tensor_apply(&(vkf_op){"mul", NULL, 0}, (const vkf_tensor* const[]){x, x}, 2, &square));
  OK(vkf_tensor_apply(&(vkf_op){"mul", NULL, 0}, (const vkf_tensor* const[]){square, stopped}, 2, &y));
  request.outputs = (const vkf_tensor* const*)&y;
  request.output_count = 1;
  request.wrt = (const vkf_tensor* const*)&x;
  request.wrt_count = 1;
  OK(vkf_tensor_gradients(&request, &slope));
  OK(vkf_stream_read(stream, slope, got, sizeof got));
  for (int i = 0; i < 4; ++i) CHECK(got[i] == 2 * kX[i] * kX[i]);
  vkf_tensor_free(slope);
  request.cotangents = (const vkf_tensor* const*)&slope;
  request.cotangent_count = 1;
  slope = NULL;
  REFUSED(vkf_tensor_gradients(&request, &slope), VKF_INVALID_ARGUMENT, "The tensor is null.");
  request.cotangent_count = 0;
  REFUSED(vkf_tensor_gradients(&request, NULL), VKF_INVALID_ARGUMENT, "The place for the gradients is null.");
  REFUSED(vkf_tensor_gradients(NULL, &slope), VKF_INVALID_ARGUMENT, "The request is null.");
  request.wrt = NULL;
  REFUSED(vkf_tensor_gradients(&request, &slope), VKF_INVALID_ARGUMENT, "with respect to is null");
  REFUSED(vkf_tensor_stop_gradient(NULL, &slope), VKF_INVALID_ARGUMENT, "The tensor is null.");
  CHECK(slope == NULL);
  vkf_tensor_free(y);
  vkf_tensor_free(square);
  vkf_tensor_free(stopped);
  vkf_tensor_free(x);
  vkf_stream_free(stream);
}

void test_gradients(const vkf_device* device) {
  test_values(device);
  test_tensors(device);
  test_refused();
}

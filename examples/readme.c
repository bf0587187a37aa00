/* The C program of README.md. */
#include <stdio.h>
#include <vkfuse/vkfuse.h>

/* Ends with the library's own sentence where a call fails. */
#define TRY(call) \
  if ((call) != VKF_OK) return puts(vkf_last_error()), 1

int main(void) {
  vkf_device* device;
  vkf_graph* graph;
  vkf_program* program;
  vkf_value x, scale, scaled, y;
  const vkf_dim shape[2] = {vkf_any("n"), vkf_size(4)}; /* n may differ from run to run */
  const vkf_type rows = {VKF_F32, shape, 2};
  TRY(vkf_device_open(NULL, &device));
  TRY(vkf_graph_create("readme", &graph));
  TRY(vkf_input(graph, "x", &rows, &x));
  TRY(vkf_scalar(graph, VKF_F32, 2.0, &scale));
  TRY(vkf_apply(graph, &(vkf_op){.name = "mul"}, (vkf_value[]){x, scale}, 2, &scaled));
  TRY(vkf_apply(graph, &(vkf_op){.name = "relu"}, &scaled, 1, &y));
  TRY(vkf_output(graph, "y", y));
  TRY(vkf_compile(device, graph, NULL, &program)); /* one kernel */

  const float data[4] = {-1, 0, 1, 3};
  float result[4];
  const vkf_host_input in = {"x", data, sizeof data, NULL, 0};
  vkf_host_output out = {"y", result, sizeof result, 0};
  TRY(vkf_run(program, &in, 1, &out, 1));
  for (int i = 0; i < 4; ++i) printf("%g ", result[i]); /* 0 0 2 6 */
  vkf_program_free(program);
  vkf_graph_free(graph);
  vkf_device_free(device);
  return 0;
}

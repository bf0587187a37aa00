/* Null and wrong arguments. */
#include "check.h"

static void test_null_handles(const vkf_device* device) {
  vkf_graph* graph = NULL;
  vkf_program* program = NULL;
  vkf_buffer* buffer = NULL;
  vkf_ticket* ticket = NULL;
  vkf_value value = 0;
  char* text = NULL;
  int done = 0;
  char byte = 0;
  OK(vkf_graph_create(NULL, &graph));
  REFUSED(vkf_graph_create("g", NULL), VKF_INVALID_ARGUMENT, "The place for the new graph is null.");
  vkf_graph* failed = graph;
  REFUSED(vkf_graph_parse(NULL, &failed), VKF_INVALID_ARGUMENT, "The text is null.");
  CHECK(failed == NULL); /* a failed call leaves nothing to be given back */
  REFUSED(vkf_device_open(NULL, NULL), VKF_INVALID_ARGUMENT, "The place for the new device is null.");
  REFUSED(vkf_input(NULL, "x", VKF_F32, NULL, 0, &value), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_input(graph, NULL, VKF_F32, NULL, 0, &value), VKF_INVALID_ARGUMENT, "The name of the input is null.");
  REFUSED(vkf_input(graph, "x", VKF_F32, NULL, 0, NULL), VKF_INVALID_ARGUMENT, "The place for the new value is null.");
  REFUSED(vkf_input(graph, "x", VKF_F32, NULL, 2, &value), VKF_INVALID_ARGUMENT, "The list of dimensions is null, but has a count of 2.");
  REFUSED(vkf_constant(graph, VKF_F32, NULL, 0, NULL, 4, &value), VKF_INVALID_ARGUMENT, "The list of elements is null");
  REFUSED(vkf_apply(graph, NULL, NULL, 0, NULL, 0, &value), VKF_INVALID_ARGUMENT, "The name of the op is null.");
  REFUSED(vkf_apply(graph, "relu", NULL, 1, NULL, 0, &value), VKF_INVALID_ARGUMENT, "The list of operands is null");
  REFUSED(vkf_apply(graph, "relu", NULL, 0, NULL, 3, &value), VKF_INVALID_ARGUMENT, "The list of attributes is null");
  REFUSED(vkf_output(graph, NULL, 0), VKF_INVALID_ARGUMENT, "The name of the output is null.");
  REFUSED(vkf_output(NULL, "y", 0), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_graph_text(NULL, &text), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_value_type(NULL, 0, NULL, NULL, 0, NULL), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_compile(NULL, graph, NULL, &program), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_compile(device, NULL, NULL, &program), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_compile(device, graph, NULL, NULL), VKF_INVALID_ARGUMENT, "The place for the new program is null.");
  REFUSED(vkf_supports(NULL, graph, NULL), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_supports(device, NULL, NULL), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_supports_op(NULL, "relu", NULL, 0, NULL, 0), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_supports_op(device, NULL, NULL, 0, NULL, 0), VKF_INVALID_ARGUMENT, "The name of the op is null.");
  REFUSED(vkf_run(NULL, NULL, 0, NULL, 0), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_submit(NULL, NULL, 0, NULL, 0, NULL, 0, &ticket), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_program_explain(NULL, VKF_STAGE_PLAN, &text), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_program_sizes(NULL, "x", NULL, 0, NULL, NULL, 0, NULL), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_buffer_create(NULL, 16, &buffer), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_buffer_create(device, 16, NULL), VKF_INVALID_ARGUMENT, "The place for the new buffer is null.");
  REFUSED(vkf_buffer_write(NULL, 0, &byte, 1), VKF_INVALID_ARGUMENT, "The buffer is null.");
  REFUSED(vkf_buffer_read(NULL, 0, &byte, 1), VKF_INVALID_ARGUMENT, "The buffer is null.");
  REFUSED(vkf_ticket_wait(NULL), VKF_INVALID_ARGUMENT, "The ticket is null.");
  REFUSED(vkf_ticket_done(NULL, &done), VKF_INVALID_ARGUMENT, "The ticket is null.");
  CHECK(vkf_device_name(NULL) == NULL && vkf_buffer_size(NULL) == 0 && vkf_program_kernel_count(NULL) == 0);
  CHECK(vkf_program_input_count(NULL) == 0 && vkf_program_output_count(NULL) == 0);
  CHECK(vkf_program_input_name(NULL, 0) == NULL && vkf_program_output_name(NULL, 0) == NULL);
  vkf_device_free(NULL);
  vkf_graph_free(NULL);
  vkf_program_free(NULL);
  vkf_buffer_free(NULL);
  vkf_ticket_free(NULL);
  vkf_string_free(NULL);
  vkf_graph_free(graph);
}

static void test_options(const vkf_device* device) {
  vkf_device* other = NULL;
  vkf_program* program = NULL;
  vkf_graph* graph = NULL;
  const char* const names[] = {"T9"};
  const char* const missing[] = {NULL};
  struct {
    vkf_compile_options known;
    char later;
  } newer;
  vkf_device_options options;
  vkf_compile_options compile;
  memset(&options, 0, sizeof options);
  memset(&compile, 0, sizeof compile);
  memset(&newer, 0, sizeof newer);
  REFUSED(vkf_device_open(&options, &other), VKF_INVALID_ARGUMENT, "The device options say that they have 0 bytes; set `size` to sizeof.");
  options.size = sizeof options;
  options.name = "no such device";
  REFUSED(vkf_device_open(&options, &other), VKF_NOT_FOUND, "No Vulkan device matches 'no such device'");
  options.name = NULL;
  options.disable = names;
  options.disable_count = 1;
  REFUSED(vkf_device_open(&options, &other), VKF_INVALID_ARGUMENT, "'T9' is neither a rung");
  options.disable = missing;
  REFUSED(vkf_device_open(&options, &other), VKF_INVALID_ARGUMENT, "The name to disable is null.");
  options.disable = NULL;
  REFUSED(vkf_device_open(&options, &other), VKF_INVALID_ARGUMENT, "The list of names to disable is null, but has a count of 1.");
  CHECK(other == NULL);
  options.disable_count = 0;
  options.cache = "off";
  OK(vkf_device_open(&options, &other));
  vkf_device_free(other);

  OK(vkf_graph_parse("graph \"g\" {\n  %0 = input \"x\" : f32[4]\n  %1 = relu %0 : f32[4]\n  output \"y\" = %1\n}\n", &graph));
  compile.size = sizeof compile;
  compile.numerics = (vkf_numerics)7;
  REFUSED(vkf_compile(device, graph, &compile, &program), VKF_INVALID_ARGUMENT, "7 is not a kind of numerics");
  compile.numerics = VKF_NUMERICS_STRICT;
  compile.no_fusion = 1;
  OK(vkf_compile(device, graph, &compile, &program));
  vkf_program_free(program);
  /* A caller that is newer than the library may ask for nothing new. */
  newer.known.size = sizeof newer;
  OK(vkf_compile(device, graph, &newer.known, &program));
  vkf_program_free(program);
  newer.later = 1;
  REFUSED(vkf_compile(device, graph, &newer.known, &program), VKF_UNSUPPORTED, "which this version of vkfuse does not know.");
  /* One that is older has less of the structure. */
  compile.size = sizeof compile.size;
  compile.numerics = (vkf_numerics)7;
  OK(vkf_compile(device, graph, &compile, &program));
  vkf_program_free(program);
  vkf_graph_free(graph);
}

void test_arguments(const vkf_device* device) {
  test_null_handles(device);
  test_options(device);
  CHECK(vkf_dtype_size(VKF_F32) == 4 && vkf_dtype_size(VKF_BOOL) == 1 && vkf_dtype_size(VKF_U64) == 8);
  CHECK(vkf_dtype_size((vkf_dtype)13) == 0 && vkf_dtype_size((vkf_dtype)-1) == 0);
}

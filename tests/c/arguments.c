/* Null and wrong arguments. */
#include "check.h"

static void test_null_handles(const vkf_device* device) {
  vkf_graph* graph = NULL;
  vkf_program* program = NULL;
  vkf_buffer* buffer = NULL;
  vkf_submission* submission = NULL;
  vkf_value value = 0;
  vkf_recording* recording = NULL;
  vkf_device* other = NULL;
  vkf_store_report report = {0, 0, 0, 0, 0, NULL, NULL};
  const vkf_type scalar = {VKF_F32, NULL, 0};
  const vkf_bindings nothing = {sizeof nothing, NULL, 0, NULL, 0, NULL, 0, NULL, 0};
  vkf_type_report type = {NULL, 0, VKF_F32, 0};
  vkf_sizes_report sizes = {NULL, 0, 0, 0};
  vkf_profile_report profile = {NULL, 0, 0};
  uint64_t bytes = 0;
  char* text = NULL;
  int done = 0;
  char byte = 0;
  OK(vkf_graph_create(NULL, &graph));
  REFUSED(vkf_graph_create("g", NULL), VKF_INVALID_ARGUMENT, "The place for the new graph is null.");
  vkf_graph* failed = graph;
  REFUSED(vkf_graph_parse(NULL, &failed), VKF_INVALID_ARGUMENT, "The text is null.");
  CHECK(failed == NULL); /* a failed call leaves nothing to be given back */
  REFUSED(vkf_device_open(NULL, NULL), VKF_INVALID_ARGUMENT, "The place for the new device is null.");
  REFUSED(vkf_input(NULL, "x", &scalar, &value), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_input(graph, NULL, &scalar, &value), VKF_INVALID_ARGUMENT, "The name of the input is null.");
  REFUSED(vkf_input(graph, "x", &scalar, NULL), VKF_INVALID_ARGUMENT, "The place for the new value is null.");
  REFUSED(vkf_input(graph, "x", NULL, &value), VKF_INVALID_ARGUMENT, "The type is null.");
  REFUSED(vkf_input(graph, "x", &(vkf_type){VKF_F32, NULL, 2}, &value), VKF_INVALID_ARGUMENT,
          "The list of dimensions is null, but has a count of 2.");
  REFUSED(vkf_constant(graph, NULL, &byte, 1, &value), VKF_INVALID_ARGUMENT, "The type is null.");
  REFUSED(vkf_constant(graph, &scalar, NULL, 4, &value), VKF_INVALID_ARGUMENT, "The list of elements is null");
  REFUSED(vkf_apply(graph, NULL, NULL, 0, &value), VKF_INVALID_ARGUMENT, "The op is null.");
  REFUSED(vkf_apply(graph, &(vkf_op){NULL, NULL, 0}, NULL, 0, &value), VKF_INVALID_ARGUMENT,
          "The name of the op is null.");
  REFUSED(vkf_apply(graph, &(vkf_op){.name = "relu"}, NULL, 1, &value), VKF_INVALID_ARGUMENT,
          "The list of operands is null");
  REFUSED(vkf_apply(graph, &(vkf_op){"relu", NULL, 3}, NULL, 0, &value), VKF_INVALID_ARGUMENT,
          "The list of attributes is null");
  REFUSED(vkf_output(graph, NULL, 0), VKF_INVALID_ARGUMENT, "The name of the output is null.");
  REFUSED(vkf_output(NULL, "y", 0), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_graph_text(NULL, &text), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_value_type(NULL, 0, &type), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_compile(NULL, graph, NULL, &program), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_compile(device, NULL, NULL, &program), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_compile(device, graph, NULL, NULL), VKF_INVALID_ARGUMENT, "The place for the new program is null.");
  REFUSED(vkf_supports(NULL, graph, NULL), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_supports(device, NULL, NULL), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_supports_op(NULL, &(vkf_op){.name = "relu"}, NULL, 0), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_supports_op(device, NULL, NULL, 0), VKF_INVALID_ARGUMENT, "The op is null.");
  REFUSED(vkf_supports_op(device, &(vkf_op){NULL, NULL, 0}, NULL, 0), VKF_INVALID_ARGUMENT,
          "The name of the op is null.");
  REFUSED(vkf_run(NULL, NULL, 0, NULL, 0), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_submit(NULL, &nothing, &submission), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_program_explain(NULL, VKF_STAGE_PLAN, &text), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_program_sizes(NULL, "x", NULL, 0, &sizes), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_buffer_create(NULL, 16, &buffer), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_buffer_create_for(NULL, &scalar, &buffer), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_buffer_create_for(device, NULL, &buffer), VKF_INVALID_ARGUMENT, "The type is null.");
  REFUSED(vkf_buffer_create(device, 16, NULL), VKF_INVALID_ARGUMENT, "The place for the new buffer is null.");
  REFUSED(vkf_buffer_write(NULL, 0, &byte, 1), VKF_INVALID_ARGUMENT, "The buffer is null.");
  REFUSED(vkf_buffer_read(NULL, 0, &byte, 1), VKF_INVALID_ARGUMENT, "The buffer is null.");
  REFUSED(vkf_submission_wait(NULL), VKF_INVALID_ARGUMENT, "The submission is null.");
  REFUSED(vkf_submission_done(NULL, &done), VKF_INVALID_ARGUMENT, "The submission is null.");
  REFUSED(vkf_device_adopt(NULL, NULL, &other), VKF_INVALID_ARGUMENT, "The host's device is null.");
  REFUSED(vkf_device_describe(NULL, &text), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_device_describe(device, NULL), VKF_INVALID_ARGUMENT, "The place for the text is null.");
  REFUSED(vkf_device_list(0, NULL), VKF_INVALID_ARGUMENT, "The place for the text is null.");
  REFUSED(vkf_device_limit(NULL, "storage_range", &bytes), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_device_limit(device, NULL, &bytes), VKF_INVALID_ARGUMENT, "The name of the limit is null.");
  REFUSED(vkf_device_limit(device, "storage_range", NULL), VKF_INVALID_ARGUMENT, "The place for the limit is null.");
  REFUSED(vkf_device_limit(device, "patience", &bytes), VKF_NOT_FOUND, "There is no limit named 'patience'");
  REFUSED(vkf_device_feature(NULL, "int64", &done), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_device_feature(device, NULL, &done), VKF_INVALID_ARGUMENT, "The name of the feature is null.");
  REFUSED(vkf_device_feature(device, "int64", NULL), VKF_INVALID_ARGUMENT, "The place for the answer is null.");
  REFUSED(vkf_device_store(NULL, &report), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_device_store(device, NULL), VKF_INVALID_ARGUMENT, "The store report is null.");
  REFUSED(vkf_device_store(device, &report), VKF_INVALID_ARGUMENT,
          "The members of the store report say that they have 0 bytes; set `size` to sizeof.");
  REFUSED(vkf_buffer_wrap(NULL, 1, 16, 0, &buffer), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_buffer_wrap(device, 0, 16, 0, &buffer), VKF_INVALID_ARGUMENT, "A VkBuffer to wrap is null");
  REFUSED(vkf_record(NULL, NULL, &nothing, &recording), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_profile(NULL, &nothing, &profile), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_profile_host(NULL, NULL, 0, &profile), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_program_type(NULL, "x", &type), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_program_save_plan(NULL, &text), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_program_explain_segment(NULL, VKF_STAGE_GLSL, 0, &text), VKF_INVALID_ARGUMENT, "The program is null.");
  CHECK(vkf_buffer_vulkan_handle(NULL) == 0);
  vkf_recording_free(NULL);
  CHECK(vkf_device_name(NULL) == NULL && vkf_buffer_size(NULL) == 0 && vkf_program_kernel_count(NULL) == 0);
  CHECK(vkf_program_input_count(NULL) == 0 && vkf_program_output_count(NULL) == 0);
  CHECK(vkf_program_input_name(NULL, 0) == NULL && vkf_program_output_name(NULL, 0) == NULL);
  vkf_device_free(NULL);
  vkf_graph_free(NULL);
  vkf_program_free(NULL);
  vkf_buffer_free(NULL);
  vkf_submission_free(NULL);
  vkf_string_free(NULL);
  vkf_graph_free(graph);
}

static void hear(void* user, vkf_log_level level, const char* sentence) {
  if (level == VKF_LOG_INFO && strstr(sentence, "is open") != NULL) ++*(int*)user;
}

static void test_options(const vkf_device* device) {
  vkf_device* other = NULL;
  vkf_program* program = NULL;
  vkf_graph* graph = NULL;
  const char* const names[] = {"T9"};
  const char* const missing[] = {NULL};
  const char* const reorder[] = {"reorder"};
  const vkf_limit nameless = {NULL, 1}, lower = {"max_invocations", 128};
  vkf_store_report report = {sizeof report, 9, 9, 9, 9, NULL, NULL};
  uint64_t bytes = 0;
  char* text = NULL;
  int heard = 0, has = 2;
  struct {
    vkf_compile_options known;
    char later;
  } newer;
  vkf_device_options options;
  vkf_compile_options compile;
  memset(&options, 0, sizeof options);
  memset(&compile, 0, sizeof compile);
  memset(&newer, 0, sizeof newer);
  REFUSED(vkf_device_open(&options, &other), VKF_INVALID_ARGUMENT,
          "The device options say that they have 0 bytes; set `size` to sizeof.");
  options.size = sizeof options;
  options.name = "no such device";
  REFUSED(vkf_device_open(&options, &other), VKF_NOT_FOUND, "No Vulkan device matches 'no such device'");
  options.name = NULL;
  options.disable = names;
  options.disable_count = 1;
  REFUSED(vkf_device_open(&options, &other), VKF_INVALID_ARGUMENT, "'T9' is neither a feature tier");
  options.disable = missing;
  REFUSED(vkf_device_open(&options, &other), VKF_INVALID_ARGUMENT, "The name to disable is null.");
  options.disable = NULL;
  REFUSED(vkf_device_open(&options, &other), VKF_INVALID_ARGUMENT,
          "The list of names to disable is null, but has a count of 1.");
  CHECK(other == NULL);
  options.disable_count = 0;
  options.cache = "off";
  options.limit_count = 1;
  REFUSED(vkf_device_open(&options, &other), VKF_INVALID_ARGUMENT, "The list of limits is null, but has a count of 1.");
  options.limits = &nameless;
  REFUSED(vkf_device_open(&options, &other), VKF_INVALID_ARGUMENT, "The name of a limit is null.");
  options.limits = &lower;
  options.log = hear;
  options.log_user = &heard;
  options.self_check = 1;
  OK(vkf_device_open(&options, &other));
  CHECK(heard == 1);
  OK(vkf_device_list(0, &text));
  CHECK(text != NULL && strstr(text, vkf_device_name(other)) != NULL && strstr(text, "\"storage_range\"") != NULL);
  vkf_string_free(text);
  OK(vkf_device_describe(other, &text));
  CHECK(text != NULL && strstr(text, vkf_device_name(other)) != NULL && text[0] == '{');
  vkf_string_free(text);
  OK(vkf_device_limit(other, "max_invocations", &bytes));
  CHECK(bytes >= 128);
  OK(vkf_device_feature(other, "int64", &has));
  CHECK(has == (strstr(vkf_device_name(other), "SwiftShader") == NULL));
  OK(vkf_device_feature(other, "patience", &has));
  CHECK(has == 0);
  OK(vkf_device_store(other, &report));
  CHECK(report.size == sizeof report && report.loaded == 0 && report.off != NULL && report.off[0] != '\0' &&
        report.folder != NULL);
  vkf_device_free(other);

  OK(vkf_graph_parse("graph \"g\" {\n  %0 = input \"x\" : f32[4]\n  %1 = relu %0 : f32[4]\n  output \"y\" = %1\n}\n",
                     &graph));
  compile.size = sizeof compile;
  compile.numerics = (vkf_numerics)7;
  REFUSED(vkf_compile(device, graph, &compile, &program), VKF_INVALID_ARGUMENT, "7 is not a kind of numerics");
  compile.numerics = VKF_NUMERICS_STRICT;
  compile.no_fusion = 1;
  OK(vkf_compile(device, graph, &compile, &program));
  vkf_program_free(program);
  compile.memory_budget = UINT64_MAX;
  REFUSED(vkf_compile(device, graph, &compile, &program), VKF_INVALID_ARGUMENT, "bytes are no memory budget.");
  compile.memory_budget = 0;
  compile.planner = "guess";
  REFUSED(vkf_compile(device, graph, &compile, &program), VKF_INVALID_ARGUMENT, "There is no planner 'guess'");
  compile.planner = "store-all";
  compile.without = names;
  compile.without_count = 1;
  REFUSED(vkf_compile(device, graph, &compile, &program), VKF_INVALID_ARGUMENT,
          "'T9' is no planner pass to do without");
  compile.without = missing;
  REFUSED(vkf_compile(device, graph, &compile, &program), VKF_INVALID_ARGUMENT, "The name to do without is null.");
  compile.without = reorder;
  OK(vkf_compile(device, graph, &compile, &program));
  vkf_program_free(program);
  /* A caller that is newer than the library may ask for nothing new. */
  newer.known.size = sizeof newer;
  OK(vkf_compile(device, graph, &newer.known, &program));
  vkf_program_free(program);
  newer.later = 1;
  REFUSED(vkf_compile(device, graph, &newer.known, &program), VKF_UNSUPPORTED,
          "which this version of vkfuse does not know.");
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

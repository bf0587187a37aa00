/* Programs: on host memory, on device memory, from several handles in any order. */
#include "check.h"

/* y = relu(x * 2) + 1 and z = the sum of its rows, for any number of rows. */
static vkf_graph* rows_graph(void) {
  vkf_graph* graph = NULL;
  vkf_value x, two, one, y, z;
  const vkf_dim shape[2] = {{0, "n", 0, 0, 0}, {4, NULL, 0, 0, 0}};
  const int64_t axes[1] = {1};
  const vkf_attribute attributes[] = {vkf_attribute_integers("axes", axes, 1)};
  OK(vkf_graph_create("rows", &graph));
  OK(vkf_input(graph, "x", &(vkf_type){VKF_F32, shape, 2}, &x));
  OK(vkf_scalar(graph, VKF_F32, 2, &two));
  OK(vkf_scalar(graph, VKF_F32, 1, &one));
  OK(vkf_apply(graph, &(vkf_op){.name = "mul"}, (const vkf_value[]){x, two}, 2, &y));
  OK(vkf_apply(graph, &(vkf_op){.name = "relu"}, &y, 1, &y));
  OK(vkf_apply(graph, &(vkf_op){.name = "add"}, (const vkf_value[]){y, one}, 2, &y));
  OK(vkf_apply(graph, &(vkf_op){"reduce_sum", attributes, 1}, &y, 1, &z));
  OK(vkf_output(graph, "y", y));
  OK(vkf_output(graph, "z", z));
  return graph;
}

static const float kX[8] = {-1, 0, 1, 3, 0.5F, -0.5F, 100, 2};
static const float kY[8] = {1, 1, 3, 7, 2, 1, 201, 5};
static const float kZ[2] = {12, 209};

static void test_host(const vkf_program* program) {
  float y[8], z[2];
  vkf_host_input in = {"x", kX, sizeof kX, NULL, 0};
  vkf_host_output out[2] = {{"z", z, sizeof z, 0}, {"y", y, sizeof y, 0}};
  OK(vkf_run(program, &in, 1, out, 2));
  CHECK(out[0].bytes == sizeof z && out[1].bytes == sizeof y);
  CHECK(memcmp(y, kY, sizeof y) == 0 && memcmp(z, kZ, sizeof z) == 0);
  {
    float again[2] = {0, 0};
    vkf_host_output twice[2] = {out[0], out[0]};
    twice[1].data = again;
    OK(vkf_run(program, &in, 1, twice, 2));
    CHECK(memcmp(again, kZ, sizeof kZ) == 0 && memcmp(z, kZ, sizeof z) == 0);
  }
  {
    const int64_t sizes[2] = {1, 4};
    in.bytes = 16;
    in.sizes = sizes;
    in.rank = 2;
    memset(z, 0, sizeof z);
    OK(vkf_run(program, &in, 1, out, 1)); /* another size, and only one of the results */
    CHECK(out[0].bytes == 4 && z[0] == kZ[0] && z[1] == 0);
    in.rank = 1;
    REFUSED(vkf_run(program, &in, 1, out, 1), VKF_INVALID_ARGUMENT, "Input 'x' has shape [1]");
    in.sizes = NULL;
  }
  in.bytes = sizeof kX;
  out[0].capacity = 7;
  z[0] = 5;
  REFUSED(vkf_run(program, &in, 1, out, 1), VKF_INVALID_ARGUMENT,
          "The output 'z' takes 8 bytes, and there is room for 7.");
  CHECK(z[0] == 5 && out[0].bytes == 8);
  y[0] = 5;
  {
    vkf_host_output other[2] = {out[1], out[0]};
    REFUSED(vkf_run(program, &in, 1, other, 2), VKF_INVALID_ARGUMENT, "The output 'z' takes 8 bytes");
    CHECK(y[0] == 5); /* nothing runs */
  }
  out[0].capacity = 8;
  out[0].data = NULL;
  REFUSED(vkf_run(program, &in, 1, out, 1), VKF_INVALID_ARGUMENT, "The memory of an output is null.");
  out[0].data = z;
  in.bytes = 7;
  REFUSED(vkf_run(program, &in, 1, out, 1), VKF_INVALID_ARGUMENT, "The 7 bytes of input 'x'");
  in.data = NULL;
  REFUSED(vkf_run(program, &in, 1, out, 1), VKF_INVALID_ARGUMENT,
          "The list of bytes of an input is null, but has a count of 7.");
  in.data = kX;
  in.bytes = sizeof kX;
  in.name = "w";
  REFUSED(vkf_run(program, &in, 1, out, 1), VKF_INVALID_ARGUMENT, "Input 'x' of type f32[n, 4] was not given.");
  in.name = NULL;
  REFUSED(vkf_run(program, &in, 1, out, 1), VKF_INVALID_ARGUMENT, "The name of an input is null.");
  in.name = "x";
  {
    const vkf_host_input twice[2] = {in, in};
    REFUSED(vkf_run(program, twice, 2, out, 1), VKF_INVALID_ARGUMENT, "The input 'x' is given twice.");
  }
  REFUSED(vkf_run(program, NULL, 1, out, 1), VKF_INVALID_ARGUMENT, "The list of inputs is null");
  REFUSED(vkf_run(program, NULL, 0, out, 1), VKF_INVALID_ARGUMENT, "Input 'x'");
  REFUSED(vkf_run(program, &in, 1, NULL, 1), VKF_INVALID_ARGUMENT, "The list of outputs is null");
  out[0].name = "nowhere";
  REFUSED(vkf_run(program, &in, 1, out, 1), VKF_INVALID_ARGUMENT, "The program has no output 'nowhere'.");
  out[0].name = NULL;
  REFUSED(vkf_run(program, &in, 1, out, 1), VKF_INVALID_ARGUMENT, "The name of an output is null.");
}

static void count_call(void* user, const vkf_tune_progress* so_far) {
  if (so_far->size == sizeof *so_far) ++*(int*)user;
}

static void test_device_memory(const vkf_device* device, const vkf_program* program) {
  vkf_buffer* x = NULL;
  vkf_buffer* y = NULL;
  vkf_buffer* z = NULL;
  vkf_submission* submission = NULL;
  int done = -1;
  float got_y[8], got_z[2];
  const vkf_symbol n = {"n", 2}, wrong = {"m", 2};
  OK(vkf_buffer_create(device, sizeof kX, &x));
  OK(vkf_buffer_create(device, sizeof kY, &y));
  OK(vkf_buffer_create(device, sizeof kZ, &z));
  CHECK(vkf_buffer_size(x) == sizeof kX);
  OK(vkf_buffer_write(x, 0, kX, sizeof kX));
  {
    const vkf_binding in = {"x", x}, out[2] = {{"y", y}, {"z", z}}, none = {"x", NULL}, nameless = {NULL, x},
                      other = {"q", x}, small = {"x", z};
    const vkf_binding twice[2] = {{"y", y}, {"y", y}};
    const vkf_bindings right = {sizeof right, &in, 1, out, 2, &n, 1, NULL, 0};
    vkf_bindings run = right;
    OK(vkf_submit(program, &run, &submission));
    OK(vkf_submission_wait(submission));
    OK(vkf_submission_done(submission, &done));
    CHECK(done == 1);
    REFUSED(vkf_submission_done(submission, NULL), VKF_INVALID_ARGUMENT, "The place for the answer is null.");
    vkf_submission_free(submission);
    REFUSED(vkf_submit(program, &run, NULL), VKF_INVALID_ARGUMENT, "The place for the new submission is null.");
    REFUSED(vkf_submit(program, NULL, &submission), VKF_INVALID_ARGUMENT, "The structure of bindings is null.");
    CHECK(submission == NULL);
    run.size = 0;
    REFUSED(vkf_submit(program, &run, &submission), VKF_INVALID_ARGUMENT,
            "The bindings say that they have 0 bytes; set `size` to sizeof.");
    run = right;
    run.symbol_count = 0;
    REFUSED(vkf_submit(program, &run, &submission), VKF_INVALID_ARGUMENT, "'n'");
    run = right;
    run.symbols = &wrong;
    REFUSED(vkf_submit(program, &run, &submission), VKF_INVALID_ARGUMENT, "'m'");
    run = right;
    run.output_count = 1;
    REFUSED(vkf_submit(program, &run, &submission), VKF_INVALID_ARGUMENT, "No buffer was bound to the output 'z'.");
    run = right;
    run.outputs = twice;
    REFUSED(vkf_submit(program, &run, &submission), VKF_INVALID_ARGUMENT, "The output 'y' is bound twice.");
    run = right;
    run.inputs = &none;
    REFUSED(vkf_submit(program, &run, &submission), VKF_INVALID_ARGUMENT, "The buffer of a binding is null.");
    run.inputs = &nameless;
    REFUSED(vkf_submit(program, &run, &submission), VKF_INVALID_ARGUMENT, "The name of a binding is null.");
    run.inputs = &other;
    REFUSED(vkf_submit(program, &run, &submission), VKF_INVALID_ARGUMENT, "The program has no input 'q'.");
    run.inputs = &small;
    REFUSED(vkf_submit(program, &run, &submission), VKF_INVALID_ARGUMENT,
            "The input 'x' takes 32 bytes, but its buffer has 8.");
    run.inputs = NULL;
    REFUSED(vkf_submit(program, &run, &submission), VKF_INVALID_ARGUMENT,
            "The list of bindings is null, but has a count of 1.");
    {
      /* The results take the place of what nobody needs any more, or new buffers. */
      const char* const names[1] = {"x"};
      const char* const unknown[1] = {"q"};
      const char* const nothing[1] = {NULL};
      vkf_buffer *made_y = NULL, *made_z = NULL, *given = NULL;
      const vkf_dim sizes[2] = {vkf_size(2), vkf_size(4)}, below = vkf_size(-1), symbol = vkf_any("n");
      const vkf_type rows = {VKF_F32, sizes, 2}, negative = {VKF_F32, &below, 1}, any = {VKF_F32, &symbol, 1},
                     missing = {VKF_F32, NULL, 1}, no_dtype = {(vkf_dtype)99, sizes, 2};
      float donated_y[8];
      OK(vkf_buffer_create_for(device, &rows, &given));
      CHECK(vkf_buffer_size(given) == sizeof kX);
      OK(vkf_buffer_write(given, 0, kX, sizeof kX));
      {
        const vkf_binding own = {"x", given};
        vkf_recording* recording = NULL;
        run = (vkf_bindings){sizeof run, &own, 1, NULL, 0, &n, 1, names, 1};
        OK(vkf_submit(program, &run, &submission));
        OK(vkf_submission_output(submission, "y", &made_y));
        OK(vkf_submission_output(submission, "z", &made_z));
        OK(vkf_buffer_read(made_y, 0, donated_y, sizeof donated_y));
        CHECK(memcmp(donated_y, kY, sizeof kY) == 0);
        OK(vkf_buffer_read(made_z, 0, donated_y, sizeof kZ));
        CHECK(memcmp(donated_y, kZ, sizeof kZ) == 0);
        vkf_buffer_free(made_y);
        vkf_buffer_free(made_z);
        REFUSED(vkf_submission_output(submission, "q", &made_y), VKF_INVALID_ARGUMENT, "The run has no output 'q'.");
        REFUSED(vkf_submission_output(submission, NULL, &made_y), VKF_INVALID_ARGUMENT,
                "The name of an output is null.");
        REFUSED(vkf_submission_output(NULL, "y", &made_y), VKF_INVALID_ARGUMENT, "The submission is null.");
        REFUSED(vkf_submission_output(submission, "y", NULL), VKF_INVALID_ARGUMENT,
                "The place for the new buffer is null.");
        vkf_submission_free(submission);
        REFUSED(vkf_record(program, &done, &run, &recording), VKF_INVALID_ARGUMENT,
                "The input 'x' is donated to a recording, which may be submitted again.");
        CHECK(recording == NULL);
        run.donated = unknown;
        REFUSED(vkf_submit(program, &run, &submission), VKF_INVALID_ARGUMENT, "The input 'q' is donated");
        run.donated = nothing;
        REFUSED(vkf_submit(program, &run, &submission), VKF_INVALID_ARGUMENT, "The name of a donated input is null.");
        run.donated = NULL;
        REFUSED(vkf_submit(program, &run, &submission), VKF_INVALID_ARGUMENT, "The list of donated inputs is null");
        CHECK(submission == NULL);
      }
      vkf_buffer_free(given);
      REFUSED(vkf_buffer_create_for(device, &negative, &given), VKF_INVALID_ARGUMENT,
              "A buffer is asked for a tensor with the size -1.");
      REFUSED(vkf_buffer_create_for(device, &missing, &given), VKF_INVALID_ARGUMENT, "The list of dimensions is null");
      REFUSED(vkf_buffer_create_for(device, &any, &given), VKF_INVALID_ARGUMENT,
              "The dimension 'n' is a symbol, but a tensor of a stream and a buffer have sizes.");
      REFUSED(vkf_buffer_create_for(device, &no_dtype, &given), VKF_INVALID_ARGUMENT, "99");
      REFUSED(vkf_buffer_create_for(device, &rows, NULL), VKF_INVALID_ARGUMENT,
              "The place for the new buffer is null.");
    }
    /* Given back while it runs: the work goes on. */
    OK(vkf_buffer_write(z, 0, kX, sizeof kZ));
    OK(vkf_submit(program, &right, &submission));
    vkf_buffer_free(x);
    vkf_submission_free(submission);
  }
  OK(vkf_buffer_read(y, 0, got_y, sizeof got_y));
  OK(vkf_buffer_read(z, 4, got_z + 1, 4));
  OK(vkf_buffer_read(z, 0, got_z, 4));
  CHECK(memcmp(got_y, kY, sizeof kY) == 0 && memcmp(got_z, kZ, sizeof kZ) == 0);
  REFUSED(vkf_buffer_read(z, 4, got_z, 8), VKF_INVALID_ARGUMENT, "8 bytes at offset 4 do not fit a buffer of 8 bytes.");
  REFUSED(vkf_buffer_write(z, UINT64_MAX, got_z, 8), VKF_INVALID_ARGUMENT, "do not fit a buffer of 8 bytes.");
  REFUSED(vkf_buffer_write(z, 0, NULL, 8), VKF_INVALID_ARGUMENT, "The list of bytes is null");
  vkf_buffer_free(y);
  vkf_buffer_free(z);
  REFUSED(vkf_buffer_create(device, UINT64_MAX, &x), VKF_OUT_OF_MEMORY, "18446744073709551615");
}

static void test_times(const vkf_device* device, const vkf_program* program) {
  const int64_t sizes[2] = {2, 4};
  vkf_host_input input;
  vkf_kernel_time times[2];
  vkf_profile_report report = {times, 2, 9};
  memset(&input, 0, sizeof input);
  input.name = "x";
  input.data = kX;
  input.bytes = sizeof kX;
  input.sizes = sizes;
  input.rank = 2;
  OK(vkf_profile_host(program, &input, 1, &report));
  CHECK(report.count == 1 && strcmp(times[0].kernel, "segment 0") == 0 && times[0].microseconds >= 0 &&
        times[0].bytes == sizeof kX + sizeof kY + sizeof kZ);
  report = (vkf_profile_report){NULL, 0, 9};
  OK(vkf_profile_host(program, &input, 1, &report));
  CHECK(report.count == 1);
  report.capacity = 2;
  REFUSED(vkf_profile_host(program, &input, 1, &report), VKF_INVALID_ARGUMENT,
          "The list of times is null, but has a count of 2.");
  REFUSED(vkf_profile_host(program, &input, 1, NULL), VKF_INVALID_ARGUMENT, "The place for the times is null.");
  {
    const vkf_symbol n = {"n", 2};
    vkf_buffer* x = NULL;
    vkf_buffer* y = NULL;
    vkf_buffer* z = NULL;
    OK(vkf_buffer_create(device, sizeof kX, &x));
    OK(vkf_buffer_create(device, sizeof kY, &y));
    OK(vkf_buffer_create(device, sizeof kZ, &z));
    CHECK(vkf_buffer_vulkan_handle(x) != 0 && vkf_buffer_vulkan_handle(x) != vkf_buffer_vulkan_handle(y));
    {
      const vkf_binding in = {"x", x}, out[2] = {{"y", y}, {"z", z}};
      vkf_bindings run = {sizeof run, &in, 1, out, 2, &n, 1, NULL, 0};
      float got[8] = {0};
      OK(vkf_buffer_write(x, 0, kX, sizeof kX));
      report = (vkf_profile_report){times, 1, 9};
      OK(vkf_profile(program, &run, &report));
      CHECK(report.count == 1 && times[0].bytes == sizeof kX + sizeof kY + sizeof kZ);
      OK(vkf_buffer_read(y, 0, got, sizeof kY));
      CHECK(memcmp(got, kY, sizeof kY) == 0);
      REFUSED(vkf_profile(program, &run, NULL), VKF_INVALID_ARGUMENT, "The place for the times is null.");
      REFUSED(vkf_profile(program, NULL, &report), VKF_INVALID_ARGUMENT, "The structure of bindings is null.");
      run.output_count = 1;
      REFUSED(vkf_profile(program, &run, &report), VKF_INVALID_ARGUMENT, "'z'");
    }
    vkf_buffer_free(x);
    vkf_buffer_free(y);
    vkf_buffer_free(z);
  }
}

/* A plan is saved, and compiled with. */
static void test_plans(const vkf_device* device, const vkf_graph* graph, const vkf_program* program) {
  vkf_compile_options planned = {0};
  vkf_program* again = NULL;
  char* plan = NULL;
  char* glsl = NULL;
  char* same = NULL;
  planned.size = sizeof planned;
  REFUSED(vkf_program_save_plan(program, NULL), VKF_INVALID_ARGUMENT, "The place for the text is null.");
  OK(vkf_program_save_plan(program, &plan));
  planned.plan = plan;
  OK(vkf_compile(device, graph, &planned, &again));
  OK(vkf_program_explain(program, VKF_STAGE_GLSL, &glsl));
  OK(vkf_program_explain(again, VKF_STAGE_GLSL, &same));
  CHECK(strcmp(glsl, same) == 0);
  vkf_program_free(again);
  vkf_string_free(glsl);
  vkf_string_free(same);
  planned.planner = "greedy-io";
  REFUSED(vkf_compile(device, graph, &planned, &again), VKF_INVALID_ARGUMENT,
          "A plan that is given leaves nothing to decide");
  planned.planner = NULL;
  *strstr(plan, "members") = 'M';
  REFUSED(vkf_compile(device, graph, &planned, &again), VKF_INVALID_ARGUMENT,
          "The plan was changed after it was saved");
  vkf_string_free(plan);
}

/* tanh(exp(x)) * exp(x), in 512 bytes of intermediate values and not in 255. */
static void test_memory_budget(const vkf_device* device) {
  const vkf_dim shape[2] = {{8, NULL, 0, 0, 0}, {8, NULL, 0, 0, 0}};
  const vkf_type type = {VKF_F32, shape, 2};
  vkf_compile_options options = {0};
  vkf_graph* graph = NULL;
  vkf_program* program = NULL;
  vkf_value x, e, pair[2];
  char* text = NULL;
  OK(vkf_graph_create("budget", &graph));
  OK(vkf_input(graph, "x", &type, &x));
  OK(vkf_apply(graph, &(vkf_op){"exp", NULL, 0}, &x, 1, &e));
  OK(vkf_apply(graph, &(vkf_op){"tanh", NULL, 0}, &e, 1, &pair[0]));
  pair[1] = e;
  OK(vkf_apply(graph, &(vkf_op){"mul", NULL, 0}, pair, 2, &x));
  OK(vkf_output(graph, "y", x));
  options.size = sizeof options;
  options.no_fusion = 1;
  options.memory_budget = 255;
  REFUSED(vkf_compile(device, graph, &options, &program), VKF_OUT_OF_MEMORY, "and the memory budget is 255 bytes.");
  options.memory_budget = 512;
  OK(vkf_compile(device, graph, &options, &program));
  OK(vkf_program_explain(program, VKF_STAGE_PLAN, &text));
  CHECK(strstr(text, "memory budget: 512 bytes for intermediate values") != NULL);
  vkf_string_free(text);
  vkf_program_free(program);
  vkf_graph_free(graph);
}

static void test_questions(const vkf_device* device, const vkf_program* program) {
  int64_t numbers[2] = {0, 0};
  vkf_sizes_report sizes = {numbers, 2, 0, 0};
  char* text = NULL;
  const vkf_symbol n = {"n", 10}, twice[2] = {{"n", 1}, {"n", 2}}, nameless = {NULL, 1};
  const vkf_dim row = {4, NULL, 0, 0, 0};
  const vkf_type floats = {VKF_F32, &row, 1}, integers[2] = {{VKF_I32, &row, 1}, {VKF_F32, &row, 1}},
                 doubles = {VKF_F64, &row, 1};
  CHECK(vkf_program_input_count(program) == 1 && strcmp(vkf_program_input_name(program, 0), "x") == 0 &&
        vkf_program_input_name(program, 1) == NULL);
  CHECK(vkf_program_output_count(program) == 2 && strcmp(vkf_program_output_name(program, 1), "z") == 0 &&
        vkf_program_output_name(program, 2) == NULL);
  CHECK(vkf_program_kernel_count(program) == 1);
  OK(vkf_program_sizes(program, "y", &n, 1, &sizes));
  CHECK(sizes.bytes == 160 && sizes.rank == 2 && numbers[0] == 10 && numbers[1] == 4);
  sizes.capacity = 1;
  numbers[1] = 12345;
  OK(vkf_program_sizes(program, "x", &n, 1, &sizes));
  CHECK(sizes.rank == 2 && numbers[0] == 10 && numbers[1] == 12345);
  sizes = (vkf_sizes_report){NULL, 0, 0, 0};
  OK(vkf_program_sizes(program, "y", &n, 1, &sizes));
  CHECK(sizes.bytes == 160 && sizes.rank == 2);
  REFUSED(vkf_program_sizes(program, "q", &n, 1, &sizes), VKF_NOT_FOUND, "no input and no output 'q'.");
  REFUSED(vkf_program_sizes(program, NULL, &n, 1, &sizes), VKF_INVALID_ARGUMENT, "is null");
  REFUSED(vkf_program_sizes(program, "y", NULL, 0, &sizes), VKF_INVALID_ARGUMENT, "'n'");
  REFUSED(vkf_program_sizes(program, "y", twice, 2, &sizes), VKF_INVALID_ARGUMENT, "The symbol 'n' is given twice.");
  REFUSED(vkf_program_sizes(program, "y", &nameless, 1, &sizes), VKF_INVALID_ARGUMENT, "The name of a symbol is null.");
  REFUSED(vkf_program_sizes(program, "y", &n, 1, NULL), VKF_INVALID_ARGUMENT, "The place for the sizes is null.");
  sizes.capacity = 2;
  REFUSED(vkf_program_sizes(program, "y", &n, 1, &sizes), VKF_INVALID_ARGUMENT, "The list of sizes is null");
  {
    vkf_dim shape[2];
    vkf_type_report type = {shape, 2, VKF_BOOL, 0};
    OK(vkf_program_type(program, "x", &type));
    CHECK(type.dtype == VKF_F32 && type.rank == 2 && strcmp(shape[0].symbol, "n") == 0 && shape[1].size == 4);
    REFUSED(vkf_program_type(program, "q", &type), VKF_NOT_FOUND, "no input and no output 'q'.");
    REFUSED(vkf_program_type(program, "x", NULL), VKF_INVALID_ARGUMENT, "The place for the type is null.");
    type.shape = NULL;
    REFUSED(vkf_program_type(program, "x", &type), VKF_INVALID_ARGUMENT, "The list of dimensions is null");
    type.capacity = 0;
    OK(vkf_program_type(program, "z", &type));
    CHECK(type.rank == 1);
  }
  {
    vkf_memory memory = {0};
    vkf_tune_progress tuned = {0};
    int calls = 0;
    vkf_tune_options options = {sizeof options, &n, 1, NULL, NULL};
    REFUSED(vkf_program_tune(NULL, 1, NULL, NULL), VKF_INVALID_ARGUMENT, "The program is null.");
    REFUSED(vkf_program_tune(program, -1, &options, NULL), VKF_INVALID_ARGUMENT, "-1 ms are no budget.");
    REFUSED(vkf_program_tune(program, 20, &options, &tuned), VKF_INVALID_ARGUMENT,
            "The progress says that it has 0 bytes");
    tuned.size = sizeof tuned;
    options.size = 0;
    REFUSED(vkf_program_tune(program, 20, &options, &tuned), VKF_INVALID_ARGUMENT,
            "The tuning options say that they have 0 bytes; set `size` to sizeof.");
    options.size = sizeof options;
    options.progress = count_call;
    options.progress_user = &calls;
    OK(vkf_program_tune(program, 20, &options, &tuned));
    CHECK(tuned.budget_ms == 20 && tuned.segments >= tuned.segment && calls == tuned.segment);
    vkf_symbol more = n;
    uint64_t inputs;
    REFUSED(vkf_program_memory(program, &n, 1, &memory), VKF_INVALID_ARGUMENT, "The memory says that it has 0 bytes");
    memory.size = sizeof memory;
    OK(vkf_program_memory(program, &n, 1, &memory));
    inputs = memory.inputs;
    CHECK(memory.size == sizeof memory && inputs > 0 && memory.outputs > 0);
    more.size = 100 * n.size;
    OK(vkf_program_memory(program, &more, 1, &memory));
    CHECK(memory.inputs == 100 * inputs);
    memory.size = offsetof(vkf_memory, outputs); /* an older caller */
    memory.outputs = 12345;
    OK(vkf_program_memory(program, &n, 1, &memory));
    CHECK(memory.inputs == inputs && memory.outputs == 12345);
    REFUSED(vkf_program_memory(program, NULL, 0, &memory), VKF_INVALID_ARGUMENT, "'n'");
    REFUSED(vkf_program_memory(program, &n, 1, NULL), VKF_INVALID_ARGUMENT, "The place for the memory is null.");
    REFUSED(vkf_program_memory(NULL, &n, 1, &memory), VKF_INVALID_ARGUMENT, "The program is null.");
  }
  OK(vkf_program_explain_segment(program, VKF_STAGE_SPIRV, 0, &text));
  CHECK(text != NULL && strstr(text, "OpEntryPoint") != NULL);
  vkf_string_free(text);
  REFUSED(vkf_program_explain_segment(program, VKF_STAGE_SPIRV, 1, &text), VKF_INVALID_ARGUMENT,
          "There is no segment 1: the plan has 1.");
  REFUSED(vkf_program_explain_segment(program, VKF_STAGE_SPIRV, SIZE_MAX, &text), VKF_INVALID_ARGUMENT,
          "There is no segment 18446744073709551615.");
  REFUSED(vkf_program_explain_segment(program, VKF_STAGE_PLAN, 0, &text), VKF_INVALID_ARGUMENT,
          "Stage 1 has no text of one segment");
  OK(vkf_program_explain(program, VKF_STAGE_HTML, &text));
  CHECK(text != NULL && strstr(text, "<html") != NULL);
  vkf_string_free(text);
  OK(vkf_program_explain(program, VKF_STAGE_GLSL, &text));
  CHECK(text != NULL && strstr(text, "void main()") != NULL);
  vkf_string_free(text);
  REFUSED(vkf_program_explain(program, (vkf_stage)9, &text), VKF_INVALID_ARGUMENT, "9 is not a stage");
  CHECK(text == NULL);
  REFUSED(vkf_program_explain(program, VKF_STAGE_PLAN, NULL), VKF_INVALID_ARGUMENT, "is null");

  OK(vkf_supports_op(device, &(vkf_op){.name = "relu"}, &floats, 1));
  REFUSED(vkf_supports_op(device, &(vkf_op){.name = "add"}, integers, 2), VKF_INVALID_ARGUMENT, "add");
  REFUSED(vkf_supports_op(device, &(vkf_op){.name = "relu"}, NULL, 1), VKF_INVALID_ARGUMENT,
          "The list of operands is null");
  REFUSED(vkf_supports_op(device, &(vkf_op){.name = "unheard_of"}, &floats, 1), VKF_INVALID_ARGUMENT,
          "'unheard_of' is not the name of an op.");
  if (strstr(vkf_device_name(device), "SwiftShader") != NULL) {
    REFUSED(vkf_supports_op(device, &(vkf_op){.name = "neg"}, &doubles, 1), VKF_UNSUPPORTED, "has no 64-bit floats.");
  } else {
    OK(vkf_supports_op(device, &(vkf_op){.name = "neg"}, &doubles, 1));
  }
}

/* An element of the user's own, fused with what follows; and code that is wrong. */
static void test_custom(const vkf_device* device) {
  static const char* const kCode[2] = {"x0 * x0 + x1", "x0 * y0"};
  const float x[4] = {1, 2, 3, 4}, offset = 0.5f;
  int i;
  for (i = 0; i < 2; ++i) {
    const vkf_dim four = vkf_size(4);
    const vkf_attribute about[3] = {vkf_attribute_text("name", "square_and_add"), vkf_attribute_text("code", kCode[i]),
                                    vkf_attribute_dtype(VKF_F32)};
    vkf_graph* graph = NULL;
    vkf_program* program = NULL;
    vkf_value in = 0, half = 0, squared = 0, twice = 0, operands[2];
    OK(vkf_graph_create("custom", &graph));
    OK(vkf_input(graph, "x", &(vkf_type){VKF_F32, &four, 1}, &in));
    OK(vkf_scalar(graph, VKF_F32, offset, &half));
    operands[0] = in;
    operands[1] = half;
    OK(vkf_apply(graph, &(vkf_op){"custom", about, 3}, operands, 2, &squared));
    REFUSED(vkf_apply(graph, &(vkf_op){"custom", about, 2}, operands, 2, &twice), VKF_INVALID_ARGUMENT,
            "The op 'custom' needs the attribute 'dtype'.");
    operands[0] = operands[1] = squared;
    OK(vkf_apply(graph, &(vkf_op){.name = "add"}, operands, 2, &twice));
    OK(vkf_output(graph, "y", twice));
    if (i == 1) {
      REFUSED(vkf_compile(device, graph, NULL, &program), VKF_INVALID_ARGUMENT,
              "The code of the custom op 'square_and_add' does not compile: line 1, 'x0 * y0': 'y0' : undeclared "
              "identifier.");
    } else {
      float got[4] = {0, 0, 0, 0};
      vkf_host_input input = {"x", NULL, sizeof x, NULL, 0};
      vkf_host_output output = {"y", NULL, sizeof got, 0};
      input.data = x;
      output.data = got;
      OK(vkf_compile(device, graph, NULL, &program));
      CHECK(vkf_program_kernel_count(program) == 1);
      OK(vkf_run(program, &input, 1, &output, 1));
      CHECK(got[0] == 3.0f && got[1] == 9.0f && got[2] == 19.0f && got[3] == 33.0f);
    }
    vkf_program_free(program);
    vkf_graph_free(graph);
  }
}

void test_runs(const vkf_device* device) {
  vkf_graph* graph = rows_graph();
  vkf_graph* empty = NULL;
  vkf_program* program = NULL;
  vkf_program* none = NULL;
  OK(vkf_supports(device, graph, NULL));
  OK(vkf_compile(device, graph, NULL, &program));
  if (program != NULL) test_plans(device, graph, program);
  vkf_graph_free(graph); /* the program keeps what it needs */
  OK(vkf_graph_create("empty", &empty));
  REFUSED(vkf_compile(device, empty, NULL, &none), VKF_INVALID_ARGUMENT, "has no outputs.");
  REFUSED(vkf_supports(device, empty, NULL), VKF_INVALID_ARGUMENT, "has no outputs.");
  CHECK(none == NULL);
  vkf_graph_free(empty);
  if (program == NULL) return;
  test_host(program);
  test_device_memory(device, program);
  test_questions(device, program);
  test_memory_budget(device);
  test_times(device, program);
  vkf_program_free(program);
  test_custom(device);
}

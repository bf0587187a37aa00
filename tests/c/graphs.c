/* Building graphs: every kind of attribute, and what is refused. */
#include "check.h"

static void test_building(void) {
  vkf_graph* graph = NULL;
  vkf_graph* parsed = NULL;
  vkf_value x, bias, sum, half, flat, top, order, scattered, random, iota, pool, product;
  vkf_dim shape[4];
  vkf_type_report type = {shape, 4, VKF_BOOL, 0};
  char* text = NULL;
  char* again = NULL;
  const vkf_dim rows = {0, "n", 1, 4096, 4};
  const vkf_dim matrix[2] = {rows, {8, NULL, 0, 0, 0}};
  const vkf_dim flat_shape[1] = {{16, NULL, 0, 0, 0}};
  const vkf_dim fixed[2] = {{2, NULL, 0, 0, 0}, {8, NULL, 0, 0, 0}};
  const float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const int64_t axes[1] = {1};
  const int64_t starts[2] = {0, 1};
  const int64_t steps[2] = {1, 2};
  const int64_t low[2] = {0, 1};
  OK(vkf_graph_create("every \"attribute\"", &graph));
  OK(vkf_input(graph, "x", &(vkf_type){VKF_F32, matrix, 2}, &x));
  OK(vkf_constant(graph, &(vkf_type){VKF_F32, matrix + 1, 1}, numbers, sizeof numbers, &bias));
  OK(vkf_apply(graph, &(vkf_op){.name = "add"}, (const vkf_value[]){x, bias}, 2, &sum));
  {
    const vkf_attribute attributes[] = {vkf_attribute_dtype(VKF_F16)};
    OK(vkf_apply(graph, &(vkf_op){"cast", attributes, 1}, &sum, 1, &half));
  }
  {
    const vkf_attribute attributes[] = {vkf_attribute_integers("axes", axes, 1)};
    OK(vkf_apply(graph, &(vkf_op){"reduce_sum", attributes, 1}, &sum, 1, &top));
  }
  {
    const vkf_attribute attributes[] = {vkf_attribute_integer("count", 3), vkf_attribute_integer("axis", 1),
                                        vkf_attribute_integer("descending", 1)};
    OK(vkf_apply(graph, &(vkf_op){"argsort", attributes, 3}, &sum, 1, &order));
  }
  {
    const vkf_attribute attributes[] = {vkf_attribute_shape(fixed, 2), vkf_attribute_dtype(VKF_F32),
                                        vkf_attribute_integer("axis", 1)};
    OK(vkf_apply(graph, &(vkf_op){"iota", attributes, 3}, NULL, 0, &iota));
    const vkf_attribute seeded[] = {vkf_attribute_integer("seed", -1), attributes[0]};
    OK(vkf_apply(graph, &(vkf_op){"random", seeded, 2}, NULL, 0, &random));
  }
  {
    const vkf_attribute attributes[] = {vkf_attribute_shape(flat_shape, 1)};
    OK(vkf_apply(graph, &(vkf_op){"reshape", attributes, 1}, &iota, 1, &flat));
  }
  {
    const vkf_dim sliced[2] = {{2, NULL, 0, 0, 0}, {3, NULL, 0, 0, 0}};
    const vkf_attribute attributes[] = {vkf_attribute_integers("starts", starts, 2),
                                        vkf_attribute_integers("steps", steps, 2), vkf_attribute_shape(sliced, 2)};
    const vkf_attribute margins[] = {vkf_attribute_integers("low", low, 2), vkf_attribute_integers("high", low, 2)};
    vkf_value slice, padded;
    OK(vkf_apply(graph, &(vkf_op){"slice", attributes, 3}, &iota, 1, &slice));
    vkf_value fill;
    OK(vkf_scalar(graph, VKF_F32, 0.5, &fill));
    OK(vkf_apply(graph, &(vkf_op){"pad", margins, 2}, (const vkf_value[]){slice, fill}, 2, &padded));
    OK(vkf_value_type(graph, padded, &type));
    CHECK(type.dtype == VKF_F32 && type.rank == 2 && shape[0].size == 2 && shape[1].size == 5);
    OK(vkf_output(graph, "padded", padded));
  }
  {
    const int32_t index[2] = {1, 0};
    const vkf_dim two = {2, NULL, 0, 0, 0};
    const vkf_attribute attributes[] = {vkf_attribute_text("mode", "add")};
    vkf_value at;
    OK(vkf_constant(graph, &(vkf_type){VKF_I32, &two, 1}, index, sizeof index, &at));
    OK(vkf_apply(graph, &(vkf_op){"scatter", attributes, 1}, (const vkf_value[]){iota, at, iota}, 3, &scattered));
  }
  {
    const int64_t size[1] = {3}, one[1] = {1};
    const vkf_attribute attributes[] = {
        vkf_attribute_integers("axes", axes, 1), vkf_attribute_integers("sizes", size, 1),
        vkf_attribute_integers("strides", one, 1), vkf_attribute_integers("dilations", one, 1)};
    OK(vkf_apply(graph, &(vkf_op){"unfold", attributes, 4}, &iota, 1, &pool));
  }
  {
    const vkf_attribute attributes[] = {vkf_attribute_integers("contract_a", axes, 1),
                                        vkf_attribute_integers("contract_b", axes, 1)};
    OK(vkf_apply(graph, &(vkf_op){"dot", attributes, 2}, (const vkf_value[]){iota, scattered}, 2, &product));
  }
  type.capacity = 1;
  shape[1].size = 12345;
  OK(vkf_value_type(graph, half, &type)); /* as many dimensions as there is room for */
  CHECK(type.dtype == VKF_F16 && type.rank == 2 && shape[1].size == 12345 && strcmp(shape[0].symbol, "n") == 0 &&
        shape[0].min == 1 && shape[0].max == 4096 && shape[0].multiple_of == 4);
  type.shape = NULL;
  REFUSED(vkf_value_type(graph, half, &type), VKF_INVALID_ARGUMENT,
          "The list of dimensions is null, but has a count of 1.");
  type.capacity = 0;
  type.rank = 0;
  OK(vkf_value_type(graph, half, &type));
  CHECK(type.rank == 2);
  REFUSED(vkf_value_type(graph, half, NULL), VKF_INVALID_ARGUMENT, "The place for the type is null.");
  OK(vkf_output(graph, "half", half));
  OK(vkf_output(graph, "top", top));
  OK(vkf_output(graph, "order", order));
  OK(vkf_output(graph, "flat", flat));
  OK(vkf_output(graph, "random", random));
  OK(vkf_output(graph, "pool", pool));
  OK(vkf_output(graph, "product", product));
  OK(vkf_graph_text(graph, &text));
  CHECK(text != NULL && strstr(text, "argsort axis=1 descending=true count=3 %2 : i32[n, 3]") != NULL);
  CHECK(text != NULL && strstr(text, "random seed=18446744073709551615 : u32[2, 8]") != NULL);
  CHECK(text != NULL && strstr(text, "scatter mode=add") != NULL);
  OK(vkf_graph_parse(text, &parsed));
  OK(vkf_graph_text(parsed, &again));
  CHECK(text != NULL && again != NULL && strcmp(text, again) == 0);
  vkf_string_free(text);
  vkf_string_free(again);
  vkf_graph_free(parsed);
  vkf_graph_free(graph);
}

static void test_refused(void) {
  vkf_graph* graph = NULL;
  vkf_graph* parsed = NULL;
  vkf_value x, y;
  char* text = NULL;
  const vkf_dim shape[2] = {{2, NULL, 0, 0, 0}, {8, NULL, 0, 0, 0}};
  const vkf_type matrix = {VKF_F32, shape, 2};
  const vkf_dim negative = {-3, NULL, 0, 0, 0};
  const vkf_dim nameless = {0, "", 0, 0, 0};
  const vkf_dim impossible = {0, "n", 5, 3, 0};
  const int64_t axes[2] = {0, 0};
  const int64_t huge[1] = {INT64_MAX};
  const float numbers[2] = {1, 2};
  const vkf_attribute axis = vkf_attribute_integer("axis", 1), scalar = vkf_attribute_integer("axes", 1),
                      twice = vkf_attribute_integers("axes", axes, 2), beyond = vkf_attribute_integers("axes", huge, 1),
                      missing = vkf_attribute_integers("axes", NULL, 1), two = vkf_attribute_integer("exclusive", 2),
                      unknown = vkf_attribute_text("mode", "xor"), nothing = vkf_attribute_text("mode", NULL);
  const vkf_attribute both[2] = {vkf_attribute_integer("axis", 0), axis};
  vkf_type_report type = {NULL, 0, VKF_F32, 0};
  OK(vkf_graph_create("refused", &graph));
  OK(vkf_input(graph, "x", &matrix, &x));
  REFUSED(vkf_graph_text(graph, &text), VKF_INVALID_ARGUMENT, "has no outputs.");
  REFUSED(vkf_input(graph, "x", &matrix, &y), VKF_INVALID_ARGUMENT, "'x'");
  REFUSED(vkf_input(graph, "", &matrix, &y), VKF_INVALID_ARGUMENT, "name");
  REFUSED(vkf_input(graph, "z", &(vkf_type){(vkf_dtype)99, shape, 2}, &y), VKF_INVALID_ARGUMENT, "99 is not a dtype");
  REFUSED(vkf_input(graph, "z", &(vkf_type){VKF_F32, &negative, 1}, &y), VKF_INVALID_ARGUMENT, "-3");
  REFUSED(vkf_input(graph, "z", &(vkf_type){VKF_F32, &nameless, 1}, &y), VKF_INVALID_ARGUMENT,
          "A symbolic dimension has an empty name.");
  REFUSED(vkf_input(graph, "z", &(vkf_type){VKF_F32, &impossible, 1}, &y), VKF_INVALID_ARGUMENT, "min 5, max 3");
  REFUSED(vkf_constant(graph, &matrix, numbers, sizeof numbers, &y), VKF_INVALID_ARGUMENT,
          "needs 64 bytes, but 8 were given.");
  REFUSED(vkf_apply(graph, &(vkf_op){.name = "no_such_op"}, &x, 1, &y), VKF_INVALID_ARGUMENT,
          "'no_such_op' is not the name of an op.");
  REFUSED(vkf_apply(graph, &(vkf_op){.name = "input"}, NULL, 0, &y), VKF_INVALID_ARGUMENT, "vkf_input()");
  REFUSED(vkf_apply(graph, &(vkf_op){.name = "add"}, &x, 1, &y), VKF_INVALID_ARGUMENT, "add");
  REFUSED(vkf_apply(graph, &(vkf_op){.name = "relu"}, (const vkf_value[]){77}, 1, &y), VKF_INVALID_ARGUMENT,
          "The operand 77 of 'relu' does not exist");
  REFUSED(vkf_apply(graph, &(vkf_op){.name = "cast"}, &x, 1, &y), VKF_INVALID_ARGUMENT,
          "The op 'cast' needs the attribute 'dtype'.");
  REFUSED(vkf_apply(graph, &(vkf_op){"relu", &axis, 1}, &x, 1, &y), VKF_INVALID_ARGUMENT,
          "The op 'relu' has no attribute 'axis'");
  REFUSED(vkf_apply(graph, &(vkf_op){"reduce_sum", &scalar, 1}, &x, 1, &y), VKF_INVALID_ARGUMENT,
          "is not a list of integers");
  REFUSED(vkf_apply(graph, &(vkf_op){"reduce_sum", &twice, 1}, &x, 1, &y), VKF_INVALID_ARGUMENT, "axis 0");
  REFUSED(vkf_apply(graph, &(vkf_op){"reduce_sum", &beyond, 1}, &x, 1, &y), VKF_INVALID_ARGUMENT,
          "The attribute 'axes' of 'reduce_sum' cannot be 9223372036854775807.");
  REFUSED(vkf_apply(graph, &(vkf_op){"reduce_sum", &missing, 1}, &x, 1, &y), VKF_INVALID_ARGUMENT, "is null");
  REFUSED(vkf_apply(graph, &(vkf_op){.name = "reduce_sum"}, &x, 1, &y), VKF_INVALID_ARGUMENT, "names no axis.");
  REFUSED(vkf_apply(graph, &(vkf_op){"cumsum", &two, 1}, &x, 1, &y), VKF_INVALID_ARGUMENT,
          "is 0 or 1, but 2 is given.");
  REFUSED(vkf_apply(graph, &(vkf_op){"cumsum", both, 2}, &x, 1, &y), VKF_INVALID_ARGUMENT, "or it is given twice.");
  REFUSED(vkf_apply(graph, &(vkf_op){"scatter", &unknown, 1}, (const vkf_value[]){x, x, x}, 3, &y),
          VKF_INVALID_ARGUMENT, "'xor' is not a mode of scatter");
  REFUSED(vkf_apply(graph, &(vkf_op){"scatter", &nothing, 1}, (const vkf_value[]){x, x, x}, 3, &y),
          VKF_INVALID_ARGUMENT, "is null");
  REFUSED(vkf_output(graph, "y", 1), VKF_INVALID_ARGUMENT, "The value 1 does not exist: the graph has 1 values.");
  REFUSED(vkf_value_type(graph, 9, &type), VKF_INVALID_ARGUMENT, "The value 9 does not exist");
  OK(vkf_output(graph, "y", x));
  REFUSED(vkf_output(graph, "y", x), VKF_INVALID_ARGUMENT, "'y'");
  /* After all of that the graph is what it was. */
  OK(vkf_graph_text(graph, &text));
  CHECK(text != NULL &&
        strcmp(text, "graph \"refused\" {\n  %0 = input \"x\" : f32[2, 8]\n  output \"y\" = %0\n}\n") == 0);
  vkf_string_free(text);
  REFUSED(vkf_graph_parse("graph \"g\" {\n  %0 = nonsense\n}\n", &parsed), VKF_INVALID_ARGUMENT,
          "Line 2: 'nonsense' is not the name of an op.");
  CHECK(parsed == NULL);
  {
    /* Code of the text's own is refused unless it is allowed. */
    static const char* const kCode =
        "graph \"g\" {\n  %0 = input \"x\" : f32[4]\n  %1 = custom name=\"twice\" code=\"x0 + x0\" ulps=0 cost=1 %0 : "
        "f32[4]\n  output \"y\" = %1\n}\n";
    REFUSED(vkf_graph_parse(kCode, &parsed), VKF_UNSUPPORTED,
            "Line 3: the op 'custom' holds code of the text's own, which runs only where the caller allows it "
            "(allow_custom, --allow-custom).");
    CHECK(parsed == NULL);
    REFUSED(vkf_graph_parse_with(kCode, 2, &parsed), VKF_INVALID_ARGUMENT,
            "The flags of vkf_graph_parse_with are 0x2; the only one is VKF_PARSE_ALLOW_CUSTOM.");
    OK(vkf_graph_parse_with(kCode, VKF_PARSE_ALLOW_CUSTOM, &parsed));
    vkf_graph_free(parsed);
  }
  vkf_graph_free(graph);
}

/* Collectives by name, with what their rules refuse. */
static void test_collectives(void) {
  vkf_graph* graph = NULL;
  char* text = NULL;
  vkf_value x, sum, all, moved, divided;
  const vkf_dim shape[2] = {{4, NULL, 0, 0, 0}, {6, NULL, 0, 0, 0}};
  const int64_t from[2] = {-1, 0}, mesh_axes[2] = {-1, 0}, senders[2] = {0, 0};
  const vkf_attribute two = vkf_attribute_integer("ranks", 2);
  const vkf_attribute gather[] = {two, vkf_attribute_integer("axis", 1)};
  const vkf_attribute send[] = {two, vkf_attribute_integers("from", from, 2)};
  const vkf_attribute twice[] = {two, vkf_attribute_integers("from", senders, 2)};
  const vkf_attribute layout = vkf_attribute_integers("mesh_axes", mesh_axes, 2);
  const vkf_attribute three[] = {vkf_attribute_integer("ranks", 3), vkf_attribute_integer("axis", 0)};
  OK(vkf_graph_create("ranks", &graph));
  OK(vkf_input(graph, "x", &(vkf_type){VKF_F32, shape, 2}, &x));
  OK(vkf_apply(graph, &(vkf_op){"all_reduce_sum", &two, 1}, &x, 1, &sum));
  OK(vkf_apply(graph, &(vkf_op){"all_gather", gather, 2}, &sum, 1, &all));
  OK(vkf_apply(graph, &(vkf_op){"send_receive", send, 2}, &all, 1, &moved));
  OK(vkf_apply(graph, &(vkf_op){"shard", &layout, 1}, &moved, 1, &divided));
  REFUSED(vkf_apply(graph, &(vkf_op){"send_receive", twice, 2}, &x, 1, &moved), VKF_INVALID_ARGUMENT,
          "'send_receive' has member 0 send twice.");
  REFUSED(vkf_apply(graph, &(vkf_op){"reduce_scatter_sum", three, 2}, &x, 1, &moved), VKF_INVALID_ARGUMENT,
          "4 is not a multiple of 3.");
  OK(vkf_output(graph, "y", divided));
  OK(vkf_graph_text(graph, &text));
  CHECK(text != NULL && strcmp(text,
                               "graph \"ranks\" {\n  %0 = input \"x\" : f32[4, 6]\n"
                               "  %1 = all_reduce_sum ranks=2 stride=1 %0 : f32[4, 6]\n"
                               "  %2 = all_gather ranks=2 stride=1 axis=1 %1 : f32[4, 12]\n"
                               "  %3 = send_receive ranks=2 stride=1 from=[-1, 0] %2 : f32[4, 12]\n"
                               "  %4 = shard mesh_axes=[-1, 0] %3 : f32[4, 12]\n  output \"y\" = %4\n}\n") == 0);
  vkf_string_free(text);
  vkf_graph_free(graph);
}

void test_graphs(void) {
  test_building();
  test_collectives();
  test_refused();
}

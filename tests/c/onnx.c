/* ONNX models through C: from memory and from files, with weights, known inputs and sizes; and what is refused. */
#include <stdlib.h>
#include <vkfuse/onnx.h>

#include "check.h"

/* A protobuf message that is being written. */
typedef struct message {
  unsigned char bytes[1024];
  size_t size;
} message;

static void put_varint(message* to, uint64_t value) {
  for (; value > 127; value >>= 7) to->bytes[to->size++] = (unsigned char)(value | 128);
  to->bytes[to->size++] = (unsigned char)value;
}
static void put_int(message* to, unsigned field, uint64_t value) {
  put_varint(to, field << 3);
  put_varint(to, value);
}
static void put_bytes(message* to, unsigned field, const void* data, size_t size) {
  put_varint(to, field << 3 | 2);
  put_varint(to, size);
  memcpy(to->bytes + to->size, data, size);
  to->size += size;
}
static void put_text(message* to, unsigned field, const char* text) { put_bytes(to, field, text, strlen(text)); }
static void put(message* to, unsigned field, const message* part) { put_bytes(to, field, part->bytes, part->size); }

/* An input or output: f32[dims], or without a type where there are no dims. "2" is a size, "n" a symbol. */
static void put_value(message* graph, unsigned field, const char* name, const char* dims) {
  message shape = {{0}, 0}, tensor = {{0}, 0}, type = {{0}, 0}, info = {{0}, 0};
  for (const char* at = dims; *at != '\0'; ++at) {
    message dim = {{0}, 0};
    const char symbol[2] = {*at, '\0'};
    if (*at >= '0' && *at <= '9') put_int(&dim, 1, (uint64_t)(*at - '0'));
    if (*at >= 'a') put_text(&dim, 2, symbol);
    put(&shape, 1, &dim);
  }
  put_int(&tensor, 1, 1);
  put(&tensor, 2, &shape);
  put(&type, 1, &tensor);
  put_text(&info, 1, name);
  if (*dims != '\0') put(&info, 2, &type);
  put(graph, field, &info);
}

static void put_node(message* graph, const char* op, const char* a, const char* b, const char* result) {
  message node = {{0}, 0};
  put_text(&node, 1, a);
  if (b != NULL) put_text(&node, 1, b);
  put_text(&node, 2, result);
  put_text(&node, 4, op);
  put(graph, 1, &node);
}

/* y = x w + b for x [n, 2], w [2, 3] in the file "w.bin" from byte 4 on; `where` are the elements that are not 0. */
static message test_model(void) {
  message model = {{0}, 0}, graph = {{0}, 0}, opset = {{0}, 0}, w = {{0}, 0};
  const char* external[3][2] = {{"location", "w.bin"}, {"offset", "4"}, {"length", "24"}};
  put_node(&graph, "MatMul", "x", "w", "p");
  put_node(&graph, "Add", "p", "b", "y");
  put_node(&graph, "NonZero", "y", NULL, "where");
  put_text(&graph, 2, "test");
  put_int(&w, 1, 2);
  put_int(&w, 1, 3);
  put_int(&w, 2, 1);
  put_text(&w, 8, "w");
  for (int i = 0; i < 3; ++i) {
    message entry = {{0}, 0};
    put_text(&entry, 1, external[i][0]);
    put_text(&entry, 2, external[i][1]);
    put(&w, 13, &entry);
  }
  put_int(&w, 14, 1);
  put(&graph, 5, &w);
  put_value(&graph, 11, "x", "n2");
  put_value(&graph, 11, "b", "3");
  put_value(&graph, 12, "y", "n3");
  put_value(&graph, 12, "where", "");
  put_int(&opset, 2, 17);
  put_int(&model, 1, 8);
  put(&model, 7, &graph);
  put(&model, 8, &opset);
  return model;
}

static const float kFile[7] = {99, 1, 2, 3, 4, 5, 6};
static const float kX[4] = {1, 0, 0, -1};
static const float kB[3] = {-1, 0, 10};
static const float kY[6] = {0, 2, 13, -5, -5, 4}; /* of the rows of w and of -w, and b */
static const vkf_onnx_file kWeights = {"w.bin", kFile, sizeof kFile};

static void check_results(const vkf_onnx* model, const vkf_host_input* inputs, size_t count) {
  vkf_onnx_results* results = NULL;
  vkf_dim shape[2] = {{0, NULL, 0, 0, 0}, {0, NULL, 0, 0, 0}};
  vkf_type_report type = {shape, 2, VKF_BOOL, 9};
  const void* data = NULL;
  size_t bytes = 0;
  OK(vkf_onnx_run(model, inputs, count, &results));
  if (results == NULL) return;
  OK(vkf_onnx_result(results, "y", &type, &data, &bytes));
  CHECK(type.dtype == VKF_F32 && type.rank == 2 && shape[0].size == 2 && shape[0].symbol == NULL && shape[1].size == 3);
  CHECK(bytes == sizeof kY && data != NULL && memcmp(data, kY, sizeof kY) == 0);
  OK(vkf_onnx_result(results, "where", &type, &data, &bytes)); /* five are not 0 */
  CHECK(type.dtype == VKF_I64 && type.rank == 2 && shape[0].size == 2 && shape[1].size == 5 && bytes == 80);
  OK(vkf_onnx_result(results, "y", NULL, NULL, NULL));
  REFUSED(vkf_onnx_result(results, "z", NULL, NULL, NULL), VKF_NOT_FOUND, "The run has no output 'z'.");
  REFUSED(vkf_onnx_result(results, NULL, NULL, NULL, NULL), VKF_INVALID_ARGUMENT, "The name of an output is null.");
  REFUSED(vkf_onnx_result(NULL, "y", NULL, NULL, NULL), VKF_INVALID_ARGUMENT, "The handle of the results is null.");
  vkf_onnx_results_free(results);
}

static void test_names(const vkf_onnx* model) {
  vkf_dim shape[2];
  vkf_type_report type = {shape, 2, VKF_BOOL, 9};
  char* notes = NULL;
  CHECK(vkf_onnx_input_count(model) == 2 && vkf_onnx_output_count(model) == 2);
  CHECK(strcmp(vkf_onnx_input_name(model, 1), "b") == 0 && strcmp(vkf_onnx_output_name(model, 1), "where") == 0);
  CHECK(vkf_onnx_input_name(model, 2) == NULL && vkf_onnx_output_name(model, 2) == NULL);
  CHECK(vkf_onnx_input_count(NULL) == 0 && vkf_onnx_output_name(NULL, 0) == NULL);
  OK(vkf_onnx_type(model, "x", &type));
  CHECK(type.dtype == VKF_F32 && type.rank == 2 && strcmp(shape[0].symbol, "n") == 0 && shape[1].size == 2);
  OK(vkf_onnx_type(model, "y", &type));
  CHECK(type.rank == 2 && strcmp(shape[0].symbol, "n") == 0 && shape[1].size == 3);
  REFUSED(vkf_onnx_type(model, "where", &type), VKF_INVALID_ARGUMENT, "Output 'where'");
  REFUSED(vkf_onnx_type(model, "z", &type), VKF_NOT_FOUND, "The model has no input and no output 'z'.");
  REFUSED(vkf_onnx_type(model, "x", NULL), VKF_INVALID_ARGUMENT, "The place for the type is null.");
  REFUSED(vkf_onnx_type(model, NULL, &type), VKF_INVALID_ARGUMENT, "is null.");
  REFUSED(vkf_onnx_type(NULL, "x", &type), VKF_INVALID_ARGUMENT, "The model is null.");
  const char* narrow = NULL;
  OK(vkf_onnx_narrow_type(model, "y", &narrow));
  CHECK(narrow != NULL && *narrow == '\0');
  REFUSED(vkf_onnx_narrow_type(model, "z", &narrow), VKF_NOT_FOUND, "The model has no input and no output 'z'.");
  REFUSED(vkf_onnx_narrow_type(model, "x", NULL), VKF_INVALID_ARGUMENT, "The place for the type is null.");
  OK(vkf_onnx_notes(model, &notes));
  CHECK(notes != NULL && *notes == '\0');
  vkf_string_free(notes);
  REFUSED(vkf_onnx_notes(model, NULL), VKF_INVALID_ARGUMENT, "is null.");
  REFUSED(vkf_onnx_notes(NULL, &notes), VKF_INVALID_ARGUMENT, "The model is null.");
}

static void test_refusals(const vkf_device* device, const message* model) {
  vkf_onnx* made = NULL;
  const vkf_dim three = {3, NULL, 0, 0, 0};
  vkf_onnx_value b = {"b", {VKF_F32, &three, 1}, kB, sizeof kB};
  vkf_onnx_options options = {.size = sizeof options, .files = &kWeights, .file_count = 1};
  const vkf_onnx_file twice[2] = {kWeights, kWeights};
  const vkf_onnx_file small = {"w.bin", kFile, 12}, nameless = {NULL, kFile, 12};
#define MADE(data, bytes) vkf_onnx_compile_memory(device, data, bytes, &options, &made)
  REFUSED(vkf_onnx_compile_memory(NULL, model->bytes, model->size, NULL, &made), VKF_INVALID_ARGUMENT,
          "The device is null.");
  REFUSED(vkf_onnx_compile_memory(device, model->bytes, model->size, NULL, NULL), VKF_INVALID_ARGUMENT,
          "The place for the new model is null.");
  REFUSED(vkf_onnx_compile(device, NULL, NULL, &made), VKF_INVALID_ARGUMENT, "The path of the model is null.");
  REFUSED(vkf_onnx_compile(device, "no/such.onnx", NULL, &made), VKF_NOT_FOUND, "no/such.onnx");
  REFUSED(MADE(NULL, 5), VKF_INVALID_ARGUMENT, "The list of bytes of the model is null, but has a count of 5.");
  REFUSED(MADE(model->bytes, model->size - 7), VKF_INVALID_ARGUMENT, "is not an ONNX model, or it is truncated");
  options.files = &small;
  REFUSED(MADE(model->bytes, model->size), VKF_INVALID_ARGUMENT, "which has only 12");
  options.files = &nameless;
  REFUSED(MADE(model->bytes, model->size), VKF_INVALID_ARGUMENT, "The location of a file is null.");
  options.files = twice;
  options.file_count = 2;
  REFUSED(MADE(model->bytes, model->size), VKF_INVALID_ARGUMENT, "The file 'w.bin' is given twice.");
  options.files = &kWeights;
  options.file_count = 0;
  REFUSED(MADE(model->bytes, model->size), VKF_UNSUPPORTED, "keeps its elements in another file");
  options.file_count = 1;
  options.files = &(vkf_onnx_file){"v.bin", kFile, sizeof kFile};
  REFUSED(MADE(model->bytes, model->size), VKF_NOT_FOUND, "lies in 'w.bin', whose bytes are not given.");
  options.files = &kWeights;
  options.known = &b;
  options.known_count = 1;
  b.bytes = 8;
  REFUSED(MADE(model->bytes, model->size), VKF_INVALID_ARGUMENT,
          "The known input 'b' has 8 bytes, and its type takes 12.");
  b.name = NULL;
  REFUSED(MADE(model->bytes, model->size), VKF_INVALID_ARGUMENT, "The name of a known input is null.");
  options.known_count = 0;
  options.floats = VKF_I32;
  REFUSED(MADE(model->bytes, model->size), VKF_INVALID_ARGUMENT, "cannot become i32");
  options.floats = VKF_F32;
  options.size = 1;
  REFUSED(MADE(model->bytes, model->size), VKF_INVALID_ARGUMENT, "set `size` to sizeof.");
#undef MADE
  CHECK(made == NULL);
}

/* Of a file, in half the bits, and with weights in memory all the same. */
static void test_file(const vkf_device* device, const message* model) {
  const char* driver = getenv("VKFUSE_TEST_DRIVER");
  const vkf_onnx_options options = {.size = sizeof options, .files = &kWeights, .file_count = 1, .floats = VKF_F16};
  vkf_dim shape[2];
  vkf_type_report type = {shape, 2, VKF_BOOL, 9};
  vkf_onnx* made = NULL;
  char path[64];
  FILE* file;
  snprintf(path, sizeof path, "c-test-%s.onnx", driver == NULL ? "any" : driver);
  file = fopen(path, "wb");
  CHECK(file != NULL && fwrite(model->bytes, 1, model->size, file) == model->size && fclose(file) == 0);
  OK(vkf_onnx_compile(device, path, &options, &made));
  OK(vkf_onnx_type(made, "y", &type));
  CHECK(type.dtype == VKF_F16);
  vkf_onnx_free(made);
  remove(path);
}

void test_onnx(const vkf_device* device) {
  const message model = test_model();
  const int64_t two[2] = {2, 2};
  const vkf_dim three = {3, NULL, 0, 0, 0};
  const vkf_onnx_value b = {"b", {VKF_F32, &three, 1}, kB, sizeof kB};
  const vkf_symbol n = {"n", 2};
  vkf_host_input inputs[2] = {{"x", kX, sizeof kX, two, 2}, {"b", kB, sizeof kB, NULL, 0}};
  vkf_onnx_options options = {.size = sizeof options, .files = &kWeights, .file_count = 1};
  vkf_onnx_results* results = NULL;
  vkf_onnx* made = NULL;
  OK(vkf_onnx_compile_memory(device, model.bytes, model.size, &options, &made));
  test_names(made);
  check_results(made, inputs, 2);
  REFUSED(vkf_onnx_run(made, inputs, 1, &results), VKF_INVALID_ARGUMENT, "Input 'b' is not given.");
  REFUSED(vkf_onnx_run(NULL, inputs, 2, &results), VKF_INVALID_ARGUMENT, "The model is null.");
  REFUSED(vkf_onnx_run(made, inputs, 2, NULL), VKF_INVALID_ARGUMENT, "The place for the new results is null.");
  CHECK(results == NULL);
  vkf_onnx_free(made);
  options.known = &b; /* part of the program then, and the size of n too */
  options.known_count = 1;
  options.dims = &n;
  options.dim_count = 1;
  OK(vkf_onnx_compile_memory(device, model.bytes, model.size, &options, &made));
  CHECK(vkf_onnx_input_count(made) == 1);
  inputs[0].sizes = NULL;
  inputs[0].rank = 0;
  check_results(made, inputs, 1);
  vkf_onnx_free(made);
  vkf_onnx_free(NULL);
  vkf_onnx_results_free(NULL);
  test_refusals(device, &model);
  test_file(device, &model);
}

/* Ops that are recorded as they are called. */
#include "check.h"

static vkf_tensor* apply(const char* op, const vkf_tensor* a, const vkf_tensor* b) {
  const vkf_tensor* const operands[2] = {a, b};
  vkf_tensor* made = NULL;
  OK(vkf_tensor_apply(&(vkf_op){.name = op}, operands, b == NULL ? 1 : 2, &made));
  return made;
}

static void test_loop(const vkf_stream* stream) {
  const float start[4] = {0, 4, 8, 12};
  float got[4] = {0}, more[8] = {0};
  const vkf_dim row[2] = {vkf_size(1), vkf_size(4)};
  vkf_dim shape[2];
  vkf_type_report type = {shape, 2, VKF_BOOL, 0};
  char* text = NULL;
  vkf_stream_report report;
  vkf_tensor *x = NULL, *half = NULL, *longer = NULL, *sum = NULL, *first = NULL;
  memset(&report, 0, sizeof report);
  report.size = sizeof report;
  OK(vkf_tensor_create(stream, &(vkf_type){VKF_F32, row, 2}, start, sizeof start, &x));
  OK(vkf_tensor_scalar(VKF_F32, 0.5, &half));
  first = x;
  for (int i = 0; i < 6; ++i) { /* x = x / 2 + 0.5, of which 1 is the end */
    vkf_tensor* product = apply("mul", x, half);
    vkf_tensor* next = apply("add", product, half);
    const vkf_tensor* const asked[1] = {next};
    if (i == 0) {
      OK(vkf_stream_dump(stream, asked, 1, &text));
      CHECK(text != NULL && strstr(text, "input \"x0\" : f32[1, 4]") != NULL && strstr(text, "= add") != NULL);
      vkf_string_free(text);
    }
    vkf_tensor_free(product);
    if (x != first) vkf_tensor_free(x);
    OK(vkf_stream_eval(stream, asked, 1));
    x = next;
  }
  OK(vkf_stream_read(stream, x, got, sizeof got));
  CHECK(got[0] == 1 - 1.0F / 64 && got[1] == 1 + 3.0F / 64 && got[3] == 1 + 11.0F / 64);
  OK(vkf_stream_status(stream, &report));
  CHECK(report.plans == 1 && report.evaluations == 6 && report.kernels == 1 && report.bytes == 32 && report.held == 0 &&
        report.recorded == 0);
  OK(vkf_stream_explain(stream, &text));
  CHECK(text != NULL && strstr(text, "computed, as it was asked for") != NULL);
  vkf_string_free(text);
  REFUSED(vkf_stream_read(stream, x, got, 8), VKF_INVALID_ARGUMENT, "The tensor has 16 bytes, but 8 are asked for.");

  OK(vkf_tensor_append(stream, first, x, &longer));
  OK(vkf_tensor_type(longer, &type));
  CHECK(type.dtype == VKF_F32 && type.rank == 2 && shape[0].size == 2 && shape[1].size == 4);
  REFUSED(vkf_tensor_type(longer, NULL), VKF_INVALID_ARGUMENT, "The place for the type is null.");
  OK(vkf_stream_read(stream, longer, more, sizeof more));
  CHECK(memcmp(more, start, sizeof start) == 0 && memcmp(more + 4, got, sizeof got) == 0);
  {
    const vkf_tensor* const operands[1] = {longer};
    const int64_t axes[2] = {0, 1};
    const vkf_attribute attributes[1] = {vkf_attribute_integers("axes", axes, 2)};
    OK(vkf_tensor_apply(&(vkf_op){"reduce_max", attributes, 1}, operands, 1, &sum));
  }
  OK(vkf_stream_read(stream, sum, got, sizeof(float)));
  CHECK(got[0] == 12);
  vkf_tensor_free(sum);
  vkf_tensor_free(longer);
  vkf_tensor_free(half);
  vkf_tensor_free(first);
  vkf_tensor_free(x);
}

static void test_refused(const vkf_device* device, const vkf_stream* stream) {
  const float numbers[4] = {1, 2, 3, 4};
  const vkf_dim size = vkf_size(4), symbol = vkf_any("n");
  const vkf_type four = {VKF_F32, &size, 1}, any = {VKF_F32, &symbol, 1}, missing = {VKF_F32, NULL, 1},
                 no_dtype = {(vkf_dtype)99, &size, 1};
  vkf_type_report type = {NULL, 0, VKF_F32, 0};
  float got[4];
  char* text = NULL;
  vkf_stream* none = NULL;
  vkf_stream_report report;
  vkf_tensor *x = NULL, *made = NULL;
  vkf_buffer* buffer = NULL;
  memset(&report, 0, sizeof report);
  OK(vkf_buffer_create(device, sizeof numbers, &buffer));
  OK(vkf_buffer_write(buffer, 0, numbers, sizeof numbers));
  OK(vkf_tensor_wrap(stream, buffer, &four, &x));
  vkf_buffer_free(buffer);
  OK(vkf_stream_read(stream, x, got, sizeof got));
  CHECK(memcmp(got, numbers, sizeof got) == 0);
  {
    const vkf_tensor* const operands[2] = {x, NULL};
    const vkf_attribute nonsense[1] = {vkf_attribute_integer("axis", 0)};
    REFUSED(vkf_tensor_apply(NULL, operands, 1, &made), VKF_INVALID_ARGUMENT, "The op is null.");
    REFUSED(vkf_tensor_apply(&(vkf_op){NULL, NULL, 0}, operands, 1, &made), VKF_INVALID_ARGUMENT,
            "The name of the op is null.");
    REFUSED(vkf_tensor_apply(&(vkf_op){.name = "unheard_of"}, operands, 1, &made), VKF_INVALID_ARGUMENT,
            "'unheard_of' is not the name of an op.");
    REFUSED(vkf_tensor_apply(&(vkf_op){.name = "add"}, operands, 2, &made), VKF_INVALID_ARGUMENT,
            "The tensor is null.");
    REFUSED(vkf_tensor_apply(&(vkf_op){.name = "add"}, operands, 1, &made), VKF_INVALID_ARGUMENT,
            "'add' takes 2 operands");
    REFUSED(vkf_tensor_apply(&(vkf_op){.name = "add"}, NULL, 2, &made), VKF_INVALID_ARGUMENT,
            "The list of operands is null");
    REFUSED(vkf_tensor_apply(&(vkf_op){"relu", nonsense, 1}, operands, 1, &made), VKF_INVALID_ARGUMENT,
            "The op 'relu' has no attribute 'axis'");
    REFUSED(vkf_tensor_apply(&(vkf_op){.name = "relu"}, operands, 1, NULL), VKF_INVALID_ARGUMENT,
            "The place for the new tensor is null.");
    REFUSED(vkf_stream_eval(NULL, operands, 1), VKF_INVALID_ARGUMENT, "The stream is null.");
    REFUSED(vkf_stream_eval(stream, operands, 2), VKF_INVALID_ARGUMENT, "The tensor is null.");
    REFUSED(vkf_stream_dump(stream, operands, 1, NULL), VKF_INVALID_ARGUMENT, "The place for the text is null.");
    REFUSED(vkf_stream_dump(stream, operands, 0, &text), VKF_INVALID_ARGUMENT, "A program needs at least one output.");
    REFUSED(vkf_stream_dump(NULL, operands, 1, &text), VKF_INVALID_ARGUMENT, "The stream is null.");
  }
  REFUSED(vkf_stream_create(NULL, NULL, &none), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_tensor_create(NULL, &four, numbers, 16, &made), VKF_INVALID_ARGUMENT, "The stream is null.");
  REFUSED(vkf_tensor_create(stream, &no_dtype, numbers, 16, &made), VKF_INVALID_ARGUMENT, "99 is not a dtype");
  REFUSED(vkf_tensor_create(stream, &missing, numbers, 16, &made), VKF_INVALID_ARGUMENT,
          "The list of dimensions is null");
  REFUSED(vkf_tensor_create(stream, NULL, numbers, 16, &made), VKF_INVALID_ARGUMENT, "The type is null.");
  REFUSED(vkf_tensor_create(stream, &any, numbers, 16, &made), VKF_INVALID_ARGUMENT, "The dimension 'n' is a symbol");
  REFUSED(vkf_tensor_create(stream, &four, numbers, 12, &made), VKF_INVALID_ARGUMENT,
          "needs 16 bytes, but 12 were given.");
  REFUSED(vkf_tensor_wrap(stream, NULL, &four, &made), VKF_INVALID_ARGUMENT, "The buffer is null.");
  REFUSED(vkf_tensor_scalar((vkf_dtype)99, 1, &made), VKF_INVALID_ARGUMENT, "99 is not a dtype");
  REFUSED(vkf_tensor_append(stream, x, NULL, &made), VKF_INVALID_ARGUMENT, "The tensor of rows is null.");
  REFUSED(vkf_tensor_type(NULL, &type), VKF_INVALID_ARGUMENT, "The tensor is null.");
  REFUSED(vkf_stream_read(stream, NULL, got, 16), VKF_INVALID_ARGUMENT, "The tensor is null.");
  REFUSED(vkf_stream_explain(NULL, &text), VKF_INVALID_ARGUMENT, "The stream is null.");
  REFUSED(vkf_stream_status(stream, NULL), VKF_INVALID_ARGUMENT, "The stream report is null.");
  REFUSED(vkf_stream_status(stream, &report), VKF_INVALID_ARGUMENT,
          "The members of the stream report say that they have 0 bytes");
  CHECK(made == NULL && none == NULL && text == NULL);
  vkf_tensor_free(NULL);
  vkf_stream_free(NULL);
  vkf_tensor_free(x);
}

void test_streams(const vkf_device* device) {
  vkf_stream* stream = NULL;
  OK(vkf_stream_create(device, NULL, &stream));
  test_loop(stream);
  test_refused(device, stream);
  vkf_stream_free(stream);
}

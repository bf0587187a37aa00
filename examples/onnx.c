/* Runs an ONNX model that is in memory, on a ramp of floats and on ones of what is no float; symbolic sizes are 2. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vkfuse/onnx.h>

#define TRY(call) \
  if ((call) != VKF_OK) return puts(vkf_last_error()), 1

static vkf_onnx_file read_file(const char* path) {
  FILE* file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) perror(path), exit(1);
  const size_t bytes = (size_t)ftell(file);
  char* data = malloc(bytes + 1);
  rewind(file);
  if (data == NULL || fread(data, 1, bytes, file) != bytes) perror(path), exit(1);
  fclose(file);
  return (vkf_onnx_file){strrchr(path, '/') == NULL ? path : strrchr(path, '/') + 1, data, bytes};
}

int main(int count, char** paths) {
  vkf_device* device;
  vkf_onnx* model;
  vkf_onnx_results* results;
  vkf_onnx_file files[16];
  vkf_host_input inputs[16];
  int64_t sizes[16][8];
  if (count < 2 || count > 16) return puts("usage: onnx MODEL [FILE OF WEIGHTS ...]"), 1;
  for (int i = 1; i < count; ++i) files[i - 1] = read_file(paths[i]);
  const vkf_onnx_options options = {.size = sizeof options, .files = files + 1, .file_count = (size_t)count - 2};
  TRY(vkf_device_open(NULL, &device));
  TRY(vkf_onnx_compile_memory(device, files[0].data, files[0].bytes, &options, &model));
  for (size_t i = 0; i < vkf_onnx_input_count(model) && i < 16; ++i) {
    vkf_dim shape[8];
    vkf_type_report type = {shape, 8, 0, 0};
    inputs[i] = (vkf_host_input){vkf_onnx_input_name(model, i), NULL, 1, sizes[i], 0};
    TRY(vkf_onnx_type(model, inputs[i].name, &type));
    for (size_t d = 0; d < type.rank; ++d) inputs[i].bytes *= sizes[i][d] = shape[d].symbol ? 2 : shape[d].size;
    char* data = calloc(inputs[i].bytes + 1, vkf_dtype_size(type.dtype));
    for (size_t e = 0; e < inputs[i].bytes; ++e)
      type.dtype == VKF_F32 ? ((float*)data)[e] = (float)(e % 8) * 0.25F : (data[e * vkf_dtype_size(type.dtype)] = 1);
    inputs[i] =
        (vkf_host_input){inputs[i].name, data, inputs[i].bytes * vkf_dtype_size(type.dtype), sizes[i], type.rank};
  }
  TRY(vkf_onnx_run(model, inputs, vkf_onnx_input_count(model), &results));
  for (size_t i = 0; i < vkf_onnx_output_count(model); ++i) {
    vkf_type_report type = {NULL, 0, 0, 0};
    const void* data;
    size_t bytes = 0;
    TRY(vkf_onnx_result(results, vkf_onnx_output_name(model, i), &type, &data, &bytes));
    printf("%s: %zu bytes", vkf_onnx_output_name(model, i), bytes);
    for (size_t e = 0; type.dtype == VKF_F32 && e < bytes / 4 && e < 6; ++e) printf(" %g", ((const float*)data)[e]);
    puts("");
  }
  return vkf_onnx_results_free(results), vkf_onnx_free(model), vkf_device_free(device), 0;
}

/* ONNX models for C: vkfuse.h says what holds for every function. Part of the library unless it was built without ONNX
 * (VKFUSE_BUILD_ONNX).
 *
 *     vkf_onnx* model;   vkf_onnx_results* results;   const void* data;   size_t bytes;
 *     vkf_onnx_compile(device, "detector.onnx", NULL, &model);
 *     vkf_onnx_run(model, &(vkf_host_input){"image", pixels, sizeof pixels, NULL, 0}, 1, &results);
 *     vkf_onnx_result(results, "boxes", NULL, &data, &bytes);
 */
#ifndef VKFUSE_ONNX_H
#define VKFUSE_ONNX_H

#include "vkfuse/vkfuse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A model compiled for a device, in parts where its shapes depend on data. Several threads may run it at once. */
typedef struct vkf_onnx vkf_onnx;
/* What one run computed. */
typedef struct vkf_onnx_results vkf_onnx_results;

/* A file that weights lie in, in the caller's memory. */
typedef struct vkf_onnx_file {
  const char* location; /* as the model states it; not null */
  const void* data;
  size_t bytes;
} vkf_onnx_file;

/* The value of an input that is known when the model is compiled. */
typedef struct vkf_onnx_value {
  const char* name; /* of the input; not null */
  vkf_type type;    /* without symbols */
  const void* data; /* its elements, row-major */
  size_t bytes;
} vkf_onnx_value;

typedef struct vkf_onnx_options {
  size_t size;
  const vkf_onnx_file* files; /* looked for here, and then beside the model, if it is a file */
  size_t file_count;
  const vkf_onnx_value* known; /* inputs that become constants: runs do not take them */
  size_t known_count;
  const vkf_symbol* dims; /* sizes for symbolic dimensions; others stay symbolic */
  size_t dim_count;
  vkf_dtype floats;                   /* VKF_F16 or VKF_BF16: what is f32 becomes this; VKF_F32: it stays */
  const vkf_compile_options* compile; /* null: the default */
} vkf_onnx_options;

/* Imports a .onnx file and compiles what does not depend on data, or on sizes that only a run tells. `options` may be
 * null. docs/onnx.md lists the operators. VKF_NOT_FOUND and VKF_IO for files, VKF_INVALID_ARGUMENT for what is not a
 * sound model, VKF_UNSUPPORTED for operators, forms of them and types that are not offered. */
VKF_API vkf_status vkf_onnx_compile(const vkf_device* device, const char* path, const vkf_onnx_options* options,
                                    vkf_onnx** made);
/* The same of the `bytes` bytes of such a file at `data`. No file is opened: weights that lie elsewhere are in
 * `files`. */
VKF_API vkf_status vkf_onnx_compile_memory(const vkf_device* device, const void* data, size_t bytes,
                                           const vkf_onnx_options* options, vkf_onnx** made);
VKF_API void vkf_onnx_free(vkf_onnx* model);

VKF_API size_t vkf_onnx_input_count(const vkf_onnx* model);
VKF_API size_t vkf_onnx_output_count(const vkf_onnx* model);
/* In the model's order, as long as the model lives; null beyond the last one. */
VKF_API const char* vkf_onnx_input_name(const vkf_onnx* model, size_t index);
VKF_API const char* vkf_onnx_output_name(const vkf_onnx* model, size_t index);
/* The type of an input or output by its name. Where only a run tells an output's shape, its type is what the file
 * states, and an error if it states none. */
VKF_API vkf_status vkf_onnx_type(const vkf_onnx* model, const char* name, vkf_type_report* report);
/* ONNX's name of the elements of an input or output that no vkf_dtype is, "FLOAT8E4M3FN" or "INT4": each is in a byte
 * of its own, floats as their codes in the low bits, integers as their values. "" for all others; lives as long as the
 * process. */
VKF_API vkf_status vkf_onnx_narrow_type(const vkf_onnx* model, const char* name, const char** type);
/* What the file says and the import ignores, a sentence a line. */
VKF_API vkf_status vkf_onnx_notes(const vkf_onnx* model, char** made);

/* Uploads, runs, waits, downloads. Inputs with symbolic dimensions state their sizes. A run may compile, where it is
 * the first that tells sizes. */
VKF_API vkf_status vkf_onnx_run(const vkf_onnx* model, const vkf_host_input* inputs, size_t input_count,
                                vkf_onnx_results** made);
/* An output by its name: its type, which has no symbols, and its elements, as long as the results live. Each of the
 * last three may be null. */
VKF_API vkf_status vkf_onnx_result(const vkf_onnx_results* results, const char* name, vkf_type_report* report,
                                   const void** data, size_t* bytes);
VKF_API void vkf_onnx_results_free(vkf_onnx_results* results);

#ifdef __cplusplus
}
#endif

#endif

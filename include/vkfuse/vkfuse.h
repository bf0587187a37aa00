/* vkfuse for C, and for whatever calls C: tensor graphs as fused Vulkan compute kernels.
 *
 * Every function that can fail returns a vkf_status; vkf_last_error() then has one full sentence that names the
 * offending value. Nothing throws and nothing ends the process: null and wrong arguments are VKF_INVALID_ARGUMENT.
 *
 * Handles are made by a function with a `vkf_X** made` as its last parameter, which is set to null if it fails, and
 * given back with vkf_X_free(), which takes null. A handle keeps alive whatever it needs: they may be given back in any
 * order. A device does not survive a fork: what a child does with its parent's is an error. Strings and arrays passed
 * in are copied. Devices, programs and submissions may be used by several threads at once; graphs and buffers by one at
 * a time.
 *
 * An array is a pointer and a count, as two parameters or as two members of a structure: null is allowed where the
 * count is 0. What a structure points to is read during the call alone, unless it says otherwise. Members set to zero
 * mean nothing, or the default. Structures whose first member is `size` have that member set to sizeof: later versions
 * add members at the end. A report is filled by a function; where it holds an array, the caller gives room for
 * `capacity` elements, and is told how many there are even if they do not fit.
 *
 *     vkf_graph* graph;   vkf_graph_create("example", &graph);
 *     vkf_dim shape[2] = {vkf_any("n"), vkf_size(4)};
 *     vkf_type rows = {VKF_F32, shape, 2};
 *     vkf_value x, y;     vkf_input(graph, "x", &rows, &x);
 *     vkf_apply(graph, &(vkf_op){.name = "exp"}, &x, 1, &y);
 *     vkf_output(graph, "y", y);
 *     vkf_program* program;
 *     if (vkf_compile(device, graph, NULL, &program) != VKF_OK) puts(vkf_last_error());
 */
#ifndef VKFUSE_VKFUSE_H
#define VKFUSE_VKFUSE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && !defined(_WIN32)
#define VKF_API __attribute__((visibility("default")))
#else
#define VKF_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum vkf_status {
  VKF_OK = 0,
  VKF_INVALID_ARGUMENT = 1, /* the caller's graph, shape, file or option is wrong */
  VKF_UNSUPPORTED = 2,      /* it is valid, but neither vkfuse nor this device offers it */
  VKF_NOT_FOUND = 3,        /* no such device or name */
  VKF_NO_DEVICE = 4,        /* no Vulkan loader, or no Vulkan device */
  VKF_DEVICE_ERROR = 5,     /* a Vulkan call failed */
  VKF_DEVICE_LOST = 6,      /* the device was reset; open it again */
  VKF_OUT_OF_MEMORY = 7,    /* host or device memory is exhausted, or a limit would be exceeded */
  VKF_IO = 8,               /* a file could not be read or written */
  VKF_INTERNAL = 9          /* a defect of vkfuse itself */
} vkf_status;

/* Elements are little-endian; a boolean is one byte, 0 or 1. */
typedef enum vkf_dtype {
  VKF_F32 = 0,
  VKF_F16 = 1,
  VKF_BF16 = 2,
  VKF_F64 = 3,
  VKF_I8 = 4,
  VKF_U8 = 5,
  VKF_I16 = 6,
  VKF_U16 = 7,
  VKF_I32 = 8,
  VKF_U32 = 9,
  VKF_I64 = 10,
  VKF_U64 = 11,
  VKF_BOOL = 12
} vkf_dtype;

/* What went wrong in the last call of this thread that failed, and what was being done, line by line. Never null; valid
 * until the next call of this thread that fails. */
VKF_API const char* vkf_last_error(void);

/* As "MAJOR.MINOR.PATCH". */
VKF_API const char* vkf_version(void);

/* Bytes of one element; 0 for what is no dtype. */
VKF_API size_t vkf_dtype_size(vkf_dtype dtype);

/* Gives back a string that a function has handed out as `char** made`. Null is allowed. */
VKF_API void vkf_string_free(char* string);

/* ---- devices ---- */

typedef struct vkf_device vkf_device;

/* A limit to lower. */
typedef struct vkf_limit {
  const char* name; /* one that `vkfuse devices` lists; not null */
  uint64_t value;   /* in the limit's unit */
} vkf_limit;

typedef enum vkf_log_level {
  VKF_LOG_DEBUG = 0,  /* what was compiled, and how long that took */
  VKF_LOG_INFO = 1,   /* what was opened */
  VKF_LOG_WARNING = 2 /* what is not used because it does not work */
} vkf_log_level;

/* Is told, one sentence at a time, what errors do not say. Called by any thread that uses the device, several at once;
 * must not call vkfuse. The sentence is valid during the call. */
typedef void (*vkf_log)(void* user, vkf_log_level level, const char* sentence);

typedef struct vkf_device_options {
  size_t size;
  const char* name;           /* an index, a UUID or a part of the name; null: $VKFUSE_DEVICE, else the best device */
  const char* const* disable; /* feature tiers or features to do without, by name: "T2", "int64" */
  size_t disable_count;
  const char* cache;       /* folder of compiled kernels, or "off"; null: $VKFUSE_CACHE, else the user's cache folder */
  uint64_t cache_limit;    /* bytes it may hold, about; 0: 256 MiB */
  const vkf_limit* limits; /* to lower */
  size_t limit_count;
  vkf_log log;    /* null: nothing is logged */
  void* log_user; /* passed to `log` */
  int self_check; /* not 0: each run is made twice, on memory filled with 0xA5 and with 0x5A, and fails where results
                     differ */
} vkf_device_options;

/* Opens a Vulkan device. `options` may be null. */
VKF_API vkf_status vkf_device_open(const vkf_device_options* options, vkf_device** made);
VKF_API void vkf_device_free(vkf_device* device);
/* "NVIDIA H200", as long as the device lives; null for null. */
VKF_API const char* vkf_device_name(const vkf_device* device);
/* Name, driver, limits, features and feature tiers as JSON: an object. The tiers of an open device are empty,
 * those of a list are "yes" or say what is missing. */
VKF_API vkf_status vkf_device_describe(const vkf_device* device, char** made);
/* The same of every Vulkan device of this machine: an array. Not 0 for `self_test`: every device is opened, and its
 * feature tiers are tested. */
VKF_API vkf_status vkf_device_list(int self_test, char** made);
/* One limit by its name. VKF_NOT_FOUND if there is none of that name. */
VKF_API vkf_status vkf_device_limit(const vkf_device* device, const char* name, uint64_t* value);
/* `has` becomes 1 or 0: whether the device has a feature of this name. */
VKF_API vkf_status vkf_device_feature(const vkf_device* device, const char* name, int* has);

/* What the folder of compiled kernels has done for this device so far. */
typedef struct vkf_store_report {
  size_t size;
  uint64_t loaded;         /* files that were there and whole */
  uint64_t missed;         /* files that were not */
  uint64_t saved;          /* files written */
  uint64_t compiler_calls; /* shaders this process has compiled from GLSL, on any device */
  const char* folder;      /* as long as the device lives; empty if none could be named */
  const char* off;         /* one sentence if nothing is kept, else empty; as long as the device lives */
} vkf_store_report;

VKF_API vkf_status vkf_device_store(const vkf_device* device, vkf_store_report* report);

/* ---- graphs ---- */

typedef struct vkf_graph vkf_graph;

/* A value of a graph: which one, counted from 0 in the order in which they were added. */
typedef uint32_t vkf_value;

/* One dimension: a size, or a symbol whose size is known when the program runs, and what is promised of it. Symbols are
 * equal when their names are. */
typedef struct vkf_dim {
  int64_t size;        /* in elements, if symbol is null */
  const char* symbol;  /* its name; null: the dimension has a size */
  int64_t min;         /* of a symbol, as the next two */
  int64_t max;         /* 0: no bound */
  int64_t multiple_of; /* 0 or 1: nothing is promised */
} vkf_dim;

static inline vkf_dim vkf_size(int64_t size) {
  vkf_dim dim = {0, NULL, 0, 0, 0};
  dim.size = size;
  return dim;
}
static inline vkf_dim vkf_any(const char* symbol) {
  vkf_dim dim = {0, NULL, 0, 0, 0};
  dim.symbol = symbol;
  return dim;
}

/* The dtype and shape of a value. */
typedef struct vkf_type {
  vkf_dtype dtype;
  const vkf_dim* shape; /* the dimensions, outermost first */
  size_t rank;          /* how many there are; 0: the value is one element */
} vkf_type;

/* A type that a function reports. */
typedef struct vkf_type_report {
  vkf_dim* shape;  /* room for dimensions, outermost first; names of symbols in it are valid as long as the graph,
                      program or tensor is */
  size_t capacity; /* dimensions there is room for */
  vkf_dtype dtype; /* set by the function, as the next */
  size_t rank;
} vkf_type_report;

typedef enum vkf_attribute_kind {
  VKF_ATTRIBUTE_INTEGER = 0, /* also true and false, as 1 and 0 */
  VKF_ATTRIBUTE_INTEGERS = 1,
  VKF_ATTRIBUTE_TEXT = 2,
  VKF_ATTRIBUTE_DTYPE = 3,
  VKF_ATTRIBUTE_SHAPE = 4,
  VKF_ATTRIBUTE_REAL = 5 /* of composites */
} vkf_attribute_kind;

/* What an op takes beside its operands; the functions below make one. */
typedef struct vkf_attribute {
  const char* name;        /* of docs/text-ir.md, or of docs/composites.md; not null */
  vkf_attribute_kind kind; /* says which of the next ones counts; the others are not looked at */
  int64_t integer;         /* or the dtype, or the bits of a real number, a double */
  const int64_t* integers; /* `count` of them */
  const char* text;        /* not null */
  const vkf_dim* shape;    /* `count` dimensions, outermost first */
  size_t count;
} vkf_attribute;

static inline vkf_attribute vkf_attribute_integer(const char* name, int64_t value) {
  vkf_attribute made = {NULL, VKF_ATTRIBUTE_INTEGER, 0, NULL, NULL, NULL, 0};
  made.name = name;
  made.integer = value;
  return made;
}
static inline vkf_attribute vkf_attribute_real(const char* name, double value) {
  vkf_attribute made = {NULL, VKF_ATTRIBUTE_REAL, 0, NULL, NULL, NULL, 0};
  union {
    double real;
    int64_t integer;
  } bits;
  bits.real = value;
  made.name = name;
  made.integer = bits.integer;
  return made;
}
static inline vkf_attribute vkf_attribute_integers(const char* name, const int64_t* values, size_t count) {
  vkf_attribute made = {NULL, VKF_ATTRIBUTE_INTEGERS, 0, NULL, NULL, NULL, 0};
  made.name = name;
  made.integers = values;
  made.count = count;
  return made;
}
static inline vkf_attribute vkf_attribute_text(const char* name, const char* value) {
  vkf_attribute made = {NULL, VKF_ATTRIBUTE_TEXT, 0, NULL, NULL, NULL, 0};
  made.name = name;
  made.text = value;
  return made;
}
/* Of the ops cast and bitcast, of iota, and of custom and custom_kernel, whose GLSL is the text attribute `code`:
 * `dtype`. */
static inline vkf_attribute vkf_attribute_dtype(vkf_dtype value) {
  vkf_attribute made = {"dtype", VKF_ATTRIBUTE_DTYPE, 0, NULL, NULL, NULL, 0};
  made.integer = (int64_t)value;
  return made;
}
/* Of the ops reshape, broadcast, slice, iota, random and custom_kernel: `shape`, that of the result. */
static inline vkf_attribute vkf_attribute_shape(const vkf_dim* shape, size_t rank) {
  vkf_attribute made = {"shape", VKF_ATTRIBUTE_SHAPE, 0, NULL, NULL, NULL, 0};
  made.shape = shape;
  made.count = rank;
  return made;
}

/* An op: what it computes, but for its operands. */
typedef struct vkf_op {
  const char* name;                /* of docs/ops.md or docs/composites.md; not null */
  const vkf_attribute* attributes; /* in any order. One that is left out is 0, false, "set" or an empty list; of a
                                      composite, what docs/composites.md says */
  size_t attribute_count;
} vkf_op;

/* An empty graph. `name` appears in plans and messages; null: "graph". */
VKF_API vkf_status vkf_graph_create(const char* name, vkf_graph** made);
/* The graph of a text in the form of docs/text-ir.md; its value %N is the vkf_value N. Code of the text's own (custom,
 * custom_kernel) is refused. */
VKF_API vkf_status vkf_graph_parse(const char* text, vkf_graph** made);
typedef enum vkf_parse_flags {
  VKF_PARSE_DEFAULT = 0,
  VKF_PARSE_ALLOW_CUSTOM =
      1 /* the text may hold GLSL, which runs on the device as it is: for texts that are trusted as a program is */
} vkf_parse_flags;
/* The same with flags. */
VKF_API vkf_status vkf_graph_parse_with(const char* text, uint32_t flags, vkf_graph** made);
VKF_API void vkf_graph_free(vkf_graph* graph);
/* The text form. A graph without outputs has none. */
VKF_API vkf_status vkf_graph_text(const vkf_graph* graph, char** made);

/* A named input. */
VKF_API vkf_status vkf_input(vkf_graph* graph, const char* name, const vkf_type* type, vkf_value* added);
/* A dense literal, row-major: `bytes` bytes at `data`, exactly the elements of the type, which has no symbols. */
VKF_API vkf_status vkf_constant(vkf_graph* graph, const vkf_type* type, const void* data, size_t bytes,
                                vkf_value* added);
/* One element, rounded to the dtype. */
VKF_API vkf_status vkf_scalar(vkf_graph* graph, vkf_dtype dtype, double value, vkf_value* added);
/* Any op but an input or constant, or a composite, which adds the ops that it is written with. Dtypes and shapes are
 * checked here, and nothing is added if they are wrong. */
VKF_API vkf_status vkf_apply(vkf_graph* graph, const vkf_op* op, const vkf_value* operands, size_t operand_count,
                             vkf_value* added);
/* What vkf_gradients() is asked for: values of one graph. */
typedef struct vkf_gradient_request {
  const vkf_value* outputs; /* floats */
  size_t output_count;
  const vkf_value* wrt; /* floats: inputs, or values on the way */
  size_t wrt_count;
  const vkf_value* cotangents; /* one of each output's type; none: ones, so that a scalar has its gradient */
  size_t cotangent_count;
  const vkf_value* constants; /* values that no gradient goes through */
  size_t constant_count;
} vkf_gradient_request;
/* Adds the gradient of sum(cotangent * output), over all outputs, with respect to each of `wrt`: `gradients` has room
 * for as many values. They are values like any others, and have gradients too. docs/gradients.md says what the gradient
 * of each op is. Nothing is added where something is wrong, as an op on the way that has no gradient. */
VKF_API vkf_status vkf_gradients(vkf_graph* graph, const vkf_gradient_request* request, vkf_value* gradients);
/* Names a result. */
VKF_API vkf_status vkf_output(vkf_graph* graph, const char* name, vkf_value value);
/* The type of a value. */
VKF_API vkf_status vkf_value_type(const vkf_graph* graph, vkf_value value, vkf_type_report* report);

/* ---- programs ---- */

typedef struct vkf_program vkf_program;

typedef enum vkf_numerics {
  VKF_NUMERICS_STANDARD = 0, /* 16-bit floats are computed in f32 through a kernel; casts and stores round */
  VKF_NUMERICS_STRICT = 1,   /* every op rounds to its dtype: fused and unfused runs are bit-identical */
  /* Standard, but cooperative matrices may add up products of f16 in f16: n of them are off by up to n * 2^-11 of the
   * sum of their magnitudes, and infinite beyond 65504. */
  VKF_NUMERICS_F16_ACCUMULATION = 2
} vkf_numerics;

/* How far a search for faster schedules has come. */
typedef struct vkf_tune_progress {
  size_t size;    /* of what vkf_program_tune() fills at its end: set to sizeof by the caller */
  int segment;    /* kernels that have been looked at; of those that repeat, one */
  int segments;   /* that there are */
  int candidates; /* schedules that were compiled and checked */
  int adopted;    /* kernels that run another way from now on */
  double spent_ms, budget_ms;
} vkf_tune_progress;

typedef enum vkf_tune {
  VKF_TUNE_OFF = 0,        /* schedules are what the model chooses */
  VKF_TUNE_ON = 1,         /* measured by vkf_compile() */
  VKF_TUNE_BACKGROUND = 2, /* measured beside the runs that follow the first one */
} vkf_tune;

typedef struct vkf_compile_options {
  size_t size;
  vkf_numerics numerics;
  int no_fusion;              /* not 0: one kernel per op, for comparison */
  const char* const* without; /* passes of the planner to do without, by the names of docs/command-line.md */
  size_t without_count;
  const char* planner; /* "bytes", or for comparison "store-all", "recompute-all" or "greedy-io"; null: "bytes" */
  const char* plan; /* what vkf_program_save_plan() gave for an equal graph and such a device: nothing is planned; null:
                       it is */
  vkf_tune tune;
  double tune_ms;         /* what measuring may take, about; 0: a second */
  uint64_t memory_budget; /* the most bytes of device memory that the intermediate values of one run may take, or
                             VKF_OUT_OF_MEMORY; 0: any number */
} vkf_compile_options;

/* Compiles what the graph's outputs need; the graph may be changed or given back afterwards. `options` may be null. */
VKF_API vkf_status vkf_compile(const vkf_device* device, const vkf_graph* graph, const vkf_compile_options* options,
                               vkf_program** made);
VKF_API void vkf_program_free(vkf_program* program);

/* VKF_OK if vkf_compile() would take the graph; else its error. No shader is compiled: for a host that asks which part
 * of its own graph it may hand over. */
VKF_API vkf_status vkf_supports(const vkf_device* device, const vkf_graph* graph, const vkf_compile_options* options);

/* The same for one op on inputs of these types. */
VKF_API vkf_status vkf_supports_op(const vkf_device* device, const vkf_op* op, const vkf_type* operands,
                                   size_t operand_count);

VKF_API size_t vkf_program_input_count(const vkf_program* program);
VKF_API size_t vkf_program_output_count(const vkf_program* program);
/* As long as the program lives; null beyond the last one. */
VKF_API const char* vkf_program_input_name(const vkf_program* program, size_t index);
VKF_API const char* vkf_program_output_name(const vkf_program* program, size_t index);
/* Dispatches of one run; 0 for null. */
VKF_API size_t vkf_program_kernel_count(const vkf_program* program);

typedef enum vkf_stage {
  VKF_STAGE_GRAPH = 0,
  VKF_STAGE_PLAN = 1,
  VKF_STAGE_JSON = 2,
  VKF_STAGE_GLSL = 3,
  VKF_STAGE_SPIRV = 4,
  VKF_STAGE_MSL = 5,
  VKF_STAGE_HLSL = 6,
  VKF_STAGE_HTML = 7
} vkf_stage;

/* The graph as it was compiled, the plan as text, JSON or a page for a browser, or the code of every kernel. */
VKF_API vkf_status vkf_program_explain(const vkf_program* program, vkf_stage stage, char** made);
/* The code of one segment of the plan, counted from 0; of the stages that are code. */
VKF_API vkf_status vkf_program_explain_segment(const vkf_program* program, vkf_stage stage, size_t segment,
                                               char** made);
/* The plan as JSON, for `plan` of vkf_compile_options in another process: its segments and how each is scheduled. A
 * text that was changed, or is of another graph or device, is one sentence of an error when it is compiled with, and
 * never a wrong result. */
VKF_API vkf_status vkf_program_save_plan(const vkf_program* program, char** made);
/* The type of an input or output by its name. */
VKF_API vkf_status vkf_program_type(const vkf_program* program, const char* name, vkf_type_report* report);

/* The size of a symbolic dimension for one run. */
typedef struct vkf_symbol {
  const char* name; /* not null */
  int64_t size;     /* in elements */
} vkf_symbol;

/* How large an input or output is. */
typedef struct vkf_sizes_report {
  int64_t* sizes;  /* room for the sizes of its dimensions in elements, outermost first */
  size_t capacity; /* sizes there is room for */
  size_t rank;     /* set by the function, as the next */
  uint64_t bytes;  /* of all elements, as vkf_run() takes them */
} vkf_sizes_report;

/* The sizes of an input or output (by name) when symbols have these sizes. */
VKF_API vkf_status vkf_program_sizes(const vkf_program* program, const char* name, const vkf_symbol* symbols,
                                     size_t symbol_count, vkf_sizes_report* report);

/* Memory of one run in bytes, as buffers are padded. */
typedef struct vkf_memory {
  size_t size;        /* set to sizeof by the caller */
  uint64_t arena;     /* intermediate values, packed by lifetime; one arena per run in flight */
  uint64_t constants; /* uploaded at the first run, and shared by the programs of a device that have equal ones */
  uint64_t inputs;    /* of vkf_run(): one set per run in flight; of vkf_submit(): what the caller has made */
  uint64_t outputs;   /* likewise; none for a result that lies inside an input or another result */
  uint64_t staging;   /* host memory that vkf_run() copies through; 0 where the device's memory is the host's */
} vkf_memory;

/* What a run takes when symbols have these sizes, every symbol one. Nothing is compiled or allocated. A run that the
 * device's memory does not hold is VKF_OUT_OF_MEMORY before anything is allocated. */
VKF_API vkf_status vkf_program_memory(const vkf_program* program, const vkf_symbol* symbols, size_t symbol_count,
                                      vkf_memory* memory);

/* How vkf_program_tune() measures. */
typedef struct vkf_tune_options {
  size_t size;
  const vkf_symbol* symbols; /* the sizes to measure at, every symbol one; none: representative ones */
  size_t symbol_count;
  void (*progress)(void* user, const vkf_tune_progress* so_far); /* called after each kernel; must not call vkfuse.
                                                                    Null: nothing is called */
  void* progress_user;                                           /* passed to `progress` */
} vkf_tune_options;

/* Measures other schedules of the kernels for about `budget_ms`, checks their results against the kernels' own, and
 * runs what is faster from now on; the device's store keeps it. `options` and `end` may be null. VKF_UNSUPPORTED where
 * the queue has no timestamps. */
VKF_API vkf_status vkf_program_tune(const vkf_program* program, double budget_ms, const vkf_tune_options* options,
                                    vkf_tune_progress* end);

/* ---- runs on host memory ---- */

/* A dense input, read until vkf_run() returns. */
typedef struct vkf_host_input {
  const char* name; /* not null */
  const void* data; /* its elements, row-major; null allowed if there are none */
  size_t bytes;
  const int64_t* sizes; /* of the dimensions, `rank` of them; null where the shape has at most one symbol */
  size_t rank;
} vkf_host_input;

/* Where a result goes. */
typedef struct vkf_host_output {
  const char* name; /* not null */
  void* data;       /* written before vkf_run() returns; null allowed if the result has no elements */
  size_t capacity;  /* bytes at `data` */
  size_t bytes;     /* set by vkf_run() */
} vkf_host_output;

/* Uploads, runs, waits, downloads. Outputs that are not named are computed and dropped. If a `capacity` is too small
 * nothing runs, and the error says how many bytes that output takes. The memory of an output does not overlap that of
 * other outputs; after another error nothing in particular is in it. */
VKF_API vkf_status vkf_run(const vkf_program* program, const vkf_host_input* inputs, size_t input_count,
                           vkf_host_output* outputs, size_t output_count);

/* ---- runs on device memory ---- */

typedef struct vkf_buffer vkf_buffer;
typedef struct vkf_submission vkf_submission;

/* Device memory. */
VKF_API vkf_status vkf_buffer_create(const vkf_device* device, uint64_t bytes, vkf_buffer** made);
/* For a tensor of this type, which has no symbols. What the device does not allocate at once lies in pieces of whole
 * rows of its outermost axis; programs bind such tensors to such buffers alone. */
VKF_API vkf_status vkf_buffer_create_for(const vkf_device* device, const vkf_type* type, vkf_buffer** made);
VKF_API void vkf_buffer_free(vkf_buffer* buffer);
VKF_API uint64_t vkf_buffer_size(const vkf_buffer* buffer);
/* Copies between host and device; both wait for what was submitted before. A result of at most 4 KiB of a run with
 * donated inputs may be read before that run has ended: vkf_submission_wait waits for it. */
VKF_API vkf_status vkf_buffer_write(vkf_buffer* buffer, uint64_t offset, const void* data, size_t bytes);
VKF_API vkf_status vkf_buffer_read(const vkf_buffer* buffer, uint64_t offset, void* data, size_t bytes);

/* The buffer of an input or output. */
typedef struct vkf_binding {
  const char* name;   /* not null */
  vkf_buffer* buffer; /* not null */
} vkf_binding;

/* What one run works on. The buffers may be given back at once: they live until the run is done. */
typedef struct vkf_bindings {
  size_t size;
  const vkf_binding* inputs; /* every input of the program */
  size_t input_count;
  const vkf_binding* outputs; /* every output. Where an input is donated they may be left out: they take its buffer if
                                 it fits, else a new one */
  size_t output_count;
  const vkf_symbol* symbols; /* the size of every symbol of the program, and of no other */
  size_t symbol_count;
  const char* const* donated; /* names of inputs that are not needed after the run: their buffers, each bound to that
                                 input alone, may take results and intermediate values once the input has been read for
                                 the last time, and hold nothing in particular afterwards */
  size_t donated_count;
} vkf_bindings;

/* Hands one run to the device without waiting, after everything submitted before. */
VKF_API vkf_status vkf_submit(const vkf_program* program, const vkf_bindings* bindings, vkf_submission** made);
/* The buffer that holds an output of the run, to be given back. */
VKF_API vkf_status vkf_submission_output(const vkf_submission* submission, const char* name, vkf_buffer** made);
/* Blocks until the run is done, or the device is lost. */
VKF_API vkf_status vkf_submission_wait(const vkf_submission* submission);
/* `done` becomes 1 or 0, without blocking. */
VKF_API vkf_status vkf_submission_done(const vkf_submission* submission, int* done);
/* Waits for the run. */
VKF_API void vkf_submission_free(vkf_submission* submission);

/* ---- device time ---- */

/* Of one segment of a plan. */
typedef struct vkf_kernel_time {
  char kernel[64]; /* its name */
  double microseconds;
  uint64_t bytes; /* that its kernels read and write, each element once */
} vkf_kernel_time;

/* Of every segment of a plan. */
typedef struct vkf_profile_report {
  vkf_kernel_time* times; /* room for them, in running order */
  size_t capacity;        /* times there is room for */
  size_t count;           /* set by the function */
} vkf_profile_report;

/* Runs as vkf_submit() does, some times, waits, and reports the device time of every segment: medians. Buffers that are
 * read and written, as those of donated inputs are, hold afterwards what so many runs leave in them. VKF_UNSUPPORTED
 * where the queue has no timestamps. */
VKF_API vkf_status vkf_profile(const vkf_program* program, const vkf_bindings* bindings, vkf_profile_report* report);
/* The same with inputs from the host. */
VKF_API vkf_status vkf_profile_host(const vkf_program* program, const vkf_host_input* inputs, size_t input_count,
                                    vkf_profile_report* report);

/* ---- several ranks ---- */

/* One model on several devices (docs/parallel.md): a rank is one program on one device, with a thread or a process of
 * its own. Every rank makes the same calls in the same order.
 *
 *     vkf_transport* transports[2];      vkf_thread_transports(2, transports);
 *     vkf_shard(graph, w, 1, 0, &w);     each rank has half of the columns
 *     const int mesh[1] = {2};
 *     const vkf_parallel_options options = {.size = sizeof options, .mesh = mesh, .mesh_count = 1};
 *     vkf_compile_parallel(device, transports[rank], graph, &options, &program);     on each rank's thread
 *     vkf_parallel_program_run(program, inputs, input_count, outputs, output_count);
 */

/* The value, divided along `axis` over an axis of the mesh that the program is compiled for; counted from 0, and of
 * `axis` from -1 backwards. Annotations of one value add up. vkf_compile() takes the value as it is. */
VKF_API vkf_status vkf_shard(vkf_graph* graph, vkf_value value, int axis, int mesh_axis, vkf_value* added);
/* The value, whole on every rank. */
VKF_API vkf_status vkf_replicate(vkf_graph* graph, vkf_value value, vkf_value* added);
/* The value on stage `stage` of a pipeline along an axis of the mesh, both counted from 0, and with it what is computed
 * of it, until another annotation. What follows from no annotated value, as weights, is on each stage that reads it. An
 * output that is annotated so is an output of the ranks of its stage alone. vkf_compile() takes the value as it is. */
VKF_API vkf_status vkf_at_stage(vkf_graph* graph, vkf_value value, int stage, int mesh_axis, vkf_value* added);
/* The value, worked on in vkf_parallel_options.micro_batches equal parts along `axis`, from -1 backwards, and with it
 * what follows from it. vkf_compile() takes the value as it is. */
VKF_API vkf_status vkf_micro_batch(vkf_graph* graph, vkf_value value, int axis, vkf_value* added);

/* Carries bytes between this rank and the others of a job. One thread at a time compiles or runs programs of a
 * transport: another one waits. */
typedef struct vkf_transport vkf_transport;

/* Transports of ranks that are threads of this process, one for each: several devices, or one device. `made` has room
 * for `ranks` of them, 1 to 1,024, which are given back one by one, and are all null if it fails. */
VKF_API vkf_status vkf_thread_transports(int ranks, vkf_transport** made);

/* Bytes that a rank sends. */
typedef struct vkf_send {
  int to; /* the rank that receives them */
  const void* data;
  size_t bytes;
} vkf_send;

/* Bytes that a rank receives. */
typedef struct vkf_receive {
  int from;   /* the rank that sends them */
  void* data; /* where they go */
  size_t bytes;
} vkf_receive;

/* Messages between this rank and others, all in flight at once. The n-th message to a rank is the n-th that it receives
 * from this one in its exchange of the same number. None is empty, and no rank sends to itself. */
typedef struct vkf_exchange {
  size_t size;
  uint64_t number; /* counts up, and names the same exchange on every rank */
  const vkf_send* sends;
  size_t send_count;
  const vkf_receive* receives;
  size_t receive_count;
  double timeout_ms;  /* how long to wait, from the call on */
  char sentence[256]; /* empty. A function that fails may leave one sentence here, for the error */
} vkf_exchange;

/* A transport of the caller's: one rank of a job. */
typedef struct vkf_transport_functions {
  size_t size;
  int rank;  /* of this transport, counted from 0 */
  int ranks; /* of the job */
  /* Returns VKF_OK when everything has arrived and what is sent may be overwritten; VKF_IO after the timeout, or at
   * once where a rank is known to have failed. It is not called again after an error. The memory is not touched after
   * it has returned: messages that cannot be taken back are copied. Called by the thread that compiles or runs; must
   * not call vkfuse. Not null. */
  vkf_status (*exchange)(void* user, vkf_exchange* exchange);
  /* Tells the other ranks that this one goes no further, so that they need not wait. Does not wait; called once at
   * most. Null: the others wait until their timeout. */
  void (*fail)(void* user, const char* sentence);
  /* Called once, when no transport and no program uses `user` any more. May be null. */
  void (*release)(void* user);
  void* user;
} vkf_transport_functions;

/* A transport that these functions are. `release` is not called if this fails. */
VKF_API vkf_status vkf_transport_create(const vkf_transport_functions* functions, vkf_transport** made);

typedef struct vkf_nccl_options {
  size_t size;
  const char* nccl;     /* NCCL 2.14 or later, a name that the system's loader finds, or a path; null: "libnccl.so.2" */
  const char* cuda;     /* the driver's library; null: "libcuda.so.1" */
  uint64_t least_bytes; /* shorter messages go by the other transport; 0: 256 KiB */
} vkf_nccl_options;

/* The ranks of another transport, which carries their messages still and is used by nothing else from now on; values go
 * from GPU to GPU by NCCL. `options` may be null. VKF_UNSUPPORTED where a library is not there or is too old; the first
 * program that has collectives fails where a device is not of CUDA. vkfuse/mpi.h has the transport over MPI. */
VKF_API vkf_status vkf_open_nccl(const vkf_transport* messages, const vkf_nccl_options* options, vkf_transport** made);

VKF_API void vkf_transport_free(vkf_transport* transport);
/* Of this process or thread, counted from 0; -1 for null. */
VKF_API int vkf_transport_rank(const vkf_transport* transport);
/* How many ranks the job has; 0 for null. */
VKF_API int vkf_transport_size(const vkf_transport* transport);
/* Tells the other ranks that this one goes no further, with one sentence that says why: their runs are errors from now
 * on, and so are this one's. Programs do this where a call fails; this is for what fails between calls. A run of this
 * rank in another thread is waited for. May not arrive. */
VKF_API vkf_status vkf_transport_fail(const vkf_transport* transport, const char* sentence);

/* A program of this rank. Of the programs of one transport one runs at a time. */
typedef struct vkf_parallel_program vkf_parallel_program;

typedef struct vkf_parallel_options {
  size_t size;
  const int* mesh;            /* ranks along each axis: their product is the size of the job. Ranks count along the last
                                 axis first. None: the program is not divided, each rank runs what it is given */
  size_t mesh_count;          /* axes of the mesh */
  int64_t timeout_ms;         /* how long a rank waits for others in a collective of a run; 0: 10 s */
  int64_t compile_timeout_ms; /* the same while ranks compile, of which one may take longer; 0: 120 s */
  const vkf_compile_options* compile; /* null: the default. A memory budget and a saved plan are VKF_UNSUPPORTED */
  int micro_batches;                  /* into how many parts vkf_micro_batch() divides values; 0: 1, not at all */
} vkf_parallel_options;

/* Compiles this rank's part; every rank calls it, and it returns when all have compiled. `options` may be null. The
 * graph may be changed or given back afterwards; threads may compile one at the same time. VKF_INVALID_ARGUMENT on
 * every rank where two have other collectives: the sentence names the rank and the first collective that differs. */
VKF_API vkf_status vkf_compile_parallel(const vkf_device* device, const vkf_transport* transport,
                                        const vkf_graph* graph, const vkf_parallel_options* options,
                                        vkf_parallel_program** made);
VKF_API void vkf_parallel_program_free(vkf_parallel_program* program);

/* Uploads, runs with the other ranks, downloads. Every rank runs the same programs in the same order, with the same
 * sizes of symbols. Inputs are whole on every rank, which uploads its part; those that were uploaded before may be left
 * out, and those that the stages of other ranks alone read. An output that is annotated is this rank's part, and any
 * other is whole. Nothing runs, and this rank may call again, where a pointer is null or an output has an unknown name.
 * Any other error before results are there is one of the job: the other ranks get one, too, within the timeout, and no
 * later run succeeds. Where a `capacity` is too small the run is done: the error says how many bytes that output takes,
 * and vkf_parallel_program_download() has it. */
VKF_API vkf_status vkf_parallel_program_run(const vkf_parallel_program* program, const vkf_host_input* inputs,
                                            size_t input_count, vkf_host_output* outputs, size_t output_count);
/* Places inputs, as a run takes them, on the device for every later run: weights cross once. One that is given to a run
 * has those values in that run, and has to be placed again for later ones. Does not speak with other ranks. */
VKF_API vkf_status vkf_parallel_program_upload(const vkf_parallel_program* program, const vkf_host_input* inputs,
                                               size_t input_count);
/* A run on inputs that were all placed, whose results stay on the device. Returns when they are there. */
VKF_API vkf_status vkf_parallel_program_execute(const vkf_parallel_program* program);
/* The results of the last run, as vkf_parallel_program_run() gives them. VKF_INVALID_ARGUMENT before the first. */
VKF_API vkf_status vkf_parallel_program_download(const vkf_parallel_program* program, vkf_host_output* outputs,
                                                 size_t output_count);
/* Device time of each kernel of this rank on the values of the last run, named by its part: "part 2, segment 0". Does
 * not speak with other ranks. VKF_INVALID_ARGUMENT before the first run; VKF_UNSUPPORTED where the queue has no
 * timestamps. */
VKF_API vkf_status vkf_parallel_program_profile(const vkf_parallel_program* program, vkf_profile_report* report);
/* The parts with their kernels and the collectives between them, with their bytes and why each is there. */
VKF_API vkf_status vkf_parallel_program_explain(const vkf_parallel_program* program, char** made);
/* As a run takes and gives them, in the order in which the program was written down, outputs without those that stay on
 * other stages; 0 for null. */
VKF_API size_t vkf_parallel_program_input_count(const vkf_parallel_program* program);
VKF_API size_t vkf_parallel_program_output_count(const vkf_parallel_program* program);
/* As long as the program lives; null beyond the last one. */
VKF_API const char* vkf_parallel_program_input_name(const vkf_parallel_program* program, size_t index);
VKF_API const char* vkf_parallel_program_output_name(const vkf_parallel_program* program, size_t index);
/* The type of an input or output by its name. */
VKF_API vkf_status vkf_parallel_program_type(const vkf_parallel_program* program, const char* name,
                                             vkf_type_report* report);
/* Dispatches of one run of this rank; 0 for null. */
VKF_API size_t vkf_parallel_program_kernel_count(const vkf_parallel_program* program);
/* Collectives of one run; 0 for null. */
VKF_API size_t vkf_parallel_program_collective_count(const vkf_parallel_program* program);

/* ---- lazy evaluation ---- */

/* Tensors whose elements are on a device, and the ops on them as they are called. vkf_tensor_apply() records an op: it
 * checks dtypes and shapes, and neither compiles nor waits. Evaluating compiles what has been recorded, hands it to the
 * device, and gives the tensors values, which have then forgotten how they came about. Programs are kept by their
 * structure, so the second pass of a loop compiles nothing; where only sizes of values differ from one pass to the
 * next, they become symbols of a program for all sizes. A tensor that is alive and was not asked for is not computed;
 * after four evaluations it is, along with the next, so that a loop that holds one of every pass does not hold all they
 * were made from. A stream and its tensors are used by one thread at a time. */
typedef struct vkf_stream vkf_stream;
typedef struct vkf_tensor vkf_tensor;

/* `options` may be null. */
VKF_API vkf_status vkf_stream_create(const vkf_device* device, const vkf_compile_options* options, vkf_stream** made);
VKF_API void vkf_stream_free(vkf_stream* stream);

/* A tensor of these elements: `bytes` bytes at `data`, row-major, which are copied. The type has no symbols. */
VKF_API vkf_status vkf_tensor_create(const vkf_stream* stream, const vkf_type* type, const void* data, size_t bytes,
                                     vkf_tensor** made);
/* A tensor of what is in a buffer of the stream's device, which is read whenever it is computed with. The type has no
 * symbols. */
VKF_API vkf_status vkf_tensor_wrap(const vkf_stream* stream, const vkf_buffer* buffer, const vkf_type* type,
                                   vkf_tensor** made);
/* One element, rounded to the dtype, for any stream: part of the programs that it is in. */
VKF_API vkf_status vkf_tensor_scalar(vkf_dtype dtype, double value, vkf_tensor** made);
/* What vkf_tensor_gradients() is asked for: as of vkf_gradient_request. */
typedef struct vkf_tensor_gradient_request {
  const vkf_tensor* const* outputs;
  size_t output_count;
  const vkf_tensor* const* wrt;
  size_t wrt_count;
  const vkf_tensor* const* cotangents;
  size_t cotangent_count;
} vkf_tensor_gradient_request;
/* vkf_gradients() on tensors: `made` has room for as many as `wrt` has, all of which are null if it fails. A tensor
 * whose elements are computed has forgotten what it was computed from: take gradients before that. */
VKF_API vkf_status vkf_tensor_gradients(const vkf_tensor_gradient_request* request, vkf_tensor** made);
/* The tensor, but a constant to vkf_tensor_gradients(). */
VKF_API vkf_status vkf_tensor_stop_gradient(const vkf_tensor* tensor, vkf_tensor** made);
/* The op of vkf_apply() on tensors. Operands of two streams are an error. */
VKF_API vkf_status vkf_tensor_apply(const vkf_op* op, const vkf_tensor* const* operands, size_t operand_count,
                                    vkf_tensor** made);
/* `tensor` with `rows` behind it, along axis 0; both get values. In time that goes with the rows, as long as `tensor`
 * is appended to once: a cache. */
VKF_API vkf_status vkf_tensor_append(const vkf_stream* stream, const vkf_tensor* tensor, const vkf_tensor* rows,
                                     vkf_tensor** made);
VKF_API void vkf_tensor_free(vkf_tensor* tensor);
/* The type of a tensor. */
VKF_API vkf_status vkf_tensor_type(const vkf_tensor* tensor, vkf_type_report* report);

/* Hands the computation of these tensors to the device without waiting for its end. */
VKF_API vkf_status vkf_stream_eval(const vkf_stream* stream, const vkf_tensor* const* tensors, size_t count);
/* Evaluates, waits, and copies `bytes` bytes to `data`: exactly the elements. */
VKF_API vkf_status vkf_stream_read(const vkf_stream* stream, const vkf_tensor* tensor, void* data, size_t bytes);
/* The program that evaluating these tensors would compile, in the text form of docs/text-ir.md. Nothing is evaluated.
 */
VKF_API vkf_status vkf_stream_dump(const vkf_stream* stream, const vkf_tensor* const* tensors, size_t count,
                                   char** made);
/* What the last evaluation computed, and what will become of tensors that were not asked for, a line each. */
VKF_API vkf_status vkf_stream_explain(const vkf_stream* stream, char** made);

typedef struct vkf_stream_report {
  size_t size;
  uint64_t evaluations;  /* that had something to compute */
  uint64_t plans;        /* programs compiled; every other evaluation took one that was there */
  uint64_t kept;         /* values computed because their tensor had been held for long */
  uint64_t held;         /* tensors that are alive, were not asked for, and have no value */
  uint64_t recorded;     /* tensors that have no value, those that only others need among them */
  uint64_t kernels;      /* of the last evaluation, as the next */
  uint64_t bytes;        /* that they read and write */
  uint64_t buffer_bytes; /* device memory of values that are alive and of buffers that wait for the next ones */
} vkf_stream_report;

VKF_API vkf_status vkf_stream_status(const vkf_stream* stream, vkf_stream_report* report);

/* ---- inside a program that uses Vulkan itself ---- */

/* Handles are Vulkan's: those that are pointers everywhere as void*, buffers and memory as 64-bit integers. */

/* A block of memory that the host hands out. */
typedef struct vkf_host_memory {
  uint64_t memory; /* VkDeviceMemory; 0: none is left */
  uint64_t offset; /* bytes from its start */
  void* mapped;    /* the block's first byte, if the host has it mapped; memory is not mapped twice */
} vkf_host_memory;

/* What a host lends. Everything stays the host's, and must live until the device and all that was made with it are
 * given back. */
typedef struct vkf_host_device {
  size_t size;
  void (*get_instance_proc_addr)(void); /* PFN_vkGetInstanceProcAddr, cast; null: that of the machine's loader */
  void* instance;                       /* VkInstance */
  void* physical_device;                /* VkPhysicalDevice */
  void* device;                         /* VkDevice */
  void* queue;                          /* VkQueue of a family that computes */
  uint32_t queue_family;
  uint32_t api_version;    /* VkApplicationInfo.apiVersion, as the instance was made with; 0: 1.1 */
  const void* create_info; /* the VkDeviceCreateInfo, with its chain, that the device was made with, read during the
                              call alone: features and extensions that it does not enable are not used. Null: none is */
  /* Called with `user` around each use of the queue. Both or neither: then the host does not use the queue while it
   * calls vkfuse, and lets one thread at a time do so. */
  void (*lock_queue)(void* user);
  void (*unlock_queue)(void* user);
  /* Device memory from the host instead of vkAllocateMemory, by any thread. Both or neither. `bytes` of memory type
   * `type` at a multiple of `alignment`; if `mapped` is not 0 the block must be mapped, else it may be. */
  vkf_host_memory (*allocate)(void* user, uint64_t bytes, uint64_t alignment, uint32_t type, int mapped);
  void (*release)(void* user, const vkf_host_memory* block);
  void* user;
} vkf_host_device;

/* Works on the device of a host program and does not destroy it. `options` may be null; its `name` is not looked at.
 * vkf_device_free(), or giving back the last thing made with it, waits until the queue is idle. */
VKF_API vkf_status vkf_device_adopt(const vkf_host_device* host, const vkf_device_options* options, vkf_device** made);

/* `bytes` of a host's VkBuffer from `offset`, a multiple of 256 or of the device's minStorageBufferOffsetAlignment. The
 * VkBuffer has usage STORAGE_BUFFER, TRANSFER_SRC and TRANSFER_DST, and stays the host's. A tensor bound to it takes
 * its bytes rounded up to a multiple of 16, and what it leaves of the last 16 is overwritten. */
VKF_API vkf_status vkf_buffer_wrap(const vkf_device* device, uint64_t vk_buffer, uint64_t bytes, uint64_t offset,
                                   vkf_buffer** made);
/* The VkBuffer; 0 for null. */
VKF_API uint64_t vkf_buffer_vulkan_handle(const vkf_buffer* buffer);

/* What was appended to a host's command buffer. */
typedef struct vkf_recording vkf_recording;

/* Appends one run to a VkCommandBuffer that is recording, outside of a render pass, from a pool of the adopted queue's
 * family. The host submits it, as often as it likes, and gives the recording back when it has run for the last time.
 * Two memory barriers are recorded: what compute shaders and transfers did before, on this queue, is done and visible
 * to the kernels; what the kernels wrote is visible to compute shaders, transfers and the host after. Every other stage
 * is the host's to wait for. The compute pipeline, its descriptor set 0 and push constants are others afterwards. After
 * an error the command buffer must be reset. No input may be donated, as the host may submit it again. */
VKF_API vkf_status vkf_record(const vkf_program* program, void* command_buffer, const vkf_bindings* bindings,
                              vkf_recording** made);
VKF_API void vkf_recording_free(vkf_recording* recording);

#ifdef __cplusplus
}
#endif

#endif

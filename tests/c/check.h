/* A test in C: what is checked, and counting what fails. */
#ifndef VKFUSE_TESTS_C_CHECK_H
#define VKFUSE_TESTS_C_CHECK_H

#include <stdio.h>
#include <string.h>
#include <vkfuse/vkfuse.h>

extern int failures;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      ++failures;                                                     \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
    }                                                                 \
  } while (0)

/* A call that succeeds. */
#define OK(call)                                                                       \
  do {                                                                                 \
    const vkf_status status_ = (call);                                                 \
    if (status_ != VKF_OK) {                                                           \
      ++failures;                                                                      \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, vkf_last_error()); \
    }                                                                                  \
  } while (0)

/* A call that fails with this status, and a sentence that has these words. */
#define REFUSED(call, status, words) check_refused((call), (status), (words), #call, __LINE__)

void check_refused(vkf_status got, vkf_status want, const char* words, const char* call, int line);

/* Parts of the test. */
void test_arguments(const vkf_device* device);
void test_graphs(void);
void test_runs(const vkf_device* device);
void test_streams(const vkf_device* device);
void test_composites(const vkf_device* device);
void test_gradients(const vkf_device* device);
void test_parallel(const vkf_device* device);
#ifdef VKFUSE_TEST_ONNX
void test_onnx(const vkf_device* device);
#endif

#endif

/* The C interface, used from C: everything works, and everything wrong is a status and a sentence. */
#include "check.h"

#include <stdlib.h>

int failures = 0;

void check_refused(vkf_status got, vkf_status want, const char* words, const char* call, int line) {
  const char* said = vkf_last_error();
  const char* end = strchr(said, '\n'); /* the lines after the first say what was being done */
  const size_t length = end == NULL ? strlen(said) : (size_t)(end - said);
  if (got == want && strstr(said, words) != NULL && length > 10 && said[length - 1] == '.') return;
  ++failures;
  fprintf(stderr, "line %d: %s gives %d, not %d, or its sentence lacks '%s': %s\n", line, call, (int)got, (int)want,
          words, said);
}

/* The driver that the environment names, and no other. */
static void check_driver(const vkf_device* device) {
  const char* driver = getenv("VKFUSE_TEST_DRIVER");
  const char* name = vkf_device_name(device);
  CHECK(name != NULL);
  if (driver == NULL || name == NULL) return;
  if (strcmp(driver, "lavapipe") == 0) CHECK(strstr(name, "llvmpipe") != NULL);
  if (strcmp(driver, "swiftshader") == 0) CHECK(strstr(name, "SwiftShader") != NULL);
}

int main(void) {
  vkf_device* device = NULL;
  CHECK(vkf_last_error() != NULL && *vkf_last_error() == '\0');
  CHECK(strcmp(vkf_version(), VKFUSE_EXPECTED_VERSION) == 0);
  OK(vkf_device_open(NULL, &device));
  if (device == NULL) return 1;
  check_driver(device);
  test_arguments(device);
  test_graphs();
  test_runs(device);
  test_streams(device);
  test_composites(device);
  test_gradients(device);
  test_parallel(device);
#ifdef VKFUSE_TEST_ONNX
  test_onnx(device);
#endif
  vkf_device_free(device);
  if (failures == 0) puts("everything is as it should be");
  return failures == 0 ? 0 : 1;
}

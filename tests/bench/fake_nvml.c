// As much of NVIDIA's library as the benchmark asks for, with one device that knows no temperature.
#include <string.h>

__attribute__((visibility("default"))) int nvmlInit_v2(void) { return 0; }
__attribute__((visibility("default"))) int nvmlShutdown(void) { return 0; }

__attribute__((visibility("default"))) int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  static int one;
  *device = &one;
  return strcmp(uuid, "GPU-00112233-4455-6677-8899-aabbccddeeff") == 0 ? 0 : 6;
}

__attribute__((visibility("default"))) int nvmlDeviceGetClockInfo(void* device, unsigned kind, unsigned* mhz) {
  (void)device;
  *mhz = kind == 1 ? 1980 : kind == 2 ? 2619 : 1;
  return 0;
}

__attribute__((visibility("default"))) int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  (void)device;
  *milliwatts = 412500;
  return 0;
}

__attribute__((visibility("default"))) int nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* celsius) {
  (void)device, (void)sensor;
  *celsius = 99;
  return 3;
}

// Stands before Mesa's v3d_noop shim (LD_PRELOAD), which is a V3D 4.2 alone and does not know parameters that its own
// driver asks for: answers those of DRM_IOCTL_V3D_GET_PARAM, and leaves every other call to the shim.
//   V3D_CHIP=71     the version of the chip: 42 (Raspberry Pi 4, unless told) or 71 (Raspberry Pi 5)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

// Of the kernel's drm/v3d_drm.h.
enum {
  kGetParam = 0xC0106444,  // DRM_IOWR(DRM_COMMAND_BASE + DRM_V3D_GET_PARAM, struct drm_v3d_get_param)
  kCoreIdent0 = 4,         // "V3D", and the major version in the highest byte
  kCoreIdent1 = 5,         // the minor version in the lowest four bits, then slices and processors of each
  kSupportsMultisyncExt = 11,
  kSupportsCpuQueue = 12,
  kMaxPerfCounters = 13,
  kSupportsSuperPages = 14
};

struct Parameter {
  uint32_t which, unused;
  uint64_t value;
};

static int answer(struct Parameter* parameter) {
  const char* const text = getenv("V3D_CHIP");
  const int chip = text == NULL ? 42 : atoi(text);
  switch (parameter->which) {
    case kCoreIdent0: parameter->value = (uint64_t)(chip / 10) << 24 | 0x443356; return 1;
    case kCoreIdent1: parameter->value = 0x81001420 | (uint64_t)(chip % 10); return 1;
    case kSupportsMultisyncExt: parameter->value = 1; return 1;
    case kSupportsCpuQueue: parameter->value = 1; return 1;
    case kMaxPerfCounters: parameter->value = 0; return 1;  // the shim does not know what would be asked of each
    case kSupportsSuperPages: parameter->value = 0; return 1;
    default: return 0;
  }
}

int ioctl(int file, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if ((uint32_t)request == (uint32_t)kGetParam && answer(argument)) return 0;
  int (*const next)(int, unsigned long, ...) = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
  return next(file, request, argument);
}

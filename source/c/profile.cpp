// Device time through C.
#include <algorithm>

#include "c/handles.hpp"

namespace vkfuse::c {

namespace {

Result<void> copy_times(const std::vector<KernelTime>& times, vkf_kernel_time* place, std::size_t capacity,
                        std::size_t* count) {
  for (std::size_t i = 0; i < std::min(times.size(), capacity); ++i) {
    place[i] = {};
    times[i].kernel.copy(place[i].kernel, sizeof place[i].kernel - 1);
    place[i].microseconds = times[i].microseconds;
    place[i].bytes = times[i].bytes;
  }
  if (count != nullptr) *count = times.size();
  return {};
}

}  // namespace

}  // namespace vkfuse::c

using namespace vkfuse;  // NOLINT: this file is the C side

vkf_status vkf_profile(const vkf_program* program, const vkf_binding* inputs, size_t input_count,
                       const vkf_binding* outputs, size_t output_count, const vkf_symbol* symbols, size_t symbol_count,
                       vkf_kernel_time* times, size_t capacity, size_t* count) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_TRY(place, c::list(times, capacity, "times"));
    VKF_TRY(bindings, c::to_bindings(*program, inputs, input_count, outputs, output_count, symbols, symbol_count));
    VKF_TRY(measured, program->executable.profile(bindings));
    return c::copy_times(measured, times, place.size(), count);
  });
}

vkf_status vkf_profile_host(const vkf_program* program, const vkf_host_input* inputs, size_t input_count,
                            vkf_kernel_time* times, size_t capacity, size_t* count) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_TRY(place, c::list(times, capacity, "times"));
    VKF_TRY(given, c::to_inputs(inputs, input_count));
    VKF_TRY(measured, program->executable.profile_host(given));
    return c::copy_times(measured, times, place.size(), count);
  });
}

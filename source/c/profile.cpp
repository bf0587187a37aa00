// Device time through C.
#include <algorithm>

#include "c/handles.hpp"

namespace vkfuse::c {

Result<void> check_report(const vkf_profile_report* report) {
  VKF_CHECK_OK(need(report, "place for the times"));
  VKF_CHECK_OK(list(report->times, report->capacity, "times"));
  return {};
}

Result<void> report_times(const std::vector<KernelTime>& times, vkf_profile_report& report) {
  for (std::size_t i = 0; i < std::min(times.size(), report.capacity); ++i) {
    vkf_kernel_time& place = report.times[i];
    place = {};
    times[i].kernel.copy(place.kernel, sizeof place.kernel - 1);
    place.microseconds = times[i].microseconds;
    place.bytes = times[i].bytes;
  }
  report.count = times.size();
  return {};
}

}  // namespace vkfuse::c

using namespace vkfuse;  // NOLINT: this file is the C side

vkf_status vkf_profile(const vkf_program* program, const vkf_bindings* bindings, vkf_profile_report* report) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_CHECK_OK(c::check_report(report));
    VKF_TRY(bound, c::to_bindings(*program, bindings));
    VKF_TRY(measured, program->executable.profile(bound));
    return c::report_times(measured, *report);
  });
}

vkf_status vkf_profile_host(const vkf_program* program, const vkf_host_input* inputs, size_t input_count,
                            vkf_profile_report* report) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(program, "program"));
    VKF_CHECK_OK(c::check_report(report));
    VKF_TRY(given, c::to_inputs(inputs, input_count));
    VKF_TRY(measured, program->executable.profile_host(given));
    return c::report_times(measured, *report);
  });
}

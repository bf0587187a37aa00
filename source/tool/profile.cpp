// Device times, for people and for viewers of traces.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tool/commands.hpp"

namespace vkfuse::tool {

namespace {

/// In 10^9 bytes a second; 0 where a clock is too coarse to tell.
double rate_of(const KernelTime& time) {
  return time.microseconds > 0 ? static_cast<double>(time.bytes) / time.microseconds * 1e-3 : 0.0;
}

void print_row(const KernelTime& time, double all) {
  std::printf("  %-40s %12.2f %7.1f%% %14llu %10.2f\n", time.kernel.c_str(), time.microseconds,
              all > 0 ? 100 * time.microseconds / all : 0.0, static_cast<unsigned long long>(time.bytes),
              rate_of(time));
}

}  // namespace

void print_times(const std::vector<KernelTime>& times) {
  KernelTime all{"all"};
  for (const KernelTime& time : times) {
    all.microseconds += time.microseconds;
    all.bytes += time.bytes;
  }
  std::printf("  %-40s %12s %8s %14s %10s\n", "kernel", "device us", "share", "bytes", "GB/s");
  for (const KernelTime& time : times) print_row(time, all.microseconds);
  print_row(all, all.microseconds);
}

std::string to_trace(const std::vector<KernelTime>& times, const std::string& program, const std::string& device) {
  using Json = nlohmann::ordered_json;
  Json events = Json::array();
  const auto named = [](const char* what, const std::string& name) {
    return Json{{"ph", "M"}, {"name", what}, {"pid", 1}, {"tid", 1}, {"args", {{"name", name}}}};
  };
  events.push_back(named("process_name", device));
  events.push_back(named("thread_name", program));
  double start = 0;  // kernels of a profile run one after the other
  for (const KernelTime& time : times) {
    events.push_back({{"ph", "X"},
                      {"name", time.kernel},
                      {"cat", "kernel"},
                      {"pid", 1},
                      {"tid", 1},
                      {"ts", start},
                      {"dur", time.microseconds},
                      {"args", {{"bytes", time.bytes}, {"GB/s", rate_of(time)}}}});
    start += time.microseconds;
  }
  const Json trace = {{"traceEvents", events}, {"displayTimeUnit", "ns"}};
  return trace.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace vkfuse::tool

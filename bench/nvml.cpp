#include "nvml.hpp"

#include <fmt/format.h>

#include "os/system.hpp"

namespace vkfuse::bench {

namespace {

// As far as they are used, of the interface that every driver since 2012 has.
using Handle = void*;
constexpr int kSuccess = 0;
constexpr unsigned kClockOfProcessors = 1, kClockOfMemory = 2;
constexpr unsigned kTemperatureOfChip = 0;

/// The library, which stays loaded, between its initialisation and its end.
class Library {
 public:
  explicit Library(const char* name) : name_(name) {
    ready_ = find(init_, "nvmlInit_v2") && find(by_uuid_, "nvmlDeviceGetHandleByUUID") &&
             find(clock_, "nvmlDeviceGetClockInfo") && find(power_, "nvmlDeviceGetPowerUsage") &&
             find(temperature_, "nvmlDeviceGetTemperature") && find(shutdown_, "nvmlShutdown") && init_() == kSuccess;
  }
  ~Library() {
    if (ready_) shutdown_();
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  [[nodiscard]] std::optional<Readings> read(const std::string& uuid) const {
    Handle device = nullptr;
    if (!ready_ || by_uuid_(nvidia_uuid(uuid).c_str(), &device) != kSuccess) return std::nullopt;
    const auto number = [](int status, unsigned value, double scale) {
      return status == kSuccess ? std::optional(value * scale) : std::nullopt;
    };
    Readings all;
    unsigned value = 0;
    int status = clock_(device, kClockOfProcessors, &value);
    all.core_mhz = number(status, value, 1);
    status = clock_(device, kClockOfMemory, &value);
    all.memory_mhz = number(status, value, 1);
    status = temperature_(device, kTemperatureOfChip, &value);
    all.celsius = number(status, value, 1);
    status = power_(device, &value);
    all.watts = number(status, value, 1e-3);
    return all;
  }

 private:
  template <typename Function>
  bool find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(os::find_function(name_, name));
    return function != nullptr;
  }

  std::string name_;
  bool ready_ = false;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*by_uuid_)(const char*, Handle*) = nullptr;
  int (*clock_)(Handle, unsigned, unsigned*) = nullptr;
  int (*power_)(Handle, unsigned*) = nullptr;
  int (*temperature_)(Handle, unsigned, unsigned*) = nullptr;
};

}  // namespace

std::optional<Readings> nvml_readings(const std::string& uuid, const char* library) {
  return Library(library).read(uuid);
}

std::string nvidia_uuid(const std::string& uuid) {
  return fmt::format("GPU-{}-{}-{}-{}-{}", uuid.substr(0, 8), uuid.substr(8, 4), uuid.substr(12, 4), uuid.substr(16, 4),
                     uuid.substr(20));
}

}  // namespace vkfuse::bench

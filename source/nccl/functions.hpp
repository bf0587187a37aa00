// Functions of a library that may not be there.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "os/system.hpp"

namespace vkfuse::nccl {

class Loader {
 public:
  /// `what` is how the library is called in an error.
  Loader(std::string library, std::string_view what) : library_(std::move(library)), what_(what) {}

  template <typename Function>
  void load(const char* name, Function& function) {
    if (!try_load(name, function) && missing_.empty()) missing_ = name;
  }
  /// One that newer libraries have.
  template <typename Function>
  bool try_load(const char* name, Function& function) {
    function = reinterpret_cast<Function>(os::find_function(library_, name));
    return function != nullptr;
  }
  /// ErrorCode::unsupported where one was not found.
  [[nodiscard]] Result<void> loaded() const {
    if (missing_.empty()) return {};
    return unsupported("{} is not used: '{}' is not there or has no '{}'.", what_, library_, missing_);
  }

 private:
  std::string library_;
  std::string_view what_;
  std::string missing_;
};

}  // namespace vkfuse::nccl

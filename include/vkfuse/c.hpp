// What a library in C++ hands to programs in C.
#pragma once

#include <functional>
#include <memory>

#include "vkfuse/parallel.hpp"
#include "vkfuse/visibility.hpp"
#include "vkfuse/vkfuse.h"

namespace vkfuse VKFUSE_PUBLIC {

/// Hands out the transport that `open` returns, as a function of vkfuse.h does: `made` becomes a handle, or null, and
/// an error, or what is thrown, is this thread's vkf_last_error(). VKF_INVALID_ARGUMENT where `made` is null; `open` is
/// not called then.
///
///     vkf_status my_open(vkf_transport** made) { return vkfuse::hand_out(made, [] { return open_mine(); }); }
vkf_status hand_out(vkf_transport** made, const std::function<Result<std::shared_ptr<Transport>>()>& open) noexcept;

}  // namespace VKFUSE_PUBLIC

// vkfuse: tensor graphs as fused Vulkan compute kernels. This header includes the whole C++ API.
//
//     using namespace vkfuse;
//     Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), 4096});
//     Tensor y = relu(x * 2.0) + 1.0;
//     Result<Device> device = Device::open();
//     Result<Executable> program = compile(*device, {y});
//     Result<Outputs> out = program->run({{"x", HostView(data, {rows, 4096})}});
#pragma once

#include "vkfuse/collectives.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"
#include "vkfuse/custom.hpp"
#include "vkfuse/device.hpp"
#include "vkfuse/dtype.hpp"
#include "vkfuse/executable.hpp"
#include "vkfuse/experts.hpp"
#include "vkfuse/float_codes.hpp"
#include "vkfuse/float_format.hpp"
#include "vkfuse/generation.hpp"
#include "vkfuse/gradients.hpp"
#include "vkfuse/interop.hpp"
#include "vkfuse/ops.hpp"
#include "vkfuse/optimizers.hpp"
#include "vkfuse/result.hpp"
#include "vkfuse/shape.hpp"
#include "vkfuse/stream.hpp"
#include "vkfuse/tensor.hpp"
#include "vkfuse/timeline.hpp"

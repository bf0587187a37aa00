// Ranks whose values go from GPU to GPU by NCCL, over NVLink or what else NVIDIA's devices have between them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "vkfuse/parallel.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// What is loaded at run time: libvkfuse depends on neither.
struct NcclOptions {
  std::string nccl = "libnccl.so.2";  ///< NCCL 2.14 or later; a name that the system's loader finds, or a path
  std::string cuda = "libcuda.so.1";  ///< the driver's library
  /// Shorter messages go by the other transport, through the host, which is then faster.
  std::uint64_t least_bytes = 256 << 10;
};

/// The ranks of another transport, which carries their messages still and is used by nothing else from now on; values
/// go through NCCL. Memory and timelines of a device are shared with CUDA. Where NCCL copies with copy engines (2.28),
/// the host tells the stream when a value is there. ErrorCode::unsupported where a library is not there or is too old;
/// the first program that has collectives fails where a device is not of CUDA.
///
///     auto transport = open_nccl(*open_mpi());
Result<std::shared_ptr<Transport>> open_nccl(std::shared_ptr<Transport> messages, const NcclOptions& options = {});

}  // namespace VKFUSE_PUBLIC

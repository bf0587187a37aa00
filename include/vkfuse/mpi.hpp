// Ranks that are processes of an MPI job. In a library apart, vkfuse_mpi: libvkfuse does not depend on MPI.
#pragma once

#include <memory>

#include "vkfuse/parallel.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

struct MpiOptions {
  /// The caller's MPI_Comm, as a pointer to it; it is duplicated. Null: MPI_COMM_WORLD.
  const void* communicator = nullptr;
};

/// The transport of this process. Collective: every process of the communicator calls it. Where MPI is not initialised,
/// this does it, and the last transport that is gone finalises it, unless a rank has failed: MPI_Finalize() would wait
/// for it. MPI is initialised for one thread at a time (MPI_THREAD_SERIALIZED): of a process with several transports
/// one is used at a time. Errors of MPI are returned, and do not end the process. A caller that initialises an MPI
/// which is built on UCX sets UCX_TLS=^cma before, as this does where it is not set: UCX ends a process that reads the
/// memory of a dead one.
Result<std::shared_ptr<Transport>> open_mpi(const MpiOptions& options = {});

}  // namespace VKFUSE_PUBLIC

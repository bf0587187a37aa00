/* Ranks that are processes of an MPI job, for C: vkfuse.h says what holds for every function. In a library apart,
 * vkfuse_mpi: libvkfuse does not depend on MPI.
 *
 *     vkf_transport* transport;
 *     if (vkf_open_mpi(NULL, &transport) != VKF_OK) puts(vkf_last_error());
 */
#ifndef VKFUSE_MPI_H
#define VKFUSE_MPI_H

#include "vkfuse/vkfuse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The transport of this process. Collective: every process of the communicator calls it. `communicator` points to the
 * caller's MPI_Comm, which is duplicated; null: MPI_COMM_WORLD. Where MPI is not initialised, this does it, and giving
 * back the last transport and program finalises it, unless a rank has failed: MPI_Finalize() would wait for it. MPI is
 * initialised for one thread at a time (MPI_THREAD_SERIALIZED): of a process with several transports one is used at a
 * time. Errors of MPI are VKF_IO, and do not end the process; after one leave it by _Exit(). A caller that initialises
 * an MPI which is built on UCX sets UCX_TLS=^cma before, as this does where it is not set: UCX ends a process that
 * reads the memory of a dead one. */
VKF_API vkf_status vkf_open_mpi(const void* communicator, vkf_transport** made);

#ifdef __cplusplus
}
#endif

#endif

// The transport over MPI through C.
#include "vkfuse/c.hpp"
#include "vkfuse/mpi.h"
#include "vkfuse/mpi.hpp"

vkf_status vkf_open_mpi(const void* communicator, vkf_transport** made) {
  return vkfuse::hand_out(made, [communicator] { return vkfuse::open_mpi({communicator}); });
}

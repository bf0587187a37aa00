// What a rank sends and receives in a collective that moves bytes.
#pragma once

#include <vector>

#include "ir/graph.hpp"
#include "vkfuse/parallel.hpp"

namespace vkfuse::parallel {

/// The ranks of this rank's group, in the order of members, and which member it is.
struct Members {
  std::vector<int> ranks;
  int self = 0;
  [[nodiscard]] int count() const { return static_cast<int>(ranks.size()); }
};
/// ErrorCode::invalid_argument where the job's ranks do not make up whole groups.
Result<Members> members_of(const ir::RankGroup& group, int rank, int job);

/// What the members of a collective of Lowered send each other, on one of them.
struct Messages {
  std::vector<BufferPart> sends;     ///< of the operand
  std::vector<BufferPart> receives;  ///< into the result
  std::uint64_t bytes = 0;           ///< of each message, on every rank of the job
};
Messages messages_of(const ir::Node& node, const Members& members, std::uint64_t operand_bytes);

}  // namespace vkfuse::parallel

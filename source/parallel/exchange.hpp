// Collectives on bytes of the host, over a transport.
#pragma once

#include <memory>
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

/// Bytes that a transport may still read or write after an error.
using SharedBytes = std::shared_ptr<std::vector<std::byte>>;

/// One collective at some sizes.
struct CollectiveCall {
  const ir::Node& node;  ///< its op and attributes
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;  ///< of the operand
  SharedBytes operand;              ///< its elements; overwritten
  std::uint64_t number = 0;         ///< of its first exchange; it has kExchanges numbers
  std::chrono::steady_clock::time_point deadline;
};
inline constexpr std::uint64_t kExchanges = 2;

/// The elements of the result. Every member calls it. Each member exchanges with each other one directly: a rank that
/// is silent is known by its number, and sums have the same order on all.
Result<SharedBytes> run_collective(Transport& transport, const CollectiveCall& call);

/// Bytes that one rank sends to others in it, for plans.
std::int64_t bytes_sent(const ir::Node& node, std::int64_t operand_bytes);

}  // namespace vkfuse::parallel

// Whether the ranks of a job are about to do the same.
#pragma once

#include <string>
#include <vector>

#include "base/shape.hpp"
#include "vkfuse/parallel.hpp"

namespace vkfuse::parallel {

/// Compares the lines that every rank has. ErrorCode::invalid_argument on each where two differ: the sentence names the
/// rank with other lines and the first that differs. Every rank of the job calls it.
Result<void> agree(Transport& transport, const std::vector<std::string>& lines,
                   std::chrono::steady_clock::time_point deadline);

/// A run that a rank is about to begin.
struct RunOf {
  std::uint64_t program = 0;  ///< the same number on every rank, of no other program of the transport
  SymbolValues symbols;
};
/// ErrorCode::invalid_argument on each rank where two begin another run: values of one program would be taken for those
/// of another. Every rank calls it.
Result<void> agree_about_run(Transport& transport, const RunOf& run, std::chrono::steady_clock::time_point deadline);

}  // namespace vkfuse::parallel
